"""Running sums, products and maxima along an axis (cumulative.cl)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.size import typical
from ...core.spec import NARROW
from ...engine.compile.c_types import STORAGE
from ..operand import Operand
from ..stage import Stage
from ..variant import Answer, Offer, Refusal, variant

if TYPE_CHECKING:
    from ...engine.device.devices import Device

COLUMNS = 64  # neighbours that a work-item of a CPU takes
SHARE = {"cpu": 1 << 15, "gpu": 1 << 6}  # [steps] that are worth a share of their own
MOST = {"cpu": 2, "gpu": 512}  # work-items a compute unit
FREE = frozenset(("A", "N", "D", "SHARE"))


@dataclass(frozen=True)
class Running:
    """`how` (a, n, d) is accumulated along the middle axis: the dtype that is read, and that of the result."""

    how: str
    a: int
    n: int
    d: int
    dtype: str
    out: str
    reverse: bool

    def macros(self, device: Device) -> dict[str, Any]:
        """Sums of floats run in double where the device has it."""
        stored = STORAGE[self.out if self.how != "MAXIMUM" else self.dtype]
        wide = stored == "float" and device.fp64 and self.how != "MAXIMUM"
        return dict(HOW=self.how, A=self.a, N=self.n, REVERSE=int(self.reverse), ACC="double" if wide else stored,
                    S=STORAGE[self.dtype])

    def scratch(self, parts: int) -> dict[str, int]:
        """[bytes] of what the shares come to, and where."""
        size = 8 * self.a * parts * self.d
        return {"partial": size, "places": size} if parts > 1 else {}


def problem(operands: Sequence[Operand], *, how: str, out: str, reverse: bool) -> Running | Refusal:
    (a, n, d), dtype = operands[0].shape, operands[0].dtype
    if not a or not n or not d:
        return Refusal("no elements")
    return Running(how, a, n, d, "float32" if dtype in NARROW else dtype, "float32" if out in NARROW else out, reverse)


@variant("cumulative", cl="cumulative.cl", serves="shares of the axis, then a walk over each; GPUs: not the last axis")
def walked(p: Running, device: Device) -> Answer:
    if device.is_gpu and p.d == 1:
        return Refusal("GPUs take tiles of the last axis: neighbours to neighbours")
    return Offer(lambda: _stages(p, device))


def _stages(p: Running, device: Device) -> list[Stage]:
    kind = "gpu" if device.is_gpu else "cpu"
    chunk = 1 if device.is_gpu else min(COLUMNS, typical(p.d))
    columns = p.a * -(-p.d // chunk)
    wanted = max(1, device.compute_units * MOST[kind] // max(1, typical(columns)))
    parts = max(1, min(wanted, typical(p.n) // SHARE[kind]))
    macros = dict(p.macros(device), D=p.d, PARTS=parts, SHARE=-(-p.n // parts), CHUNK=chunk)
    group = None if device.is_gpu else (1, 1)
    grid = (columns, parts)
    run = Stage("cumulative", dict(macros, STAGE="RUN"), grid, group, domain=(p.a, p.n, p.d), scratch=p.scratch(parts),
                free=FREE)
    fold = Stage("cumulative", dict(macros, STAGE="FOLD"), grid, group, scratch=p.scratch(parts), final=False,
                 free=FREE)
    return [fold, run] if parts > 1 else [run]


