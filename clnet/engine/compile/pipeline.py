"""Graph -> Plan, step by step: each is a function from one value to the next that leaves what it is given as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .fusion import Schedule
from .graph import build
from .launches import launches
from .memory_map import MemoryMap, memory_map
from .node import Graph
from .plan import Plan
from .schedule import schedule
from .sized import SizedPlan
from .sources import Code, written
from .twins import paired

if TYPE_CHECKING:
    from ...core.tensor import Tensor
    from ...core.varying import Varying
    from ..device.devices import Device


def planned(roots: Sequence[Tensor], known: Callable[[Tensor], bool], device: Device, first: Sequence[Tensor] = (),
            into: Mapping[int, int] | None = None,
            varying: Varying | None = None) -> tuple[Plan | SizedPlan, list[Tensor]]:
    """The plan of the graph under `roots`, down to tensors that are `known`, and these, `first` before all others; with
    `varying` one for many shapes.
    """
    graph = build(roots, known, device, first)
    leaves, graph.leaves = graph.leaves, []  # values, which the plan would keep on the device
    plan = compiled(graph, device, into) if varying is None else sized(graph, device, into or {}, varying)
    return plan, leaves


def compiled(graph: Graph, device: Device, into: Mapping[int, int] | None = None) -> Plan:
    """The plan that computes the graph's outputs; `into` says which outputs overwrite which leaf (state updates).

    Raises DTypeError for a dtype that the device lacks.
    """
    return assembled(graph, *parts(graph, device, into or {}))


def parts(graph: Graph, device: Device, into: Mapping[int, int]) -> tuple[list[Code], MemoryMap]:
    """What a plan is made of: the code of its fusions, and where their values live."""
    for node in graph.nodes:
        device.check_dtype(node.spec.dtype)
    scheduled = fused(graph, device)
    code = written(scheduled, device)
    return code, memory_map(scheduled, code, into)


def assembled(graph: Graph, code: Sequence[Code], memory: MemoryMap) -> Plan:
    """The plan of this code with this memory, for the shape at hand."""
    return unlaid(graph, code, memory).laid(memory.layout)


def unlaid(graph: Graph, code: Sequence[Code], memory: MemoryMap) -> Plan:
    """The same, of which nobody knows yet where its slots lie."""
    return Plan(launches(code, memory), 0, memory.outputs, [n.spec for n in graph.outputs], memory.blocks,
                memory.copies, graph.choices)


def sized(graph: Graph, device: Device, into: Mapping[int, int], varying: Varying) -> SizedPlan:
    """The plan for many shapes. Raises Unsettled where a kernel has to know one."""
    code, memory = parts(graph, device, into)
    return SizedPlan(unlaid(graph, code, memory), memory.slots, varying)


def fused(graph: Graph, device: Device) -> Schedule:
    """What is computed together: twins first, as one fusion serves both, then the schedule."""
    return schedule(paired(graph, device))
