"""Callbacks: what happens beside training. Any object with some of Callback's methods is one."""

from __future__ import annotations

import csv
import json
import math
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError
from ..metrics.base import higher_is_better
from ..model.files import save, set_values, values
from ..names import guide as _guide

if TYPE_CHECKING:
    from .trainer import Trainer

EVENTS = ("on_train_begin", "on_compile", "on_batch_end", "on_logs", "on_epoch_end", "on_train_end")


class Callback:
    """Override what you need. `display` callbacks that fail are disabled with one warning and never stop training.

    on_train_begin(trainer)            before the first step
    on_compile(trainer, done, total)   while the kernels of a step are built, of which there are `total`
    on_batch_end(trainer)              after every step was put to the device; nothing is read back for it
    on_logs(trainer, logs)             whenever losses were read: means of the running epoch, "epoch", "samples"
    on_epoch_end(trainer, logs)        the row of the history, validation included
    on_train_end(trainer)              always, also after an error or Ctrl-C
    """

    display = False

    def on_train_begin(self, trainer: Trainer) -> None: ...
    def on_compile(self, trainer: Trainer, done: int, total: int) -> None: ...
    def on_batch_end(self, trainer: Trainer) -> None: ...
    def on_logs(self, trainer: Trainer, logs: dict[str, float]) -> None: ...
    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None: ...
    def on_train_end(self, trainer: Trainer) -> None: ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it: numbers, strings, None and NumPy arrays."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""


def several(callbacks: object) -> list[Any]:
    """One callback, or those in a list, as a list. Raises ConfigError for what is none."""
    found = list(callbacks) if isinstance(callbacks, (list, tuple)) else [] if callbacks is None else [callbacks]
    for c in found:
        if isinstance(c, type):
            raise ConfigError(
                f"fit: expected callbacks; got the class {c.__name__}; make one of it: {c.__name__}(...).")
        if not any(callable(getattr(c, event, None)) for event in EVENTS):
            raise ConfigError(
                f"fit: expected callbacks, as EarlyStopping(), or objects with a method {', '.join(EVENTS)}; "
                f"got {c!r}.")
    return found


class Callbacks:
    """The callbacks of one run, called in order."""

    def __init__(self, callbacks: Sequence[Any], trainer: Trainer) -> None:
        self.all = list(callbacks)
        self._trainer = weakref.ref(trainer)
        self._disabled: set[int] = set()
        # Most callbacks do not look at every batch: those that do are found once, not once a step.
        none = Callback.on_batch_end
        self._each_batch = [c for c in self.all if getattr(type(c), "on_batch_end", none) is not none]

    def batch_end(self) -> None:
        if self._each_batch:
            self.call("on_batch_end", among=self._each_batch)

    def call(self, event: str, *arguments: Any, among: list[Any] | None = None) -> None:
        for c in self.all if among is None else among:
            method = getattr(c, event, None)
            if method is None or id(c) in self._disabled:
                continue
            try:
                method(self._trainer(), *arguments)
            except Exception as error:
                if not getattr(c, "display", False):
                    raise
                self._disabled.add(id(c))
                warnings.warn(f"{type(c).__name__}.{event} failed and is switched off: {type(error).__name__}: {error}",
                              RuntimeWarning, stacklevel=2)


class _Watching(Callback):
    """Base of callbacks that follow one quantity: `monitor` is a column of the history,
    `mode` whether low or high is good.
    """

    def __init__(self, monitor: str = "val_loss", mode: str = "auto", min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise ConfigError(f"{type(self).__name__}(mode={mode!r}): expected 'auto', 'min' or 'max'.")
        self.monitor, self.min_delta = monitor, min_delta
        self.sign = -1.0 if mode == "max" or (mode == "auto" and higher_is_better(monitor)) else 1.0
        self.best = math.inf  # of sign · value

    def improved(self, logs: dict[str, float]) -> bool:
        if self.monitor not in logs:
            raise ConfigError(
                f"{type(self).__name__}(monitor={self.monitor!r}): expected one of {', '.join(logs)}; "
                "pass validation= for val_ quantities.")
        value = self.sign * logs[self.monitor]
        if not value < self.best - self.min_delta:
            return False
        self.best = value
        return True


class EarlyStopping(_Watching):
    """Ends training when `monitor` has not improved by `min_delta` for `patience` epochs;
    `restore_best` brings back the best parameters.
    """

    def __init__(self, monitor: str = "val_loss", patience: int = 5, min_delta: float = 0.0, mode: str = "auto",
                 restore_best: bool = False) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.restore_best = patience, restore_best
        self.waited, self.best_epoch = 0, 0
        self.kept: dict[str, np.ndarray[Any, Any]] = {}

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if self.improved(logs):
            self.waited, self.best_epoch = 0, int(logs["epoch"])
            self.kept = values(trainer.model) if self.restore_best else {}
            return
        self.waited += 1
        if self.waited >= self.patience:
            trainer.stop(f"{self.monitor} did not improve for {self.patience} epochs")

    def on_train_end(self, trainer: Trainer) -> None:
        if self.kept:
            set_values(trainer.model, self.kept)

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited, "best_epoch": self.best_epoch,
                **{f"kept.{k}": v for k, v in self.kept.items()}}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best, self.waited, self.best_epoch = state["best"], state["waited"], state["best_epoch"]
        self.kept = {k.removeprefix("kept."): v for k, v in state.items() if k.startswith("kept.")}


class Checkpoint(Callback):
    """Writes everything that `fit(resume=path)` needs, every `every` epochs and, if given, every `steps` steps."""

    def __init__(self, path: str | Path, every: int = 1, steps: int | None = None) -> None:
        if every < 1 or (steps is not None and steps < 1):
            raise ConfigError(f"Checkpoint(every={every!r}, steps={steps!r}): expected whole numbers of at least 1.")
        self.path, self.every, self.steps = Path(path), every, steps

    def on_batch_end(self, trainer: Trainer) -> None:
        if self.steps and trainer.optimizer.t % self.steps == 0:
            trainer.save_checkpoint(self.path)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if int(logs["epoch"]) % self.every == 0:
            trainer.save_checkpoint(self.path)


class ModelCheckpoint(_Watching):
    """Saves the model (as `model.save` does) whenever `monitor` is the best so far,
    or with best_only=False after every epoch.
    """

    def __init__(self, path: str | Path, monitor: str = "val_loss", mode: str = "auto", best_only: bool = True) -> None:
        super().__init__(monitor, mode)
        self.path, self.best_only = Path(path), best_only

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if not self.best_only or self.improved(logs):
            save(trainer.model, self.path)

    def state(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


class CSVLog(Callback):
    """The rows of the history as a CSV file, rewritten after each epoch."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        history = trainer.history
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, history.columns())
            writer.writeheader()
            writer.writerows(history.rows)


class JSONLog(Callback):
    """A JSON object per line and epoch, appended."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({k: v if math.isfinite(v) else None for k, v in logs.items()}) + "\n")


_guide(__name__)
