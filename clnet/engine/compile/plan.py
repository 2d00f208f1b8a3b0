"""What runs: launches, geometry and a memory map. A plan knows no buffers; it can be run many times."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from ... import show
from ...core.op import Op
from ...core.size import Size, number, varies
from ...core.spec import Spec
from ...core.varying import Numbers
from ...kernels.variant import Choice
from .memory_map import Address, Layout
from .node import Host


class Later(NamedTuple):
    """An argument whose number the shape gives: of(size + more), `of` makes it what the kernel takes."""

    of: Callable[[Any], Any]
    size: Size
    more: int = 0


class Within(NamedTuple):
    """The argument that says where in its buffer something begins, of which all but the place of its slot is known."""

    of: Callable[[Any], Any]
    slot: int
    itemsize: int  # [bytes] of what is counted
    more: Any  # from the start of the slot on

    def laid(self, starts: Sequence[int]) -> Any:
        """As the kernel takes it, where slots start there."""
        start = starts[self.slot] // self.itemsize
        return Later(self.of, self.more, start) if varies(self.more) else self.of(start + self.more)


@dataclass(frozen=True)
class Ops:
    """What a launch computes: each op with the specs of its inputs and of its result, and its attributes."""

    rows: Sequence[tuple[Op, Sequence[Spec], Spec, Mapping[str, Any]]]

    def __call__(self, numbers: Callable[[Any], Any]) -> float:
        """The additions and products, by formula, for one shape."""
        def known(value: Any) -> Any:
            if isinstance(value, Spec):
                return Spec(known(value.shape), value.dtype)
            return tuple(map(known, value)) if isinstance(value, tuple) else numbers(value)

        return sum((op.flops(list(map(known, inputs)), known(result), {k: known(v) for k, v in attrs.items()})
                    for op, inputs, result, attrs in self.rows), 0.0)


NOTHING = Ops(())


@dataclass
class Launch:
    """One kernel launch (or, with `host` set, an op that has no kernel here and runs its reference on the host).

    args   kinds and values: a "value" is a number, "kept" the bytes of memory of this launch alone, which whoever binds
           the plan makes; those of other kinds are addresses
    work   gives the additions and products; of a fusion only its last launch has some
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
    work: Callable[[Callable[[Any], Any]], float] = NOTHING
    numbers: Callable[[Any], Any] = number
    model: Launch | None = None  # for many shapes, of which this one is for one

    @cached_property
    def flops(self) -> float:
        """Of the fusion; only on the last of its launches."""
        return self.work(self.numbers)

    @cached_property
    def moving(self) -> list[tuple[int, str, Later]]:
        """The arguments in which the shape has a say, by their places."""
        return [(k, kind, v) for k, (kind, v) in enumerate(self.args) if isinstance(v, Later)]

    @cached_property
    def varies(self) -> bool:
        """Whether the shape has a say in it."""
        return bool(self.moving) or varies(*self.grid, self.nbytes)

    def laid(self, starts: Sequence[int]) -> Launch:
        """The launch where slots start there."""
        args = [(kind, value.laid(starts) if isinstance(value, (Address, Within)) else value)
                for kind, value in self.args]
        reads, writes = (tuple([a.laid(starts) for a in places]) for places in (self.reads, self.writes))
        return replace(self, args=args, reads=reads, writes=writes)

    def at(self, numbers: Numbers) -> Launch:
        """The launch for one shape."""
        if not self.varies:
            return self
        args = self.args.copy()
        for k, kind, later in self.moving:
            args[k] = kind, later.of(numbers(later.size) + later.more)
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
    the op and its result. It names slots until it is `laid`: then nothing is left to know but the shape, if it varies.
    """

    launches: list[Launch]
    arena: int
    outputs: list[Address]
    specs: list[Spec]
    blocks: dict[int, int] = field(default_factory=dict)
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    choices: list[tuple[str, Choice]] = field(default_factory=list)

    def laid(self, layout: Layout) -> Plan:
        """The plan where slots lie like this."""
        return replace(self, launches=[launch.laid(layout.starts) for launch in self.launches], arena=layout.arena,
                       outputs=[a.laid(layout.starts) for a in self.outputs])

    def arguments(self) -> list[Size]:
        """The sizes that kernels take."""
        values = [v for launch in self.launches for _, v in launch.args]
        return list(dict.fromkeys([v.size for v in values if isinstance(v, Later)]
                                  + [v.more for v in values if isinstance(v, Within) and varies(v.more)]))

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


def by_fusion(launches: Sequence[Launch]) -> list[list[Launch]]:
    """The launches of each fusion: stages of one op, which all say what it writes."""
    return [list(some) for _, some in itertools.groupby(launches, lambda launch: launch.writes)]


def _numbers(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
