"""A chain of perceptrons whose levels learn at paces of their own."""

from __future__ import annotations

from .. import ops as F
from ..config.fields import bound, field, positive
from ..core.state import Variable, blank
from ..core.tensor import Tensor
from ..errors import ConfigError, ShapeError
from .base import Layer, New
from .dense import Dense
from .fields import Act


class ContinuumMemory(Layer):
    """y = MLP_L(… MLP_1(x)),  MLP_l(h) = act(W_l h + b_l), l = 1 … L = num_levels

    x (…, in_features), y (…, hidden_features); W_1 (hidden_features, in_features), the others square. Level l moves in
    every C_l-th step, C_l = max(1, max(f) // f_l), f = update_frequencies, by the gradients of all steps since: those
    with f_l = max(f) in each, slower ones keep what was learned longer. Optimizers do so by themselves (a slow level
    and what an optimizer keeps of it stand still between its steps; its bias corrections count its own); a rate for
    each level is `Group(names=("*levels.0.*",), lr=…)`. Optimizers that search along all parameters refuse it.
    Without an optimizer, after each `backward`, `local_update()`: the sum of gradients S_l += ∂/∂θ_l, and in every
    C_l-th call θ_l ← θ_l − level_lrs_l S_l, S_l ← 0. These sums are in no file, as an optimizer's are in checkpoints
    alone. `consolidate(rate)`: θ_{l+1} ← (1 − rate) θ_{l+1} + rate θ_l for all l at once, where shapes agree.
    Raises ConfigError for frequencies or rates that are not one a level.
    Paper: Behrouz et al. 2025, "Nested Learning: The Illusion of Deep Learning Architectures", equations 30, 31.
    """

    spec_name = "ContinuumMemorySystemLayer"
    own_rule = "level by level, each in every C_l-th step by the sum of the gradients since"
    in_features: int | None = bound(doc="size of the last axis of the input")
    hidden_features: int = positive(doc="size of the last axis of the output, and of those between levels")
    num_levels: int = positive(3, doc="L, how many levels there are")
    update_frequencies: tuple[int, ...] = field((), doc="f, how often each level moves; (): 1, 10, … 10^(L−1)")
    level_lrs: tuple[float, ...] = field((), doc="rates of local_update; (): 0.01, 0.001, … 0.01 / 10^(L−1)")
    activation: Act = field("relu", doc="name of the function of a level; None: identity")
    signature = "... in_features -> ... hidden_features"
    examples = [(dict(in_features=3, hidden_features=4, num_levels=2, update_frequencies=(1, 2), activation="tanh"),
                 [(5, 3)]), (dict(hidden_features=3, activation="sigmoid"), [(2, 2, 3)])]

    def validate(self) -> None:
        count = self.num_levels
        for name, given in (("update_frequencies", self.frequencies), ("level_lrs", self.rates)):
            if len(given) != count or min(given) <= 0:
                raise ConfigError(f"ContinuumMemory: expected {count} numbers above 0 as {name}, one a level; got "
                                  f"{given}.")

    @property
    def frequencies(self) -> tuple[int, ...]:
        """f, a number a level."""
        return self.update_frequencies or tuple(10**k for k in range(self.num_levels))

    @property
    def rates(self) -> tuple[float, ...]:
        """The rate of local_update, a number a level."""
        return self.level_lrs or tuple(0.01 / 10**k for k in range(self.num_levels))

    @property
    def chunks(self) -> tuple[int, ...]:
        """C, in every how many steps each level moves."""
        return tuple(max(1, max(self.frequencies) // f) for f in self.frequencies)

    def setup(self, new: New) -> None:
        n, h = self.in_features or 0, self.hidden_features
        self.levels = [Dense(n if k == 0 else h, h, activation=self.activation) for k in range(self.num_levels)]
        for level, chunk in zip(self.levels, self.chunks, strict=True):
            for p in level.parameters():
                p.every = chunk
        self.reset_updates()

    def forward(self, x: Tensor) -> Tensor:
        for level in self.levels:
            x = level(x)
        return x

    def reset_updates(self) -> None:
        """local_update counts from 0 again, and no gradient is added up yet."""
        self._calls = 0
        self._sums: dict[str, Variable] = {}

    def local_update(self) -> None:
        """The rule by the gradients of the last `backward`. Raises ShapeError where there was none."""
        if any(p.grad is None for p in self.parameters()):
            raise ShapeError("ContinuumMemory.local_update: expected gradients; got none; call the layer, then "
                             "backward(g).")
        self._calls += 1
        for k, (level, chunk, lr) in enumerate(zip(self.levels, self.chunks, self.rates, strict=True)):
            for name, p in level.variables().items():
                if chunk == 1:
                    p.assign(p.tensor - lr * p.grad)
                    continue
                kept = self._sums.setdefault(f"{k}.{name}", blank(p.shape, "float32", name))
                total, due = kept.tensor + p.grad, self._calls % chunk == 0
                kept.assign(F.zeros(p.shape) if due else total)
                if due:
                    p.assign(p.tensor - lr * total)

    def consolidate(self, rate: float = 0.01) -> None:
        """Each level takes a share of the one before it. Raises ConfigError for a rate outside of [0, 1]."""
        if not 0 <= rate <= 1:
            raise ConfigError(f"ContinuumMemory.consolidate: expected a rate from 0 to 1; got {rate}.")
        values = [[p.tensor for p in level.parameters()] for level in self.levels]
        for level, before in zip(self.levels[1:], values, strict=False):
            for p, source in zip(level.parameters(), before, strict=True):
                if p.shape == source.shape:
                    p.assign((1 - rate) * p.tensor + rate * source)
