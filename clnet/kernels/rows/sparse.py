"""Products with a sparse matrix given by its entries (sparse.cl), sorted by row as in index.cl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..grid import dealt, item_count, up
from ..operand import Operand
from ..stage import Stage
from ..variant import Answer, Offer, Refusal, variant
from .index import FREE, GPU_GROUP, Edges, sort_stages

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FREE_ENTRIES = FREE | {"COLUMNS"}
SUMMED, PLACED = 8192, 4096  # [products] that are worth a work-item of a CPU


@dataclass(frozen=True)
class Entries(Edges):
    """A matrix of `rows` x `columns` by its entries, and one of `columns` rows that it meets."""

    columns: int

    def macros(self, device: Device) -> dict[str, Any]:
        return {**super().macros(device), "COLUMNS": self.columns}


def product_problem(operands: Sequence[Operand], *, rows: int) -> Entries | Refusal:
    (edges,), (columns, width), dtype = operands[1].shape, operands[3].shape, operands[3].dtype
    if operands[0].dtype != dtype:
        return Refusal("values and matrix of two dtypes")
    return Entries(1, rows, edges, width, dtype, columns) if edges else Refusal("no entries")


def places_problem(operands: Sequence[Operand]) -> Entries | Refusal:
    (rows, width), (edges,), (columns, _) = operands[0].shape, operands[1].shape, operands[2].shape
    if operands[0].dtype != operands[2].dtype:
        return Refusal("matrices of two dtypes")
    return Entries(1, rows, edges, width, operands[0].dtype, columns)


@variant("sparse_matmul", cl="sparse.cl", serves="all devices: the entries are sorted by row")
def product(p: Entries, device: Device) -> Answer:
    return Offer(lambda: _product_stages(p, device))


def _product_stages(p: Entries, device: Device) -> list[Stage]:
    stages, order = sort_stages(p, device)
    domain, scratch = (p.rows, p.width), stages[-1].scratch
    defines = {**p.macros(device), "STAGE": "PRODUCT", "FROM": order}
    if device.is_gpu:
        last = Stage("product", defines, (up(p.rows * p.width, GPU_GROUP),), (GPU_GROUP,), domain=domain,
                     scratch=scratch, free=FREE_ENTRIES)
    else:
        items = item_count(device, p.rows, (p.rows + p.edges) * p.width, SUMMED)
        last = Stage("product", {**defines, "ITEMS": items, "CHUNK": p.width}, (items, 1), (1, 1), domain=domain,
                     lanes=p.lanes(device), scratch=scratch, free=FREE_ENTRIES)
    return [*(replace(s, file="index.cl") for s in stages), last]


@variant("sparse_places", cl="sparse.cl", serves="all devices")
def places(p: Entries, device: Device) -> Answer:
    return Offer(lambda: [_places_stage(p, device)])


def _places_stage(p: Entries, device: Device) -> Stage:
    defines = {**p.macros(device), "STAGE": "PLACES", "CHUNK": 1}
    if device.is_gpu:
        return Stage("places", defines, (up(p.edges, GPU_GROUP),), (GPU_GROUP,), domain=(p.edges,),
                     free=FREE_ENTRIES)
    chunk, items = dealt(device, p.edges, p.edges * p.width, PLACED)
    return Stage("places", {**defines, "CHUNK": chunk}, (items,), (1,), domain=(p.edges,), lanes=p.lanes(device),
                 free=FREE_ENTRIES)
