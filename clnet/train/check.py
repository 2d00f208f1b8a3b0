"""One place that looks at data before anything runs: shapes, labels, targets that are not finite.
For fit, its validation, evaluate and predict.
"""

from __future__ import annotations

import copy
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.precision import current_precision, stored_dtype
from ..core.spec import Spec, dtype_name, is_float
from ..core.state import structure
from ..core.tensor import tensor
from ..engine.record import SHAPES, Recorded, alone, infer
from ..errors import ClnetError, ConfigError, DataError, DTypeError, ShapeError
from ..layers.base import Layer
from ..losses.ignored import counted, scored
from ..losses.reading import CLASS_LOGITS, CLASSES, ROUNDED, named, reading
from ..model.files import layers
from .lazy import PIECE
from .samples import Samples
from .sequences import Sequences
from .step import mode


class Tried:
    """Asks `check_inputs` about a model in evaluation mode, once for each kind of samples, however many come, until
    a field changes: for what is called with a few samples very often.
    """

    def __init__(self, model: Layer) -> None:
        self.model = model
        self._known: OrderedDict[Any, None] = OrderedDict()
        self._lock = threading.Lock()  # a model is built once

    def __call__(self, data: Samples, recorded: Recorded, size: int) -> None:
        """Raises what check_inputs raises. Of batches of this size that `recorded` knows the model needs no question.
        """
        rows = [Spec((size, *a.shape[1:]), dtype_name(a.dtype)) for a in data.inputs()]
        kind = (structure(), current_precision(), stored_dtype(), *((s.shape[1:], s.dtype) for s in rows))
        if kind not in self._known:
            with self._lock:
                if not recorded.knows(tuple(rows)):
                    self.again(data)
                self._known[kind] = None
                while len(self._known) > SHAPES:
                    self._known.popitem(last=False)

    def again(self, data: Samples) -> None:
        """The same for just as many samples as these."""
        with alone(), mode(self.model, False):  # in training a batch normalisation would refuse a single sample
            check_inputs(self.model, data)


def check_inputs(model: Layer, data: Samples) -> list[list[Spec]]:
    """Builds the model by the data's inputs; the specs of its outputs, for each way that `data.trials` gives them.
    Nothing runs. Raises ShapeError, DTypeError.
    """
    return [_outputs(model, data, specs, len(y)) for specs, y in data.trials()]


def _outputs(model: Layer, data: Samples, inputs: list[Spec], count: int) -> list[Spec]:
    shapes = " and ".join(str(s.shape) for s in inputs)
    if isinstance(data, Sequences):
        outputs = _with_beside(model, data, inputs)
    else:
        for k, s in enumerate(inputs):
            if len(s.shape) == 1:
                _batch_axis(model, inputs, f"x[{k}]" if len(inputs) > 1 else "x", count)
        outputs = infer(lambda *x: _tensors(model, x), inputs)
    if outputs[0].shape[:1] not in {(count,), inputs[0].shape[:1] if data.packed else (count,)}:
        raise ShapeError(
            f"{type(model).__name__}: expected an output with the batch axis first, {count} samples; "
            f"got shape {outputs[0].shape} from inputs of shape {shapes}; keep the first axis in every layer.")
    return outputs


def _tensors(model: Layer, inputs: tuple[Any, ...]) -> Any:
    """What the model gives. Raises ConfigError for a dict, which PyTorch's models may give."""
    output = model(*inputs)
    if isinstance(output, dict):
        raise ConfigError(
            f"{type(model).__name__}: expected a tensor from forward, or a tuple of tensors; got a dict with "
            f"{', '.join(map(repr, output))}; return ({', '.join(f'out[{k!r}]' for k in output)},), and give the loss "
            "out[0].")
    return output


def _number(value: Any) -> Any:
    """What a loss gave. Raises ConfigError for nothing at all."""
    if value is None:
        raise ConfigError("Trainer: expected a loss (output, target) that returns one number, as a tensor; got None; "
                          "write return in front of what it computes.")
    return value


def _with_beside(model: Layer, data: Sequences, inputs: list[Spec]) -> list[Spec]:
    """The outputs for sequences. Where the model takes no lengths or mask, a sentence that says so."""
    try:
        return infer(lambda *x: model(*x), inputs)
    except ClnetError as error:
        if data.beside is None:
            raise
        trial = _trial(model)
        try:
            infer(lambda *x: trial(*x), inputs[:-1])
        except ClnetError:
            raise error from None
        raise ShapeError(
            f"{type(model).__name__}: expected a model of {len(inputs)} inputs, for Sequences give it their "
            f"{data.beside} behind x; got one of {len(inputs) - 1}; wire one: x, n = Input(), Input(); "
            "h = LSTM(hidden_size=64)(x, n); or leave them out with "
            f"{type(data).__name__}(x, y, beside=None).") from None


def _trial(model: Layer) -> Layer:
    """The model, or a copy of one whose sizes are not bound yet, which a trial would bind."""
    return model if all(layer.built for layer in layers(model).values()) else copy.deepcopy(model)


def _batch_axis(model: Layer, inputs: list[Spec], name: str, count: int) -> None:
    """Samples of no axes are right for a table of symbols; elsewhere a layer would take their number for that
    of its features, and keep it.
    """
    trial = _trial(model)
    try:
        fits = infer(lambda *x: trial(*x), inputs)[0].shape[:1] == (count,)
    except ClnetError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{type(model).__name__}: expected {name} with a batch axis and features, (N, ...); "
            f"got shape ({count},); samples of one number each are {name}[:, None], "
            f"one sample of {count} numbers is {name}[None].")


def time_axes(model: Layer, data: Sequences) -> list[int | None]:
    """The axis of each output along which the steps of the sequences lie; None where there is none.
    Raises ShapeError for an output of another number of steps.
    """
    if data.packed:
        return _of_rows(model, data)
    longest = data.trials()[0][0]
    count, steps = longest[0].shape[:2]
    found = _outputs(model, data, longest, count)
    for other in (*{t[0][0].shape[1] for t in data.trials()[1:]}, steps + data.multiple_of, max(1, steps - 1)):
        try:
            tried = _outputs(model, data, data.specs(count, other), count)
        except ClnetError:
            continue
        if other != steps:
            return [_time_axis(a.shape, b.shape, steps, other) for a, b in zip(found, tried, strict=True)]
    return [next((k for k, n in enumerate(a.shape) if k and n == steps), None) for a in found]


def _of_rows(model: Layer, data: Sequences) -> list[int | None]:
    """The same of packed sequences: 0 where an output has a row for every step, None where it has one a sequence."""
    count, steps, total = data.shape_of(np.arange(len(data)))
    a, b = (_outputs(model, data, data.specs(count, steps, rows), count) for rows in (total, total + 1))
    return [0 if x.shape != y.shape and data.apart else None for x, y in zip(a, b, strict=True)]


def _time_axis(a: tuple[int, ...], b: tuple[int, ...], steps: int, other: int) -> int | None:
    moved = [k for k, (m, n) in enumerate(zip(a, b, strict=True)) if m != n]
    if not moved:
        return None
    if len(moved) > 1 or (a[moved[0]], b[moved[0]]) != (steps, other):
        raise ShapeError(
            f"predict: expected outputs of whole sequences, or of each step of x; got shape {a} from {steps} steps and "
            f"{b} from {other}; call the model with sequences of one length: predict(x[None]).")
    return moved[0]


def check(model: Layer, loss: Callable[..., Any], data: Samples, who: str = "",
          finite: bool = True) -> tuple[list[Spec], np.ndarray[Any, Any]]:
    """As `check_inputs`, and tries the loss on all labels; the specs of the outputs, and all labels as tried.
    `finite`: whether targets must be. Raises DataError, ShapeError, DTypeError.
    """
    try:
        if not data.labelled:
            raise DataError(f"{data.title}: expected targets too; got inputs alone; "
                            "name them: Sequences(x, y), from_frame(frame, target=...).")
        tried = [(o, y) for o, (_, y) in zip(check_inputs(model, data), data.trials(), strict=True)]
        outputs, labels = tried[0]
        _check_targets(loss, data, labels, outputs[0], finite)
        try:
            for o, y in tried if len(outputs) == 1 else []:
                _try_loss(loss, data, o, y)
        except DataError as error:
            raise DataError(f"{error}{_begins(loss, data, outputs[0])}") from None
    except ClnetError as error:
        if not who:
            raise
        raise type(error)(f"{who}: {error}") from None
    return outputs, labels


def _try_loss(loss: Callable[..., Any], data: Samples, outputs: list[Spec], y: np.ndarray[Any, Any]) -> None:
    target = tensor(y)
    counts = counted(loss, target, data.ignore)
    if counts is None:
        infer(lambda o: _number(loss(o, target)), outputs)
        return
    there = data.known(y)  # on the host, so that the loss can look at what counts
    filled = tensor(np.where(there.reshape(*there.shape, *(1,) * (y.ndim - there.ndim)), y, 0).astype(y.dtype))
    infer(lambda o: loss(o, filled), outputs)
    try:
        infer(lambda o: scored(loss, o, target, counted(loss, target, data.ignore)), outputs)
    except ShapeError:
        raise ShapeError(
            f"{named(loss)}: expected a loss with a value for every step, which can leave out the steps that fill "
            "sequences up; got one with a value a sample; take another, or a function (output, target) -> scalar."
        ) from None


def _check_targets(loss: Callable[..., Any], data: Samples, y: np.ndarray[Any, Any], output: Spec,
                   finite: bool) -> None:
    if y.shape == output.shape and getattr(loss, "labels", False) and reading(loss) == CLASS_LOGITS:
        _check_shares(loss, data)
    if not is_float(dtype_name(y.dtype)):
        return
    values = data.targets()
    if finite and (found := next(not_finite([values]), None)):
        _, at, value = found
        where = f", column {at[1]}" if len(at) == 2 and values.shape[1] > 1 else f" at {at[1:]}" if len(at) > 2 else ""
        raise DataError(
            f"{data.title}: expected finite targets; "
            f"the target of {data.place(at[0], targets=True)}{where} is {value}; leave such samples out or fill them.")
    if (getattr(loss, "labels", False) and reading(loss) in CLASSES and y.shape != output.shape
            and y.ndim < len(output.shape)):
        raise DTypeError(
            f"{named(loss)}: expected integer labels; "
            f"got {data.given[-1]} of shape {y.shape}; cast them: y.astype(int).")


def _check_shares(loss: Callable[..., Any], data: Samples) -> None:
    """Targets that are probabilities of classes: of one sample they are 1 together."""
    y = data.targets()
    if y.size and y.min() < 0:
        raise DataError(f"{named(loss)}: expected targets that are class numbers or probabilities; got {y.min():g}; "
                        "numbers to predict are for MSELoss.")
    off = np.abs(y.sum(axis=1, dtype=np.float64) - 1.0)
    if off.size and off.max() > ROUNDED:
        row = int(np.unravel_index(off.argmax(), off.shape)[0])
        warnings.warn(f"{named(loss)}: expected probabilities that are 1 together for each sample; those of "
                      f"{data.place(row, targets=True)} are {y[row].sum():g}; several classes at once are for "
                      "BCELoss(from_logits=True).", UserWarning, stacklevel=6)


def _begins(loss: Callable[..., Any], data: Samples, output: Spec) -> str:
    """What to say of labels that are out of range because they do not begin at 0."""
    y = data.targets()
    there = np.unique(y) if y.dtype.kind in "iu" and reading(loss) in CLASSES and len(output.shape) > 1 else y[:0]
    if there.size and there[0] == 1 and there[-1] == output.shape[1]:
        return f" They go from 1 to {there[-1]}, where 0 is the first class: y - 1."
    if there.tolist() == [-1, 1]:
        return " Of -1 and 1 make 0 and 1: (y > 0).astype(int)."
    if there.size and len(there) <= output.shape[1]:
        return (f" They are {len(there)} different numbers; number them from 0: "
                "names, y = np.unique(y, return_inverse=True).")
    return ""


def not_finite(arrays: Sequence[np.ndarray[Any, Any]]) -> Iterator[tuple[int, tuple[int, ...], str]]:
    """(number of the array, index of its first value that is not finite, "nan" or "inf") of those that hold one."""
    for k, whole in enumerate(arrays):
        for start in range(0, len(whole) if whole.dtype.kind == "f" else 0, PIECE):
            a = whole[start : start + PIECE]
            if not np.isfinite(a).all():
                first, *rest = (int(i) for i in np.argwhere(~np.isfinite(a))[0])
                yield k, (start + first, *rest), "nan" if np.isnan(a[(first, *rest)]) else "inf"
                break


def bad_input(data: Samples, samples: np.ndarray[Any, Any] | None = None) -> str:
    """A sentence that names the first value of the inputs that is not finite, among these samples,
    by its sample and column; "" where all are.
    """
    for k, a in enumerate(data.inputs(samples)):
        for _, (row, *rest), value in not_finite([a]):
            names = data.columns[k] if k < len(data.columns) else ()
            name = f" ({names[rest[0]]!r})" if rest and rest[0] < len(names) else ""
            where = f", column {rest[0]}{name}" if len(rest) == 1 else f" at {tuple(rest)}" if rest else ""
            return f"input {k} holds {value} at {data.place(row, samples=samples)}{where}"
    return ""
