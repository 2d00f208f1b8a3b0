"""Rows on a GPU, a work-group a row or several short ones (normalize_gpu.cl)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.size import bounded, typical, varies
from ..grid import gpu_lanes, in_parts, up
from ..stage import Stage
from ..variant import GPUS_ONLY, Answer, Offer, Refusal, variant
from .problem import FEW_AND_WIDE, Columns, Rows

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "normalize_gpu.cl"
FREE = frozenset(("ROWS", "CHUNK"))
WORTH = 2048  # [elements] of partial sums that are worth a work-group
ITEM = 12  # [elements] of a row that a work-item takes, more of long ones
GROUP = 256  # [work-items] of a group
COLUMN_ITEM, COLUMN_GROUP = 16, 128  # the same for partial sums of columns, where a row fits such a group
RESIDENT = 512  # [work-items] a compute unit for them
# [elements] longest rows of which the sums over columns take what is in registers for the rows' own gradient
HELD = 16 * GROUP
AGAIN = 1 << 20  # vectors of a row an item: more than it has registers for


@variant("rows", cl=FILE, serves="GPUs: a row stays in the registers of a work-group")
def in_registers(p: Rows, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    return Offer(lambda: [_row_stage(p, device)]) if p.suits(device) else FEW_AND_WIDE


def _row_stage(p: Rows, device: Device) -> Stage:
    group, lines = _group(p, device, ITEM, GROUP)
    defines, lanes = {**_macros(p, device, group, lines), **dict(p.attributes)}, gpu_lanes(p.n)
    if varies(p.n):  # a row of a class that ends fits the registers of the longest; others are read again by each pass
        defines["PER"] = -(-typical(p.n) // (group * lanes)) if bounded(p.n) else AGAIN
    return Stage("rows", defines, (group, up(p.rows, lines)), (group, lines), domain=p.domain, also=p.also,
                 lanes=lanes, file=FILE, stepped=True, free=FREE | {"N"})


@variant("columns", cl=FILE, serves="GPUs: sums of chunks of rows, then their sum")
def columns_in_registers(p: Columns, device: Device) -> Answer:
    if not device.is_gpu:
        return GPUS_ONLY
    if not p.suits(device):
        return FEW_AND_WIDE
    if p.with_rows and not 1 < p.n <= HELD:
        return Refusal(f"rows of 1 or of more than {HELD} elements: two kernels instead of one for both gradients")
    return Offer(lambda: _column_stages(p, device))


def _column_stages(p: Columns, device: Device) -> list[Stage]:
    """Of the kinds GRADIENTS the first also gives the gradient of the rows."""
    size = COLUMN_GROUP if p.n <= COLUMN_ITEM * COLUMN_GROUP else GROUP
    rows = typical(p.rows)
    wanted = max(1, min(rows, device.compute_units * (RESIDENT // size), rows * p.n // WORTH))
    items, chunk = in_parts(p.rows, wanted)
    group, lines = _group(p, device, COLUMN_ITEM, size)
    defines = {**_macros(p, device, group, lines), "CHUNK": chunk, "ITEMS": items, **dict(p.attributes)}
    slices = defines["SLICES"]
    return [Stage("partial_columns", {**defines, "PART": 2}, (items * group, lines), (group, lines),
                  lanes=gpu_lanes(p.n), scratch=p.partial_sums(items), file=FILE,
                  domain=p.domain if p.with_rows else (), final=p.with_rows, stepped=p.with_rows, free=FREE),
            Stage("columns", {**defines, "PART": 3}, (up(p.n, 32), slices, p.outputs), (32, slices, 1), file=FILE,
                  domain=() if p.with_rows else p.sums, also=p.sums if p.with_rows else (), free=FREE)]


def _group(p: Rows, device: Device, item: int, size: int) -> tuple[int, int]:
    """(work-items a row, about `item` elements each; rows that share a work-group of `size` at most)."""
    most = min(size, device.max_work_group)
    group = min(most, 1 << max(0, -(-typical(p.n) // item) - 1).bit_length())
    return group, most // group


def _macros(p: Rows, device: Device, group: int, lines: int) -> dict[str, Any]:
    return {**p.macros, "GROUP": group, "LINES": lines, "SLICES": max(1, min(32, device.max_work_group // 32)),
            "SINGLE_T": int(p.dtype != "float64"), "USE_FMA": int(device.has_fma)}
