"""What people write first who come from Keras, scikit-learn or PyTorch, and the usual slips in shapes: it works, or the sentence says what does.

A row is (name, call, expected). `expected` is a text: the pattern of the message that a ClnetError, AttributeError or ImportError must have;
a function: what must hold of the result; anything else: the result. One list a subject; whoever mends a finding adds its row there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import data, layers, optimizers
from clnet.errors import ClnetError
from clnet.layers import Conv2d, Dense, Flatten, Layer
from clnet.model import Sequential

Row = tuple[str, Callable[[], Any], Any]

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(12, 6)).astype(np.float32)  # samples of six numbers
IMAGES = RNG.normal(size=(8, 1, 6, 6)).astype(np.float32)
LABELS = np.arange(12, dtype=np.int32) % 2


def mlp() -> Sequential:
    return Sequential(Dense(out_features=5, activation="relu"), Dense(out_features=2))


def cnn() -> Sequential:
    return Sequential(Conv2d(out_channels=3, kernel_size=3), Flatten(), Dense(out_features=2))


# Names of modules and of what lies in them.
NAMES: list[Row] = [
    ("a class in a file", lambda: Layer.from_config({"type": "Dens"}), r"got 'Dens'; did you mean 'Dense'\?"),
]

# Constructors of layers, losses, optimizers and schedules.
CONSTRUCTORS: list[Row] = [
    ("Dense(out_feature=3)", lambda: Dense(out_feature=3), r"did you mean 'out_features'\?"),
    ("Adam(lr=0.1)", lambda: optimizers.Adam(lr=0.1), lambda a: a.lr == 0.1),
]

# Layers after they were made: fields, parameters, calls.
LAYERS: list[Row] = [
    ("layer.weight.shape", lambda: layers.Dense(in_features=3, out_features=2).weight.shape, (2, 3)),
]

# Models: lists, summaries, files, devices.
MODELS: list[Row] = [
    ("len(model)", lambda: len(mlp()), 2),
    ("model[0]", lambda: mlp()[0].out_features, 5),
]

# Shapes and dtypes that do not fit what a layer takes.
SHAPES: list[Row] = [
    ("images without a channel axis", lambda: cnn()(IMAGES[:, 0]), r"Conv2d: expected input axes \(N, in_channels, H, W\); got shape \(8, 6, 6\)"),
]

# Data sets, labels, losses and metrics.
DATA: list[Row] = [
    ("data.load('mnist')", lambda: data.load("mnist"), "expected 'digits'"),
]

# The Trainer: fit, evaluate, predict, callbacks, histories, checkpoints.
TRAINING: list[Row] = []

# Tensors and what is done with them; arguments of ops.
TENSORS: list[Row] = []

OPS: list[Row] = []

ROWS = {f"{subject}: {name}": (call, expected) for subject, rows in {
    "names": NAMES, "constructors": CONSTRUCTORS, "layers": LAYERS, "models": MODELS, "shapes": SHAPES, "data": DATA, "training": TRAINING,
    "tensors": TENSORS, "ops": OPS}.items() for name, call, expected in rows}


@pytest.mark.parametrize("row", ROWS)
def test_habit(device: Any, row: str) -> None:
    call, expected = ROWS[row]
    if not isinstance(expected, str):
        result = call()
        assert expected(result) if callable(expected) else result == expected, f"got {result!r}"
        return
    with pytest.raises((ClnetError, AttributeError, ImportError)) as caught:
        call()
    text = str(caught.value)
    assert re.search(expected, text), text
    assert not text.endswith("?."), text


def test_every_row_has_a_name_of_its_own() -> None:
    assert len(ROWS) == sum(map(len, (NAMES, CONSTRUCTORS, LAYERS, MODELS, SHAPES, DATA, TRAINING, TENSORS, OPS)))
