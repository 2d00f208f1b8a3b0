"""Whether elements are near, equal, infinite; what takes the place of those that are not finite."""

from __future__ import annotations

import numpy as np

from ..core import arguments
from ..core.function import function
from ..core.op import Case
from ..core.spec import is_float, np_dtype
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import DTypeError
from .moments import all
from .pointwise import abs, equal, full, isfinite, isnan, less_equal, not_equal, where

FAMILY = "pointwise"
ODD = np.array([[1.0, np.nan, np.inf], [-np.inf, 0.0, -2.5]], np.float32)
NEAR = np.array([[1.0, np.nan, np.inf], [np.inf, 1e-9, -2.50001]], np.float32)


@function(lambda: [Case((ODD,))], differentiable=False)
def isinf(x: TensorLike) -> Tensor:
    """y = whether x is ∞ or −∞, as bool. Raises DTypeError for integers."""
    return equal(abs(_floats("isinf", x)), float("inf"))


@function(lambda: [Case((ODD, NEAR)), Case((ODD, NEAR), dict(equal_nan=True, rtol=1e-7))], differentiable=False)
def isclose(x: TensorLike, y: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """z = whether |x − y| ≤ atol + rtol · |y|, as bool: infinities are close to themselves, NaN is to NaN where
    `equal_nan`. Raises ConfigError for tolerances below 0.
    """
    x, y = as_tensor(x), as_tensor(y)
    rtol, atol = (arguments.real("isclose", name, v, 0.0) for name, v in (("rtol", rtol), ("atol", atol)))
    x, y = (t if is_float(t.dtype) else t * 1.0 if t.dtype != "bool" else where(t, 1.0, 0.0) for t in (x, y))
    near = less_equal(abs(x - y), atol + rtol * abs(y)) & isfinite(y)
    near = near | equal(x, y)
    return near | (isnan(x) & isnan(y)) if equal_nan else near


@function(lambda: [Case((ODD, ODD), dict(equal_nan=True)), Case((ODD, NEAR))], differentiable=False)
def allclose(x: TensorLike, y: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close, as `isclose` has it: a bool, on the device; `if allclose(x, y):` reads it."""
    return all(isclose(x, y, rtol, atol, equal_nan))


@function(lambda: [Case((ODD, ODD), dict(equal_nan=True)), Case((ODD, NEAR[:1]))], differentiable=False)
def array_equal(x: TensorLike, y: TensorLike, equal_nan: bool = False) -> Tensor:
    """Whether shapes and all elements are equal: a bool, on the device (PyTorch's equal). NaN equals NaN where
    `equal_nan`.
    """
    x, y = as_tensor(x), as_tensor(y)
    if x.shape != y.shape:
        return full((), False, "bool")
    same = equal(x, y)
    both = equal_nan and is_float(x.dtype) and is_float(y.dtype)
    return all(same | (isnan(x) & isnan(y)) if both else same)


@function(lambda: [Case((ODD,), dict(posinf=7.0, neginf=-8.0)),
                   Case((ODD,), dict(nan=-1.0, posinf=9.0, neginf=-9.0))])
def nan_to_num(x: TensorLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """y = x with numbers for NaN and ±∞; None: the largest and the least that the dtype has. Integers stay as they are.
    The gradient there is 0. Raises ConfigError.
    """
    x = as_tensor(x)
    if not is_float(x.dtype):
        return x
    import ml_dtypes

    ends = ml_dtypes.finfo(np_dtype(x.dtype))
    gone, high, low = (arguments.real("nan_to_num", name, v) for name, v in (
        ("nan", nan), ("posinf", float(ends.max) if posinf is None else posinf),
        ("neginf", float(ends.min) if neginf is None else neginf)))
    finite = where(x > 0, high, where(x < 0, low, gone))
    return where(isfinite(x), x, finite)


def _truth(x: TensorLike) -> Tensor:
    return not_equal(as_tensor(x), 0)


@function(lambda: [Case((ODD, NEAR[:1] - 1))], differentiable=False)
def logical_and(x: TensorLike, y: TensorLike) -> Tensor:
    """z = whether both are other than 0, as bool. NaN is other than 0."""
    return _truth(x) & _truth(y)


@function(lambda: [Case((ODD, NEAR[:1] - 1))], differentiable=False)
def logical_or(x: TensorLike, y: TensorLike) -> Tensor:
    """z = whether one of them is other than 0, as bool. NaN is other than 0."""
    return _truth(x) | _truth(y)


@function(lambda: [Case((ODD, NEAR[:1] - 1))], differentiable=False)
def logical_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """z = whether one of them alone is other than 0, as bool. NaN is other than 0."""
    return _truth(x) ^ _truth(y)


def _floats(who: str, x: TensorLike) -> Tensor:
    x = as_tensor(x)
    if not is_float(x.dtype):
        raise DTypeError(f"{who}: expected floats; got {x.dtype}; integers are finite.")
    return x
