"""Neurons that spike: a membrane's equation step by step, with a surrogate for the gradient of the jump."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import ops as F
from ..config.fields import bound, choice, field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.custom import custom_gradient
from .base import New
from .kept import Keeping

State = dict[str, Tensor]
# Currents of examples, strong enough that some neurons spike.
DRIVE = np.linspace(-3, 4, 24, dtype=np.float32).reshape(2, 6, 2)


@dataclass(frozen=True)
class Neuron:
    """A model of a neuron. `flow` is one step of the state by the current, `over` what spikes where it is above 0,
    `after` the state where it spiked; `start` the numbers that a state begins with.
    """

    flow: Callable[[State, Tensor, float], State]
    over: Callable[[State, State, float], Tensor]
    after: Callable[[State], State]
    start: dict[str, float]
    dt: float


def _izhikevich(s: State, i: Tensor, dt: float) -> State:
    v, u = s["v"], s["u"]
    new = v + dt * (0.04 * v * v + 5 * v + 140 - u + i)
    return {"v": new, "u": u + dt * 0.02 * (0.2 * new - u)}


def _adex(s: State, i: Tensor, dt: float) -> State:
    v, w = s["v"], s["w"]
    steep = 60.0 * F.exp(F.minimum((v + 50.4) / 2.0, 20.0))  # gL · DT [pA]
    return {"v": v + dt / 281.0 * (steep - 30.0 * (v + 70.6) - w + i),
            "w": w + dt / 144.0 * (4.0 * (v + 70.6) - w)}


def _ratio(x: Tensor) -> Tensor:
    """x / (1 − e^(−x)), 1 + x / 2 around 0"""
    near = F.abs(x) < 1e-3
    safe = F.where(near, 1.0, x)
    return F.where(near, 1 + 0.5 * x, safe / -F.expm1(-safe))


def _hodgkin_huxley(s: State, i: Tensor, dt: float) -> State:
    v, m, h, n = s["v"], s["m"], s["h"], s["n"]
    flow = i - 120.0 * m * m * m * h * (v - 50.0) - 36.0 * F.square(n * n) * (v + 77.0) - 0.3 * (v + 54.387)

    def gate(x: Tensor, opens: Tensor, closes: Tensor) -> Tensor:
        return x + dt * (opens * (1 - x) - closes * x)

    return {"v": v + dt * flow, "m": gate(m, _ratio((v + 40.0) / 10), 4.0 * F.exp(-(v + 65.0) / 18)),
            "h": gate(h, 0.07 * F.exp(-(v + 65.0) / 20), F.sigmoid((v + 35.0) / 10)),
            "n": gate(n, 0.1 * _ratio((v + 55.0) / 10), 0.125 * F.exp(-(v + 65.0) / 80))}


def _crossing(s: State, before: State, _: float) -> Tensor:
    """Above 0 mV now, and not before."""
    return F.where(before["v"] > 0, -F.abs(s["v"]), s["v"])


# Those of lif and if are in terms of the layer's own tau and threshold: see Spiking.
NEURONS = {
    "izhikevich": Neuron(_izhikevich, lambda s, _, __: s["v"] - 30.0,
                         lambda s: {"v": F.full(s["v"].shape, -65.0, s["v"].dtype), "u": s["u"] + 8.0},
                         {"v": -65.0, "u": -13.0}, 1.0),
    "adex": Neuron(_adex, lambda s, _, __: s["v"] - 20.0,
                   lambda s: {"v": F.full(s["v"].shape, -70.6, s["v"].dtype), "w": s["w"] + 80.5},
                   {"v": -70.6, "w": 0.0}, 0.1),
    "hodgkin_huxley": Neuron(_hodgkin_huxley, _crossing, lambda s: s,
                             {"v": -65.0, "m": 0.05, "h": 0.6, "n": 0.32}, 0.01),
}
SLOPES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "fast_sigmoid": lambda d, k: F.reciprocal(F.square(1 + k * F.abs(d))),
    "atan": lambda d, k: 0.5 * k / (1 + F.square(0.5 * math.pi * k * d)),
    "sigmoid": lambda d, k: k * F.sigmoid(k * d) * F.sigmoid(-k * d),
}


def _jump(d: Tensor) -> Tensor:
    return F.cast(d > 0, d.dtype)


@functools.lru_cache(maxsize=64)
def _surrogate(kind: str, slope: float) -> Callable[[Tensor, Tensor], Tensor]:
    """The backward of the jump; one function for equal settings, so that steps are planned once."""
    return lambda d, g: g * SLOPES[kind](d, slope)


class Spiking(Keeping):
    """s_t = 1[v_t > threshold],  v_t = β v_{t−1} + I_t reset where it spiked,  I_t = W x_t + b, 0 while refractory

    x (N, T, in_features), spikes y (N, T, out_features), 0 or 1; x (N, in_features) is one step, whose state is kept
    from call to call. W (out_features, in_features), b (out_features).
    neuron "lif": β = 1 − 1/tau, "if": β = 1; reset "zero": v (1 − s), "subtract": v − threshold · s. "izhikevich" (dt 1
    ms, spike at 30 mV), "adex" (0.1 ms, 20 mV, currents in pA), "hodgkin_huxley" (0.01 ms, upward through 0 mV): the
    papers' constants, by Euler's steps of dt; threshold and reset are theirs.
    backward: through time, with ds/dv = 1/(1 + k|d|)² (fast_sigmoid), k/(2 (1 + (π k d/2)²)) (atan) or k σ(kd) σ(−kd)
    (sigmoid) in place of the jump's, d = v − threshold, k = surrogate_slope; s is constant in a reset if detach_reset.
    Paper: Gerstner & Kistler 2002; Izhikevich 2003, doi:10.1109/TNN.2003.820440; Brette & Gerstner 2005,
    doi:10.1152/jn.00686.2005; Hodgkin & Huxley 1952; Neftci et al. 2019, arXiv:1901.09948.
    """

    spec_name = "SpikingLayer"
    surrogate_gradient = "in place of the jump's derivative, which is 0 where there is one"
    in_features: int | None = bound(doc="size of the last axis of the input")
    out_features: int = positive(doc="how many neurons there are")
    neuron: str = choice("lif", ("lif", "if", *NEURONS), doc="the membrane's equation")
    tau: float = field(10.0, doc="time constant of lif [steps]", ge=1)
    threshold: float = field(1.0, doc="of lif and if, above which a neuron spikes")
    reset: str = choice("zero", ("zero", "subtract"), doc="of lif and if, what a spike does to v")
    refractory: int = field(0, doc="steps after a spike without a current", ge=0)
    surrogate: str = choice("fast_sigmoid", tuple(SLOPES), doc="the derivative in place of the jump's")
    surrogate_slope: float = positive(25.0, doc="k, its steepness")
    detach_reset: bool = field(True, doc="whether a reset has no gradient through the spike")
    dt: float | None = field(None, doc="step of the other neurons [ms]; None: 1, 0.1, 0.01", gt=0)
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=3, out_features=4, tau=4.0, surrogate_slope=2.0), [(2, 6, 3)]),
                (dict(in_features=3, out_features=3, neuron="if", reset="subtract", refractory=1, threshold=0.4,
                      surrogate="atan", surrogate_slope=1.5, detach_reset=False, bias=False), [(2, 5, 3)]),
                (dict(in_features=2, out_features=3, surrogate="sigmoid", surrogate_slope=3.0, threshold=0.3),
                 [(2, 4, 2)]),
                (dict(in_features=2, out_features=2, neuron="izhikevich", surrogate_slope=0.05), [DRIVE * 100]),
                (dict(in_features=2, out_features=2, neuron="adex", surrogate_slope=0.05), [DRIVE * 20000]),
                (dict(in_features=2, out_features=2, neuron="hodgkin_huxley", dt=0.02, surrogate_slope=0.05),
                 [DRIVE * 1000])]

    def setup(self, new: New) -> None:
        n = self.in_features or 0
        self.weight = new.weight(self.out_features, n)
        self.bias = new.bias(self.out_features, fan_in=n) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (2, 3) or (x.ndim == 3 and not x.shape[1]):
            raise ShapeError(f"Spiking: expected x (N, T, in_features) of at least one step, or (N, in_features), one "
                             f"step; got {x.shape}.")
        shape, currents, model = (x.shape[0], self.out_features), F.linear(x, self.weight, self.bias), self._neuron
        start = model.start | ({"wait": 0.0} if self.refractory else {})
        if x.ndim == 2:
            state, spikes = self._step(self.kept(shape, start), currents)
            self.keep({n: F.detach(s) for n, s in state.items()})
            return spikes
        names = list(start)

        def step(values: tuple[Tensor, ...], current: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
            state, spikes = self._step(dict(zip(names, values, strict=True)), current)
            return tuple(state[n] for n in names), spikes

        begin = tuple(F.full(shape, v, currents.dtype) for v in start.values())
        return F.permute(F.scan(step, begin, F.permute(currents, (1, 0, 2)))[1], (1, 0, 2))

    @property
    def _neuron(self) -> Neuron:
        if self.neuron in NEURONS:
            return NEURONS[self.neuron]
        keep = 1 - 1 / self.tau if self.neuron == "lif" else 1.0
        return Neuron(lambda s, i, _: {"v": keep * s["v"] + i}, lambda s, _, threshold: s["v"] - threshold,
                      lambda s: {"v": F.zeros(s["v"].shape, s["v"].dtype) if self.reset == "zero"
                                 else s["v"] - self.threshold}, {"v": 0.0}, 1.0)

    def _step(self, state: State, current: Tensor) -> tuple[State, Tensor]:
        """The state after one step, and who spikes."""
        model, wait = self._neuron, state.get("wait")
        if wait is not None:
            current = F.where(wait > 0, 0.0, current)
        flown = model.flow(state, current, self.dt or model.dt)
        d = model.over(flown, state, self.threshold)
        spikes = custom_gradient(d, _jump, _surrogate(self.surrogate, self.surrogate_slope))
        s = F.detach(spikes) if self.detach_reset else spikes
        after = model.after(flown)
        new = {n: v if after[n] is v else v + s * (after[n] - v) for n, v in flown.items()}
        if wait is not None:
            new["wait"] = F.where(F.detach(spikes) > 0, float(self.refractory), F.maximum(wait - 1, 0.0))
        return new, spikes
