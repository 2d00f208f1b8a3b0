"""Schedule -> Plan: programs, launch geometry and a memory map. A plan knows no buffers; it can be run many times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import show
from ..spec import np_dtype
from . import ctypes as ct
from .codegen import Source, kernel_sources, map_source
from .emit import OperandParam
from .folds import fold_sources
from .graph import Graph, Node
from .pairs import paired
from .schedule import Launch, base_at, operand, schedule

SLOT = 512  # [bytes] slots start at multiples of this: every device's alignment divides it

SCALAR = {"float": np.float32, "double": np.float64, "char": np.int8, "short": np.int16, "int": np.int32, "long": np.int64,
          "uchar": np.uint8, "ushort": np.uint16, "uint": np.uint32, "ulong": np.uint64}


@dataclass(frozen=True)
class Place:
    """Where a value lives: "leaf" or "out" with its number, or "arena" with a byte offset; plus an element offset."""

    kind: str
    number: int
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.kind}[{self.number}]" + (f"+{self.offset}" if self.offset else "")


@dataclass
class Step:
    """One kernel launch (or, with `host` set, an op that has no kernel here and runs its reference on the host)."""

    name: str
    text: str
    args: list[tuple[str, Any]]
    grid: tuple[int, ...]
    group: tuple[int, ...] | None
    ops: tuple[str, ...]
    host: Node | None = None
    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    nbytes: int = 0
    note: str = ""
    flops: float = 0.0  # of the launch, by formula; only on the last of its stages


@dataclass(repr=False)
class Plan(show.Shown):
    """Steps in order; the arena's size; per output its Place, spec; `into` maps outputs to the leaf they overwrite."""

    steps: list[Step]
    arena: int
    outputs: list[Place]
    specs: list[Any]
    blocks: dict[int, int] = field(default_factory=dict)
    copies: list[tuple[int, int, int]] = field(default_factory=list)

    def table(self) -> show.Table:
        """The launches, in order, and where each writes."""
        rows = [(k, s.name, ", ".join(dict.fromkeys(s.ops)), _numbers(s.grid), _numbers(s.group or ()), ", ".join(map(str, s.writes)))
                for k, s in enumerate(self.steps)]
        results = f"{show.plural(len(self.blocks), 'result')} of {show.size(sum(self.blocks.values()))}"
        title = f"Plan: {show.plural(len(self.steps), 'launch')}, {show.size(self.arena)} for values between, {results}"
        notes = [f"launch {k}: {s.note}" for k, s in enumerate(self.steps) if s.note]
        return show.Table(("", "kernel", "computes", "grid", "group", "writes"), rows, title=title, notes=notes, align="rlllll", limit=200)


def _numbers(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


class _Planner:
    def __init__(self, graph: Graph, device: Any, into: dict[int, int]) -> None:
        self.graph, self.device = graph, device
        self.schedule = schedule(paired(graph, device))
        self.into = into
        self.sources: dict[Launch, list[Source]] = {}
        self.places: dict[Node, Place] = {}
        self.blocks: dict[int, int] = {}
        self.arena = 0

    def run(self) -> Plan:
        launches = [launch for launch in self.schedule.launches if launch.stores[0].size or launch.kind == "host"]
        for launch in launches:
            self.sources[launch] = self._source(launch)
        copies = self._outputs(launches)
        scratch = self._arena(launches)
        steps = [s for launch in launches for s in self._steps(launch, scratch)]
        outputs = [self.place(base_at(n)[0] if self._aliased(n) else n) for n in self.graph.outputs]
        return Plan(steps, self.arena, outputs, [n.spec for n in self.graph.outputs], self.blocks, copies)

    def _source(self, launch: Launch) -> list[Source]:
        if launch.kind == "map":
            return [map_source(self.schedule, launch, self.device)]
        if launch.kind == "reduction":
            return fold_sources(self.schedule, launch, self.device)
        return kernel_sources(self.schedule, launch, self.device) if launch.kind == "kernel" else []

    def _aliased(self, n: Node) -> bool:
        base, identity = base_at(n)
        return n.kind == "view" and identity and n not in self.schedule.stored and base is not n

    # --- places
    def place(self, n: Node) -> Place:
        """Where n is in memory, through the concatenation it was placed in, if any."""
        if n.kind == "leaf":
            return Place("leaf", n.leaf)
        if n in self.schedule.placed:
            whole, at = self.schedule.placed[n]
            p = self.place(whole)
            return Place(p.kind, p.number, p.offset + at)
        return self.places[n]

    def root(self, n: Node) -> Node:
        return self.root(self.schedule.placed[n][0]) if n in self.schedule.placed else n

    def reads(self, launch: Launch) -> list[Node]:
        if launch.kind == "host":
            return [operand(launch.cores[0], i)[0] for i in launch.cores[0].inputs]
        return [n for s in self.sources[launch] for n in s.params.nodes()]

    def _outputs(self, launches: list[Launch]) -> list[tuple[int, int, int]]:
        """Gives outputs buffers of their own, or that of the leaf they overwrite where nobody needs its old value later."""
        copies = []
        for k, out in enumerate(self.graph.outputs):
            n = base_at(out)[0] if self._aliased(out) else out
            if n.kind == "leaf":
                if k in self.into and n.leaf != self.into[k]:
                    copies.append((k, self.into[k], n.spec.nbytes))
                continue
            leaf = self.into.get(k)
            if leaf is not None and n not in self.places and self._free(n, leaf, launches):
                self.places[n] = Place("leaf", leaf)
                continue
            if n not in self.places:
                self.places[n] = Place("out", len(self.blocks))
                self.blocks[len(self.blocks)] = n.spec.nbytes
            if leaf is not None:
                copies.append((k, leaf, n.spec.nbytes))
        return copies

    def _free(self, n: Node, leaf: int, launches: list[Launch]) -> bool:
        """Whether n may be written over leaf: its readers are done, and a reader in the same launch reads element for element."""
        home = self.schedule.home[n]
        if n.kind == "assemble" or n in self.schedule.placed or home.kind != "map":
            return False
        target = next(m for m in self.graph.nodes if m.leaf == leaf)
        for launch in launches:
            if launch.position > home.position and target in self.reads(launch):
                return False
        return target not in self.reads(home) or self._elementwise(home, target)

    def _elementwise(self, launch: Launch, target: Node) -> bool:
        from .codegen import in_memory
        from .emit import Emitter, Params
        from .index import var

        e = Emitter(Params(), {}, in_memory(self.schedule, launch))
        flat = var("i", launch.size)
        for n in launch.stores:
            e.at(n, flat)
        return all(ld.flat == flat for ld in e.loads if ld.node is target)

    # --- the arena
    def _arena(self, launches: list[Launch]) -> dict[tuple[Launch, str], Place]:
        """Slots by liveness: big ones first, each at the lowest offset free during its whole life."""
        life: dict[Node, list[int]] = {}
        for p, launch in enumerate(launches):
            for n in (*launch.stores, *self.reads(launch)):
                root = self.root(n)
                if root.kind != "leaf" and root not in self.places:
                    life.setdefault(root, [p, p])[1] = p
        wants: list[tuple[int, int, int, Any]] = [(-(-n.spec.nbytes // SLOT) * SLOT or SLOT, a, b, n) for n, (a, b) in life.items()]
        for p, launch in enumerate(launches):
            for name, size in (self.sources[launch][0].params.scratch.items() if self.sources[launch] else ()):
                wants.append((-(-size // SLOT) * SLOT, p, p, (launch, name)))
        taken: list[tuple[int, int, int, int]] = []
        scratch = {}
        for size, a, b, what in sorted(wants, key=lambda w: (-w[0], w[1])):
            at = 0
            for start, end, c, d in sorted(taken):
                if c <= b and a <= d:
                    if at + size <= start:
                        break
                    at = max(at, end)
            taken.append((at, at + size, a, b))
            self.arena = max(self.arena, at + size)
            if isinstance(what, Node):
                self.places[what] = Place("arena", at)
            else:
                scratch[what] = Place("arena", at)
        return scratch

    # --- steps
    def _steps(self, launch: Launch, scratch: dict[tuple[Launch, str], Place]) -> list[Step]:
        ops = tuple(n.op.name for n in (*launch.cores, *launch.stores) if n.op)
        writes = tuple(self.place(n) for n in launch.stores)
        nbytes = sum(n.spec.nbytes for n in launch.stores) + sum(self._taken(launch).values())
        if launch.kind == "host":
            core = launch.cores[0]
            reads = tuple(self.place(n) for n in self.reads(launch))
            return [Step(f"host_{ops[0]}", "", [], (), None, ops, core, reads, writes, nbytes)]
        steps = [Step(s.name, s.text, self._args(launch, s, scratch), s.grid, s.group, ops, None, tuple(self.place(n) for n in s.params.nodes()), writes,
                      nbytes, s.note) for s in self.sources[launch]]
        steps[-1].flops = sum(n.op.flops([i.spec for i in n.inputs], n.spec, n.attrs) for n in self._computed(launch) if n.op)
        return steps

    def _computed(self, launch: Launch) -> set[Node]:
        """The nodes whose values a launch computes: its cores, what it stores, and what both need and is not in memory."""
        sources, todo = set(self.reads(launch)), [*launch.stores, *launch.cores]
        found = set(todo)
        while todo:
            for i in todo.pop().inputs:
                if i not in found and i not in sources and i.kind != "leaf":
                    found.add(i)
                    todo.append(i)
        return found

    def _taken(self, launch: Launch) -> dict[Node, int]:
        """[bytes] that a launch takes from each node it reads: through views no more than they show, a layer's weights out of the arena, say."""
        sources, found = set(self.reads(launch)), dict[Node, int]()
        todo, seen = [*launch.stores, *launch.cores], {*launch.stores, *launch.cores}
        while todo:
            for i in todo.pop().inputs:
                least = i.spec.nbytes
                while i.kind == "view" and i not in sources:
                    i = i.inputs[0]
                    least = min(least, i.spec.nbytes)
                if i in sources:
                    found[i] = min(i.spec.nbytes, found.get(i, 0) + least)
                elif i not in seen:
                    seen.add(i)
                    todo.append(i)
        return {n: found.get(n, n.spec.nbytes) for n in sources}

    def _args(self, launch: Launch, source: Source, scratch: dict[tuple[Launch, str], Place]) -> list[tuple[str, Any]]:
        args: list[tuple[str, Any]] = []
        for n in (*source.params.reads, *source.params.writes):
            place = self.place(n.node if isinstance(n, OperandParam) else n)
            extra = n.offset if isinstance(n, OperandParam) else 0
            extra += place.number // np_dtype(n.spec.dtype).itemsize if place.kind == "arena" else 0
            args += [("buffer", place), ("value", np.uint64(place.offset + extra))]
        for name in source.params.scratch:
            place = scratch[launch, name]
            args += [("scratch", place), ("value", np.uint64(place.number // 4))]
        for value, dtype in source.params.scalars:
            args.append(("value", SCALAR[ct.REGISTER[dtype]](value)))
        return args


def make_plan(graph: Graph, device: Any, into: dict[int, int] | None = None) -> Plan:
    """The plan that computes the graph's outputs; `into` says which outputs overwrite which leaf (state updates)."""
    return _Planner(graph, device, into or {}).run()
