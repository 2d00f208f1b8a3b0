"""What runs: launches, geometry and a memory map. A plan knows no buffers; it can be run many times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ... import show
from ...core.spec import Spec
from .memory_map import Address
from .node import Host


@dataclass
class Launch:
    """One kernel launch (or, with `host` set, an op that has no kernel here and runs its reference on the host)."""

    name: str
    text: str
    args: list[tuple[str, Any]]
    grid: tuple[int, ...]
    group: tuple[int, ...] | None
    ops: tuple[str, ...]
    host: Host | None = None
    reads: tuple[Address, ...] = ()
    writes: tuple[Address, ...] = ()
    nbytes: int = 0
    note: str = ""
    flops: float = 0.0  # of the fusion, by formula; only on the last of its launches


@dataclass(repr=False)
class Plan(show.Shown):
    """Launches in order; the arena's size; per output its address and spec; sizes of the results; `copies` say which
    output goes over which leaf when all is done, and how many bytes.
    """

    launches: list[Launch]
    arena: int
    outputs: list[Address]
    specs: list[Spec]
    blocks: dict[int, int] = field(default_factory=dict)
    copies: list[tuple[int, int, int]] = field(default_factory=list)

    def table(self) -> show.Table:
        """The launches, in order, and where each writes."""
        rows = [(k, launch.name, ", ".join(dict.fromkeys(launch.ops)), _numbers(launch.grid),
                 _numbers(launch.group or ()), ", ".join(map(str, launch.writes)))
                for k, launch in enumerate(self.launches)]
        results = f"{show.plural(len(self.blocks), 'result')} of {show.size(sum(self.blocks.values()))}"
        title = (f"Plan: {show.plural(len(self.launches), 'launch')}, {show.size(self.arena)} for values between, "
                 f"{results}")
        notes = [f"launch {k}: {launch.note}" for k, launch in enumerate(self.launches) if launch.note]
        return show.Table(("", "kernel", "computes", "grid", "group", "writes"), rows, title=title, notes=notes,
                          align="rlllll", limit=200)


def _numbers(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
