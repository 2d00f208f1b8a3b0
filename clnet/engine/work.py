"""What the launches of a recorded function work on, by the parts of the function that they belong to."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.recording import local, recorded
from ..core.spec import Spec
from ..core.tensor import Tensor, walk
from .compile import graph as graphs
from .compile.node import Node
from .compile.pipeline import assembled, parts
from .compile.plan import Plan
from .compile.sources import Code
from .device.roof import Peak
from .opencl import OpenCLEngine
from .replay import Recording, Trace

if TYPE_CHECKING:
    from .protocol import Engine

# Of the roof, what kernels reach: the geometric mean of `clnet bench --suite ops` is 0.52 to 0.76 on four CPUs' runs.
REACHED = 0.6


class Part(NamedTuple):
    """The block in which something was recorded, "" for none, and whether it is of the gradient."""

    name: str
    backward: bool


OTHER = Part("", False)


class Work(NamedTuple):
    """One fusion of a plan: the part that it belongs to, its launches, additions and products, bytes read and written.
    """

    part: Part
    launches: int
    flops: float
    nbytes: float

    def seconds(self, peak: Peak) -> float:
        """[s] max(flops / peak, bytes / bandwidth) / 0.6, and what its launches cost by themselves."""
        roof = max(self.flops / peak.gflops, self.nbytes / peak.bandwidth(self.nbytes)) * 1e-9
        return roof / REACHED + self.launches * peak.launch


class Blocks:
    """Names of what is recorded within `block`s while it is `watching`, and of the gradients of that."""

    def __init__(self) -> None:
        self.log: list[Tensor] = []
        self.found: list[tuple[int, int, str]] = []  # from, to, name; inner blocks before outer ones
        self.trail: list[tuple[int, Tensor]] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """What this thread records inside is looked at."""
        before = local.trail
        with recorded() as self.log:
            local.trail = self.trail
            try:
                yield
            finally:
                local.trail = before

    @contextlib.contextmanager
    def block(self, name: str) -> Iterator[None]:
        """What is recorded inside has this name, unless a block inside has another."""
        mine, start = local.log is self.log, len(self.log)  # else another thread, or a region that is recorded apart
        yield
        if mine:
            self.found.append((start, len(self.log), name))

    def parts(self) -> dict[int, Part]:
        """The part of each tensor, by its id."""
        found = dict.fromkeys(map(id, self.log), OTHER)
        for start, end, name in reversed(self.found):
            found |= dict.fromkeys(map(id, self.log[start:end]), Part(name, False))
        ends, part = [*self.trail, (len(self.log), None)] if self.trail else [], OTHER
        for (start, t), (end, _) in itertools.pairwise(ends):
            # What a checkpointed region computes again was recorded apart: its gradient is that of the region.
            part = Part(found[id(t)].name if id(t) in found else part.name, True)
            found |= dict.fromkeys(map(id, self.log[start:end]), part)
        return found


def works(code: Sequence[Code], plan: Plan) -> list[Work]:
    """What the fusions of a plan work on, in order."""
    parts, launches = _parts(code), iter(plan.launches)
    found = []
    for c in code:
        mine = list(itertools.islice(launches, max(1, len(c.sources))))
        part = next((p for n in (*c.fusion.cores, *c.fusion.stores) if (p := parts.get(n)) is not None), OTHER)
        found.append(Work(part, len(mine), sum(launch.flops for launch in mine), mine[0].nbytes))
    return found


def _parts(code: Sequence[Code]) -> dict[Node, Part]:
    """The part of each node that a fusion computes: its own, or of what was made of a composite its first reader's."""
    nodes = walk([n for c in code for n in (*c.fusion.stores, *c.fusion.cores)])
    found: dict[Node, Part] = {}
    for n in reversed(nodes):
        part = n.part if isinstance(n.part, Part) else found.get(n)
        if part is not None:
            found[n] = part
            for i in n.inputs:
                found.setdefault(i, part)
    return found


def forecast(fn: Callable[..., Any], specs: Sequence[Spec], engine: Engine,
             blocks: Blocks) -> tuple[int, list[Work]]:
    """([bytes] of the arena that a recorded step takes for values between its inputs and outputs, what it works on);
    nothing is compiled or allocated.

    An engine without plans keeps every value to the end of the step, so it is their sum, and works on nothing known.
    """
    with blocks.watching():
        t = Trace(fn, specs)
    if not isinstance(engine, OpenCLEngine):
        return sum(n.spec.nbytes for n in walk([*t.outputs, *t.updates]) if n.op is not None), []
    plan, found = _planned(t, engine, blocks, {})
    return plan.arena, found


def works_of(recording: Recording, engine: OpenCLEngine, blocks: Blocks) -> list[Work]:
    """What a recorded step works on, that was recorded while the blocks were watching; [] where its plan is another
    than the one made of it now.
    """
    t = recording.trace
    into = {len(t.outputs) + k: len(t.inputs) + k for k in range(len(t.updates))}
    plan, found = _planned(t, engine, blocks, into)
    return found if [x.name for x in plan.launches] == [x.name for x in recording.template.launches] else []


def _planned(t: Trace, engine: OpenCLEngine, blocks: Blocks, into: Mapping[int, int]) -> tuple[Plan, list[Work]]:
    first = [*t.inputs, *t.before] if into else t.inputs
    graph = graphs.build([*t.outputs, *t.updates], engine.known, engine.device, first, blocks.parts())
    code, memory = parts(graph, engine.device, into)
    plan = assembled(graph, code, memory)
    return plan, works(code, plan)
