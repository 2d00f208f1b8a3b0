"""Batch, group and instance normalisation: a scale and a shift for each channel.

Each is a formula of folds and maps; where the statistics of a sample lie side by side, a row kernel stands in.
"""

from __future__ import annotations

import math

from ..core import arguments
from ..core.autocast import wide
from ..core.formula import composite
from ..core.op import Case, Cotangents
from ..core.size import real
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from ..errors import ConfigError, ShapeError
from .normalization import _standardize
from .pointwise import maximum, minimum, rsqrt
from .reduce import detach, mean, sum
from .view import reshape

FAMILY = "normalize"


def _moments(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """(E[x], Var[x]), keeping the axes, from one pass: sums of x less a typical element,
    so that neither a large mean nor one outlier costs accuracy.
    """
    x = wide(x)
    a, b, c = (detach(x[tuple(slice(k := part * (n - 1) // 2, k + 1) if axis in axes else slice(None)
                              for axis, n in enumerate(x.shape))])
               for part in range(3))
    middle = maximum(minimum(a, b), minimum(maximum(a, b), c))  # the median of three
    d = x - middle
    off = mean(d, axes, keepdims=True)
    return middle + off, maximum(mean(d * d, axes, keepdims=True) - off * off, 0.0)


@composite(cl="normalize.cl", accepts="float", samples=lambda: [
    Case((s, p, p), dict(axes=a, eps=1e-5))
    for s, p, a in (((4, 3, 9), (1, 3, 1), (0, 2)), ((5, 4), (1, 4), (0,)), ((3, 2, 4, 5), (1, 2, 1, 1), (0, 2, 3)))])
def _standardize_affine(x: Tensor, gamma: Tensor, beta: Tensor, *, axes: tuple[int, ...], eps: float) -> Tensor:
    """y = γ · (x − E[x]) / √(Var[x] + ε) + β over the axes, biased variance; γ and β have size 1 along them"""
    center, spread = _moments(x, axes)
    return (x - center) * rsqrt(spread + eps) * gamma + beta


@_standardize_affine.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, *, axes: tuple[int, ...], eps: float) -> Cotangents:
    """dβ = Σ g, dγ = Σ g x̂, dx = γ r · (g − dβ / n − x̂ dγ / n): two sums for all three."""
    center, spread = _moments(x, axes)
    r = rsqrt(spread + eps)
    xh = (x - center) * r
    shift, scale = sum(g, axes, keepdims=True), sum(g * xh, axes, keepdims=True)
    n = real(math.prod(x.shape[a] for a in axes))
    return gamma * r * (g - shift / n - xh * (scale / n)), scale, shift


def _group_samples() -> list[Case]:
    return [Case(((n, g, k, s), (1, g, k, 1), (1, g, k, 1)), dict(eps=1e-5))
            for n, g, k, s in ((2, 2, 3, 4), (3, 1, 2, 1), (2, 4, 1, 9), (1, 2, 2, 40))]


@composite(cl="normalize.cl", accepts="float", samples=_group_samples)
def _standardize_groups(x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float) -> Tensor:
    """y = γ · (x − E[x]) / √(Var[x] + ε) + β, statistics over the last two axes, γ and β one number for each of the
    middle two. A row kernel, into which γ and β melt.
    """
    n, groups, channels, size = x.shape
    rows = _standardize(reshape(x, (n * groups, channels * size)), axes=(1,), eps=eps)
    return reshape(rows, x.shape) * gamma + beta


@_standardize_groups.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float) -> Cotangents:
    """Two sums a channel for all three: dβ = Σ g and dγ = Σ g x̂ over the samples, and, as g γ is γ times them,
    dx = r · (g γ − Σ γ Σ g / n − x̂ Σ γ Σ g x̂ / n).
    """
    center, spread = _moments(x, (2, 3))
    r = rsqrt(spread + eps)
    xh = (x - center) * r
    shift, scale = sum(g, 3, keepdims=True), sum(g * xh, 3, keepdims=True)
    n = real(x.shape[2] * x.shape[3])
    low, slope = (sum(gamma * part, 2, keepdims=True) / n for part in (shift, scale))
    return r * (g * gamma - low - xh * slope), sum(scale, 0, keepdims=True), sum(shift, 0, keepdims=True)


# --- what users call
def _channel(p: TensorLike, x: Tensor, axis: int) -> Tensor:
    """A vector of one number a channel, shaped to broadcast against x."""
    p = as_tensor(p)
    if p.shape != (x.shape[axis],):
        raise ShapeError(
            f"normalisation: expected gamma, beta, mean and var of shape ({x.shape[axis]},), "
            f"axis {axis} of x{x.shape}; got {p.shape}.")
    return reshape(p, tuple(n if a == axis else 1 for a, n in enumerate(x.shape)))


def _affine(y: Tensor, gamma: TensorLike | None, beta: TensorLike | None, axis: int) -> Tensor:
    y = y if gamma is None else y * _channel(gamma, y, axis)
    return y if beta is None else y + _channel(beta, y, axis)


def batch_norm(x: TensorLike, gamma: TensorLike | None = None, beta: TensorLike | None = None,
               mean: TensorLike | None = None, var: TensorLike | None = None, eps: float = 1e-5,
               axis: int = 1) -> Tensor:
    """y = γ · (x − μ) / √(σ² + ε) + β per channel, for given statistics μ, σ² (evaluation). `axis` is the channel's.

    γ, β, μ and σ² (C,). Raises ConfigError without statistics, ShapeError where they are not one number a channel.
    """
    x, eps = as_tensor(x), arguments.real("batch_norm", "eps", eps, 0)
    axis = arguments.axis("batch_norm", axis, x.ndim)
    if mean is None or var is None:
        raise ConfigError(
            "batch_norm: expected both mean and var; got neither or one; batch_norm_train computes them from x.")
    y = (x - _channel(mean, x, axis)) * rsqrt(_channel(var, x, axis) + eps)
    return _affine(y, gamma, beta, axis)


def batch_norm_train(x: TensorLike, gamma: TensorLike | None = None, beta: TensorLike | None = None, eps: float = 1e-5,
                     axis: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """y = γ · (x − E[x]) / √(Var[x] + ε) + β per channel over the batch;
    also E[x] and the unbiased Var[x] of each channel.

    y uses the biased variance; the returned one is what running statistics take. Both are shared with y, not computed
    twice. A fold and a map forward, a fold and a map backward. Raises ShapeError for fewer than two values a channel.
    Paper: Ioffe, Szegedy 2015, arXiv:1502.03167.
    """
    x, eps = as_tensor(x), arguments.real("batch_norm_train", "eps", eps, 0)
    axis = arguments.axis("batch_norm_train", axis, x.ndim)
    axes = tuple(a for a in range(x.ndim) if a != axis)
    n = math.prod(x.shape[a] for a in axes)
    if n < 2:
        raise ShapeError(
            "batch_norm_train: expected at least 2 values a channel; "
            f"got x{x.shape} with {n}; a batch of one sample has no variance: take a larger batch_size, or "
            "drop_last=True where the last one has one; batch_norm takes running statistics.")
    one = constant(1, x.dtype, (x.shape[axis],)), constant(0, x.dtype, (x.shape[axis],))
    scale, shift = (_channel(d if p is None else p, x, axis) for p, d in zip((gamma, beta), one, strict=True))
    y = _standardize_affine(x, scale, shift, axes=axes, eps=eps)
    center, biased = (reshape(m, (x.shape[axis],)) for m in _moments(x, axes))
    return y, center, biased * (n / (n - 1))


def group_norm(x: TensorLike, num_groups: int, gamma: TensorLike | None = None, beta: TensorLike | None = None,
               eps: float = 1e-5) -> Tensor:
    """y = γ_c · (x − E[x]) / √(Var[x] + ε) + β_c, statistics per sample over the channels of a group and all positions.

    x (N, C, *S), γ and β (C,). A row kernel over (C / num_groups · S); γ and β melt into it.
    Raises ShapeError where C is no multiple of num_groups.
    Paper: Wu, He 2018, arXiv:1803.08494.
    """
    x, num_groups = as_tensor(x), arguments.integer("group_norm", "num_groups", num_groups, 1)
    if x.ndim < 2 or x.shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: expected x (N, C, ...) with C a multiple of num_groups = {num_groups}; got shape {x.shape}.")
    eps = arguments.real("group_norm", "eps", eps, 0)
    if gamma is None and beta is None:
        rows = reshape(x, (x.shape[0] * num_groups, math.prod(x.shape[1:]) // num_groups))
        return reshape(_standardize(rows, axes=(1,), eps=eps), x.shape)
    channels = (1, num_groups, x.shape[1] // num_groups, 1)
    scale, shift = (reshape(_channel(constant(default, x.dtype, x.shape[1:2]) if p is None else p, x, 1), channels)
                    for p, default in ((gamma, 1), (beta, 0)))
    y = _standardize_groups(reshape(x, (x.shape[0], *channels[1:3], math.prod(x.shape[2:]))), scale, shift, eps=eps)
    return reshape(y, x.shape)


def instance_norm(x: TensorLike, gamma: TensorLike | None = None, beta: TensorLike | None = None,
                  eps: float = 1e-5) -> Tensor:
    """y = γ_c · (x − E[x]) / √(Var[x] + ε) + β_c, statistics per sample and channel over all positions; x (N, C, *S).

    Raises ShapeError for x without positions.
    Paper: Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.
    """
    x = as_tensor(x)
    if x.ndim < 3:
        raise ShapeError(f"instance_norm: expected x (N, C, *S) with at least one position axis; got shape {x.shape}.")
    return group_norm(x, x.shape[1] or 1, gamma, beta, eps)
