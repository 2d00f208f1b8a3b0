"""Gathers, scatters and random numbers: each (inputs, attributes) -> output."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from philox import Draws
from rules import More, by


def _inside(index: Any, rows: int) -> tuple[Any, Any]:
    """(which indices are rows, the rows): negative ones count from the end."""
    i = index.long()
    i = torch.where(i < 0, i + rows, i)
    ok = (i >= 0) & (i < rows)
    return ok, i[ok]


def gather(x: Any, index: Any, fill: str) -> Any:
    ok, i = _inside(index, x.shape[1])
    y = torch.full((x.shape[0], len(index), x.shape[2]), math.nan if fill == "nan" else 0.0, dtype=x.dtype)
    return y.index_copy(1, torch.nonzero(ok)[:, 0], x.index_select(1, i))


def scatter_add(source: Any, index: Any, rows: int) -> Any:
    ok, i = _inside(index, rows)
    return torch.zeros(source.shape[0], rows, source.shape[2], dtype=source.dtype).index_add(1, i, source[:, ok])


def gather_elements(x: Any, index: Any, fill: str) -> Any:
    i = torch.where(index < 0, index + x.shape[1], index).long()
    ok = (i >= 0) & (i < x.shape[1])
    return torch.where(ok, x.gather(1, torch.where(ok, i, 0)), math.nan if fill == "nan" else 0.0)


def scatter_elements(source: Any, index: Any, rows: int) -> Any:
    i = torch.where(index < 0, index + rows, index).long()
    ok = (i >= 0) & (i < rows)
    y = torch.zeros(source.shape[0], rows, source.shape[2], dtype=source.dtype)
    return y.scatter_add(1, torch.where(ok, i, 0), torch.where(ok, source, 0))


def scatter_argmax(source: Any, index: Any, rows: int) -> Any:
    """PyTorch's maximum of each row; the first edge that has it."""
    ok, i = _inside(index, rows)
    top = torch.full((source.shape[0], rows, source.shape[2]), -math.inf,
                     dtype=source.dtype).index_reduce(1, i, source[:, ok].detach(), "amax")
    found = torch.full(top.shape, -1)
    for e in reversed(range(len(index))):
        inside, row = _inside(index[e : e + 1], rows)
        if inside.all():
            hit = source[:, e].detach() == top[:, row[0]]
            found[:, row[0]] = torch.where(hit, e, found[:, row[0]])
    return found


def _index_reduce(mode: str) -> Any:
    def rule(source: Any, index: Any, v: int) -> Any:
        return torch.zeros(v, *source.shape[1:], dtype=source.dtype).index_reduce(
            0, index.long(), source, mode, include_self=False)
    return rule


def sparse_matmul(values: Any, row: Any, column: Any, x: Any, rows: int) -> Any:
    places = torch.stack([row.long() % rows, column.long() % x.shape[0]])
    return torch.sparse.mm(torch.sparse_coo_tensor(places, values, (rows, x.shape[0])), x)


def order(x: Any, descending: bool) -> Any:
    """NaN last in both directions: as what comes behind infinity, among which the place decides."""
    x = x.detach().double()
    key = -x if descending else x
    by_place = torch.sort(torch.where(torch.isnan(x), 0.0, key), stable=True).indices
    gone = torch.isnan(x).gather(-1, by_place).to(torch.int8)
    return by_place.gather(-1, torch.sort(gone, stable=True).indices)


def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    y = torch.topk(x, k, axis, largest)
    return y.values, y.indices


def rearranged(x: Any, index: Any, back: Any) -> Any:
    ok, i = index >= 0, index[index >= 0].long()
    return torch.zeros((len(index), x.shape[1]), dtype=x.dtype).index_copy(0, torch.nonzero(ok)[:, 0], x[i])


@by("Philox4x32-10 of the paper, in python integers")
def philox(key: int, counter: int, n: int) -> Any:
    return Draws((key & 0xFFFFFFFF, key >> 32), counter).words((n,)).astype(np.uint32)


@by("Philox4x32-10 of the paper, in python integers")
def bernoulli(p: float, shape: Any, key: int, counter: int) -> Any:
    return Draws((key & 0xFFFFFFFF, key >> 32), counter).uniform(shape) < p


def put_along_axis(x: Any, index: Any, values: Any, axis: int, how: str = "set") -> Any:
    return x.scatter(axis, index, values) if how == "set" else x.scatter_add(axis, index, values)


def scatter_nd(index: Any, values: Any, shape: Any) -> Any:
    return torch.zeros(shape, dtype=values.dtype).index_put(tuple(index.unbind(-1)), values, accumulate=True)


RULES = {
    "put_along_axis": put_along_axis, "scatter_nd": scatter_nd,
    "gather_nd": lambda x, index: x[tuple(index.unbind(-1))],
    "argsort": order, "sort": lambda x, descending: x.gather(-1, order(x, descending)), "topk": topk,
    "top": lambda x, k, descending: order(x, descending)[:, :k],
    "placed": lambda v, index: torch.zeros_like(v).scatter(1, index, v),
    "rearranged": rearranged,
    "gather_elements": gather_elements, "scatter_elements": scatter_elements,
    "gather": gather, "scatter_add": scatter_add, "scatter_argmax": scatter_argmax,
    "scatter_mean": _index_reduce("mean"),
    "scatter_max": _index_reduce("amax"), "sparse_matmul": sparse_matmul,
    "sparse_places": lambda g, row, x, column: (g @ x.T)[row.long(), column.long()],
    "philox": philox, "bernoulli": bernoulli,
}

RNG = np.random.default_rng(31)


def draw(*shape: int) -> Any:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


FAR = np.array([0, 7, -5, 4, -9, 4], np.int64)  # from the end, outside on both sides, twice the same
TIED = np.array([[[2], [5], [5], [-1], [5], [-3]]], np.float32)
LINE = np.array([1, -1, 0, 1, 3, 3], np.int32)
TIED = np.array([[2, -1, 2, np.nan, -0.0, 0.0, -np.inf, 2], [0, 1, -1, 1, np.nan, -1, np.inf, np.nan]], np.float32)
MORE = {
    "sort": [More([TIED], dict(descending=d), slopes=False) for d in (False, True)],
    "gather": [More([draw(2, 5, 3), FAR], dict(fill="nan"), slopes=False),
               More([draw(2, 5, 3), FAR], dict(fill="zero")),
               More([draw(3, 4, 2), np.array([[3, 0], [1, -1]])], dict(axis=1), "index.gather",
                    lambda x, i, axis: x[:, i]),
               More([draw(3, 5), np.array([[4, 0], [1, 1], [2, 3]])], dict(axis=1), "index.take_along_axis",
                    lambda x, i, axis: torch.take_along_dim(x, i, axis))],
    "scatter_add": [More([draw(2, 6, 3), FAR], dict(rows=5)),
                    More([draw(6, 3), np.abs(LINE)], dict(v=6), "index.scatter_add",
                    lambda s, i, v: torch.zeros(v, 3).double().index_add(0, i, s))],
    "scatter_argmax": [More([TIED, LINE], dict(rows=5))],
    "scatter_mean": [More([draw(6, 3), np.abs(LINE)], dict(v=5))],
    "scatter_max": [More([draw(6, 3), np.abs(LINE)], dict(v=5)), More([-np.abs(draw(6, 3)), np.abs(LINE)], dict(v=5))],
    "arange": [More([LINE], dict(classes=5), "index.one_hot",
                    lambda i, classes: torch.eye(classes).double()[np.abs(i)] * (i >= 0).numpy()[:, None])],
    "philox": [More([], dict(key=0xA4093822299F31D0, counter=0xFFFFFFFF, n=1001))],
    "bernoulli": [More([], dict(p=0.125, shape=(40, 25), key=2**40 + 3, counter=9))],
}
