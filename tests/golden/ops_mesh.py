"""Sums along the collapses of a mesh: (inputs, attributes) -> output."""

from __future__ import annotations

from typing import Any

import torch


def mesh_merge(x: Any, plan: Any, count: int, reverse: bool) -> Any:
    """A product of elementary matrices, one a collapse, or its transpose."""
    whole = torch.eye(len(x)).double()
    for e, a, b, c, d in plan[: 5 * count].reshape(count, 5).tolist():
        step = torch.eye(len(x)).double()
        step[a, e], step[a, b], step[c, e], step[c, d] = 1, 1, 1, 1
        whole = step @ whole
    return (whole.T if reverse else whole) @ x


RULES = {"mesh_merge": mesh_merge}
