"""How long steps take, apart from what is done once: recording, planning and compiling them."""

from __future__ import annotations

import time

from ..engine.record import preparing


class Pace:
    """Seconds and samples of the steps of an epoch and of the run. The first run of a step is no measure
    of the others, and counts as compiling wherever there are others.

    compiled   [s] of the run spent on recording, planning, compiling and first runs
    """

    def __init__(self) -> None:
        self._compiled = self._seconds = 0.0
        self._samples = 0.0
        self._base = preparing()
        self.begin()

    def begin(self) -> None:
        """An epoch starts, or goes on."""
        self._compiled = self.compiled
        self._base, self._started = preparing(), time.perf_counter()
        self._first, self._first_samples, self._done = 0.0, 0.0, 0.0

    @property
    def compiled(self) -> float:
        return self._compiled + preparing() - self._base

    def first(self, seconds: float, samples: int) -> None:
        """A step ran for the first time, in so many seconds without its preparation."""
        self._first += seconds
        self._first_samples += samples

    def rest(self, seconds: float) -> None:
        """So long nothing was asked of the steps: somebody paused the run."""
        self._started += seconds

    def _now(self) -> tuple[float, float]:
        """([s], samples) of the epoch's steps so far that are a measure."""
        spent = time.perf_counter() - self._started - (preparing() - self._base)
        others = self._done - self._first_samples
        return (spent - self._first, others) if others > 0 else (spent, self._done)

    def rate(self, done: float | None = None) -> float:
        """Samples a second of the run's steps; 0 while there is none to go by. `done`: samples of the epoch so far."""
        self._done = self._done if done is None else done
        seconds, samples = self._now()
        if self._done <= self._first_samples:
            seconds = samples = 0.0
        whole = self._seconds + max(seconds, 0.0)
        return (self._samples + samples) / whole if whole > 0 else 0.0

    def close(self, done: float) -> tuple[float, float]:
        """([s] that the epoch's steps take, samples/s); the epoch is over."""
        self._done = done
        seconds, samples = self._now()
        seconds = max(seconds, 1e-9)
        self._compiled += self._first if done > self._first_samples else 0.0
        self._seconds, self._samples = self._seconds + seconds, self._samples + samples
        return seconds * done / samples if samples else seconds, samples / seconds
