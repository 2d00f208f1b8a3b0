"""Looking inside: memory, caches, and every stage from tensor to OpenCL C of what would run.
All of it shows itself as tables.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from ..core.operators import Operators
from ..core.size import MARKED, number
from ..core.tensor import as_tensor
from ..curves import ORANGE, Chart, Drawing, Line, drawing
from ..errors import ConfigError, NoDeviceError
from ..kernels.variant import Choice
from ..names import guide as _guide
from ..show import Drawn, Shown, Table, count, duration, plural, size
from . import _engines, current, plan_files
from .compile.graph import build
from .compile.launches import computed
from .compile.listing import Listing, ProgramText
from .compile.memory_map import MemoryMap
from .compile.node import Graph, Leaf
from .compile.pipeline import assembled, parts
from .compile.plan import Plan
from .compile.sources import Code
from .device.programs import Counters
from .record import Recorded
from .replay import Replay

if TYPE_CHECKING:
    from ..core.tensor import TensorLike
    from .device.device import Device

MEMORY = {
    "active": "held by tensors, models, optimizers and recorded steps",
    "cached": "kept for what comes next; clnet.empty_cache() frees it",
    "peak": "the most that was active so far",
    "limit": "the most that clnet takes of this device",
    "to_device": "copied from the host so far",
    "to_host": "copied to the host so far",
    "allocations": "buffers made so far; replayed steps make none",
}


class Memory(Shown, dict[str, int]):
    """Bytes by what they are (a dict), and what holds most of them; shows itself with units and in words."""

    def __init__(self, device: Device, numbers: dict[str, int], holders: Iterable[tuple[str, int]]) -> None:
        super().__init__(numbers)
        self.device, self.holders = device, list(holders)

    def table(self) -> Table:
        rows = [(name.replace("_", " "), count(n) if name == "allocations" else size(n), MEMORY[name])
                for name, n in self.items()]
        most = ", ".join(f"{name or 'unnamed'} {size(n)}" for name, n in self.holders)
        notes = [f"most of it: {most}"] if self.holders else []
        if self.device.is_host:
            notes = ["NumPy computes in the host's memory; nothing is counted there."]
        return Table(("memory", "", "what it is"), rows, title=f"Memory of {self.device}", notes=notes)


def memory() -> Memory:
    """Bytes on the current device: active, cached, peak, limit; bytes moved to the device and to the host;
    allocations made.
    """
    engine = current()
    s, moved = engine.pool.statistics(), engine.transfers.snapshot()
    numbers = dict(active=s.active, cached=s.cached, peak=s.peak, limit=s.limit, to_device=moved.bytes_to_device,
                   to_host=moved.bytes_to_host, allocations=s.allocations)
    return Memory(engine.device, numbers, engine.pool.holders())


def empty_cache() -> Memory:
    """Gives the cached buffers of the current device back to its driver, behind what is still queued;
    returns what `memory` says then.
    """
    engine = current()
    engine.finish()  # a buffer that queued work uses stays where it is
    engine.pool.trim()
    return memory()


class _Cache(Shown):
    """Compiled programs and plans: `clnet.cache.clear()`, `clnet.cache.counters()`."""

    def clear(self, disk: bool = True) -> None:
        """Forgets plans and programs of every engine, also those on disk; frees cached buffers."""
        for engine in _engines.values():
            engine.plans.clear()
            engine.programs.clear(disk)
            if disk:
                plan_files.store().clear()
            engine.pool.trim()

    def counters(self) -> Counters:
        """Program cache of the current engine: memory hits, disk hits, builds, seconds; 0 on NumPy."""
        return current().programs.counters()

    def table(self) -> Table:
        engine = current()
        if not engine.compiles:
            return Table((), [("compiled", "0", "NumPy needs no programs")], title=f"Programs of {engine.device}")
        programs = engine.programs
        c = programs.counters()
        rows = [("compiled", count(c.builds), "by the device's compiler"),
                ("from disk", count(c.disk_hits), "compiled by an earlier process"),
                ("from memory", count(c.memory_hits), "used again in this process"),
                ("time", duration(c.seconds), "for all that were not in memory")]
        return Table(("programs", "", "how they came about"), rows, title=f"Programs of {engine.device}",
                     notes=[programs.keeps()])


cache = _Cache()


@overload
def explain(step: Recorded, /) -> Recordings: ...
@overload
def explain(*tensors: TensorLike) -> Explanation: ...
def explain(*tensors: Any) -> Explanation | Recordings:
    """Every stage between the tensors and their values, without running them, on the device that would compute them.
    Of a recorded step, `explain(trainer.steps.train)`: the shapes and classes of sizes that it was planned for, with
    the kernels chosen for each.

    NoDeviceError where that is NumPy, which has no stages.
    """
    if len(tensors) == 1 and isinstance(tensors[0], Recorded):
        return Recordings(tensors[0])
    for t in tensors:
        if not isinstance(t, Operators) and np.asarray(t).dtype.kind == "O":
            raise ConfigError(f"explain: expected tensors, or one recorded step alone; got {type(t).__name__}; "
                              "the steps of a Trainer are trainer.steps.train, .test and .forward.")
    roots = [as_tensor(t) for t in tensors]
    device = next((t.home for t in roots if t.home is not None), current()).device
    if device.is_host:
        raise NoDeviceError(
            f"explain: expected an OpenCL device; got {device}, which evaluates op by op and plans nothing; "
            'try `with clnet.on("opencl"):`.')
    graph = build(roots, lambda t: t.op is None, device)
    return Explanation(graph, *parts(graph, device, {}), device)


def explain_replay(step: Recorded, replay: Replay) -> Explanation:
    """The stages of a recorded function for the shape at which it is replayed."""
    recording = next(r for r in step.recordings.values() if r.trace is replay.trace)
    roots, first, into = recording.traced()
    # Made again: the plan itself keeps none of it, and may have come from disk.
    graph = build(roots, replay.engine.known, replay.engine.device, first)
    return Explanation(graph, *parts(graph, replay.engine.device, into), replay.engine.device, replay.plan)


class Choices(Shown, list[tuple[str, Choice]]):
    """For each op that has kernels: (the op and its result, who serves it and why the others do not)."""

    def __init__(self, choices: Iterable[tuple[str, Choice]], device: Device) -> None:
        super().__init__(choices)
        self.device = device

    def table(self) -> Table:
        rows: list[tuple[str, ...]] = []
        for what, c in self:
            serves = ("its formula", "", "serves") if c.taken is None else (c.taken.name, c.taken.cl, "serves")
            rows += [(what, *serves), *(("", v.name, v.cl, f"not: {why}") for v, why in c.others)]
        return Table(("op", "kernel", "file", ""), rows, title=f"Kernels on {self.device}", align="llll", limit=200)

    def __repr__(self) -> str:
        return "\n".join([f"Kernels on {self.device}", *(f"{what}: {choice}" for what, choice in self)])


class Recordings(Shown):
    """What a function was recorded for: `plans` and `choices` by its inputs, in which a range (17..256) is a class of
    sizes that one plan serves, with the same tiles for all of it; in `choices` n is such a size.
    """

    def __init__(self, step: Recorded) -> None:
        self.step, device = step, current().device
        self.plans = {str(r): r.template for r in step.recordings.values()}
        self.choices = {inputs: Choices([(MARKED.sub("n", op), choice) for op, choice in plan.choices], device)
                        for inputs, plan in self.plans.items()}

    def table(self) -> Table:
        found = self.step.table()
        for inputs, choices in self.choices.items():
            served = Counter(c.taken.name if c.taken else f"the formula of {c.family}" for _, c in choices)
            names = [f"{name} ({n})" if n > 1 else name for name, n in served.items()]
            found.notes.append(f"{inputs}: {', '.join(names)}")
        return found


class Life(NamedTuple):
    """A value between, or temporary memory of a kernel: which bytes of the arena it holds, from launch `first` to
    `last`.
    """

    name: str
    start: int
    nbytes: int
    first: int
    last: int
    scratch: bool


class Explanation(Drawn):
    """`graph` (nodes), `choices` (which kernels serve, and why not the others), `launches` (what is fused with what),
    `sources` (OpenCL C), `plan` (memory map); printable each.

    `sources` are whole programs, as the compiler gets them; `kernel(k)` is what of the k-th is the kernel that runs,
    `fused[k]` the nodes that it computes, `stages` the launches of each fusion. `lives` are the values between, as the
    arena holds them.
    `held` are the bytes of values between, by fusion, in order: a notebook draws them above the tables.
    """

    def __init__(self, graph: Graph, code: Sequence[Code], memory: MemoryMap, device: Device,
                 plan: Plan | None = None) -> None:
        self.held = [sum(number(s.nbytes) for s in memory.slots if s.first <= k <= s.last) for k in range(len(code))]
        self.graph, self.memory, self.choices = graph, memory, Choices(graph.choices, device)
        self.plan = plan if plan is not None else assembled(graph, code, memory)
        self.launches = [(launch.name, launch.ops) for launch in self.plan.launches]
        self.sources = [ProgramText(launch.text, launch.name) for launch in self.plan.launches]
        nodes = [sorted((n for n in computed(c) if n.op), key=lambda n: n.number) for c in code]
        counts = [len(c.sources) or 1 for c in code]
        self.fused = [nodes[k] for k, count in enumerate(counts) for _ in range(count)]
        self.stages = [range(a, b) for a, b in itertools.pairwise([0, *itertools.accumulate(counts)])]

    @property
    def lives(self) -> list[Life]:
        """In the order in which they begin."""
        memory, stages = self.memory, self.stages
        temporary = {a.number: name for (_, name), a in memory.scratch.items()}
        names = temporary | {a.number: n.op.name if n.op else "leaf" for n, a in memory.nodes.items()
                             if a.kind == "slot"}
        found = [Life(names[k], start, number(s.nbytes), stages[s.first].start, stages[s.last].stop - 1, k in temporary)
                 for k, (s, start) in enumerate(zip(memory.slots, memory.layout.starts, strict=True))]
        return sorted(found, key=lambda life: (life.first, life.start))

    def kernel(self, k: int = 0) -> Listing:
        """The kernel of launch k, with the definitions that it uses and its conditions resolved."""
        return self.sources[k].kernel()

    def drawing(self) -> Drawing | None:
        """Memory for values between, over the fusions: a step each; None where nothing lies between."""
        if not any(self.held):
            return None
        unit, word = next((u, w) for u, w in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
                          if max(self.held) >= u)
        edges = [k + side for k in range(len(self.held)) for side in (0.5, 1.5)]
        line = Line("in use", edges, [n / unit for n in self.held for _ in range(2)], dots=False)
        whole = Line("arena", [0.5, len(self.held) + 0.5], [self.plan.arena / unit] * 2, ORANGE, True, False)
        chart = Chart(f"memory [{word}]", [line, whole], "fusion", least=0.0)
        return drawing([chart], self.plan.table().title)

    def table(self) -> Table:
        """The launches of the plan."""
        return self.plan.table()

    def _nodes(self) -> Table:
        rows = []
        for n in self.graph.nodes:
            name = self.graph.leaves[n.leaf].name if isinstance(n, Leaf) else ""
            what = n.op.name if n.op else f"input {name!r}" if name else "input"
            inputs = [str(n.attrs["value"])] if n.op and n.op.name == "full" else [f"%{i.number}" for i in n.inputs]
            rows.append((f"%{n.number}", what, str(n.spec), " ".join(inputs)))
        return Table(("", "op", "value", "from"), rows, title=f"Graph: {plural(len(rows), 'node')}", align="llll",
                     limit=200)

    def __repr__(self) -> str:
        return f"{self._nodes()}\n\n{self.plan}"

    def _repr_html_(self) -> str:
        return self._nodes().html() + self.table().html()


_guide(__name__)
