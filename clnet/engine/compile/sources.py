"""Schedule -> sources: every fusion's kernels as OpenCL C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .folds_cpu import cpu_sources
from .folds_gpu import gpu_sources
from .fusion import Folds, Fusion, HostCall, KernelCall, Map, Schedule
from .kernels import kernel_sources
from .maps import map_source
from .node import Host, Node
from .reads import operand
from .source import Source
from .structure import Structure

if TYPE_CHECKING:
    from ..device.devices import Device


@dataclass(eq=False)
class Code:
    """A fusion, its sources in the order of their launches (none where the host computes it), and what they read."""

    fusion: Fusion
    sources: Sequence[Source]
    reads: Sequence[Node]


Written = dict[tuple[object, ...], tuple[Structure, list[Source]]]


def written(schedule: Schedule, device: Device) -> list[Code]:
    """The code of every fusion that has something to compute."""
    found = [f for f in schedule.fusions if f.stores[0].size or isinstance(f, HostCall)]
    done: Written = {}
    return [_host(f) if isinstance(f, HostCall) else _device(schedule, f, device, done) for f in found]


def _host(fusion: HostCall) -> Code:
    (core,) = fusion.cores
    assert isinstance(core, Host)
    return Code(fusion, (), [operand(core, i)[0] for i in core.inputs])


def _device(schedule: Schedule, fusion: Fusion, device: Device, done: Written) -> Code:
    """`done` has what was written for each structure: equal ones are written once."""
    structure = Structure(schedule, fusion)
    if structure.key in done:
        first, sources = done[structure.key]
        sources = structure.adapted(sources, first)
    else:
        sources = _sources(schedule, fusion, device)
        if structure.serves(sources):
            done[structure.key] = structure, sources
    return Code(fusion, sources, [n for s in sources for n in s.params.nodes()])


def _sources(schedule: Schedule, fusion: Fusion, device: Device) -> list[Source]:
    if isinstance(fusion, Map):
        return [map_source(schedule, fusion, device)]
    if isinstance(fusion, Folds):
        return (gpu_sources if device.is_gpu else cpu_sources)(schedule, fusion, device)
    assert isinstance(fusion, KernelCall)
    return kernel_sources(schedule, fusion, device)
