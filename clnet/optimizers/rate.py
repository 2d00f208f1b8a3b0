"""What a schedule of the learning rate is, all that an optimizer knows of it; those that there are: schedules.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config.fields import Configured, choice
from ..errors import ConfigError
from ..habits import SCHEDULE
from ..names import lacking


class Schedule(Configured):
    """Base of schedules. `unit` is what t counts; keyword arguments `lr` (base rate) and `unit`
    come last in every subclass.
    """

    recorded = False
    unit: str = choice("step", ("step", "epoch"), doc="what t counts: steps or epochs", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reset()

    if not TYPE_CHECKING:  # else every attribute would count as there

        def __getattr__(self, name: str) -> Any:
            raise lacking(self, name, SCHEDULE.get)

    # --- what a schedule states
    def at(self, t: int) -> float:
        """The rate at t = 0, 1, …"""
        raise NotImplementedError(f"{type(self).__name__}.at")

    def observe(self, value: float) -> None:
        """The monitored quantity after an epoch."""

    def reset(self) -> None:
        """Forgets what was observed."""

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps: numbers."""
        return {}

    def load_state(self, state: Mapping[str, float]) -> None:
        """The inverse of `state`."""

    # --- how it is driven
    @property
    def monitored(self) -> str:
        """The quantity that it follows, "" for those of t alone."""
        return str(getattr(self, "monitor", ""))

    def value(self, step: int, epoch: int) -> float:
        """The rate in this step of this epoch, both counted from 0."""
        return self.at(epoch if self.unit == "epoch" else step)

    def react(self, logs: Mapping[str, float], step: int, epoch: int) -> None:
        """The epoch is over with these logs. Raises ConfigError where the monitored quantity is not among them."""
        if self.monitored:
            if self.monitored not in logs:
                raise ConfigError(
                    f"{self!r}: expected monitor= to be one of {', '.join(logs)}; "
                    "pass validation= for val_ quantities.")
            self.observe(float(logs[self.monitored]))

    def parts(self) -> list[Schedule]:
        """Itself and the schedules inside."""
        return [self]
