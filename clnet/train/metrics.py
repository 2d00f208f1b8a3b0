"""Metrics: what a step leaves of them on the device, beside its loss, and the number that an epoch makes of that.

Which of them fit follows from what the loss says a prediction is (clnet.losses.reading) and from the shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import ops as F
from ..core.spec import Spec
from ..core.tensor import Tensor, as_tensor
from ..engine.record import infer
from ..errors import ConfigError
from ..losses.reading import CLASSES, PROBABILITIES, UNSAID, VALUES, YES_NO, decided, named, reading
from ..names import ending
from ..names import guide as _guide
from .ignored import beside, mean

Array = np.ndarray[Any, Any]
MOST = 16  # outputs a sample of which R² is taken: it keeps sums of each


def average(samples: Array, columns: Array) -> float:
    """Σ n v / Σ n of the first column, n the samples of each step: every sample counts once."""
    return math.fsum(samples * columns[:, 0]) / math.fsum(samples)


@dataclass(frozen=True)
class Metric:
    """`columns(output, target, loss, counts)`: scalars of a step, counts what `clnet.train.ignored` gives;
    `finish(samples, columns)`: the number of many steps, `samples` (S,), `columns` (S, width).

    fits   whether it can be had: (what the loss reads, specs of output and target); `wants` says so in words
    high   whether more is better
    width  how many scalars a step leaves
    steps  whether it leaves out what does not count, where targets are one per step of a sequence
    """

    name: str
    columns: Callable[[Any, Any, Any, Tensor | None], Sequence[Any]]
    finish: Callable[[Array, Array], float] = average
    fits: Callable[[str, Spec, Spec], bool] = lambda reads, output, target: True
    wants: str = ""
    high: bool = False
    width: int = 1
    steps: bool = True


METRICS: dict[str, Metric] = {}


def metric(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Registers a function (output, target) -> scalar tensor, the mean of a batch, as a metric under its name."""
    METRICS[fn.__name__] = _of_function(fn)
    return fn


def _of_function(fn: Callable[[Any, Any], Any]) -> Metric:
    name = getattr(fn, "__name__", type(fn).__name__)
    return Metric(name, lambda output, target, loss, counts: (fn(output, target),), high="acc" in name)


def _known(name: str, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def declare(columns: Callable[..., Any]) -> Callable[..., Any]:
        METRICS[name] = Metric(name, columns, **more)
        return columns

    return declare


# --- which metrics
def resolve(metrics: str | Callable[..., Any] | Iterable[Any] | None) -> tuple[Metric, ...] | None:
    """The metrics of names and functions; None of "auto". Raises ConfigError for unknown and repeated names."""
    if isinstance(metrics, str) and metrics == "auto":
        return None
    found: dict[str, Metric] = {}
    for m in (metrics,) if isinstance(metrics, str) or callable(metrics) else metrics or ():
        if not callable(m) and m not in METRICS:
            raise ConfigError(
                f"metrics: expected 'auto', {', '.join(METRICS)} or a function (output, target) -> scalar; "
                f"got {m!r}{ending(str(m), METRICS)}")
        made = _of_function(m) if callable(m) else METRICS[m]
        if made.name in found or made.name == "loss":
            raise ConfigError(f"metrics: expected every name once and none called 'loss'; got {made.name!r} again.")
        found[made.name] = made
    return tuple(found.values())


def defaults(loss: Callable[..., Any], output: Spec, target: Spec) -> tuple[str, ...]:
    """The names of what fits a loss and shapes: accuracy of classes, of yes and no, or of labels;
    RMSE and R² of numbers; else none.
    """
    reads, several = reading(loss), len(output.shape) == 2 and output.shape[1] > 1
    if reads in CLASSES:
        wanted: tuple[str, ...] = ("accuracy",)
    elif reads in YES_NO:
        wanted = ("label_accuracy",) if several else ("binary_accuracy",)
    else:
        wanted = ("rmse", "r2")
    return tuple(name for name in wanted if reads and METRICS[name].fits(reads, output, target))


def bound(wanted: tuple[Metric, ...] | None, loss: Callable[..., Any], outputs: Sequence[Spec],
          target: Spec, stepwise: bool = False) -> dict[str, Metric]:
    """The metrics by name with their widths, those that fit where `wanted` is None; `stepwise`: whether targets are
    those of steps that may not count. Raises ConfigError for one that does not fit.
    """
    several, y = len(outputs) != 1, target
    fitting = () if several else tuple(name for name in defaults(loss, outputs[0], y)
                                       if METRICS[name].steps or not stepwise)
    chosen = tuple(METRICS[name] for name in fitting) if wanted is None else wanted
    for m in chosen:
        if (stepwise and not m.steps) or (not several and not m.fits(reading(loss), outputs[0], y)):
            better = (f"choose {' or '.join(map(repr, fitting))}" if fitting
                      else "leave it out, or pass a function (output, target) -> scalar")
            raise ConfigError(
                f"metrics: expected for {m.name!r} {m.wants}; got an output {outputs[0].shape} and a target {y.shape} "
                f"of {named(loss)}, which reads {reading(loss) or UNSAID}; {better}.")
    return {m.name: replace(m, width=_width(m, loss, outputs, y)) for m in chosen}


def _width(m: Metric, loss: Callable[..., Any], outputs: Sequence[Spec], target: Spec) -> int:
    found = infer(lambda *a: tuple(m.columns(a[0] if len(outputs) == 1 else a[:-1], a[-1], loss, None)),
                  [*outputs, target])
    if any(s.size != 1 for s in found):
        raise ConfigError(
            f"metrics: expected {m.name} to give a scalar; got {', '.join(str(s.shape) for s in found)}; "
            "take its mean.")
    return len(found)


# --- classes
def _sparse(output: Spec) -> tuple[int, ...]:
    return (output.shape[0], *output.shape[2:])


def _fits_classes(reads: str, output: Spec, target: Spec) -> bool:
    if reads not in CLASSES and (reads or len(output.shape) < 2):
        return False
    return bool(reads) or target.shape in (output.shape, _sparse(output))


def _ratio(samples: Array, columns: Array) -> float:
    counted = math.fsum(columns[:, 1])
    return math.fsum(columns[:, 0]) / counted if counted else math.nan


@_known("accuracy", finish=_ratio, fits=_fits_classes, high=True, wants="scores of classes on axis 1, and labels")
def _accuracy(output: Tensor, target: Tensor, loss: Callable[..., Any], counts: Tensor | None) -> Sequence[Tensor]:
    """Σ (class decided for = label) and how many labels count: those that the loss ignores do not."""
    output, target = as_tensor(output), as_tensor(target)
    classes = decided(loss, output) if reading(loss) else F.argmax(output, 1).astype("int32")
    labels = F.argmax(target, 1) if target.ndim > classes.ndim else target
    labels = labels.astype("int32")
    hit, ignored = F.equal(classes, labels).astype("float32"), getattr(loss, "ignore_index", None)
    if target.ndim > classes.ndim or (ignored is None and counts is None):
        return F.sum(hit), as_tensor(float(labels.size))
    counted = F.ones(labels.shape) if ignored is None else F.not_equal(labels, ignored).astype("float32")
    counted = counted if counts is None else counted * beside(counts, labels).astype("float32")
    return F.sum(hit * counted), F.sum(counted)


# --- yes and no
def _fits_yes_no(reads: str, output: Spec, target: Spec) -> bool:
    return reads in YES_NO and output.shape == target.shape


def _right(output: Tensor, target: Tensor, loss: Callable[..., Any], counts: Tensor | None) -> Sequence[Tensor]:
    """mean((decided for yes) = (target > ½))"""
    return (mean(F.equal(decided(loss, output), as_tensor(target) > 0.5).astype("float32"), counts),)


for _name, _what in (("binary_accuracy", "yes"), ("label_accuracy", "each label")):
    _known(_name, fits=_fits_yes_no, high=True,
           wants=f"a logit, probability or margin of {_what}, and targets of 0 and 1 of its shape")(_right)


# --- numbers
def _fits_numbers(reads: str, output: Spec, target: Spec) -> bool:
    return reads in ("", VALUES, PROBABILITIES) and output.shape == target.shape


def _fits_r2(reads: str, output: Spec, target: Spec) -> bool:
    return reads in ("", VALUES) and output.shape == target.shape and 0 < output.size <= MOST * output.shape[0]


def _difference(output: Tensor, target: Tensor) -> Tensor:
    output = as_tensor(output)
    return output - as_tensor(target).astype(output.dtype)


@_known("mae", fits=_fits_numbers, wants="numbers, and targets of their shape")
def _mae(output: Tensor, target: Tensor, loss: Callable[..., Any], counts: Tensor | None) -> Sequence[Tensor]:
    """mean |output − target|"""
    return (mean(F.abs(_difference(output, target)), counts),)


def _mse(output: Tensor, target: Tensor, loss: Callable[..., Any], counts: Tensor | None) -> Sequence[Tensor]:
    """mean (output − target)²"""
    return (mean(F.square(_difference(output, target)), counts),)


def _root(samples: Array, columns: Array) -> float:
    return math.sqrt(average(samples, columns))


_known("mse", fits=_fits_numbers, wants="numbers, and targets of their shape")(_mse)
_known("rmse", finish=_root, fits=_fits_numbers, wants="numbers, and targets of their shape")(_mse)


def _coefficient(samples: Array, columns: Array) -> float:
    """1 − Σ (output − target)² / Σ (target − mean)² over all samples, averaged over the outputs;
    of a constant target 1 or 0.
    """
    if samples.sum() < 2:
        return math.nan
    error, origin, first, second = np.moveaxis(columns.reshape(len(samples), 4, -1), 1, 0)
    n = samples[:, None]
    means = origin + first
    spread = (n * (second - first**2 + (means - (n * means).sum(0) / n.sum()) ** 2)).sum(0)
    left = (n * error).sum(0)
    flat = np.where(left == 0, 1.0, np.where(np.isnan(left), math.nan, 0.0))
    return float(np.where(spread > 0, 1.0 - left / np.where(spread > 0, spread, 1.0), flat).mean())


@_known("r2", finish=_coefficient, fits=_fits_r2, high=True, steps=False,
        wants=f"at most {MOST} numbers a sample, and targets of their shape, one a sample")
def _r2(output: Tensor, target: Tensor, loss: Callable[..., Any], counts: Tensor | None) -> Sequence[Tensor]:
    """Per output: mean (output − target)², the first target t, mean (target − t), mean (target − t)²:
    no difference of large numbers.
    """
    # as the loss and rmse write it, so that it is computed once
    if as_tensor(output).size == as_tensor(output).shape[0]:
        y = as_tensor(target).astype("float32").reshape(-1)
        d = y - y[0]
        return (*_mse(output, target, loss, counts), y[0], F.mean(d), F.mean(d * d))
    n = as_tensor(output).shape[0]
    y, error = as_tensor(target).astype("float32").reshape(n, -1), F.square(_difference(output, target)).reshape(n, -1)
    d = y - y[:1]
    return tuple(c[k] for c in (F.mean(error, 0), y[0], F.mean(d, 0), F.mean(d * d, 0)) for k in range(y.shape[1]))


_guide(__name__)
