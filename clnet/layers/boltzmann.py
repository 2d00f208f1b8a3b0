"""Restricted Boltzmann machines, which learn by contrastive divergence or by its loss."""

from __future__ import annotations

from .. import ops as F
from ..config.fields import bound, field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.draws import bernoulli
from .base import Layer, New


class RBM(Layer):
    """p(h = 1 | v) = σ(v Wᵀ + b_hidden)

    v (…, n_visible) in [0, 1], y (…, n_hidden); W (n_hidden, n_visible) at first N(0, 0.01²), b_visible, b_hidden 0.
    `reconstruct(h)`: p(v = 1 | h) = σ(h W + b_visible); `free_energy(v)`: F(v) = −v · b_visible − Σ softplus(v Wᵀ +
    b_hidden), (…).
    CD-k: h ~ p(h | v₀), k times v ~ p(v | h), h ~ p(h | v); W += lr (p(h | v₀)ᵀ v₀ − p(h | v_k)ᵀ v_k) / N, b_visible +=
    lr mean(v₀ − v_k), b_hidden += lr mean(p(h | v₀) − p(h | v_k)). `local_update(lr)` takes that step for the last
    input; with `cd_rate` every training call takes it, recorded ones on the device, and no optimizer sees the
    parameters. `cd_loss(v₀)` is what it descends, for optimizers: mean F(v₀) − mean F(v_k), v_k constant.
    As a plain layer it has the gradient of its formula.
    Paper: Smolensky 1986; Hinton 2002, doi:10.1162/089976602760128018.
    """

    spec_name = "RBMLayer"
    own_rule = "of contrastive divergence with cd_rate, or by local_update; else by gradients, as checked here"
    aliases = ("RestrictedBoltzmannMachine", "BernoulliRBM")
    n_visible: int | None = bound(doc="size of the last axis of the input")
    n_hidden: int = positive(doc="size of the last axis of the output")
    k: int = positive(1, doc="steps of Gibbs sampling in a step of contrastive divergence")
    cd_rate: float | None = field(None, doc="lr of CD-k in every training call; None: parameters are an optimizer's",
                                  gt=0)
    signature = "... n_visible -> ... n_hidden"
    examples = [(dict(n_visible=5, n_hidden=3), [(4, 5)]), (dict(n_hidden=2, k=2), [(2, 3, 4)])]

    def setup(self, new: New) -> None:
        n, h = self.n_visible or 0, self.n_hidden
        self.weight = new.normal(h, n, std=0.01)
        self.b_visible, self.b_hidden = new.zeros(n), new.zeros(h)
        for p in (self.weight, self.b_visible, self.b_hidden):
            p.trainable = self.cd_rate is None

    def forward(self, v: Tensor) -> Tensor:
        y = self._hidden(v)
        if self.training and self.cd_rate is not None:
            self._diverge(F.detach(v), self.cd_rate)
        return y

    def reconstruct(self, h: Tensor) -> Tensor:
        """p(v = 1 | h), (…, n_visible)"""
        return F.sigmoid(F.linear(h, F.transpose(self.weight), self.b_visible))

    def free_energy(self, v: Tensor) -> Tensor:
        """F(v), (…): p(v) ∝ e^(−F(v))"""
        inner = F.sum(F.softplus(F.linear(v, self.weight, self.b_hidden)), -1)
        return -F.sum(v * self.b_visible.tensor, -1) - inner

    def cd_loss(self, v: Tensor) -> Tensor:
        """mean F(v) − mean F(v_k), whose gradient is the step of CD-k; v_k is drawn anew in each call."""
        return F.mean(self.free_energy(v)) - F.mean(self.free_energy(self.sample(v)))

    def sample(self, v: Tensor) -> Tensor:
        """v_k, k steps of Gibbs sampling away from v; without gradient."""
        for _ in range(self.k):
            v = self._drawn(self.reconstruct(self._drawn(self._hidden(v))))
        return v

    def local_update(self, lr: float = 0.01) -> None:
        """CD-k for the input of the last call. Raises ShapeError where there was none."""
        if getattr(self, "_called", None) is None:
            raise ShapeError("RBM.local_update: expected a call of the layer first; got none; call it.")
        self._diverge(F.detach(self._called[0][0]), lr)

    def _hidden(self, v: Tensor) -> Tensor:
        return F.sigmoid(F.linear(v, self.weight, self.b_hidden))

    def _drawn(self, p: Tensor) -> Tensor:
        return bernoulli(F.detach(p), p.shape, self.random.key, self.random.advance(), p.dtype)

    def _diverge(self, v: Tensor, lr: float) -> None:
        v = F.reshape(v, (-1, v.shape[-1]))
        far = self.sample(v)
        near_h, far_h = F.detach(self._hidden(v)), F.detach(self._hidden(far))
        step = F.matmul(F.transpose(near_h), v) - F.matmul(F.transpose(far_h), far)
        changes = ((self.weight, step / v.shape[0]), (self.b_visible, F.mean(v - far, 0)),
                   (self.b_hidden, F.mean(near_h - far_h, 0)))
        for p, change in changes:
            p.assign(F.detach(p.tensor) + lr * change)
