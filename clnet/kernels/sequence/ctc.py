"""Connectionist temporal classification (ctc.cl): a work-item (CPU) or work-group (GPU) a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..grid import dealt, up
from ..operand import Operand
from ..stage import Stage
from ..variant import Answer, Offer, variant

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FREE = frozenset(("FRAMES", "BATCH", "WIDTH", "TOTAL", "CHUNK"))
GPU_GROUP = 64  # work-items per sample; states beyond are dealt out in turn
SCATTER_GROUP = 256
WORTH = 4096  # [elements] of the slope that are worth a work-item of their own on a CPU


class Alignment(NamedTuple):
    """Targets of up to `width` labels, written by frames of log-probabilities.

    total   labels of all samples, where they stand one after the other; None: as a matrix
    """

    frames: int
    batch: int
    classes: int
    width: int
    blank: int
    total: int | None
    dtype: str

    @property
    def size(self) -> int:
        """[bytes] of an element."""
        return 8 if self.dtype == "float64" else 4

    @property
    def states(self) -> int:
        """Labels with a blank before, between and after them."""
        return 2 * self.width + 1

    @property
    def rows(self) -> dict[str, int]:
        """Bytes for two lines of states a sample."""
        return {"rows": self.size * self.batch * 2 * self.states}

    def group(self, device: Device) -> int:
        return GPU_GROUP if device.is_gpu else 1

    def macros(self, device: Device) -> dict[str, Any]:
        return {"FRAMES": self.frames, "BATCH": self.batch, "CLASSES": self.classes, "WIDTH": self.width,
                "BLANK": self.blank, "PACKED": int(self.total is not None), "GPU": int(device.is_gpu),
                "TOTAL": self.total or 0, "GROUP": self.group(device)}


def alignment(operands: Sequence[Operand], *, blank: int, width: int) -> Alignment:
    (frames, batch, classes), targets = operands[0].shape, operands[1].shape
    return Alignment(frames, batch, classes, width, blank, targets[0] if len(targets) == 1 else None,
                     operands[0].dtype)


@variant("ctc", cl="ctc.cl", serves="all devices")
def value(p: Alignment, device: Device) -> Answer:
    return Offer(lambda: [_sample_stage(p, device, "VALUE", p.rows)])


@variant("ctc_slope", cl="ctc.cl", serves="all devices")
def slope(p: Alignment, device: Device) -> Answer:
    return Offer(lambda: _slope_stages(p, device))


def _sample_stage(p: Alignment, device: Device, stage: str, scratch: dict[str, int]) -> Stage:
    group, final = p.group(device), stage == "VALUE"
    return Stage("ctc", {**p.macros(device), "STAGE": stage}, (p.batch * group,), (group,),
                 domain=(p.batch,) if final else (), scratch=scratch, final=final, free=FREE)


def _slope_stages(p: Alignment, device: Device) -> list[Stage]:
    """Shares of alignments by state, then their sums by class."""
    rows, domain = p.frames * p.batch, (p.frames, p.batch, p.classes)
    chunk, items = dealt(device, rows, rows * p.classes, WORTH)
    scratch = {**p.rows, "e": p.size * rows * p.states, "tops": p.size * rows, "bad": p.size * p.batch,
               "sums": p.size * items * p.classes}
    first = _sample_stage(p, device, "POSTERIOR", scratch)
    defines = {**p.macros(device), "STAGE": "SCATTER", "CHUNK": chunk}
    if device.is_gpu:
        return [first, Stage("scatter", defines, (up(rows * p.classes, SCATTER_GROUP),), (SCATTER_GROUP,),
                             domain=domain, scratch=scratch, free=FREE)]
    lanes = device.vector_width if p.classes >= device.vector_width else 1
    return [first, Stage("scatter", defines, (items,), (1,), domain=domain, lanes=lanes, scratch=scratch,
                         free=FREE)]
