"""SciPy's special functions for references, imported when one runs: they would be a quarter of the start-up time."""

from __future__ import annotations

import importlib
from typing import Any


class _Special:
    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("scipy.special"), name)


special = _Special()
