"""x[...]: integers, slices, None and ... are views; beside them arrays of integers and masks gather, as in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core import arguments
from ..core.arguments import Ints, shown, whole
from ..core.recording import recording
from ..core.size import same, settled, varies
from ..core.spec import INTS, broadcast_shapes
from ..core.tensor import Operators, Tensor, TensorLike, as_tensor, walk
from ..errors import IndexingError, ShapeError
from .index import gather
from .pointwise import cast, where
from .view import _crop, expand, flip, permute, reshape


def getitem(x: TensorLike, key: object) -> Tensor:
    """NumPy's indexing: integers, slices, None, ..., integer arrays, which broadcast to one shape, and masks.

    The arrays' axes stand where the first array does, or first, where anything but integers lies between two of them. A
    mask has the shape of the axes it stands for. The size of the result depends on its values: one that only the
    device has is read, and refused in a recorded step. Raises IndexingError, an IndexError: for an index outside, for
    anything that is no index; on the device rows outside are NaN (0 for integers).
    """
    x = as_tensor(x)
    keys = keys_of(x, key)
    if not arrays_in(keys):
        return _viewed(x, Span.of(x, keys))
    rows = Rows.of(x, keys)
    return gather(rows.x, rows.index, rows.axis)


def keys_of(x: Tensor, key: object) -> list[Any]:
    """A key for each axis of x and each new one: a slice, an integer, None, a mask as an array of NumPy's, other arrays
    as tensors.
    """
    keys = [_key(k) for k in (key if isinstance(key, tuple) else (key,))]
    used = sum(axes_of(k) for k in keys)
    if used > x.ndim:
        raise IndexingError(f"getitem: expected at most {x.ndim} indices for shape {x.shape}; got {used}.")
    at = [i for i, k in enumerate(keys) if k is Ellipsis] or [len(keys)]
    if len(at) > 1:
        raise IndexingError(f"getitem: expected ... at most once; got it {len(at)} times; write : for single axes.")
    keys[at[0] : at[0] + 1] = [slice(None)] * (x.ndim - used)
    return keys


def arrays_in(keys: list[Any]) -> list[int]:
    """Which of the keys are arrays."""
    return [i for i, k in enumerate(keys) if isinstance(k, (Tensor, np.ndarray))]


def _key(k: object) -> Any:
    """None, ..., a slice or an integer as it is; a mask as a NumPy array; an integer array as a tensor."""
    if k is None or k is Ellipsis or isinstance(k, slice):
        return k
    if isinstance(k, (bool, np.bool_)):
        return np.asarray(k)
    if (n := whole(k)) is not None:
        return n
    array = as_tensor(k) if isinstance(k, Operators) else _array(k)
    if array.dtype == "bool":
        return _mask(array) if isinstance(array, Tensor) else array
    if array.dtype not in INTS:
        raise IndexingError(
            "getitem: expected integers, slices, None, ..., integer arrays or masks; "
            f"got {shown(k)} of {array.dtype}; cast it to int32.")
    return as_tensor(array)


def _array(k: object) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(k)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if not array.size and isinstance(k, (list, tuple)):
        return array.astype(np.int64)
    if array.dtype.kind not in "iubf":
        raise IndexingError(f"getitem: expected integers, slices, None, ..., integer arrays or masks; got {shown(k)}.")
    return array


def _mask(t: Tensor) -> np.ndarray[Any, Any]:
    """The values of a mask, read where only the device has them."""
    if t.value is not None:
        return t.value
    if recording() or any(leaf.op is None and leaf.value is None and leaf.storage is None for leaf in walk([t])):
        raise IndexingError(
            "getitem: expected a mask that is known now, since the size of x[mask] depends on it; "
            "got one that a recorded step computes; use where(mask, x, 0), which keeps the shape.")
    return t.numpy()


def axes_of(k: object) -> int:
    """How many axes of x a key stands for."""
    return 0 if k is None or k is Ellipsis else k.ndim if isinstance(k, np.ndarray) else 1


class Span(NamedTuple):
    """The elements that integers, slices and None select: start + step · i, i < size, of an x whose axes `flips` are
    turned, in an array of `shape`.
    """

    start: Ints
    size: Ints
    step: Ints
    flips: Ints
    shape: Ints

    @staticmethod
    def of(x: Tensor, keys: list[Any]) -> Span:
        """Of a key for each axis of x, and None for new ones."""
        spans: list[Ints] = []
        flips, shape = list[int](), list[int]()
        for k in keys:
            if k is None:
                shape.append(1)
                continue
            axis, n = len(spans), x.shape[len(spans)]
            a, m, s = _span(k, n, axis)
            if s < 0:
                flips.append(axis)
                a, s = n - 1 - a, -s
            spans.append((a, m, s))
            shape += [m] if isinstance(k, slice) else []
        start, size, step = zip(*spans, strict=True) if spans else ((), (), ())
        return Span(start, size, step, tuple(flips), tuple(shape))

    def whole(self, x: Tensor) -> bool:
        """Whether it is all of x, but for turned axes. A size that varies is cut to, also where it just now is the
        whole: what follows then serves every size.
        """
        return all(map(same, self.size, x.shape)) and not any(self.start) and all(s == 1 for s in self.step)


def _viewed(x: Tensor, span: Span) -> Tensor:
    y = flip(x, span.flips) if span.flips else x
    if not span.whole(x):
        y = _crop(y, start=span.start, size=span.size, step=span.step)
    return reshape(y, span.shape)


def _span(k: slice | int, n: int, axis: int) -> tuple[int, int, int]:
    """(start, count, step) of an index or slice on an axis of n."""
    if isinstance(k, slice):
        if varies(n, k.start, k.stop):
            return _sized_span(k, n)
        try:
            a, b, s = k.indices(n)
        except (TypeError, ValueError) as error:
            raise IndexingError(
                f"getitem: expected a slice of integers with a step other than 0; got {k} ({error}).") from None
        return a if len(range(a, b, s)) else 0, len(range(a, b, s)), s
    if not -n <= k < n:
        raise IndexingError(f"getitem: expected an index in [{-n}, {n}) on axis {axis}; got {k}.")
    return k % n if n else 0, 1, 1


def _sized_span(k: slice, n: int) -> tuple[int, int, int]:
    """The same where sizes vary."""
    s = 1 if k.step is None else settled(k.step)
    first, end = (0, n) if s > 0 else (n - 1, -1)
    least, most = (0, n) if s > 0 else (-1, n - 1)

    def place(at: int | None, missing: int) -> int:
        return missing if at is None else min(at, most) if at >= 0 else max(n + at, least)

    a, b = place(k.start, first), place(k.stop, end)
    count = -(-(b - a) // s) if (b > a if s > 0 else a > b) else 0
    return (a, count, s) if count else (0, 0, s)


@dataclass(frozen=True)
class Rows:
    """What arrays among the keys select: the rows x[…, index, …] along an axis.

    x      what the other keys leave, with the axes that the arrays stand for as one, `axis`
    index  numbers along it, in the shape that the arrays broadcast to; what lies outside is no row
    span   of the other keys
    back   a tensor like x -> the same in the order of axes that the span left
    """

    x: Tensor
    axis: int
    index: Tensor
    span: Span
    back: Callable[[Tensor], Tensor]

    @staticmethod
    def of(x: Tensor, keys: list[Any]) -> Rows:
        """Of a key for each axis of x, and None for new ones, with one array or more; x without masks' axes."""
        x, keys = unmasked(x, keys)
        arrays = arrays_in(keys)
        advanced = [i for i, k in enumerate(keys) if i in arrays or isinstance(k, int)]
        span = Span.of(x, [slice(None) if i in arrays else k for i, k in enumerate(keys)])
        y = _viewed(x, span)
        at = [sum(not isinstance(k, int) for k in keys[:i]) for i in arrays]
        together = advanced[-1] - advanced[0] == len(advanced) - 1
        order = list(range(y.ndim)) if together else [*at, *(a for a in range(y.ndim) if a not in at)]
        moved, axis, many = permute(y, order), at[0] if together else 0, len(at)
        shape = (*moved.shape[:axis], math.prod(y.shape[a] for a in at), *moved.shape[axis + many :])

        def back(t: Tensor) -> Tensor:
            return permute(reshape(t, moved.shape), [order.index(a) for a in range(y.ndim)])

        return Rows(reshape(moved, shape), axis, _numbers([keys[i] for i in arrays], [y.shape[a] for a in at]), span,
                    back)


def _numbers(arrays: list[Tensor], sizes: list[int]) -> Tensor:
    """Row-major numbers of the places with these coordinates along axes of these sizes, their product where one lies
    outside.
    """
    for t, n in zip(arrays, sizes, strict=True):
        arguments.indices("getitem", t, n)
    if len(arrays) == 1:
        return arrays[0]
    try:
        shape = broadcast_shapes("getitem", *(t.shape for t in arrays))
    except ShapeError:
        raise IndexingError("getitem: expected arrays that broadcast to one shape; "
                            f"got {', '.join(str(t.shape) for t in arrays)}.") from None
    if not varies(*sizes) and all(t.value is not None for t in arrays):
        known = [np.broadcast_to(np.asarray(t.value, np.int64), shape) % max(n, 1)
                 for t, n in zip(arrays, sizes, strict=True)]
        return as_tensor(np.asarray(np.ravel_multi_index(known, sizes) if math.prod(shape) else known[0]))
    number, outside = as_tensor(np.int64(0)), as_tensor(False)
    for t, n in zip(arrays, sizes, strict=True):
        wide = cast(t, "int64")
        i = where(wide < 0, wide + n, wide)
        number, outside = number * n + i, outside | (i < 0) | (i >= n)
    return expand(where(outside, math.prod(sizes), number), shape)


def unmasked(x: Tensor, keys: list[Any]) -> tuple[Tensor, list[Any]]:
    """x with the axes of each mask as one, and the numbers along it where the mask is True as its key."""
    keys = list(keys)
    for i, k in enumerate(keys):
        if isinstance(k, np.ndarray):
            x, keys[i] = _flattened(x, k, sum(axes_of(k) for k in keys[:i]))
    return x, keys


def _flattened(x: Tensor, mask: np.ndarray[Any, Any], axis: int) -> tuple[Tensor, Tensor]:
    """x with the axes that the mask stands for as one, and the numbers along it where the mask is True."""
    covered = x.shape[axis : axis + mask.ndim]
    if covered != mask.shape:
        raise IndexingError(
            f"getitem: expected a mask of shape {covered}, the axes of {x.shape} from {axis} on; got {mask.shape}.")
    merged = reshape(x, (*x.shape[:axis], math.prod(covered), *x.shape[axis + mask.ndim :]))
    return merged, as_tensor(np.flatnonzero(mask))
