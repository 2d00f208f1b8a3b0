"""Folds over axes: one row each (what an element contributes, how two partial results merge, NumPy, VJP).

The ops keep reduced axes with size 1; the functions at the end are what users call (`axes`, `keepdims`).
Accumulation is float32 or wider; NaN wins every comparison, as in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arguments import Axes
from ..core.arrays import Array
from ..core.autodiff import gradients
from ..core.formula import composite
from ..core.op import OPS, Case, Cotangents, Fold, Op, reduction
from ..core.precision import stored_dtype
from ..core.size import real
from ..core.spec import NARROW
from ..core.tensor import Tensor, TensorLike, as_tensor, widened
from ..errors import ShapeError
from .pointwise import equal, exp, isfinite, log, ones, where
from .view import expand, flip, pad, permute, reshape


def _keep(fn: Callable[..., Array]) -> Any:
    return lambda x, *, axes: fn(x, axis=tuple(axes), keepdims=True)


def _peak(fn: Callable[..., Array], none: float) -> Any:
    """`none` of no elements."""

    def ref(x: Array, *, axes: tuple[int, ...]) -> Array:
        if x.size:
            return _keep(fn)(x, axes=axes)
        return np.full([1 if a in axes else n for a, n in enumerate(x.shape)], none)

    return ref


def _arg(fn: Callable[..., Array]) -> Any:
    """NumPy's argmax over several axes: the flat number along them, first on ties."""

    def ref(x: Array, *, axes: tuple[int, ...]) -> Array:
        kept = [a for a in range(x.ndim) if a not in axes]
        flat = np.transpose(x, (*kept, *axes)).reshape(*(x.shape[a] for a in kept), -1)
        return np.asarray(fn(flat, axis=-1)).reshape([1 if a in axes else n for a, n in enumerate(x.shape)])

    return ref


def _to_first(g: Tensor, y: Tensor, x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """The whole cotangent to the first element that equals the result."""
    arg = OPS["argmax"](equal(x, y).astype("int8"), axes=axes)
    return where(equal(positions(x.shape, axes), arg), g, 0.0)


def _to_factors(g: Tensor, y: Tensor, x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    return OPS["prod_gradient"](g, x, axes=axes)


def _extreme(word: str, compare: str) -> Fold:
    """The larger (or smaller) of two, NaN before everything."""
    return Fold((word,), ("x",), (f"a0 {compare} b0 || a0 != a0 ? a0 : b0",))


def _place(word: str, compare: str) -> Fold:
    """The same with its index; the first one wins ties."""
    better = f"b0 {compare} a0 || (b0 == a0 && b1 < a1) || (b0 != b0 && (a0 == a0 || b1 < a1))"
    return Fold((word, "HIGHEST"), ("x", "i"), (f"({better}) ? b0 : a0", f"({better}) ? b1 : a1"), "a1", ("T", "I"))


def _total(x: Array, *, axes: tuple[int, ...]) -> Any:
    """NumPy adds in pairs along the last axes alone: sums over others are made in float64,
    in which running totals keep what float32 does.
    """
    pairs = tuple(axes) == tuple(range(x.ndim - len(axes), x.ndim)) or x.dtype.kind != "f"
    return np.sum(x, axis=tuple(axes), keepdims=True, dtype=None if pairs else np.float64)


_sum = reduction("sum", Fold(("0",), ("x",), ("a0 + b0",)), _total, lambda g, y, x, *, axes: expand(g, x.shape),
                 out="sum", doc="y = Σ x over the axes", rule="wide")
_prod = reduction("prod", Fold(("1",), ("x",), ("a0 * b0",)), _keep(np.prod), _to_factors, out="sum", accepts="number",
                  domain=(0.5, 1.5), doc="y = Π x over the axes", rule="wide")
_max = reduction("max", _extreme("LOWEST", ">"), _peak(np.max, -np.inf), _to_first,
                 doc="y = max x over the axes; the gradient goes to the first maximum")
_min = reduction("min", _extreme("HIGHEST", "<"), _peak(np.min, np.inf), _to_first,
                 doc="y = min x over the axes; the gradient goes to the first minimum")
argmax = reduction("argmax", _place("LOWEST", ">"), _arg(np.argmax), None, out="int64",
                   doc="y = index of the first maximum along the axes, in row-major order")
argmin = reduction("argmin", _place("HIGHEST", "<"), _arg(np.argmin), None, out="int64",
                   doc="y = index of the first minimum along the axes, in row-major order")


@composite(accepts="number", domain=(0.5, 1.5), samples=lambda: [
    Case((tuple(1 if a in axes else n for a, n in enumerate(shape)), shape), dict(axes=axes))
    for shape, axes in (((3, 5), (1,)), ((3, 5), (0, 1)), ((2, 1, 7), (0, 2)), ((4, 1), (1,)))])
def _prod_gradient(g: Tensor, x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """dxᵢ = g · Πⱼ≠ᵢ xⱼ over the axes: g · y / xᵢ, with the rest of the product where one xᵢ is zero"""
    zero = equal(x, 0)
    count = OPS["sum"](zero.astype(x.dtype), axes=axes)
    rest = OPS["prod"](where(zero, 1.0, x), axes=axes)
    return g * where(zero, where(equal(count, 1), rest, 0.0), where(equal(count, 0), rest / where(zero, 1.0, x), 0.0))


@_prod_gradient.defvjp
def _(u: Tensor, y: Tensor, g: Tensor, x: Tensor, *, axes: tuple[int, ...]) -> Cotangents:
    """By way of products alone, whose derivatives of every order hold at zeros, too."""
    others = _others(x, axes)
    return OPS["sum"](u * others, axes=axes), gradients(others, [x], u * g)[0]


def _others(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """y = Πⱼ≠ᵢ xⱼ over the axes: up a tree of pairs, and down with each half's others times its neighbour."""
    if not x.size:
        return x
    order = (*(a for a in range(x.ndim) if a not in axes), *axes)
    moved = permute(x, order)
    n = math.prod(x.shape[a] for a in axes)
    depth = (n - 1).bit_length()
    levels = [pad(reshape(moved, (-1, n)), (0, 0), (0, (1 << depth) - n), value=1)]
    for _ in range(depth):
        levels.append(levels[-1][:, ::2] * levels[-1][:, 1::2])
    y = ones(levels.pop().shape, x.dtype)
    for level in reversed(levels):
        neighbours = flip(reshape(level, (level.shape[0], -1, 2)), -1)
        y = reshape(reshape(y, (*y.shape, 1)) * neighbours, level.shape)
    return permute(reshape(y[:, :n], moved.shape), [order.index(a) for a in range(x.ndim)])


def positions(shape: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    """y[i] = row-major number of i along `axes`, broadcastable to `shape`; int64, no memory. Raises ShapeError."""
    shape = arguments.sizes("positions", shape)
    axes = arguments.axes("positions", axes, len(shape))
    n = math.prod(shape[a] for a in axes)
    line = OPS["arange"](n=n, dtype="int64")
    return reshape(line, tuple(s if a in axes else 1 for a, s in enumerate(shape)))


def _call(op: Op, x: TensorLike, axes: Axes, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    return _folded(op, x, arguments.axes(op.name, axes, x.ndim), keepdims)


def _choice(op: Op, x: TensorLike, axes: Axes, keepdims: bool) -> Tensor:
    """The same for ops that choose an element: of none there is nothing to choose."""
    x = as_tensor(x)
    dims = arguments.axes(op.name, axes, x.ndim)
    if 0 in x.shape and all(n for a, n in enumerate(x.shape) if a not in dims):
        raise ShapeError(f"{op.name}: expected at least one element along axes {dims}; got shape {x.shape}.")
    return _folded(op, x, dims, keepdims)


def _folded(op: Op, x: Tensor, dims: tuple[int, ...], keepdims: bool) -> Tensor:
    y: Tensor = op(x, axes=dims)
    return y if keepdims else reshape(y, tuple(n for a, n in enumerate(x.shape) if a not in dims))


def peak(x: TensorLike, axes: Axes) -> Tensor:
    """y = max x over `axes`, which are kept; −∞ of no elements: what exponentials are shifted by."""
    x = as_tensor(x)
    return _folded(_max, x, arguments.axes("max", axes, x.ndim), True)


def _like(y: Tensor, x: Tensor) -> Tensor:
    """y, which was computed of `widened(x)`, in the 16 bits of x; under `autocast` sums stay wide."""
    return y.astype(x.dtype) if x.dtype in NARROW and not stored_dtype() else y


def sum(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = Σ x over `axes` (None: all). Bool and small integers sum in 64 bits."""
    return _call(_sum, x, axes, keepdims)


def prod(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = Π x over `axes`."""
    return _call(_prod, x, axes, keepdims)


def max(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = max x over `axes`; NaN wins; the gradient goes to the first maximum.
    Raises ShapeError where there is no element.
    """
    return _choice(_max, x, axes, keepdims)


def min(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = min x over `axes`; NaN wins; the gradient goes to the first minimum.
    Raises ShapeError where there is no element.
    """
    return _choice(_min, x, axes, keepdims)


def argmax_(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = int64 index of the first maximum along `axes`. Raises ShapeError where there is no element."""
    return _choice(argmax, x, axes, keepdims)


def argmin_(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = int64 index of the first minimum along `axes`. Raises ShapeError where there is no element."""
    return _choice(argmin, x, axes, keepdims)


def mean(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = Σ x / n over `axes`."""
    x = as_tensor(x)
    dims = arguments.axes("mean", axes, x.ndim)
    return _like(sum(widened(x), dims, keepdims) / real(math.prod(x.shape[a] for a in dims)), x)


def var(x: TensorLike, axes: Axes = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
    """y = Σ (x − mean x)² / max(n − ddof, 0) over `axes`: ∞, or NaN of 0 / 0, for ddof ≥ n.
    Two passes, so a large mean costs no accuracy.
    """
    x, ddof = as_tensor(x), arguments.integer("var", "ddof", ddof, 0)
    dims = arguments.axes("var", axes, x.ndim)
    n = math.prod(x.shape[a] for a in dims)
    wide = widened(x)
    d = wide - mean(wide, dims, keepdims=True)
    return _like(sum(d * d, dims, keepdims) / real(n - ddof if n > ddof else 0), x)


def logsumexp(x: TensorLike, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """y = ln Σ eˣ over `axes`, shifted by the maximum so that it does not overflow; −∞ for a line of −∞."""
    x = as_tensor(x)
    dims, wide = arguments.axes("logsumexp", axes, x.ndim), widened(x)
    top = peak(wide, dims)
    shift = detach(where(isfinite(top), top, 0.0))
    y = _like(log(sum(exp(wide - shift), dims, keepdims=True)) + shift, x)
    return y if keepdims else reshape(y, tuple(n for a, n in enumerate(x.shape) if a not in dims))


def detach(x: TensorLike) -> Tensor:
    """y = x, with no gradient through it."""
    return OPS["detach"](as_tensor(x))
