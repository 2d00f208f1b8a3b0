"""What mixed precision rounds and what it leaves alone; names that it does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import autocast, init
from clnet import ops as F
from clnet.core.state import Parameter
from clnet.core.tensor import placeholder
from clnet.engine import on
from clnet.errors import ConfigError
from clnet.layers import Dense, Flatten
from clnet.losses import CrossEntropyLoss, MSELoss
from clnet.model import Sequential
from clnet.optimizers import SGD
from clnet.train import LossScale, Trainer

STORED = {"bf16": "bfloat16", "fp16": "float16"}


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def mlp(*hidden: int, seed: int = 0, classes: int = 10) -> Sequential:
    init.seed(seed)
    return Sequential(Flatten(), *(Dense(out_features=n, activation="relu") for n in hidden),
                      Dense(out_features=classes)).build((1, 8, 8))


def test_float64_and_integers_are_left_alone() -> None:
    with autocast("bf16"):
        assert (placeholder((2, 2), "float64") @ placeholder((2, 2), "float64")).dtype == "float64"
        assert (placeholder((2,), "int32") + placeholder((2,), "int32")).dtype == "int32"


@pytest.mark.parametrize("precision", list(STORED))
def test_rules_by_class_of_op(precision: str) -> None:
    narrow = STORED[precision]
    x, w = placeholder((4, 8)), Parameter(np.ones((3, 8), np.float32))
    with autocast(precision):
        h = F.linear(x, w, Parameter(np.zeros(3, np.float32)))
        assert h.dtype == narrow, "a bias is added in float32 and the sum stored"
        assert {F.relu(h).dtype, (h + h).dtype, (h * 2.0).dtype, F.sigmoid(h).dtype, F.max(h, 1).dtype,
                F.gelu(h).dtype} == {narrow}
        assert {F.sum(h, 1).dtype, F.mean(h).dtype, F.softmax(h).dtype, F.exp(h).dtype, F.log(h).dtype,
                (h - F.mean(h)).dtype, F.var(h, 1).dtype, F.std(h, 1).dtype, F.logsumexp(h, 1).dtype} == {"float32"}
        with autocast(None):
            assert {F.mean(h).dtype, F.var(h, 1).dtype, F.std(h, 1).dtype, F.logsumexp(h, 1).dtype} == {narrow}
        gamma, beta = Parameter(np.ones(3, np.float32)), Parameter(np.zeros(3, np.float32))
        assert F.layer_norm(h, gamma, beta).dtype == narrow
        assert F.layer_norm(F.softmax(h), gamma, beta).dtype == "float32"
        assert F.concat([h, gamma.tensor.reshape(1, 3)]).dtype == narrow
        assert F.gather(gamma, np.array([0, 1])).dtype == narrow
        assert (h.astype("float32") + h).dtype == "float32", "what somebody widened stays wide"
        assert CrossEntropyLoss()(h, np.zeros(4, np.int32)).dtype == "float32"
        with autocast(None):
            assert F.linear(x, w).dtype == "float32"
    assert F.linear(x, w).dtype == "float32"


def test_only_known_names() -> None:
    for make in (lambda: autocast("bf17").__enter__(), lambda: Trainer(mlp(4), MSELoss(), SGD(), precision="half"),
                 lambda: Trainer(mlp(4), MSELoss(), SGD(), precision="bf16", loss_scale=LossScale()),
                 lambda: LossScale(backoff=2.0)):
        with pytest.raises(ConfigError):
            make()
