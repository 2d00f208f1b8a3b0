"""Sums over pieces of a vector."""

from __future__ import annotations

import itertools
from typing import Any

import torch

RULES: dict[str, Any] = {
    "segment_dot": lambda x, y, o: torch.stack([x[a:b] @ y[a:b] for a, b in itertools.pairwise(o)]),
    "segment_sum": lambda x, o: torch.stack([x[a:b].sum(0) for a, b in itertools.pairwise(o)]),
    "segment_spread": lambda v, o, size: torch.repeat_interleave(v, torch.diff(o)),
}
