"""One axis of an image resized, and the way back (resample.cl): each result is a short weighted sum of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.size import typical, varies
from ..bands import band, places
from ..grid import dealt, up, vector_lanes
from ..operand import Operand
from ..stage import Stage
from ..variant import Answer, Offer, Refusal, variant

if TYPE_CHECKING:
    from ...engine.device.devices import Device

MOST_TAPS = 64  # weights that a work-item keeps; longer sums are formulas
GPU_GROUP = 256
WORTH = 4096  # [elements] that are worth a work-item of a CPU
# Sizes that may be arguments.
FREE = frozenset(("N", "M", "A", "B", "C", "TAPS", "PA", "PB", "PC", "BATCH", "FROM", "COUNT", "WIDTH", "CHUNK"))


class Resampling(NamedTuple):
    """(batch, n, width) resized to (batch, m, width), or the way back (`adjoint`)."""

    rule: str
    n: int
    m: int
    adjoint: bool
    batch: int
    width: int
    dtype: str

    @property
    def domain(self) -> tuple[int, int, int]:
        return self.batch, self.n if self.adjoint else self.m, self.width

    @property
    def macros(self) -> dict[str, Any]:
        (a, b, c, taps), (pa, pb, pc) = band(self.rule, self.n, self.m, self.adjoint), places(self.rule, self.n, self.m)
        return {"RULE": {"corners": "LINEAR"}.get(self.rule, self.rule.upper()), "BACK": int(self.adjoint),
                "X": "g" if self.adjoint else "x", "N": self.n, "M": self.m, "A": f"({a})", "B": f"({b})", "C": c,
                "TAPS": taps, "PA": pa, "PB": f"({pb})", "PC": pc, "BATCH": self.batch,
                "FROM": self.m if self.adjoint else self.n, "COUNT": self.domain[1], "WIDTH": self.width,
                **({"MOST_TAPS": MOST_TAPS} if varies(taps) else {})}


def resampling(adjoint: bool, operands: Sequence[Operand], *, rule: str, n: int, m: int) -> Resampling | Refusal:
    if rule == "nearest" and not adjoint:
        return Refusal("nearest forward is an index map, part of whoever reads it")
    if band(rule, n, m, adjoint)[3] > MOST_TAPS:
        return Refusal(f"sums of more than {MOST_TAPS} elements")
    batch, _, width = operands[0].shape
    return Resampling(rule, n, m, adjoint, batch, width, operands[0].dtype)


@variant("resample", cl="resample.cl", serves="all devices: sums of up to 64 elements")
def weighted(p: Resampling, device: Device) -> Answer:
    return Offer(lambda: [_stage(p, device)])


def _stage(p: Resampling, device: Device) -> Stage:
    gpu, elements = device.is_gpu, prod(p.domain)
    defines = {**p.macros, "GPU": int(gpu)}
    if gpu:
        return Stage("resample", defines, (up(elements, GPU_GROUP),), (GPU_GROUP,), domain=p.domain, free=FREE)
    lanes = vector_lanes(device, p.dtype)
    lanes = lanes if typical(p.width) >= lanes else 1
    chunk, items = dealt(device, p.batch * p.domain[1] if lanes > 1 else p.batch, elements, WORTH)
    return Stage("resample", {**defines, "CHUNK": chunk}, (items,), (1,), domain=p.domain, lanes=lanes, free=FREE)
