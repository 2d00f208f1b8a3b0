"""Circuits: norms, the shift rule, known states, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet.core.tensor import tensor
from clnet.errors import ClnetError
from clnet.layers import Measurement, Quantum


@pytest.mark.parametrize(("qubits", "depth"), [(4, 2), (10, 4)])
def test_norms_stay_one(engine: Any, qubits: int, depth: int) -> None:
    """Within a rounding a rotation."""
    init.seed(0)
    layer = Quantum(4, qubits, depth=depth, entangle=True, encoding="angle")
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    re, im = (part.numpy().astype(np.float64) for part in layer.amplitudes(tensor(x)))
    assert np.abs((re**2 + im**2).sum(-1) - 1).max() < qubits * depth * 2.0**-23


def test_slopes_are_differences_of_shifted_angles(engine: Any) -> None:
    """dp/dθ = (p(θ + π/2) − p(θ − π/2)) / 2, exactly."""
    init.seed(1)
    layer, x = Quantum(4, 2, depth=2, entangle=True), np.array([[1, 2, -1, 0.5]], np.float32)
    layer(x)
    layer.backward(np.array([[1, 0, 0, 0]], np.float32))
    slopes, angles = layer.angles.grad.numpy(), layer.angles.numpy()
    for at in np.ndindex(2, 2):
        shifted = []
        for sign in (1, -1):
            moved = angles.copy()
            moved[at] += sign * np.float32(np.pi / 2)
            layer.angles.assign(moved)
            shifted.append(layer(x).numpy()[0, 0])
        assert abs((shifted[0] - shifted[1]) / 2 - slopes[at]) < 1e-6


def test_measured_amplitudes_may_be_tiny_huge_or_none(engine: Any) -> None:
    x = np.array([[3e-30, 0, 4e-30, 0], [1e30, 1e30, 0, 0], [0, 0, 0, 0]], np.float32)
    want = [[1, 0], [0.5, 0.5], [0, 0]]
    assert np.abs(Measurement(2)(x).numpy() - want).max() < 1e-6


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Quantum(2, 21), "num_qubits"),
    (lambda: Quantum(2, 2, encoding="phase"), "encoding"),
    (lambda: Measurement(2)(np.zeros((1, 3), np.float32)), "Measurement.*4")])
def test_what_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ClnetError, match=words):
        make()
