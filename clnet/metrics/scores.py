"""Metrics of scores and probabilities: how well they rank (ROC AUC, average precision), how likely they take the labels
to be (log loss, perplexity).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..core.spec import np_dtype
from ..core.tensor import Tensor, as_tensor
from ..errors import ConfigError
from ..losses.reading import CLASS_LOGITS, CLASS_PROBABILITIES, CLASS_SCORES, LOGITS, PROBABILITIES, YES_NO
from ..losses.reading import probabilities as probabilities_of
from ..names import ending
from .base import Array, Kept, Kind, Metric, PerStep, Seen, Statistic, labels_of, quotient, summed

RANKED = "a score of each class on axis 1 and labels, or a score of yes and targets of 0 and 1 of its shape"


# --- ranks: exact, from all scores
@dataclass(frozen=True)
class Scores(Kept):
    """The score of yes, of each label or class, and what is the case (M, L + 1 or 2 L); of classes the probability."""

    def width(self, kind: Kind) -> int:
        if kind.reads in YES_NO:
            return 2 * (kind.classes if kind.labels else 1)
        return kind.classes + 1

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        kind, scores, target = seen.kind, as_tensor(seen.output), as_tensor(seen.target)
        if kind.reads in YES_NO:
            truth = (target > 0.5).astype("float32")
            parts, weight = [seen.flat(scores.astype("float32")), seen.flat(truth)], seen.weight(truth)
        else:
            scores = probabilities_of(seen.loss, scores) if kind.reads == CLASS_LOGITS else scores
            labels, weight = labels_of(F.max(scores, 1), target, seen.loss, seen.counts)
            wide = F.moveaxis(scores, 1, -1) if scores.ndim > 2 else scores
            parts = [wide.astype("float32").reshape(-1, kind.classes), labels.astype("float32").reshape(-1)]
        if weight is not None and weight.dtype == "bool":
            weight = weight if kind.labels else weight.reshape(-1)
            parts[1] = F.where(weight, parts[1], math.nan)
        parts = [p if p.ndim == 2 else p.reshape(-1, 1) for p in parts]
        return (F.concat(parts, 1),)


def questions(found: Array, kind: Kind) -> tuple[Array, Array]:
    """(scores (M, L), truths (M, L) as 0, 1 and NaN for what does not count) of what Scores kept."""
    if kind.reads in YES_NO:
        half = found.shape[1] // 2
        return found[:, :half], found[:, half:]
    labels = found[:, -1:]
    truth = np.where(np.isnan(labels), math.nan, labels == np.arange(found.shape[1] - 1))
    if found.shape[1] == 3:  # of two classes the second is yes
        return found[:, 1:2], truth[:, 1:2]
    return found[:, :-1], truth


def cumulated(scores: Array, truth: Array, weight: Array | None) -> tuple[Array, Array]:
    """(Σ weights of yes, Σ weights of no) among the scores from the highest down to each different one."""
    order = np.argsort(-scores, kind="stable")
    s, t = scores[order], truth[order].astype(np.float64)
    w = np.ones(len(s)) if weight is None else weight[order]
    ends = np.flatnonzero(np.append(np.diff(s) != 0, True))
    return np.cumsum(w * t)[ends], np.cumsum(w * (1 - t))[ends]


@dataclass(frozen=True)
class _Ranked(Metric):
    """A number of one ranking, averaged over the classes or labels.

    average   "macro": the mean over classes or labels; "weighted": by how often each is there; None: one a class
    """

    average: str | None = "macro"
    high: ClassVar[bool] = True
    steps: ClassVar[bool] = False
    reads: ClassVar[str] = "scores"
    wants: ClassVar[str] = RANKED

    def __post_init__(self) -> None:
        if self.average not in ("macro", "weighted", None):
            end = ending(self.average, ["macro", "weighted"]) if isinstance(self.average, str) else "."
            raise ConfigError(f"{type(self).__name__}(average={self.average!r}): expected 'macro', 'weighted' or None"
                              f"{end}")

    @property
    def name(self) -> str:
        return self.key if self.average == "macro" else f"{self.key}_{self.average or 'each'}"

    def spelt(self) -> dict[str, Metric]:
        return {f"{self.key}_weighted": type(self)("weighted"), f"{self.key}_macro": self} | super().spelt()

    def columns(self, kind: Kind) -> tuple[str, ...]:
        if self.average is None and (kind.labels or kind.classes > 2):
            return tuple(f"{self.key}_{k}" for k in range(kind.classes))
        return (self.name,) if self.average else (self.key,)

    def fits(self, kind: Kind) -> bool:
        return kind.decides and (kind.reads in YES_NO
                                 or kind.reads in (CLASS_LOGITS, CLASS_PROBABILITIES, CLASS_SCORES))

    def statistic(self, kind: Kind) -> Statistic:
        return Scores()

    def of_one(self, yes: Array, no: Array) -> float:
        """The number of cumulated weights of yes and no."""
        raise NotImplementedError(type(self).__name__)

    def result(self, found: Array, kind: Kind) -> Any:
        return self.of_scores(*questions(found, kind))

    def of_scores(self, scores: Array, truth: Array, weight: Array | None = None) -> Any:
        """The number of scores and truths (M, L)."""
        values, shares = [], []
        for k in range(scores.shape[1]):
            there = ~np.isnan(truth[:, k])
            s, t, w = scores[there, k], truth[there, k], None if weight is None else weight[there]
            broken = not len(s) or bool(np.isnan(s).any())
            values.append(math.nan if broken else self.of_one(*cumulated(s, t, w)))
            shares.append(float((t if w is None else t * w).sum()))
        if self.average is None and len(values) > 1:
            return np.array(values)
        weights = np.array(shares) if self.average == "weighted" and len(values) > 1 else np.ones(len(values))
        there = ~np.isnan(values)
        return float(np.average(np.array(values)[there], weights=weights[there])) if weights[there].sum() else math.nan


class ROCAUC(_Ranked):
    """The area under the curve of hits over false alarms: the chance that a score of yes is above one of no, equal ones
    counting half. Exact: every score is kept on the device until it is read, and all are sorted once

    Of several classes each against the rest, by their probabilities. NaN where there is no yes or no no; the mean
    leaves such classes out.
    average   "macro", "weighted" (by how often each is there), None: a number for each class
    """

    key = "roc_auc"
    aliases: ClassVar[tuple[str, ...]] = ("auc", "auroc", "roc_auc_score")

    def of_one(self, yes: Array, no: Array) -> float:
        if not yes[-1] or not no[-1]:
            return math.nan
        yes, no = np.append(0.0, yes / yes[-1]), np.append(0.0, no / no[-1])
        return float(np.sum((no[1:] - no[:-1]) * (yes[1:] + yes[:-1]) / 2))


class AveragePrecision(_Ranked):
    """AP = Σ (Rₖ − Rₖ₋₁) Pₖ over the different scores, from the highest down: precision by recall, not interpolated.
    Exact, as ROC AUC

    0 where there is no yes. Of several classes each against the rest, by their probabilities.
    average   "macro", "weighted" (by how often each is there), None: a number for each class
    """

    key = "average_precision"
    aliases: ClassVar[tuple[str, ...]] = ("pr_auc", "average_precision_score")

    def of_one(self, yes: Array, no: Array) -> float:
        if not yes[-1]:
            return 0.0
        below = yes + no
        precision = np.divide(yes, below, out=np.zeros_like(yes), where=below > 0)
        return float(np.sum(np.diff(np.append(0.0, yes / yes[-1])) * precision))


# --- likelihoods
@dataclass(frozen=True)
class Surprise(PerStep):
    """Σ −log p(label) and how many labels count."""

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        z, target = as_tensor(seen.output), as_tensor(seen.target)
        if seen.kind.reads in YES_NO:
            t = target.astype(z.dtype)
            if seen.kind.reads == LOGITS:
                each = F.maximum(z, 0.0) - z * t + F.log1p(F.exp(-F.abs(z)))
            else:
                each = -t * F.log(_inside(z)) - (1 - t) * F.log(_inside(1 - z))
            return summed(seen.flat(each), seen.weight(t))
        logs = F.log_softmax(z, 1) if seen.kind.reads == CLASS_LOGITS else F.log(_inside(z))
        labels, counted = labels_of(F.max(z, 1), target, seen.loss, seen.counts)
        each = -F.take_along_axis(logs, F.unsqueeze(F.maximum(labels, 0), 1), 1)[:, 0]
        return summed(each, counted)


def _inside(p: Tensor) -> Tensor:
    """p, with 0 and 1 moved in by the rounding of its dtype, as scikit-learn does: their logarithms are finite."""
    least = float(np.finfo(np_dtype(p.dtype)).eps)
    return F.clip(p, least, 1.0 - least)


@dataclass(frozen=True)
class LogLoss(Metric):
    """mean −log p(label), p the probability that was given to it"""

    key = "log_loss"
    aliases: ClassVar[tuple[str, ...]] = ("nll", "cross_entropy")
    reads: ClassVar[str] = "probabilities"
    wants: ClassVar[str] = "logits or probabilities of classes and labels, or those of one yes or no"

    def fits(self, kind: Kind) -> bool:
        said = (CLASS_LOGITS, CLASS_PROBABILITIES, LOGITS, PROBABILITIES)
        return kind.decides and kind.reads in said and not kind.labels

    def statistic(self, kind: Kind) -> Statistic:
        return Surprise()

    def result(self, found: tuple[Array, Array], kind: Kind) -> float:
        return quotient(found[1])


class Perplexity(LogLoss):
    """exp(mean −log p(label)): as if it chose among so many classes at random"""

    key = "perplexity"
    aliases: ClassVar[tuple[str, ...]] = ("ppl",)

    def result(self, found: tuple[Array, Array], kind: Kind) -> float:
        nats = super().result(found, kind)
        return math.exp(nats) if nats < 700 else (math.nan if math.isnan(nats) else math.inf)
