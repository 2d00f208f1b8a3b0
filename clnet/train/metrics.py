"""Metrics: means over a batch, computed on the device beside the loss. A metric is a function (output, target) -> scalar tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops as F
from ..errors import ConfigError, ShapeError
from ..names import ending
from ..names import guide as _guide
from ..tensor import Tensor, as_tensor

METRICS: dict[str, Callable[[Any, Any], Tensor]] = {}


def metric(fn: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
    """Registers a metric under the name of its function."""
    METRICS[fn.__name__] = fn
    return fn


def resolve(metrics: Any) -> dict[str, Callable[[Any, Any], Tensor]]:
    """{name: function} of names and functions. Raises ConfigError for unknown and repeated names."""
    found: dict[str, Callable[[Any, Any], Tensor]] = {}
    for m in (metrics,) if isinstance(metrics, str) else metrics:
        if isinstance(m, str) and m not in METRICS:
            raise ConfigError(f"metrics: expected {', '.join(METRICS)} or a function; got {m!r}{ending(m, METRICS)}")
        name = m if isinstance(m, str) else getattr(m, "__name__", type(m).__name__)
        if name in found or name == "loss":
            raise ConfigError(f"metrics: expected every name once and none called 'loss'; got {name!r} again.")
        found[name] = METRICS[m] if isinstance(m, str) else m
    return found


@metric
def accuracy(output: Any, target: Any) -> Tensor:
    """y = mean(argmax(output) = label); classes on the last axis, labels or probabilities as target."""
    output, target = as_tensor(output), as_tensor(target)
    if target.shape == output.shape and output.ndim > 1:
        target = F.argmax(target, -1)
    if target.shape != output.shape[:-1]:
        raise ShapeError(f"accuracy: expected labels of shape {output.shape[:-1]} for an output {output.shape}; got {target.shape}; choose other metrics=.")
    return F.mean(F.equal(F.argmax(output, -1).astype("int32"), target.astype("int32")).astype("float32"))


@metric
def binary_accuracy(output: Any, target: Any) -> Tensor:
    """y = mean((output > 0) = (target > ½)), outputs being logits"""
    output, target = _alike("binary_accuracy", output, target)
    return F.mean(F.equal(output > 0.0, target > 0.5).astype("float32"))


@metric
def mae(output: Any, target: Any) -> Tensor:
    """y = mean |output − target|"""
    output, target = _alike("mae", output, target)
    return F.mean(F.abs(output - target))


@metric
def mse(output: Any, target: Any) -> Tensor:
    """y = mean (output − target)²"""
    output, target = _alike("mse", output, target)
    return F.mean(F.square(output - target))


def _alike(who: str, output: Any, target: Any) -> tuple[Tensor, Tensor]:
    output, target = as_tensor(output), as_tensor(target)
    if output.shape != target.shape:
        raise ShapeError(f"{who}: expected a target of the output's shape {output.shape}; got {target.shape}; reshape one of them.")
    return output, target.astype(output.dtype)

_guide(__name__)
