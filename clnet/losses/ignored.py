"""Targets of steps that do not count, which fill sequences up: how a loss and metrics leave them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops as F
from ..core.spec import is_float
from ..core.tensor import Tensor
from .base import Loss


def counted(loss: Callable[..., Any], y: Tensor, ignore: int | None) -> Tensor | None:
    """Which of the targets y (N, T, …), one a step, count: bool (N, T), False where they are `ignore` or NaN.
    None where all do (`ignore` is None), or where the loss leaves the others out by its ignore_index.
    """
    if ignore is None or (not is_float(y.dtype) and getattr(loss, "ignore_index", None) == ignore):
        return None
    absent = F.isnan(y) if is_float(y.dtype) else F.equal(y, ignore)
    if y.ndim > 2:
        absent = F.max(F.reshape(absent.astype("int8"), (*y.shape[:2], -1)), -1) > 0
    return F.logical_not(absent)


def beside(counts: Tensor, values: Tensor) -> Tensor:
    """counts (N, T) with axes of size 1 behind, so that it broadcasts against the values (N, T, …)."""
    return F.reshape(counts, (*counts.shape, *(1,) * (values.ndim - counts.ndim)))


def scored(loss: Callable[..., Any], output: Any, y: Tensor, counts: Tensor | None) -> Tensor:
    """The loss of what counts. A function, which knows no weights, is given all."""
    if counts is None or not isinstance(loss, Loss):
        return loss(output, y)  # type: ignore[no-any-return]
    return loss(output, F.where(beside(counts, y), y, 0), sample_weight=counts)


def mean(values: Tensor, counts: Tensor | None) -> Tensor:
    """mean of the values (N, T, …) of steps that count; of all where counts is None.

    counts  bool, or numbers: weights w of Σ w v / Σ w
    """
    if counts is None:
        return F.mean(values)
    if counts.dtype != "bool":
        return F.sum(beside(counts, values) * values) / (F.sum(counts) * (values.size / counts.size))
    share = F.sum(counts.astype("float32")) * (values.size / counts.size)
    return F.sum(F.where(beside(counts, values), values, 0.0)) / F.maximum(share, 1.0)
