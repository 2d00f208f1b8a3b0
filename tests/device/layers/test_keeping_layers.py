"""Layers whose state outlasts a call: a sequence in parts, recorded steps, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet.engine.record import Recorded
from clnet.errors import ClnetError
from clnet.layers import Reservoir, Spiking, no_tape

X = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)


def test_a_reservoir_goes_on_where_it_stopped(engine: Any) -> None:
    """Two halves give what the whole gives, as calls and as recorded steps; after reset_state it starts anew."""
    init.seed(0)
    layer = Reservoir(2, 6, density=0.5, keep_state=True)
    whole = layer(X).numpy()
    layer.reset_state()
    parts = [layer(X[:, k : k + 2]).numpy() for k in (0, 2)]
    assert np.abs(np.concatenate(parts, 1) - whole).max() < 1e-6
    layer.reset_state()

    def body(x: Any) -> Any:
        with no_tape():
            return layer(x)

    step = Recorded(body, "half")
    assert np.abs(np.concatenate([step(X[:, k : k + 2]).numpy() for k in (0, 2)], 1) - whole).max() < 1e-6
    with pytest.raises(ClnetError, match=r"Reservoir: expected a batch of 3.*reset_state"):
        layer(X[:2])


def test_spikes_one_step_at_a_time_are_those_of_the_sequence(engine: Any) -> None:
    init.seed(1)
    layer = Spiking(2, 8, tau=3.0, threshold=0.3, refractory=1)
    whole = layer(X).numpy()
    steps = np.stack([layer(X[:, t]).numpy() for t in range(4)], 1)
    assert np.array_equal(steps, whole) and 0 < whole.sum() < whole.size


@pytest.mark.parametrize(("make", "shape", "words"), [
    (lambda: Reservoir(2, 1, density=1e-6), (1, 2, 2), "expected a matrix with a cycle"),
    (lambda: Spiking(2, 3), (2,), "one step"),
    (lambda: Spiking(2, 3), (1, 0, 2), "at least one step"),
    (lambda: Spiking(2, 3, tau=0.5), (1, 2, 2), "tau")])
def test_what_is_refused(make: Any, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ClnetError, match=words):
        make()(np.zeros(shape, np.float32))
