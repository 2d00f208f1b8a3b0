"""Sums over the edges of a graph at its nodes (edges.cl), whose edges lie in the order of their targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...core.size import typical
from ...engine.compile.c_types import STORAGE
from ..grid import dealt, gpu_lanes, item_count, up, vector_lanes
from ..operand import Operand
from ..stage import Stage
from ..variant import Answer, Offer, Refusal, variant
from .index import GPU_GROUP, Edges, sort_stages

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FREE = frozenset(("ROWS", "COLUMNS", "EDGES", "HEADS", "WIDTH", "CHUNK", "ITEMS"))
SUMMED, DOTTED, COPIED = 8192, 4096, 4096  # [elements] that are worth a work-item of a CPU
LINE = 8  # [elements] of a row whose maxima a work-item of a CPU looks for together


@dataclass(frozen=True)
class Sums:
    """At each of `rows` nodes, `heads` times `width` elements over its edges: STAGE SUM of rows of other nodes (there
    are `columns`), TOTAL or ARGMAX of those of edges, or DOT, at each edge.
    """

    stage: str
    reverse: bool
    rows: int
    columns: int
    edges: int
    heads: int
    width: int
    dtype: str

    @property
    def macros(self) -> dict[str, Any]:
        return {"STAGE": self.stage, "REVERSE": int(self.reverse), "ROWS": self.rows, "COLUMNS": self.columns,
                "EDGES": self.edges, "HEADS": self.heads, "WIDTH": self.width}

    def lanes(self, device: Device) -> int:
        """Of vectors along the rows; on GPUs only where these are whole vectors."""
        if self.stage == "ARGMAX":
            return 1
        lanes = gpu_lanes(self.width) if device.is_gpu else vector_lanes(device, self.dtype)
        return lanes if typical(self.width) >= lanes else 1


NOTHING = Refusal("no edges or no nodes")


def sum_problem(operands: Sequence[Operand], *, reverse: bool) -> Sums | Refusal:
    w, x, at = operands[0], operands[1], operands[6 if reverse else 5]
    if w.dtype != x.dtype:
        return Refusal("weights and values of two dtypes")
    rows, (columns, heads, width) = at.shape[0] - 1, x.shape
    found = Sums("SUM", reverse, rows, columns, w.shape[0], heads, width, x.dtype)
    return found if w.shape[0] and rows else NOTHING


def edge_problem(stage: str, operands: Sequence[Operand], *, reverse: bool) -> Sums | Refusal:
    """Of values at the edges."""
    (edges, width), rows = operands[0].shape, operands[5 if reverse else 4].shape[0] - 1
    return Sums(stage, reverse, rows, edges, edges, 1, width, operands[0].dtype) if edges and rows else NOTHING


def dot_problem(operands: Sequence[Operand]) -> Sums | Refusal:
    g, x, target = operands[:3]
    if g.dtype != x.dtype:
        return Refusal("values of two dtypes")
    (rows, heads, width), edges = g.shape, target.shape[0]
    return Sums("DOT", False, rows, x.shape[0], edges, heads, width, g.dtype) if edges and rows else NOTHING


def order_problem(operands: Sequence[Operand], *, rows: int) -> Edges | Refusal:
    edges = operands[0].shape[0]
    return Edges(1, rows, edges, 1, "int32") if edges and rows else NOTHING


@variant("edge_sums", cl="edges.cl", serves="all devices: a walk over the edges of each node")
def summed(p: Sums, device: Device) -> Answer:
    return Offer(lambda: [_dot_stage(p, device) if p.stage == "DOT" else _sum_stage(p, device)])


def _sum_stage(p: Sums, device: Device) -> Stage:
    lanes, domain = p.lanes(device), (p.rows, p.heads, p.width)
    defines = {**p.macros, "GPU": int(device.is_gpu), "LINE": LINE, "S": STORAGE[p.dtype]}
    if device.is_gpu:
        return Stage("segments", defines, (up(p.rows * p.heads * p.width // lanes, GPU_GROUP),), (GPU_GROUP,),
                     domain=domain, lanes=lanes, stepped=True, free=FREE)
    items = item_count(device, p.rows, (p.rows + p.edges) * p.heads * p.width, SUMMED)
    return Stage("segments", {**defines, "ITEMS": items}, (items,), (1,), domain=domain, lanes=lanes, free=FREE)


def _dot_stage(p: Sums, device: Device) -> Stage:
    defines, count = {**p.macros, "GPU": int(device.is_gpu)}, p.edges * (p.heads if device.is_gpu else 1)
    chunk, items = (1, up(count, GPU_GROUP)) if device.is_gpu else dealt(
        device, count, count * p.heads * p.width, DOTTED)
    return Stage("dots", {**defines, "CHUNK": chunk}, (items,), (GPU_GROUP if device.is_gpu else 1,),
                 domain=(p.edges, p.heads), lanes=1 if device.is_gpu else p.lanes(device), free=FREE)


@variant("edge_order", cl="edges.cl", serves="all devices: a stable sort, as that of scatters")
def ordered(p: Edges, device: Device) -> Answer:
    return Offer(lambda: _order_stages(p, device))


def _order_stages(p: Edges, device: Device) -> list[Stage]:
    stages, order = sort_stages(p, device)
    chunk, group, grid = _share(p.edges, device)
    last = Stage("order", {"STAGE": "ORDER", "EDGES": p.edges, "FROM": order, "CHUNK": chunk}, (grid,), (group,),
                 domain=(p.edges,), scratch=stages[-1].scratch, free=FREE)
    return [*(replace(s, file="index.cl") for s in stages), last]


@variant("edge_offsets", cl="edges.cl", serves="all devices: a search and a walk over sorted numbers")
def bounds(p: Edges, device: Device) -> Answer:
    return Offer(lambda: [_bounds_stage(p, device)])


def _bounds_stage(p: Edges, device: Device) -> Stage:
    chunk, group, grid = _share(p.rows + 1, device)
    return Stage("bounds", {"STAGE": "OFFSETS", "ROWS": p.rows, "EDGES": p.edges, "CHUNK": chunk}, (grid,), (group,),
                 domain=(p.rows + 1,), free=FREE)


def _share(count: int, device: Device) -> tuple[int, int, int]:
    """(results an item, local size, items)"""
    if device.is_gpu:
        return 1, GPU_GROUP, up(count, GPU_GROUP)
    chunk, items = dealt(device, count, count, COPIED)
    return chunk, 1, items
