"""Callbacks that follow a quantity: the best model is kept, and training ends where nothing gets better."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import metrics
from ...errors import ConfigError
from ...metrics.base import higher_is_better
from ...model.files import save, set_values, values
from .base import Callback
from .files import check_folder

if TYPE_CHECKING:
    from ..trainer import Trainer


class _Watching(Callback):
    """Base of callbacks that follow one quantity: `monitor` is a column of the history,
    `mode` whether low or high is good.
    """

    def __init__(self, monitor: str = "val_loss", mode: str = "auto", min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise ConfigError(f"{type(self).__name__}(mode={mode!r}): expected 'auto', 'min' or 'max'.")
        self.monitor, self.min_delta = monitor, min_delta
        self.sign = -1.0 if mode == "max" or (mode == "auto" and higher_is_better(monitor, metrics.METRICS)) else 1.0
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
            with trainer.loop.callbacks.measured():
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


class ModelCheckpoint(_Watching):
    """Saves the model (as `model.save` does) whenever `monitor` is the best so far,
    or with best_only=False after every epoch.
    """

    def __init__(self, path: str | Path, monitor: str = "val_loss", mode: str = "auto", best_only: bool = True) -> None:
        super().__init__(monitor, mode)
        self.path, self.best_only = Path(path), best_only

    def on_prepare(self, trainer: Trainer) -> None:
        check_folder("ModelCheckpoint", self.path)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if not self.best_only or self.improved(logs):
            with trainer.loop.callbacks.measured():
                save(trainer.model, self.path)

    def state(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state(self, state: dict[str, Any]) -> None:
        self.best = state["best"]
