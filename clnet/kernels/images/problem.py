"""Pooling as what is to be computed, for pool.cl and pool_gpu.cl. Sizes in elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from ...core.spec import is_float
from ..operand import Operand
from ..variant import Refusal

LARGEST = 256  # [elements] of a window: their numbers fit 8 bits
Three = tuple[int, int, int]  # (z, y, x)


class Pooling(NamedTuple):
    """What a VARIANT of pool.cl computes of each of `planes`: windows of the axes `whole` give `results`, or are given
    back. Missing leading axes are 1.
    """

    variant: str
    dtype: str
    planes: int
    whole: Three
    results: Three
    size: Three
    stride: Three
    dilation: Three
    low: Three
    high: Three

    @property
    def back(self) -> bool:
        """Whether the result is of the size of the whole."""
        return self.variant.endswith("BACK")

    @property
    def domain(self) -> tuple[int, int]:
        return self.planes, prod(self.whole if self.back else self.results)

    @property
    def macros(self) -> dict[str, Any]:
        by_axis = {"": self.whole, "R": self.results, "K": self.size, "S_": self.stride, "D_": self.dilation,
                   "LOW_": self.low, "HIGH_": self.high}
        return {"VARIANT": self.variant, "E": "double" if self.dtype == "float64" else "float",
                **{name + axis: n for name, given in by_axis.items() for axis, n in zip("ZYX", given, strict=True)}}


def pooling(variant: str, operands: Sequence[Operand], *, size: Sequence[int], stride: Sequence[int],
             low: Sequence[int], high: Sequence[int], dilation: Sequence[int],
             n: Sequence[int] = ()) -> Pooling | Refusal:
    """The problem of a call; `n` are the spatial axes of the result of a way back."""
    data, dtype = operands[0].shape, operands[0].dtype
    if not is_float(dtype):
        return Refusal("not of floats")
    if not all(prod(x.shape) for x in operands):
        return Refusal("no elements")
    if prod(size) > LARGEST:
        return Refusal(f"windows of more than {LARGEST} elements")
    results = data[2:] if n else tuple(
        (s + a + b - d * (k - 1) - 1) // t + 1
        for s, a, b, d, k, t in zip(data[2:], low, high, dilation, size, stride, strict=True))
    return Pooling(variant, dtype, data[0] * data[1], _three(n or data[2:], 1), _three(results, 1), _three(size, 1),
                   _three(stride, 1), _three(dilation, 1), _three(low, 0), _three(high, 0))


def _three(values: Sequence[int], fill: int) -> Three:
    """(z, y, x), with `fill` for missing leading axes."""
    z, y, x = (fill,) * (3 - len(values)) + tuple(values)
    return z, y, x
