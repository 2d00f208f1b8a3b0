"""What is made of folds over axes: standard deviations, norms, whether any or all elements hold."""

from __future__ import annotations

import numpy as np

from ..core import arguments
from ..core.arguments import Axes
from ..core.formula import composite
from ..core.function import function
from ..core.op import Case, Cotangents
from ..core.spec import FLOATS
from ..core.tensor import Tensor, TensorLike, as_tensor, widened
from ..errors import DTypeError
from .pointwise import cast, equal, log, not_equal, sqrt, where
from .reduce import sum, var
from .view import reshape

FAMILY = "reduce"
# Of `norm`: what small and large numbers are scaled by, and between which sums of squares x² itself has all digits.
SCALES = {"float32": (2.0**63, 2.0**-80, 2.0**-70, 2.0**100), "float64": (2.0**511, 2.0**-600, 2.0**-900, 2.0**900)}


@function(lambda: [Case(((3, 7),), dict(axes=1)), Case(((3, 4, 2),), dict(axes=(0, 2), keepdims=True, ddof=1))])
def std(x: TensorLike, axes: Axes = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
    """y = √(Σ (x − mean x)² / max(n − ddof, 0)) over `axes`: NumPy's (ddof=0); PyTorch's is ddof=1.

    The gradient of a line of equal elements is 0. Raises ShapeError, ConfigError.
    """
    return sqrt(var(x, axes, keepdims, ddof))


def log_variance(x: TensorLike, axis: Axes = None, keepdims: bool = False, eps: float = 1e-8) -> Tensor:
    """y = ln(Σ (x − mean x)² / n + ε) over `axis` (None: all). Raises ShapeError, ConfigError for an ε ≤ 0."""
    return log(var(x, axis, keepdims) + arguments.real("log_variance", "eps", eps, above=0.0))


@composite(accepts="float", samples=lambda: [Case(((3, 7),), dict(axes=(1,))), Case(((2, 3, 33),), dict(axes=(0, 2)))])
def _euclidean_norm(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """y = √(Σ x²) over `axes`, of which 1 element stays

    Three sums: of x², and of (x · up)² and (x · down)², by powers of two, for lines whose squares nearly vanish or
    overflow. Paper: Blue 1978, "A Portable Fortran Program to Find the Euclidean Norm of a Vector".
    """
    wide = widened(x)
    up, down, least, most = SCALES["float64" if x.dtype == "float64" else "float32"]
    small, plain, large = (sum(t * t, axes, keepdims=True) for t in (wide * up, wide, wide * down))
    y = where(plain < least, sqrt(small) / up, where(plain < most, sqrt(plain), sqrt(large) / down))
    return y.astype(x.dtype)


@_euclidean_norm.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: tuple[int, ...]) -> Cotangents:
    return g * (x / where(equal(y, 0), 1.0, y))


def norm(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = √(Σ x²) over `axes` (None: all), in one pass; no square overflows or vanishes.

    The gradient x / y is 0 where y is. Raises ShapeError; DTypeError for integers.
    """
    x = as_tensor(x)
    if x.dtype not in FLOATS:
        raise DTypeError(f"norm: expected floats; got {x.dtype}; cast it to float32.")
    dims = arguments.axes("norm", axes, x.ndim)
    y = _euclidean_norm(x, axes=dims)
    return y if keepdims else reshape(y, tuple(n for a, n in enumerate(x.shape) if a not in dims))


@function(lambda: [Case(((3, 4),), dict(axes=1))], differentiable=False)
def any(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = whether an element over `axes` (None: all) is other than 0, as bool; False of no elements. NaN is other than
    0.
    """
    return _folded(True, x, axes, keepdims)


@function(lambda: [Case(((3, 4),), dict(axes=1))], differentiable=False)
def all(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = whether every element over `axes` (None: all) is other than 0, as bool; True of no elements. NaN is other
    than 0.
    """
    return _folded(False, x, axes, keepdims)


@function(lambda: [Case((np.array([[0, 3, -1], [0, 0, 2]], np.int32),), dict(axes=1))], differentiable=False)
def count_nonzero(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = how many elements over `axes` (None: all) are other than 0, as int64. NaN is other than 0."""
    return sum(not_equal(as_tensor(x), 0), axes, keepdims)


def _folded(some: bool, x: TensorLike, axes: Axes, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    holds = cast(not_equal(x, 0), "int32")
    count = sum(holds if some else 1 - holds, axes, keepdims)
    return not_equal(count, 0) if some else equal(count, 0)
