"""Metrics of classes, and of yes and no: from counts of hits, predictions and labels of each class.

As scikit-learn has them: 0 where a ratio is 0 / 0, means over the classes that occur among labels or predictions.
NaN where nothing counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..core.tensor import Tensor
from ..errors import ConfigError
from ..names import ending
from .base import Array, Kind, Metric, Seen, Statistic, Summed
from .confusion import ConfusionMatrix

AVERAGES = ("auto", "binary", "macro", "micro", "weighted", None)
DECIDES = "scores of classes on axis 1 and labels, or a loss on yes and no with targets of the output's shape"
ONE_EACH = "one class a sample (or place): scores of classes on axis 1 and labels, or one yes or no"


def ratio(a: Array, b: Array) -> Array:
    """a / b, 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.shape(b)), where=np.asarray(b) != 0)


def _counted(x: Tensor, length: int, weight: Tensor | None) -> Tensor:
    """Of the numbers below `length`, how many there are of each, or the sum of their weights."""
    if weight is not None and weight.dtype == "bool":
        return F.bincount(F.where(weight, x, -1), length=length).astype("int32")
    found = F.bincount(x, weight, length=length)
    return found.astype("int32") if weight is None else found


@dataclass(frozen=True)
class ClassCounts(Summed):
    """(hits, predictions, labels) of each class (3, C); of several labels those of yes (3, L)."""

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        chosen, labels, weight = seen.decided()
        c = seen.kind.classes
        if seen.kind.labels:
            place = F.arange(n=c, dtype="int32")
            truth, yes = F.equal(labels, 1), F.equal(chosen, 1)
            parts = [F.where(on, place, -1) for on in (F.bit_and(yes, truth), yes, truth)]
            parts = [p.reshape(-1) for p in parts]
            weight = None if weight is None else weight.reshape(-1)
        else:
            parts = [F.where(F.equal(chosen, labels), labels, -1), chosen, labels]
        every = F.concat([F.where(p >= 0, p + k * c, -1) for k, p in enumerate(parts)])
        weights = None if weight is None else F.concat([weight] * 3)
        return (_counted(every, 3 * c, weights).reshape(3, c),)


@dataclass(frozen=True)
class Pairs(Summed):
    """C[i, j] = how many of label i were predicted as j (C, C)."""

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        chosen, labels, weight = seen.decided()
        c = seen.kind.classes
        pair = labels * c + chosen
        return (_counted(F.where(labels >= 0, pair, -1), c * c, weight).reshape(c, c),)


@dataclass(frozen=True)
class _OfClasses(Metric):
    """One number of (hits, predictions, labels), where each sample is of one class."""

    wants: ClassVar[str] = ONE_EACH
    high: ClassVar[bool] = True

    def fits(self, kind: Kind) -> bool:
        return kind.decides and not kind.labels

    def statistic(self, kind: Kind) -> Statistic:
        return ClassCounts()

    def result(self, found: Array, kind: Kind) -> Any:
        return self.of_counts(*np.asarray(found, np.float64)) if found[2].sum() else math.nan

    def of_counts(self, hits: Array, predicted: Array, labels: Array) -> float:
        """The number of counts (C,) each."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True)
class _Averaged(Metric):
    """A ratio of each class, and their average.

    average   "macro": the mean over the classes that occur; of several labels over all
              "weighted": the mean by how often each is a label
              "micro": the ratio of the sums
              "binary": that of yes, class 1 of two
              "auto": "binary" where there are two classes, else "macro"
              None: one number a class, in columns key_0, key_1, …; 0 for those that do not occur
    """

    average: str | None = "auto"
    wants: ClassVar[str] = DECIDES
    high: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.average not in AVERAGES:
            end = ending(self.average, [a for a in AVERAGES if a]) if isinstance(self.average, str) else "."
            raise ConfigError(f"{type(self).__name__}(average={self.average!r}): expected one of "
                              f"{', '.join(map(repr, AVERAGES))}{end}")

    def spelt(self) -> dict[str, Metric]:
        made: dict[str, Metric] = {f"{self.key}_{a}": type(self)(a) for a in ("macro", "micro", "weighted", "binary")}
        return made | super().spelt()

    @property
    def name(self) -> str:
        return self.key if self.average == "auto" else f"{self.key}_{self.average or 'each'}"

    def columns(self, kind: Kind) -> tuple[str, ...]:
        if self.average is None:
            return tuple(f"{self.key}_{k}" for k in range(kind.classes))
        return (self.name,)

    def fits(self, kind: Kind) -> bool:
        two = kind.classes == 2 and not kind.labels
        return kind.decides and (self.average != "binary" or two)

    def statistic(self, kind: Kind) -> Statistic:
        return ClassCounts()

    def of_class(self, hits: Array, predicted: Array, labels: Array) -> Array:
        """The ratio of each class, of counts (C,) or sums."""
        raise NotImplementedError(type(self).__name__)

    def result(self, found: Array, kind: Kind) -> Any:
        counts = np.asarray(found, np.float64)
        if not counts[2].sum() and not kind.labels:
            return math.nan if self.average is not None else np.full(kind.classes, math.nan)
        each, how = self.of_class(*counts), self.average
        if how is None:
            return each
        if how == "binary" or (how == "auto" and kind.classes == 2 and not kind.labels):
            return float(each[1])
        if how == "micro":
            return float(self.of_class(*counts.sum(1)))
        if how == "weighted":
            return float(ratio((each * counts[2]).sum(), counts[2].sum()))
        occur = np.ones(len(each), bool) if kind.labels else counts[1:].sum(0) > 0
        return float(each[occur].mean())


class Precision(_Averaged):
    """hits / predictions of a class

    average   see clnet.metrics.F1
    """

    key = "precision"

    def of_class(self, hits: Array, predicted: Array, labels: Array) -> Array:
        return ratio(hits, predicted)


class Recall(_Averaged):
    """hits / labels of a class

    average   see clnet.metrics.F1
    """

    key = "recall"
    aliases: ClassVar[tuple[str, ...]] = ("sensitivity",)

    def of_class(self, hits: Array, predicted: Array, labels: Array) -> Array:
        return ratio(hits, labels)


class F1(_Averaged):
    """F₁ = 2 hits / (predictions + labels) of a class, the harmonic mean of precision and recall

    average   "macro": the mean over the classes that occur; "weighted": by how often each is a label; "micro": of the
              sums; "binary": that of class 1 of two; "auto": "binary" where there are two classes, else "macro";
              None: a number for each class
    Raises ConfigError for another average.
    """

    key = "f1"
    aliases: ClassVar[tuple[str, ...]] = ("f1_score", "fscore")

    def of_class(self, hits: Array, predicted: Array, labels: Array) -> Array:
        return ratio(2 * hits, predicted + labels)


class Dice(F1):
    """Dice = 2 |A ∩ B| / (|A| + |B|), over the places of class masks: F₁ by its name in segmentation

    average   see clnet.metrics.F1
    """

    key = "dice"
    aliases: ClassVar[tuple[str, ...]] = ()


class IoU(_Averaged):
    """IoU = |A ∩ B| / |A ∪ B| = hits / (predictions + labels − hits) of a class, Jaccard's index

    average   see clnet.metrics.F1; "macro" is the mean IoU of segmentation
    """

    key = "iou"
    aliases: ClassVar[tuple[str, ...]] = ("jaccard", "mean_iou")

    def of_class(self, hits: Array, predicted: Array, labels: Array) -> Array:
        return ratio(hits, predicted + labels - hits)


class BalancedAccuracy(_OfClasses):
    """The mean recall of the classes that occur among the labels"""

    key = "balanced_accuracy"

    def of_counts(self, hits: Array, predicted: Array, labels: Array) -> float:
        there = labels > 0
        return float((hits[there] / labels[there]).mean())


class MCC(_OfClasses):
    """R = (n Σ hits − Σ pₖ tₖ) / √((n² − Σ pₖ²) (n² − Σ tₖ²)), p predictions and t labels of each class; 0 where a
    factor is 0

    Paper: Gorodkin 2004, Comput. Biol. Chem. 28, for several classes; Matthews 1975 for two.
    """

    key = "mcc"
    aliases: ClassVar[tuple[str, ...]] = ("matthews_corrcoef",)

    def of_counts(self, hits: Array, predicted: Array, labels: Array) -> float:
        n = labels.sum()
        below = (n * n - predicted @ predicted) * (n * n - labels @ labels)
        return float(n * hits.sum() - predicted @ labels) / math.sqrt(below) if below > 0 else 0.0


@dataclass(frozen=True)
class CohenKappa(_OfClasses):
    """κ = 1 − Σ w C / Σ w E: C the confusion matrix, E = t pᵀ / n what chance gives; NaN where it always agrees

    weights   None: w = 1 off the diagonal; "linear": |i − j|; "quadratic": (i − j)²
    Paper: Cohen 1960, Educ. Psychol. Meas. 20.
    """

    weights: str | None = None
    key = "cohen_kappa"
    aliases: ClassVar[tuple[str, ...]] = ("kappa",)

    def __post_init__(self) -> None:
        if self.weights not in (None, "linear", "quadratic"):
            end = ending(self.weights, ["linear", "quadratic"]) if isinstance(self.weights, str) else "."
            raise ConfigError(f"CohenKappa(weights={self.weights!r}): expected None, 'linear' or 'quadratic'{end}")

    def statistic(self, kind: Kind) -> Statistic:
        return ClassCounts() if self.weights is None else Pairs()

    def result(self, found: Array, kind: Kind) -> float:
        counts = np.asarray(found, np.float64)
        n = counts.sum() if self.weights else counts[2].sum()
        if self.weights is None:
            hits, p, t = counts
            wrong, chance = n - hits.sum(), n - (p @ t) / n if n else 0.0
        else:
            far = np.abs(np.subtract.outer(np.arange(len(counts)), np.arange(len(counts)))).astype(np.float64)
            far = far**2 if self.weights == "quadratic" else far
            wrong, chance = (far * counts).sum(), (far * np.outer(counts.sum(1), counts.sum(0))).sum() / max(n, 1e-300)
        return float(1.0 - wrong / chance) if chance > 0 else math.nan


@dataclass(frozen=True)
class Confusion(Metric):
    """C[i, j] = how many samples of class i were predicted as class j: a ConfusionMatrix, with its plot

    normalize   None: counts; "true": shares of each label; "pred": of each prediction; "all": of all
    Of a run, the last one is `history.matrices["val_confusion_matrix"]`; `evaluate` gives it beside the numbers.
    """

    normalize: str | None = None
    key = "confusion_matrix"
    wants: ClassVar[str] = ONE_EACH

    def __post_init__(self) -> None:
        if self.normalize not in (None, "true", "pred", "all"):
            raise ConfigError(f"Confusion(normalize={self.normalize!r}): expected None, 'true', 'pred' or 'all'.")

    def fits(self, kind: Kind) -> bool:
        return kind.decides and not kind.labels

    def statistic(self, kind: Kind) -> Statistic:
        return Pairs()

    def result(self, found: Array, kind: Kind) -> ConfusionMatrix:
        whole = ConfusionMatrix(found)
        return whole if self.normalize is None else whole.normalized(self.normalize)

    def columns(self, kind: Kind) -> tuple[str, ...]:
        return ()
