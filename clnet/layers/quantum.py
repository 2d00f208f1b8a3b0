"""Quantum circuits as exact simulations of their state vector, in real arithmetic, and measurements of such states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import init
from .. import ops as F
from ..config.fields import bound, choice, field, positive
from ..core.tensor import Tensor
from .base import Layer, New

QUBITS = 20  # 2²⁰ amplitudes a sample
TOGETHER = 5  # qubits at most that one product turns: a matrix of 32 x 32
State = tuple[Tensor, Tensor]  # real and imaginary parts (…, 2ⁿ)


class Quantum(Layer):
    """y = |ψ|²,  ψ = U_depth ⋯ U_1 ψ₀,  U_d = CNOTs · RX(θ_d,n−1) ⊗ … ⊗ RX(θ_d,0),
    RX(t) = [[cos t/2, −i sin t/2], [−i sin t/2, cos t/2]]

    encoding "amplitude": ψ₀ = x / |x|, x cut or filled up with zeros to 2ⁿ numbers, |x| at least 1e-12; "angle": ψ₀ =
    RX(x_q) on qubit q of |0…0⟩, features beyond n unused. `entangle`: CNOT q → q + 1 for q = 0 … n − 2 behind the
    rotations of each depth. Qubit q is bit q of the number of a basis state, bit 0 the least significant.
    x (…, in_features), angles (depth, num_qubits) at first U(0, 2π); y (…, 2ⁿ), the probabilities, or, with
    out_features, |ψ|² · w_outᵀ, w_out (out_features, 2ⁿ).
    Paper: Schuld & Petruccione 2018, Supervised Learning with Quantum Computers; Mitarai et al. 2018, arXiv:1803.00745.
    """

    spec_name = "QuantumLayer"
    in_features: int | None = bound(doc="size of the last axis of the input")
    num_qubits: int = field(doc="n", gt=0, le=QUBITS)
    depth: int = positive(1, doc="how often rotations are applied")
    entangle: bool = field(False, doc="whether CNOTs follow the rotations")
    encoding: str = choice("amplitude", ("amplitude", "angle"), doc="how the input becomes a state")
    out_features: int | None = field(None, doc="size of the output; None: the 2ⁿ probabilities", gt=0)
    signature = "... in_features -> ... outputs"
    examples = [(dict(in_features=8, num_qubits=3), [(4, 8)]),
                (dict(num_qubits=3, depth=2, entangle=True, encoding="angle"), [(2, 3, 2)]),
                (dict(num_qubits=2, depth=2, entangle=True, out_features=3), [(3, 5)])]

    @property
    def outputs(self) -> int:
        """Size of the last axis of the output."""
        return self.out_features or 1 << self.num_qubits

    def setup(self, new: New) -> None:
        n = self.num_qubits
        self.angles = new.value(init.generator().uniform(0, 2 * math.pi, (self.depth, n)))
        self.w_out = new.weight(self.out_features, 1 << n) if self.out_features else None
        # CNOTs one after another: bit q of the state an amplitude goes to is the xor of bits 0 … q of where it is.
        to = np.arange(1 << n)
        self._from = (to ^ (to << 1) & (1 << n) - 1).astype(np.int32)

    def forward(self, x: Tensor) -> Tensor:
        re, im = self.amplitudes(x)
        p = re * re + im * im
        return p if self.w_out is None else F.linear(p, self.w_out)

    def amplitudes(self, x: Tensor) -> State:
        """The real and the imaginary part of ψ, (…, 2ⁿ) each."""
        state = self._amplitude(x) if self.encoding == "amplitude" else self._angle(x)
        half, n = self.angles * 0.5, self.num_qubits
        cosines, sines = F.cos(half), F.sin(half)
        step = -(-n // -(-n // TOGETHER))
        for d in range(self.depth):
            for q in range(0, n, step):
                state = _rotated(state, q, cosines[d, q : q + step], sines[d, q : q + step])
            if self.entangle and n > 1:
                state = F.gather(state[0], self._from, -1), F.gather(state[1], self._from, -1)
        return state

    def _amplitude(self, x: Tensor) -> State:
        n = 1 << self.num_qubits
        x = x[..., :n]
        if x.shape[-1] < n:
            x = F.concat([x, F.zeros((*x.shape[:-1], n - x.shape[-1]), x.dtype)], -1)
        re = x / F.sqrt(F.maximum(F.sum(F.square(x), -1, keepdims=True), 1e-24))
        return re, F.zeros(re.shape, re.dtype)

    def _angle(self, x: Tensor) -> State:
        """A product of qubits, each a cosine and −i times a sine: every one that is 1 turns the sign by −i."""
        size, lead = F.ones((*x.shape[:-1], 1), x.dtype), x.shape[:-1]
        for q in range(self.num_qubits):
            half = 0.5 * x[..., q : q + 1] if q < x.shape[-1] else F.zeros((*lead, 1), x.dtype)
            both = F.reshape(F.concat([F.cos(half), F.sin(half)], -1), (*lead, 2, 1))
            size = F.reshape(both * F.reshape(size, (*lead, 1, 1 << q)), (*lead, 2 << q))
        re, im = _signs(np.arange(1 << self.num_qubits))
        return size * re, size * im


def _signs(bits: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The real and the imaginary part of (−i) to the number of bits."""
    ones = sum((bits >> k & 1 for k in range(QUBITS)), np.zeros_like(bits)) % 4
    return np.array([1, 0, -1, 0], np.float32)[ones], np.array([0, -1, 0, 1], np.float32)[ones]


def _rotated(state: State, first: int, c: Tensor, s: Tensor) -> State:
    """RX on the qubits from `first` on, one for each cosine: their tensor product, as one matrix."""
    many, shape = c.shape[0], state[0].shape
    size = F.ones((1, 1), c.dtype)
    for q in range(many):
        own = F.reshape(F.stack([c[q], s[q], s[q], c[q]], 0), (2, 1, 2, 1))
        size = F.reshape(own * F.reshape(size, (1, 1 << q, 1, 1 << q)), (2 << q, 2 << q))
    at = np.arange(1 << many)
    turn_re, turn_im = (size * sign for sign in _signs(at[:, None] ^ at))
    parts = (*shape[:-1], shape[-1] >> (first + many), 1 << many, 1 << first)
    re, im = F.reshape(state[0], parts), F.reshape(state[1], parts)
    return (F.reshape(turn_re @ re - turn_im @ im, shape), F.reshape(turn_re @ im + turn_im @ re, shape))


class Measurement(Layer):
    """p_i = |ψ_i|² / Σ_j |ψ_j|²,  0 where ψ = 0

    x (…, 2 · size), real parts, then imaginary ones, or, not `complex_input`, (…, size); p (…, size). What is tiny or
    huge is scaled first: squares do not leave float32's range.
    Paper: Born 1926, Zeitschrift für Physik 37, 863.
    """

    spec_name = "MeasurementLayer"
    size: int = positive(doc="how many amplitudes there are, the size of the last axis of the output")
    complex_input: bool = field(True, doc="whether imaginary parts follow the real ones")
    signature = "... parts -> ... size"
    examples = [(dict(size=3), [(4, 6)]), (dict(size=5, complex_input=False), [(2, 3, 5)])]

    @property
    def parts(self) -> int:
        """Size of the last axis of the input."""
        return 2 * self.size if self.complex_input else self.size

    def forward(self, x: Tensor) -> Tensor:
        largest = F.detach(F.max(F.abs(x), -1, keepdims=True))  # p does not depend on it, nor does its gradient
        none = F.equal(largest, 0)
        x = F.square(x / F.where(none, 1, largest))
        p = x[..., : self.size] + x[..., self.size :] if self.complex_input else x
        return p / F.where(none, 1, F.sum(p, -1, keepdims=True))
