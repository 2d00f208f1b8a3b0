"""Arrays arranged anew, and arrays of a plain form: formulas over views, which move no data by themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core import arguments
from ..core.arguments import Axes, Sizes
from ..core.function import function
from ..core.op import Case
from ..core.spec import dtype_name
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError, ShapeError
from .index import rows_along
from .indexing import getitem
from .joining import concat
from .pointwise import arange, cast, equal, full, where
from .view import expand, flip, permute, reshape, transpose

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

FAMILY = "view"


def _matrix(who: str, x: TensorLike) -> Tensor:
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"{who}: expected matrices (..., m, n); got {x.shape}.")
    return x


def _offset(m: int, n: int) -> Tensor:
    """j − i of every element of a matrix."""
    return arange(n=n, dtype="int32") - reshape(arange(n=m, dtype="int32"), (m, 1))


@function(lambda: [Case(((2, 3, 4),), dict(k=1)), Case(((4, 3),))])
def tril(x: TensorLike, k: int = 0) -> Tensor:
    """y[…, i, j] = x[…, i, j] for j − i ≤ k, else 0. Raises ShapeError, ConfigError."""
    x = _matrix("tril", x)
    return where(_offset(*x.shape[-2:]) <= arguments.integer("tril", "k", k), x, 0)


@function(lambda: [Case(((2, 3, 4),), dict(k=1)), Case(((4, 3),))])
def triu(x: TensorLike, k: int = 0) -> Tensor:
    """y[…, i, j] = x[…, i, j] for j − i ≥ k, else 0. Raises ShapeError, ConfigError."""
    x = _matrix("triu", x)
    return where(_offset(*x.shape[-2:]) >= arguments.integer("triu", "k", k), x, 0)


@function(lambda: [Case(((3,),), dict(k=-1)), Case(((3, 4),), dict(k=1))])
def diag(x: TensorLike, k: int = 0) -> Tensor:
    """A matrix with the vector x on its k-th diagonal, or the k-th diagonal of a matrix.
    Raises ShapeError, ConfigError.
    """
    x, k = as_tensor(x), arguments.integer("diag", "k", k)
    if x.ndim == 1:
        n = x.shape[0] + abs(k)
        row = concat([x, as_tensor([0] * abs(k)).astype(x.dtype)]) if k else x
        placed = reshape(row, (n, 1)) if k >= 0 else reshape(row, (1, n))
        return where(equal(_offset(n, n), k), placed, 0)
    if x.ndim != 2:
        raise ShapeError(f"diag: expected a vector or a matrix; got {x.shape}.")
    return diagonal(x, k)


@function(lambda: [Case(((3, 4),), dict(k=1)), Case(((3, 2, 3),), dict(k=-1, a=0, b=2))])
def diagonal(x: TensorLike, k: int = 0, a: int = 0, b: int = 1) -> Tensor:
    """y[…, i] = x[…, i, …, i + k, …], i along axis a and i + k along axis b; for k < 0 it is i − k and i: the new axis
    is the last. Raises ShapeError, ConfigError.
    """
    x, k = as_tensor(x), arguments.integer("diagonal", "k", k)
    first, second = (arguments.axis("diagonal", axis, x.ndim) for axis in (a, b))
    if first == second:
        raise ShapeError(f"diagonal: expected two different axes; got {a} and {b} of {x.shape}.")
    lead = [axis for axis in range(x.ndim) if axis not in (first, second)]
    m, n = x.shape[first], x.shape[second]
    start, count = (k, min(m, n - k)) if k >= 0 else (-k * n, min(n, m + k))
    count = max(count, 0)
    last = start + (count - 1) * (n + 1) + 1 if count else start
    lines = reshape(permute(x, [*lead, first, second]), (*(x.shape[axis] for axis in lead), m * n))
    return getitem(lines, (..., slice(start, last, n + 1) if count else slice(0, 0)))


@function(lambda: [Case(((3, 4),), dict(shift=5)), Case(((3, 4),), dict(shift=-1, axis=0))])
def roll(x: TensorLike, shift: int, axis: int | None = None) -> Tensor:
    """y[i] = x[i − shift] along `axis`, what leaves at one end comes back at the other; None: of all elements in
    row-major order. Raises ShapeError, ConfigError.
    """
    x, shift = as_tensor(x), arguments.integer("roll", "shift", shift)
    if axis is None:
        return reshape(roll(reshape(x, (x.size,)), shift, 0), x.shape)
    axis = arguments.axis("roll", axis, x.ndim)
    n = x.shape[axis]
    if not n or not (cut := -shift % n):
        return x
    lead = (slice(None),) * axis
    return concat([x[(*lead, slice(cut, None))], x[(*lead, slice(0, cut))]], axis)


@function(lambda: [Case(((2, 3),), dict(repeats=(2, 2))), Case(((2, 3),), dict(repeats=(2, 1, 3)))])
def tile(x: TensorLike, repeats: Sizes) -> Tensor:
    """x laid out `repeats` times along each axis, the last ones if there are fewer (PyTorch's x.repeat).
    Raises ShapeError.
    """
    x, times = as_tensor(x), arguments.sizes("tile", repeats, "repeats")
    rank = max(x.ndim, len(times))
    shape = (1,) * (rank - x.ndim) + x.shape
    times = (1,) * (rank - len(times)) + times
    apart = reshape(x, tuple(n for size in shape for n in (1, size)))
    wide = expand(apart, tuple(n for t, size in zip(times, shape, strict=True) for n in (t, size)))
    return reshape(wide, tuple(t * size for t, size in zip(times, shape, strict=True)))


@function(lambda: [Case(((2, 3),), dict(repeats=2)), Case(((2, 3),), dict(repeats=3, axis=1))])
def repeat(x: TensorLike, repeats: int, axis: int | None = None) -> Tensor:
    """Every element `repeats` times, one behind the other, along `axis` (None: of all elements): NumPy's repeat;
    PyTorch's is `tile`. Raises ShapeError, ConfigError.
    """
    x, repeats = as_tensor(x), arguments.integer("repeat", "repeats", repeats, 0)
    if axis is None:
        return repeat(reshape(x, (x.size,)), repeats, 0)
    if isinstance(axis, int) and not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"repeat: expected an axis in [{-x.ndim}, {x.ndim}); got {axis}; "
                         "PyTorch's repeat, of all axes, is tile(x, repeats).")
    axis = arguments.axis("repeat", axis, x.ndim)
    lead, n, rest = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    return reshape(expand(reshape(x, (*lead, n, 1, *rest)), (*lead, n, repeats, *rest)), (*lead, n * repeats, *rest))


@function(lambda: [Case(((1, 3, 1),)), Case(((1, 3, 1),), dict(axis=0))])
def squeeze(x: TensorLike, axis: Axes = None) -> Tensor:
    """x without its axes of size 1, or without those named. Raises ShapeError for a named one of another size."""
    x = as_tensor(x)
    if axis is None:
        return reshape(x, tuple(n for n in x.shape if n != 1))
    gone = arguments.axes("squeeze", axis, x.ndim)
    if any(x.shape[a] != 1 for a in gone):
        raise ShapeError(f"squeeze: expected axes of size 1; got axes {gone} of {x.shape}.")
    return reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in gone))


@function(lambda: [Case(((3, 2),), dict(axis=1))])
def unsqueeze(x: TensorLike, axis: int) -> Tensor:
    """x with a new axis of size 1 (NumPy's expand_dims). Raises ShapeError."""
    x = as_tensor(x)
    axis = arguments.axis("unsqueeze", axis, x.ndim + 1)
    return reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@function(lambda: [Case(((3, 2, 4),), dict(a=0, b=-1))])
def swapaxes(x: TensorLike, a: int, b: int) -> Tensor:
    """y = x with two axes swapped. Raises ShapeError."""
    return transpose(x, a, b)


@function(lambda: [Case(((3, 2, 4),), dict(source=0, target=-1))])
def moveaxis(x: TensorLike, source: int, target: int) -> Tensor:
    """y = x with axis `source` at place `target`, the others in their order. Raises ShapeError."""
    x = as_tensor(x)
    source, target = (arguments.axis("moveaxis", a, x.ndim) for a in (source, target))
    order = [a for a in range(x.ndim) if a != source]
    order.insert(target, source)
    return permute(x, order)


@function(lambda: [Case(((2, 3, 4),)), Case(((2, 3, 4),), dict(start=1))])
def flatten(x: TensorLike, start: int = 0, end: int = -1) -> Tensor:
    """x with the axes from `start` to `end`, both included, as one; a scalar becomes a vector (PyTorch's flatten).
    Raises ShapeError.
    """
    x = as_tensor(x)
    if not x.ndim:
        return reshape(x, (1,))
    first, last = (arguments.axis("flatten", axis, x.ndim) for axis in (start, end))
    if first > last:
        raise ShapeError(f"flatten: expected a start before the end; got axes {start} and {end} of {x.shape}.")
    return reshape(x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@function(lambda: [Case(((1, 3), (2, 3)))])
def expand_as(x: TensorLike, other: TensorLike) -> Tensor:
    """x repeated to the shape of another, by broadcasting. Raises ShapeError."""
    return expand(x, as_tensor(other).shape)


@function(lambda: [Case(((3, 4),), dict(axis=1, start=1, length=2))])
def narrow(x: TensorLike, axis: int, start: int, length: int) -> Tensor:
    """y = `length` elements of x along `axis`, from `start` on: x[..., start : start + length, ...].
    Raises ShapeError, ConfigError where there are not so many.
    """
    x = as_tensor(x)
    axis, length = arguments.axis("narrow", axis, x.ndim), arguments.integer("narrow", "length", length, 0)
    n, first = x.shape[axis], arguments.integer("narrow", "start", start)
    first += n if first < 0 else 0
    if not 0 <= first <= n - length:
        raise ConfigError(f"narrow: expected a part of axis {axis} of {x.shape}; got {length} elements from {start}.")
    return getitem(x, (*(slice(None),) * axis, slice(first, first + length)))


@function(lambda: [Case(((2, 3),)), Case(((2, 3, 2),), dict(k=-1, a=0, b=2))])
def rot90(x: TensorLike, k: int = 1, a: int = 0, b: int = 1) -> Tensor:
    """x turned k times by 90° in the plane of two axes, from a towards b. Raises ShapeError, ConfigError."""
    x, k = as_tensor(x), arguments.integer("rot90", "k", k) % 4
    first, second = (arguments.axis("rot90", axis, x.ndim) for axis in (a, b))
    if first == second:
        raise ShapeError(f"rot90: expected two different axes; got {a} and {b} of {x.shape}.")
    if k == 2:
        return flip(x, (first, second))
    if k == 1:
        return transpose(flip(x, second), first, second)
    return flip(transpose(x, first, second), second) if k else x


@function(lambda: [Case(((3,), (4,)))])
def outer(x: TensorLike, y: TensorLike) -> Tensor:
    """z[i, j] = x[i] · y[j], of vectors; others are laid flat, as NumPy does."""
    x, y = as_tensor(x), as_tensor(y)
    return reshape(x, (x.size, 1)) * reshape(y, (1, y.size))


@function(lambda: [Case(((3,), (4,))), Case(((3,), (4,)), dict(indexing="xy"))])
def meshgrid(*xs: TensorLike, indexing: str = "ij") -> list[Tensor]:
    """Of vectors of n₀, n₁, … elements arrays (n₀, n₁, …), the k-th with x_k along its k-th axis; "xy": the first two
    axes swapped, as NumPy has them unless told. Raises ShapeError, ConfigError.
    """
    tensors = [as_tensor(x) for x in xs]
    arguments.choice("meshgrid", "indexing", indexing, ("ij", "xy"))
    if any(t.ndim > 1 for t in tensors):
        raise ShapeError(f"meshgrid: expected vectors; got shapes {[t.shape for t in tensors]}.")
    sizes = tuple(t.size for t in tensors)
    found = [expand(reshape(t, tuple(n if a == k else 1 for a, n in enumerate(sizes))), sizes)
             for k, t in enumerate(tensors)]
    return [transpose(t, 0, 1) for t in found] if indexing == "xy" and len(sizes) > 1 else found


@function(lambda: [Case((), dict(start=-1.0, stop=2.0, num=7))], differentiable=False)
def linspace(start: float, stop: float, num: int = 50, dtype: DTypeLike = "float32") -> Tensor:
    """y[i] = start + i · (stop − start) / (num − 1), the last one `stop` itself. Raises ConfigError, DTypeError."""
    first, last = (arguments.real("linspace", name, v) for name, v in (("start", start), ("stop", stop)))
    num = arguments.integer("linspace", "num", num, 0)
    i, wanted = arange(n=num, dtype="int32"), dtype_name(dtype)
    wide = "float64" if wanted == "float64" else "float32"
    y = cast(i, wide) * ((last - first) / max(num - 1, 1)) + first
    return cast(where(equal(i, num - 1), last, y) if num > 1 else y, wanted)


@function(lambda: [Case(((3, 4),), dict(dtype="int32"))], differentiable=False)
def zeros_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """0 in the shape of x, and in its dtype unless another is given. Raises DTypeError."""
    return full_like(x, 0, dtype)


@function(lambda: [Case(((3, 4),))], differentiable=False)
def ones_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """1 in the shape of x, and in its dtype unless another is given. Raises DTypeError."""
    return full_like(x, 1, dtype)


@function(lambda: [Case(((3, 4),), dict(value=2.5))], differentiable=False)
def full_like(x: TensorLike, value: float, dtype: DTypeLike | None = None) -> Tensor:
    """A number in the shape of x, and in its dtype unless another is given. Raises DTypeError for one that it cannot
    hold.
    """
    x = as_tensor(x)
    return full(x.shape, value, x.dtype if dtype is None else dtype)


@function(lambda: [Case((), dict(n=3)), Case((), dict(n=2, m=4, k=1))], differentiable=False)
def eye(n: int, m: int | None = None, k: int = 0, dtype: DTypeLike = "float32") -> Tensor:
    """y[i, j] = 1 for j − i = k, else 0: (n, m), m = n unless given. Raises ConfigError, DTypeError."""
    n = arguments.integer("eye", "n", n, 0)
    m = n if m is None else arguments.integer("eye", "m", m, 0)
    return cast(equal(_offset(n, m), arguments.integer("eye", "k", k)), dtype)


@function(lambda: [Case(((3, 4),), dict(mask=[[True], [False], [True]], value=0.5))])
def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """y = value where the mask is True, else x."""
    return where(cast(as_tensor(mask), "bool"), value, as_tensor(x))


@function(lambda: [Case(((3, 4),), dict(axis=1, index=[2, 0, 2]))])
def index_select(x: TensorLike, axis: int, index: TensorLike | Sequence[int]) -> Tensor:
    """y[…, i, …] = x[…, index[i], …] along `axis`, as `gather`. Raises ShapeError, DTypeError, IndexingError."""
    if arguments.whole(axis) is None:
        raise ShapeError("index_select: expected the axis before the indices, as PyTorch has it: index_select(x, axis, "
                         f"index); got {arguments.shown(axis)} for the axis.")
    return rows_along("index_select", x, index, axis)
