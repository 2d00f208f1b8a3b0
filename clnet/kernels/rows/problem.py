"""Rows along the last axis, each of which a kernel reads once, and sums over them: normalize.cl, normalize_gpu.cl."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.size import typical
from ...core.spec import NARROW, is_float
from ..operand import Operand
from ..variant import Refusal

if TYPE_CHECKING:
    from ...engine.device.devices import Device

Macros = dict[str, str | int]
WIDE = 1 << 16  # [elements] rows from here on are folded by all cores together, unless there are enough rows for all
FEW_AND_WIDE = Refusal("few rows of many elements: all cores fold a row together")


@dataclass(frozen=True)
class Rows:
    """What a KIND of normalize.cl computes of each of `rows` rows of `n` elements.

    dtype        of the first operand
    attributes   further macros, from the op's attributes
    """

    kind: str
    rows: int
    n: int
    dtype: str
    attributes: tuple[tuple[str, str | int], ...]

    @property
    def macros(self) -> Macros:
        return dict(KIND=self.kind, ROWS=self.rows, N=self.n)

    @property
    def domain(self) -> tuple[int, ...]:
        """Of the result: an element a row where the kind is a loss."""
        return (self.rows,) if self.kind in ("CROSS_ENTROPY", "SOFT_CROSS_ENTROPY") else (self.rows, self.n)

    @property
    def also(self) -> tuple[int, ...]:
        """Of a second result."""
        return (self.rows,) if self.kind == "CROSS_ENTROPY_AND_SLOPE" else ()

    def suits(self, device: Device) -> bool:
        """Whether a row may be left to one work-item or work-group."""
        return typical(self.n) < WIDE or typical(self.rows) >= device.compute_units


@dataclass(frozen=True)
class Columns(Rows):
    """Sums over all rows: `outputs` rows of n elements. Kinds GRADIENTS also give a result of the size of the rows."""

    outputs: int

    @property
    def with_rows(self) -> bool:
        return self.kind.endswith("GRADIENTS")

    @property
    def sums(self) -> tuple[int, int]:
        return self.outputs, self.n

    def partial_sums(self, items: int) -> dict[str, int]:
        """Bytes for the sums of each of so many chunks of rows."""
        return {"partial": items * self.outputs * self.n * (8 if self.dtype == "float64" else 4)}


def over_columns(kind: str, outputs: int, operands: Sequence[Operand], *, eps: float) -> Columns | Refusal:
    found = over_rows(kind, operands, eps=eps)
    if isinstance(found, Refusal):
        return found
    return Columns(found.kind, found.rows, found.n, found.dtype, found.attributes, outputs)


def over_rows(kind: str, operands: Sequence[Operand], *, axis: int = -1, axes: tuple[int, ...] | None = None,
          eps: float | None = None, smoothing: float | None = None,
          ignore_index: int | None = None) -> Rows | Refusal:
    """The problem of a call: `axis` counts from the end, `axes` from the front."""
    x = operands[0]
    n, rows = x.shape[-1], math.prod(x.shape[:-1])
    if axis != -1 or axes not in (None, (len(x.shape) - 1,)):
        return Refusal("not along the last axis")
    # 16 bits are widened where they are read
    if len({"float32" if o.dtype in NARROW else o.dtype for o in operands if is_float(o.dtype)}) != 1:
        return Refusal("operands of several float types")
    if n == 0 or rows == 0:
        return Refusal("no elements")
    attributes: Macros = {}
    if eps is not None:
        attributes["EPS"] = repr(eps)
    if smoothing is not None:
        attributes |= {"SMOOTHING": repr(smoothing), "SMOOTHED": int(smoothing != 0), "IGNORE": f"({ignore_index})"}
    return Rows(kind, rows, n, x.dtype, tuple(attributes.items()))
