"""An index of its own for every element, and the adjoint (elements.cl)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.size import typical
from ...engine.compile.c_types import BYTES, REGISTER
from ..grid import dealt, fitting, up, vector_lanes
from ..operand import Operand
from ..stage import Stage
from ..variant import Answer, Offer, Refusal, variant
from .index import FREE, GATHERED, GPU_GROUP, SUMMED, Edges, Gather, missing

if TYPE_CHECKING:
    from ...engine.device.devices import Device


@dataclass(frozen=True)
class GatherElements(Gather):
    """y[a, e, d] = x[a, index[a, e, d], d]; `missing` in C where the index is outside."""


@dataclass(frozen=True)
class ScatterElements(Edges):
    """y[a, v, d] = Σ source[a, e, d] over e with index[a, e, d] = v."""


def gather_problem(operands: Sequence[Operand], *, fill: str) -> GatherElements:
    (batch, rows, width), edges, dtype = operands[0].shape, operands[1].shape[1], operands[0].dtype
    return GatherElements(batch, rows, edges, width, dtype, missing(fill, dtype))


def scatter_problem(operands: Sequence[Operand], *, rows: int) -> ScatterElements | Refusal:
    (batch, edges, width), dtype = operands[0].shape, operands[0].dtype
    if not (batch and edges and width and rows):
        return Refusal("no elements or no rows")
    return ScatterElements(batch, rows, edges, width, dtype)


@variant("gather_elements", cl="elements.cl", serves="all devices")
def elements_gathered(p: GatherElements, device: Device) -> Answer:
    return Offer(lambda: [_gather_stage(p, device)])


def _gather_stage(p: GatherElements, device: Device) -> Stage:
    total, lines = p.batch * p.edges * p.width, p.batch * p.edges
    defines = {**p.macros(device), "STAGE": "GATHER", "MISSING": p.missing}
    if device.is_gpu:
        return Stage("gather", defines, (up(total, GPU_GROUP),), (GPU_GROUP,), domain=(total,), free=FREE)
    chunk, items = dealt(device, lines, total, GATHERED)
    return Stage("gather", {**defines, "CHUNK": chunk}, (items,), (1,), domain=(total,), free=FREE)


@variant("scatter_elements", cl="elements.cl", serves="all devices, where lines are many: a work-item sums each")
def elements_scattered(p: ScatterElements, device: Device) -> Answer:
    lines = typical(p.batch * p.width)
    if lines < (typical(p.edges) if device.is_gpu else device.compute_units):
        return Refusal("fewer lines than elements in one" if device.is_gpu else "fewer lines than cores")
    return Offer(lambda: _gpu_stages(p, device) if device.is_gpu else [_scatter_stage(p, device)])


def _gpu_stages(p: ScatterElements, device: Device) -> list[Stage]:
    total, lines = p.batch * p.rows * p.width, p.batch * p.width
    scratch = {"sums": total * BYTES[REGISTER[p.dtype]]}

    def stage(name: str, count: int, domain: tuple[int, ...] = ()) -> Stage:
        return Stage("parallel_scatter", {**p.macros(device), "STAGE": name}, (up(count, GPU_GROUP),), (GPU_GROUP,),
                     domain=domain, scratch=scratch, final=bool(domain), free=FREE)

    return [stage("ZERO", total), stage("ADD", lines), stage("OUT", total, (total,))]


def _scatter_stage(p: ScatterElements, device: Device) -> Stage:
    """Lines of the first axis are dealt out or, where these are fewer than cores, columns of the last one."""
    work = p.batch * p.width * (p.rows + p.edges)
    if typical(p.batch) >= device.compute_units:
        (lines, many), (chunk, parts) = dealt(device, p.batch, work, SUMMED), (p.width, 1)
    else:
        (lines, many), (chunk, parts) = (1, p.batch), dealt(device, p.width, work, SUMMED)
    defines = {**p.macros(device), "STAGE": "SCATTER", "LINES": lines, "CHUNK": chunk}
    return Stage("scatter", defines, (many, parts), (1, 1), domain=(p.batch, p.rows * p.width),
                 lanes=fitting(vector_lanes(device, p.dtype), typical(p.rows * p.width)),
                 scratch={"sums": many * parts * p.rows * chunk * BYTES[REGISTER[p.dtype]]}, free=FREE | {"LINES"})
