"""Learning rates by step t = 1, 2, …; computed on the host in double precision, fed to the step as an argument."""

from __future__ import annotations

import math

from ..config import Configured, field, fraction, positive


class Schedule(Configured):
    """Base of schedules."""

    def at(self, t: int) -> float:
        """The rate of step t."""
        raise NotImplementedError(f"{type(self).__name__}.at")


class Constant(Schedule):
    """lr"""

    lr: float = positive(0.01, doc="the rate")

    def at(self, t: int) -> float:
        return self.lr


class StepDecay(Schedule):
    """lr · gamma^⌊(t − 1) / every⌋"""

    aliases = ("step",)
    lr: float = positive(0.01, doc="first rate")
    every: int = positive(1000, doc="steps between drops")
    gamma: float = field(0.1, doc="factor of a drop", gt=0, le=1)

    def at(self, t: int) -> float:
        return self.lr * self.gamma ** ((t - 1) // self.every)


class Cosine(Schedule):
    """end + ½(lr − end)(1 + cos(π · min(t − 1, steps) / steps))

    Paper: Loshchilov & Hutter 2017, arXiv:1608.03983 (without restarts).
    """

    aliases = ("cosine",)
    lr: float = positive(0.01, doc="first rate")
    steps: int = positive(1000, doc="steps until `end`")
    end: float = field(0.0, doc="last rate", ge=0)

    def at(self, t: int) -> float:
        return self.end + 0.5 * (self.lr - self.end) * (1 + math.cos(math.pi * min(t - 1, self.steps) / self.steps))


class WarmUp(Schedule):
    """after.at(t − steps) from step `steps` + 1 on; before, a line from start · r to r, r the rate that follows."""

    aliases = ("warmup",)
    after: Schedule | float = field(0.01, doc="the rate or schedule that follows")
    steps: int = positive(100, doc="length of the warm-up")
    start: float = fraction(0.0, doc="first rate as a fraction of the rate that follows")

    def at(self, t: int) -> float:
        later = self.after.at(max(t - self.steps, 1)) if isinstance(self.after, Schedule) else float(self.after)
        share = min(t / self.steps, 1.0)
        return later * (self.start + (1 - self.start) * share)
