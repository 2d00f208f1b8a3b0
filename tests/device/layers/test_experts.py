"""MixtureOfExperts that routes: the same as the dense form where there is room, what is dropped where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet.core.tensor import tensor
from clnet.engine.record import Recorded
from clnet.errors import ConfigError
from clnet.layers import MixtureOfExperts, no_tape

DENSE: dict[str, Any] = {"type": "Dense", "out_features": 3, "activation": "tanh"}
X = np.random.default_rng(0).normal(size=(10, 5)).astype(np.float32)


def made(**more: Any) -> MixtureOfExperts:
    init.seed(0)
    return MixtureOfExperts(experts=[DENSE | {"in_features": 5}] * 4, in_features=5, top_k=2, **more)


def test_with_room_for_all_routing_is_the_dense_form(engine: Any) -> None:
    """Values, gradients by x and by every parameter; an expert computes the rows it has room for."""
    dense, routed = made(load_balance_weight=0.5), made(load_balance_weight=0.5, capacity_factor=2.0)
    g, found = tensor(np.random.default_rng(1).normal(size=(10, 3)).astype(np.float32)), []
    for layer in (dense, routed):
        y = layer(X)
        found.append([y.numpy(), layer.backward(g).numpy(), layer.aux_loss.numpy(),
                      *(p.grad.numpy() for p in layer.parameters() if p.grad is not None)])
    assert len(found[0]) == len(found[1]) == 12
    for a, b in zip(*found, strict=True):
        assert np.abs(a - b).max() < 2e-6


def test_what_finds_its_expert_full_is_dropped(engine: Any) -> None:
    """All tokens choose expert 0 first, 1 then; with room for ⌈0.5 · 2 · 10 / 4⌉ = 3 the first three are served."""
    layer, dense = made(capacity_factor=0.5), made()
    for m in (layer, dense):
        assert m.gate is not None
        m.gate.weight.assign(np.outer([2, 1, 0, 0], np.eye(5)[0]).astype(np.float32))
    x = np.abs(X)
    y = layer(x).numpy()
    assert np.abs(y[:3] - dense(x).numpy()[:3]).max() < 2e-6 and not y[3:].any()
    assert not layer.backward(tensor(np.ones((10, 3), np.float32))).numpy()[3:].any()


def test_a_recorded_layer_takes_any_number_of_tokens(engine: Any) -> None:
    layer, dense = made(capacity_factor=2.0), made()
    step = Recorded(lambda x: layer(x), "experts")
    with no_tape():
        for n in (10, 7, 9, 1):
            assert np.abs(step(X[:n]).numpy() - dense(X[:n]).numpy()).max() < 2e-6


def test_a_capacity_without_a_choice_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected top_k of at least 1"):
        MixtureOfExperts(experts=[DENSE] * 2, capacity_factor=1.0)
