"""`predict` called from several threads, with batches as requests bring them."""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from ...evidence import registry
from ..compare import Setting
from ..row import Row
from ..suites import steps as bench_steps
from ..suites.steps import Task
from .apart import Apart
from .runners import Runner, against, ms, ours, peers_of, shaped

THREADS = 8
LARGEST = 64  # samples of a request
REQUESTS, QUICK_REQUESTS = 400, 48  # of a round
ROUNDS, QUICK_ROUNDS = 3, 1
BUDGET, QUICK_BUDGET = 20.0, 8.0  # [s] of a round, after which no request begins
WARM = 2  # requests of each thread before anything counts
EVERY = (1, 2, LARGEST)  # and these of whichever thread: one sample, and sizes of both classes that requests have
USUAL = 32  # samples of the requests of one shape


@dataclass(frozen=True)
class Round:
    """[s] of each request, and of all together."""

    latencies: list[float]
    seconds: float

    @property
    def rate(self) -> float:
        """[1/s] requests."""
        return len(self.latencies) / self.seconds


FIGURES: dict[str, Callable[[Round], float]] = {
    "p50": lambda found: float(np.percentile(found.latencies, 50)),
    "p99": lambda found: float(np.percentile(found.latencies, 99)),
    "time over requests": lambda found: 1 / found.rate}


@dataclass(frozen=True)
class Serving(Apart):
    """Rows of p50 and p99 of latency, and time over number of requests [ms], batches of 1 to 64 at random, from 8
    threads; beside them those of batches of one size. Ratios are of rounds.
    """

    task: Task
    quick: bool = False

    @property
    def name(self) -> str:
        return f"{self.task.name.split()[0]} predict from {THREADS} threads"

    def measure(self, setting: Setting) -> list[Row]:
        rounds, count, budget = ((QUICK_ROUNDS, QUICK_REQUESTS, QUICK_BUDGET) if setting.quick
                                 else (ROUNDS, REQUESTS, BUDGET))
        runners = [ours(self.task, "predict", setting.engine), *peers_of(self.task, "predict", setting)]
        counters = setting.engine.programs.counters
        tasks = iter([shaped(self.task, batch=n) for n in drawn(THREADS * WARM + rounds * count)])
        warm = [*itertools.islice(tasks, THREADS * WARM), *(shaped(self.task, batch=n) for n in EVERY)]
        found: dict[str, list[Round]] = {r.name: [] for r in runners}
        with contextlib.ExitStack() as stack:
            # Threads that stay: each has its own recordings.
            threads = {r.name: stack.enter_context(ThreadPoolExecutor(THREADS)) for r in runners}
            for r in runners:
                r.attempt(served, r, threads[r.name], warm)
            before = counters().builds
            for _ in range(rounds):
                part = list(itertools.islice(tasks, count))
                for r in runners:
                    found[r.name] += filter(None, [r.attempt(served, r, threads[r.name], part, budget)])
            built, usual = counters().builds - before, [shaped(self.task, batch=USUAL)] * count
            for r in runners:
                r.attempt(served, r, threads[r.name], usual[: 2 * THREADS])
            steady = {r.name: r.attempt(served, r, threads[r.name], usual, budget) for r in runners}
        return self._rows(setting, runners, found, steady, built)

    def _rows(self, setting: Setting, runners: Sequence[Runner], found: dict[str, list[Round]],
              steady: dict[str, Round | None], built: int) -> list[Row]:
        me, *others = runners
        if me.problem:
            return [setting.row(self.suite, self.name, note=me.problem, failed=True)]
        rows = []
        for words, figure in FIGURES.items():
            mine = [figure(r) for r in found[me.name]]
            rate = statistics.median(r.rate for r in found[me.name])
            bare = setting.row(self.suite, f"{self.name}: {words}", ours_ms=ms(statistics.median(mine)), built=built,
                               steady_ms=_figure(figure, steady[me.name]), note=f"{rate:.1f} requests/s")
            for o in others:
                pairs = [(m, figure(r)) for m, r in zip(mine, found[o.name], strict=False)]
                row = against(bare, o, pairs)
                rows.append(replace(row, peer_steady_ms=_figure(figure, steady[o.name]), note=row.note + (
                    f", its {statistics.median(r.rate for r in found[o.name]):.1f}" if row.peer_ms else "")))
            rows += [] if others else [bare]
        return rows


def _figure(figure: Callable[[Round], float], of: Round | None) -> float | None:
    return None if of is None else ms(figure(of))


def drawn(count: int) -> list[int]:
    """Batch sizes at random, always the same."""
    return [int(n) for n in np.random.default_rng(0).integers(1, LARGEST + 1, count)]


def served(runner: Runner, threads: ThreadPoolExecutor, requests: Sequence[Task], budget: float = math.inf) -> Round:
    """The requests, each by the next thread that is free, until all are done or [s] are over; one there is."""
    time.sleep(runner.pause)
    start = time.perf_counter()

    def one(request: Task) -> float | None:
        if time.perf_counter() - start > budget:
            return None
        call, begin = runner.prepare(request), time.perf_counter()
        call()
        return time.perf_counter() - begin

    found = [seconds for seconds in threads.map(one, requests) if seconds is not None]
    return Round(found, time.perf_counter() - start)


def works() -> list[Serving]:
    """The smallest of the bench's networks in the quick form, its convolutions in the other."""
    registry.load_all()
    tasks = {t.name.split()[0]: t for t in reversed(bench_steps.tasks())}
    return [Serving(tasks["mlp"], True), Serving(tasks["cnn"])]
