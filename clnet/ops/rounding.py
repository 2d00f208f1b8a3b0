"""Rounding up or down by chance, so that sums of many small changes come out right in 16 bits."""

from __future__ import annotations

import numpy as np

from ..core.arrays import Array
from ..core.op import Case, pointwise
from ..core.spec import Spec, accept, broadcast_shapes
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from .pointwise import arange, cast
from .view import reshape

FAMILY = "pointwise"
ODD = 0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35  # of an element's, a draw's and a pair's number, so that neighbours differ
MIX = (16, 0x21F0AAAD), (15, 0x735A2D97)  # shifts and factors after which every bit depends on all
MASK = 0xFFFFFFFF


def _reference(x: Array, y: Array) -> Array:
    bits = np.asarray(x, np.float32).view(np.uint32) + np.asarray(y, np.float32).astype(np.uint32)
    return np.where(np.isnan(x), x, (bits & np.uint32(0xFFFF0000)).view(np.float32))


def _infer(x: Spec, y: Spec) -> Spec:
    accept("stochastic_round", "single", (x, y))
    return Spec(broadcast_shapes("stochastic_round", x.shape, y.shape), "float32")


def _samples() -> list[Case]:
    rng = np.random.default_rng(6)
    return [Case((rng.standard_normal(n).astype(np.float32), rng.integers(0, 1 << 16, n).astype(np.float32)))
            for n in (1, 19, 300)]


_up_or_down = pointwise(
    "stochastic_round", "STOCHASTIC(x, y)", _reference, None, accepts="single", args=("x", "y"), infer=_infer,
    samples=_samples, doc="y = x to bfloat16's values: up where its 16 lower bits and y, in [0, 2¹⁶), add up to 2¹⁶")


def stochastic_round(x: TensorLike, draw: TensorLike, number: int = 0) -> Tensor:
    """y = x rounded to bfloat16, to the neighbour above with probability (x − below) / (above − below): E[y] = x.

    x of floats; y float32 with bfloat16's values. `draw` is an integer scalar, another for every draw; `number` that of
    x among what is rounded with the same draw: two share a hash of (draw, number of the element), 16 bits each. It is
    equal on every engine, and takes three multiplications where Philox takes twenty. Raises DTypeError.
    Paper: Gupta, Agrawal, Gopalakrishnan, Narayanan 2015, arXiv:1502.02551; the hash: Wellons 2018, hash-prospector.
    """
    x = cast(x, "float32")
    h = arange(n=x.size, dtype="uint32") * constant(ODD[0], "uint32")
    pair = constant(number // 2 * ODD[2] & MASK, "uint32")
    h = h + (cast(as_tensor(draw), "uint32") * constant(ODD[1], "uint32") + pair)
    for shift, factor in MIX:
        h = (h ^ (h >> constant(shift, "uint32"))) * constant(factor, "uint32")
    high = h >> constant(16, "uint32")
    bits = high if number % 2 == 0 else (h ^ high) & constant(0xFFFF, "uint32")
    return _up_or_down(x, reshape(cast(bits, "float32"), x.shape))
