"""Synapses that learn from the spikes at both of their ends."""

from __future__ import annotations

from .. import init
from .. import ops as F
from ..config.fields import bound, choice, field, positive
from ..core.tensor import Tensor
from ..errors import ConfigError, ShapeError
from .base import Layer, New


class SynapticPlasticity(Layer):
    """y = x Wᵀ (mode "linear"), or y = x ("identity", as many outputs as inputs)

    x (N, in_features), or (N, T, in_features), T steps one after another; W (out_features, in_features) ~ U(w_min,
    w_max), a buffer without gradient, traces pre (in_features), post (out_features), at first 0.
    With p = 1[x > spike_threshold], q = 1[y > spike_threshold] and the traces before the step, averaged over N:
    ΔW = a_plus q preᵀ (w_max − W) − a_minus post pᵀ (W − w_min) − homeostasis (W − (w_min + w_max)/2);
    W ← clip(W + lr ΔW, w_min, w_max), then trace ← 1 where there is a spike, else trace_decay · trace, averaged over N.
    `local_update(lr)` does so for the last call; with `rate` every training call does, recorded ones on the device.
    Paper: Song, Miller, Abbott 2000, doi:10.1038/78829; Morrison et al. 2008, doi:10.1007/s00422-008-0233-1.
    """

    own_rule = "of spike times, in training calls with `rate`, or by update and local_update"
    spec_name = "SynapticPlasticityLayer"
    in_features: int | None = bound(doc="size of the last axis of the input")
    out_features: int = positive(doc="size of the last axis of the output")
    a_plus: float = field(0.005, doc="potentiation by a spike behind the trace of one before it", ge=0)
    a_minus: float = field(0.0025, doc="depression by a spike before it, behind the trace of one behind", ge=0)
    homeostasis: float = field(1e-4, doc="pull to the middle of the range", ge=0)
    w_min: float = field(0.0, doc="least weight")
    w_max: float = field(1.0, doc="largest weight")
    trace_decay: float = field(0.95, doc="what a step leaves of a trace", ge=0, le=1)
    spike_threshold: float = field(0.5, doc="above which a number is a spike")
    mode: str = choice("linear", ("linear", "identity"), doc="what goes through")
    rate: float | None = field(None, doc="lr of the rule in every training call; None: local_update alone", gt=0)
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=4, out_features=3, rate=1.0), [(2, 3, 4)]),
                (dict(out_features=3, mode="identity", rate=0.5), [(4, 3)])]

    def validate(self) -> None:
        if self.w_min >= self.w_max:
            raise ConfigError(f"SynapticPlasticity: expected w_min below w_max; got {self.w_min} and {self.w_max}.")

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        if self.mode == "identity" and n != out:
            raise ConfigError(f"SynapticPlasticity: expected out_features = in_features = {n} in mode 'identity'; got "
                              f"{out}.")
        low, high = self.w_min, self.w_max
        self.weight = new.buffer(init.uniform(new._sized((out, n)), (high - low) / 2) + (low + high) / 2)
        self.pre, self.post = (new.buffer(init.uniform((m,), 0.0)) for m in (n, out))

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (2, 3):
            raise ShapeError(f"SynapticPlasticity: expected x (N, in_features) or (N, T, in_features); got {x.shape}.")
        y = F.linear(x, self.weight.tensor) if self.mode == "linear" else x
        if self.training and self.rate is not None:
            self._learn(F.detach(x), F.detach(y), self.rate)
        return y

    def local_update(self, lr: float = 1.0) -> None:
        """The rule for the input and output of the last call. Raises ShapeError where there was none."""
        if getattr(self, "_called", None) is None:
            raise ShapeError("SynapticPlasticity.local_update: expected a call of the layer first; got none; call it.")
        (x, *_), y = self._called
        self._learn(F.detach(x), F.detach(y), lr)

    def update(self, lr: float = 0.01) -> None:
        """As local_update: there is no gradient to follow."""
        self.local_update(lr)

    def reset_state(self) -> None:
        """Traces are 0 again; weights stay."""
        for trace in (self.pre, self.post):
            trace.assign(F.zeros(trace.shape))

    def _learn(self, x: Tensor, y: Tensor, lr: float) -> None:
        def spikes(a: Tensor) -> Tensor:
            s = F.cast(a > self.spike_threshold, "float32")
            return F.mean(F.reshape(s, (s.shape[0], -1, s.shape[-1])), 0)  # (T, n): all that averages need

        p, q = spikes(x), spikes(y)
        w, pre, post = self.weight.tensor, self.pre.tensor, self.post.tensor
        low, high, decay = self.w_min, self.w_max, self.trace_decay
        for t in range(p.shape[0]):
            up = self.a_plus * F.reshape(q[t], (-1, 1)) * pre * (high - w)
            down = self.a_minus * F.reshape(post, (-1, 1)) * p[t] * (w - low)
            w = F.clip(w + lr * (up - down - self.homeostasis * (w - (low + high) / 2)), low, high)
            pre, post = (s + (1 - s) * decay * trace for s, trace in ((p[t], pre), (q[t], post)))
        for variable, new in ((self.weight, w), (self.pre, pre), (self.post, post)):
            variable.assign(new)
