"""Sums over consecutive pieces of a vector, and their adjoint: one or two launches however many pieces there are.

`offsets` (s + 1,) int32 are rising: piece k is [offsets[k], offsets[k + 1]), the last offset is the length of the vector.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import arguments
from ..errors import DTypeError, ShapeError
from ..op import Case, kernel
from ..spec import INTS, Spec, promote
from ..tensor import Tensor, as_tensor
from .pointwise import cast, ones

CHUNK = {"cpu": 1 << 14, "gpu": 1 << 12}  # [elements] that one work-item (work-group) sums
GROUP = 256


def _offsets(name: str, offsets: Spec) -> int:
    """The number of pieces."""
    if offsets.dtype not in INTS or len(offsets.shape) != 1 or offsets.shape[0] < 2:
        raise (ShapeError if offsets.dtype in INTS else DTypeError)(f"{name}: expected integer offsets (pieces + 1,); got {offsets}.")
    return offsets.shape[0] - 1


def _pieces(x: Any, offsets: Any) -> list[slice]:
    edges = [int(o) for o in offsets]
    if edges[0] != 0 or edges[-1] != len(x) or edges != sorted(edges):
        raise ShapeError(f"segment: expected offsets that rise from 0 to {len(x)}; got {edges[0]} to {edges[-1]}.")
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _samples() -> list[Case]:
    even, ragged = np.array([0, 3, 4, 11], np.int32), np.array([0, 1, 1, 70, 20000, 41003], np.int32)
    return [Case(((11,), (11,), even)), Case(((5,), (5,), np.array([0, 5], np.int32))), Case(((41003,), (41003,), ragged))]


def _dot_infer(x: Spec, y: Spec, offsets: Spec) -> Spec:
    if len(x.shape) != 1 or x.shape != y.shape:
        raise ShapeError(f"segment_dot: expected two vectors of one length; got {x.shape} and {y.shape}.")
    return Spec((_offsets("segment_dot", offsets),), promote(x.dtype, y.dtype))


@kernel(cl="segment.cl", samples=_samples, infer=_dot_infer, accepts="any")
def _segment_dot(x: Any, y: Any, offsets: Any) -> Any:
    """z[k] = Σ x[i] · y[i] over offsets[k] ≤ i < offsets[k + 1]"""
    return np.array([np.dot(x[s], y[s]) for s in _pieces(x, offsets)], np.result_type(x, y))


@_segment_dot.defvjp
def _(g: Any, z: Any, x: Any, y: Any, offsets: Any) -> Any:
    spread = segment_spread(g, offsets, x.shape[0])
    return spread * y, spread * x, None


def _spread_samples() -> list[Case]:
    return [Case((((len(c.args[2]) - 1),), c.args[2]), dict(size=int(c.args[2][-1]))) for c in _samples()]


def _spread_infer(v: Spec, offsets: Spec, *, size: int) -> Spec:
    if v.shape != (_offsets("segment_spread", offsets),):
        raise ShapeError(f"segment_spread: expected one value per piece ({offsets.shape[0] - 1}); got {v.shape}.")
    return Spec((size,), v.dtype)


@kernel(cl="segment.cl", samples=_spread_samples, infer=_spread_infer, accepts="any")
def _segment_spread(v: Any, offsets: Any, *, size: int) -> Any:
    """y[i] = v[k] for offsets[k] ≤ i < offsets[k + 1]"""
    return np.repeat(v, [s.stop - s.start for s in _pieces(np.empty(size), offsets)])


@_segment_spread.defvjp
def _(g: Any, y: Any, v: Any, offsets: Any, *, size: int) -> Any:
    return segment_dot(g, ones((size,), g.dtype), offsets), None


# --- launches
def _lanes(device: Any, dtype: str) -> int:
    return 1 if device.kind == "gpu" else max(1, device.vector_width * 4 // max(4, np.dtype(dtype).itemsize))


@_segment_dot.deflaunch
def _(device: Any, operands: Any) -> Any:
    from ..engine.codegen import Stage

    x, y, offsets = operands
    n, pieces = x.shape[0], offsets.shape[0] - 1
    if x.dtype != y.dtype or offsets.dtype != "int32" or not n:
        return None
    gpu = device.kind == "gpu"
    chunk = CHUNK["gpu" if gpu else "cpu"]
    shares = n // chunk + pieces
    items = max(1, min(shares, 4 * device.compute_units, n // 2048 + 1))
    per = -(-shares // items)
    base = dict(N=n, S=pieces, CHUNK=chunk, SHARES=shares, GROUP=GROUP if gpu else 1)
    scratch = {"partial": shares * np.dtype(x.dtype).itemsize}
    few = -(-pieces // max(1, min(pieces // 64, device.compute_units)))
    group = (GROUP if gpu else 1,)
    return [Stage("partial_sums", dict(base, STAGE="PARTIAL", PER=per), (shares * GROUP if gpu else -(-shares // per),), group,
                  lanes=_lanes(device, x.dtype), scratch=scratch, final=False),
            Stage("finish_sums", dict(base, STAGE="FINISH", PER=few), (pieces * GROUP if gpu else -(-pieces // few),), group, (pieces,), scratch=scratch)]


@_segment_spread.deflaunch
def _(device: Any, operands: Any, *, size: int) -> Any:
    from ..engine.codegen import Stage

    v, offsets = operands
    if offsets.dtype != "int32" or not size:
        return None
    defines = dict(N=size, S=offsets.shape[0] - 1, STAGE="SPREAD")
    if device.kind == "gpu":
        return [Stage("spread", dict(defines, GROUP=GROUP), (-(-size // GROUP) * GROUP,), (GROUP,), (size,))]
    items = max(1, min(4 * device.compute_units, size // 4096))
    lanes = _lanes(device, v.dtype)
    chunk = -(-size // items // lanes) * lanes
    return [Stage("spread", dict(defines, CHUNK=chunk), (-(-size // chunk),), (1,), (size,), lanes)]


# --- what users call
def segment_dot(x: Any, y: Any, offsets: Any) -> Tensor:
    """z[k] = Σ x[i] · y[i] over piece k. Deterministic. Raises ShapeError, DTypeError."""
    x, y = as_tensor(x), as_tensor(y)
    dtype = promote(x.dtype, y.dtype)
    result: Tensor = _segment_dot(cast(x, dtype), cast(y, dtype), as_tensor(offsets))
    return result


def segment_spread(v: Any, offsets: Any, size: int) -> Tensor:
    """y[i] = v[k], k the piece of i: a vector of `size` elements. The adjoint of the sum over pieces."""
    result: Tensor = _segment_spread(as_tensor(v), as_tensor(offsets), size=arguments.integer("segment_spread", "size", size, 0))
    return result
