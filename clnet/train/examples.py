"""Small networks that learn the bundled digits in seconds: what report, notebooks, benchmark and tests train."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import init
from ..engine import current, on
from ..errors import ConfigError
from ..layers import (
    LSTM,
    Activation,
    BatchNorm,
    Conv2d,
    Dense,
    Dropout,
    Flatten,
    MaxPool2d,
    PositionalEncoding,
    Reshape,
    TransformerEncoderBlock,
)
from ..layers.base import Layer
from ..losses import CrossEntropyLoss
from ..model.sequential import Sequential
from ..optimizers import AdamW, CosineAnnealingLR
from . import data
from .history import History
from .trainer import Trainer

if TYPE_CHECKING:
    from ..engine.protocol import Where

EPOCHS = {"mlp": 25, "cnn": 20, "lstm": 30, "transformer": 20}
# accuracy on the test images of the fixed split
TARGET = {"mlp": 0.97, "cnn": 0.985, "lstm": 0.96, "transformer": 0.95}
RATE = {"mlp": 5e-3, "cnn": 3e-3, "lstm": 1e-2, "transformer": 3e-3}  # at first; a cosine takes it to 0
BATCH = 64
DECAY = 0.05


def _mlp() -> list[Layer]:
    return [Flatten(), Dense(out_features=128, activation="relu"), Dense(out_features=64, activation="relu"),
            Dense(out_features=10)]


def _cnn() -> list[Layer]:
    def block(channels: int) -> list[Layer]:
        return [Conv2d(out_channels=channels, kernel_size=3, padding=1, bias=False), BatchNorm(),
                Activation(name="relu")]

    return [*block(32), *block(32), MaxPool2d(kernel_size=2), *block(64), MaxPool2d(kernel_size=2), Flatten(),
            Dropout(p=0.3), Dense(out_features=10)]


def _lstm() -> list[Layer]:
    return [Reshape(shape=(8, 8)), LSTM(hidden_size=48, return_sequences=False), Dense(out_features=10)]


def _transformer() -> list[Layer]:
    return [Reshape(shape=(8, 8)), Dense(out_features=32), PositionalEncoding(max_len=8),
            TransformerEncoderBlock(num_heads=4, d_ff=64, dropout=0.0), Flatten(), Dense(out_features=10)]


MODELS: dict[str, Callable[[], list[Layer]]] = {"mlp": _mlp, "cnn": _cnn, "lstm": _lstm, "transformer": _transformer}


def digits_model(kind: str, seed: int = 0) -> Sequential:
    """A network for images (N, 1, 8, 8): "mlp", "cnn", "lstm" (a row of pixels per step),
    "transformer" (a row per token).
    """
    if kind not in MODELS:
        raise ConfigError(f"digits_model: expected one of {', '.join(MODELS)}; got {kind!r}.")
    init.seed(seed)
    model: Sequential = Sequential(MODELS[kind]()).build((1, 8, 8))
    return model


@dataclass
class Result:
    """What came of a training: accuracy and loss on the test images (NaN before the first step), seconds in all,
    samples/s of the steps, where it ran.
    """

    kind: str
    device: str
    accuracy: float
    loss: float
    target: float
    seconds: float
    samples_per_second: float
    parameters: int
    history: History = field(repr=False)
    trainer: Any = field(repr=False)

    @property
    def passed(self) -> bool:
        return self.accuracy >= self.target


def train_digits(kind: str = "mlp", epochs: int | None = None, device: Where = None, seed: int = 0,
                 verbose: bool = False, precision: str | None = None, lr: float | None = None, batch_size: int = BATCH,
                 state_dtype: str | None = None, **fit: Any) -> Result:
    """Trains one of the networks on the digits: 80 % of them, chosen by a fixed seed; the rest is the test.
    Other arguments go to `fit`.

    device       anything `clnet.use` takes; None: the one in use
    epochs, lr   None: the network's own; lr is the rate at first, a cosine takes it to 0
    state_dtype  that of AdamW
    """
    with on(device if device is not None else current()) as engine:
        train, test = data.load("digits").split(0.2, 0)
        model = digits_model(kind, seed)
        epochs = EPOCHS[kind] if epochs is None else epochs
        schedule = CosineAnnealingLR(max(epochs, 1) * -(-len(train) // batch_size), lr=RATE[kind] if lr is None else lr)
        optimizer = AdamW(lr=schedule, weight_decay=DECAY, state_dtype=state_dtype)
        trainer = Trainer(model, CrossEntropyLoss(), optimizer, precision=precision)
        started = time.perf_counter()
        history = trainer.fit(train, epochs, batch_size, test, seed=seed, verbose=verbose, **fit)
        seconds = time.perf_counter() - started
        # an untrained network says nothing
        found = trainer.evaluate(test) if history.steps else {"accuracy": math.nan, "loss": math.nan}
        return Result(kind, str(engine), found["accuracy"], found["loss"], TARGET[kind], seconds, history.rate,
                      sum(p.size for p in model.parameters()), history, trainer)
