"""Metrics of hits, a row a step: accuracy, of the best class or of the k best, and of yes and no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import ops as F
from ..core.tensor import Tensor, as_tensor
from ..errors import ConfigError
from ..losses.ignored import mean
from ..losses.reading import CLASSES, YES_NO, decided
from .base import GIVEN, Array, Kind, Metric, PerStep, Seen, Statistic, average, labels_of, quotient, summed


@dataclass(frozen=True)
class Hits(PerStep):
    """Σ (class decided for = label) and how many labels count: those that the loss ignores do not."""

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        output, target = as_tensor(seen.output), as_tensor(seen.target)
        if seen.kind.reads == GIVEN:
            classes = output
        else:
            classes = decided(seen.loss, output) if seen.kind.reads else F.argmax(output, 1).astype("int32")
        labels, counted = labels_of(classes, target, seen.loss, seen.counts)
        return summed(F.equal(classes, labels).astype("float32"), counted)


class _Share(Metric):
    """Σ of the first column / Σ of the second."""

    high: ClassVar[bool] = True

    def result(self, found: tuple[Array, Array], kind: Kind) -> float:
        return quotient(found[1])


class Accuracy(_Share):
    """The share of labels that were decided for"""

    key = "accuracy"
    aliases = ("acc", "categorical_accuracy", "sparse_categorical_accuracy")
    wants = "scores of classes on axis 1, and labels"

    def fits(self, kind: Kind) -> bool:
        if kind.reads == GIVEN:
            return kind.decides and not kind.labels
        if kind.reads not in CLASSES and (kind.reads or len(kind.output.shape) < 2):
            return False
        sparse = (kind.output.shape[0], *kind.output.shape[2:])
        return bool(kind.reads) or kind.target.shape in (kind.output.shape, sparse)

    def statistic(self, kind: Kind) -> Statistic:
        return Hits()


@dataclass(frozen=True)
class RankHits(PerStep):
    """Σ (the label is among the k best scores) and how many labels count."""

    k: int

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        scores, target = as_tensor(seen.output), as_tensor(seen.target)
        labels, counted = labels_of(F.max(scores, 1), target, seen.loss, seen.counts)
        at = F.unsqueeze(F.maximum(labels, 0), 1)
        mine = F.take_along_axis(scores, at, 1)
        number = F.arange(n=scores.shape[1], dtype="int32").reshape(1, -1, *(1,) * (scores.ndim - 2))
        before = F.where(F.equal(scores, mine), number > at, scores > mine)  # of equal scores the later class is first
        hit = F.bit_and(F.sum(before.astype("int32"), 1) < self.k, F.equal(mine, mine)[:, 0])
        return summed(hit.astype("float32"), counted)


@dataclass(frozen=True)
class TopK(_Share):
    """The share of labels that are among the k best scores; of equal scores the later class comes first, as
    scikit-learn has it

    k   at least 1; its column is top_k, top_5 for k = 5
    """

    k: int = 5
    key = "top_k"
    wants: ClassVar[str] = "scores of classes on axis 1, more than k, and labels"
    reads: ClassVar[str] = "scores"

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 1:
            raise ConfigError(f"TopK(k={self.k!r}): expected a whole number of at least 1.")

    def spelt(self) -> dict[str, Metric]:
        return {"top_k_accuracy": self, **{f"top_{k}": TopK(k) for k in range(1, 11)}}

    @property
    def name(self) -> str:
        return f"top_{self.k}"

    def fits(self, kind: Kind) -> bool:
        return kind.reads in CLASSES and len(kind.output.shape) > 1 and kind.output.shape[1] > self.k and kind.decides

    def statistic(self, kind: Kind) -> Statistic:
        return RankHits(self.k)


# --- yes and no
@dataclass(frozen=True)
class Right(PerStep):
    """mean((decided for yes) = (target > ½))"""

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        yes = as_tensor(seen.output) > 0.5 if seen.kind.reads == GIVEN else decided(seen.loss, seen.output)
        return (mean(F.equal(yes, as_tensor(seen.target) > 0.5).astype("float32"), seen.counts),)


class BinaryAccuracy(Metric):
    """The share of answers, yes or no, that are right"""

    key = "binary_accuracy"
    wants = "a logit, probability or margin of yes, and targets of 0 and 1 of its shape"
    high = True

    def fits(self, kind: Kind) -> bool:
        return (kind.reads in YES_NO or kind.reads == GIVEN) and kind.output.shape == kind.target.shape

    def statistic(self, kind: Kind) -> Statistic:
        return Right()

    def result(self, found: tuple[Array, Array], kind: Kind) -> float:
        return average(*found)


class LabelAccuracy(BinaryAccuracy):
    """The share of right answers, yes or no, to each of several labels"""

    key = "label_accuracy"
    wants = "a logit, probability or margin of each label, and targets of 0 and 1 of its shape"


