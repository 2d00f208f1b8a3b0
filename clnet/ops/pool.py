"""Pooling in one to three dimensions: maximum, mean and global; x (N, C, *S) -> (N, C, *P), P as in convolution.

Max pooling searches once: `max_pool_index` says which offset of each window won, in the launch that finds the maxima
where a graph holds both, and `max_pool_gradient` adds every cotangent there, element by element in gather form, so
nothing races. Sum pooling and its adjoint are a linear pair; the mean is the sum times one over the number of elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arguments import Ints, Padding, Sizes, per_axis
from ..core.arrays import Array
from ..core.op import OPS, Case, Cotangents, kernel
from ..core.spec import Spec, accept
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from ..errors import ConfigError, ShapeError
from ..kernels.choosers import pool_kernel
from .conv import out_sizes, padding_sides
from .indexing import getitem
from .pointwise import arange, cast, equal, floordiv, maximum, minimum, where
from .reduce import max, mean, positions, sum
from .view import expand, fold_windows, pad, reshape, windows

INF = float("inf")


# --- shapes and samples
def _infer(x: Spec, *, size: Ints, **how: Any) -> Spec:
    accept("pool", "float", [x])
    return Spec((*x.shape[:2], *out_sizes(x.shape[2:], size, **how)), x.dtype)


def _infer_index(x: Spec, *, size: Ints, **how: Any) -> Spec:
    return Spec(_infer(x, size=size, **how).shape, "uint8" if math.prod(size) <= 256 else "int32")


def _infer_back(g: Spec, *rest: Spec, n: Ints, **_: Any) -> Spec:
    return Spec((*g.shape[:2], *n), g.dtype)


_TABLE = (  # x, window, stride, (low, high), dilation
    ((2, 3, 7), (2,), (2,), ((0,), (0,)), (1,)),
    ((2, 2, 6, 34), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    ((1, 3, 7, 8), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    ((2, 1, 6, 20), (2, 3), (1, 1), ((0, 1), (1, 1)), (2, 1)),
    ((1, 2, 4, 5, 6), (2, 3, 2), (2, 1, 2), ((0, 1, 1), (0, 1, 1)), (1, 1, 1)),
)


def _samples() -> list[Case]:
    return [Case((x,), dict(size=k, stride=s, low=low, high=high, dilation=d)) for x, k, s, (low, high), d in _TABLE]


def _samples_back(indexed: bool) -> list[Case]:
    out = []
    for x, k, s, (low, high), d in _TABLE:
        how = dict(size=k, stride=s, low=low, high=high, dilation=d)
        shape = (*x[:2], *out_sizes(x[2:], k, stride=s, low=low, high=high, dilation=d))
        index = (np.arange(math.prod(shape)) * 7 % math.prod(k)).astype("uint8").reshape(shape)
        out.append(Case((shape, index) if indexed else (shape,), dict(how, n=x[2:])))
    return out


# --- references
def _patches(x: Array, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints, value: float) -> Array:
    """(N, C, *P, T): the T values of each window."""
    d = len(size)
    x = np.pad(x, ((0, 0), (0, 0), *zip(low, high, strict=True)), constant_values=value)
    spans = tuple(t * (k - 1) + 1 for k, t in zip(size, dilation, strict=True))
    y = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, 2 + d)))
    y = y[(slice(None), slice(None), *(slice(None, None, s) for s in stride),
           *(slice(None, None, t) for t in dilation))]
    return y.reshape(*y.shape[: 2 + d], math.prod(size))


def _scatter(columns: Array, n: Ints, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints) -> Array:
    """(N, C, *n): columns (N, C, *P, T) added where the windows have them, padding dropped."""
    x = np.zeros((*columns.shape[:2], *(s + a + b for s, a, b in zip(n, low, high, strict=True))), columns.dtype)
    points = columns.shape[2:-1]
    for t, k in enumerate(np.ndindex(*size)):
        at = tuple(slice(i * d, i * d + (p - 1) * s + 1, s)
                   for i, d, p, s in zip(k, dilation, points, stride, strict=True))
        x[(slice(None), slice(None), *at)] += columns[..., t]
    return x[(slice(None), slice(None), *(slice(a, a + s) for a, s in zip(low, n, strict=True)))]


# --- formulas over other ops
def _windows_of(x: Tensor, value: float, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints) -> Tensor:
    """(N, C, *P, *K), a view of x."""
    return windows(pad(x, (0, 0, *low), (0, 0, *high), value=value), size, stride, dilation)


def _last(x: Tensor, size: Ints) -> Tensor:
    return reshape(x, (*x.shape, *(1 for _ in size)))


def _numbers(size: Ints) -> Tensor:
    """Row-major number of each offset of a window."""
    return positions(tuple(size), tuple(range(len(size))))


def _over(size: Ints) -> tuple[int, ...]:
    return tuple(range(-len(size), 0))


def _fold(columns: Tensor, n: Ints, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints) -> Tensor:
    padded = [s + a + b for s, a, b in zip(n, low, high, strict=True)]
    x = fold_windows(columns, padded, size, stride, dilation)
    return getitem(x, (slice(None), slice(None), *(slice(a, a + s) for a, s in zip(low, n, strict=True))))


def _index_formula(x: Tensor, *, size: Ints, **how: Any) -> Tensor:
    win = _windows_of(x, -INF, size, **how)
    arg = OPS["argmax"](win, axes=tuple(range(win.ndim - len(size), win.ndim)))
    return cast(reshape(arg, win.shape[: -len(size)]), "uint8" if math.prod(size) <= 256 else "int32")


def _gradient_formula(g: Tensor, index: Tensor, *, n: Ints, size: Ints, **how: Any) -> Tensor:
    if not g.size:
        return constant(0, g.dtype, (*g.shape[:2], *n))
    return _fold(where(equal(_last(index, size), _numbers(size)), _last(g, size), 0.0), n, size, **how)


def _spread_formula(g: Tensor, *, n: Ints, size: Ints, **how: Any) -> Tensor:
    return _fold(expand(_last(g, size), (*g.shape, *size)), n, size, **how)


# --- ops
@kernel(cl="pool.cl", infer=_infer, accepts="float", samples=_samples, reads=("narrow",), launch=pool_kernel("MAX"),
        define=lambda x, *, size, **how: max(_windows_of(x, -INF, size, **how), _over(size)))
def _max_pool(x: Array, **how: Any) -> Array:
    """y[n, c, p] = max over offsets k of x[n, c, p · stride + k · dilation − low]; padding counts as −∞, NaN wins"""
    return _patches(x, value=-np.inf, **how).max(-1)


@kernel(cl="pool.cl", infer=_infer_index, accepts="float", samples=_samples, reads=("narrow",),
        launch=pool_kernel("INDEX"), define=_index_formula, differentiable=False)
def _max_pool_index(x: Array, **how: Any) -> Array:
    """i[n, c, p] = row-major number of the first offset k at which max_pool finds its maximum (or a NaN)"""
    return _patches(x, value=-np.inf, **how).argmax(-1)


@kernel(cl="pool.cl", infer=_infer_back, accepts="any", samples=lambda: _samples_back(True), reads=("narrow",),
        launch=pool_kernel("MAX_BACK"), define=_gradient_formula)
def _max_pool_gradient(g: Array, index: Array, *, n: Ints, size: Ints, **how: Any) -> Array:
    """x[n, c, h] = Σ over windows p that chose h of g[n, c, p]"""
    chosen = index[..., None] == np.arange(math.prod(size))
    return _scatter(np.where(chosen, g[..., None], 0).astype(g.dtype), n, size, **how)


@kernel(cl="pool.cl", infer=_infer, accepts="float", samples=_samples, reads=("narrow",), launch=pool_kernel("SUM"),
        define=lambda x, *, size, **how: sum(_windows_of(x, 0, size, **how), _over(size)))
def _sum_pool(x: Array, **how: Any) -> Array:
    """y[n, c, p] = Σ over offsets k of x[n, c, p · stride + k · dilation − low], zero outside x"""
    return _patches(x, value=0, **how).sum(-1)


@kernel(cl="pool.cl", infer=_infer_back, accepts="float", samples=lambda: _samples_back(False), reads=("narrow",),
        launch=pool_kernel("SUM_BACK"), define=_spread_formula)
def _sum_pool_gradient(g: Array, *, n: Ints, size: Ints, **how: Any) -> Array:
    """x[n, c, h] = Σ over windows p that contain h of g[n, c, p]: the adjoint of sum_pool"""
    return _scatter(np.broadcast_to(g[..., None], (*g.shape, math.prod(size))), n, size, **how)


# --- derivatives: all linear but the choice of the maximum
@_max_pool.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, **how: Any) -> Cotangents:
    return _max_pool_gradient(g, _max_pool_index(x, **how), n=x.shape[2:], **how)


@_max_pool_gradient.defvjp
def _(u: Tensor, y: Tensor, g: Tensor, index: Tensor, *, n: Ints, size: Ints, **how: Any) -> Cotangents:
    """Read back where each window chose."""
    win = _windows_of(u, 0, size, **how)
    return sum(where(equal(_last(index, size), _numbers(size)), win, 0.0), _over(size)), None


@_sum_pool.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, **how: Any) -> Cotangents:
    return _sum_pool_gradient(g, n=x.shape[2:], **how)


@_sum_pool_gradient.defvjp
def _(u: Tensor, y: Tensor, g: Tensor, *, n: Ints, **how: Any) -> Cotangents:
    return _sum_pool(u, **how)


_max_pool.launch_with(_max_pool_index, pool_kernel("MAX_AND_INDEX"))


# --- what users call
def _settings(who: str, x: TensorLike, size: Sizes, stride: Sizes | None, padding: Padding, dilation: Sizes,
              ceil_mode: bool) -> tuple[Tensor, dict[str, Any], tuple[int, ...]]:
    """x, the attributes of the ops, and the padding at the end that was asked for (ceil_mode may take more)."""
    x = as_tensor(x)
    if x.ndim not in (3, 4, 5):
        raise ShapeError(
            f"{who}: expected x (N, C, *S) with 1 to 3 spatial axes; "
            f"got shape {x.shape}; add the missing axes of size 1.")
    accept(who, "float", [x.spec])
    d = x.ndim - 2
    size = per_axis(who, "size", size, d, 1)
    stride = size if stride is None else per_axis(who, "stride", stride, d, 1)
    dilation = per_axis(who, "dilation", dilation, d, 1)
    low, high = padding_sides(who, padding, size, stride, dilation)
    spans = tuple(t * (k - 1) + 1 for k, t in zip(size, dilation, strict=True))
    if any(2 * p > s for p, s in zip((*low, *high), (*spans, *spans), strict=True)):
        raise ConfigError(
            f"{who}: expected padding of at most half the window; "
            f"got {padding!r} for a window of {size} (dilation {dilation}); pad x itself.")
    n = x.shape[2:]
    if any(s > m + a + b for s, m, a, b in zip(spans, n, low, high, strict=True)):
        raise ShapeError(
            f"{who}: expected a window no larger than the padded input; "
            f"got {size} (dilation {dilation}) on {n} padded by {low} and {high}; use a smaller window.")
    ends = high
    if ceil_mode:
        ends = tuple(b + _ceil_extra(m, a, b, s, t) for m, a, b, s, t in zip(n, low, high, spans, stride, strict=True))
    return x, dict(size=size, stride=stride, low=low, high=ends, dilation=dilation), high


def _ceil_extra(n: int, low: int, high: int, span: int, stride: int) -> int:
    """Padding that a last, partial window needs; none if it would start beyond the input and its low padding."""
    rest = (n + low + high - span) % stride
    count = (n + low + high - span) // stride + 1
    return stride - rest if rest and count * stride < n + low else 0


def max_pool(x: TensorLike, size: Sizes, stride: Sizes | None = None, padding: Padding = 0, dilation: Sizes = 1,
             ceil_mode: bool = False) -> Tensor:
    """y[n, c, p] = max over the window's offsets k of x[n, c, p · stride + k · dilation − padding]

    x (N, C, *S) with 1 to 3 spatial axes; stride defaults to the window. NaN wins; padding counts as −∞;
    the gradient goes to the first maximum in row-major order. ceil_mode adds a last, partial window.
    Raises ShapeError or ConfigError.
    """
    x, how, _ = _settings("max_pool", x, size, stride, padding, dilation, ceil_mode)
    return _max_pool(x, **how)


def max_pool_indices(x: TensorLike, size: Sizes, stride: Sizes | None = None, padding: Padding = 0, dilation: Sizes = 1,
                     ceil_mode: bool = False) -> Tensor:
    """i[n, c, p] = row-major place among the S of x[n, c] where max_pool finds its maximum, the first one; int64

    Shapes, settings and errors as max_pool.
    """
    x, how, _ = _settings("max_pool_indices", x, size, stride, padding, dilation, ceil_mode)
    number = cast(_max_pool_index(x, **how), "int64")
    places, total, step = number.shape[2:], constant(0, "int64"), 1
    for a in reversed(range(len(places))):
        window = reshape(arange(n=places[a], dtype="int64"), (places[a], *(1,) * (len(places) - a - 1)))
        inside = number % how["size"][a] * how["dilation"][a]
        total = total + (window * how["stride"][a] - how["low"][a] + inside) * step
        number, step = floordiv(number, how["size"][a]), step * x.shape[2 + a]
    return total


def avg_pool(x: TensorLike, size: Sizes, stride: Sizes | None = None, padding: Padding = 0, ceil_mode: bool = False,
             count_include_pad: bool = True) -> Tensor:
    """y[n, c, p] = (1 / m) Σ over the window's offsets k of x[n, c, p · stride + k − padding]

    m is the number of elements of the window that lie in x, with its padding counted if count_include_pad.
    Shapes, settings and errors as max_pool.
    """
    x, how, high = _settings("avg_pool", x, size, stride, padding, 1, ceil_mode)
    y = _sum_pool(x, **how)
    total = math.prod(how["size"])
    if how["high"] == high and (count_include_pad or not any((*how["low"], *high))):
        return y * (1.0 / total)
    for axis, (n, k, s, a, b) in enumerate(zip(x.shape[2:], how["size"], how["stride"], how["low"], high, strict=True)):
        start = cast(arange(n=y.shape[2 + axis], dtype="int64"), x.dtype) * float(s) - float(a)
        first, last = (-a, n + b) if count_include_pad else (0, n)
        count = minimum(start + float(k), float(last)) - maximum(start, float(first))
        y = y / reshape(count, tuple(-1 if i == 2 + axis else 1 for i in range(y.ndim)))
    return y


def global_pool(x: TensorLike, mode: str = "avg", keepdims: bool = False) -> Tensor:
    """y[n, c] = mean, max or sum of x[n, c, …] over all spatial axes

    x (N, C, *S) -> (N, C), or (N, C, 1, …) with keepdims. Raises ConfigError for another mode.
    Source: Lin, Chen, Yan 2014.
    """
    x = as_tensor(x)
    folds = {"avg": mean, "max": max, "sum": sum}
    arguments.choice("global_pool", "mode", mode, folds)
    if x.ndim < 3 or 0 in x.shape[2:]:
        raise ShapeError(
            "global_pool: expected x (N, C, *S) with at least one element along each spatial axis; "
            f"got shape {x.shape}.")
    return folds[mode](x, tuple(range(2, x.ndim)), keepdims)
