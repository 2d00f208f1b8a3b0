"""What tensors ask for, as a key: equal for equal work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor, in_order
from .frozen import signed


def signature(roots: Sequence[Tensor], known: Callable[[Tensor], bool]) -> tuple[tuple[Any, ...], list[Tensor]]:
    """A hashable description of the graph's structure, equal for equal work, and the leaves
    in the order it numbers them.
    """
    numbers: dict[int, int] = {}
    leaves: list[Tensor] = []
    rows: list[Any] = []
    for t in in_order(roots, stop=known):
        numbers[id(t)] = len(numbers)
        if known(t):
            rows.append(t.spec)
            leaves.append(t)
        else:
            assert t.op is not None
            rows.append((t.op.key, tuple(numbers[id(i)] for i in t.inputs), signed(lasting(t.attrs)), t.spec))
    return (tuple(rows), tuple(numbers[id(r)] for r in roots)), leaves


def lasting(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes as plans may keep them: a checkpointed region is what gradients need, and its tensors would stay on
    the device with the plan.
    """
    return {**attrs, "region": None} if "region" in attrs else attrs
