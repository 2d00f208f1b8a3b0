"""Places in sorted rows, counts of values, and what depends on values: where they are not 0, which there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import arguments
from ..core.function import function
from ..core.op import Case
from ..core.recording import recording
from ..core.size import settled
from ..core.spec import is_float
from ..core.tensor import Tensor, TensorLike, as_tensor, walk
from ..errors import ConfigError, DTypeError, ShapeError, UseError
from .arranging import linspace
from .index import _index, gather, scatter_add
from .pointwise import cast, clip, equal, floor, full, isnan, less, less_equal, maximum, minimum, ones, where
from .reduce import max, min
from .view import reshape

FAMILY = "index"
ROW = np.array([-1.5, -1.0, 0.0, 0.0, 0.5, 2.0], np.float32)


@function(lambda: [Case((ROW, (3, 4))), Case((ROW, ROW), dict(side="right"))], differentiable=False)
def searchsorted(row: TensorLike, values: TensorLike, side: str = "left") -> Tensor:
    """y = how many elements of the sorted vector are < v ("left") or ≤ v ("right"), for every v of `values`: int64.

    NaN is larger than all numbers. One gather for each bit of the vector's length. Raises ShapeError, ConfigError.
    """
    row, values = as_tensor(row), as_tensor(values)
    arguments.choice("searchsorted", "side", side, ("left", "right"))
    if row.ndim != 1:
        raise ShapeError(f"searchsorted: expected a sorted vector; got {row.shape}.")
    n = settled(row.shape[0], "searchsorted takes a step for each bit of the vector's length")
    found = full(values.shape, 0, "int64")
    if not n:
        return found
    for step in (1 << k for k in reversed(range(n.bit_length()))):
        at = found + step
        seen = gather(row, clip(at - 1, 0, n - 1))
        before = less(seen, values) if side == "left" else less_equal(seen, values)
        if is_float(values.dtype):
            gone = isnan(values)
            before = before | (gone & ~isnan(seen) if is_float(seen.dtype) else gone)
            before = before | gone if side == "right" else before
        found = where((at <= n) & before, at, found)
    return found


@function(lambda: [Case(((3, 4), ROW[[0, 1, 4, 5]], (4,)))])
def interp(x: TensorLike, xs: TensorLike, ys: TensorLike) -> Tensor:
    """y = the line through the points (xs, ys) at x, ys[0] before the first and ys[-1] behind the last; xs (n) rise.

    The gradient goes to x, xs and ys. Raises ShapeError; DTypeError for integers.
    """
    x, xs, ys = as_tensor(x), as_tensor(xs), as_tensor(ys)
    if xs.ndim != 1 or xs.shape != ys.shape or not xs.size:
        raise ShapeError(f"interp: expected two vectors of one length of at least 1; got {xs.shape} and {ys.shape}.")
    if wrong := next((t for t in (x, xs, ys) if not is_float(t.dtype)), None):
        raise DTypeError(f"interp: expected floats; got {wrong.dtype}; cast it to float32.")
    n = xs.shape[0]
    at = clip(searchsorted(xs, x, "right") - 1, 0, maximum(n - 2, 0))
    behind = minimum(at + 1, n - 1)
    x0, x1, y0, y1 = gather(xs, at), gather(xs, behind), gather(ys, at), gather(ys, behind)
    width = x1 - x0
    share = (x - x0) / where(equal(width, 0), 1.0, width)
    inside = where(x >= gather(xs, n - 1), gather(ys, n - 1), y0 + share * (y1 - y0))
    return where(x < gather(xs, 0), gather(ys, 0), inside)


def known(who: str, x: TensorLike, instead: str) -> np.ndarray[Any, Any]:
    """The values of x, on which the size of a result depends. Raises UseError in a recorded step."""
    t = as_tensor(x)
    if t.value is not None:
        return t.value
    if recording() or any(leaf.op is None and leaf.value is None and leaf.storage is None for leaf in walk([t])):
        raise UseError(f"{who}: expected values that are known now, since the size of the result depends on them; "
                       f"got a tensor that a recorded step computes; {instead}.")
    return t.numpy()


def nonzero(x: TensorLike) -> tuple[Tensor, ...]:
    """The places where x is not 0: an int64 vector an axis, in row-major order.

    The size depends on the values, which are read. Raises UseError in a recorded step.
    """
    values = known("nonzero", x, "where(x != 0, ..., 0) keeps the shape")
    return tuple(as_tensor(places) for places in np.nonzero(np.atleast_1d(values)))


def unique(x: TensorLike, return_inverse: bool = False, return_counts: bool = False) -> Tensor | tuple[Tensor, ...]:
    """The different values of x, in rising order; with them, if wanted, which of them each element is, and how often
    each is there (int64).

    The size depends on the values, which are read. Raises UseError in a recorded step.
    """
    values = known("unique", x, "sort(x) keeps the shape")
    found = np.unique(values, return_inverse=True, return_counts=True)
    wanted = [as_tensor(found[0])]
    wanted += [as_tensor(found[1].reshape(values.shape))] if return_inverse else []
    wanted += [as_tensor(found[2])] if return_counts else []
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


@function(lambda: [Case((np.array([0, 3, 1, 3, 3]),), dict(length=6)), Case((np.array([2, 0, 2]), (3,)))])
def bincount(x: TensorLike, weights: TensorLike | None = None, length: int | None = None) -> Tensor:
    """y[k] = how many x are k, or the sum of their weights: int64, or the weights' dtype.

    length   of the result; what is larger is left out. None: up to the largest x, which is read: UseError in a recorded
             step
    Raises ShapeError, DTypeError, ConfigError.
    """
    t = _index("bincount", x)
    flat = reshape(t, (t.size,))
    if length is None:
        values = known("bincount", t, "give the length: bincount(x, length=n)")
        length = int(values.max()) + 1 if values.size else 0
        if values.size and values.min() < 0:
            raise ConfigError(f"bincount: expected counts of numbers from 0 on; got {int(values.min())}.")
    length = arguments.integer("bincount", "length", length, 0)
    share = ones(flat.shape, "int64") if weights is None else as_tensor(weights)
    if share.size != flat.size:
        raise ShapeError(f"bincount: expected a weight for each of {flat.size} numbers; got {share.shape}.")
    share = cast(share, "int64") if share.dtype == "bool" else share
    inside = where((flat >= 0) & (flat < length), cast(flat, "int64"), length)
    return scatter_add(reshape(share, flat.shape), inside, length + 1)[:length]


@function(lambda: [Case(((40,),), dict(bins=5)), Case(((4, 9),), dict(bins=4, range=(-1.0, 1.5)))],
          differentiable=False)
def histogram(x: TensorLike, bins: int = 10, range: tuple[float, float] | None = None) -> tuple[Tensor, Tensor]:
    """(counts, edges): how many x lie in each of `bins` equal parts of `range` (None: from the least to the largest x),
    the right edge of the last part included, as NumPy counts; int64 (bins) and floats (bins + 1).

    Raises ConfigError for a range that does not rise.
    """
    x, bins = as_tensor(x), arguments.integer("histogram", "bins", bins, 1)
    flat = reshape(x, (x.size,))
    flat = flat if is_float(flat.dtype) else cast(flat, "float64")
    low, high = _range(flat, range)
    part = cast(linspace(0.0, 1.0, bins + 1, "float64"), flat.dtype)
    edges = where(equal(part, 1.0), high, low + part * (high - low))
    guess = clip(floor((flat - low) / (high - low) * float(bins)), 0.0, float(bins - 1))
    at = cast(where(isnan(guess), 0.0, guess), "int64")
    at = maximum(at - cast(flat < gather(edges, at), "int64"), 0)
    at = minimum(at + cast(flat >= gather(edges, at + 1), "int64"), bins - 1)
    inside = (flat >= low) & (flat <= high)
    return scatter_add(ones(flat.shape, "int64"), where(inside, at, bins), bins + 1)[:bins], edges


def _range(x: Tensor, given: tuple[float, float] | None) -> tuple[Tensor, Tensor]:
    if given is None:
        if not x.size:
            return as_tensor(0.0, x.dtype), as_tensor(1.0, x.dtype)
        low, high = min(x), max(x)
        return where(equal(low, high), low - 0.5, low), where(equal(low, high), high + 0.5, high)
    ends = arguments.pairs("histogram", "range", [given])[0]
    first, last = (arguments.real("histogram", "range", v) for v in (ends if len(ends) == 2 else (0.0, 0.0)))
    if not first < last:
        raise ConfigError(f"histogram: expected a range (low, high) that rises; got {arguments.shown(given)}.")
    return as_tensor(first, x.dtype), as_tensor(last, x.dtype)
