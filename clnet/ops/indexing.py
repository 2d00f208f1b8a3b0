"""x[...]: integers, slices, None and ... are views; beside them one array of integers gathers, one mask selects."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.arguments import shown, whole
from ..core.recording import recording
from ..core.size import same, settled, varies
from ..core.spec import INTS
from ..core.tensor import Operators, Tensor, TensorLike, as_tensor, walk
from ..errors import IndexingError
from .index import gather
from .view import _crop, flip, reshape


def getitem(x: TensorLike, key: object) -> Tensor:
    """NumPy's indexing: integers, slices, None, ... and, beside those, one integer array (gathers along its axis)
    or mask (selects where True).

    A mask has the shape of the axes it stands for. The size of the result depends on its values: one that only the
    device has is read, and refused in a recorded step. Raises IndexingError, an IndexError: for an index outside, for
    anything that is no index, for a second array.
    """
    x = as_tensor(x)
    keys = [_key(k) for k in (key if isinstance(key, tuple) else (key,))]
    used = sum(_axes_of(k) for k in keys)
    if used > x.ndim:
        raise IndexingError(f"getitem: expected at most {x.ndim} indices for shape {x.shape}; got {used}.")
    at = [i for i, k in enumerate(keys) if k is Ellipsis] or [len(keys)]
    if len(at) > 1:
        raise IndexingError(f"getitem: expected ... at most once; got it {len(at)} times; write : for single axes.")
    keys[at[0] : at[0] + 1] = [slice(None)] * (x.ndim - used)
    arrays = [i for i, k in enumerate(keys) if isinstance(k, (Tensor, np.ndarray))]
    return _gathered(x, keys, arrays) if arrays else _viewed(x, keys)


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


def _axes_of(k: object) -> int:
    """How many axes of x a key stands for."""
    return 0 if k is None or k is Ellipsis else k.ndim if isinstance(k, np.ndarray) else 1


def _viewed(x: Tensor, keys: list[Any]) -> Tensor:
    start: list[int] = []
    size: list[int] = []
    step: list[int] = []
    flips: list[int] = []
    shape: list[int] = []
    axis = 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        a, m, s = _span(k, x.shape[axis], axis)
        if s < 0:
            flips.append(axis)
            a, s = x.shape[axis] - 1 - a, -s
        for part, value in zip((start, size, step), (a, m, s), strict=True):
            part.append(value)
        if isinstance(k, slice):
            shape.append(m)
        axis += 1
    y = flip(x, flips) if flips else x
    # A size that varies is cut to, also where it just now is the whole: what follows then serves every size.
    if not all(map(same, size, y.shape)) or any(start) or any(s != 1 for s in step):
        y = _crop(y, start=tuple(start), size=tuple(size), step=tuple(step))
    return reshape(y, tuple(shape))


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


def _gathered(x: Tensor, keys: list[Any], arrays: list[int]) -> Tensor:
    """What the views beside the array leave, gathered along its axis."""
    advanced = [i for i, k in enumerate(keys) if i in arrays or isinstance(k, int)]
    if len(arrays) != 1 or advanced[-1] - advanced[0] != len(advanced) - 1:
        raise IndexingError(
            "getitem: expected one array or mask, and integers only next to it; index in two steps, or use gather.")
    at = arrays[0]
    if isinstance(keys[at], np.ndarray):
        x, keys[at] = _flattened(x, keys[at], sum(_axes_of(k) for k in keys[:at]))
    views = [slice(None) if i == at else k for i, k in enumerate(keys)]
    y = _viewed(x, views) if any(k != slice(None) for k in views) else x
    return gather(y, keys[at], axis=sum(not isinstance(k, int) for k in keys[:at]))


def _flattened(x: Tensor, mask: np.ndarray[Any, Any], axis: int) -> tuple[Tensor, Tensor]:
    """x with the axes that the mask stands for as one, and the numbers along it where the mask is True."""
    covered = x.shape[axis : axis + mask.ndim]
    if covered != mask.shape:
        raise IndexingError(
            f"getitem: expected a mask of shape {covered}, the axes of {x.shape} from {axis} on; got {mask.shape}.")
    merged = reshape(x, (*x.shape[:axis], math.prod(covered), *x.shape[axis + mask.ndim :]))
    return merged, as_tensor(np.flatnonzero(mask))
