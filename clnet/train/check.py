"""One place that looks at data before anything runs: shapes, labels, targets that are not finite.
For fit, its validation, evaluate and predict.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.spec import Spec, dtype_name, is_float
from ..core.tensor import tensor
from ..engine.record import infer
from ..errors import ClnetError, DataError, DTypeError, ShapeError
from ..layers.base import Layer
from ..losses.reading import CLASSES, named, reading
from ..model.files import layers
from .data import Dataset, parts


def check_inputs(model: Layer, data: Dataset) -> list[Spec]:
    """Builds the model by the data's inputs; the specs of its outputs for all samples. Nothing runs.
    Raises ShapeError, DTypeError.
    """
    inputs = [Spec(a.shape, dtype_name(a.dtype)) for a in parts(data.x)]
    for k, s in enumerate(inputs):
        if len(s.shape) == 1:
            _batch_axis(model, inputs, f"x[{k}]" if len(inputs) > 1 else "x", data)
    outputs = infer(lambda *x: model(*x), inputs)
    if outputs[0].shape[:1] != (len(data),):
        raise ShapeError(
            f"{type(model).__name__}: expected an output with the batch axis first, {len(data)} samples; "
            f"got shape {outputs[0].shape} from inputs of shape {' and '.join(str(s.shape) for s in inputs)}; "
            "keep the first axis in every layer.")
    return outputs


def _batch_axis(model: Layer, inputs: list[Spec], name: str, data: Dataset) -> None:
    """Samples of no axes are right for a table of symbols; elsewhere a layer would take their number for that
    of its features, and keep it.
    """
    trial = model if all(layer.built for layer in layers(model).values()) else copy.deepcopy(model)
    try:
        fits = infer(lambda *x: trial(*x), inputs)[0].shape[:1] == (len(data),)
    except ClnetError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{type(model).__name__}: expected {name} with a batch axis and features, (N, ...); "
            f"got shape ({len(data)},); samples of one number each are {name}[:, None], "
            f"one sample of {len(data)} numbers is {name}[None].")


def check(model: Layer, loss: Callable[..., Any], data: Dataset, who: str = "", finite: bool = True) -> list[Spec]:
    """As `check_inputs`, and tries the loss on all labels. `finite`: whether targets must be.
    Raises DataError, ShapeError, DTypeError.
    """
    try:
        outputs = check_inputs(model, data)
        _check_targets(loss, data, outputs[0], finite)
        if len(outputs) == 1:
            infer(lambda o: loss(o, tensor(data.y)), outputs)
    except ClnetError as error:
        if not who:
            raise
        raise type(error)(f"{who}: {error}") from None
    return outputs


def _check_targets(loss: Callable[..., Any], data: Dataset, output: Spec, finite: bool) -> None:
    y = data.y
    if not is_float(dtype_name(y.dtype)):
        return
    if (getattr(loss, "labels", False) and reading(loss) in CLASSES and y.shape != output.shape
            and y.ndim < len(output.shape)):
        raise DTypeError(
            f"{named(loss)}: expected integer labels; "
            f"got {data.given[-1]} of shape {y.shape}; cast them: y.astype(int).")
    if finite and (found := next(not_finite([y]), None)):
        _, at, value = found
        where = f", column {at[1]}" if len(at) == 2 and y.shape[1] > 1 else f" at {at[1:]}" if len(at) > 2 else ""
        raise DataError(
            f"{data.title}: expected finite targets; the target of sample {at[0]}{where} is {value}; "
            "leave such samples out or fill them.")


def not_finite(arrays: Sequence[np.ndarray[Any, Any]]) -> Iterator[tuple[int, tuple[int, ...], str]]:
    """(number of the array, index of its first value that is not finite, "nan" or "inf") of those that hold one."""
    for k, a in enumerate(arrays):
        if a.dtype.kind == "f" and a.size and not np.isfinite(a).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
            yield k, at, "nan" if np.isnan(a[at]) else "inf"


def bad_input(data: Dataset, samples: np.ndarray[Any, Any] | None = None) -> str:
    """A sentence that names the first value of the inputs that is not finite, among these samples,
    by its sample and column; "" where all are.
    """
    inputs = parts(data.x)
    for k, a in enumerate(inputs):
        for _, (row, *rest), value in not_finite([a if samples is None else a[samples]]):
            sample = row if samples is None else int(samples[row])
            names = data.columns[k] if k < len(data.columns) else ()
            name = f" ({names[rest[0]]!r})" if rest and rest[0] < len(names) else ""
            where = f", column {rest[0]}{name}" if len(rest) == 1 else f" at {tuple(rest)}" if rest else ""
            return f"input {k} holds {value} at sample {sample}{where}"
    return ""
