"""Whether all cores of a CPU work at the pace that they have shown.

Two processors of a virtual machine are two threads of one core for seconds at a time, or somebody else's threads share
their cores: both together then do little more than one alone, code that leaves units of a core idle loses least, and
ratios are chance. Multiply-adds that keep all units busy tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ..engine.device import roof

if TYPE_CHECKING:
    from ..engine.opencl import OpenCLEngine
    from ..engine.protocol import Engine

WHOLE = 0.85  # of the pace: less is not the cores' own (a thread that shares a core leaves a half)
LONG, PROBES = 1.5e-3, 3  # [s] that a probe takes about; a core may come late to one
PATIENCE = 5.0  # [s] for which cores are kept busy until they work at their pace
WAITS = 15.0  # [s] of such waits together
SETTLE = 0.2  # [s] the same after a sample: threads of a peer may still spin
TRIES = 4  # samples that are taken, at most, for one that counts

Rate = Callable[[], float]  # what all cores do now [GFLOP/s]


@dataclass
class Pace:
    """[GFLOP/s] of all cores together: at best ever, and what is asked of them: less where they were slower for
    `PATIENCE`, until they are seen faster. A processor slows down when it gets warm.
    """

    best: float
    asked: float


class Cores:
    """The cores of a device. `share`: of their best pace, when the last sample ended; None where nobody asks.
    `left`: [s] that may still be waited; after them samples are taken as they come.

    Without a rate there is nothing to wait for.
    """

    def __init__(self, rate: Rate | None = None, pace: Pace | None = None) -> None:
        self.rate, self.pace, self.left = rate, pace or Pace(0.0, 0.0), WAITS
        self.share: float | None = None

    def steady(self, sample: Callable[[], float], rest: Callable[[], object] = lambda: None) -> float:
        """What `sample` gives, after a rest, while the cores work at their pace; the last of TRIES where they never do.
        """
        for _ in range(TRIES):
            rest()
            if not self._awaited(PATIENCE):
                self.pace.asked = self._now()
            found = sample()
            if self._awaited(SETTLE) or self.left <= 0:
                break
        return found

    def _awaited(self, patience: float) -> bool:
        """Whether they work at their pace within so many seconds of being kept busy."""
        if self.rate is None:
            return True
        start = now = time.perf_counter()
        while not (whole := self._now() >= WHOLE * self.pace.asked) and now - start < min(patience, self.left):
            now = time.perf_counter()
        self.left -= now - start
        return whole

    def _now(self) -> float:
        assert self.rate is not None
        rate = max(self.rate() for _ in range(PROBES))
        self.pace.best, self.pace.asked = max(self.pace.best, rate), max(self.pace.asked, rate)
        self.share = rate / self.pace.best
        return rate


_paces: dict[str, Pace] = {}  # by the device's key


def cores_of(engine: Engine) -> Cores:
    """Those of the engine's device. Those of a GPU are its own, and a CPU's single one has nobody to wait for."""
    device = engine.device
    if not (engine.compiles and device.is_cpu and device.compute_units > 1) or device.is_simulator:
        return Cores()
    if device.key not in _paces:
        best = roof.known(engine).gflops
        _paces[device.key] = Pace(best, best)
    return Cores(roof.at_once(cast("OpenCLEngine", engine), LONG), _paces[device.key])


def slow(share: float | None) -> str:
    """What is to be said of a sample at this share of the cores' pace; "" at all of it."""
    return f"cores at {share:.0%} of their pace" if share is not None and share < WHOLE else ""
