"""Checkpointing: what is refused, its configuration."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.tensor import tensor
from clnet.layers.base import Layer
from clnet.layers.checkpoint import Checkpoint


def test_several_outputs_are_refused() -> None:
    with pytest.raises(clnet.ShapeError, match="one output"):
        F.checkpoint(lambda x: (x, x), tensor(np.zeros(3, np.float32)))


def test_round_trip_of_the_configuration() -> None:
    model = Checkpoint(layer=[{"type": "Dense", "in_features": 2, "out_features": 3},
                              {"type": "Dense", "in_features": 3, "out_features": 1}])
    assert Layer.from_config(model.config()).config() == model.config()
