"""Convolution in one to three dimensions and its two gradients: three linear ops, each the adjoint of the others.

With B(x, w, g) = Σ g · conv(x, w):  conv = ∂B/∂g, conv_data_gradient = ∂B/∂x, conv_weight_gradient = ∂B/∂w,
so the VJP of each is written with the other two and any order of derivatives works.

Layouts: x (N, C, *S), w (O, C / groups, *K), y and g (N, O, *P)
with P = (S + low + high − dilation (K − 1) − 1) // stride + 1.
The formulas over windows, matmul and fold_windows serve where the kernels of conv.cl do not suit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arguments import Ints, Padding, Sizes, per_axis
from ..core.arrays import Array
from ..core.op import Case, Cotangents, kernel
from ..core.precision import current_precision
from ..core.size import varies
from ..core.spec import Spec, accept, promote
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from ..errors import ConfigError, ShapeError
from ..kernels.choosers import CONVOLUTION, CONVOLUTION_WEIGHTS
from .indexing import getitem
from .matmul import matmul
from .reduce import sum
from .view import flip, fold_windows, pad, permute, reshape, windows


def out_sizes(n: Sequence[int], size: Sequence[int], *, stride: Sequence[int], low: Sequence[int], high: Sequence[int],
              dilation: Sequence[int], groups: int = 1) -> tuple[int, ...]:
    """P = (S + low + high − dilation (K − 1) − 1) // stride + 1, per axis."""
    return tuple((s + a + b - d * (k - 1) - 1) // t + 1
                 for s, k, t, a, b, d in zip(n, size, stride, low, high, dilation, strict=True))


# --- shapes
def _conv_infer(x: Spec, w: Spec, *, precision: str = "fp32", **how: Any) -> Spec:
    accept("conv", "float", (x, w))
    return Spec((x.shape[0], w.shape[0], *out_sizes(x.shape[2:], w.shape[2:], **how)), promote(x.dtype, w.dtype))


def _data_infer(g: Spec, w: Spec, *, size: Ints, groups: int, **_: Any) -> Spec:
    accept("conv_data_gradient", "float", (g, w))
    return Spec((g.shape[0], w.shape[1] * groups, *size), promote(g.dtype, w.dtype))


def _weight_infer(g: Spec, x: Spec, *, size: Ints, groups: int, **_: Any) -> Spec:
    accept("conv_weight_gradient", "float", (g, x))
    return Spec((g.shape[1], x.shape[1] // groups, *size), promote(g.dtype, x.dtype))


# --- samples: what every check of the ops runs on
_TABLE = (  # x, w, stride, (low, high), dilation, groups
    ((2, 3, 7), (4, 3, 3), (1,), ((0,), (0,)), (1,), 1),
    ((1, 4, 9), (6, 2, 2), (2,), ((1,), (0,)), (3,), 2),
    ((2, 3, 6, 5), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 2, 8, 9), (3, 2, 3, 2), (2, 3), ((2, 0), (1, 1)), (1, 2), 1),
    ((2, 4, 5, 17), (4, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4),
    ((2, 3, 5, 4), (5, 3, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), (1, 2, 1), ((1, 0, 1), (0, 1, 1)), (1, 1, 2), 1),
)


def _cases() -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]]:
    """(x, w, y shapes, attributes) of the table."""
    out: list[Any] = []
    for x, w, stride, (low, high), dilation, groups in _TABLE:
        how: dict[str, Any] = dict(stride=stride, low=low, high=high, dilation=dilation, groups=groups)
        out.append((x, w, (x[0], w[0], *out_sizes(x[2:], w[2:], **how)), how))
    return out


# --- references: NumPy, one einsum over strided patches; independent of the formulas that the device runs
def _patches(x: Array, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints, groups: int) -> Array:
    """(N, G, C / G, P, T): the T values under the kernel at each of the P results, padding included."""
    d = len(size)
    x = np.pad(x, ((0, 0), (0, 0), *zip(low, high, strict=True)))
    spans = tuple(t * (k - 1) + 1 for k, t in zip(size, dilation, strict=True))
    y = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, 2 + d)))
    y = y[(slice(None), slice(None), *(slice(None, None, s) for s in stride),
           *(slice(None, None, t) for t in dilation))]
    points = math.prod(y.shape[2 : 2 + d])
    return y.reshape(x.shape[0], groups, x.shape[1] // groups, points, math.prod(size))


def _grouped(w: Array, groups: int) -> Array:
    return w.reshape(groups, w.shape[0] // groups, w.shape[1], math.prod(w.shape[2:]))


# --- formulas over other ops
def _windows_of(x: Tensor, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints, groups: int) -> Tensor:
    """(N, G, C / G, *P, *K), a view of x."""
    x = reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    return windows(pad(x, (0, 0, 0, *low), (0, 0, 0, *high)), size, stride, dilation)


def _columns(x: Tensor, size: Ints, order: str, **how: Any) -> Tensor:
    """Patches as a matrix: axes of `order` among n g c p k, with p and k standing for all results and all offsets."""
    d = len(size)
    win = _windows_of(x, size, **how)
    axes = {"n": [0], "g": [1], "c": [2], "p": list(range(3, 3 + d)), "k": list(range(3 + d, 3 + 2 * d))}
    return permute(win, [a for letter in order for a in axes[letter]])


def _conv_formula(x: Tensor, w: Tensor, *, groups: int, precision: str = "fp32", **how: Any) -> Tensor:
    """Patches times weights; with one channel a group, a sum over the offsets that stores no patches."""
    n, o, cg, size = x.shape[0], w.shape[0], w.shape[1], w.shape[2:]
    shape = (n, o, *out_sizes(x.shape[2:], size, **how))
    if not x.size or not w.size:
        return constant(0, x.dtype, shape)
    if cg == 1:
        win = _windows_of(x, size, groups=groups, **how)
        taps = reshape(w, (1, groups, o // groups, *(1 for _ in size), *size))
        return reshape(sum(win * taps, tuple(range(-len(size), 0))), shape)
    columns = reshape(_columns(x, size, "ngckp", groups=groups, **how),
                      (n, groups, cg * math.prod(size), math.prod(shape[2:])))
    return reshape(matmul(reshape(w, (1, groups, o // groups, -1)), columns, precision=precision), shape)


def _data_formula(g: Tensor, w: Tensor, *, size: Ints, low: Ints, high: Ints, groups: int, precision: str = "fp32",
                  **how: Any) -> Tensor:
    """Weights times gradients, then the columns are folded back; with stride 1 and one channel a group, a convolution.
    """
    n, o, cg, taps = g.shape[0], w.shape[0], w.shape[1], w.shape[2:]
    shape = (n, groups * cg, *size)
    if not g.size or not w.size:
        return constant(0, g.dtype, shape)
    plain = cg == 1 and o == groups and all(s == 1 for s in how["stride"])
    if plain and (ends := _flipped_padding(taps, low, high, how["dilation"])):
        return _conv(g, flip(w, range(2, w.ndim)), low=ends[0], high=ends[1], groups=groups, **how)
    points, d = g.shape[2:], len(size)
    left = permute(reshape(w, (1, groups, o // groups, cg * math.prod(taps))), (0, 1, 3, 2))
    columns = reshape(matmul(left, reshape(g, (n, groups, o // groups, math.prod(points))), precision=precision),
                      (n, groups * cg, *taps, *points))
    columns = permute(columns, (0, 1, *range(2 + d, 2 + 2 * d), *range(2, 2 + d)))
    padded = [s + a + b for s, a, b in zip(size, low, high, strict=True)]
    x = fold_windows(columns, padded, taps, how["stride"], how["dilation"])
    return getitem(x, (slice(None), slice(None), *(slice(a, a + s) for a, s in zip(low, size, strict=True))))


def _flipped_padding(taps: Ints, low: Ints, high: Ints, dilation: Ints) -> list[Ints] | None:
    """Padding of the convolution that is the adjoint of one with stride 1, or None where it would be negative."""
    spans = [d * (k - 1) for k, d in zip(taps, dilation, strict=True)]
    ends = [tuple(s - a for s, a in zip(spans, side, strict=True)) for side in (low, high)]
    return ends if min((*ends[0], *ends[1])) >= 0 else None


def _weight_formula(g: Tensor, x: Tensor, *, size: Ints, groups: int, precision: str = "fp32", **how: Any) -> Tensor:
    """Gradients times patches, summed over batch and results at once."""
    n, o, cg = g.shape[0], g.shape[1], x.shape[1] // groups
    shape = (o, cg, *size)
    if not g.size or not x.size:
        return constant(0, g.dtype, shape)
    points, d = math.prod(g.shape[2:]), len(size)
    if cg == 1 and o == groups:
        win = _windows_of(x, size, groups=groups, **how)
        return reshape(sum(win * reshape(g, (*win.shape[: 3 + d], *(1 for _ in size))), (0, *range(3, 3 + d))), shape)
    left = reshape(permute(reshape(g, (n, groups, o // groups, points)), (1, 2, 0, 3)),
                   (groups, o // groups, n * points))
    columns = reshape(_columns(x, size, "gnpck", groups=groups, **how), (groups, n * points, cg * math.prod(size)))
    return reshape(matmul(left, columns, precision=precision), shape)


# --- the ops
# Borders and inserted zeros are multiplied like everything else: what `spreads` names makes NaN there if infinite.
@kernel(cl="conv.cl", infer=_conv_infer, accepts="float", rule="product", spreads=("w",), reads=("narrow",),
        launch=CONVOLUTION, define=_conv_formula, samples=lambda: [Case((x, w), how) for x, w, _, how in _cases()],
        work=lambda operands, y, attrs: 2.0 * y.size * math.prod(operands[1].shape[1:]))
def _conv(x: Array, w: Array, *, stride: Ints, low: Ints, high: Ints, dilation: Ints, groups: int,
          precision: str = "fp32") -> Array:
    """y[n, o, p] = Σ over channels c of o's group and offsets k
    of w[o, c, k] · x[n, c, p · stride + k · dilation − low]

    Cross-correlation, zero outside x. Source: LeCun, Bottou, Bengio, Haffner 1998.
    """
    how: dict[str, Any] = dict(stride=stride, low=low, high=high, dilation=dilation)
    y = np.einsum("ngcpt,goct->ngop", _patches(x, w.shape[2:], groups=groups, **how), _grouped(w, groups),
                  optimize=True)
    return y.reshape(x.shape[0], w.shape[0], *out_sizes(x.shape[2:], w.shape[2:], **how))


@kernel(cl="conv.cl", infer=_data_infer, accepts="float", rule="product", spreads=("w",), reads=("narrow",),
        launch=CONVOLUTION, define=_data_formula,
        samples=lambda: [Case((y, w), dict(how, size=x[2:])) for x, w, y, how in _cases()],
        work=lambda operands, x, attrs: 2.0 * operands[0].size * math.prod(operands[1].shape[1:]))
def _conv_data_gradient(g: Array, w: Array, *, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints,
                        groups: int, precision: str = "fp32") -> Array:
    """x[n, c, i] = Σ over o, p, k with i = p · stride + k · dilation − low of w[o, c, k] · g[n, o, p]

    The adjoint of conv in x; as a forward it is the transposed convolution. Source: Zeiler et al. 2010.
    """
    n, points, taps = g.shape[0], g.shape[2:], w.shape[2:]
    rows = g.reshape(n, groups, w.shape[0] // groups, math.prod(points))
    columns = np.einsum("ngop,goct->ngctp", rows, _grouped(w, groups), optimize=True)
    columns = columns.reshape(n, groups * w.shape[1], *taps, *points)
    x = np.zeros((n, groups * w.shape[1], *(s + a + b for s, a, b in zip(size, low, high, strict=True))), columns.dtype)
    for k in np.ndindex(*taps):
        at = tuple(slice(i * d, i * d + (p - 1) * s + 1, s)
                   for i, d, p, s in zip(k, dilation, points, stride, strict=True))
        x[(slice(None), slice(None), *at)] += columns[(slice(None), slice(None), *k)]
    return x[(slice(None), slice(None), *(slice(a, a + s) for a, s in zip(low, size, strict=True)))]


@kernel(cl="conv.cl", infer=_weight_infer, accepts="float", rule="product", spreads=("x",), reads=("narrow",),
        launch=CONVOLUTION_WEIGHTS, define=_weight_formula,
        samples=lambda: [Case((y, x), dict(how, size=w[2:])) for x, w, y, how in _cases()],
        work=lambda operands, w, attrs: 2.0 * operands[0].size * math.prod(w.shape[1:]))
def _conv_weight_gradient(g: Array, x: Array, *, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints,
                          groups: int, precision: str = "fp32") -> Array:
    """w[o, c, k] = Σ over n, p of g[n, o, p] · x[n, c, p · stride + k · dilation − low]

    The adjoint of conv in w.
    """
    patches = _patches(x, size, stride, low, high, dilation, groups)
    n, o = g.shape[:2]
    w = np.einsum("ngop,ngcpt->goct", g.reshape(n, groups, o // groups, math.prod(g.shape[2:])), patches, optimize=True)
    return w.reshape(o, x.shape[1] // groups, *size)


# --- derivatives
@_conv.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, w: Tensor, **how: Any) -> Cotangents:
    return _conv_data_gradient(g, w, size=x.shape[2:], **how), _conv_weight_gradient(g, x, size=w.shape[2:], **how)


@_conv_data_gradient.defvjp
def _(u: Tensor, y: Tensor, g: Tensor, w: Tensor, *, size: Ints, **how: Any) -> Cotangents:
    return _conv(u, w, **how), _conv_weight_gradient(g, u, size=w.shape[2:], **how)


@_conv_weight_gradient.defvjp
def _(v: Tensor, y: Tensor, g: Tensor, x: Tensor, *, size: Ints, **how: Any) -> Cotangents:
    return _conv(x, v, **how), _conv_data_gradient(g, v, size=x.shape[2:], **how)


# --- what users call
def padding_sides(who: str, padding: Padding, size: tuple[int, ...], stride: tuple[int, ...],
                  dilation: tuple[int, ...]) -> tuple[Ints, Ints]:
    """(low, high) per axis from an int, one per axis, (low, high) pairs, "same" (the odd one at the end) or "valid".

    Raises ConfigError for another word, for "same" with strides, and for amounts that are negative or too few.
    """
    if isinstance(padding, str) and padding == "valid":
        padding = 0
    if isinstance(padding, str):
        if padding != "same" or any(s != 1 for s in stride):
            raise ConfigError(
                f'{who}: expected padding "valid", or "same" with stride 1; '
                f'got {padding!r} with stride {stride}; give numbers.')
        total = [d * (k - 1) for k, d in zip(size, dilation, strict=True)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    d = len(size)
    if (isinstance(padding, (tuple, list)) and len(padding) == d
            and all(isinstance(p, (tuple, list)) and len(p) == 2 for p in padding)):
        low, high = ([p[k] for p in padding] for k in (0, 1))
        return per_axis(who, "padding", low, d, 0), per_axis(who, "padding", high, d, 0)
    both = per_axis(who, "padding", padding, d, 0)
    return both, both


def _operands(who: str, x: TensorLike, weight: TensorLike) -> tuple[Tensor, Tensor, int]:
    """Both as tensors of one float type, and the number of spatial axes."""
    x, weight = as_tensor(x), as_tensor(weight)
    if x.ndim not in (3, 4, 5) or weight.ndim != x.ndim:
        raise ShapeError(
            f"{who}: expected x (N, C, *S) with 1 to 3 spatial axes and a weight of the same rank; "
            f"got {x.shape} and {weight.shape}; add an axis of size 1 where one is missing.")
    accept(who, "float", (x.spec, weight.spec))
    if any(n < 1 for n in weight.shape[2:]):
        raise ShapeError(f"{who}: expected a kernel of at least 1 along each axis; got weight {weight.shape}.")
    dtype = promote(x.dtype, weight.dtype)
    x, weight = (t if t.dtype == dtype else t.astype(dtype) for t in (x, weight))
    return x, weight, x.ndim - 2


def _arithmetic(x: Tensor) -> dict[str, str]:
    """What clnet.precision asks for, as an attribute: a part of every plan's key. Only float32 has a choice."""
    return {"precision": current_precision()} if x.dtype == "float32" and current_precision() != "fp32" else {}


def _with_bias(who: str, y: Tensor, bias: TensorLike | None, d: int) -> Tensor:
    if bias is None:
        return y
    bias = as_tensor(bias)
    if bias.shape != (y.shape[1],):
        raise ShapeError(f"{who}: expected a bias of shape ({y.shape[1]},), one per output channel; got {bias.shape}.")
    return y + reshape(bias, (-1, *(1 for _ in range(d))))


def conv(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1, padding: Padding = 0,
         dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """y[n, o, p] = b[o] + Σ over c, k of w[o, c, k] · x[n, c, p · stride + k · dilation − padding]  (cross-correlation)

    x (N, C, *S) with 1 to 3 spatial axes, weight (O, C / groups, *K), bias (O) -> (N, O, *P).
    stride and dilation: int or one per axis; padding: int, one per axis, (low, high) per axis, "same" or "valid".
    Raises ShapeError where channels or groups do not fit or the kernel is larger than the padded input,
    ConfigError for settings.
    """
    x, weight, d = _operands("conv", x, weight)
    (groups,) = per_axis("conv", "groups", groups, 1, 1)
    o, size = weight.shape[0], weight.shape[2:]
    if x.shape[1] != weight.shape[1] * groups or o % groups:
        raise ShapeError(
            "conv: expected weight (O, C / groups, *K) with O a multiple of groups; "
            f"got x {x.shape}, weight {weight.shape}, groups {groups}; "
            f"x has {x.shape[1]} channels, the weight takes {weight.shape[1] * groups}.")
    stride, dilation = per_axis("conv", "stride", stride, d, 1), per_axis("conv", "dilation", dilation, d, 1)
    low, high = padding_sides("conv", padding, size, stride, dilation)
    how: dict[str, Any] = dict(stride=stride, low=low, high=high, dilation=dilation, groups=groups)
    if any(n < 1 for n in out_sizes(x.shape[2:], size, **how)):
        raise ShapeError(
            "conv: expected a kernel no larger than the padded input; "
            f"got kernel {size} (dilation {dilation}) on {x.shape[2:]} padded by {low} and {high}; pad more.")
    if not varies(*x.shape[2:]):
        met = [_met(*axis) for axis in zip(x.shape[2:], size, stride, low, high, dilation, strict=True)]
        if any(end - first < k for (first, end, _, _), k in zip(met, size, strict=True)):
            weight = getitem(weight, (slice(None), slice(None), *(slice(first, end) for first, end, _, _ in met)))
            how |= dict(low=tuple(a for _, _, a, _ in met), high=tuple(b for *_, b in met))
        one = {*x.shape[2:], *weight.shape[2:]} == {1}
        if one and groups == 1 and not any((*how["low"], *how["high"])):
            y = matmul(reshape(x, x.shape[:2]), permute(reshape(weight, weight.shape[:2]), (1, 0)))
            return _with_bias("conv", reshape(y, (*y.shape, *x.shape[2:])), bias, d)
    return _with_bias("conv", _conv(x, weight, **how, **_arithmetic(x)), bias, d)


def _met(n: int, k: int, stride: int, low: int, high: int, dilation: int) -> tuple[int, int, int, int]:
    """Of an axis the first tap that meets data, the one behind the last, and the padding for these: others meet zeros
    alone, eight of nine in an image of 1x1, and are not read, whatever they hold.
    """
    last = (n + low + high - dilation * (k - 1) - 1) // stride * stride  # where the last result begins
    found = [t for t in range(k) if low - last <= t * dilation < low + n]
    # As many as leave no padding below 0; where none meets data, all.
    first = min(found[0], low // dilation) if found else 0
    end = max(found[-1] + 1, k - high // dilation) if found else k
    return first, end, low - first * dilation, high - (k - end) * dilation


def conv_transpose(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1,
                   padding: Padding = 0, output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """y[n, o, i] = b[o] + Σ over c, p, k with i = p · stride + k · dilation − padding of w[c, o, k] · x[n, c, p]

    The adjoint of `conv` with the same weight: x (N, C, *S), weight (C, O / groups, *K), bias (O)
    -> (N, O, *P) with P = (S − 1) stride − low − high + dilation (K − 1) + output_padding + 1.
    Raises ShapeError where channels or groups do not fit or the result is empty, ConfigError for settings.
    """
    who = "conv_transpose"
    x, weight, d = _operands(who, x, weight)
    (groups,) = per_axis(who, "groups", groups, 1, 1)
    size = weight.shape[2:]
    if x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise ShapeError(
            f"{who}: expected weight (C, O / groups, *K) with C a multiple of groups; "
            f"got x {x.shape}, weight {weight.shape}, groups {groups}.")
    stride, dilation = per_axis(who, "stride", stride, d, 1), per_axis(who, "dilation", dilation, d, 1)
    low, high = padding_sides(who, padding, size, stride, dilation)
    more = per_axis(who, "output_padding", output_padding, d, 0)
    if any(m >= max(s, t) for m, s, t in zip(more, stride, dilation, strict=True)):
        raise ConfigError(
            f"{who}: expected output_padding below stride or dilation; "
            f"got {more} with stride {stride}, dilation {dilation}.")
    # output_padding takes back high padding first; what is left is beyond the reach of every kernel: zeros
    extra = tuple(max(m - b, 0) for m, b in zip(more, high, strict=True))
    high = tuple(max(b - m, 0) for m, b in zip(more, high, strict=True))
    out = tuple((n - 1) * s - a - b + t * (k - 1) + 1
                for n, s, a, b, t, k in zip(x.shape[2:], stride, low, high, dilation, size, strict=True))
    if any(n < 1 for n in out):
        raise ShapeError(f"{who}: expected a result of at least 1 along each axis; got {out}; pad less.")
    if not varies(*x.shape[2:]) and {*x.shape[2:], *dilation, groups} == {1} and not any((*low, *high)):
        # From one place, the first layer of a generator: a product of matrices.
        columns = reshape(weight, (x.shape[1], math.prod(weight.shape[1:])))
        y = reshape(matmul(reshape(x, x.shape[:2]), columns), (x.shape[0], weight.shape[1], *out))
    else:
        y = _conv_data_gradient(x, weight, size=out, stride=stride, low=low, high=high, dilation=dilation,
                                groups=groups, **_arithmetic(x))
    return _with_bias(who, pad(y, (0,) * (d + 2), (0, 0, *extra)), bias, d)
