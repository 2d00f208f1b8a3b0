"""Edges of triangle meshes that collapse, and sums of their features (mesh.cl)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.spec import np_dtype
from ...engine.compile.c_types import STORAGE
from ..grid import up
from ..operand import Operand
from ..stage import Stage
from ..variant import Answer, Offer, Refusal, variant

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FREE = frozenset(("EDGES", "CHANNELS", "COUNT", "ROWS"))
GROUP = 64


@dataclass(frozen=True)
class Collapses:
    """`count` collapses of `edges` edges; `channels` of features along the way, 0 where they are looked for."""

    edges: int
    count: int
    channels: int
    reverse: bool
    dtype: str


def collapse_problem(operands: Sequence[Operand], *, count: int) -> Collapses | Refusal:
    norms, table, vertices = operands
    if {table.dtype, vertices.dtype} != {"int32"}:
        return Refusal("numbers that are not int32")
    return Collapses(norms.shape[0], count, 0, False, norms.dtype) if norms.shape[0] else Refusal("no edges")


def merge_problem(operands: Sequence[Operand], *, count: int, reverse: bool) -> Collapses | Refusal:
    (edges, channels), dtype = operands[0].shape, operands[0].dtype
    return Collapses(edges, count, channels, reverse, dtype) if edges and channels else Refusal("no values")


@variant("mesh_collapse", cl="mesh.cl", serves="all devices: one work-item, in the order of norms")
def collapsed(p: Collapses, device: Device) -> Answer:
    return Offer(lambda: [_collapse_stage(p)])


def _collapse_stage(p: Collapses) -> Stage:
    rows, each = p.edges - 3 * p.count, 4 * p.edges
    scratch = {"order": each, "nearby": 4 * each, "corners": 2 * each, "left": each, "others": each}
    defines = {"STAGE": "COLLAPSE", "EDGES": p.edges, "COUNT": p.count, "ROWS": rows, "S": STORAGE[p.dtype]}
    return Stage("collapse", defines, (1,), (1,), domain=(5 * p.count + 7 * rows,), scratch=scratch, free=FREE)


@variant("mesh_merge", cl="mesh.cl", serves="all devices: a work-item a channel")
def merged(p: Collapses, device: Device) -> Answer:
    return Offer(lambda: [_merge_stage(p, device)])


def _merge_stage(p: Collapses, device: Device) -> Stage:
    group = GROUP if device.is_gpu else 1
    defines = {"STAGE": "MERGE", "REVERSE": int(p.reverse), "EDGES": p.edges, "COUNT": p.count, "CHANNELS": p.channels}
    return Stage("merge", defines, (up(p.channels, group),), (group,), domain=(p.edges, p.channels),
                 scratch={"sums": p.edges * p.channels * np_dtype(p.dtype).itemsize}, free=FREE)
