"""Sequences of random lengths, one after the other, as data sets of text and signals have them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ....errors import OutOfDeviceMemory
from ..compare import Setting, rouse
from ..peers import Run
from ..row import Row
from ..suites.steps import Task
from .apart import Apart
from .networks import LONGEST, ragged
from .runners import KINDS, SAMPLES, Attempts, Runner, against, ms, ours, peers_of, shaped

SHORTEST = 8
STEPS, QUICK_STEPS = 1000, 40
CHUNK = 10  # steps in a row, then the peer takes the same; what is built after the first of them is counted
BUDGET, QUICK_BUDGET = 120.0, 15.0  # [s] of ours, after which no chunk begins; two there are
TABLE, QUICK_TABLE = 10, 3  # lengths that are timed when they are known


@dataclass
class Walk:
    """What a run over random lengths came to: [s] a chunk, ours and the peers'; programs built after the first chunk;
    [bytes] of our buffers in use before and after; `full`: what ended it, if memory did.
    """

    mine: list[float] = field(default_factory=list)
    its: dict[str, list[float]] = field(default_factory=dict)
    built: int = 0
    before: int = 0
    after: int = 0
    full: str = ""


@dataclass
class Walker:
    """Someone on the way through lengths. `known`: a step of a length that it has seen."""

    runner: Runner
    known: Run | None = None

    def chunk(self, tasks: Sequence[Task]) -> float:
        """[s] of a step on each of these, each waited for; data are made before, and threads are awake."""
        calls = [self.runner.prepare(t) for t in tasks]
        if self.known and self.runner.pause:
            rouse(self.known, self.runner.finish, self.runner.pause)
        else:  # nothing is known yet, or nobody's threads spin
            time.sleep(self.runner.pause)
        self.known = calls[0]
        return sum(map(self.runner.timed, calls))

    def steady(self, task: Task) -> float:
        """[s] of a step in chunks of one length, which is known."""
        self.chunk([task])
        return statistics.median(self.chunk([task] * CHUNK) for _ in range(SAMPLES)) / CHUNK


@dataclass(frozen=True)
class RandomLengths(Apart):
    """[ms] a step over sequences of 8 to 512 steps, and what the same steps would take were each length known: that is
    interpolated between some of the lengths that were drawn, each timed steady. Ratios are of chunks of steps.
    """

    again: ClassVar[bool] = True
    task: Task
    kind: str
    quick: bool = False

    @property
    def name(self) -> str:
        return f"{self.task.name} {self.kind}, lengths {SHORTEST} to {LONGEST} at random"

    def measure(self, setting: Setting) -> list[Row]:
        lengths = drawn(QUICK_STEPS if setting.quick else STEPS)
        walk = self.walked(setting, lengths, QUICK_BUDGET if setting.quick else BUDGET)
        gc.collect()  # what was recorded for all these lengths
        done = lengths[: CHUNK * len(walk.mine)]
        table = among(done, QUICK_TABLE if setting.quick else TABLE)
        if not done:
            return [setting.row(self.suite, self.name, note=walk.full, failed=True)]
        # A network of its own: how many lengths one has seen before does not count here.
        me, others = ours(self.task, self.kind, setting.engine), peers_of(self.task, self.kind, setting)
        steady = {r.name: r.attempt(self._steady, r, table, done) for r in (me, *others)}
        mine = steady[me.name]
        later = "" if mine is None else (f"; after the first {CHUNK} {sum(walk.mine[1:]) / mine[CHUNK:].sum():.2f} "
                                         "of steady")
        short = f"; ended after {BUDGET if not setting.quick else QUICK_BUDGET:.0f} s" * (len(done) < len(lengths))
        bare = setting.row(self.suite, self.name, ours_ms=ms(sum(walk.mine) / len(done)), steady_ms=mean(mine),
                           built=walk.built, pool_before=walk.before, pool_after=walk.after, failed=bool(walk.full),
                           note=f"{len(done)} steps of {len(lengths)}, {len(set(done))} lengths{later}"
                                f"{f'; {walk.full}' if walk.full else short}")
        return [self._against(bare, o, walk, mean(steady[o.name])) for o in others] or [bare]

    def walked(self, setting: Setting, lengths: Sequence[int], budget: float) -> Walk:
        """Chunk after chunk, everybody in turn, until all are done, or we took the budget [s], or all memory."""
        engine, walk = setting.engine, Walk()
        walk.before = engine.pool.statistics().active
        me = Walker(ours(self.task, self.kind, engine))
        others = [Walker(r) for r in peers_of(self.task, self.kind, setting)]
        walk.its, built = {o.runner.name: [] for o in others}, 0
        for k in range(0, len(lengths), CHUNK):
            if len(walk.mine) >= 2 and sum(walk.mine) > budget:
                break
            tasks = [shaped(self.task, length=n) for n in lengths[k : k + CHUNK]]
            try:
                walk.mine.append(me.chunk(tasks))
            except OutOfDeviceMemory as error:
                walk.full = " ".join(str(error).split())[:160]
                break
            built = engine.programs.counters().builds if k == 0 else built
            for o in others:
                seconds = o.runner.attempt(o.chunk, tasks)
                walk.its[o.runner.name] += [] if seconds is None else [seconds]
        walk.built, walk.after = engine.programs.counters().builds - built, engine.pool.statistics().active
        return walk

    def _steady(self, runner: Runner, table: Sequence[int], lengths: Sequence[int]) -> np.ndarray[Any, Any]:
        """[s] of each step, were all lengths known."""
        walker = Walker(runner)
        return np.interp(lengths, table, [walker.steady(shaped(self.task, length=n)) for n in table])

    def _against(self, bare: Row, peer: Attempts, walk: Walk, steady: float | None) -> Row:
        its = walk.its[peer.name]
        row = replace(against(bare, peer, list(zip(walk.mine, its, strict=False))), peer_steady_ms=steady)
        # The chunks' times are of other lengths each: their mean counts, not their median.
        return row if row.peer_ms is None else replace(row, peer_ms=ms(sum(its) / (CHUNK * len(its))))


def mean(seconds: np.ndarray[Any, Any] | None) -> float | None:
    """[ms]"""
    return None if seconds is None else ms(float(seconds.mean()))


def drawn(count: int) -> list[int]:
    """Lengths at random, always the same."""
    return [int(n) for n in np.random.default_rng(0).integers(SHORTEST, LONGEST + 1, count)]


def among(lengths: Sequence[int], count: int) -> list[int]:
    """So many of the lengths, from the least to the largest. Lengths of one's own choice would be round ones, of which
    every kernel is quicker.
    """
    known = sorted(set(lengths))
    return [known[round(k)] for k in np.linspace(0, len(known) - 1, count)] if known else []


def works() -> list[RandomLengths]:
    return [RandomLengths(t, kind, (t.name, kind) == ("bilstm", "predict")) for t in ragged() for kind in KINDS]
