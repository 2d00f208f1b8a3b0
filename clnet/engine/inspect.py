"""Looking inside: memory, caches, kernel times, and every stage from tensor to OpenCL C of what would run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..names import guide as _guide
from ..tensor import as_tensor
from . import _engines, current
from .plan import make_plan


def memory() -> dict[str, int]:
    """Bytes on the current device: active, cached, peak; bytes moved to the device and to the host; allocations made."""
    engine = current()
    if not hasattr(engine, "pool"):
        return dict(active=0, cached=0, peak=0, to_device=0, to_host=0, allocations=0)
    s, moved = engine.pool.statistics(), engine.transfers.snapshot()
    return dict(active=s.active, cached=s.cached, peak=s.peak, to_device=moved.bytes_to_device, to_host=moved.bytes_to_host, allocations=s.allocations)


class _Cache:
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

    def __repr__(self) -> str:
        return f"<program cache: {self.counters()}>"


cache = _Cache()


def explain(*tensors: Any) -> Explanation:
    """Every stage between the tensors and their values on the current device, without running them."""
    from .graph import build

    device = current().device
    roots = [as_tensor(t) for t in tensors]
    graph = build(roots, lambda t: t.op is None, device)
    return Explanation(graph, make_plan(graph, device))


class Explanation:
    """`graph` (nodes), `launches` (what is fused with what), `sources` (OpenCL C), `plan` (memory map); printable each."""

    def __init__(self, graph: Any, plan: Any) -> None:
        self.graph, self.plan = graph, plan
        self.launches = [(step.name, step.ops) for step in plan.steps]
        self.sources = [step.text for step in plan.steps]

    def __repr__(self) -> str:
        nodes = [f"%{n.number:<3} {n.op.name if n.op else 'leaf':12} {n.spec!s:24} {' '.join(f'%{i.number}' for i in n.inputs)}" for n in self.graph.nodes]
        return "\n".join(["graph:", *nodes, "", str(self.plan)])


@contextlib.contextmanager
def profile() -> Iterator[list[Any]]:
    """Within the block every launch is timed alone: a list of (kernel, ops, milliseconds, bytes) that fills as kernels run."""
    engine = current()
    rows: list[Any] = []
    engine.profile = rows
    try:
        yield rows
    finally:
        engine.profile = None

_guide(__name__)
