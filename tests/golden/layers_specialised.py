"""Layers with formulas or rules of their own: each (layer with its fields, inputs, parameters by name) -> output."""

from __future__ import annotations

import functools
from typing import Any

import torch
from rules import by

RBF_OF_SQUARE = {"multiquadric": lambda q: (1 + q) ** 0.5, "inverse_multiquadric": lambda q: (1 + q) ** -0.5,
                 "inverse_quadratic": lambda q: 1 / (1 + q), "thin_plate": lambda q: q * q.sqrt().log()}


def kept(layer: Any, name: str) -> Any:
    """A buffer of the layer as a tensor."""
    return torch.tensor(getattr(layer, name).numpy()).double()


def rbf(c: Any, x: Any, p: Any) -> Any:
    centers = p["centers"] if "centers" in p else kept(c, "centers")
    r = torch.cdist(x[0], centers, compute_mode="donot_use_mm_for_euclid_dist")
    r = r / (p["log_width"] if "log_width" in p else kept(c, "log_width")).exp()
    return torch.exp(-r * r / 2) if c.kernel == "gaussian" else RBF_OF_SQUARE[c.kernel](r * r)


@by("numpy, exact complex matrices")
def quantum(c: Any, x: Any, p: Any) -> Any:
    """The whole circuit as matrices of 2ⁿ x 2ⁿ complex numbers."""
    n, x = c.num_qubits, x[0]
    if c.encoding == "amplitude":
        state = torch.nn.functional.pad(x[..., : 1 << n], (0, max(0, (1 << n) - x.shape[-1])))
        state = (state / state.norm(dim=-1, keepdim=True)).to(torch.complex128)
    else:
        angles = torch.nn.functional.pad(x, (0, max(0, n - x.shape[-1])))[..., :n].reshape(-1, n)
        state = torch.stack([_rotations(row)[:, 0] for row in angles]).reshape(*x.shape[:-1], 1 << n)
    for row in p["angles"]:
        state = state @ _rotations(row).T
        for q in range(n - 1 if c.entangle else 0):
            state = state @ _cnot(n, q).T
    probabilities = state.abs() ** 2
    return probabilities @ p["w_out"].T if c.out_features else probabilities


def _rotations(angles: Any) -> Any:
    """RX(t_{n−1}) ⊗ … ⊗ RX(t_0), each the exponential of −i t X / 2."""
    x = torch.tensor([[0, 1], [1, 0]], dtype=torch.complex128)
    return functools.reduce(torch.kron, [torch.linalg.matrix_exp(-0.5j * t * x) for t in angles.flip(0)])


def _cnot(n: int, q: int) -> Any:
    """|0⟩⟨0| on qubit q, and |1⟩⟨1| there with X on qubit q + 1."""
    eye, x = torch.eye(2), torch.tensor([[0.0, 1], [1, 0]])
    zero, one = torch.diag(torch.tensor([1.0, 0])), torch.diag(torch.tensor([0.0, 1]))

    def whole(low: Any, high: Any) -> Any:
        return torch.kron(torch.kron(torch.eye(1 << (n - q - 2)), torch.kron(high, low)), torch.eye(1 << q))

    return (whole(zero, eye) + whole(one, x)).to(torch.complex128)


def measurement(c: Any, x: Any, p: Any) -> Any:
    psi = torch.complex(*x[0].chunk(2, -1)) if c.complex_input else x[0]
    return psi.abs() ** 2 / (psi.abs() ** 2).sum(-1, keepdim=True)


RULES = {"RBF": rbf, "Quantum": quantum, "Measurement": measurement}
