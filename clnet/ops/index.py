"""Reading and summing rows by number: gather, its adjoint scatter_add, segment mean and maximum, one-hot.

Scatters sort the indices and add each row's terms in their order: equal bits on every run. A negative index counts from
the end. An index outside raises IndexingError (an IndexError) where the host knows it; on the device a gather gives NaN
there (0 for integers) and a scatter drops the row: `expect_indices` is the check for data that only the device has.
"""

from __future__ import annotations

import math

import numpy as np

from ..core import arguments
from ..core.arrays import Array
from ..core.op import Case, Cotangents, kernel
from ..core.spec import INTS, Spec
from ..core.tensor import Operators, Tensor, TensorLike, as_tensor, constant
from ..errors import DTypeError, IndexingError, ShapeError
from ..kernels.choosers import GATHER, GATHER_ELEMENTS, SCATTER_ADD, SCATTER_ARGMAX, SCATTER_ELEMENTS
from .pointwise import arange, cast, equal, maximum, ones, where
from .reduce import max as reduce_max
from .reduce import min as reduce_min
from .view import reshape


def _rows(index: Array, n: int) -> Array:
    """Indices with negative ones counted from the end, and n for those outside."""
    i = np.asarray(index, np.int64)
    i = np.where(i < 0, i + n, i)
    return np.where((i < 0) | (i >= n), n, i)


def _samples() -> list[Case]:
    rng = np.random.default_rng(3)
    few, many = np.array([2, 0, 2, -1], np.int32), rng.integers(0, 37, 90)
    return [Case(((2, 3, 19), few), dict(fill="nan")), Case(((1, 37, 80), many), dict(fill="nan")),
            Case(((1, 37, 1), many[:11]), dict(fill="nan")),
            Case(((1, 3, 5), few.astype(np.uint8) % 3), dict(fill="zero"))]


def _whole(name: str, index: Spec) -> None:
    if index.dtype not in INTS:
        raise DTypeError(f"{name}: expected an integer index; got {index.dtype}; cast it to int32.")


def _indexed(name: str, x: Spec, index: Spec) -> None:
    _whole(name, index)
    if len(x.shape) != 3 or len(index.shape) != 1:
        raise ShapeError(f"{name}: expected x (a, v, d) and index (e); got {x.shape} and {index.shape}.")


def _gather_infer(x: Spec, index: Spec, *, fill: str) -> Spec:
    _indexed("gather", x, index)
    return Spec((x.shape[0], index.shape[0], x.shape[2]), x.dtype)


@kernel(cl="index.cl", samples=_samples, infer=_gather_infer, accepts="any", rule="lookup", reads=("narrow",),
        launch=GATHER)
def _gather(x: Array, index: Array, *, fill: str) -> Array:
    """y[a, e, d] = x[a, index[e], d]; NaN (or 0, by `fill`) where the index is outside"""
    missing = np.nan if fill == "nan" and np.asarray(x).dtype.kind not in "iub" else 0
    padded = np.concatenate([x, np.full_like(x, missing, shape=(x.shape[0], 1, x.shape[2]))], 1)
    return padded[:, _rows(index, x.shape[1])]


@_gather.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, index: Tensor, *, fill: str) -> Cotangents:
    return _scatter_add(g, index, rows=x.shape[1]), None


def _scatter_samples() -> list[Case]:
    rng = np.random.default_rng(4)
    few, many = np.array([2, 0, 2, -1, 4], np.int32), rng.integers(0, 37, 300)
    return [Case(((2, 5, 19), few), dict(rows=5)), Case(((1, 300, 83), many), dict(rows=40)),
            Case(((1, 300, 1), many.astype(np.int16)), dict(rows=37)),
            Case(((1, 1, 3), np.array([3], np.int64)), dict(rows=9))]


def _scatter_infer(source: Spec, index: Spec, *, rows: int) -> Spec:
    _indexed("scatter", source, index)
    if source.shape[1] != index.shape[0]:
        raise ShapeError(
            "scatter: expected one index per row of the source; "
            f"got {source.shape[1]} rows and {index.shape[0]} indices.")
    return Spec((source.shape[0], rows, source.shape[2]), source.dtype)


# The formulas are of no edges or no rows, for which there is no kernel.
@kernel(cl="index.cl", samples=_scatter_samples, infer=_scatter_infer, launch=SCATTER_ADD,
        define=lambda source, index, *, rows: constant(0, source.dtype, (source.shape[0], rows, source.shape[2])))
def _scatter_add(source: Array, index: Array, *, rows: int) -> Array:
    """y[a, v, d] = Σ of source[a, e, d] over e with index[e] = v"""
    y = np.zeros((rows + 1, source.shape[0], source.shape[2]), source.dtype)
    np.add.at(y, _rows(index, rows), source.swapaxes(0, 1))
    return y[:rows].swapaxes(0, 1)


@_scatter_add.defvjp
def _(g: Tensor, y: Tensor, source: Tensor, index: Tensor, *, rows: int) -> Cotangents:
    return _gather(g, index, fill="zero"), None


@kernel(cl="index.cl", samples=_scatter_samples,
        infer=lambda source, index, *, rows: Spec(_scatter_infer(source, index, rows=rows).shape, "int64"),
        define=lambda source, index, *, rows: constant(-1, "int64", (source.shape[0], rows, source.shape[2])),
        launch=SCATTER_ARGMAX, differentiable=False)
def _scatter_argmax(source: Array, index: Array, *, rows: int) -> Array:
    """y[a, v, d] = the first e with index[e] = v whose source[a, e, d] is largest; −1 where there is none"""
    y = np.full((source.shape[0], rows + 1, source.shape[2]), -1, np.int64)
    top = np.zeros(y.shape, np.asarray(source).dtype)
    for e, v in enumerate(_rows(index, rows)):
        s, best = source[:, e], top[:, v]
        better = (y[:, v] < 0) | (s > best) | (np.isnan(s) & ~np.isnan(best))
        y[:, v], top[:, v] = np.where(better, e, y[:, v]), np.where(better, s, best)
    return y[:, :rows]


# --- an index of its own for every element
def _element_samples() -> list[Case]:
    rng = np.random.default_rng(6)
    kinds = ((2, 3, 4), 6, "int32", "nan"), ((1, 40, 27), 80, "int64", "zero"), ((70, 33, 1), 20, "int16", "nan")
    return [Case((x, rng.integers(-x[1], x[1], (x[0], e, x[2])).astype(dtype)), dict(fill=fill))
            for x, e, dtype, fill in kinds]


def _aligned(name: str, x: Spec, index: Spec) -> None:
    _whole(name, index)
    if len(x.shape) != 3 or len(index.shape) != 3 or x.shape[::2] != index.shape[::2]:
        raise ShapeError(f"{name}: expected (a, v, d) and an index (a, e, d); got {x.shape} and {index.shape}.")


def _gather_elements_infer(x: Spec, index: Spec, *, fill: str) -> Spec:
    _aligned("gather_elements", x, index)
    return Spec(index.shape, x.dtype)


@kernel(cl="elements.cl", samples=_element_samples, infer=_gather_elements_infer, accepts="any", rule="lookup",
        reads=("narrow",), launch=GATHER_ELEMENTS)
def _gather_elements(x: Array, index: Array, *, fill: str) -> Array:
    """y[a, e, d] = x[a, index[a, e, d], d]; NaN (or 0, by `fill`) where the index is outside"""
    missing = np.nan if fill == "nan" and np.asarray(x).dtype.kind not in "iub" else 0
    padded = np.concatenate([x, np.full_like(x, missing, shape=(x.shape[0], 1, x.shape[2]))], 1)
    return np.take_along_axis(padded, _rows(index, x.shape[1]), 1)


@_gather_elements.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, index: Tensor, *, fill: str) -> Cotangents:
    return _scatter_elements(g, index, rows=x.shape[1]), None


def _scatter_element_samples() -> list[Case]:
    indices = [case.args[1] for case in _element_samples()]
    return [Case((index.shape, index), dict(rows=int(index.max()))) for index in indices]  # the last is outside


def _scatter_elements_infer(source: Spec, index: Spec, *, rows: int) -> Spec:
    _aligned("scatter_elements", source, index)
    if source.shape != index.shape:
        raise ShapeError(f"scatter_elements: expected an index for each element; got {source.shape} and {index.shape}.")
    return Spec((source.shape[0], rows, source.shape[2]), source.dtype)


def _sorted_elements(source: Tensor, index: Tensor, *, rows: int) -> Tensor:
    """As one row each, in the order of their places."""
    shape, n = (source.shape[0], rows, source.shape[2]), source.size
    y = _scatter_add(reshape(source, (1, n, 1)), reshape(places_in(index, rows), (n,)), rows=math.prod(shape))
    return reshape(y, shape)


@kernel(cl="elements.cl", samples=_scatter_element_samples, infer=_scatter_elements_infer, define=_sorted_elements,
        launch=SCATTER_ELEMENTS)
def _scatter_elements(source: Array, index: Array, *, rows: int) -> Array:
    """y[a, v, d] = Σ of source[a, e, d] over e with index[a, e, d] = v"""
    y = np.zeros((source.shape[0], rows + 1, source.shape[2]), source.dtype)
    a, d = np.arange(y.shape[0])[:, None, None], np.arange(y.shape[2])
    np.add.at(y, (a, _rows(index, rows), d), source)
    return y[:, :rows]


@_scatter_elements.defvjp
def _(g: Tensor, y: Tensor, source: Tensor, index: Tensor, *, rows: int) -> Cotangents:
    return _gather_elements(g, index, fill="zero"), None


def places_in(index: Tensor, n: int) -> Tensor:
    """Row-major numbers in (a, n, d) of the elements that an index (a, e, d) names; a · n · d for those outside."""
    a, _, d = index.shape
    inside = cast(index, "int64")
    inside = where(inside < 0, inside + n, inside)
    line = reshape(arange(n=a, dtype="int64"), (a, 1, 1)) * (n * d) + arange(n=d, dtype="int64")
    return where((inside < 0) | (inside >= n), a * n * d, inside * d + line)


# --- what users call
def expect_indices(name: str, index: TensorLike, n: int) -> None:
    """Raises IndexingError when any index lies outside [−n, n), wherever it is: reads two numbers back from the device.
    """
    t, n = _index(name, index), arguments.integer(name, "n", n, 0)
    if not t.size:
        return
    low, high = int(reduce_min(t)), int(reduce_max(t))
    if low < -n or high >= n:
        raise IndexingError(
            f"{name}: expected indices in [{-n}, {n}); "
            f"got a range of [{low}, {high}]; clip them, or mend the vocabulary.")


def _index(name: str, index: TensorLike) -> Tensor:
    """Row numbers as a tensor. Raises DTypeError for a mask, which is none, and for floats."""
    value = index if isinstance(index, Operators) else arguments.array(name, index)
    if not isinstance(index, Operators) and not value.size:
        value = value.astype(np.int64)
    t = as_tensor(value)
    if t.dtype not in INTS:
        way = "x[mask] selects by a mask" if t.dtype == "bool" else "cast it to int32"
        raise DTypeError(f"{name}: expected integer indices; got {t.dtype}; {way}.")
    return t


def gather(x: TensorLike, index: TensorLike, axis: int = 0) -> Tensor:
    """y[…, i…, …] = x[…, index[i…], …] along `axis`; negative indices count from the end.

    Raises IndexingError for host indices outside; on the device such rows are NaN (0 for integers),
    see `expect_indices`.
    """
    return rows_along("gather", x, index, axis)


def rows_along(who: str, x: TensorLike, index: TensorLike, axis: int) -> Tensor:
    """As `gather`; errors name `who`, the call."""
    x, index = as_tensor(x), _index(who, index)
    axis = arguments.axis(who, axis, x.ndim)
    arguments.indices(who, index, x.shape[axis])
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    rows = reshape(x, (math.prod(lead), x.shape[axis], math.prod(rest)))
    y = _gather(rows, reshape(index, (index.size,)), fill="nan")
    return reshape(y, (*lead, *index.shape, *rest))


def _as_rows(name: str, x: TensorLike, index: TensorLike, axis: int,
             rows: int) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    x, index = as_tensor(x), _index(name, index)
    axis = arguments.axis(name, axis, x.ndim)
    if x.shape[axis : axis + index.ndim] != index.shape:
        raise ShapeError(
            f"{name}: expected index of shape {x.shape[axis : axis + 1]} "
            f"along axis {axis} of {x.shape}; got {index.shape}.")
    arguments.indices(name, index, rows)
    lead, rest = x.shape[:axis], x.shape[axis + index.ndim :]
    lines = reshape(x, (math.prod(lead), index.size, math.prod(rest)))
    return lines, reshape(index, (index.size,)), (*lead, rows, *rest)


def scatter_add(source: TensorLike, index: TensorLike, v: int, axis: int = 0) -> Tensor:
    """y[v] = Σ of source[e] over e with index[e] = v: v rows, empty ones 0, summed in the order of e.
    The adjoint of gather.
    """
    v = arguments.integer("scatter_add", "v", v, 0)
    rows, flat, shape = _as_rows("scatter_add", source, index, axis, v)
    return reshape(_scatter_add(rows, flat, rows=v), shape)


def scatter_mean(source: TensorLike, index: TensorLike, v: int, axis: int = 0) -> Tensor:
    """y[v] = the mean of source[e] over e with index[e] = v; empty rows 0."""
    v = arguments.integer("scatter_mean", "v", v, 0)
    rows, flat, shape = _as_rows("scatter_mean", source, index, axis, v)
    count = _scatter_add(ones((1, flat.size, 1), rows.dtype), flat, rows=v)
    return reshape(_scatter_add(rows, flat, rows=v) / maximum(count, 1), shape)


def scatter_max(source: TensorLike, index: TensorLike, v: int, axis: int = 0) -> Tensor:
    """y[v] = the maximum of source[e] over e with index[e] = v; empty rows 0; the gradient goes to the first maximum.
    """
    v = arguments.integer("scatter_max", "v", v, 0)
    rows, flat, shape = _as_rows("scatter_max", source, index, axis, v)
    best = _scatter_argmax(rows, flat, rows=v)
    top = take_along_axis(rows, maximum(best, 0), 1)
    return reshape(where(best >= 0, top, 0), shape)


def lines_along(who: str, x: Tensor, index: TensorLike, axis: int) -> tuple[Tensor, int]:
    """An index like x but for its length along `axis`, as (a, e, d) with the axis in the middle, and the axis.
    Raises ShapeError for shapes that differ but along it; indices outside as in `gather`.
    """
    places = _index(who, index)
    axis = arguments.axis(who, axis, x.ndim)
    if (x.ndim != places.ndim
            or any(a != b for d, (a, b) in enumerate(zip(x.shape, places.shape, strict=True)) if d != axis)):
        raise ShapeError(
            f"{who}: expected shapes equal but for axis {axis}; got {x.shape} and {places.shape}.")
    arguments.indices(who, places, x.shape[axis])
    return reshape(places, _around(places, axis)), axis


def _around(x: Tensor, axis: int) -> tuple[int, int, int]:
    return math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])


def with_axis(x: Tensor, axis: int, n: int) -> tuple[int, ...]:
    """The shape of x with n along the axis."""
    return (*x.shape[:axis], n, *x.shape[axis + 1 :])


def take_along_axis(x: TensorLike, index: TensorLike, axis: int) -> Tensor:
    """y[…, i, …] = x[…, index[…, i, …], …]: an index of its own for every line along `axis`, as in NumPy.

    Raises ShapeError for shapes that differ but along `axis`; indices outside as in `gather`.
    """
    x = as_tensor(x)
    lines, axis = lines_along("take_along_axis", x, index, axis)
    y = _gather_elements(reshape(x, _around(x, axis)), lines, fill="nan")
    return reshape(y, with_axis(x, axis, lines.shape[1]))


def one_hot(labels: TensorLike, classes: int, dtype: str = "float32") -> Tensor:
    """y[…, k] = 1 where labels[…] = k, else 0; the new axis is the last. Labels are integers or bools.
    Raises ConfigError, DTypeError.
    """
    classes = arguments.integer("one_hot", "classes", classes, 0)
    labels = labels if isinstance(labels, Operators) else arguments.array("one_hot", labels)
    labels = _index("one_hot", cast(labels, "uint8") if labels.dtype == "bool" else labels)
    return cast(equal(reshape(labels, (*labels.shape, 1)), arange(n=classes, dtype="int32")), dtype)
