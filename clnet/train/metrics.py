"""Which metrics a Trainer has: those that were named, or those that fit what the loss says a prediction is
(clnet.losses.reading) and the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import metrics as offered
from ..core.spec import Spec
from ..engine.record import infer
from ..errors import ConfigError
from ..losses.reading import CLASSES, UNSAID, YES_NO, named, reading
from ..metrics.base import (
    FUNCTIONS,
    METRICS,
    Kept,
    Kind,
    Metric,
    OfFunction,
    PerStep,
    Seen,
    Statistic,
    known,
    metric,
    suggestion,
)
from ..names import guide as _guide

__all__ = ["Bound", "bound", "defaults", "metric", "resolve"]


@dataclass(frozen=True)
class Bound:
    """A metric with what a Trainer's model, loss and data are to it.

    width   scalars that a step leaves, where its statistic leaves scalars
    shape   of its statistic, where that is an array: of the sums, or (places, numbers) of a sample
    """

    metric: Metric
    statistic: Statistic
    columns: tuple[str, ...]
    kind: Kind
    width: int = 0
    shape: tuple[int, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bound) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def _facts(self) -> tuple[Any, ...]:
        """What makes it: not how many samples it was tried with."""
        return self.metric, self.columns, self.width, self.shape, self.kind.reads, self.kind.labels, self.kind.several


# --- which metrics
def resolve(metrics: object) -> tuple[Metric, ...] | None:
    """The metrics of names, Metric objects and functions; None of "auto".
    Raises ConfigError for unknown and repeated ones.
    """
    if isinstance(metrics, str) and metrics == "auto":
        return None
    one = isinstance(metrics, (str, Metric)) or callable(metrics)
    found: dict[str, Metric] = {}
    for m in (metrics,) if one else metrics or ():  # type: ignore[attr-defined]
        made = _one(m)
        if made.name in found or made.name == "loss":
            raise ConfigError(f"metrics: expected every name once and none called 'loss'; got {made.name!r} again.")
        found[made.name] = made
    return tuple(found.values())


def _one(m: object) -> Metric:
    if isinstance(m, Metric):
        return m
    if isinstance(m, type) and issubclass(m, Metric):
        return m()
    if callable(m) and m in FUNCTIONS:
        return FUNCTIONS[m]()
    if isinstance(m, str) and (found := known(m, offered.METRICS)) is not None:
        return found
    if callable(m):
        return OfFunction(m)
    end = suggestion(str(m), offered.METRICS)
    raise ConfigError(
        f"metrics: expected 'auto', names, as 'accuracy', 'f1', 'roc_auc' and 'rmse', objects of clnet.metrics, as "
        f"F1(average='macro'), or a function (output, target) -> scalar; got {m!r}{end}")


def defaults(loss: Callable[..., Any], output: Spec, target: Spec) -> tuple[str, ...]:
    """The names of what fits a loss and shapes: accuracy of classes, of yes and no, or of labels;
    RMSE and R² of numbers; else none.
    """
    reads, several = reading(loss), len(output.shape) == 2 and output.shape[1] > 1
    if reads in CLASSES:
        wanted: tuple[type[Metric], ...] = (offered.Accuracy,)
    elif reads in YES_NO:
        wanted = (offered.LabelAccuracy,) if several else (offered.BinaryAccuracy,)
    else:
        wanted = (offered.RMSE, offered.R2)
    return tuple(m.key for m in wanted if reads and METRICS[m.key].fits(Kind(reads, output, target)))


def bound(wanted: tuple[Metric, ...] | None, loss: Callable[..., Any], outputs: Sequence[Spec],
          target: Spec, stepwise: bool = False) -> dict[str, Bound]:
    """The metrics by name, those that fit where `wanted` is None; `stepwise`: whether targets are
    those of steps that may not count. Raises ConfigError for one that does not fit.
    """
    several = len(outputs) != 1
    kind = Kind(reading(loss), outputs[0], target, several)
    fitting = () if several else tuple(name for name in defaults(loss, outputs[0], target)
                                       if METRICS[name].steps or not stepwise)
    chosen = tuple(METRICS[name] for name in fitting) if wanted is None else wanted
    for m in chosen:
        function = isinstance(m, OfFunction)
        if (stepwise and not m.steps) or (not function and (several or not m.fits(kind))):
            better = (f"choose {' or '.join(map(repr, fitting))}" if fitting
                      else "leave it out, or pass a function (output, target) -> scalar")
            shape = "several outputs" if several else f"an output {outputs[0].shape}"
            raise ConfigError(
                f"metrics: expected for {m.name!r} {m.wants}; got {shape} and a target {target.shape} "
                f"of {named(loss)}, which reads {reading(loss) or UNSAID}; {better}.")
    return {m.name: _bound(m, loss, outputs, target, kind) for m in chosen}


def _bound(m: Metric, loss: Callable[..., Any], outputs: Sequence[Spec], target: Spec, kind: Kind) -> Bound:
    statistic, columns = m.statistic(kind), m.columns(kind)
    found = infer(lambda *a: statistic.of(Seen(a[0] if len(outputs) == 1 else a[:-1], a[-1], loss, kind)),
                  [*outputs, target])
    if isinstance(statistic, PerStep):
        if any(s.size != 1 for s in found):
            raise ConfigError(
                f"metrics: expected {m.name} to give a scalar; got {', '.join(str(s.shape) for s in found)}; "
                "take its mean.")
        return Bound(m, statistic, columns, kind, width=len(found))
    if isinstance(statistic, Kept):
        places, samples = found[0].shape[0], kind.target.shape[0]
        return Bound(m, statistic, columns, kind, shape=(places // samples, found[0].shape[1]))
    return Bound(m, statistic, columns, kind, shape=tuple(found[0].shape))


_guide(__name__)
