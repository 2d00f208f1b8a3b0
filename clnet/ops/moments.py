"""What is made of folds over axes: standard deviations, norms, whether any or all elements hold."""

from __future__ import annotations

import numpy as np

from ..core import arguments
from ..core.arguments import Axes
from ..core.function import function
from ..core.op import Case
from ..core.spec import FLOATS
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import DTypeError
from .pointwise import abs, cast, detach, equal, isfinite, log, not_equal, sqrt, where
from .reduce import peak, sum, var
from .view import reshape

FAMILY = "reduce"


@function(lambda: [Case(((3, 7),), dict(axes=1)), Case(((3, 4, 2),), dict(axes=(0, 2), keepdims=True, ddof=1))])
def std(x: TensorLike, axes: Axes = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
    """y = √(Σ (x − mean x)² / max(n − ddof, 0)) over `axes`: NumPy's (ddof=0); PyTorch's is ddof=1.

    The gradient of a line of equal elements is 0. Raises ShapeError, ConfigError.
    """
    return sqrt(var(x, axes, keepdims, ddof))


def log_variance(x: TensorLike, axis: Axes = None, keepdims: bool = False, eps: float = 1e-8) -> Tensor:
    """y = ln(Σ (x − mean x)² / n + ε) over `axis` (None: all). Raises ShapeError, ConfigError for an ε ≤ 0."""
    return log(var(x, axis, keepdims) + arguments.real("log_variance", "eps", eps, above=0.0))


def norm(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = √(Σ x²) over `axes` (None: all), of x scaled by its largest magnitude: no square overflows or vanishes.

    The gradient x / y is 0 where y is. Raises ShapeError; DTypeError for integers.
    """
    x = as_tensor(x)
    if x.dtype not in FLOATS:
        raise DTypeError(f"norm: expected floats; got {x.dtype}; cast it to float32.")
    dims = arguments.axes("norm", axes, x.ndim)
    top = detach(peak(abs(x), dims))
    scale = where(isfinite(top), where(equal(top, 0), 1.0, top), 1.0)
    scaled = x / scale
    y = sqrt(sum(scaled * scaled, dims, keepdims=True)) * scale
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
