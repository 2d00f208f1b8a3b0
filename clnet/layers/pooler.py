"""Sparse binary codes: columns that learn what they overlap with, and how far a code is from what was predicted."""

from __future__ import annotations

import numpy as np

from .. import init
from .. import ops as F
from ..config.fields import bound, choice, field, positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from .base import Layer, New


class SpatialPooler(Layer):
    """y_c = 1 for the k = max(1, round(sparsity · column_count)) largest overlaps o_c > 0, o_c ≥ stimulus_threshold,
    o_c = boost_c Σ_j 1[permanence_cj ≥ connected_threshold] x_j; ties: the lower column

    x (N, input_size), a number above ½ counts as 1; y (N, column_count), 0 or 1.
    Buffers: potential (column_count, input_size) bool, true with probability potential_fraction; permanence, there
    U(0, 1), else 0; active_duty (column_count) at first 0, boost 1. In a training call, sample by sample: of active
    columns permanence += increment where x = 1, −= decrement where x = 0, in [0, 1]; active_duty ← ((T − 1) active_duty
    + y) / T, T = min(samples so far, duty_cycle_period); boost = exp(−boost_strength (active_duty − its mean)). The
    samples of such a call are recorded one after another: keep batches small.
    The gradient is 0; with straight_through dx = (g ⊙ y) · 1[permanence ≥ connected_threshold].
    Paper: Cui, Ahmad, Hawkins 2017, doi:10.3389/fncom.2017.00111.
    """

    spec_name = "SpatialPoolerLayer"
    has_gradient = False
    own_rule = "of permanences, duty cycles and boost, in training calls"
    input_size: int | None = bound(doc="size of the input")
    column_count: int = positive(doc="how many columns there are, the size of the output")
    sparsity: float = field(0.02, doc="share of the columns that are active", gt=0, le=1)
    potential_fraction: float = field(0.5, doc="share of the inputs that a column may connect to", gt=0, le=1)
    connected_threshold: float = field(0.5, doc="permanence from which a synapse is connected", ge=0, le=1)
    permanence_increment: float = field(0.1, doc="for inputs that are 1", ge=0, le=1)
    permanence_decrement: float = field(0.02, doc="for inputs that are 0", ge=0, le=1)
    boost_strength: float = field(0.0, doc="how much rarely active columns are preferred", ge=0)
    duty_cycle_period: int = positive(1000, doc="samples over which activity is averaged")
    stimulus_threshold: float = field(0.0, doc="least overlap of an active column", ge=0)
    straight_through: bool = field(False, doc="whether the input gets a gradient as of a linear map")
    signature = "N input_size -> N column_count"
    examples = [(dict(input_size=12, column_count=8, sparsity=0.25, boost_strength=2.0), [(3, 12)]),
                (dict(column_count=6, sparsity=0.4, stimulus_threshold=2.0, potential_fraction=0.8), [(2, 10)])]

    def setup(self, new: New) -> None:
        shape = new._sized((self.column_count, self.input_size or 0))
        potential = init.generator().uniform(size=shape) < self.potential_fraction
        self.potential = new.buffer(potential)
        self.permanence = new.buffer(np.where(potential, init.uniform(shape, 0.5) + np.float32(0.5), np.float32(0)))
        self.active_duty = new.buffer(np.zeros(self.column_count, np.float32))
        self.boost = new.buffer(np.ones(self.column_count, np.float32))
        self.samples = new.buffer(np.zeros((), np.int32))

    def forward(self, x: Tensor) -> Tensor:
        bits = F.detach(F.cast(x > 0.5, "float32"))
        connected = self._connected(self.permanence.tensor)
        y = self._learn(bits) if self.training else self._active(bits, connected, self.boost.tensor)
        if self.straight_through:
            pulled = F.linear(x, connected) * y
            y = y + (pulled - F.detach(pulled))
        return y

    def _connected(self, permanence: Tensor) -> Tensor:
        return F.cast(F.bit_and(self.potential.tensor, permanence >= self.connected_threshold), "float32")

    def _active(self, bits: Tensor, connected: Tensor, boost: Tensor) -> Tensor:
        """(N, column_count), 1 where a column is active."""
        o = boost * F.linear(bits, connected)
        count = min(self.column_count, max(1, round(self.sparsity * self.column_count)))
        best = F.argsort(o, -1, descending=True)[:, :count]
        chosen = F.sum(F.one_hot(F.cast(best, "int32"), self.column_count), 1)
        return F.where(F.bit_and(o > 0, o >= self.stimulus_threshold), chosen, 0.0)

    def _learn(self, bits: Tensor) -> Tensor:
        """What is active, sample by sample, each with what the ones before left."""
        permanence, duty, boost = self.permanence.tensor, self.active_duty.tensor, self.boost.tensor
        found = []
        for n in range(bits.shape[0]):
            y = self._active(bits[n : n + 1], self._connected(permanence), boost)[0]
            change = F.where(bits[n] > 0, self.permanence_increment, -self.permanence_decrement)
            moves = F.bit_and(F.reshape(y, (-1, 1)) > 0, self.potential.tensor)
            permanence = F.where(moves, F.clip(permanence + change, 0.0, 1.0), permanence)
            span = F.cast(F.minimum(self.samples.tensor + (n + 1), self.duty_cycle_period), "float32")
            duty = ((span - 1) * duty + y) / span
            boost = F.exp(-self.boost_strength * (duty - F.mean(duty)))
            found.append(y)
        for variable, new in ((self.permanence, permanence), (self.active_duty, duty), (self.boost, boost),
                              (self.samples, self.samples.tensor + bits.shape[0])):
            variable.assign(new)
        return F.stack(found)


class AnomalyDetector(Layer):
    """y = |A − P| / |A| (metric "htm"), |A xor P| / |A or P| ("jaccard"), 0 where nothing is divided by

    x (…, input_size) = [actual ; predicted], numbers above ½ count as members of A and P; y (…, 1), in [0, 1].
    In a training call smoothed ← (1 − smoothing) smoothed + smoothing · mean(y), and mean(y) joins `history`, of which
    the last history_capacity are kept; `statistics()` reads them, `is_anomaly` says whether smoothed > threshold.
    Paper: Ahmad et al. 2017, doi:10.1016/j.neucom.2017.04.070.
    """

    spec_name = "AnomalyDetectorLayer"
    has_gradient = False
    own_rule = "of running statistics, the smoothed score and the history, in training calls"
    input_size: int | None = bound(doc="size of the input, even: actual and predicted")
    threshold: float = field(0.5, doc="of the smoothed score, above which there is an anomaly", ge=0, le=1)
    metric: str = choice("htm", ("htm", "jaccard"), doc="how sets are compared")
    history_capacity: int = positive(100, doc="scores that are kept")
    smoothing: float = field(0.1, doc="share of a new score in the smoothed one", gt=0, le=1)
    signature = "... input_size -> ... one"
    one = 1
    examples = [(dict(input_size=8, history_capacity=4), [(5, 8)]), (dict(metric="jaccard"), [(2, 3, 6)])]

    def setup(self, new: New) -> None:
        if (self.input_size or 0) % 2:
            raise ConfigError(f"AnomalyDetector: expected an even input_size, actual and predicted; got "
                              f"{self.input_size}.")
        self.smoothed, self.count = new.buffer(np.zeros((), np.float32)), new.buffer(np.zeros((), np.int32))
        self.history = new.buffer(np.zeros(self.history_capacity, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        a, p = x[..., :half] > 0.5, x[..., half:] > 0.5
        either, only = (a, F.bit_and(a, F.logical_not(p))) if self.metric == "htm" else (F.bit_or(a, p),
                                                                                         F.bit_xor(a, p))
        whole, part = (F.sum(F.cast(s, "float32"), -1, keepdims=True) for s in (either, only))
        y = part / F.maximum(whole, 1.0)
        if self.training:
            self._note(F.mean(y))
        return y

    def _note(self, score: Tensor) -> None:
        at = F.equal(F.arange(n=self.history_capacity, dtype="int32"), self.count.tensor % self.history_capacity)
        self.history.assign(F.where(at, score, self.history.tensor))
        self.smoothed.assign((1 - self.smoothing) * self.smoothed.tensor + self.smoothing * score)
        self.count.assign(self.count.tensor + 1)

    @property
    def is_anomaly(self) -> bool:
        """Whether the smoothed score is above the threshold."""
        return float(self.smoothed.numpy()) > self.threshold

    def statistics(self) -> dict[str, float]:
        """mean, std, min and max of the scores that are kept; {} before the first."""
        kept = self.history.numpy()[: int(self.count.numpy())]
        return {n: float(getattr(kept, n)()) for n in ("mean", "std", "min", "max")} if len(kept) else {}
