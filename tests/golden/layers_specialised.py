"""Layers with formulas or rules of their own: each (layer with its fields, inputs, parameters by name) -> output."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import sklearn.neural_network
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


@by("numpy, a loop over time")
def reservoir(c: Any, x: Any, p: Any) -> Any:
    w_in, w, bias = kept(c, "w_in") * c.input_scaling, kept(c, "w_res"), kept(c, "offset")
    assert abs(torch.linalg.eigvals(w).abs().max() - c.spectral_radius) < 1e-5
    state, found = torch.zeros(len(x[0]), c.reservoir_size).double(), []
    for now in x[0].unbind(1):
        state = (1 - c.leak_rate) * state + c.leak_rate * torch.tanh(now @ w_in.T + state @ w.T + bias)
        found.append(state)
    return torch.stack(found, 1)


class _Jump(torch.autograd.Function):
    """1 above 0, with the slope of a sigmoid's like, by its name, in place of its derivative."""

    @staticmethod
    def forward(ctx: Any, d: Any, kind: str, k: float) -> Any:
        ctx.save_for_backward(d)
        ctx.kind, ctx.k = kind, k
        return (d > 0).double()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (d,), k = ctx.saved_tensors, ctx.k
        slope = {"fast_sigmoid": (1 + k * d.abs()) ** -2, "atan": k / (2 * (1 + (torch.pi * k * d / 2) ** 2)),
                 "sigmoid": k * torch.sigmoid(k * d) * (1 - torch.sigmoid(k * d))}[ctx.kind]
        return g * slope, None, None


def _lif(c: Any, s: Any, i: Any, dt: float) -> Any:
    v = (1 - 1 / c.tau if c.neuron == "lif" else 1) * s[0] + i
    return [v], v - c.threshold, lambda k: [v * (1 - k) if c.reset == "zero" else v - c.threshold * k]


def _izhikevich(c: Any, s: Any, i: Any, dt: float) -> Any:
    v = s[0] + dt * (0.04 * s[0] ** 2 + 5 * s[0] + 140 - s[1] + i)
    u = s[1] + dt * 0.02 * (0.2 * v - s[1])
    return [v, u], v - 30, lambda k: [(1 - k) * v - 65 * k, u + 8 * k]


def _adex(c: Any, s: Any, i: Any, dt: float) -> Any:
    leak, steep = s[0] + 70.6, torch.exp(torch.clamp((s[0] + 50.4) / 2, max=20))
    v, w = s[0] + dt * (-30 * leak + 60 * steep - s[1] + i) / 281, s[1] + dt * (4 * leak - s[1]) / 144
    return [v, w], v - 20, lambda k: [(1 - k) * v - 70.6 * k, w + 80.5 * k]


def _hodgkin_huxley(c: Any, s: Any, i: Any, dt: float) -> Any:
    v, m, h, n = s
    rates = ((m, 0.1 * (v + 40) / (1 - torch.exp(-(v + 40) / 10)), 4 * torch.exp(-(v + 65) / 18)),
             (h, 0.07 * torch.exp(-(v + 65) / 20), 1 / (1 + torch.exp(-(v + 35) / 10))),
             (n, 0.01 * (v + 55) / (1 - torch.exp(-(v + 55) / 10)), 0.125 * torch.exp(-(v + 65) / 80)))
    now = v + dt * (i - 120 * m ** 3 * h * (v - 50) - 36 * n ** 4 * (v + 77) - 0.3 * (v + 54.387))
    new = [now, *(x + dt * (a * (1 - x) - b * x) for x, a, b in rates)]
    return new, torch.where(v > 0, -now.abs(), now), lambda k: new


@by("numpy, a loop over time, with PyTorch's gradients")
def spiking(c: Any, x: Any, p: Any) -> Any:
    flow, start, dt = {"izhikevich": (_izhikevich, (-65, -13), 1.0), "adex": (_adex, (-70.6, 0), 0.1),
                       "hodgkin_huxley": (_hodgkin_huxley, (-65, 0.05, 0.6, 0.32), 0.01)}.get(c.neuron, (_lif, (0,), 1))
    currents = torch.nn.functional.linear(x[0], p["weight"], p.get("bias"))
    state, found = [torch.full_like(currents[:, 0], v) for v in start], []
    wait = torch.zeros_like(currents[:, 0])
    for i in currents.unbind(1):
        state, d, after = flow(c, state, torch.where(wait > 0, 0, i), c.dt or dt)
        spikes = _Jump.apply(d, c.surrogate, c.surrogate_slope)
        state = after(spikes.detach() if c.detach_reset else spikes)
        wait = torch.where(spikes > 0, c.refractory, (wait - 1).clamp(min=0))
        found.append(spikes)
    assert 0 < torch.stack(found).sum() < currents.numel(), "an example that says nothing"
    return torch.stack(found, 1)


@by("scikit-learn")
def rbm(c: Any, x: Any, p: Any) -> Any:
    """Its transform, which is PyTorch's formula to the last digits: that one has gradients."""
    machine = sklearn.neural_network.BernoulliRBM(c.n_hidden)
    machine.components_, machine.intercept_hidden_ = p["weight"].detach().numpy(), p["b_hidden"].detach().numpy()
    y = torch.sigmoid(x[0] @ p["weight"].T + p["b_hidden"])
    flat = x[0].detach().numpy().reshape(-1, c.n_visible)
    assert np.abs(machine.transform(flat) - y.detach().numpy().reshape(-1, c.n_hidden)).max() < 1e-12
    return y


def plasticity(c: Any, x: Any, p: Any) -> Any:
    return x[0] @ kept(c, "weight").T if c.mode == "linear" else x[0] * 1


@by("numpy, a loop over samples")
def spatial_pooler(c: Any, x: Any, p: Any) -> Any:
    potential, duty, boost = kept(c, "potential"), torch.zeros(c.column_count).double(), 1
    permanence, found = kept(c, "permanence"), []
    for t, bits in enumerate(x[0].detach() > 0.5, 1):
        o = boost * (((permanence >= c.connected_threshold) & (potential > 0)).double() @ bits.double())
        best = sorted(range(len(o)), key=lambda k, o=o: (-o[k], k))[: max(1, round(c.sparsity * len(o)))]
        active = torch.tensor([k in best and o[k] > 0 and o[k] >= c.stimulus_threshold for k in range(len(o))])
        step = torch.where(bits, c.permanence_increment, -c.permanence_decrement) * potential
        permanence = torch.where(active[:, None], permanence + step, permanence).clamp(0, 1)
        duty = ((t - 1) * duty + active) / t
        boost = torch.exp(-c.boost_strength * (duty - duty.mean()))
        found.append(active.double())
    return torch.stack(found)


@by("python sets")
def anomaly_detector(c: Any, x: Any, p: Any) -> Any:
    scores = []
    for row in x[0].detach().reshape(-1, c.input_size).tolist():
        half = len(row) // 2
        a, b = ({k for k in range(half) if part[k] > 0.5} for part in (row[:half], row[half:]))
        part, whole = (a - b, a) if c.metric == "htm" else (a ^ b, a | b)
        scores.append(len(part) / len(whole) if whole else 0.0)
    return torch.tensor(scores, dtype=torch.float64).reshape(*x[0].shape[:-1], 1)


RULES = {"AnomalyDetector": anomaly_detector, "SpatialPooler": spatial_pooler, "RBM": rbm, "SynapticPlasticity":
         plasticity, "RBF": rbf, "Quantum": quantum, "Measurement": measurement, "Reservoir": reservoir,
         "Spiking": spiking}
