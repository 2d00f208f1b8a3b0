"""Arguments checked by their kind, in one place: every op names itself and the argument,
and gets plain Python values back.

    integer, integers   a count, several of them        axis, axes, order   numbers of axes, negative ones from the end
    sizes, per_axis     sizes of axes; settings, one for all spatial axes or one each
    real                a finite number in a range       number              one that a dtype can hold
    choice              one of some words                indices             row numbers, as far as the host knows them
    array               numbers in lists of one length

Integers are Python's and NumPy's: a bool is none, nor is 2.0. Shapes, sizes and axes raise ShapeError; settings and
counts ConfigError; numbers for a dtype DTypeError; row numbers IndexingError, which is an IndexError, too.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import ClnetError, ConfigError, DTypeError, IndexingError, ShapeError
from ..names import ending
from .size import Size
from .spec import RANGES

Error = type[ClnetError]
Ints = tuple[int, ...]
Sizes = int | Sequence[int]  # one for all axes, or one an axis
Axes = int | Sequence[int] | None  # None: all
Padding = str | int | Sequence[int] | Sequence[Sequence[int]]  # a word, one for all, one an axis or (low, high) an axis
LONG = 1 << 63
PLAIN = frozenset((int, Size))


def shown(value: Any) -> str:
    """A value as errors quote it: arrays and tensors by their shape."""
    size = getattr(value, "shape", None)
    return f"{type(value).__name__} of shape {size}" if isinstance(size, tuple) and size else reprlib.repr(value)


def whole(value: Any) -> int | None:
    """The integer that value is, None for what is none, or more than 64 bits."""
    if type(value) not in PLAIN:
        if isinstance(value, (bool, float, str, tuple, list)):
            return None
        try:
            value = operator.index(value)
        except TypeError:
            return None
    return value if -LONG <= value < LONG else None


def _listed(value: Any) -> tuple[Any, ...] | None:
    """The values of a tuple, list, range, vector or iterator; None for anything else
    (a set has no order, a tensor would be read).
    """
    if isinstance(value, (tuple, list, range)) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return tuple(value)
    if isinstance(value, (str, bytes, dict, set, frozenset)) or getattr(value, "shape", None) is not None:
        return None
    return tuple(value) if isinstance(value, Iterable) else None


def _instead(value: Any) -> str:
    """The way out for a float."""
    return f"; write {int(value)}" if isinstance(value, float) and value.is_integer() else ""


def integer(who: str, name: str, value: Any, least: int | None = None, error: Error = ConfigError) -> int:
    """A count, size or amount. Raises `error` for anything but an integer of at least `least`."""
    n = whole(value)
    if n is None or (least is not None and n < least):
        raise error(f"{who}: expected {name} to be an integer{'' if least is None else f' of at least {least}'}; "
                    f"got {shown(value)}{_instead(value)}.")
    return n


def integers(who: str, name: str, value: Any, count: int | None = None, least: int | None = None,
             error: Error = ShapeError, way: str = "") -> tuple[int, ...]:
    """Several integers of at least `least`, `count` of them. Raises `error`, which names the `way` out."""
    found = _listed(value)
    numbers = None if found is None else tuple(map(whole, found))
    if (numbers is None or (count is not None and len(numbers) != count)
            or any(n is None or (least is not None and n < least) for n in numbers)):
        many = "" if count is None else f"{count} "
        floor = "" if least is None else f" of at least {least}"
        raise error(f"{who}: expected {name} to be a sequence of {many}integers{floor}; got {shown(value)}{way}.")
    return numbers  # type: ignore[return-value]


def pairs(who: str, name: str, value: Any, error: Error = ShapeError) -> tuple[Any, ...]:
    """The members of a sequence of sequences. Raises `error` for anything else."""
    found = _listed(value)
    if found is None or any(_listed(p) is None for p in found):
        raise error(f"{who}: expected {name} to be a sequence of pairs (low, high); got {shown(value)}.")
    return found


def sizes(who: str, value: Any, name: str = "shape", error: Error = ShapeError) -> tuple[int, ...]:
    """A shape: sizes of at least 0, or one for a single axis. Raises `error`."""
    if type(value) is tuple and PLAIN.issuperset(map(type, value)) and all(-1 < n < LONG for n in value):
        return value
    if (n := whole(value)) is not None and n >= 0:
        return (n,)
    found = _listed(value)
    numbers = None if found is None else tuple(map(whole, found))
    if numbers is None or any(n is None or n < 0 for n in numbers):
        raise error(f"{who}: expected {name} to be a size of at least 0, or a sequence of such; "
                    f"got {shown(value)}{_instead(value)}.")
    return numbers  # type: ignore[return-value]


def spelled(who: str, name: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """The integers of a call that may be written f(x, 2, 3) or f(x, (2, 3)). Raises ShapeError."""
    if len(values) == 1 and (type(values[0]) is tuple or whole(values[0]) is None):
        values = values[0]
    if type(values) is tuple and PLAIN.issuperset(map(type, values)):
        return values
    return integers(who, name, values)


def per_axis(who: str, name: str, value: Any, d: int, least: int, error: Error = ConfigError) -> tuple[int, ...]:
    """An integer for all of d spatial axes, or one each. Raises `error` for a wrong count or one below `least`."""
    if (n := whole(value)) is not None:
        values: tuple[Any, ...] | None = (n,) * d
    else:
        values = _listed(value)
        values = None if values is None else tuple(map(whole, values))
    if values is None or len(values) != d or any(v is None or v < least for v in values):
        raise error(f"{who}: expected {name} to be an integer of at least {least}, or {d} of them; "
                    f"got {shown(value)}; one per spatial axis.")
    return values


# --- axes
def axis(who: str, value: Any, ndim: int) -> int:
    """An axis in [−ndim, ndim), counted from the first. Raises ShapeError."""
    a = whole(value)
    if a is None or not -ndim <= a < ndim:
        raise ShapeError(f"{who}: expected an axis {_among(ndim)}; got {shown(value)}{_instead(value)}.")
    return a + ndim if a < 0 else a


def axes(who: str, value: Any, ndim: int) -> tuple[int, ...]:
    """Axes as sorted non-negative numbers; None means all. Raises ShapeError for one out of range or named twice."""
    if value is None:
        return tuple(range(ndim))
    if type(value) is int and -ndim <= value < ndim:
        return (value + ndim if value < 0 else value,)
    listed = (value,) if whole(value) is not None else _listed(value)
    found = [a + ndim if a is not None and a < 0 else a for a in map(whole, (value,) if listed is None else listed)]
    if any(a is None or not 0 <= a < ndim for a in found) or len(set(found)) != len(found):
        raise ShapeError(f"{who}: expected distinct axes {_among(ndim)}; got {shown(value)}{_instead(value)}.")
    return tuple(sorted(a for a in found if a is not None))


def _among(ndim: int) -> str:
    return f"in [{-ndim}, {ndim})" if ndim else "of a tensor that has some (this one is a scalar)"


def order(who: str, values: tuple[Any, ...], of: tuple[int, ...]) -> tuple[int, ...]:
    """A permutation of the axes of a shape, spelled (2, 0, 1) or 2, 0, 1;
    negative ones count from the end. Raises ShapeError.
    """
    ndim = len(of)
    dims = tuple(a + ndim if a < 0 else a for a in spelled(who, "order", values))
    if sorted(dims) != list(range(ndim)):
        raise ShapeError(f"{who}: expected an order of {ndim} axes for shape {of}; got {dims}.")
    return dims


# --- numbers
def real(who: str, name: str, value: Any, least: float = -math.inf, above: float = -math.inf, most: float = math.inf,
         way: str = "") -> float:
    """A finite number in [least, most] and greater than `above`. Raises ConfigError, which names the `way` out."""
    good = (isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
            and math.isfinite(value))
    if not good or not (least <= value <= most and value > above):
        span = [f"{sign} {end:g}" for sign, end in ((">", above), ("≥", least), ("≤", most)) if math.isfinite(end)]
        raise ConfigError(f"{who}: expected {name} {' and '.join(span) or 'to be finite'}; got {shown(value)}{way}.")
    return float(value)


def number(who: str, value: Any, dtype: str) -> Any:
    """A number that `dtype` can hold, as it is: for integers a whole one in their range,
    for bool a truth value. Raises DTypeError.
    """
    if isinstance(value, Size) and (dtype not in RANGES or value.whole):
        return value  # of a shape: far below what integers of 32 bits hold
    if dtype not in RANGES:
        if type(value) is float or (type(value) is int and -LONG <= value < LONG):
            return value
        if not isinstance(value, (int, float, np.number, np.bool_)) or isinstance(value, np.complexfloating):
            raise DTypeError(f"{who}: expected a number; got {shown(value)}.")
        if isinstance(value, int) and not -(1 << 1023) < value < 1 << 1023:
            raise DTypeError(f"{who}: expected a number that {dtype} can hold; got {shown(value)}.")
        return value
    low, high = RANGES[dtype]
    if type(value) is int and low <= value <= high:
        return value
    plain = isinstance(value, (int, np.integer, np.bool_)) or (
        isinstance(value, (float, np.floating)) and math.isfinite(value) and value == int(value))
    if not plain or not low <= value <= high:
        span = "False or True" if dtype == "bool" else f"an integer in [{low}, {high}]"
        raise DTypeError(
            f"{who}: expected {span}, which {dtype} can hold; "
            f"got {shown(value)}; cast the tensor to a wider dtype first.")
    return value


# --- words, rows, arrays
def array(who: str, value: Any) -> np.ndarray[Any, Any]:
    """The NumPy array that value makes. Raises ShapeError for lists of several lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        raise ShapeError(
            f"{who}: expected lists of equal length at every depth; "
            "got lists of different lengths; pad them, or make a tensor of each.") from None


def choice(who: str, name: str, value: Any, options: Iterable[str]) -> str:
    """One of some words. Raises ConfigError with the nearest."""
    known = list(options)
    if not isinstance(value, str) or value not in known:
        raise ConfigError(
            f"{who}: expected {name} {' or '.join(map(repr, known))}; got {shown(value)}{ending(str(value), known)}")
    return value


def indices(who: str, index: Any, n: int) -> None:
    """Raises IndexingError when an index that the host knows lies outside [−n, n)."""
    value = index.value
    if value is not None and value.size and (value.min() < -n or value.max() >= n):
        bad = int(value.min()) if value.min() < -n else int(value.max())
        raise IndexingError(f"{who}: expected indices in [{-n}, {n}); got {bad}; clip them, or mend the vocabulary.")
