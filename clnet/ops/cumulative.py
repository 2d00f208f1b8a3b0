"""Running sums, products, maxima along an axis: one or two walks over it, in an order that the shape alone decides."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..core import arguments
from ..core.arrays import Array
from ..core.function import function
from ..core.op import Case, Cotangents, _sum_dtype, kernel
from ..core.spec import FLOATS, Spec
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from ..errors import DTypeError, ShapeError
from ..kernels.choosers import CUMULATIVE
from .index import take_along_axis
from .pointwise import cast, equal, exp, log, where
from .view import reshape

NOTHING = -1e30  # the logarithm of what adds nothing: −∞ would leave NaN where both sides are


def _places(x: Array) -> Array:
    """The number of the first maximum so far along axis 1, NaN above all."""
    top = np.maximum.accumulate(x, 1)
    new = np.ones(x.shape, bool)
    new[:, 1:] = (x[:, 1:] > top[:, :-1]) | ((x[:, 1:] != x[:, 1:]) & (top[:, :-1] == top[:, :-1]))
    return np.maximum.accumulate(np.where(new, np.arange(x.shape[1])[:, None], 0), 1)


WAYS: dict[str, Callable[[Array], Array]] = {
    "SUM": lambda x: np.add.accumulate(x, 1), "PRODUCT": lambda x: np.multiply.accumulate(x, 1),
    "LOGADDEXP": lambda x: np.logaddexp.accumulate(x, 1), "MAXIMUM": _places}


def _samples() -> list[Case]:
    def case(shape: tuple[int, ...], how: str, reverse: bool = False) -> Case:
        return Case((shape,), dict(how=how, out="int64" if how == "MAXIMUM" else "float32", reverse=reverse))

    return [case((2, 7, 3), "SUM"), case((2, 5, 3), "PRODUCT", True), case((2, 6, 2), "LOGADDEXP"),
            case((2, 5, 70), "SUM", True), case((1, 140000, 1), "SUM"), case((2, 5, 3), "MAXIMUM")]


def _infer(x: Spec, *, how: str, out: str, reverse: bool) -> Spec:
    if len(x.shape) != 3:
        raise ShapeError(f"cumulative: expected x (a, n, d); got {x.shape}.")
    return Spec(x.shape, out)


@kernel(cl="cumulative.cl", samples=_samples, infer=_infer, accepts="any", launch=CUMULATIVE,
        define=lambda x, *, how, out, reverse: constant(0, out, x.shape))
def _cumulative(x: Array, *, how: str, out: str, reverse: bool) -> Array:
    """y[a, i, d] = x[a, 0, d] ∘ … ∘ x[a, i, d], ∘ a sum, product, ln(eᵃ + eᵇ), or the number of the first maximum"""
    x = x if x.dtype.kind == "f" or how == "MAXIMUM" else x.astype(out)
    if not reverse:
        return WAYS[how](x)
    y = WAYS[how](x[:, ::-1])[:, ::-1]
    return x.shape[1] - 1 - y if how == "MAXIMUM" else y


@_cumulative.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *, how: str, out: str, reverse: bool) -> Cotangents:
    def back(v: Tensor, way: str = "SUM") -> Tensor:
        return _cumulative(v, how=way, out=v.dtype, reverse=not reverse)

    if how == "SUM":
        return back(g)
    if how == "PRODUCT":
        return _to_factors(g, y, x, out, reverse)
    if how == "LOGADDEXP":  # dxᵢ = Σ gⱼ exp(xᵢ − yⱼ) over the j that xᵢ is in, of positive and negative g apart
        def share(v: Tensor) -> Tensor:
            some = v > 0
            return exp(x + back(where(some, log(where(some, v, 1.0)) - y, NOTHING), "LOGADDEXP"))

        return share(g) - share(-g)
    return None


def _to_factors(g: Tensor, y: Tensor, x: Tensor, out: str, reverse: bool) -> Tensor:
    """dxᵢ = Σ gⱼ yⱼ / xᵢ; at the first zero the products of the others, and 0 behind it."""
    def run(v: Tensor, how: str, turned: bool) -> Tensor:
        return _cumulative(v, how=how, out=v.dtype, reverse=turned)

    zero = equal(x, 0)
    before = run(cast(zero, "int64"), "SUM", reverse)
    first = zero & equal(before, 1)
    others = run(where(first, 1.0, x), "PRODUCT", reverse)
    plain = run(g * y, "SUM", not reverse) / where(zero, 1.0, x)
    return where(equal(before, 0), plain, where(first, run(g * others, "SUM", not reverse), 0.0))


def _along(who: str, x: TensorLike, axis: int, how: str, wide: bool = False) -> Tensor:
    x = as_tensor(x)
    axis = arguments.axis(who, axis, x.ndim)
    lines = reshape(x, (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])))
    out = "int64" if how == "MAXIMUM" else _sum_dtype(x.dtype) if wide else x.dtype
    return reshape(_cumulative(lines, how=how, out=out, reverse=False), x.shape)


@function(lambda: [Case(((3, 7),), dict(axis=1)), Case(((3, 4, 2),), dict(axis=0))])
def cumsum(x: TensorLike, axis: int = -1) -> Tensor:
    """y[i] = x[0] + … + x[i] along `axis`. Bool and small integers sum in 64 bits, float32 in float64 where the device
    has it. Raises ShapeError.
    """
    return _along("cumsum", x, axis, "SUM", True)


@function(lambda: [Case(((3, 7),), dict(axis=1)), Case(((3, 4, 2),), dict(axis=0))])
def cumprod(x: TensorLike, axis: int = -1) -> Tensor:
    """y[i] = x[0] · … · x[i] along `axis`. Bool and small integers in 64 bits. The gradient holds at zeros, too.
    Raises ShapeError.
    """
    return _along("cumprod", x, axis, "PRODUCT", True)


@function(lambda: [Case(((3, 7),), dict(axis=1)), Case(((3, 4, 2),), dict(axis=0))])
def cummax(x: TensorLike, axis: int = -1) -> tuple[Tensor, Tensor]:
    """(values, indices) of the largest of x[0] … x[i] along `axis`; of equal ones the first (PyTorch: the last). From
    a NaN on all are NaN. The gradient goes to the maxima. Raises ShapeError.
    """
    x = as_tensor(x)
    index = _along("cummax", x, axis, "MAXIMUM")
    return take_along_axis(x, index, axis), index


@function(lambda: [Case(((3, 7),), dict(axis=1)), Case(((3, 4, 2),), dict(axis=0))])
def logcumsumexp(x: TensorLike, axis: int = -1) -> Tensor:
    """y[i] = ln(exp x[0] + … + exp x[i]) along `axis`, without overflow. Raises ShapeError; DTypeError for integers."""
    x = as_tensor(x)
    if x.dtype not in FLOATS:
        raise DTypeError(f"logcumsumexp: expected floats; got {x.dtype}; cast it to float32.")
    return _along("logcumsumexp", x, axis, "LOGADDEXP")
