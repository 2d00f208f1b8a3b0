"""Names of activations; normalisations that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.tensor import tensor
from clnet.errors import ConfigError, ShapeError
from clnet.ops import activations, losses, normalization

rng = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape)


def test_activation_names() -> None:
    with pytest.raises(ConfigError, match="did you mean 'gelu'"):
        activations.activation("gleu")
    assert activations.activation(None) is activations.linear
    assert activations.activation(F.tanh) is F.tanh


def test_what_is_refused() -> None:
    x = tensor(normal(2, 6, 3).astype("f4"))
    with pytest.raises(ConfigError, match="temperature > 0"):
        normalization.softmax(x, temperature=0)
    with pytest.raises(ShapeError, match="last axes are"):
        normalization.layer_norm(x, np.ones(4, "f4"))
    with pytest.raises(ShapeError, match="multiple of num_groups"):
        F.group_norm(x, 4)
    with pytest.raises(ShapeError, match="at least 2 values"):
        F.batch_norm_train(np.ones((1, 3), "f4"))
    with pytest.raises(ShapeError, match="classes go on the last axis"):
        losses.cross_entropy(x, np.zeros((2, 3), np.int32))
