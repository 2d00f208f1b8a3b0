"""What runs: launches, geometry and a memory map. A plan knows no buffers; it can be run many times."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from ... import show
from ...core.op import Op
from ...core.size import Size, number, varies
from ...core.spec import Spec
from ...core.varying import Numbers
from ...kernels.variant import Choice
from .layout import Address, Layout

if TYPE_CHECKING:
    from .node import Host


class Later(NamedTuple):
    """An argument whose number the shape gives: of(size + more), `of` makes it what the kernel takes."""

    of: Callable[[Any], Any]
    size: Size
    more: int = 0

    def at(self, numbers: Numbers) -> Any:
        """As the kernel takes it, for one shape."""
        return self.of(numbers(self.size) + self.more)


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

    @cached_property
    def flops(self) -> float:
        """Of the fusion; only on the last of its launches."""
        return self.work(self.numbers)

    @property
    def varies(self) -> bool:
        """Whether the shape has a say in it."""
        return any(isinstance(v, Later) for _, v in self.args) or varies(*self.grid, self.nbytes)

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
        args = [(kind, v.at(numbers) if isinstance(v, Later) else v) for kind, v in self.args]
        return replace(self, args=args, grid=tuple(map(numbers, self.grid)), nbytes=numbers(self.nbytes),
                       numbers=numbers)


class Moving:
    """What the shape has a say in, of launches for many: each argument once, with the places (launch, argument) that
    take it, and each grid once; `which` of them a launch has.
    """

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = launches
        takers: dict[Any, tuple[Later, list[tuple[int, int]]]] = {}
        grids: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        self.which = []
        for i, launch in enumerate(launches):
            for k, (_, value) in enumerate(launch.args):
                if isinstance(value, Later) and launch.host is None:
                    takers.setdefault(tuple(map(repr, value)), (value, []))[1].append((i, k))  # sizes' texts tell them
            self.which.append(grids.setdefault(repr(launch.grid), (len(grids), launch.grid))[0])
        self.takers, self.grids = list(takers.values()), [grid for _, grid in grids.values()]


class AtShape(Sequence[Launch]):
    """Launches for one shape: what their arguments and grids are, in the order of `moving`. A shape costs no more than
    these numbers; launches are made where somebody reads them.
    """

    def __init__(self, moving: Moving, numbers: Numbers) -> None:
        self.moving, self._numbers = moving, numbers
        self.arguments = [numbers(later.size) + later.more for later, _ in moving.takers]
        self._grids = [tuple(map(numbers, grid)) for grid in moving.grids]
        self._made: dict[int, Launch] = {}

    @property
    def grids(self) -> list[tuple[int, ...]]:
        """Of all launches."""
        return [self._grids[k] for k in self.moving.which]

    def __len__(self) -> int:
        return len(self.moving.launches)

    @overload
    def __getitem__(self, k: int) -> Launch: ...
    @overload
    def __getitem__(self, k: slice) -> list[Launch]: ...
    def __getitem__(self, k: int | slice) -> Launch | list[Launch]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        k = range(len(self))[k]
        if k not in self._made:
            self._made[k] = self.moving.launches[k].at(self._numbers)
        return self._made[k]


@dataclass(repr=False)
class Plan(show.Shown):
    """Launches in order; the arena's size; per output its address and spec; sizes of the results; `copies` say which
    output goes over which leaf when all is done, and how many bytes; `choices` who serves each op that has kernels, by
    the op and its result. It names slots until it is `laid`: then nothing is left to know but the shape, if it varies.
    """

    launches: Sequence[Launch]
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

    @cached_property
    def moving(self) -> Moving:
        """What the shape has a say in."""
        return Moving(self.launches)

    @property
    def grids(self) -> list[tuple[int, ...]]:
        """Of all launches."""
        return self.launches.grids if isinstance(self.launches, AtShape) else [each.grid for each in self.launches]

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
        return Plan(AtShape(self.moving, numbers), self.arena, self.outputs,
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
