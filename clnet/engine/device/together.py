"""All programs of a plan at once: put together, so that the compiler starts seldom, and compiled side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...errors import KernelBuildError
from . import compilers
from .compile_line import Line
from .compilers import Job, Work
from .joined import joined, outer
from .program_files import reference

if TYPE_CHECKING:
    from .programs import ProgramCache

Tell = Callable[[int, int], None]
START = 0.1  # [s] until a process compiles
LEAST = 0.15  # [s] of programs that are worth a job of their own
USUAL = 0.05  # [s] that a program takes
# [s] that others take, on a core of 2021 (Intel's runtime): what is long is started first.
LONGER = {"winograd": 0.2, "winograd_weights": 0.2, "conv": 0.13, "conv_weights": 0.17, "matmul": 0.09,
          "map_mul_bit_xor": 0.13, "attention": 0.3, "attention_gradient": 0.4}


@dataclass(frozen=True)
class Wanted:
    """A program that has to be compiled, and the kernels that are asked of it."""

    text: str
    key: str
    kernels: tuple[str, ...]

    @cached_property
    def seconds(self) -> float:
        return sum(LONGER.get(name, USUAL) for name in self.kernels)

    @cached_property
    def joins(self) -> bool:
        """Whether it can stand in one text with others."""
        return outer(self.text) is not None


def grouped(wanted: Sequence[Wanted], workers: int) -> list[list[Wanted]]:
    """What is compiled as one program, the longest first: ever smaller parts, so that all workers end together.
    No two of a group have a kernel of the same name.
    """
    rest, found = list(wanted), []
    while rest:
        often = Counter(name for w in rest for name in w.kernels)  # such names are what would be left over
        rest.sort(key=lambda w: (-w.seconds, -max(often[name] for name in w.kernels)))
        share = max(sum(w.seconds for w in rest) / (2 * workers), LEAST)
        group, left, names = list[Wanted](), list[Wanted](), set[str]()
        for w in rest:
            fits = sum(g.seconds for g in group) + w.seconds <= share and not names & set(w.kernels)
            if not group or (fits and w.joins and group[0].joins):
                group.append(w)
                names |= set(w.kernels)
            else:
                left.append(w)
        found.append(group)
        rest = left
    return found


class Together:
    """Programs of one cache that are compiled at one time."""

    def __init__(self, cache: ProgramCache, options: Sequence[str], wanted: Sequence[Wanted], total: int,
                 tell: Tell | None) -> None:
        self.cache, self.options, self.tell, self.total = cache, options, tell, total
        self.ready = total - len(wanted)
        seconds = sum(w.seconds for w in wanted)
        pays = int(seconds / (2 * START))  # with less to do the processes would come too late
        workers = 1 + (compilers.start(pays) if pays else 0)
        self.work = Work(self._job(group) for group in grouped(wanted, workers))

    def _job(self, group: Sequence[Wanted]) -> Job:
        cache = self.cache
        text = group[0].text if len(group) == 1 else joined((w.text, w.kernels) for w in group)
        key = group[0].key if len(group) == 1 else cache.key(text, self.options)
        return Job(cache.question(text, self.options), sum(w.seconds for w in group),
                   lambda binary: cache.store.write(key, binary), (group, text, key))

    def run(self) -> None:
        """Compiles all of them into the store. What the compiler refuses is left to whoever asks for it alone."""
        compilers.offer(self.work)
        line = Line()
        self.tell = self.tell or line
        self._say()
        try:
            self.work.each(self._make, self._done)
        finally:
            line.end()

    def _make(self, job: Job) -> None:
        group, text, key = job.of
        try:
            self.cache.keep(key, self.cache.build(text, self.options, group[0].kernels[0]))
        except KernelBuildError:
            job.of = (), text, key

    def _done(self, job: Job | None) -> None:
        group, _, key = job.of if job else ((), "", "")
        for w in group:
            if len(group) > 1:
                self.cache.store.write(w.key, reference(key, w.kernels))
        self.cache.built([w.key for w in group])
        self.ready += len(group)
        self._say()

    def _say(self) -> None:
        if self.tell:
            self.tell(self.ready, self.total)


def prepare(cache: ProgramCache, wanted: Mapping[str, Any], options: Sequence[str], tell: Tell | None) -> bool:
    """`ProgramCache.prepare`."""
    missing = [Wanted(text, key, tuple(dict.fromkeys(kernels))) for text, kernels in wanted.items()
               if cache.lacks(key := cache.key(text, options), text)]
    if len(missing) < 2:
        return False
    Together(cache, options, missing, len(wanted), tell).run()
    return True
