"""Sums over the edges of a graph: each (inputs, attributes) -> output."""

from __future__ import annotations

import math
from typing import Any

import torch


def _ends(target: Any, source: Any, at: Any, out: Any, reverse: bool) -> tuple[Any, Any, Any, int]:
    """(edges with both ends inside, the node that each adds to, the one that it reads, how many nodes are added to)"""
    rows, others = len(at) - 1, len(out) - 1
    inside = torch.nonzero((target < rows) & (source < others))[:, 0]
    ends = target.long()[inside], source.long()[inside]
    return (inside, ends[1], ends[0], others) if reverse else (inside, *ends, rows)


def edge_sum(w: Any, x: Any, target: Any, source: Any, back: Any, at: Any, out: Any, reverse: bool) -> Any:
    e, to, other, rows = _ends(target, source, at, out, reverse)
    return torch.zeros(rows, *x.shape[1:], dtype=x.dtype).index_add(0, to, w[e, :, None] * x[other])


def edge_dot(g: Any, x: Any, target: Any, source: Any, back: Any, at: Any, out: Any) -> Any:
    e, to, other, _ = _ends(target, source, at, out, False)
    return torch.zeros(len(target), g.shape[1], dtype=g.dtype).index_add(0, e, (g[to] * x[other]).sum(-1))


def _own(target: Any, source: Any, at: Any, out: Any, reverse: bool) -> tuple[Any, Any, int]:
    index, rows = (source, len(out) - 1) if reverse else (target, len(at) - 1)
    inside = torch.nonzero(index < rows)[:, 0]
    return inside, index.long()[inside], rows


def edge_total(x: Any, target: Any, source: Any, back: Any, at: Any, out: Any, reverse: bool) -> Any:
    e, to, rows = _own(target, source, at, out, reverse)
    return torch.zeros(rows, x.shape[1], dtype=x.dtype).index_add(0, to, x[e])


def edge_take(x: Any, target: Any, source: Any, back: Any, at: Any, out: Any, reverse: bool) -> Any:
    e, to, _ = _own(target, source, at, out, reverse)
    return torch.zeros(len(target), x.shape[1], dtype=x.dtype).index_add(0, e, x[to])


def edge_max(x: Any, target: Any, source: Any, back: Any, at: Any, out: Any, reverse: bool) -> Any:
    e, to, rows = _own(target, source, at, out, reverse)
    return torch.zeros(rows, x.shape[1], dtype=x.dtype).index_reduce(0, to, x[e], "amax", include_self=False)


def edge_argmax(x: Any, target: Any, source: Any, back: Any, at: Any, out: Any, reverse: bool) -> Any:
    e, to, rows = _own(target, source, at, out, reverse)
    x = x.detach()
    top = torch.full((rows, x.shape[1]), -math.inf, dtype=x.dtype).index_reduce(0, to, x[e], "amax")
    found = torch.full(top.shape, -1)
    for edge, node in reversed(list(zip(e.tolist(), to.tolist(), strict=True))):
        found[node] = torch.where(x[edge] == top[node], edge, found[node])
    return found


def edge_order(index: Any, rows: int) -> Any:
    return torch.sort(torch.where((index < 0) | (index >= rows), rows, index), stable=True).indices


RULES = {
    "edge_sum": edge_sum, "edge_dot": edge_dot, "edge_total": edge_total, "edge_take": edge_take,
    "edge_max": edge_max, "edge_argmax": edge_argmax, "edge_order": edge_order,
    "edge_offsets": lambda index, rows: torch.searchsorted(index.contiguous(), torch.arange(rows + 1)),
}
