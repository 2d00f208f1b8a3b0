"""Products with sparse matrices given by their entries (value, row, column) in any order:
only what is there is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import arguments
from ..core.arrays import Array
from ..core.op import Case, Cotangents, kernel
from ..core.spec import INTS, Spec, promote
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import DTypeError, ShapeError
from ..kernels.choosers import SPARSE_PLACES, SPARSE_PRODUCT
from .index import _rows
from .pointwise import zeros


def _entries(rows: int, columns: int, count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(6)
    return rng.integers(0, rows, count).astype(np.int32), rng.integers(0, columns, count).astype(np.int32)


def _samples() -> list[Case]:
    few = np.array([0, 0, 1, 3, 3, -1], np.int32), np.array([1, 4, 0, 2, 3, -1], np.int32)
    return [Case(((6,), *few, (5, 7)), dict(rows=4)), Case(((1,), few[0][:1], few[1][1:2], (5, 1)), dict(rows=1)),
            Case(((90,), *_entries(11, 13, 90), (13, 83)), dict(rows=11))]


def _places_samples() -> list[Case]:
    few = np.array([0, 0, 1, 3, 3, -1], np.int32), np.array([1, 4, 0, 2, 3, -1], np.int32)
    row, column = _entries(11, 13, 90)
    return [Case(((4, 7), few[0], (5, 7), few[1])), Case(((11, 83), row, (13, 83), column))]


def _checked(who: str, entries: list[Spec], matrices: list[Spec]) -> str:
    """The dtype of the result. Raises ShapeError, DTypeError."""
    if (any(len(e.shape) != 1 or e.shape != entries[0].shape for e in entries)
            or any(len(m.shape) != 2 for m in matrices)):
        raise ShapeError(
            f"{who}: expected values, row and column of one length and matrices; "
            f"got {[e.shape for e in entries]} and {[m.shape for m in matrices]}.")
    if any(e.dtype not in INTS for e in entries[-2:]):
        raise DTypeError(
            f"{who}: expected integer rows and columns; "
            f"got {entries[-2].dtype} and {entries[-1].dtype}; cast them to int32.")
    return promote(*(m.dtype for m in matrices), *(e.dtype for e in entries[:-2]))


def _infer(values: Spec, index: Spec, column: Spec, x: Spec, *, rows: int) -> Spec:
    return Spec((rows, x.shape[-1]), _checked("sparse_matmul", [values, index, column], [x]))


@kernel(cl="sparse.cl", samples=_samples, infer=_infer, accepts="float", launch=SPARSE_PRODUCT)
def _sparse_matmul(values: Array, index: Array, column: Array, x: Array, *, rows: int) -> Array:
    """y[v, d] = Σ of values[e] · x[column[e], d] over e with index[e] = v; entries outside are dropped"""
    v, c = _rows(index, rows), _rows(column, x.shape[0])
    inside = (v < rows) & (c < x.shape[0])
    y = np.zeros((rows, x.shape[1]), x.dtype)
    np.add.at(y, v[inside], values[inside, None] * x[c[inside]])
    return y


@_sparse_matmul.defvjp
def _(g: Tensor, y: Tensor, values: Tensor, index: Tensor, column: Tensor, x: Tensor, *, rows: int) -> Cotangents:
    return _sparse_places(g, index, x, column), None, None, _sparse_matmul(values, column, index, g, rows=x.shape[0])


def _places_infer(g: Spec, index: Spec, x: Spec, column: Spec) -> Spec:
    return Spec(index.shape, _checked("sparse_places", [index, column], [g, x]))


@kernel(cl="sparse.cl", samples=_places_samples, infer=_places_infer, accepts="float", launch=SPARSE_PLACES)
def _sparse_places(g: Array, index: Array, x: Array, column: Array) -> Array:
    """y[e] = Σ over d of g[index[e], d] · x[column[e], d]: the entries of g · xᵀ at some places; those outside are 0"""
    v, c = _rows(index, g.shape[0]), _rows(column, x.shape[0])
    inside = (v < g.shape[0]) & (c < x.shape[0])
    y = np.zeros(v.shape, g.dtype)
    y[inside] = (g[v[inside]] * x[c[inside]]).sum(1)
    return y


@_sparse_places.defvjp
def _(h: Tensor, y: Tensor, g: Tensor, index: Tensor, x: Tensor, column: Tensor) -> Cotangents:
    to_g, to_x = (_sparse_matmul(h, index, column, x, rows=g.shape[0]),
                  _sparse_matmul(h, column, index, g, rows=x.shape[0]))
    return to_g, None, to_x, None


def sparse_matmul(values: TensorLike, row: TensorLike, column: TensorLike, x: TensorLike, rows: int) -> Tensor:
    """y = S · x, S[row[k], column[k]] = values[k] and 0 elsewhere

    values, row, column (nnz), x (n, batch), y (rows, batch). Equal places add up; every row of y is summed
    in the order of k. The gradient of S stays in its places: dvalues[k] = Σ over the batch of g[row[k]] · x[column[k]];
    dx = Sᵀ · g. Raises IndexingError for places outside that the host knows of (on the device they are dropped),
    ShapeError, DTypeError.
    """
    values, row, column, x = map(as_tensor, (values, row, column, x))
    rows = arguments.integer("sparse_matmul", "rows", rows, 0)
    _checked("sparse_matmul", [values.spec, row.spec, column.spec], [x.spec])
    arguments.indices("sparse_matmul", row, rows)
    arguments.indices("sparse_matmul", column, x.shape[0])
    dtype = promote(values.dtype, x.dtype)
    if not values.size:
        return zeros((rows, x.shape[-1]), dtype)
    return _sparse_matmul(values.astype(dtype), row, column, x.astype(dtype), rows=rows)
