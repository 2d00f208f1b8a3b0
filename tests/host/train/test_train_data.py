"""What a Trainer's methods show of themselves."""

from __future__ import annotations

import inspect
from typing import Any

from clnet import init
from clnet.layers import Dense
from clnet.losses import CrossEntropyLoss
from clnet.model import Sequential
from clnet.optimizers import SGD
from clnet.train import Trainer


def trainer(*layers: Any, loss: Any = None, **more: Any) -> Trainer:
    init.seed(0)
    return Trainer(Sequential(*(layers or (Dense(out_features=3, activation="relu"), Dense(out_features=2)))),
                   loss or CrossEntropyLoss(), SGD(lr=0.01), **more)


def test_what_fit_shows_of_itself() -> None:
    """Completion and help see x, y and the options, though other orders are taken too."""
    assert list(inspect.signature(trainer().fit).parameters)[:5] == ["data", "y", "epochs", "batch_size", "validation"]
    assert list(inspect.signature(Trainer.evaluate).parameters) == ["self", "data", "y", "batch_size", "tokens"]
