"""Values written to places of a tensor, as a tensor of its own: x.at[i].set(v), and by arrays of places.

What integers and slices select is written by views, what arrays select row by row: the values of a row are merged in
their order, by sums and choices whose order the indices alone decide, without float atomics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core import arguments
from ..core.arguments import Sizes
from ..core.function import function
from ..core.op import Case
from ..core.size import settled
from ..core.spec import FLOATS, broadcast_shapes, is_float
from ..core.tensor import Operators, Tensor, TensorLike, as_tensor
from ..errors import DTypeError, ShapeError
from ..names import lacking
from .index import (
    _gather,
    _index,
    _scatter_add,
    _scatter_argmax,
    _scatter_elements,
    lines_along,
    places_in,
    take_along_axis,
    with_axis,
)
from .indexing import Rows, Span, _viewed, arrays_in, getitem, keys_of, unmasked
from .joining import concat
from .pointwise import arange, cast, equal, full, invert, maximum, minimum, neg, not_equal, ones, where
from .sort import argsort
from .view import expand, flip, pad, reshape

FAMILY = "index"
Merge = Callable[[Tensor, Tensor], Tensor]


class Way(NamedTuple):
    """How values meet what is there.

    merge    (what is there, what comes) -> the result
    nothing  what comes where nothing does, where that changes nothing; None: a mask says where something comes
    rows     (values (a, e, d), index (e), rows n) -> (the values of each row as one (a, n, d), where there are any)
    """

    merge: Merge
    nothing: int | None
    rows: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


# --- the values of a row as one
def _last(v: Tensor, index: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The last one."""
    edges = reshape(arange(n=index.size, dtype="int32"), (1, index.size, 1))
    best = _scatter_argmax(edges, index, rows=n)
    return _gather(v, reshape(maximum(best, 0), (n,)), fill="zero"), best >= 0


def _sum(v: Tensor, index: Tensor, n: int) -> tuple[Tensor, Tensor]:
    return _scatter_add(v, index, rows=n), as_tensor(True)


def _largest(v: Tensor, index: Tensor, n: int) -> tuple[Tensor, Tensor]:
    best = _scatter_argmax(v, index, rows=n)
    return take_along_axis(v, maximum(best, 0), 1), best >= 0


def _least(v: Tensor, index: Tensor, n: int) -> tuple[Tensor, Tensor]:
    best = _scatter_argmax(neg(v) if is_float(v.dtype) else invert(v), index, rows=n)  # ~v falls as v rises
    return take_along_axis(v, maximum(best, 0), 1), best >= 0


def _product(v: Tensor, index: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The product, by doubling: behind step k the first 2ᵏ of a row's values stand as their product in the first one's
    place. Steps are as many as the most values of a row need, or all values where only the device knows the indices.
    """
    e = settled(index.size, "products of rows take a step for each bit of the number of values")
    inside = cast(where(index < 0, index + n, index), "int64")
    row = where((inside < 0) | (inside >= n), n, inside)
    first = ones((e,), "bool")
    if (most := _most(index, n, e)) > 1:
        order = argsort(row)
        row, v = getitem(row, order), _gather(v, order, fill="zero")
        first = concat([ones((1,), "bool"), not_equal(row[1:], row[:-1])])
        for step in (1 << k for k in range((most - 1).bit_length())):
            one = reshape(equal(row[step:], row[:-step]), (e - step, 1))
            v = concat([v[:, :-step] * where(one, v[:, step:], 1), v[:, -step:]], 1)
    target = where(first, row, n)
    some = _scatter_add(ones((1, e, 1), "int32"), target, rows=n) > 0
    return where(some, _scatter_add(v, target, rows=n), 1), as_tensor(True)


def _most(index: Tensor, n: int, e: int) -> int:
    """How many values the fullest row has, or could have."""
    if index.value is None or not e:
        return e
    return int(np.unique(np.asarray(index.value, np.int64) % n, return_counts=True)[1].max())


WAYS = {"set": Way(lambda x, v: v, None, _last), "add": Way(lambda x, v: x + v, 0, _sum),
        "subtract": Way(lambda x, v: x - v, 0, _sum), "multiply": Way(lambda x, v: x * v, 1, _product),
        "divide": Way(lambda x, v: x / v, 1, _product), "min": Way(minimum, None, _least),
        "max": Way(maximum, None, _largest)}


# --- x.at[key]
class At:
    """`x.at`: x.at[key] are the elements x[key], to be written. Keys are those of x[key]."""

    __slots__ = ("x",)

    def __init__(self, x: Operators) -> None:
        self.x = x

    def __getitem__(self, key: object) -> Places:
        return Places(as_tensor(self.x), key)

    def __getattr__(self, name: str) -> Any:
        raise lacking(self, name, lambda name: f"write x.at[key].{name}(v)." if hasattr(Places, name) else None,
                      "write x.at[key].set(v).")


class Places:
    """`x.at[key]`: methods that give x with other values in the places x[key], which broadcast to them.

    x itself stays as it is. An index that is there twice: `set` takes the last value, in row-major order of the places;
    the others take all of them. On the device, indices outside are left out. A mask that only the device has is fine
    where the values do not differ along its axes. The result has the dtype of x.
    Raises IndexingError for keys, ShapeError for values that do not broadcast, DTypeError for what x cannot hold.
    """

    __slots__ = ("key", "x")

    def __init__(self, x: Tensor, key: object) -> None:
        self.x, self.key = x, key

    def __getattr__(self, name: str) -> Any:
        raise lacking(self, name, lambda name: None, f"there are {', '.join(WAYS)} and get.")

    def __repr__(self) -> str:
        return f"<x.at[...] of {self.x.spec}: .set(v), .add(v) and others give x with other values in the places>"

    def get(self) -> Tensor:
        """x[key]"""
        return getitem(self.x, self.key)

    def set(self, values: TensorLike) -> Tensor:
        """x with the values in the places. The gradient goes to values that are left and elements that are."""
        return self._written("set", values)

    def add(self, values: TensorLike) -> Tensor:
        """x with the values added, those of one place in their order."""
        return self._written("add", values)

    def subtract(self, values: TensorLike) -> Tensor:
        """x with the values subtracted."""
        return self._written("subtract", values)

    def multiply(self, values: TensorLike) -> Tensor:
        """x with the places multiplied by the values."""
        return self._written("multiply", values)

    def divide(self, values: TensorLike) -> Tensor:
        """x with the places divided by the values, of several by their product. Raises DTypeError for integers."""
        return self._written("divide", values)

    def min(self, values: TensorLike) -> Tensor:
        """x with the smaller of place and values; NaN wins; on a tie half of the gradient goes to each."""
        return self._written("min", values)

    def max(self, values: TensorLike) -> Tensor:
        """x with the larger of place and values; NaN wins; on a tie half of the gradient goes to each."""
        return self._written("max", values)

    def _written(self, how: str, values: TensorLike) -> Tensor:
        x, v = self.x, _values(f"at.{how}", how, self.x, values)
        found = _mask_alone(x, self.key, v)
        if found is not None:
            view, mask, v = found
            span = Span.of(x, keys_of(x, view))
            there = _viewed(x, span)
            return _into(x, span, where(mask, WAYS[how].merge(there, v), there), "set")
        keys = keys_of(x, self.key)
        if not arrays_in(keys):
            return _into(x, Span.of(x, keys), v, how)
        flat, keys = unmasked(x, keys)
        rows = Rows.of(flat, keys)
        there = rows.x
        lead, n, rest = there.shape[: rows.axis], there.shape[rows.axis], there.shape[rows.axis + 1 :]
        v = _fit(f"at.{how}", v, (*lead, *rows.index.shape, *rest))
        shape = math.prod(lead), n, math.prod(rest)
        v = reshape(v, (shape[0], rows.index.size, shape[2]))
        new = _rows(how, reshape(there, shape), reshape(rows.index, (rows.index.size,)), v)
        return reshape(_into(flat, rows.span, rows.back(reshape(new, there.shape)), "set"), x.shape)


def _values(who: str, how: str, x: Tensor, values: TensorLike) -> Tensor:
    """Values in the dtype of x."""
    if isinstance(values, (bool, int, float)) and not isinstance(values, np.generic):
        v = full((), arguments.number(who, values, x.dtype), x.dtype)
    else:
        v = as_tensor(values if isinstance(values, Operators) else arguments.array(who, values))
    if (is_float(v.dtype) and not is_float(x.dtype)) or (x.dtype == "bool" != v.dtype):
        raise DTypeError(f"{who}: expected values that {x.dtype} can hold; got {v.dtype}; cast x to it, or the values.")
    if x.dtype == "bool" and how != "set":
        raise DTypeError(f"{who}: expected numbers; got bool; cast x to int32, or write | and &.")
    if how == "divide" and x.dtype not in FLOATS:
        raise DTypeError(f"{who}: expected floats; got {x.dtype}; cast x to float32.")
    return cast(v, x.dtype)


def _fit(who: str, v: Tensor, shape: tuple[int, ...]) -> Tensor:
    """v broadcast to the shape of the places."""
    if v.ndim > len(shape) and all(n == 1 for n in v.shape[: v.ndim - len(shape)]):  # as NumPy assigns
        v = reshape(v, v.shape[v.ndim - len(shape) :])
    if v.ndim > len(shape) or broadcast_shapes(who, v.shape, shape) != shape:
        raise ShapeError(f"{who}: expected values that broadcast to {shape}; got shape {v.shape}.")
    return expand(v, shape)


def _into(x: Tensor, span: Span, v: Tensor, how: str) -> Tensor:
    """x with v merged into what a span of it shows: v is padded to the whole, and views alone are computed."""
    way = WAYS[how]
    v = reshape(_fit(f"at.{how}", v, span.shape), span.size)
    if not span.whole(x):
        high = [n - a - ((m - 1) * s + 1 if m else 0)
                for n, a, m, s in zip(x.shape, span.start, span.size, span.step, strict=True)]
        inner = [s - 1 if m else 0 for m, s in zip(span.size, span.step, strict=True)]
        here = pad(ones(span.size, "bool"), span.start, high, inner, value=False)
        v = pad(v, span.start, high, inner, value=way.nothing or 0)
    else:
        here = as_tensor(True)
    if span.flips:
        v, here = flip(v, span.flips), flip(here, span.flips) if here.ndim else here
    y = way.merge(x, v)
    return y if way.nothing is not None or not here.ndim else where(here, y, x)


def _rows(how: str, x: Tensor, index: Tensor, v: Tensor) -> Tensor:
    """x (a, n, d) with v (a, e, d) merged into its rows index (e)."""
    if not x.size or not v.size:
        return x
    way = WAYS[how]
    new, some = way.rows(v, index, x.shape[1])
    y = way.merge(x, new)
    return y if way.nothing is not None else where(some, y, x)


def _mask_alone(x: Tensor, key: object, v: Tensor) -> tuple[tuple[Any, ...], Tensor, Tensor] | None:
    """(slices, a mask over what they show, values over it) for one mask beside slices, and values that do not differ
    along its axes: then nobody has to know the mask. None for other keys.
    """
    keys = key if isinstance(key, tuple) else (key,)
    masks = [i for i, k in enumerate(keys) if _is_mask(k)]
    if len(masks) != 1 or not all(i in masks or k is Ellipsis or isinstance(k, slice) for i, k in enumerate(keys)):
        return None
    at, mask = masks[0], as_tensor(keys[masks[0]])  # type: ignore[arg-type]
    before, behind = keys[:at], keys[at + 1 :]
    slices = (*before, *(slice(None),) * mask.ndim, *behind)
    if len(slices) - (Ellipsis in slices) > x.ndim or sum(k is Ellipsis for k in slices) > 1:
        return None
    first = x.ndim - mask.ndim - len(behind) if Ellipsis in before else len(before)
    rest = x.ndim - first - mask.ndim
    if x.shape[first : first + mask.ndim] != mask.shape or (v.ndim > rest and v.shape[v.ndim - rest - 1] != 1):
        return None
    if v.ndim > rest:
        cut = v.ndim - rest
        v = reshape(v, (*v.shape[: cut - 1], *(1,) * mask.ndim, *v.shape[cut:]))
    return slices, reshape(mask, (*mask.shape, *(1,) * rest)), v


def _is_mask(k: object) -> bool:
    if isinstance(k, Operators):
        return k.dtype == "bool" and k.ndim > 0
    if not isinstance(k, (list, np.ndarray)):
        return False
    try:
        return np.asarray(k).dtype.kind == "b" and np.ndim(k) > 0
    except ValueError:
        return False


# --- by arrays of places
@function(lambda: [Case(((3, 4), np.array([[1, 0, 1, 2]]), (1, 4)), dict(axis=0)),
                   Case(((2, 5), np.array([[4, 0], [1, 1]]), (2, 2)), dict(axis=1, how="add"))])
def put_along_axis(x: TensorLike, index: TensorLike, values: TensorLike, axis: int, how: str = "set") -> Tensor:
    """y = x with values[…, i, …] in the places y[…, index[…, i, …], …] along `axis`, as NumPy's (which changes x).

    how   set (of several values of a place the last), add, multiply, divide, subtract, min or max
    Values broadcast to the shape of the index. PyTorch's scatter and scatter_reduce. Raises as `x.at`.
    """
    x = as_tensor(x)
    arguments.choice("put_along_axis", "how", how, WAYS)
    lines, axis = lines_along("put_along_axis", x, index, axis)
    v = _fit("put_along_axis", _values("put_along_axis", how, x, values), with_axis(x, axis, lines.shape[1]))
    way, n = WAYS[how], x.shape[axis]
    if way.rows is _sum:  # line by line: nothing needs to be sorted
        return way.merge(x, reshape(_scatter_elements(reshape(v, lines.shape), lines, rows=n), x.shape))
    places = reshape(places_in(lines, n), (lines.size,))
    return reshape(_rows(how, reshape(x, (1, x.size, 1)), places, reshape(v, (1, v.size, 1))), x.shape)


def _coordinates(who: str, index: TensorLike, most: int) -> tuple[Tensor, ...]:
    """The coordinates along the last axis of an index array, each an array."""
    t = _index(who, index)
    if not t.ndim or not 1 <= t.shape[-1] <= most:
        raise ShapeError(f"{who}: expected an index (..., k) of k coordinates, 1 to {most}; got {t.shape}.")
    return tuple(t[..., k] for k in range(settled(t.shape[-1], f"{who} takes an array for each coordinate")))


@function(lambda: [Case(((3, 4), np.array([[2, 1], [-1, 0]]))), Case(((3, 2, 2), np.array([[1], [1], [0]])))])
def gather_nd(x: TensorLike, index: TensorLike) -> Tensor:
    """y[…] = x[index[…, 0], …, index[…, k − 1]]: an index (…, k) holds the coordinates of elements, or of what is left
    along the other axes. Raises ShapeError, DTypeError, IndexingError.
    """
    x = as_tensor(x)
    return getitem(x, _coordinates("gather_nd", index, x.ndim))


@function(lambda: [Case((np.array([[2, 1], [0, 0], [2, 1]]), (3,)), dict(shape=(3, 2))),
                   Case((np.array([[1], [1]]), (2, 4)), dict(shape=(3, 4)))])
def scatter_nd(index: TensorLike, values: TensorLike, shape: Sizes) -> Tensor:
    """y of `shape` with y[index[…, 0], …, index[…, k − 1]] = the sum of the values[…] there, in their order; 0 where
    there are none: the adjoint of `gather_nd`. Raises ShapeError, DTypeError, IndexingError.
    """
    dims, v = arguments.sizes("scatter_nd", shape), as_tensor(arguments.array("scatter_nd", values)
                                                              if not isinstance(values, Operators) else values)
    if not dims:
        raise ShapeError("scatter_nd: expected a shape of one axis or more; got ().")
    if v.dtype == "bool":
        raise DTypeError("scatter_nd: expected numbers; got bool; cast it to int32.")
    places = _coordinates("scatter_nd", index, len(dims))
    return Places(full(dims, 0, v.dtype), places).add(v)
