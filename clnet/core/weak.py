"""Python numbers beside tensors: they take the tensor's dtype, as in NumPy, where it can hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .spec import INTS, RANGES, np_dtype, promote

# Comparisons, and what each says of integers and a number below all that their dtype can hold.
BELOW = {"less": False, "less_equal": False, "greater": True, "greater_equal": True, "equal": False, "not_equal": True}


def weak(x: bool | int | float, like: str | None) -> str:
    """The dtype that a Python number takes beside one of dtype `like`, or alone (None)."""
    if isinstance(x, bool):
        return "bool"
    if like is not None and (like not in RANGES or (like != "bool" and isinstance(x, int))):
        return like
    if isinstance(x, float):
        # what a function of floats makes of such integers
        return "float32" if like is None or np_dtype(like).itemsize <= 2 else "float64"
    return next((d for d in ("int32", "int64", "uint64") if RANGES[d][0] <= x <= RANGES[d][1]), "int64")


def beyond(x: Any, dtype: str) -> bool:
    """Whether x is a Python integer outside of an integer dtype."""
    return isinstance(x, int) and type(x) is not bool and not RANGES[dtype][0] <= x <= RANGES[dtype][1]


def decided(comparison: str, operands: Sequence[Any], dtype: str) -> bool:
    """What a comparison of integers of `dtype` with a number that it cannot hold says of every one of them."""
    first = beyond(operands[0], dtype)
    number_below = operands[not first] < 0
    return BELOW[comparison] if comparison in ("equal", "not_equal") else BELOW[comparison] == (number_below != first)


def holding(dtype: str, numbers: Sequence[Any]) -> str:
    """The narrowest integer dtype that holds `dtype` and the Python integers among `numbers`;
    `dtype` itself where none does.
    """
    for other in sorted(INTS, key=lambda d: np_dtype(d).itemsize):
        wide = promote(dtype, other)
        if wide in RANGES and not any(beyond(n, wide) for n in numbers):
            return wide
    return dtype
