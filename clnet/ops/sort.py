"""Sorting: values, places and the first few along an axis; where values belong in a sorted row.

Sorts are stable: equal elements keep their order, and −0 equals 0. NaN is last in both directions. The gradient of what
is sorted goes back to where each element came from.
"""

from __future__ import annotations

import math

import numpy as np

from ..core import arguments
from ..core.arrays import Array
from ..core.function import function
from ..core.op import Case, Cotangents, kernel
from ..core.spec import Spec
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from ..errors import ConfigError, ShapeError
from ..kernels.choosers import PLACED, SORTED, SORTED_BOTH, SORTED_NUMBERS, TOP
from .index import take_along_axis
from .view import permute, reshape

TIED = np.array([[2, -1, 2, np.nan, -0.0, 0.0, -np.inf, 2], [0, 1, -1, 1, np.nan, -1, np.inf, np.nan]], np.float32)


def _order(x: Array, descending: bool) -> Array:
    """Numbers of the elements of rows, sorted: stable, NaN last."""
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    n = x.shape[-1]
    gone = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    # backwards, what is equal would come in reverse: it is turned first
    turned = np.argsort(np.where(gone, 0, x)[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    back = n - 1 - turned
    last = np.take_along_axis(gone, back, -1)
    return np.take_along_axis(back, np.argsort(last, axis=-1, kind="stable"), -1)


def _rows_infer(x: Spec, *, descending: bool) -> Spec:
    if len(x.shape) != 2:
        raise ShapeError(f"sort: expected rows (r, n); got {x.shape}.")
    return x


def _samples() -> list[Case]:
    """Elements far enough apart that differences of the argument change no order."""
    rng = np.random.default_rng(6)
    whole = rng.integers(-40, 40, (2, 300), np.int32)
    apart = [rng.permutation(n).astype(np.float32)[None] for n in (700, 20000)]
    return [Case(((3, 17),), dict(descending=False)), Case((apart[0],), dict(descending=True)),
            Case((whole,), dict(descending=False)), Case((apart[1],), dict(descending=False)),
            Case((whole.astype(np.uint8),), dict(descending=True))]


def _tied_samples() -> list[Case]:
    return [*_samples(), *(Case((TIED,), dict(descending=d)) for d in (False, True))]


@kernel(cl="sort.cl", samples=_samples, infer=_rows_infer, accepts="any", launch=SORTED,
        define=lambda x, *, descending: constant(0, x.dtype, x.shape))
def _sort(x: Array, *, descending: bool) -> Array:
    """y[r, i] = the element of row r that is i-th: stable, NaN last"""
    return np.take_along_axis(x, _order(x, descending), -1)


@_sort.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *, descending: bool) -> Cotangents:
    return _placed(g, _argsort(x, descending=descending))


@kernel(cl="sort.cl", samples=_tied_samples, differentiable=False, accepts="any", launch=SORTED_NUMBERS,
        infer=lambda x, *, descending: Spec(_rows_infer(x, descending=descending).shape, "int64"),
        define=lambda x, *, descending: constant(0, "int64", x.shape))
def _argsort(x: Array, *, descending: bool) -> Array:
    """y[r, i] = the number in row r of the element that is i-th: stable, NaN last"""
    return _order(x, descending)


_sort.launch_with(_argsort, SORTED_BOTH)


def _placed_samples() -> list[Case]:
    return [Case(((2, 5), np.array([[3, 0, 4, 1, 2], [0, 1, 4, 3, 2]])))]


def _placed_infer(v: Spec, index: Spec) -> Spec:
    if len(v.shape) != 2 or v.shape != index.shape:
        raise ShapeError(f"placed: expected values and indices (r, n); got {v.shape} and {index.shape}.")
    return v


@kernel(cl="sort.cl", samples=_placed_samples, infer=_placed_infer, accepts="any", launch=PLACED,
        define=lambda v, index: constant(0, v.dtype, v.shape))
def _placed(v: Array, index: Array) -> Array:
    """y[r, index[r, i]] = v[r, i], the indices of a row being all of 0 … n − 1: the adjoint of a sort"""
    y = np.empty_like(v)
    np.put_along_axis(y, index, v, -1)
    return y


@_placed.defvjp
def _(u: Tensor, y: Tensor, v: Tensor, index: Tensor) -> Cotangents:
    return take_along_axis(u, index, 1), None


def _top_samples() -> list[Case]:
    return [Case(((3, 170),), dict(k=3, descending=True)), Case((TIED,), dict(k=7, descending=True)),
            Case(((1, 30000),), dict(k=40, descending=False))]


def _top_infer(x: Spec, *, k: int, descending: bool) -> Spec:
    return Spec((_rows_infer(x, descending=descending).shape[0], k), "int64")


@kernel(cl="sort.cl", samples=_top_samples, infer=_top_infer, differentiable=False, accepts="any", launch=TOP,
        define=lambda x, *, k, descending: _argsort(x, descending=descending)[:, :k])
def _top(x: Array, *, k: int, descending: bool) -> Array:
    """y[r, j] = the number in row r of the element that is j-th, j < k: stable, NaN last"""
    return _order(x, descending)[:, :k]


# --- along an axis
def _lines(x: Tensor, axis: int) -> Tensor:
    """x with the axis last, as rows."""
    order = (*(a for a in range(x.ndim) if a != axis), axis)
    return reshape(permute(x, order), (math.prod(x.shape[a] for a in order[:-1]), x.shape[axis]))


def _back(rows: Tensor, like: Tensor, axis: int) -> Tensor:
    """Rows as the lines of an array like `like` along the axis."""
    shape = [n for a, n in enumerate(like.shape) if a != axis]
    order = list(range(like.ndim - 1))
    order.insert(axis, like.ndim - 1)
    return permute(reshape(rows, (*shape, rows.shape[1])), order)


def sort(x: TensorLike, axis: int = -1, descending: bool = False) -> Tensor:
    """y = x in rising (or falling) order along `axis`: stable, NaN last in both directions.

    The gradient goes back to where each element came from. Raises ShapeError.
    """
    x = as_tensor(x)
    axis = arguments.axis("sort", axis, x.ndim)
    return _back(_sort(_lines(x, axis), descending=bool(descending)), x, axis)


def argsort(x: TensorLike, axis: int = -1, descending: bool = False) -> Tensor:
    """y = the int64 indices along `axis` that put x in rising (or falling) order: stable, NaN last in both directions.

    sort(x) and argsort(x) of one x are computed together. Raises ShapeError.
    """
    x = as_tensor(x)
    axis = arguments.axis("argsort", axis, x.ndim)
    return _back(_argsort(_lines(x, axis), descending=bool(descending)), x, axis)


@function(lambda: [Case(((3, 7),), dict(k=3)), Case(((5, 2, 3),), dict(k=2, axis=0, largest=False))])
def topk(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """(values, indices) of the k largest (or smallest) elements along `axis`, in order; of equal ones the first.

    NaN comes last: only where fewer than k elements are numbers (PyTorch takes NaN for the largest). The gradient goes
    to the elements that were chosen. Raises ShapeError, ConfigError for a k that the axis has not.
    """
    x = as_tensor(x)
    axis = arguments.axis("topk", axis, x.ndim)
    k = arguments.integer("topk", "k", k, 0)
    if k > x.shape[axis]:
        raise ConfigError(f"topk: expected k of at most {x.shape[axis]}, the size of axis {axis} of {x.shape}; "
                          f"got {k}.")
    rows = _lines(x, axis)
    index = _top(rows, k=k, descending=bool(largest))
    return _back(take_along_axis(rows, index, 1), x, axis), _back(index, x, axis)
