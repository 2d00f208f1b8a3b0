"""Networks side by side, and the router that chooses among them."""

from __future__ import annotations

from typing import Any

from .. import ops as F
from ..config.fields import bound, field
from ..core.tensor import Tensor
from ..errors import ConfigError
from ..ops.activations import activation
from ..ops.index import _gather
from ..ops.normalization import softmax
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
    it to the loss; own loops find it as the attribute `aux_loss` after a call. The choice is made on the device, where
    shapes are fixed. capacity_factor 0: every expert computes a row for every token, zeros for those it was not chosen
    for. Above 0 tokens are routed: every expert computes ⌈capacity_factor · top_k · M / experts⌉ rows, at most M, the
    tokens that chose it, first choices before second ones, earlier tokens before later ones; rows that nobody takes
    are zeros. A choice that finds its expert full is dropped: its pₑ · Eₑ(x) is 0, the others keep their p. From
    capacity_factor = experts / top_k on nothing is dropped.
    Paper: Shazeer et al. 2017, arXiv:1701.06538; auxiliary loss, capacity: Fedus, Zoph, Shazeer 2021, arXiv:2101.03961.
    """

    spec_name = "MixtureOfExpertsLayer"
    aliases = ("MoE", "moe")
    experts: tuple[Child, ...] = field(doc="what is chosen from", min_length=1)
    in_features: int | None = bound(doc="size of the last axis of the input")
    router: Child | None = field(None, doc="scores of the experts; None: Dense(in_features, experts, bias=False)")
    top_k: int = field(0, doc="experts a token goes to; 0: all", ge=0)
    capacity_factor: float = field(0.0, doc="rows an expert computes, in shares of an even load; 0: all", ge=0)
    load_balance_weight: float = field(0.0, doc="weight of the auxiliary loss", ge=0)
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "... in_features -> ... out"
    examples = [(dict(experts=[{"type": "Dense", "out_features": 3}] * 3, in_features=4, top_k=2), [(5, 4)]),
                (dict(experts=[{"type": "Dense", "out_features": 3, "activation": "tanh"}] * 2, load_balance_weight=0.1,
                      activation="relu", router={"type": "Dense", "out_features": 2}), [(2, 3, 4)]),
                (dict(experts=[{"type": "Dense", "out_features": 3}] * 3, in_features=4, top_k=2, capacity_factor=0.75),
                 [(6, 4)])]

    def validate(self) -> None:
        self.aux_loss: Any = 0.0
        if self.top_k > len(self.experts):
            raise ConfigError(
                f"MixtureOfExperts(top_k={self.top_k}): expected at most the number of experts, {len(self.experts)}.")
        if self.capacity_factor and not self.top_k:
            raise ConfigError(
                f"MixtureOfExperts(capacity_factor={self.capacity_factor}): expected top_k of at least 1 beside it; "
                "got 0, with which every token goes to all experts; set top_k, or leave the capacity out.")

    def setup(self, new: New) -> None:
        self.gate = Dense(self.in_features, len(self.experts), bias=False) if self.router is None else None

    def forward(self, x: Tensor) -> Tensor:
        tokens = F.reshape(x, (-1, x.shape[-1]))
        scores = (self.gate or self.router)(tokens)  # type: ignore[misc]
        chosen = self._chosen(scores)
        self.aux_loss = self._balance(scores, chosen) if self.training and self.load_balance_weight else 0.0
        y = self._routed(tokens, scores) if self.capacity_factor else self._dense(tokens, scores, chosen)
        return activation(self.activation)(F.reshape(y, (*x.shape[:-1], y.shape[-1])))

    def _dense(self, tokens: Tensor, scores: Tensor, chosen: Tensor | None) -> Tensor:
        """Σₑ pₑ Eₑ(x), every expert over all tokens."""
        p = softmax(scores, mask=chosen)
        y: Any = 0.0
        for e, expert in enumerate(self.experts):
            mine = None if chosen is None else chosen[:, e : e + 1]
            # Tokens of others are zeros in both directions: what an expert makes of them, NaN too, goes nowhere.
            value = expert(tokens if mine is None else F.where(mine, tokens, 0.0))
            y = y + p[:, e : e + 1] * (value if mine is None else F.where(mine, value, 0.0))
        return y  # type: ignore[no-any-return]

    def _routed(self, tokens: Tensor, scores: Tensor) -> Tensor:
        """Σₑ pₑ Eₑ(x), every expert over the tokens that found room."""
        count, k, many = len(self.experts), self.top_k, tokens.shape[0]
        best, which = F.topk(scores, k)
        queue = F.reshape(F.transpose(F.cast(which, "int32")), (k * many,))  # all first choices, then all second ones
        there = F.cast(F.cumsum(F.one_hot(queue, count, "int32"), 0), "int32")
        turn = F.reshape(F.take_along_axis(there, F.reshape(queue, (-1, 1)), 1), (-1,)) - 1
        room = self._room(many)
        row = F.where(turn < room, queue * room + turn, count * room)  # the last row is nobody's
        number = F.arange(n=k * many, dtype="int32") % many
        taker = F.scatter_add(number + 1, row, count * room + 1)[: count * room] - 1
        rows = _take(tokens, F.cast(taker, "int32"))
        found = F.concat([expert(rows[e * room : (e + 1) * room]) for e, expert in enumerate(self.experts)], 0)
        values = F.reshape(_take(found, F.where(row < count * room, row, -1)), (k, many, found.shape[-1]))
        return F.sum(F.reshape(F.transpose(softmax(best)), (k, many, 1)) * values, 0)

    def _room(self, many: int) -> int:
        """Rows an expert computes. In whole numbers: `many` may vary."""
        if self.capacity_factor * self.top_k >= len(self.experts):
            return many
        share, whole = round(self.capacity_factor * self.top_k * 4096), 4096 * len(self.experts)
        return (many * max(share, 1) + whole - 1) // whole

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


def _take(x: Tensor, index: Tensor) -> Tensor:
    """y[i] = x[index[i]], 0 where index is −1"""
    rows = x.shape[0]
    y = _gather(F.reshape(x, (1, *x.shape)), F.where(index < 0, rows, index), fill="zero")
    return F.reshape(y, (index.shape[0], x.shape[1]))
