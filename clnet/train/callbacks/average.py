"""An average of the weights over the steps, on the device."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.state import Variable
from ...core.tensor import Tensor
from ...engine.record import Recorded
from ...errors import ConfigError
from .base import Callback

if TYPE_CHECKING:
    from ..trainer import Trainer


class EMA(Callback):
    """a ← d · a + (1 − d) · w after every step: validation, ModelCheckpoint and EarlyStopping see the averages a, which
    are the model's weights when training ends. The weights w go on being trained.

    decay   d; in the first steps t it is (1 + t) / (10 + t), where that is less
    Buffers (running statistics) are those of the weights. It stands before callbacks that restore weights.
    Paper: Polyak & Juditsky 1992, SIAM J. Control Optim. 30.
    """

    def __init__(self, decay: float = 0.999) -> None:
        if not isinstance(decay, (int, float)) or not 0 <= decay < 1:
            raise ConfigError(f"EMA(decay={decay!r}): expected a number of at least 0 and below 1.")
        self.decay, self.t = float(decay), 0
        self.averages: list[Variable] = []
        self._kept: dict[str, np.ndarray[Any, Any]] = {}
        self._inside = False

    def on_train_begin(self, trainer: Trainer) -> None:
        self.t, self.averages = self.t if self._kept else 0, []
        self._follow(trainer)
        self._kept = {}

    def _follow(self, trainer: Trainer) -> None:
        """Averages of all that is trained by now; those that are there go on."""
        flats = [a.flat for a in trainer.optimizer.arenas]
        self.averages += [Variable(np.array(self._kept.get(f"average.{k}", v.numpy()), np.dtype(v.dtype)), "average")
                          for k, v in enumerate(flats) if k >= len(self.averages)]
        self._update = Recorded(functools.partial(_averaged, self.averages, flats), "average of weights")
        self._swap = Recorded(functools.partial(_swapped, self.averages, flats), "weights and averages")

    def on_batch_end(self, trainer: Trainer) -> None:
        if len(self.averages) < len(trainer.optimizer.arenas):
            self._follow(trainer)
        self.t += 1
        self._update(np.float32(min(self.decay, (1 + self.t) / (10 + self.t))))

    @contextlib.contextmanager
    def measured(self, trainer: Trainer) -> Iterator[None]:
        if self._inside or not self.averages:
            yield
            return
        self._inside = True
        self._swap()
        try:
            yield
        finally:
            self._swap()
            self._inside = False

    def on_train_end(self, trainer: Trainer) -> None:
        if self.averages:
            self._swap()
            self.averages = []

    def state(self) -> dict[str, Any]:
        return {"t": self.t, **{f"average.{k}": np.asarray(v.numpy()) for k, v in enumerate(self.averages)}}

    def load_state(self, state: dict[str, Any]) -> None:
        self.t = int(state["t"])
        self._kept = {n: a for n, a in state.items() if n.startswith("average.")}


def _averaged(averages: list[Variable], flats: list[Variable], decay: Tensor) -> tuple[()]:
    for a, w in zip(averages, flats, strict=True):
        d = decay.astype(a.dtype)
        a.assign(d * a.tensor + (1 - d) * w.tensor)
    return ()


def _swapped(averages: list[Variable], flats: list[Variable]) -> tuple[()]:
    for a, w in zip(averages, flats, strict=True):
        old, mean = w.tensor, a.tensor
        w.assign(mean)
        a.assign(old)
    return ()
