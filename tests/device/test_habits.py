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
from clnet.tensor import tensor

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
TENSORS: list[Row] = [
    ("t.tolist()", lambda: (tensor([[1.0, 2.0]]) + 1).tolist(), [[2.0, 3.0]]),
    ("t.item()", lambda: (tensor(2.0) * 3).item(), 6.0),
    ("len(t)", lambda: len(tensor(TABLE)), 12),
    ("for row in t", lambda: [row.tolist() for row in tensor([[1, 2], [3, 4]])], [[1, 2], [3, 4]]),
    ("format(t, '.2f')", lambda: f"{tensor(2.0) / 3:.2f}", lambda text: text == "0.67"),
    ("t.detach()", lambda: (tensor([1.0]) * 2).detach().tolist(), [2.0]),
    ("t.device", lambda: tensor([1.0]).device.key, lambda key: isinstance(key, str)),
    ("hasattr(t, 'cuda')", lambda: hasattr(tensor([1.0]), "cuda"), False),
    ("np.asarray(t)", lambda: np.asarray(tensor([1.0]) + 1).tolist(), [2.0]),
    ("t[0] = 1", lambda: tensor([1.0, 2.0]).__setitem__(0, 1), r"never changes; make a new one \(clnet.ops.where"),
    ("t.add_(1)", lambda: tensor([1.0]).add_(1), "never changes"),
    ("t.backward()", lambda: tensor([1.0]).backward(), r"clnet\.gradients\(y, \[x, w\]\)"),
    ("t.grad", lambda: tensor([1.0]).grad, r"clnet\.gradients"),
    ("t.cuda()", lambda: tensor([1.0]).cuda(), r'clnet\.use\("gpu"\)'),
    ("t.to('cpu')", lambda: tensor([1.0]).to("cpu"), r"model\.use\(\.\.\.\) moves a model"),
    ("t.float()", lambda: tensor([1]).float(), r'x\.astype\("float32"\)'),
    ("t.unsqueeze(0)", lambda: tensor([1.0]).unsqueeze(0), r"x\[None\]"),
    ("t.softmax(1)", lambda: tensor([[1.0]]).softmax(1), r"write clnet\.ops\.softmax\(x\)"),
    ("t.reshap(1)", lambda: tensor([1.0]).reshap(1), "did you mean 'reshape'"),
    ("parameter.to('cpu')", lambda: mlp().build((6,)).parameters()[0].to("cpu"), r"model\.use"),
    ("float(of two)", lambda: float(tensor([1.0, 2.0])), r"float: expected a tensor of one element; got float32\[2\]"),
    ("bool(of several)", lambda: bool(tensor([1.0, 2.0]) > 1), r"bool: expected a tensor of one element; got bool\[2\]; .* any"),
    ("item() of two", lambda: tensor([1.0, 2.0]).item(), r"item: expected a tensor of one element; got float32\[2\]; .*tolist"),
    ("len(scalar)", lambda: len(tensor(1.0)), "len: expected a tensor with at least one axis"),
    ("tensor(ragged)", lambda: tensor([[1, 2], [3]]), "expected lists of equal length"),
    ("tensor('text')", lambda: tensor("text"), "dtype: expected one of"),
]

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
