"""Medians, quantiles, covariances, and moments of what is there among NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..core import arguments
from ..core.arguments import Axes
from ..core.function import function
from ..core.op import Case, _float_of
from ..core.size import real, settled
from ..core.spec import is_float
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError, ShapeError
from .arranging import diagonal, outer
from .indexing import getitem
from .joining import stack
from .matmul import matmul
from .moments import count_nonzero
from .pointwise import cast, clip, equal, isfinite, isnan, logical_not, sqrt, where
from .reduce import max, mean, min, sum
from .sort import sort
from .view import permute, reshape

FAMILY = "reduce"
GAPS = np.array([[1.0, np.nan, -2.0, 4.0], [np.nan, np.nan, np.nan, np.nan], [0.5, 3.0, np.nan, -1.0]], np.float32)


# --- among NaN
@function(lambda: [Case((GAPS,)), Case((GAPS,), dict(axes=1, keepdims=True))])
def nansum(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = Σ x over `axes` (None: all), NaN left out. Raises ShapeError."""
    return sum(_filled(x, 0.0), axes, keepdims)


@function(lambda: [Case((GAPS,)), Case((GAPS[::2],), dict(axes=1))])
def nanmean(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = the mean of x over `axes` (None: all), NaN left out; NaN of nothing else. Raises ShapeError."""
    x = as_tensor(x)
    if not is_float(x.dtype):
        return mean(x, axes, keepdims)
    there = cast(count_nonzero(logical_not(isnan(x)), axes, keepdims), x.dtype)
    return nansum(x, axes, keepdims) / there


@function(lambda: [Case((GAPS,)), Case((GAPS[::2],), dict(axes=1))])
def nanmax(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = the largest x over `axes` (None: all), NaN left out; NaN of nothing else. Raises ShapeError."""
    return _extreme(x, axes, keepdims, True)


@function(lambda: [Case((GAPS,)), Case((GAPS[::2],), dict(axes=1))])
def nanmin(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = the least x over `axes` (None: all), NaN left out; NaN of nothing else. Raises ShapeError."""
    return _extreme(x, axes, keepdims, False)


def _filled(x: TensorLike, value: float) -> Tensor:
    """x with a number for NaN."""
    x = as_tensor(x)
    return where(isnan(x), value, x) if is_float(x.dtype) else x


def _extreme(x: TensorLike, axes: Axes, keepdims: bool, largest: bool) -> Tensor:
    x = as_tensor(x)
    y = (max if largest else min)(_filled(x, -math.inf if largest else math.inf), axes, keepdims)
    if not is_float(x.dtype):
        return y
    return where(equal(count_nonzero(logical_not(isnan(x)), axes, keepdims), 0), math.nan, y)


# --- in order
@function(lambda: [Case(((3, 5),), dict(q=0.3, axes=1)), Case(((2, 3, 4),), dict(q=(0.0, 0.5, 0.9), axes=(0, 2)))])
def quantile(x: TensorLike, q: float | Sequence[float], axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = the element at place q · (n − 1) in rising order over `axes` (None: all), between two of them on the line
    through both; several q give a leading axis. NaN where there is one. One sort.

    Raises ConfigError for a q outside [0, 1], ShapeError for no elements.
    """
    x = as_tensor(x)
    dims = arguments.axes("quantile", axes, x.ndim)
    one = isinstance(q, (int, float, np.floating))
    listed = [q] if one else q if isinstance(q, (tuple, list, np.ndarray)) and np.ndim(q) == 1 else [None]
    wanted = [arguments.real("quantile", "q", v, 0.0, most=1.0) for v in listed]
    x = x if is_float(x.dtype) else cast(x, _float_of(x.dtype))
    kept = [a for a in range(x.ndim) if a not in dims]
    n = settled(math.prod(x.shape[a] for a in dims), "places in a row depend on its length")
    if not n or not wanted:
        raise ShapeError(f"quantile: expected at least one element along axes {dims}, and one q; got {x.shape}.")
    row = sort(reshape(permute(x, [*kept, *dims]), (*(x.shape[a] for a in kept), n)))
    gone = isnan(row[..., n - 1])
    found = [where(gone, math.nan, _between(row, v * (n - 1))) for v in wanted]
    if keepdims:
        found = [reshape(y, tuple(1 if a in dims else m for a, m in enumerate(x.shape))) for y in found]
    return found[0] if one else stack(found, 0)


def _between(row: Tensor, place: float) -> Tensor:
    low = math.floor(place)
    first, share = getitem(row, (..., low)), place - low
    if not share:
        return first
    second = getitem(row, (..., low + 1))
    step = second - first  # infinities of one sign have none, and numbers far apart overflow: both ends are weighed
    return where(isfinite(step), first + share * step, (1 - share) * first + share * second)


@function(lambda: [Case(((3, 5),), dict(axes=1)), Case(((2, 3),))])
def median(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = the middle element over `axes` (None: all), of an even number the mean of two, as NumPy (PyTorch takes the
    lower one). NaN where there is one. Raises ShapeError for no elements.
    """
    return quantile(x, 0.5, axes, keepdims)


# --- of several variables
@function(lambda: [Case(((3, 6),)), Case(((5,),), dict(ddof=0))])
def cov(x: TensorLike, ddof: int = 1) -> Tensor:
    """y[i, j] = Σ (x[i] − mean)(x[j] − mean) / (n − ddof): x (variables, n observations) -> (variables, variables), a
    scalar for a vector. Raises ShapeError, ConfigError where n is not above ddof.
    """
    x, ddof = as_tensor(x), arguments.integer("cov", "ddof", ddof, 0)
    if x.ndim not in (1, 2):
        raise ShapeError(f"cov: expected (variables, observations); got {x.shape}.")
    n = x.shape[-1]
    if n <= ddof:
        raise ConfigError(f"cov: expected more than {ddof} observations; got {n}.")
    d = x - mean(x, -1, keepdims=True)
    return (sum(d * d) if x.ndim == 1 else matmul(d, d.mT)) / real(n - ddof)


@function(lambda: [Case(((3, 6),))])
def corrcoef(x: TensorLike) -> Tensor:
    """y[i, j] = cov[i, j] / √(cov[i, i] · cov[j, j]), in [−1, 1]: x (variables, observations); NaN of a variable that
    is constant. 1 for a vector. Raises ShapeError, ConfigError.
    """
    c = cov(x)
    if not c.ndim:
        return c / c
    scale = sqrt(diagonal(c))
    return clip(c / outer(scale, scale), -1.0, 1.0)


@function(lambda: [Case(((3, 5),)), Case(((4, 3),), dict(n=2, axis=0))])
def diff(x: TensorLike, n: int = 1, axis: int = -1) -> Tensor:
    """y[i] = x[i + 1] − x[i] along `axis`, n times over. Raises ShapeError, ConfigError; DTypeError for bools."""
    x, n = as_tensor(x), arguments.integer("diff", "n", n, 0)
    axis = arguments.axis("diff", axis, x.ndim)
    lead = (slice(None),) * axis
    for _ in range(n):
        x = getitem(x, (*lead, slice(1, None))) - getitem(x, (*lead, slice(0, -1)))
    return x
