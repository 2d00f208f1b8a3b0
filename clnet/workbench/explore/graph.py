"""What was recorded, from its graph to the times of its launches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...picture import Picture
from ...show import Table, duration, plural, size
from .. import step_plots
from ..replays import ROUNDS, Replayed, Times, replayed
from .explorer import Explorer
from .rows import Part

if TYPE_CHECKING:
    from ...engine.compile.plan import Launch

HEADS = ("", "kernel", "layer", "computes", "grid", "moves", "time", "share", "of roof")


class Row(NamedTuple):
    """A launch of the plan, what it took [ms], and its shares of the step and of the roof, once that was measured."""

    number: int
    launch: Launch
    ms: float | None = None
    share: float | None = None
    roof: float | None = None


class Graph(Explorer[Row]):
    """The launches of a step. `measure()` runs it some times and takes their times; `timeline()` and `memory()` are
    pictures, `trace("step.json")` a file for https://ui.perfetto.dev. `step` has the stages of planning.
    """

    def __init__(self, step: Replayed) -> None:
        self.step, self.times = step, None
        super().__init__(self._title(), HEADS, [Row(k, launch) for k, launch in enumerate(step.launches)], self._cells,
                         self._detail, {"kernel": lambda r: r.launch.name, "layer": lambda r: _joined(self._layers(r))},
                         {}, self._overview, {"measure a replay": self.measure, "write a trace": self._write})

    times: Times | None

    def measure(self, rounds: int = ROUNDS) -> Times:
        """Times of some replays, which change no variable: the median of each launch, and when it ran."""
        self.times = times = self.step.measure(rounds)
        total = sum(ms or 0.0 for ms in times.ms) or 1.0
        self.rows = [Row(k, launch, ms, (ms or 0.0) / total, share) for k, (launch, ms, share)
                     in enumerate(zip(self.step.launches, times.ms, self.step.shares(times), strict=True))]
        self.title = self._title()
        return times

    def timeline(self) -> Picture:
        """When each launch runs, by queue and by kind of kernel."""
        times = self.times or self.measure()
        return step_plots.timeline(times.spans, f"{self.step.name} on {self.step.engine.device.key}: {times}")

    def memory(self) -> Picture:
        """Which bytes of the arena hold which value, from launch to launch."""
        return step_plots.memory(self.step.stages.lives, self.step.stages.plan.arena, len(self.step.launches))

    def trace(self, file: str | Path) -> Path:
        """Writes the timeline in the Trace Event Format, for https://ui.perfetto.dev and chrome://tracing: times in µs,
        and of each launch its ops, layers, bytes, flops and share of the roof.
        """
        return self.step.trace(file, self.times or self.measure())

    def _write(self) -> str:
        return f"{self.trace('step.json').absolute()}, for https://ui.perfetto.dev"

    def _title(self) -> str:
        plan = self.step.stages.plan
        said = f"; {self.times}" if self.times else ""
        return (f"{self.step.name} on {self.step.engine.device.key}: {plural(len(plan.launches), 'launch')} of "
                f"{plural(len(self.step.stages.graph.nodes), 'node')}, {size(plan.arena)} for values between{said}")

    def _layers(self, row: Row) -> list[str]:
        return self.step.layers[row.number]

    def _cells(self, row: Row) -> list[object]:
        launch = row.launch
        return [row.number, launch.name, _joined(self._layers(row)), ", ".join(dict.fromkeys(launch.ops)),
                _numbers(launch.grid), size(launch.nbytes), "" if row.ms is None else duration(row.ms * 1e-3),
                "" if row.share is None else f"{row.share:.1%}", "" if row.roof is None else f"{row.roof:.0%}"]

    def _overview(self) -> Iterator[Part]:
        if self.times is not None:
            yield self.timeline()
        if self.step.stages.lives:
            yield self.memory()

    def _detail(self, row: Row) -> Iterator[Part]:
        launch, stages = row.launch, self.step.stages
        if launch.note:
            yield launch.note
        facts = [("layers", ", ".join(self._layers(row))), ("work-items", _numbers(launch.grid)),
                 ("of a group", _numbers(launch.group or ())), ("reads", ", ".join(map(str, launch.reads))),
                 ("writes", ", ".join(map(str, launch.writes))), ("moves", size(launch.nbytes)),
                 ("flops", f"{launch.flops:,.0f}" if launch.flops else ""),
                 ("time", duration(row.ms * 1e-3) if row.ms is not None else "")]
        yield Table(("", launch.name), [f for f in facts if f[1]], align="ll")
        nodes = [(f"%{n.number}", n.op.name, str(n.spec), " ".join(f"%{i.number}" for i in n.inputs))
                 for n in stages.fused[row.number] if n.op]
        yield Table(("", "op", "value", "from"), nodes, align="llll", title="What it computes, in one pass")
        yield stages.kernel(row.number)
        mine = {f"{n.op.name} {n.spec}" for n in stages.fused[row.number] if n.op}
        if chosen := [c for c in stages.choices if c[0] in mine]:
            yield type(stages.choices)(dict(chosen).items(), stages.choices.device)


def graph(what: Any, *inputs: Any) -> Graph:
    """A recorded step as launches: which ops were folded into which, the memory plan over time, the kernel of each, and
    the timeline of a replay, which "measure a replay" takes.

    what     a Trainer (its training step, over the batch that came last), a recorded function, a model or a function
             with inputs, or tensors (of which nothing has to be computed yet)
    inputs   of a model or function, or further tensors
    Raises DataError for a step that never ran, NoDeviceError on NumPy, which plans nothing.
    """
    return Graph(replayed(what, *inputs))


def _joined(names: list[str]) -> str:
    """Some names, the others counted."""
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _numbers(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
