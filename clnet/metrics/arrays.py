"""Metrics as functions on arrays: the formulas that a step records, evaluated in float64 on the host."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.spec import Spec, dtype_name
from ..core.tensor import tensor
from ..engine.reference import NumpyEngine
from ..errors import ConfigError, DataError
from ..losses.reading import CLASS_PROBABILITIES, PROBABILITIES, VALUES
from ..names import ending
from .base import FUNCTIONS, GIVEN, Array, Kept, Kind, Metric, PerStep, Seen
from .confusion import ConfusionMatrix
from .scores import _Ranked, questions


class Given:
    """In the place of a loss: what predictions are."""

    def __init__(self, reads: str) -> None:
        self.reads = reads

    def __call__(self, output: Any, target: Any) -> Any:
        raise NotImplementedError


def function(kind: type[Metric]) -> Callable[..., Any]:
    """clnet.metrics.key(y_true, y_pred, ..., sample_weight=None) of a metric: its fields are further arguments."""
    fields = [f for f in dataclasses.fields(kind) if f.init]
    known = [f.name for f in fields]

    def measured(y_true: Any, y_pred: Any, *more: Any, sample_weight: Any = None, **named: Any) -> Any:
        if more or (unknown := [n for n in named if n not in known]):
            got = f"{len(more)} more by position; name them" if more else repr(unknown[0])
            end = "." if more else ending(unknown[0], [*known, "sample_weight"])
            raise ConfigError(f"{kind.key}: expected arguments y_true, y_pred, {', '.join([*known, 'sample_weight'])}; "
                              f"got {got}{end}")
        return of_arrays(kind(**named), y_true, y_pred, sample_weight)

    measured.__name__ = measured.__qualname__ = kind.key
    measured.__module__ = "clnet.metrics"
    measured.__doc__ = f"{inspect.getdoc(kind)}\n\n{_WORDS[kind.reads]}\nsample_weight  (N,), how much each counts\n" \
                       "Raises DataError for arrays that do not fit, ConfigError."
    P = inspect.Parameter
    measured.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        P("y_true", P.POSITIONAL_OR_KEYWORD), P("y_pred", P.POSITIONAL_OR_KEYWORD),
        *(P(f.name, P.KEYWORD_ONLY, default=f.default) for f in fields),
        P("sample_weight", P.KEYWORD_ONLY, default=None)])
    FUNCTIONS[measured] = kind
    return measured


_WORDS = {
    "classes": "y_true, y_pred  classes (N,) of any dtype, or 0 and 1 of several labels (N, L); scores (N, C) are\n"
               "                decided by their largest",
    "numbers": "y_true, y_pred  numbers of one shape (N, ...)",
    "scores": "y_true  classes (N,) with y_pred scores (N, C), or two kinds (N,) with scores (N,) of the larger;\n"
              "        or 0 and 1 of labels (N, L) with scores (N, L)",
    "probabilities": "y_true  classes (N,) with y_pred probabilities (N, C), or two kinds (N,) with that (N,) of the "
                     "larger",
}


def of_arrays(metric: Metric, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
    """The metric of arrays: a number, an array with one a class, or a ConfusionMatrix. Raises DataError."""
    who = metric.key
    truth, found = _array(who, "y_true", y_true), _array(who, "y_pred", y_pred)
    if not truth.ndim or not len(truth) or truth.shape[:1] != found.shape[:1]:
        raise DataError(f"{who}: expected y_true and y_pred of as many samples, at least one; "
                        f"got shapes {truth.shape} and {found.shape}.")
    read = {"classes": _classes, "numbers": _numbers}.get(metric.reads, _scores)
    output, target, kind, names = read(metric, truth, found)
    if not metric.fits(kind):
        raise DataError(f"{who}: expected {metric.wants}; got y_true {truth.shape} and y_pred {found.shape}.")
    weight = _weight(who, sample_weight, len(truth))
    counts = None if weight is None or isinstance(metric.statistic(kind), Kept) else tensor(weight)
    seen = Seen(tensor(output), tensor(target), Given(kind.reads), kind, counts)
    values = NumpyEngine().values(metric.statistic(kind).of(seen))
    if isinstance(metric.statistic(kind), PerStep):
        return metric.result((np.array([float(len(truth))]), np.array([[float(v) for v in values]])), kind)
    if isinstance(metric, _Ranked):
        return metric.of_scores(*questions(values[0], kind), weight)
    made = metric.result(values[0], kind)
    return made.named(names) if isinstance(made, ConfusionMatrix) else made


def _array(who: str, name: str, value: Any) -> Array:
    """As an array of numbers, bools or texts. Raises DataError for others, and for NaN."""
    a = np.asarray(value.numpy() if callable(getattr(value, "numpy", None)) else value)
    if a.dtype.kind == "O":
        a = np.asarray(a.tolist())
    if a.dtype.kind not in "biufUS":
        raise DataError(f"{who}: expected {name} of numbers or texts; got dtype {a.dtype}.")
    if a.dtype.kind == "f" and np.isnan(a).any():
        raise DataError(f"{who}: expected numbers; got {int(np.isnan(a).sum())} NaN in {name}; leave such samples out.")
    return a


def _weight(who: str, value: Any, count: int) -> Array | None:
    if value is None:
        return None
    w = np.asarray(value, np.float64)
    if w.shape != (count,) or not np.isfinite(w).all() or (w < 0).any():
        raise DataError(f"{who}: expected a sample_weight of at least 0 for each of {count} samples; "
                        f"got shape {w.shape}{', with negative or infinite ones' if w.shape == (count,) else ''}.")
    return w


def _column(a: Array) -> Array:
    """(N, 1) as (N,)."""
    return a[:, 0] if a.ndim == 2 and a.shape[1] == 1 else a


def _classes(metric: Metric, truth: Array, found: Array) -> tuple[Array, Array, Kind, tuple[Any, ...]]:
    """(output, target, kind, names of the classes) of classes, or of yes and no (N, L)."""
    truth, found = _column(truth), _column(found)
    if found.ndim == 2 and truth.ndim == 1 and found.dtype.kind == "f":
        found = found.argmax(1)
    if found.shape != truth.shape:
        raise DataError(f"{metric.key}: expected y_true and y_pred of one shape, or y_pred (N, C) scores; "
                        f"got {truth.shape} and {found.shape}.")
    if found.dtype.kind == "f" and (found % 1 != 0).any():
        raise DataError(f"{metric.key}: expected classes in y_pred; got fractions, as "
                        f"{found[found % 1 != 0].flat[0]:g}; decide first: y_pred > 0.5 of probabilities, "
                        "y_pred > 0 of logits.")
    if truth.ndim == 2 and not ({*np.unique(truth), *np.unique(found)} - {0, 1}) and metric.key != "accuracy":
        spec = Spec(truth.shape, "float32")
        return found.astype(np.float32), truth.astype(np.float32), Kind(GIVEN, spec, spec), ()
    kinds = np.unique(np.concatenate([truth.ravel(), found.ravel()]))
    if kinds.dtype.kind in "biuf" and set(kinds.tolist()) <= {0, 1}:
        kinds = np.array([0, 1], kinds.dtype if kinds.dtype.kind != "b" else np.int64)
    output, target = (np.searchsorted(kinds, a).astype(np.int32).ravel() for a in (found, truth))
    spec = Spec(target.shape, "int32")
    return output, target, Kind(GIVEN, spec, spec, count=len(kinds)), tuple(kinds.tolist())


def _numbers(metric: Metric, truth: Array, found: Array) -> tuple[Array, Array, Kind, tuple[Any, ...]]:
    truth, found = _column(truth), _column(found)
    if truth.shape != found.shape or "U" in truth.dtype.kind + found.dtype.kind:
        raise DataError(f"{metric.key}: expected y_true and y_pred, numbers of one shape; "
                        f"got {truth.dtype.name}{list(truth.shape)} and {found.dtype.name}{list(found.shape)}.")
    spec = Spec(truth.shape, "float64")
    return found.astype(np.float64), truth.astype(np.float64), Kind(VALUES, spec, spec), ()


def _scores(metric: Metric, truth: Array, found: Array) -> tuple[Array, Array, Kind, tuple[Any, ...]]:
    """Of scores (N,) of yes, (N, L) of labels or (N, C) of classes."""
    truth, found = _column(truth), _column(found)
    if found.dtype.kind not in "biuf":
        raise DataError(f"{metric.key}: expected scores in y_pred; got dtype {found.dtype}.")
    found = found if found.dtype == np.float32 else found.astype(np.float64)
    if metric.reads == "probabilities" and ((found < -1e-6) | (found > 1 + 1e-6)).any():
        raise DataError(f"{metric.key}: expected probabilities in [0, 1] in y_pred; got values from {found.min():g} to "
                        f"{found.max():g}; take trainer.predict_proba.")
    if found.shape == truth.shape:
        yes = _yes(metric, truth) if truth.ndim == 1 else truth
        kind = Kind(PROBABILITIES, Spec(found.shape, dtype_name(found.dtype)), Spec(found.shape, "float32"))
        return found, yes.astype(np.float32), kind, ()
    if found.ndim != 2 or truth.ndim != 1:
        raise DataError(f"{metric.key}: expected y_true (N,) with y_pred (N,) or (N, C), or both (N, L); "
                        f"got {truth.shape} and {found.shape}.")
    kinds, classes = np.unique(truth), found.shape[1]
    inside = kinds.dtype.kind in "biuf" and set(kinds.tolist()) <= set(range(classes))
    if not inside and len(kinds) != classes:
        raise DataError(f"{metric.key}: expected classes from 0 to {classes - 1}, or {classes} different ones, in "
                        f"y_true; got {len(kinds)}: {', '.join(map(str, kinds[:6].tolist()))}.")
    labels = truth.astype(np.int32) if inside else np.searchsorted(kinds, truth).astype(np.int32)
    kind = Kind(CLASS_PROBABILITIES, Spec(found.shape, dtype_name(found.dtype)), Spec(labels.shape, "int32"))
    return found, labels, kind, ()


def _yes(metric: Metric, truth: Array) -> Array:
    """Whether yes, the larger of at most two kinds."""
    kinds = np.unique(truth)
    if len(kinds) > 2:
        raise DataError(f"{metric.key}: expected two kinds in y_true with scores (N,); got {len(kinds)}; "
                        "pass a score of each class (N, C).")
    if kinds.dtype.kind in "biuf" and set(kinds.tolist()) <= {0, 1, -1}:
        return np.asarray(truth == 1)
    return np.asarray(truth == kinds[-1])
