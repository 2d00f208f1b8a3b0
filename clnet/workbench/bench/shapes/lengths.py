"""Sequences of random lengths, one after the other, as data sets of text and signals have them."""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Iterator, Sequence
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
from .runners import KINDS, Runner, against, ms, ours, peers_of, shaped

SHORTEST = 8
STEPS, QUICK_STEPS = 1000, 40
CHUNK = 10  # steps in a row, then the peer takes the same; what is built after the first of them is counted
BUDGET, QUICK_BUDGET = 120.0, 15.0  # [s] of ours, after which no chunk begins but the EARLY ones
EARLY = 3  # chunks, some of whose lengths are timed again and again when they are known: between the chunks that follow
TABLE, QUICK_TABLE = 10, 3  # so many of them


@dataclass
class Walk:
    """What a run over random lengths came to: programs built after the first chunk; [bytes] of our buffers in use
    before and after; `full`: what ended it, if memory did.
    """

    built: int = 0
    before: int = 0
    after: int = 0
    full: str = ""


@dataclass
class Walker:
    """Someone on the way through lengths. `known`: a step of a length that it has seen; `took`: [s] a chunk; `paces`:
    [s] a step of one length, in chunks of it.
    """

    runner: Runner
    known: Run | None = None
    took: list[float] = field(default_factory=list)
    paces: dict[int, list[float]] = field(default_factory=dict)

    def chunk(self, tasks: Sequence[Task]) -> float:
        """[s] of a step on each of these, each waited for; data are made before, and threads are awake."""
        calls = [self.runner.prepare(t) for t in tasks]
        time.sleep(self.runner.pause)
        if self.known and self.runner.pause:  # else nothing is known yet, or nobody's threads spin
            rouse(self.known, self.runner.finish)
        self.known = calls[0]
        return sum(map(self.runner.timed, calls))

    def walk(self, tasks: Sequence[Task]) -> None:
        """A chunk of lengths as they come."""
        self.took.append(self.chunk(tasks))

    def pace(self, task: Task, length: int) -> None:
        """A chunk of one length, which is known."""
        self.chunk([task])
        seconds = self.chunk([task] * CHUNK) / CHUNK  # or it breaks, and then there is nothing of this length
        self.paces.setdefault(length, []).append(seconds)

    def steady(self, lengths: Sequence[int]) -> np.ndarray[Any, Any] | None:
        """[s] of each step, were all lengths known; those beyond all that were timed count as the outermost. None where
        none was timed.
        """
        known = sorted(self.paces)
        return np.interp(lengths, known, [statistics.mean(self.paces[n]) for n in known]) if known else None


@dataclass(frozen=True)
class RandomLengths(Apart):
    """[ms] a step over sequences of 8 to 512 steps, and what the same steps would take were each length known: that is
    interpolated between some of the lengths, each timed steady between the chunks, so that both are of the same hour.
    Ratios are of chunks of steps.
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
        budget = QUICK_BUDGET if setting.quick else BUDGET
        me = Walker(ours(self.task, self.kind, setting.engine))
        others = [Walker(r) for r in peers_of(self.task, self.kind, setting)]
        with _unwalked():
            walk = self.walked(setting, me, others, lengths, budget)
        done = lengths[: CHUNK * len(me.took)]
        if not done:
            return [setting.row(self.suite, self.name, note=walk.full, failed=True)]
        mine, problem = me.steady(done), walk.full or me.runner.problem
        later = "" if mine is None else (f"; after the first {CHUNK} {sum(me.took[1:]) / mine[CHUNK:].sum():.2f} "
                                         "of steady")
        short = f"; ended after {budget:.0f} s" * (len(done) < len(lengths))
        bare = setting.row(self.suite, self.name, ours_ms=ms(sum(me.took) / len(done)), steady_ms=mean(mine),
                           built=walk.built, pool_before=walk.before, pool_after=walk.after, failed=bool(problem),
                           note=f"{len(done)} steps of {len(lengths)}, {len(set(done))} lengths{later}"
                                f"{f'; {problem}' if problem else short}")
        return [self._against(bare, me, o, done) for o in others] or [bare]

    def walked(self, setting: Setting, me: Walker, others: Sequence[Walker], lengths: Sequence[int],
               budget: float) -> Walk:
        """Chunk after chunk, everybody in turn, until all are done, or we took the budget [s], or all memory."""
        engine, walk = setting.engine, Walk()
        walk.before = engine.pool.statistics().active
        table = among(lengths[: CHUNK * EARLY], QUICK_TABLE if setting.quick else TABLE)
        built = 0
        for k in range(0, len(lengths), CHUNK):
            if len(me.took) >= EARLY and sum(me.took) > budget:
                break
            tasks = [shaped(self.task, length=n) for n in lengths[k : k + CHUNK]]
            try:
                me.walk(tasks)
            except OutOfDeviceMemory as error:
                walk.full = " ".join(str(error).split())[:160]
                break
            built = engine.programs.counters().builds if k == 0 else built
            for o in others:
                o.runner.attempt(o.walk, tasks)
            if len(me.took) > EARLY:
                self._paced((me, *others), table[len(me.took) % len(table)])
        walk.built, walk.after = engine.programs.counters().builds - built, engine.pool.statistics().active
        for n in set(table).intersection(lengths[: CHUNK * len(me.took)]).difference(me.paces):  # the run was short
            self._paced((me, *others), n)
        return walk

    def _paced(self, walkers: Sequence[Walker], length: int) -> None:
        for w in walkers:
            w.runner.attempt(w.pace, shaped(self.task, length=length), length)

    def _against(self, bare: Row, me: Walker, peer: Walker, lengths: Sequence[int]) -> Row:
        row = against(bare, peer.runner, list(zip(me.took, peer.took, strict=False)))
        # The chunks' times are of other lengths each: their mean counts, not their median.
        return row if row.peer_ms is None else replace(row, peer_ms=ms(sum(peer.took) / (CHUNK * len(peer.took))),
                                                       peer_steady_ms=mean(peer.steady(lengths)))


def mean(seconds: np.ndarray[Any, Any] | None) -> float | None:
    """[ms]"""
    return None if seconds is None else ms(float(seconds.mean()))


@contextlib.contextmanager
def _unwalked() -> Iterator[None]:
    """In the block the collector of cycles does not walk what is there already: modules, those of the peers among them,
    which take it tens of milliseconds in whoever's step it comes.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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
