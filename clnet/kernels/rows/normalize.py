"""Rows over the cores of a CPU (normalize.cl)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.size import bounded, typical, varies
from ..grid import dealt, fitting, up
from ..stage import Stage
from ..variant import CPUS_ONLY, Answer, Offer, Refusal, variant
from .problem import FEW_AND_WIDE, WIDE, Columns, Rows

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FREE = frozenset(("ROWS", "N", "CHUNK", "ITEMS"))
WORTH = 2048  # [elements] that are worth a work-item of their own
# rows whose gradients of parameters a work-item adds: with more, one loses digits against the sum
LONGEST = 256
# [elements] longest rows of which the sums over columns also give the rows' gradient (KEEP of normalize.cl)
KEPT = 8192


@variant("rows", cl="normalize.cl", serves="CPUs: a work-item takes a number of rows")
def on_cores(p: Rows, device: Device) -> Answer:
    if not device.is_cpu:
        return CPUS_ONLY
    return Offer(lambda: [_row_stage(p, device)]) if p.suits(device) else FEW_AND_WIDE


def _row_stage(p: Rows, device: Device) -> Stage:
    chunk, items = dealt(device, p.rows, p.rows * p.n, WORTH)
    defines: dict[str, Any] = {**p.macros, **_most(p), "CHUNK": chunk, "USE_FMA": int(device.has_fma),
                               **dict(p.attributes)}
    return Stage("rows", defines, (items,), (1,), domain=p.domain, also=p.also,
                 lanes=fitting(device.vector_width, typical(p.n)), stepped=True, free=FREE)


def _most(p: Rows) -> dict[str, int]:
    """What rows of a length that varies are not longer than."""
    return {"N_MOST": typical(p.n) if bounded(p.n) else WIDE} if varies(p.n) else {}


@variant("columns", cl="normalize.cl", serves="CPUs: sums of chunks of rows, then their sum")
def columns_on_cores(p: Columns, device: Device) -> Answer:
    if not device.is_cpu:
        return CPUS_ONLY
    if not p.suits(device):
        return FEW_AND_WIDE
    if p.with_rows and not 1 < p.n <= KEPT:
        return Refusal(f"rows of 1 or of more than {KEPT} elements: two kernels instead of one for both gradients")
    return Offer(lambda: _column_stages(p, device))


def _column_stages(p: Columns, device: Device) -> list[Stage]:
    """Of the kinds GRADIENTS the first also gives the gradient of the rows."""
    rows, n = typical(p.rows), typical(p.n)
    chunk = min(LONGEST, -(-rows // max(1, min(rows, device.compute_units * 2, rows * n // WORTH))))
    items = -(-p.rows // chunk)
    lanes = fitting(device.vector_width, n)
    columns = max(lanes, up(-(-n // device.compute_units), lanes))
    defines: dict[str, Any] = {**p.macros, **_most(p), "COLUMNS": columns, "USE_FMA": int(device.has_fma),
                               "CHUNK": chunk, "ITEMS": items, **dict(p.attributes)}
    return [Stage("partial_columns", {**defines, "PART": 2}, (items,), (1,), lanes=lanes,
                  scratch=p.partial_sums(items), domain=p.domain if p.with_rows else (), final=p.with_rows,
                  stepped=p.with_rows, free=FREE),
            Stage("columns", {**defines, "PART": 3}, (-(-p.n // columns), p.outputs), (1, 1), lanes=lanes,
                  domain=() if p.with_rows else p.sums, also=p.sums if p.with_rows else (), free=FREE)]
