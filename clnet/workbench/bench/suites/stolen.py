"""What a stolen core costs: training steps while another process takes one core for some milliseconds now and then, as
machines that are shared do, beside the same steps undisturbed.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ....engine.device.compilers import environment
from ...evidence import registry
from .. import compare
from ..compare import Contender, Setting
from ..row import Row, number, shown_ratio, spread
from ..trust import Watch, doubt, seen_by
from . import Suite
from . import steps as bench_steps
from .steps import Task

TAKEN, PERIOD = 5e-3, 50e-3  # [s] that the thief computes, of each so many
SAMPLE = 0.4  # [s] a sample at least: some of the thief's turns
ROUNDS, QUICK_ROUNDS = 7, 3
LEGEND = (f"A process computes on one core for {TAKEN * 1e3:.0f} ms of every {PERIOD * 1e3:.0f}. undisturbed, stolen: "
          "[ms] of a step without it and beside it, medians of rounds in turn. cost: stolen / undisturbed, "
          f"{1 / (1 - TAKEN / PERIOD):.2f} where all wait for the core that is late, less where the others take over. "
          "ratio: the peer's cost / ours, above 1 we lose less.")
THIEF = """
import os, sys, time
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {{max(os.sched_getaffinity(0))}})
print(flush=True)
while True:
    end = time.perf_counter() + {taken}
    while time.perf_counter() < end:
        pass
    time.sleep({rest})
"""


@contextlib.contextmanager
def thief() -> Iterator[None]:
    """Within the block a process takes one core, again and again."""
    script = THIEF.format(taken=TAKEN, rest=PERIOD - TAKEN)
    process = subprocess.Popen([sys.executable, "-S", "-E", "-c", script], stdout=subprocess.PIPE, env=environment())
    assert process.stdout
    try:
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@dataclass(frozen=True)
class Stolen:
    """A training step, undisturbed and beside the thief: ours and each peer's."""

    task: Task
    suite: str = "stolen"

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def quick(self) -> bool:
        return self.task.quick

    @property
    def jax(self) -> Any:
        """What JAX runs, which is opened only where a work has something for it."""
        return self.task.jax

    def rows(self, setting: Setting) -> list[Row]:
        """A row a peer, ours in each."""
        if needs := bench_steps.missing(self.task) or self._needs(setting):
            return [setting.row(self.suite, self.name, note=needs)]
        work = replace(bench_steps.as_work(self.task), numpy=False, tinygrad=None)
        me, _ = compare.ours(work, setting.engine)
        others = compare.peers_of(work, setting)
        watch, times = Watch(), dict[str, list[tuple[float, float]]]()
        for _ in range(QUICK_ROUNDS if setting.quick else ROUNDS):
            for who in (me, *(o for o in others if not o.problem)):
                times.setdefault(who.name, []).append(pair(who))
        bare = setting.row(self.suite, self.name, **_medians(times[me.name]))
        found = [replace(bare, peer=o.name, note=o.problem) if o.problem else _against(bare, o.name, times[me.name],
                                                                                     times[o.name]) for o in others]
        return seen_by(watch, found or [bare])


    @staticmethod
    def _needs(setting: Setting) -> str:
        if not setting.engine.device.is_cpu:
            return "needs a CPU's runtime: nobody steals cores of a GPU"
        return "needs two cores" if (os.cpu_count() or 1) < 2 else ""


def pair(who: Contender) -> tuple[float, float]:
    """[s] of a call, undisturbed and beside the thief."""
    repeats = max(1, math.ceil(SAMPLE / max(who.sample(1), 1e-6)))
    calm = who.sample(repeats)
    with thief():
        return calm, who.sample(repeats, disturbed=True)


def _medians(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    calm, stolen = (round(statistics.median(column) * 1e3, 5) for column in zip(*pairs, strict=True))
    return {"steady_ms": calm, "ours_ms": stolen}


def _against(bare: Row, peer: str, mine: list[tuple[float, float]], its: list[tuple[float, float]]) -> Row:
    ratios = [(b / a) / (d / c) for (c, d), (a, b) in zip(mine, its, strict=True)]
    theirs = _medians(its)
    return replace(bare, peer=peer, peer_steady_ms=theirs["steady_ms"], peer_ms=theirs["ours_ms"],
                   ratio=round(statistics.median(ratios), 4), min=round(min(ratios), 4), max=round(max(ratios), 4),
                   rounds=len(ratios), doubt=doubt(ratios, QUICK_ROUNDS))


def works() -> list[Stolen]:
    registry.load_all()
    return [Stolen(task) for task in bench_steps.tasks()]


def cells(r: Row) -> dict[str, object]:
    """A row as it stands in tables."""
    return {"suite": r.suite, "work": r.work, "device": r.device, "undisturbed": number(r.steady_ms, ".3f"),
            "stolen": number(r.ours_ms, ".3f"), "cost": _cost(r.ours_ms, r.steady_ms), "peer": r.peer,
            "its undisturbed": number(r.peer_steady_ms, ".3f"), "its stolen": number(r.peer_ms, ".3f"),
            "its cost": _cost(r.peer_ms, r.peer_steady_ms), "ratio": shown_ratio(r), "spread": spread(r),
            "note": r.remarks}


def _cost(stolen: float | None, calm: float | None) -> str:
    return f"{stolen / calm:.2f}" if stolen and calm else ""


SUITE = Suite(works, legend=LEGEND, cells=cells, ratios=False, rates=False, narrow=False)
