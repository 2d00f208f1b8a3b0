"""Sums over consecutive pieces of a vector or of rows, and their adjoint: one or two launches, however many pieces.

`offsets` (s + 1,) int32 are rising: piece k is [offsets[k], offsets[k + 1]),
the last offset is the length of the vector.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from ..core import arguments
from ..core.arrays import Array
from ..core.op import Case, Cotangents, kernel
from ..core.size import varies
from ..core.spec import INTS, Spec, promote
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from ..errors import DTypeError, ShapeError
from ..kernels.choosers import SEGMENT_DOT, SEGMENT_SPREAD, SEGMENT_SUM
from .index import gather
from .pointwise import arange, cast, ones
from .view import reshape


def _offsets(name: str, offsets: Spec) -> int:
    """The number of pieces."""
    if offsets.dtype not in INTS or len(offsets.shape) != 1 or offsets.shape[0] < 2:
        raise (ShapeError if offsets.dtype in INTS else DTypeError)(
            f"{name}: expected integer offsets (pieces + 1,); got {offsets}.")
    return offsets.shape[0] - 1


def _pieces(n: int, offsets: Array) -> list[slice]:
    edges = [int(o) for o in offsets]
    if edges[0] != 0 or edges[-1] != n or edges != sorted(edges):
        raise ShapeError(f"segment: expected offsets that rise from 0 to {n}; got {edges[0]} to {edges[-1]}.")
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _samples() -> list[Case]:
    even, ragged = np.array([0, 3, 4, 11], np.int32), np.array([0, 1, 1, 70, 20000, 41003], np.int32)
    return [Case(((11,), (11,), even)), Case(((5,), (5,), np.array([0, 5], np.int32))),
            Case(((41003,), (41003,), ragged))]


def _dot_infer(x: Spec, y: Spec, offsets: Spec) -> Spec:
    if len(x.shape) != 1 or x.shape != y.shape:
        raise ShapeError(f"segment_dot: expected two vectors of one length; got {x.shape} and {y.shape}.")
    return Spec((_offsets("segment_dot", offsets),), promote(x.dtype, y.dtype))


@kernel(cl="segment.cl", samples=_samples, infer=_dot_infer, accepts="any", launch=SEGMENT_DOT)
def _segment_dot(x: Array, y: Array, offsets: Array) -> Array:
    """z[k] = Σ x[i] · y[i] over offsets[k] ≤ i < offsets[k + 1]"""
    return np.array([np.dot(x[s], y[s]) for s in _pieces(len(x), offsets)], np.result_type(x, y))


@_segment_dot.defvjp
def _(g: Tensor, z: Tensor, x: Tensor, y: Tensor, offsets: Tensor) -> Cotangents:
    spread = segment_spread(g, offsets, x.shape[0])
    return spread * y, spread * x, None


def _spread_samples() -> list[Case]:
    return [Case((((len(c.args[2]) - 1),), c.args[2]), dict(size=int(c.args[2][-1]))) for c in _samples()]


def _spread_infer(v: Spec, offsets: Spec, *, size: int) -> Spec:
    if v.shape != (_offsets("segment_spread", offsets),):
        raise ShapeError(f"segment_spread: expected one value per piece ({offsets.shape[0] - 1}); got {v.shape}.")
    return Spec((size,), v.dtype)


@kernel(cl="segment.cl", samples=_spread_samples, infer=_spread_infer, accepts="any", launch=SEGMENT_SPREAD)
def _segment_spread(v: Array, offsets: Array, *, size: int) -> Array:
    """y[i] = v[k] for offsets[k] ≤ i < offsets[k + 1]"""
    return np.repeat(v, [s.stop - s.start for s in _pieces(size, offsets)])


@_segment_spread.defvjp
def _(g: Tensor, y: Tensor, v: Tensor, offsets: Tensor, *, size: int) -> Cotangents:
    return segment_dot(g, ones((size,), g.dtype), offsets), None


def _sum_samples() -> list[Case]:
    rows = [np.array(o, np.int32) for o in ([0, 3, 4, 11], [0, 0, 5], [0, 1, 1, 70, 200])]
    return [Case(((int(o[-1]), d), o)) for o, d in zip(rows, (4, 1, 21), strict=True)]


def _sum_infer(x: Spec, offsets: Spec) -> Spec:
    if len(x.shape) != 2:
        raise ShapeError(f"segment_sum: expected rows (n, d); got {x.shape}.")
    return Spec((_offsets("segment_sum", offsets), x.shape[1]), x.dtype)


@kernel(cl="segment.cl", samples=_sum_samples, infer=_sum_infer, launch=SEGMENT_SUM,
        define=lambda x, offsets: constant(0, x.dtype, (offsets.shape[0] - 1, x.shape[1])))
def _segment_sum(x: Array, offsets: Array) -> Array:
    """y[k] = Σ x[i] over offsets[k] ≤ i < offsets[k + 1], for rows x[i]"""
    rows = [np.add.reduce(x[s], 0, dtype=np.float64 if x.dtype.kind == "f" else None) for s in _pieces(len(x), offsets)]
    return np.array(rows, x.dtype)


@_segment_sum.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, offsets: Tensor) -> Cotangents:
    piece = segment_spread(arange(n=offsets.shape[0] - 1, dtype="int32"), offsets, x.shape[0])
    return gather(g, piece), None


# --- what users call
def segment_sum(x: TensorLike, offsets: TensorLike) -> Tensor:
    """y[k] = Σ x[i] over piece k, offsets[k] ≤ i < offsets[k + 1]: x (n, …) -> (pieces, …); empty pieces are 0.

    Sums run in the order of i: equal bits on every run. Raises ShapeError, DTypeError.
    """
    x, edges = as_tensor(x), as_tensor(offsets)
    if not x.ndim:
        raise ShapeError("segment_sum: expected x (n, ...); got a scalar.")
    if x.dtype == "bool":
        raise DTypeError("segment_sum: expected numbers; got bool; cast it to int32.")
    count = _offsets("segment_sum", edges.spec)
    if edges.value is not None and not varies(x.shape[0]):
        _pieces(x.shape[0], edges.value)
    rest = math.prod(x.shape[1:])
    if rest == 1:
        return reshape(segment_dot(reshape(x, (x.shape[0],)), ones(x.shape[:1], x.dtype), edges), (count, *x.shape[1:]))
    return reshape(_segment_sum(reshape(x, (x.shape[0], rest)), cast(edges, "int32")), (count, *x.shape[1:]))


def segment_dot(x: TensorLike, y: TensorLike, offsets: TensorLike) -> Tensor:
    """z[k] = Σ x[i] · y[i] over piece k. Deterministic. Raises ShapeError, DTypeError."""
    x, y = as_tensor(x), as_tensor(y)
    dtype = promote(x.dtype, y.dtype)
    return _segment_dot(cast(x, dtype), cast(y, dtype), as_tensor(offsets))


def segment_spread(v: TensorLike, offsets: TensorLike, size: int) -> Tensor:
    """y[i] = v[k], k the piece of i: a vector of `size` elements. The adjoint of the sum over pieces."""
    return _segment_spread(as_tensor(v), as_tensor(offsets),
                           size=arguments.integer("segment_spread", "size", size, 0))
