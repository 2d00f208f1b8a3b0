"""Networks side by side, and the router that chooses among them."""

from __future__ import annotations

from typing import Any

from .. import ops as F
from ..config.fields import bound, field
from ..core.tensor import Tensor
from ..errors import ConfigError
from ..ops.activations import activation
from ..ops.normalize import softmax
from .base import Layer, New
from .dense import Dense
from .fields import Act, Child


class Expert(Layer):
    """y = act(layerₖ(… layer₁(x)))

    x as the first layer takes it. What a MixtureOfExperts chooses from; `Expert.ffn` makes the usual one.
    Paper: Shazeer et al. 2017, arXiv:1701.06538.
    """

    spec_name = "ExpertLayer"
    aliases = ("expert",)
    layers: tuple[Child, ...] = field(doc="the layers in order", min_length=1)
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(layers=[{"type": "Dense", "out_features": 6, "activation": "relu"},
                              {"type": "Dense", "out_features": 3}]), [(3, 4)]),
                (dict(layers=[{"type": "Dense", "out_features": 3}], activation="tanh"), [(2, 3, 4)])]

    @classmethod
    def ffn(cls, d_model: int, d_hidden: int, activation: str | None = "relu") -> Expert:
        """act(x W₁ᵀ + b₁) W₂ᵀ + b₂ of width d_hidden."""
        return cls(layers=[Dense(d_model, d_hidden, activation=activation), Dense(d_hidden, d_model)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return activation(self.activation)(x)


class MixtureOfExperts(Layer):
    """y = act(Σₑ pₑ · Eₑ(x)), p = softmax(router(x)) over the top_k largest, 0 elsewhere

    x (…, in_features), every expert (M, in_features) -> (M, out), y (…, out); leading axes are tokens. Of equal scores
    the lower number wins. The choice is a constant: gradients flow through the kept p, the experts, and the auxiliary
    loss
        aux_loss = load_balance_weight · E · Σₑ fₑ Pₑ
    with fₑ the share of choices that fell on e and Pₑ the mean of softmax(router(x))ₑ over the tokens. `Trainer` adds
    it to the loss; own loops find it as the attribute `aux_loss` after a call. The choice is made on the device: shapes
    are fixed, so every expert computes a row for every token, zeros for those it was not chosen for.
    Paper: Shazeer et al. 2017, arXiv:1701.06538; auxiliary loss: Fedus, Zoph, Shazeer 2021, arXiv:2101.03961.
    """

    spec_name = "MixtureOfExpertsLayer"
    aliases = ("MoE", "moe")
    experts: tuple[Child, ...] = field(doc="what is chosen from", min_length=1)
    in_features: int | None = bound(doc="size of the last axis of the input")
    router: Child | None = field(None, doc="scores of the experts; None: Dense(in_features, experts, bias=False)")
    top_k: int = field(0, doc="experts a token goes to; 0: all", ge=0)
    load_balance_weight: float = field(0.0, doc="weight of the auxiliary loss", ge=0)
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "... in_features -> ... out"
    examples = [(dict(experts=[{"type": "Dense", "out_features": 3}] * 3, in_features=4, top_k=2), [(5, 4)]),
                (dict(experts=[{"type": "Dense", "out_features": 3, "activation": "tanh"}] * 2, load_balance_weight=0.1,
                      activation="relu", router={"type": "Dense", "out_features": 2}), [(2, 3, 4)])]

    def validate(self) -> None:
        self.aux_loss: Any = 0.0
        if self.top_k > len(self.experts):
            raise ConfigError(
                f"MixtureOfExperts(top_k={self.top_k}): expected at most the number of experts, {len(self.experts)}.")

    def setup(self, new: New) -> None:
        self.gate = Dense(self.in_features, len(self.experts), bias=False) if self.router is None else None

    def forward(self, x: Tensor) -> Tensor:
        tokens = F.reshape(x, (-1, x.shape[-1]))
        scores = (self.gate or self.router)(tokens)  # type: ignore[misc]
        chosen = self._chosen(scores)
        p = softmax(scores, mask=chosen)
        self.aux_loss = self._balance(scores, chosen) if self.training and self.load_balance_weight else 0.0
        y: Any = 0.0
        for e, expert in enumerate(self.experts):
            mine = None if chosen is None else chosen[:, e : e + 1]
            # Tokens of others are zeros in both directions: what an expert makes of them, NaN too, goes nowhere.
            value = expert(tokens if mine is None else F.where(mine, tokens, 0.0))
            y = y + p[:, e : e + 1] * (value if mine is None else F.where(mine, value, 0.0))
        return activation(self.activation)(F.reshape(y, (*x.shape[:-1], y.shape[-1])))

    def _chosen(self, scores: Tensor) -> Tensor | None:
        """(M, E) bool: fewer than top_k experts beat this one. None where all are chosen."""
        count = len(self.experts)
        if self.top_k in (0, count):
            return None
        mine, other = F.reshape(scores, (-1, count, 1)), F.reshape(scores, (-1, 1, count))
        number = F.arange(n=count, dtype="int32")
        earlier = F.reshape(number, (1, count)) < F.reshape(number, (count, 1))
        beats = (other > mine) | (F.equal(other, mine) & earlier)
        return F.sum(F.cast(beats, "int32"), -1) < self.top_k

    def _balance(self, scores: Tensor, chosen: Tensor | None) -> Tensor:
        count = len(self.experts)
        share = F.mean(softmax(scores), 0)
        if chosen is None:
            return F.sum(share) * self.load_balance_weight
        return F.sum(F.mean(F.cast(chosen, scores.dtype), 0) * share) * (self.load_balance_weight * count / self.top_k)
