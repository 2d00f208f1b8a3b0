"""The first run of a shape that was not there before, of a network whose structure was."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..compare import Setting
from ..row import Row
from ..suites.steps import Task
from .apart import Apart
from .runners import COMPILED, KINDS, against, ms, ours, peers_of, shaped

SEEN = (1.0, 0.75, 0.875)  # of the task's batch size or length: run before anything counts
NEW = (0.6, 0.8, 0.92, 0.7, 0.52)
QUICK = 2  # of each, in the quick form
Pair = tuple[float, float]  # [s] of the first run of a shape, and of one when it is known
AXES: dict[str, Callable[[Task], int]] = {"batch": lambda t: t.x[0], "length": lambda t: t.x[1]}


def sizes(axis: str, task: Task, shares: tuple[float, ...]) -> list[Task]:
    """The task with its batch size or length times these."""
    return [shaped(task, **{axis: round(AXES[axis](task) * share)}) for share in shares]


@dataclass(frozen=True)
class NewShape(Apart):
    """The first run at a size that was not seen, beside a run of the same shape when it is known: a row a peer.
    Ratios are of the first runs, a size each. `large`: of a network for GPUs, which others do without.
    """

    task: Task
    kind: str
    axis: str
    quick: bool = False
    large: bool = False

    @property
    def name(self) -> str:
        return f"{self.task.name if self.large else self.task.name.split()[0]} {self.kind}, new {self.axis}"

    def rows(self, setting: Setting) -> list[Row]:
        device = setting.engine.device
        return [] if self.large and not (device.is_gpu or device.is_host) else super().rows(setting)

    def measure(self, setting: Setting) -> list[Row]:
        count = QUICK if setting.quick else len(NEW)
        me, counters = ours(self.task, self.kind, setting.engine), setting.engine.programs.counters
        others = peers_of(self.task, self.kind, setting, ("",) if setting.quick else ("", COMPILED))
        for one in sizes(self.axis, self.task, SEEN[:count]):
            me.first(one)
            for o in others:
                o.attempt(o.first, one)
        before, mine, its = counters().builds, list[Pair](), {o.name: list[Pair]() for o in others}
        for one in sizes(self.axis, self.task, NEW[:count]):
            mine.append(me.first_and_steady(one))
            for o in others:
                if pair := o.attempt(o.first_and_steady, one):
                    its[o.name].append(pair)
        bare = setting.row(self.suite, self.name, ours_ms=ms(median_of(mine, 0)), steady_ms=ms(median_of(mine, 1)),
                           built=counters().builds - before, note=f"{count} new sizes")
        return [against(bare, o, [(m, t) for (m, _), (t, _) in zip(mine, its[o.name], strict=False)],
                        median_of(its[o.name], 1)) for o in others] or [bare]


def median_of(pairs: Sequence[Pair], which: int) -> float | None:
    return statistics.median(p[which] for p in pairs) if pairs else None


def works(tasks: list[Task], large: list[Task]) -> list[NewShape]:
    """Of every network a new batch size, of those of sequences a new length too; of the large ones one of them, as a
    batch of few samples has few sizes.
    """
    return [*(NewShape(t, kind, axis, (t.name.split()[0], kind, axis) == ("lstm", "training", "batch"))
              for t in tasks for kind in KINDS for axis in _axes(t)),
            *(NewShape(t, "training", _axes(t)[-1], large=True) for t in large)]


def _axes(task: Task) -> tuple[str, ...]:
    return ("batch", "length") if sequences(task) else ("batch",)


def sequences(task: Task) -> bool:
    """Whether samples are sequences: their first axis is time."""
    return task.tokens > 0 or len(task.x) == 3
