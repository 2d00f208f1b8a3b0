"""What it takes to record, plan and bind a training step by the depth of the network; its programs are there."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Literal

from ....engine import on
from ..compare import Setting, Step
from ..row import Row
from ..suites import steps as bench_steps
from .apart import Apart
from .networks import deep
from .runners import ms

DEPTHS = (1, 4, 16, 32, 64, 128)
QUICK = (1, 4)
ROUNDS = 3


@dataclass(frozen=True)
class Planning(Apart):
    """ms to record, plan and bind a step, and its launches: a network is made anew each time, its programs are in
    memory from the first. Nothing runs. PyTorch plans nothing.

    kept    where the plan of an equal network is: "" nowhere, "on disk" from another process, "in memory" from this one
    """

    blocks: int
    kept: Literal["", "on disk", "in memory"] = ""

    @property
    def name(self) -> str:
        return f"planning{', plan ' if self.kept else ''}{self.kept}, residual blocks {self.blocks}"

    @property
    def quick(self) -> bool:
        return self.blocks in QUICK

    def measure(self, setting: Setting) -> list[Row]:
        engine, found = setting.engine, list[float]()
        engine.plan_files.active = self.kept == "on disk"  # type: ignore[attr-defined]
        for _ in range(1 + ROUNDS):
            step, arguments = bench_steps.training(deep(self.blocks), engine)
            given = arguments(*bench_steps.our_batch(deep(self.blocks), engine))
            engine.finish()
            if self.kept != "in memory":
                engine.plans.clear()
            with on(engine):
                built, start = engine.programs.counters().builds, time.perf_counter()
                step.prepare(*given)
                found.append(time.perf_counter() - start)
        launches = Step(step, lambda: given).launches
        seconds = found[1:]
        return [setting.row(self.suite, self.name, ours_ms=ms(statistics.median(seconds)), launches=launches,
                            built=engine.programs.counters().builds - built, rounds=ROUNDS,
                            note=f"{min(seconds):.2f} to {max(seconds):.2f} s; "
                                 f"{statistics.median(seconds) / launches * 1e3:.3f} ms a launch")]


def works() -> list[Planning]:
    kept: tuple[Literal["", "on disk", "in memory"], ...] = ("", "on disk", "in memory")
    return [Planning(n, k) for k in kept for n in DEPTHS]
