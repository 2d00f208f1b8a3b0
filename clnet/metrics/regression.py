"""Metrics of numbers: errors of predictions, and how much of the targets' variance they explain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..core.tensor import Tensor, as_tensor
from ..losses.ignored import beside, mean
from ..losses.reading import PROBABILITIES, VALUES
from .base import Array, Kind, Metric, PerStep, Seen, Statistic, average

MOST = 16  # outputs a sample of which R² is taken: it keeps sums of each
LEAST = float(np.finfo(np.float64).eps)  # below which MAPE takes no target
NUMBERS = "numbers, and targets of their shape"


def difference(seen: Seen) -> Tensor:
    """output − target, in the output's dtype."""
    output = as_tensor(seen.output)
    return output - as_tensor(seen.target).astype(output.dtype)


class Absolute(PerStep):
    """mean |output − target|"""

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        return (mean(F.abs(difference(seen)), seen.counts),)


class Squared(PerStep):
    """mean (output − target)²"""

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        return (mean(F.square(difference(seen)), seen.counts),)


class Relative(PerStep):
    """mean |output − target| / max(|target|, 2.2e-16)"""

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        wrong = F.abs(difference(seen))
        return (mean(wrong / F.maximum(F.abs(as_tensor(seen.target).astype(wrong.dtype)), LEAST), seen.counts),)


@dataclass(frozen=True)
class _Error(Metric):
    """A mean over all samples and outputs."""

    wants: ClassVar[str] = NUMBERS
    reads: ClassVar[str] = "numbers"
    taken: ClassVar[type[PerStep]] = Absolute

    def fits(self, kind: Kind) -> bool:
        return kind.reads in ("", VALUES, PROBABILITIES) and kind.output.shape == kind.target.shape

    def statistic(self, kind: Kind) -> Statistic:
        return STATISTICS[self.taken]

    def result(self, found: tuple[Array, Array], kind: Kind) -> float:
        return average(*found)


STATISTICS: dict[type[PerStep], PerStep] = {c: c() for c in (Absolute, Squared, Relative)}


class MAE(_Error):
    """mean |output − target|"""

    key = "mae"
    aliases: ClassVar[tuple[str, ...]] = ("mean_absolute_error",)


class MSE(_Error):
    """mean (output − target)²"""

    key = "mse"
    aliases: ClassVar[tuple[str, ...]] = ("mean_squared_error",)
    taken = Squared


class RMSE(_Error):
    """√ mean (output − target)²"""

    key = "rmse"
    aliases: ClassVar[tuple[str, ...]] = ("root_mean_squared_error",)
    taken = Squared

    def result(self, found: tuple[Array, Array], kind: Kind) -> float:
        return math.sqrt(average(*found))


class MAPE(_Error):
    """mean |output − target| / max(|target|, 2.2e-16), a share, no percentage: huge where a target is 0"""

    key = "mape"
    aliases: ClassVar[tuple[str, ...]] = ("mean_absolute_percentage_error",)
    taken = Relative


@dataclass(frozen=True)
class Spread(PerStep):
    """Per output: mean (output − target)², the first target t, mean (target − t), mean (target − t)²:
    no difference of large numbers.
    """

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        output, target = as_tensor(seen.output), as_tensor(seen.target)
        # as the loss and rmse write it, so that it is computed once
        if output.size == output.shape[0]:
            y = target.astype("float32").reshape(-1)
            d = y - y[0]
            w = seen.counts
            return (mean(F.square(difference(seen)), w), y[0], mean(d, w), mean(d * d, w))
        n = output.shape[0]
        y, error = target.astype("float32").reshape(n, -1), F.square(difference(seen)).reshape(n, -1)
        d = y - y[:1]
        columns = (_over(error, seen), y[0], _over(d, seen), _over(d * d, seen))
        return tuple(c[k] for c in columns for k in range(y.shape[1]))


def _over(values: Tensor, seen: Seen) -> Tensor:
    """The mean over the samples (N, K) -> (K)."""
    if seen.counts is None:
        return F.mean(values, 0)
    return F.sum(beside(seen.counts, values) * values, 0) / F.sum(seen.counts)


@dataclass(frozen=True)
class R2(Metric):
    """R² = 1 − Σ (output − target)² / Σ (target − mean)² over all samples, averaged over the outputs; of a constant
    target 1 or 0, NaN of a single sample
    """

    key = "r2"
    aliases: ClassVar[tuple[str, ...]] = ("r2_score",)
    high: ClassVar[bool] = True
    steps: ClassVar[bool] = False
    reads: ClassVar[str] = "numbers"
    wants: ClassVar[str] = f"at most {MOST} numbers a sample, and targets of their shape, one a sample"

    def fits(self, kind: Kind) -> bool:
        return (kind.reads in ("", VALUES) and kind.output.shape == kind.target.shape
                and 0 < kind.output.size <= MOST * kind.output.shape[0])

    def statistic(self, kind: Kind) -> Statistic:
        return Spread()

    def result(self, found: tuple[Array, Array], kind: Kind) -> float:
        samples, columns = found
        if samples.sum() < 2:
            return math.nan
        error, origin, first, second = np.moveaxis(columns.reshape(len(samples), 4, -1), 1, 0)
        n = samples[:, None]
        means = origin + first
        spread = (n * (second - first**2 + (means - (n * means).sum(0) / n.sum()) ** 2)).sum(0)
        left = (n * error).sum(0)
        flat = np.where(left == 0, 1.0, np.where(np.isnan(left), math.nan, 0.0))
        found_: Any = np.where(spread > 0, 1.0 - left / np.where(spread > 0, spread, 1.0), flat)
        return float(found_.mean())
