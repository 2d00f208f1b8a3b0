"""Callbacks that write files: checkpoints, and the history as CSV, JSON and TensorBoard's events."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from .base import Callback

if TYPE_CHECKING:
    from ..trainer import Trainer


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
