"""Looking inside: memory, caches, kernel times, and every stage from tensor to OpenCL C of what would run. All of it shows itself as tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import NoDeviceError
from ..names import guide as _guide
from ..show import Shown, Table, count, duration, plural, size
from ..tensor import as_tensor
from . import _engines, current
from .listing import Listing, Source
from .plan import make_plan

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

    def __init__(self, device: Any, numbers: dict[str, int], holders: Iterable[tuple[str, int]]) -> None:
        super().__init__(numbers)
        self.device, self.holders = device, list(holders)

    def table(self) -> Table:
        rows = [(name.replace("_", " "), count(n) if name == "allocations" else size(n), MEMORY[name]) for name, n in self.items()]
        notes = ["most of it: " + ", ".join(f"{name or 'unnamed'} {size(n)}" for name, n in self.holders)] if self.holders else []
        if self.device.is_host:
            notes = ["NumPy computes in the host's memory; nothing is counted there."]
        return Table(("memory", "", "what it is"), rows, title=f"Memory of {self.device}", notes=notes)


def memory() -> Memory:
    """Bytes on the current device: active, cached, peak, limit; bytes moved to the device and to the host; allocations made."""
    engine = current()
    if not hasattr(engine, "pool"):
        return Memory(engine.device, dict.fromkeys(MEMORY, 0), ())
    s, moved = engine.pool.statistics(), engine.transfers.snapshot()
    numbers = dict(active=s.active, cached=s.cached, peak=s.peak, limit=s.limit, to_device=moved.bytes_to_device, to_host=moved.bytes_to_host,
                   allocations=s.allocations)
    return Memory(engine.device, numbers, engine.pool.holders())


def empty_cache() -> Memory:
    """Gives the cached buffers of the current device back to its driver, behind what is still queued; returns what `memory` says then."""
    engine = current()
    if hasattr(engine, "pool"):
        engine.finish()  # a buffer that queued work uses stays where it is
        engine.pool.trim()
    return memory()


class _Cache(Shown):
    """Compiled programs and plans: `clnet.cache.clear()`, `clnet.cache.counters()`."""

    def clear(self, disk: bool = True) -> None:
        """Forgets plans and programs of every engine, also those on disk; frees cached buffers."""
        for engine in _engines.values():
            if hasattr(engine, "programs"):
                engine.plans.clear()
                engine.programs.clear(disk)
                engine.pool.trim()

    def counters(self) -> Any:
        """Program cache of the current engine: memory hits, disk hits, builds, seconds."""
        engine = current()
        return engine.programs.counters() if hasattr(engine, "programs") else None

    def table(self) -> Table:
        engine = current()
        if not hasattr(engine, "programs"):
            return Table((), [("compiled", "0", "NumPy needs no programs")], title=f"Programs of {engine.device}")
        programs = engine.programs
        c = programs.counters()
        rows = [("compiled", count(c.builds), "by the device's compiler"), ("from disk", count(c.disk_hits), "compiled by an earlier process"),
                ("from memory", count(c.memory_hits), "used again in this process"), ("tried first", count(c.probes), "in a process of their own"),
                ("time", duration(c.seconds), "for all that were not in memory")]
        return Table(("programs", "", "how they came about"), rows, title=f"Programs of {engine.device}", notes=[programs.keeps()])


cache = _Cache()


def explain(*tensors: Any) -> Explanation:
    """Every stage between the tensors and their values, without running them, on the device that would compute them.

    NoDeviceError where that is NumPy, which has no stages.
    """
    from .graph import build

    roots = [as_tensor(t) for t in tensors]
    device = next((t.home for t in roots if t.home is not None), current()).device
    if device.is_host:
        raise NoDeviceError(f'explain: expected an OpenCL device; got {device}, which evaluates op by op and plans nothing; try `with clnet.on("opencl"):`.')
    graph = build(roots, lambda t: t.op is None, device)
    return Explanation(graph, make_plan(graph, device))


class Explanation:
    """`graph` (nodes), `launches` (what is fused with what), `sources` (OpenCL C), `plan` (memory map); printable each.

    `sources` are whole programs, as the compiler gets them; `kernel(k)` is what of the k-th is the kernel that runs.
    """

    def __init__(self, graph: Any, plan: Any) -> None:
        self.graph, self.plan = graph, plan
        self.launches = [(step.name, step.ops) for step in plan.steps]
        self.sources = [Source(step.text, step.name) for step in plan.steps]

    def kernel(self, k: int = 0) -> Listing:
        """The kernel of launch k, with the definitions that it uses and its conditions resolved."""
        return self.sources[k].kernel()

    def _nodes(self) -> Table:
        rows = []
        for n in self.graph.nodes:
            name = self.graph.leaves[n.leaf].name if n.op is None else ""
            what = n.op.name if n.op else f"input {name!r}" if name else "input"
            inputs = [str(n.attrs["value"])] if n.op and n.op.name == "full" else [f"%{i.number}" for i in n.inputs]
            rows.append((f"%{n.number}", what, str(n.spec), " ".join(inputs)))
        return Table(("", "op", "value", "from"), rows, title=f"Graph: {plural(len(rows), 'node')}", align="llll", limit=200)

    def __repr__(self) -> str:
        return f"{self._nodes()}\n\n{self.plan}"

    def _repr_html_(self) -> str:
        return self._nodes().html() + str(self.plan.table().html())


class Profile(Shown, list[Any]):
    """`with profile() as p:` every launch inside is timed alone: (kernel, ops, milliseconds, bytes), in order. Shows itself as a table of kernels."""

    def __enter__(self) -> Profile:
        self._engine = current()
        self._before, self._engine.profile = getattr(self._engine, "profile", None), self
        return self

    def __exit__(self, *_: Any) -> None:
        self._engine.profile, engine = self._before, self._engine
        self._before = self._engine = None
        self.device = engine.device

    def table(self) -> Table:
        kinds: dict[tuple[str, Any], list[float]] = {}
        for name, ops, ms, nbytes in self:
            row = kinds.setdefault((name, ops), [0, 0.0, 0.0])
            row[0], row[1], row[2] = row[0] + 1, row[1] + ms, row[2] + nbytes
        total = sum(row[1] for row in kinds.values())
        rows = [(name, ", ".join(dict.fromkeys(ops)), int(n), ms, f"{ms / total if total else 0:.1%}", ms / n, f"{nbytes / ms * 1e-6 if ms else 0:.2f}")
                for (name, ops), (n, ms, nbytes) in sorted(kinds.items(), key=lambda kind: -kind[1][1])]
        where = f" on {self.device}" if hasattr(self, "device") else ""
        notes = [] if rows else ["No kernel was launched: put what is to be timed into `with clnet.profile() as p:`."]
        foot = ("total", "", len(self), total, "100.0%" if rows else "", total / max(len(self), 1), None) if rows else None
        return Table(("kernel", "computes", "launches", "total [ms]", "share", "mean [ms]", "GB/s"), rows, foot=foot, notes=notes,
                     title=f"{plural(len(self), 'launch')}{where}, each timed alone")


def profile() -> Profile:
    """`with profile() as p:` times every launch inside alone; p is a list of (kernel, ops, milliseconds, bytes) that shows itself as a table."""
    return Profile()


_guide(__name__)
