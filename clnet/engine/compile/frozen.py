"""Values as keys."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np


def frozen(value: Any) -> Hashable:
    """A value that is equal where this one is the same: 1, 1.0 and True are three, and so are 0.0 and −0.0."""
    if isinstance(value, dict):
        return tuple((k, frozen(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    if isinstance(value, (bool, float, np.generic)):
        return type(value), repr(value)
    return value


def signed(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Attributes as a key that tells 0.0 and −0.0 apart, which are equal as numbers."""
    return tuple([(k, repr(v)) if isinstance(v, float) and v == 0.0 else (k, v) for k, v in attrs.items()])
