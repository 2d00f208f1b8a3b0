"""Graph -> Plan, step by step: each is a function from one value to the next that leaves what it is given as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...errors import DTypeError
from .fusion import Schedule
from .launches import launches
from .memory_map import MemoryMap, memory_map
from .node import Graph
from .plan import Plan
from .schedule import schedule
from .sources import Code, written
from .twins import paired

if TYPE_CHECKING:
    from ..device.devices import Device


def compiled(graph: Graph, device: Device, into: Mapping[int, int] | None = None) -> Plan:
    """The plan that computes the graph's outputs; `into` says which outputs overwrite which leaf (state updates).

    Raises DTypeError for a dtype that the device lacks.
    """
    return assembled(graph, *parts(graph, device, into or {}))


def parts(graph: Graph, device: Device, into: Mapping[int, int]) -> tuple[list[Code], MemoryMap]:
    """What a plan is made of: the code of its fusions, and where their values live."""
    for node in graph.nodes:
        check_dtype(node.spec.dtype, device)
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


def fused(graph: Graph, device: Device) -> Schedule:
    """What is computed together: twins first, as one fusion serves both, then the schedule."""
    return schedule(paired(graph, device))


def check_dtype(dtype: str, device: Device) -> None:
    """Raises DTypeError where the device does not compute with dtype."""
    if dtype == "float64" and not device.fp64:
        raise DTypeError(
            f"{device.name}: expected a dtype that the device has; got float64; cast to float32 or use the numpy "
            f"engine.")
