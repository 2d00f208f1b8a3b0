"""Callbacks of a few lines: functions at events, and an end by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...names import ending
from .base import EVENTS, Callback

if TYPE_CHECKING:
    from ..trainer import Trainer


class LambdaCallback(Callback):
    """Functions at events: LambdaCallback(on_epoch_end=lambda trainer, logs: print(logs["loss"])).

    Raises ConfigError for an event that there is not, and what is no function.
    """

    def __init__(self, **functions: Callable[..., Any]) -> None:
        for event, fn in functions.items():
            if event not in EVENTS:
                raise ConfigError(f"LambdaCallback: expected events {', '.join(EVENTS)}; got {event!r}"
                                  f"{ending(event, EVENTS)}")
            if not callable(fn):
                raise ConfigError(f"LambdaCallback({event}=...): expected a function; got {fn!r}.")
        if not functions:
            raise ConfigError(f"LambdaCallback: expected a function at least at one of {', '.join(EVENTS)}.")
        self.functions = functions

    def _called(self, event: str, *arguments: Any) -> None:
        if event in self.functions:
            self.functions[event](*arguments)

    def on_prepare(self, trainer: Trainer) -> None:
        self._called("on_prepare", trainer)

    def on_train_begin(self, trainer: Trainer) -> None:
        self._called("on_train_begin", trainer)

    def on_compile(self, trainer: Trainer, done: int, total: int) -> None:
        self._called("on_compile", trainer, done, total)

    def on_batch_end(self, trainer: Trainer) -> None:
        self._called("on_batch_end", trainer)

    def on_logs(self, trainer: Trainer, logs: dict[str, float]) -> None:
        self._called("on_logs", trainer, logs)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        self._called("on_epoch_end", trainer, logs)

    def on_train_end(self, trainer: Trainer) -> None:
        self._called("on_train_end", trainer)


class TimeLimit(Callback):
    """Ends training with the step in which the time is up; the epoch that is under way gets no row of the history.

    seconds  of the run, compiling included
    """

    def __init__(self, seconds: float) -> None:
        if not isinstance(seconds, (int, float)) or not seconds > 0:
            raise ConfigError(f"TimeLimit(seconds={seconds!r}): expected a number above 0.")
        self.seconds, self.started = float(seconds), 0.0

    def on_train_begin(self, trainer: Trainer) -> None:
        self.started = time.perf_counter()

    def on_batch_end(self, trainer: Trainer) -> None:
        if time.perf_counter() - self.started > self.seconds:
            trainer.stop(f"{self.seconds:g} seconds are up")
            raise KeyboardInterrupt
