"""Changing the size of images: rows at rational places, averages over shares of an axis, pixel shuffling.

One rule says how much of x[h] there is in y[i] along an axis of n, resized to m,
with t = (a i + b) / c the place that i reads:

    nearest   1 for h = ⌊t⌋, t = i n / m
    linear    max(0, 1 − |t − h|), t = ((2 i + 1) n / m − 1) / 2, clipped to [0, n − 1]
    corners   as linear, t = i (n − 1) / (m − 1)
    area      1 / (z − s) for s ≤ h < z, s = ⌊i n / m⌋, z = ⌈(i + 1) n / m⌉

Repeating pixels and taking every r-th are views, and melt into whoever reads them. The elements that h went to lie
side by side, at ⌊(c h + …) / a⌋ and on: the adjoint gathers them in their order, nothing races. The formulas over
views (⌊(a i + b) / c⌋ is "repeat c times, take every a-th from b") serve where the kernel of resample.cl does not suit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arguments import Sizes, per_axis
from ..core.arrays import Array
from ..core.op import Case, Kernel
from ..core.size import common_divisor
from ..core.spec import Spec, accept
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from ..errors import ConfigError, ShapeError
from ..kernels.bands import band, places
from ..kernels.choosers import resample_kernel
from .indexing import getitem
from .pointwise import abs as absolute
from .pointwise import arange, bit_and, cast, clip, floordiv, where
from .pool import avg_pool
from .reduce import sum
from .view import _crop, expand, pad, permute, reshape, windows

FAMILY = "sample"
RULES = ("nearest", "linear", "corners", "area")
UNROLLED = 4  # taps that are written out, so that they stay part of a map


def _weights(rule: str, n: int, m: int, i: Tensor, h: Tensor, dtype: str) -> Tensor:
    """How much of x[h] there is in y[i], for integer tensors i and h;
    what lies outside does not matter, it meets zeros.
    """
    a, b, c = places(rule, n, m)
    if rule == "area":
        start, stop = floordiv(i * n, m), floordiv(i * n + (n + m - 1), m)
        return where(bit_and(h >= start, h < stop), 1.0 / cast(stop - start, dtype), 0.0)
    if rule == "nearest":
        away = i * a + b - h * c
        return cast(bit_and(away >= 0, away < c), dtype)
    away = absolute(clip(i * a + b, 0, c * (n - 1)) - h * c)
    return cast(where(away < c, c - away, 0), dtype) / float(c)


# --- the op and its adjoint: one axis
def _matrix(rule: str, n: int, m: int) -> np.ndarray[Any, Any]:
    """(m, n): how much of x[h] there is in y[i], from the rule as it is written."""
    i, h = np.arange(m)[:, None], np.arange(n)[None]
    if rule == "area":
        start, stop = i * n // m, -(-(i + 1) * n // m)
        return np.where((h >= start) & (h < stop), 1 / (stop - start), 0.0)
    if rule == "nearest":
        return np.where(h == i * n // m, 1.0, 0.0)
    t = (i + 0.5) * n / m - 0.5 if rule == "linear" else i * (n - 1) / max(m - 1, 1)
    return np.maximum(0.0, 1 - np.abs(np.clip(t, 0, n - 1) - h))


def _applied(matrix: np.ndarray[Any, Any], x: Array) -> Array:
    """Σ over h of matrix[i, h] · x[:, h]; what has no weight is not read."""
    y = np.zeros((x.shape[0], len(matrix), x.shape[2]), x.dtype)
    for i, row in enumerate(matrix):
        used = np.flatnonzero(row)
        y[:, i] = np.einsum("h,ahd->ad", row[used], x[:, used])
    return y


def _infer(x: Spec, *, rule: str, n: int, m: int) -> Spec:
    accept("resample", "float", [x])
    if len(x.shape) != 3 or x.shape[1] != n:
        raise ShapeError(f"resample: expected x (a, {n}, d); got {x.shape}.")
    return Spec((x.shape[0], m, x.shape[2]), x.dtype)


def _samples(adjoint: bool) -> list[Case]:
    sizes = (("linear", 5, 8, 2, 3), ("area", 7, 3, 2, 3), ("nearest", 4, 6, 2, 3), ("corners", 3, 7, 2, 3),
             ("linear", 9, 4, 2, 3), ("corners", 1, 3, 2, 3), ("corners", 4, 1, 2, 3), ("area", 2, 5, 2, 3),
             ("linear", 3, 5, 40, 1), ("area", 5, 2, 3, 37), ("linear", 50, 3, 1, 21))
    return [Case(((a, m if adjoint else n, d),), dict(rule=r, n=n, m=m)) for r, n, m, a, d in sizes]


def _taps(x: Tensor, a: int, b: int, c: int, taps: int, count: int) -> Tensor:
    """(A, count, D, taps): x[:, ⌊(a o + b) / c⌋ + k], zeros outside; a view."""
    g = common_divisor(a, c)
    a, b, c = a // g, b // g, c // g  # ⌊(⌊b / g⌋ + …) …⌋ is the same number
    low = max(0, -(b // c))
    high = max(0, (a * (count - 1) + b) // c + taps - x.shape[1])
    w = windows(pad(x, (0, low, 0), (0, high, 0)), (taps, 1))
    lead, places, d = w.shape[:3]
    w = reshape(expand(reshape(w, (lead, places, 1, d, taps)), (lead, places, c, d, taps)), (lead, places * c, d, taps))
    if a == 0:
        return expand(w[:, b + low * c : b + low * c + 1], (lead, count, d, taps))
    return _crop(w, start=(0, b + low * c, 0, 0), size=(lead, count, d, taps), step=(1, a, 1, 1))


def _banded(x: Tensor, adjoint: bool, rule: str, n: int, m: int) -> Tensor:
    a, b, c, taps = band(rule, n, m, adjoint)
    count = n if adjoint else m
    if not x.size:
        return constant(0, x.dtype, (x.shape[0], count, x.shape[2]))
    near = _taps(x, a, b, c, taps, count)
    if taps == 1 and not adjoint:
        return near[..., 0]
    o, k = reshape(arange(n=count, dtype="int64"), (count, 1, 1)), arange(n=taps, dtype="int64")
    there = floordiv(o * a + b, c) + k
    w = _weights(rule, n, m, there, o, x.dtype) if adjoint else _weights(rule, n, m, o, there, x.dtype)
    weighted = where(w > 0, near * w, 0.0)
    if taps > UNROLLED:
        return sum(weighted, -1)
    total = weighted[..., 0]
    for j in range(1, taps):
        total = total + weighted[..., j]
    return total


_resample: Kernel = Kernel(
    "resample", _infer, lambda x, *, rule, n, m: _applied(_matrix(rule, n, m), x), ("x",), cl="resample.cl",
    accepts="float", samples=lambda: _samples(False), launch=resample_kernel(False),
    define=lambda x, **how: _banded(x, False, **how), family=FAMILY, cost=8,
    doc="y[a, i, d] = Σ over h of w(i, h) · x[a, h, d], by the rule of resizing n to m",
    vjp=lambda g, y, x, **how: _resample_adjoint(g, **how))
_resample_adjoint: Kernel = Kernel(
    "resample_adjoint", lambda g, *, rule, n, m: Spec((g.shape[0], n, g.shape[2]), g.dtype),
    lambda g, *, rule, n, m: _applied(_matrix(rule, n, m).T, g), ("g",), cl="resample.cl", accepts="float",
    samples=lambda: _samples(True), launch=resample_kernel(True),
    define=lambda g, **how: _banded(g, True, **how), family=FAMILY, cost=8,
    doc="x[a, h, d] = Σ over i of w(i, h) · g[a, i, d]: the adjoint of resample",
    vjp=lambda u, y, g, **how: _resample(u, **how))


# --- axes
def _axis(x: Tensor, axis: int, m: int, rule: str) -> Tensor:
    """x with `axis` resized to m."""
    n = x.shape[axis]
    if n == m and rule != "nearest":
        return x
    if rule == "nearest" and m % n == 0:
        lead, rest = x.shape[: axis + 1], x.shape[axis + 1 :]
        return reshape(expand(reshape(x, (*lead, 1, *rest)), (*lead, m // n, *rest)), (*lead[:-1], m, *rest))
    if rule == "nearest" and n % m == 0:
        return getitem(x, (*(slice(None),) * axis, slice(None, None, n // m)))
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    y = _resample(reshape(x, (math.prod(lead), n, math.prod(rest))), rule=rule, n=n, m=m)
    return reshape(y, (*lead, m, *rest))


def _image(who: str, x: TensorLike, size: Sizes) -> tuple[Tensor, tuple[int, ...]]:
    """x, and one length for each of its spatial axes."""
    x = as_tensor(x)
    d = x.ndim - 2
    if d < 1 or 0 in x.shape[2:]:
        raise ShapeError(f"{who}: expected x (N, C, *S), S not empty; got {x.shape}.")
    accept(who, "float", [x.spec])
    return x, per_axis(who, "size", size, d, 1, ShapeError)


# --- what users call
def resize(x: TensorLike, size: Sizes, mode: str = "nearest", align_corners: bool = False) -> Tensor:
    """y[n, c, i] = Σ over h of w(i, h) · x[n, c, h], nearest: h = ⌊i · S / size⌋;
    linear: between the two neighbours of ((2 i + 1) S / size − 1) / 2

    x (N, C, *S), size an int or one per axis -> (N, C, *size). With align_corners a linear y[i] lies
    at i (S − 1) / (size − 1), so that the corners stay. Along several axes: one after the other (bilinear, trilinear).
    Raises ShapeError, ConfigError.
    """
    x, sizes = _image("resize", x, size)
    arguments.choice("resize", "mode", mode, ("nearest", "linear"))
    if align_corners and mode == "nearest":
        raise ConfigError("resize: expected align_corners in mode 'linear' alone; got it in mode 'nearest'.")
    for axis, m in enumerate(sizes, 2):
        x = _axis(x, axis, m, "corners" if align_corners else mode)
    return x


def adaptive_avg_pool(x: TensorLike, size: Sizes) -> Tensor:
    """y[n, c, i] = mean of x[n, c, h] over ⌊i S / size⌋ ≤ h < ⌈(i + 1) S / size⌉, along every axis

    x (N, C, *S), size an int or one per axis -> (N, C, *size). Raises ShapeError.
    """
    x, sizes = _image("adaptive_avg_pool", x, size)
    if all(n % m == 0 for n, m in zip(x.shape[2:], sizes, strict=True)) and x.ndim <= 5:
        return avg_pool(x, tuple(n // m for n, m in zip(x.shape[2:], sizes, strict=True)))
    for axis, m in enumerate(sizes, 2):
        x = _axis(x, axis, m, "area")
    return x


def pixel_shuffle(x: TensorLike, factor: int) -> Tensor:
    """y[n, c, h · r + i, w · r + j] = x[n, c · r² + i · r + j, h, w], r the factor

    x (N, C r², H, W) -> (N, C, H r, W r). Raises ShapeError.
    Paper: Shi et al. 2016, arXiv:1609.05158.
    """
    x, r = as_tensor(x), arguments.integer("pixel_shuffle", "factor", factor, 1)
    if x.ndim != 4 or x.shape[1] % (r * r):
        raise ShapeError(
            f"pixel_shuffle: expected x (N, C · {r * r}, H, W), a multiple of {r * r} channels; got {x.shape}.")
    n, c, h, w = x.shape
    return reshape(permute(reshape(x, (n, c // (r * r), r, r, h, w)), 0, 1, 4, 2, 5, 3),
                   (n, c // (r * r), h * r, w * r))


def sizes_of(shape: Sequence[int], factor: float | Sequence[float]) -> tuple[int, ...]:
    """P = ⌊S · factor⌋ for every spatial axis of a shape (N, C, *S); factor a number or one per axis."""
    factors = factor if isinstance(factor, tuple) else (factor,) * (len(shape) - 2)
    return tuple(int(n * f) for n, f in zip(shape[2:], factors, strict=True))
