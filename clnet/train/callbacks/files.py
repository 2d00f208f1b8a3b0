"""Callbacks that write files: checkpoints, and the history as CSV, JSON and TensorBoard's events."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from .base import Callback

if TYPE_CHECKING:
    from ..trainer import Trainer


def check_folder(who: str, path: Path) -> None:
    """Raises ConfigError where no file can lie there: before hours of training, not behind them."""
    if os.path.isdir(path):
        raise ConfigError(f"{who}({str(path)!r}): expected the path of a file; got a folder; name a file in it.")
    if not os.path.isdir(path.parent):
        folder = repr(str(path.parent))
        raise ConfigError(f"{who}({str(path)!r}): expected a folder that exists; got {folder}; create it: "
                          f"Path({folder}).mkdir(parents=True).")


class Checkpoint(Callback):
    """Writes everything that `fit(resume=path)` needs, every `every` epochs and, if given, every `steps` steps."""

    def __init__(self, path: str | Path, every: int = 1, steps: int | None = None) -> None:
        if every < 1 or (steps is not None and steps < 1):
            raise ConfigError(f"Checkpoint(every={every!r}, steps={steps!r}): expected whole numbers of at least 1.")
        self.path, self.every, self.steps = Path(path), every, steps

    def on_prepare(self, trainer: Trainer) -> None:
        check_folder("Checkpoint", self.path)

    def on_batch_end(self, trainer: Trainer) -> None:
        if self.steps and trainer.optimizer.t % self.steps == 0:
            trainer.save_checkpoint(self.path)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if int(logs["epoch"]) % self.every == 0:
            trainer.save_checkpoint(self.path)


class _Log(Callback):
    """A file of numbers. Where it cannot be written, that is a warning: a full disk ends no training."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def on_prepare(self, trainer: Trainer) -> None:
        check_folder(type(self).__name__, self.path)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        try:
            self.write(trainer, logs)
        except OSError as error:
            warnings.warn(f"{type(self).__name__}({str(self.path)!r}): epoch {int(logs['epoch'])} is not in it: "
                          f"{error}; the training goes on.", RuntimeWarning, stacklevel=2)

    def write(self, trainer: Trainer, logs: dict[str, float]) -> None:
        raise NotImplementedError


class CSVLog(_Log):
    """The rows of the history as a CSV file, rewritten after each epoch."""

    def write(self, trainer: Trainer, logs: dict[str, float]) -> None:
        history, text = trainer.history, io.StringIO()
        writer = csv.DictWriter(text, history.columns())
        writer.writeheader()
        writer.writerows(history.rows)
        self.path.write_text(text.getvalue(), newline="")


class JSONLog(_Log):
    """A JSON object per line and epoch, appended."""

    def write(self, trainer: Trainer, logs: dict[str, float]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({k: v if math.isfinite(v) else None for k, v in logs.items()}) + "\n")


class TensorBoard(Callback):
    """The numbers of each epoch, and the loss of each step, as events that TensorBoard shows: `tensorboard --logdir
    FOLDER`. Needs the package tensorboardX. Raises ConfigError without it.

    folder  where a run's events go; one folder a run
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.writer: Any = None
        self.steps = 0
        _writer()

    def on_train_begin(self, trainer: Trainer) -> None:
        self.writer, self.steps = _writer()(str(self.folder)), len(trainer.history.steps)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        losses, done = trainer.history.steps, trainer.optimizer.t
        for k in range(self.steps, len(losses)):
            self.writer.add_scalar("step/loss", losses[k], done - len(losses) + k + 1)
        self.steps = len(losses)
        for name, value in logs.items():
            if name != "epoch" and math.isfinite(value):
                part = "validation" if name.startswith("val_") else "training"
                self.writer.add_scalar(f"{part}/{name.removeprefix('val_')}", value, int(logs["epoch"]))
        self.writer.flush()

    def on_train_end(self, trainer: Trainer) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None


def _writer() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ConfigError("TensorBoard: expected the package tensorboardX, which is not installed; "
                          "pip install 'clnet[tensorboard]', or pip install tensorboardX.") from None
    return SummaryWriter
