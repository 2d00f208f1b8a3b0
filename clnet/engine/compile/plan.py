"""What runs: launches, geometry and a memory map. A plan knows no buffers; it can be run many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ... import show
from ...core.size import Size, number, varies
from ...core.spec import Spec
from ...core.varying import Numbers
from ...kernels.variant import Choice
from .memory_map import Address
from .node import Host


class Later(NamedTuple):
    """An argument whose number the shape gives: `of` makes it what the kernel takes."""

    of: Callable[[Any], Any]
    size: Size


def no_work(numbers: Callable[[Any], Any]) -> float:
    """Of a launch that is not the last of its fusion."""
    return 0.0


@dataclass
class Launch:
    """One kernel launch (or, with `host` set, an op that has no kernel here and runs its reference on the host).

    args   kinds and values: a "value" is a number, "kept" the bytes of memory of this launch alone, which whoever binds
           the plan makes; those of other kinds are addresses
    """

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
    work: Callable[[Callable[[Any], Any]], float] = no_work
    numbers: Callable[[Any], Any] = number
    model: Launch | None = None  # for many shapes, of which this one is for one

    @cached_property
    def flops(self) -> float:
        """Of the fusion, by formula; only on the last of its launches."""
        return self.work(self.numbers)

    @cached_property
    def moving(self) -> list[tuple[int, str, Later]]:
        """The arguments in which the shape has a say, by their places."""
        return [(k, kind, v) for k, (kind, v) in enumerate(self.args) if isinstance(v, Later)]

    @cached_property
    def varies(self) -> bool:
        """Whether the shape has a say in it."""
        return bool(self.moving) or varies(*self.grid, self.nbytes)

    def at(self, numbers: Numbers) -> Launch:
        """The launch for one shape."""
        if not self.varies:
            return self
        args = self.args.copy()
        for k, kind, later in self.moving:
            args[k] = kind, later.of(numbers(later.size))
        return Launch(self.name, self.text, args, tuple(map(numbers, self.grid)), self.group, self.ops, self.host,
                      self.reads, self.writes, numbers(self.nbytes), self.note, self.work, numbers, self)

    def differing(self, other: Launch) -> Sequence[int]:
        """The places of arguments that may be others than those of `other`, the same launch of another plan."""
        if self.model is not None and self.model is other.model:
            return [k for k, _, _ in self.model.moving]
        return () if self is other else range(len(self.args))


@dataclass(repr=False)
class Plan(show.Shown):
    """Launches in order; the arena's size; per output its address and spec; sizes of the results; `copies` say which
    output goes over which leaf when all is done, and how many bytes; `choices` who serves each op that has kernels, by
    the op and its result.
    """

    launches: list[Launch]
    arena: int
    outputs: list[Address]
    specs: list[Spec]
    blocks: dict[int, int] = field(default_factory=dict)
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    choices: list[tuple[str, Choice]] = field(default_factory=list)

    def arguments(self) -> list[Size]:
        """The sizes that kernels take."""
        return list(dict.fromkeys(v.size for launch in self.launches for _, v in launch.args if isinstance(v, Later)))

    def measures(self) -> list[Any]:
        """What varies beside them: geometry, specs, bytes."""
        launched = [n for launch in self.launches for n in (*launch.grid, launch.nbytes)]
        return [*launched, *(n for s in self.specs for n in s.shape), *self.blocks.values(),
                *(nbytes for _, _, nbytes in self.copies)]

    def at(self, numbers: Numbers) -> Plan:
        """The plan for one shape."""
        return Plan([launch.at(numbers) for launch in self.launches], self.arena, self.outputs,
                    [Spec(tuple(map(numbers, s.shape)), s.dtype) for s in self.specs],
                    {k: numbers(size) for k, size in self.blocks.items()},
                    [(k, leaf, numbers(nbytes)) for k, leaf, nbytes in self.copies], self.choices)

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
