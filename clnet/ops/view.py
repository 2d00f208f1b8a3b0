"""Ops that move no data: a closed set of index maps. Layers compose these, they never add to them.

Each states its index map once: output coordinates -> input coordinates (and conditions under which there is an input;
elsewhere the element is `value`). The scheduler folds chains of them into the loads of whoever reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..core import arguments
from ..core.arguments import Axes, Ints, Sizes
from ..core.arrays import Array
from ..core.op import OPS, Case, view
from ..core.size import varies
from ..core.spec import Spec, broadcast_shapes
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError, ShapeError


# --- reshape: same elements in row-major order
def _reshape_infer(x: Spec, *, shape: tuple[int, ...]) -> Spec:
    if math.prod(shape) != x.size or any(n < 0 for n in shape):
        raise ShapeError(
            f"reshape: expected {x.size} elements as in {x.shape}; got shape {shape}; use -1 for at most one axis.")
    return Spec(shape, x.dtype)


_reshape = view(
    "reshape", _reshape_infer, lambda x, *, shape: x.reshape(shape), lambda g, y, x, *, shape: reshape(g, x.shape),
    lambda ix, ins, outs, *, shape: (ix.flatten(outs).unflatten(ins), []),
    lambda: [Case(((3, 4),), dict(shape=(2, 6))), Case(((2, 3, 4),), dict(shape=(24,))),
             Case(((6,),), dict(shape=(1, 3, 2)))],
    "y has the elements of x in row-major order", shows="all")

_permute = view(
    "permute", lambda x, *, order: Spec(tuple(x.shape[i] for i in order), x.dtype),
    lambda x, *, order: x.transpose(order),
    lambda g, y, x, *, order: permute(g, tuple(np.argsort(order))),
    lambda ix, ins, outs, *, order: (ix.pick([order.index(a) for a in range(len(order))]), []),
    lambda: [Case(((3, 4, 5),), dict(order=(2, 0, 1))), Case(((4, 3),), dict(order=(1, 0)))],
    "y[i0, i1, …] = x with its axes in the given order", shows="all")

_expand = view(
    "expand", lambda x, *, shape: Spec(shape, x.dtype), lambda x, *, shape: np.broadcast_to(x, shape),
    lambda g, y, x, *, shape: g, lambda ix, ins, outs, *, shape: (ix.drop(len(outs) - len(ins)).clamp(ins), []),
    lambda: [Case(((3, 1),), dict(shape=(3, 4))), Case(((4,),), dict(shape=(2, 3, 4)))],
    "y repeats x along axes of size 1 and new leading axes", shows="all")

_crop = view(
    "crop", lambda x, *, start, size, step: Spec(size, x.dtype),
    lambda x, *, start, size, step: x[tuple(slice(a, a + (n - 1) * s + 1 if n else a, s)
                                            for a, n, s in zip(start, size, step, strict=True))],
    lambda g, y, x, *, start, size, step: pad(
        g, start,
        [n - a - ((m - 1) * s + 1 if m else 0) for n, a, m, s in zip(x.shape, start, size, step, strict=True)],
        [s - 1 for s in step]),
    lambda ix, ins, outs, *, start, size, step: (ix.affine(step, start), []),
    lambda: [Case(((5, 6),), dict(start=(1, 2), size=(3, 2), step=(1, 2))),
             Case(((7,),), dict(start=(0,), size=(4,), step=(2,)))],
    "y[i] = x[start + step · i]", shows="part")

_flip = view(
    "flip", lambda x, *, axes: x, lambda x, *, axes: np.flip(x, axes), lambda g, y, x, *, axes: flip(g, axes),
    lambda ix, ins, outs, *, axes: (ix.affine([-1 if a in axes else 1 for a in range(len(ins))],
                                              [max(n - 1, 0) if a in axes else 0 for a, n in enumerate(ins)]), []),
    lambda: [Case(((3, 4),), dict(axes=(1,))), Case(((3, 4),), dict(axes=(0, 1)))],
    "y[i] = x[n − 1 − i] along the axes")


# --- pad: the adjoint of crop
def _padded(shape: Ints, low: Ints, high: Ints, inner: Ints) -> tuple[int, ...]:
    return tuple(a + b + max(n - 1, 0) * i + n for n, a, b, i in zip(shape, low, high, inner, strict=True))


def _pad_ref(x: Array, *, low: Ints, high: Ints, inner: Ints, value: float) -> Array:
    y = np.full(_padded(x.shape, low, high, inner), value, x.dtype)
    y[tuple(slice(a, a + n * (i + 1) - i if n else a, i + 1) for n, a, i in zip(x.shape, low, inner, strict=True))] = x
    return y


_pad = view(
    "pad", lambda x, *, low, high, inner, value: Spec(_padded(x.shape, low, high, inner), x.dtype), _pad_ref,
    lambda g, y, x, *, low, high, inner, value: _crop(g, start=low, size=x.shape, step=tuple(i + 1 for i in inner)),
    lambda ix, ins, outs, *, low, high, inner, value: ix.divided([-a for a in low], [i + 1 for i in inner], ins),
    lambda: [Case(((3, 4),), dict(low=(1, 0), high=(0, 2), inner=(0, 0), value=0)),
             Case(((3, 2),), dict(low=(0, 1), high=(1, 0), inner=(2, 1), value=-1.5))],
    "y = x with `value` before, after and between its elements")


# --- windows and its adjoint: what convolution and pooling are made of
def _out_sizes(n: Sequence[int], size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list[int]:
    return [(h - d * (k - 1) - 1) // s + 1 for h, k, s, d in zip(n, size, stride, dilation, strict=True)]


def _windows_infer(x: Spec, *, size: Ints, stride: Ints, dilation: Ints) -> Spec:
    lead, n = x.shape[: -len(size)], x.shape[-len(size) :]
    out = _out_sizes(n, size, stride, dilation)
    if len(x.shape) < len(size) or any(o < 1 for o in out):
        raise ShapeError(
            f"windows: expected the last {len(size)} axes to hold a window of {size} (dilation {dilation}); "
            f"got shape {x.shape}; pad it.")
    return Spec((*lead, *out, *size), x.dtype)


def _windows_ref(x: Array, *, size: Ints, stride: Ints, dilation: Ints) -> Array:
    k = len(size)
    spans = tuple(d * (n - 1) + 1 for n, d in zip(size, dilation, strict=True))
    y = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(x.ndim - k, x.ndim)))
    lead = (slice(None),) * (x.ndim - k)
    return y[(*lead, *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))]


_windows = view(
    "windows", _windows_infer, _windows_ref,
    lambda g, y, x, *, size, stride, dilation: fold_windows(g, x.shape[-len(size) :], size, stride, dilation),
    lambda ix, ins, outs, *, size, stride, dilation: (ix.windows(len(size), stride, dilation), []),
    lambda: [Case(((2, 5, 6),), dict(size=(2, 3), stride=(1, 2), dilation=(2, 1))),
             Case(((3, 7),), dict(size=(3,), stride=(2,), dilation=(1,)))],
    "y[…, o, k] = x[…, o · stride + k · dilation]")


def _spread_ref(x: Array, *, n: Ints, size: Ints, stride: Ints, dilation: Ints) -> Array:
    d = len(size)
    lead = x.shape[: -2 * d]
    y = np.zeros((*lead, *n, *size), x.dtype)
    for k in np.ndindex(*size):
        at = tuple(slice(i * di, i * di + (o - 1) * s + 1, s)
                   for i, di, s, o in zip(k, dilation, stride, x.shape[-2 * d : -d], strict=True))
        y[(..., *at, *k)] = x[(..., *k)]
    return y


_spread = view(
    "spread", lambda x, *, n, size, stride, dilation: Spec((*x.shape[: -2 * len(size)], *n, *size), x.dtype),
    _spread_ref,
    lambda g, y, x, *, n, size, stride, dilation: _unspread(g, x.shape[-2 * len(size) : -len(size)], stride, dilation),
    lambda ix, ins, outs, *, n, size, stride, dilation: ix.spread(len(size), stride, dilation, ins),
    lambda: [Case(((2, 3, 2),), dict(n=(7,), size=(2,), stride=(2,), dilation=(1,))),
             Case(((2, 3, 2, 2),), dict(n=(4, 6), size=(2, 2), stride=(1, 2), dilation=(2, 1)))],
    "y[…, h, k] = x[…, (h − k · dilation) / stride, k] where that is a whole number in range, else 0")


def _unspread(g: Tensor, out: tuple[int, ...], stride: Ints, dilation: Ints) -> Tensor:
    """x[o, k] = y[o · stride + k · dilation, k]: the diagonal that `spread` reads, gathered tap by tap."""
    return _diagonal(g, out=tuple(out), stride=tuple(stride), dilation=tuple(dilation))


def _diagonal_ref(x: Array, *, out: Ints, stride: Ints, dilation: Ints) -> Array:
    d = len(out)
    size = x.shape[-d:]
    y = np.empty((*x.shape[: -2 * d], *out, *size), x.dtype)
    for k in np.ndindex(*size):
        at = tuple(slice(i * di, i * di + (o - 1) * s + 1, s)
                   for i, di, s, o in zip(k, dilation, stride, out, strict=True))
        y[(..., *k)] = x[(..., *at, *k)]
    return y


_diagonal = view(
    "unspread",
    lambda x, *, out, stride, dilation: Spec((*x.shape[: -2 * len(out)], *out, *x.shape[-len(out) :]), x.dtype),
    _diagonal_ref,
    lambda g, y, x, *, out, stride, dilation: _spread(
        g, n=x.shape[-2 * len(out) : -len(out)], size=x.shape[-len(out) :], stride=stride, dilation=dilation),
    lambda ix, ins, outs, *, out, stride, dilation: (ix.diagonal(len(out), stride, dilation), []),
    lambda: [Case(((2, 7, 2),), dict(out=(3,), stride=(2,), dilation=(1,)))],
    "y[…, o, k] = x[…, o · stride + k · dilation, k]")


# --- what users call
def reshape(x: TensorLike, *shape: Sizes) -> Tensor:
    """y = x with a new shape; one axis may be -1. Raises ShapeError when the element counts differ."""
    x, dims = as_tensor(x), arguments.spelled("reshape", "shape", shape)
    if dims.count(-1) == 1:
        rest = -math.prod(dims)
        if rest and x.size % rest == 0:
            dims = tuple(x.size // rest if n == -1 else n for n in dims)
    return x if dims == x.shape else _reshape(x, shape=dims)


def permute(x: TensorLike, *order: Sizes) -> Tensor:
    """y = x with its axes in the given order. Raises ShapeError for what is none."""
    x = as_tensor(x)
    dims = arguments.order("permute", order, x.shape)
    return x if dims == tuple(range(x.ndim)) else _permute(x, order=dims)


def transpose(x: TensorLike, a: int = -2, b: int = -1) -> Tensor:
    """y = x with two axes swapped. Raises ShapeError for one that x has not; a vector has no two."""
    x = as_tensor(x)
    first, second = (arguments.axis("transpose", k, x.ndim) for k in (a, b))
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return permute(x, order)


def expand(x: TensorLike, *shape: Sizes) -> Tensor:
    """y = x repeated to `shape` by NumPy's broadcasting; −1 leaves an axis of x as it is.
    Raises ShapeError where x does not broadcast to it.
    """
    x, dims = as_tensor(x), arguments.spelled("expand", "shape", shape)
    given = dims
    if -1 in dims:
        known = (-2,) * (len(dims) - x.ndim) + x.shape  # an axis that x does not have has no size to keep
        dims = tuple(m if n == -1 else n for n, m in zip(dims, known, strict=False))
    if any(n < 0 for n in dims) or broadcast_shapes("expand", x.shape, dims) != dims:
        raise ShapeError(f"expand: expected a shape that {x.shape} broadcasts to; got {given}.")
    return x if dims == x.shape else _expand(x, shape=dims)


def flip(x: TensorLike, axes: Axes = None) -> Tensor:
    """y[i] = x[n − 1 − i] along `axes` (None: all)."""
    x = as_tensor(x)
    return _flip(x, axes=arguments.axes("flip", axes, x.ndim))


def pad(x: TensorLike, low: Sequence[int], high: Sequence[int], inner: Sequence[int] | None = None,
        value: float = 0) -> Tensor:
    """y = x with `low` elements before, `high` after and `inner` between its own, per axis, all equal to `value`.

    Raises ShapeError for amounts that are negative or no integers, DTypeError for a value
    that the dtype of x cannot hold.
    """
    x = as_tensor(x)
    low, high, inner = (
        arguments.integers("pad", name, v, x.ndim, 0, way="; one amount an axis, and slices to crop")
        for name, v in (("low", low), ("high", high), ("inner", (0,) * x.ndim if inner is None else inner)))
    value = arguments.number("pad", value, x.dtype)
    amounts = *low, *high, *inner  # one that varies may be 0 just now
    return _pad(x, low=low, high=high, inner=inner, value=value) if varies(*amounts) or any(amounts) else x


def windows(x: TensorLike, size: Sizes, stride: Sizes | None = None, dilation: Sizes | None = None) -> Tensor:
    """y[…, o, k] = x[…, o·stride + k·dilation] over the last axes, as many as `size` has;
    stride and dilation for all of them, or one each.

    Raises ShapeError where a window is larger than x, ConfigError for sizes, strides or dilations below 1.
    """
    x, size = as_tensor(x), _window(size)
    stride, dilation = (arguments.per_axis("windows", n, 1 if v is None else v, len(size), 1)
                        for n, v in (("stride", stride), ("dilation", dilation)))
    if len(size) > x.ndim:
        raise ShapeError(f"windows: expected a window of at most {x.ndim} axes for shape {x.shape}; got {size}.")
    return _windows(x, size=size, stride=stride, dilation=dilation)


def _window(size: Sizes) -> Ints:
    whole = arguments.sizes("windows", size, "size", ConfigError)
    if not whole or min(whole) < 1:
        raise ConfigError(f"windows: expected a window of at least 1 along one axis or more; got {whole}.")
    return whole


def fold_windows(x: TensorLike, n: Sizes, size: Sizes, stride: Sizes, dilation: Sizes) -> Tensor:
    """y[…, h] = Σ over windows o and offsets k with h = o·stride + k·dilation of x[…, o, k]:
    the adjoint of `windows`, y (…, *n).

    Raises ShapeError where the windows of x are others than these or reach beyond n, ConfigError for settings below 1.
    """
    x, size = as_tensor(x), _window(size)
    d = len(size)
    n = arguments.integers("fold_windows", "n", n, d, 0)
    stride, dilation = (arguments.per_axis("fold_windows", name, v, d, 1)
                        for name, v in (("stride", stride), ("dilation", dilation)))
    spans = [(o - 1) * s + t * (k - 1) + 1 if o else 0
             for o, k, s, t in zip(x.shape[-2 * d : -d], size, stride, dilation, strict=False)]
    if x.ndim < 2 * d or x.shape[-d:] != size or any(a > b for a, b in zip(spans, n, strict=True)):
        raise ShapeError(
            f"fold_windows: expected x (…, *windows, *{size}) whose windows lie in {n}; got shape {x.shape}.")
    spread = _spread(x, n=n, size=size, stride=stride, dilation=dilation)
    return reshape(OPS["sum"](spread, axes=tuple(range(spread.ndim - d, spread.ndim))), spread.shape[:-d])
