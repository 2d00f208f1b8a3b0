"""Softmax, layer and RMS normalisation: statistics along the last axis (channel_norm: batch, group and instance).

Each is a formula; where the statistics run along the last axis a row kernel stands in (one read, one write). Backward
kernels are ops of their own with a formula of their own, so a gradient can be differentiated again.
"""

from __future__ import annotations

import math
from typing import Any

from ..core import arguments
from ..core.formula import composite
from ..core.op import Case, Cotangents
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from ..errors import ShapeError
from ..kernels.choosers import column_kernel, row_kernel
from .joining import stack
from .pointwise import equal, exp, isfinite, log, rsqrt, where
from .reduce import detach, mean, peak, sum, var
from .view import reshape

FAMILY = "normalize"  # not the name of the module: PyTorch has a function `normalize`
SHAPES = ((5, 7), (3, 1), (1, 40), (2, 3, 33), (4, 130), (6, 24))


def _rows(*more: Any, **attrs: Any) -> Any:
    """Samples: x of each shape, further operands of x's shape ("x") or of its last axis ("n")."""
    return lambda: [Case((s, *(s if m == "x" else s[-1:] for m in more)), dict(attrs)) for s in SHAPES]


# --- softmax
def _shifted(x: Tensor, axis: int) -> Tensor:
    """x − max x, and −∞ for a line of −∞ (never −∞ − −∞)."""
    top = peak(x, axis)
    return x - detach(where(isfinite(top), top, 0.0))


@composite("... n -> ... n", cl="normalize.cl", samples=_rows(axis=-1), accepts="float", reads=("narrow",), rule="wide",
           launch=row_kernel("SOFTMAX"))
def _softmax(x: Tensor, *, axis: int) -> Tensor:
    """y = e^(x − max x) / Σ e^(x − max x) along an axis; a line of −∞ gives zeros"""
    e = exp(_shifted(x, axis))
    total = sum(e, axis, keepdims=True)
    return e / where(equal(total, 0.0), 1.0, total)


@_softmax.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Cotangents:
    return _softmax_gradient(g, y, axis=axis)


@composite("... n, ... n -> ... n", cl="normalize.cl", samples=_rows("x", axis=-1), accepts="float", reads=("narrow",),
           launch=row_kernel("SOFTMAX_GRADIENT"))
def _softmax_gradient(g: Tensor, y: Tensor, *, axis: int) -> Tensor:
    """dx = y · (g − Σ g y) along an axis"""
    return y * (g - sum(g * y, axis, keepdims=True))


@composite("... n -> ... n", cl="normalize.cl", samples=_rows(axis=-1), accepts="float", reads=("narrow",), rule="wide",
           launch=row_kernel("LOG_SOFTMAX"))
def _log_softmax(x: Tensor, *, axis: int) -> Tensor:
    """y = x − max x − ln Σ e^(x − max x) along an axis; a line of −∞ stays so"""
    d = _shifted(x, axis)
    total = sum(exp(d), axis, keepdims=True)
    return d - log(where(equal(total, 0.0), 1.0, total))


@_log_softmax.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Cotangents:
    return _log_softmax_gradient(g, y, axis=axis)


@composite("... n, ... n -> ... n", cl="normalize.cl", samples=_rows("x", axis=-1), accepts="float", reads=("narrow",),
           launch=row_kernel("LOG_SOFTMAX_GRADIENT"))
def _log_softmax_gradient(g: Tensor, y: Tensor, *, axis: int) -> Tensor:
    """dx = g − e^y · Σ g along an axis"""
    return g - exp(y) * sum(g, axis, keepdims=True)


def _axis(who: str, x: Tensor, axis: int) -> int:
    """The axis counted from the end, so that one over the last axis is -1 whatever the rank."""
    return arguments.axis(who, axis, x.ndim) - x.ndim


def softmax(x: TensorLike, axis: int = -1, temperature: float = 1.0, mask: TensorLike | None = None) -> Tensor:
    """y = e^(x/T) / Σ e^(x/T) along `axis`, where `mask` allows.

    mask   bool (True: takes part) or a float tensor that is added to x / T; broadcasts to x
    A line with nothing to choose from (all −∞ or all masked) gives zeros. Along the last axis it is one row kernel; the
    division by T and the mask melt into whatever computes x.
    Raises ConfigError for a temperature that is not positive, ShapeError for an axis that x lacks.
    """
    x = as_tensor(x)
    temperature = arguments.real("softmax", "temperature", temperature, above=0,
                                 way="; small values sharpen, argmax is the limit")
    x = x if temperature == 1.0 else x * (1.0 / temperature)
    return _softmax(masked(x, mask), axis=_axis("softmax", x, axis))


def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """y = x − ln Σ eˣ along `axis`; one row kernel along the last axis."""
    x = as_tensor(x)
    return _log_softmax(x, axis=_axis("log_softmax", x, axis))


def masked(x: Tensor, mask: TensorLike | None) -> Tensor:
    """y = x where a bool mask is True and −∞ elsewhere; x + mask for a float mask. Raises ShapeError."""
    if mask is None:
        return x
    mask = as_tensor(mask)
    if mask.dtype == "bool":
        y = where(mask, x, -math.inf)
    else:
        y = x + (mask if mask.dtype == x.dtype else mask.astype(x.dtype))
    if y.shape != x.shape:
        raise ShapeError(f"softmax: expected a mask that broadcasts to {x.shape}; got {mask.shape}.")
    return y


# --- standardize: what all but RMS normalisation share
LINES = (((4, 9), (1,)), ((3, 2, 40), (2,)), ((3, 5, 2), (0, 2)), ((2, 3, 4), (1, 2)))  # (shape, axes) of samples


def _standard(shape: tuple[int, ...], axes: tuple[int, ...], operands: int = 1) -> Case:
    return Case((shape,) * operands, dict(axes=axes, eps=1e-5))


@composite(cl="normalize.cl", reads=("narrow",), accepts="float", launch=row_kernel("STANDARDIZE"),
           samples=lambda: [_standard(s, a) for s, a in (*LINES, ((2, 1), (1,)))])
def _standardize(x: Tensor, *, axes: tuple[int, ...], eps: float) -> Tensor:
    """y = (x − E[x]) / √(Var[x] + ε) over the axes, biased variance"""
    return (x - mean(x, axes, keepdims=True)) * rsqrt(var(x, axes, keepdims=True) + eps)


@_standardize.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: tuple[int, ...], eps: float) -> Cotangents:
    return _standardize_gradient(g, x, axes=axes, eps=eps)


@composite(cl="normalize.cl", reads=("narrow",), accepts="float", launch=row_kernel("STANDARDIZE_GRADIENT"),
           samples=lambda: [_standard(s, a, 2) for s, a in LINES])
def _standardize_gradient(g: Tensor, x: Tensor, *, axes: tuple[int, ...], eps: float) -> Tensor:
    """dx = r · (g − E[g] − x̂ E[g x̂]), r = 1 / √(Var[x] + ε), x̂ = (x − E[x]) r"""
    r = rsqrt(var(x, axes, keepdims=True) + eps)
    xh = (x - mean(x, axes, keepdims=True)) * r
    return r * (g - mean(g, axes, keepdims=True) - xh * mean(g * xh, axes, keepdims=True))


# --- layer norm
@composite("... n, n, n -> ... n", cl="normalize.cl", samples=_rows("n", "n", eps=1e-5), accepts="float",
           reads=("narrow",), launch=row_kernel("LAYER_NORM"))
def _layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float) -> Tensor:
    """y = γ · (x − E[x]) / √(Var[x] + ε) + β over the last axis, biased variance"""
    return _standardize(x, axes=(x.ndim - 1,), eps=eps) * gamma + beta


@_layer_norm.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float) -> Cotangents:
    parameters = _layer_norm_parameter_gradient(g, x, eps=eps)
    return _layer_norm_gradient(g, x, gamma, eps=eps), parameters[0], parameters[1]


@composite("... n, ... n, n -> ... n", cl="normalize.cl", samples=_rows("x", "n", eps=1e-5), accepts="float",
           reads=("narrow",), launch=row_kernel("LAYER_NORM_GRADIENT"))
def _layer_norm_gradient(g: Tensor, x: Tensor, gamma: Tensor, *, eps: float) -> Tensor:
    """dx = r · (gγ − E[gγ] − x̂ E[gγ x̂]) over the last axis, r = 1 / √(Var[x] + ε), x̂ = (x − E[x]) r"""
    return _standardize_gradient(g * gamma, x, axes=(x.ndim - 1,), eps=eps)


@composite("... n, ... n -> ... n", cl="normalize.cl", samples=_rows("x", eps=1e-5), accepts="float", reads=("narrow",),
           launch=column_kernel("LAYER_NORM_PARAMETERS", 2))
def _layer_norm_parameter_gradient(g: Tensor, x: Tensor, *, eps: float) -> Tensor:
    """(dγ, dβ) = (Σ g x̂, Σ g) over all axes but the last, x̂ = (x − E[x]) / √(Var[x] + ε)"""
    lead = tuple(range(x.ndim - 1))
    return stack([sum(g * _standardize(x, axes=(x.ndim - 1,), eps=eps), lead), sum(g, lead)])


_layer_norm_gradient.launch_with(_layer_norm_parameter_gradient, column_kernel("LAYER_NORM_GRADIENTS", 2))


def layer_norm(x: TensorLike, gamma: TensorLike | None = None, beta: TensorLike | None = None,
               eps: float = 1e-5) -> Tensor:
    """y = γ · (x − E[x]) / √(Var[x] + ε) + β, over the trailing axes that γ has (the last one without γ and β).

    Forward is one row kernel, dx with the partial sums of (dγ, dβ) another;
    what follows y or dx (activation, residual) melts into it.
    Paper: Ba, Kiros, Hinton 2016, arXiv:1607.06450.
    """
    x, eps = as_tensor(x), arguments.real("layer_norm", "eps", eps, 0)
    given = [as_tensor(p) for p in (gamma, beta) if p is not None]
    shape = given[0].shape if given else x.shape[-1:]
    _check_trailing("layer_norm", x, shape)
    rows = reshape(x, (*x.shape[: x.ndim - len(shape)], math.prod(shape)))
    if not given:
        y = _standardize(rows, axes=(rows.ndim - 1,), eps=eps)
    else:
        y = _layer_norm(rows, _vector(gamma, 1, rows), _vector(beta, 0, rows), eps=eps)
    return reshape(y, x.shape)


def _vector(p: TensorLike | None, default: int, rows: Tensor) -> Tensor:
    return constant(default, rows.dtype, rows.shape[-1:]) if p is None else reshape(p, rows.shape[-1:])


def _check_trailing(who: str, x: Tensor, shape: tuple[int, ...]) -> None:
    if not shape or x.shape[x.ndim - len(shape) :] != shape:
        raise ShapeError(f"{who}: expected x whose last axes are {shape}, the shape of gamma and beta; got {x.shape}.")


# --- RMS norm
@composite("... n, n -> ... n", cl="normalize.cl", samples=_rows("n", eps=1e-5), accepts="float", reads=("narrow",),
           launch=row_kernel("RMS_NORM"))
def _rms_norm(x: Tensor, gamma: Tensor, *, eps: float) -> Tensor:
    """y = γ · x / √(E[x²] + ε) over the last axis"""
    return x * rsqrt(mean(x * x, -1, keepdims=True) + eps) * gamma


@_rms_norm.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, gamma: Tensor, *, eps: float) -> Cotangents:
    return _rms_norm_gradient(g, x, gamma, eps=eps), _rms_norm_parameter_gradient(g, x, eps=eps)


@composite("... n, ... n, n -> ... n", cl="normalize.cl", samples=_rows("x", "n", eps=1e-5), accepts="float",
           reads=("narrow",), launch=row_kernel("RMS_NORM_GRADIENT"))
def _rms_norm_gradient(g: Tensor, x: Tensor, gamma: Tensor, *, eps: float) -> Tensor:
    """dx = r · (gγ − x̂ E[gγ x̂]) over the last axis, r = 1 / √(E[x²] + ε), x̂ = x r"""
    r = rsqrt(mean(x * x, -1, keepdims=True) + eps)
    if x.shape[-1] == 1:
        # A row of one element is all projection: 1 − x̂² is ε r², and as a difference would lose its digits,
        # more so its derivative.
        return g * gamma * (eps * r * r * r)
    return r * (g * gamma - x * r * mean(g * gamma * x * r, -1, keepdims=True))


@composite("... n, ... n -> ... n", cl="normalize.cl", samples=_rows("x", eps=1e-5), accepts="float", reads=("narrow",),
           launch=column_kernel("RMS_NORM_PARAMETERS", 1))
def _rms_norm_parameter_gradient(g: Tensor, x: Tensor, *, eps: float) -> Tensor:
    """dγ = Σ g x̂ over all axes but the last, x̂ = x / √(E[x²] + ε)"""
    return sum(g * x * rsqrt(mean(x * x, -1, keepdims=True) + eps), tuple(range(x.ndim - 1)))


_rms_norm_gradient.launch_with(_rms_norm_parameter_gradient, column_kernel("RMS_NORM_GRADIENTS", 1))


def rms_norm(x: TensorLike, gamma: TensorLike | None = None, eps: float = 1e-5) -> Tensor:
    """y = γ · x / √(E[x²] + ε), over the trailing axes that γ has (the last one without γ).

    Forward is one row kernel, dx with the partial sums of dγ another.
    Paper: Zhang, Sennrich 2019, arXiv:1910.07467.
    """
    x, eps = as_tensor(x), arguments.real("rms_norm", "eps", eps, 0)
    shape = x.shape[-1:] if gamma is None else as_tensor(gamma).shape
    _check_trailing("rms_norm", x, shape)
    rows = reshape(x, (*x.shape[: x.ndim - len(shape)], math.prod(shape)))
    return reshape(_rms_norm(rows, _vector(gamma, 1, rows), eps=eps), x.shape)
