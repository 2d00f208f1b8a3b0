"""What a loss is: a formula per element (or per sample), and a reduction. The gradient is the formula's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..config.fields import Configured, choice
from ..core.autocast import wide
from ..core.autodiff import gradients
from ..core.precision import autocast, stored_dtype
from ..core.spec import is_float
from ..core.state import Parameter
from ..core.tensor import Operators, Tensor, TensorLike, as_tensor, tensor
from ..errors import ConfigError, DataError, ShapeError
from ..layers.base import Layer, no_tape
from .reading import ACTIVATION, out_of_range, probable, reading, slip

REDUCTIONS = ("mean", "sum", "none")
TINY = 2.0**-126  # smallest normal float32: below it a device's logarithm may be that of 0
FLOOR = -100.0  # what ln 0 counts as


class Loss(Configured):
    """Base of losses. `loss(prediction, target)` is a scalar, or with reduction="none" one value per element or sample.

    `sample_weight`, of the first axes of the values (usually one number a sample), multiplies them; the mean divides by
    the sum of the weights, so that a sample of weight 2 is the sample twice and one of weight 0 is left out.
    """

    # what the mean runs over: "element", "sample" (samples sum over their other axes), "whole" (it is one number)
    per: ClassVar[str] = "element"
    paper: ClassVar[str] = ""
    # what is called with; those in `optional` may be left out
    inputs: ClassVar[tuple[str, ...]] = ("prediction", "target")
    optional: ClassVar[tuple[str, ...]] = ()
    differentiated: ClassVar[int] = 1  # how many of the inputs, the first ones, value_and_grad differentiates by
    # What checks, status and benchmarks run: (fields, prediction, target, ...) each; a shape (drawn from U(−2, 2)), an
    # array, or the configuration of a layer.
    examples: ClassVar[list[tuple[Any, ...]]] = [({}, (4, 5), (4, 5))]
    # what a prediction is, a word of clnet.losses.reading, whence default metrics, range, predict_proba; "": not said
    reads: ClassVar[str] = ""
    # whether integers beside the prediction are class numbers or lengths; else they count as numbers
    labels: ClassVar[bool] = False
    reduction: str = choice("mean", REDUCTIONS, doc="mean, sum or none")

    # --- what a loss states
    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Values before the reduction, from all inputs."""
        raise ConfigError(
            f"{type(self).__name__}: expected a method formula(self, prediction, target) with the values before the "
            "reduction; got a class without; write it with clnet.ops, or give the Trainer a function (output, target) "
            "-> scalar.")

    def scores(self, prediction: Tensor) -> Tensor:
        """The prediction as its `reads` says it, where it may come in other forms too."""
        return prediction

    def check(self, prediction: Tensor, target: Tensor) -> None:
        """Raises ShapeError unless shapes are equal; losses with labels or more inputs override it."""
        same_shape(type(self).__name__, self.inputs, prediction, target)

    def counts(self, *operands: Any) -> Tensor | None:
        """How much each value counts in the mean, where that is not 1: class weights, samples to ignore."""
        return None

    def variables(self) -> dict[str, Parameter]:
        """What is trained in the loss itself, by name; a Trainer gives it to the optimizer beside the model's,
        and keeps it in checkpoints.
        """
        return {name: v for name, v in vars(self).items() if isinstance(v, Parameter)}

    def fixed(self, name: str) -> bool:
        """Parameters were made of the fields of a loss's own; how its values are reduced may change."""
        return name not in Loss.__dataclass_fields__ and bool(self.variables())  # type: ignore[attr-defined]

    def parameters(self) -> list[Parameter]:
        """What optimizers see."""
        return list(self.variables().values())

    # --- what is called
    def __call__(self, *inputs: Any, sample_weight: TensorLike | None = None) -> Tensor:
        inputs = wide(inputs) if stored_dtype() else inputs  # mixed precision ends where the loss begins
        with autocast(None):
            operands = self.operands(*inputs)
            self.check(*operands)
            operands = self._in_range(operands)
            values = self.formula(*operands)
            return self.reduce(values, _spread(type(self).__name__, sample_weight, values), *operands)

    def operands(self, *inputs: Any) -> tuple[Any, ...]:
        """All as tensors in the prediction's precision (NumPy's float64 must not widen the loss),
        None for what was left out.
        """
        least = len(self.inputs) - len(self.optional)
        if isinstance(inputs[0], tuple) and any(isinstance(x, Operators) for x in inputs[0]):
            inputs = self._apart(least, *inputs)
        if not least <= len(inputs) <= len(self.inputs):
            may = f" (and maybe {', '.join(self.optional)})" if self.optional else ""
            raise ShapeError(
                f"{type(self).__name__}: expected {', '.join(self.inputs[:least])}{may}; got {len(inputs)} inputs.")
        p = inputs[0] if isinstance(inputs[0], Operators) else tensor(inputs[0])
        p = as_tensor(p) if is_float(p.dtype) else as_tensor(p).astype("float32")
        rest = (None if x is None else self._beside(x, p.dtype) for x in inputs[1:])
        return (p, *rest, *(None,) * (len(self.inputs) - len(inputs)))

    def _apart(self, least: int, outputs: tuple[Any, ...], *rest: Any) -> tuple[Any, ...]:
        """What a model of several outputs gives, one by one, where the loss takes so many: a pair and what it is."""
        several = len(outputs) == self.differentiated
        if several and least <= len(outputs) + len(rest) <= len(self.inputs):
            return (*outputs, *rest)
        who = type(self).__name__
        chosen = "*out" if several and least == len(outputs) > 1 else "out[0], y"
        raise ShapeError(
            f"{who}: expected {', '.join(self.inputs[:least])}; got {len(outputs)} outputs of a model in a tuple; say "
            f"which are meant: lambda out, y: {who}()({chosen}).")

    def _in_range(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Predictions that are no probabilities where the loss reads some: DataError on the host, NaN on the device."""
        if reading(self) not in ACTIVATION:
            return operands
        if operands[0].value is None:
            return (probable(operands[0]), *operands[1:])
        if text := out_of_range(self, operands[0].value):
            raise DataError(text)
        return operands

    def _beside(self, x: TensorLike, dtype: str) -> Tensor:
        y = as_tensor(x) if isinstance(x, Operators) else _leaf(x, dtype, self.labels)
        # in a type that has negative numbers too, such as those of what is ignored
        if self.labels and not is_float(y.dtype):
            dtype = (y.dtype if y.dtype in ("int32", "int64")
                     else "int64" if y.dtype in ("uint32", "uint64") else "int32")
        if y.dtype == dtype:
            return y
        # values known on the host stay so, for checks
        return y.astype(dtype) if y.value is None else tensor(y.value, dtype)

    def reduce(self, values: Tensor, weight: Tensor | None, *operands: Any) -> Tensor:
        """The weighted values, their sum, or their average."""
        if self.reduction == "mean":
            return self.average(values, weight, self.counts(*operands))
        weighed = _weighed(values, weight)
        return F.sum(weighed) if self.reduction == "sum" else weighed

    def average(self, values: Tensor, weight: Tensor | None, counts: Tensor | None = None) -> Tensor:
        """Σ w v / Σ w c over all values, w the weights and c what each value counts
        (1 where not given); 0 where nothing does.
        """
        if counts is None:
            if weight is None:
                return F.mean(values)
            each = F.expand(weight, values.shape)
        else:
            each = counts if weight is None else weight * counts
        share = F.sum(each)
        return F.sum(_weighed(values, weight)) / F.where(F.equal(share, 0.0), 1.0, share)

    def value_and_grad(self, *inputs: Any, **named: Any) -> tuple[Tensor, Any]:
        """(loss, d loss / d prediction), in one pass when run together; several gradients,
        or those of a network's parameters, are a tuple.
        """
        given = tuple(x if isinstance(x, Layer) else as_tensor(x) for x in inputs[: self.differentiated])
        value = self(*given, *inputs[self.differentiated :], **named)
        wrt = [t for x in given for t in ([p.tensor for p in x.parameters()] if isinstance(x, Layer) else [x])]
        found = gradients(value, wrt, F.ones(value.shape, value.dtype))
        return value, found[0] if self.differentiated == 1 and not isinstance(given[0], Layer) else tuple(found)


def _leaf(value: TensorLike, dtype: str, labels: bool) -> Tensor:
    """Host data as a leaf, converted on the host, so that checks can still look at it."""
    array = np.asarray(value)
    return tensor(array, None if labels and array.dtype.kind in "iub" else dtype)


def _spread(who: str, weight: TensorLike | None, values: Tensor) -> Tensor | None:
    """A sample weight as a factor of the values."""
    if weight is None:
        return None
    w = as_tensor(weight) if isinstance(weight, Operators) else _leaf(weight, values.dtype, False)
    if w.shape != values.shape[: w.ndim] or (w.ndim == 0 and values.ndim):
        raise ShapeError(
            f"{who}: expected a sample_weight of the first axes of the values {values.shape}; got shape {w.shape}; "
            "one number a sample is usual.")
    expect(who, "sample_weight", w, low=0.0)
    return w.astype(values.dtype).reshape(*w.shape, *(1,) * (values.ndim - w.ndim))


def _weighed(values: Tensor, weight: Tensor | None) -> Tensor:
    """w v, and 0 where w is, whatever v."""
    return values if weight is None else F.where(F.equal(weight, 0.0), 0.0, weight * values)


# --- checks that losses share
def same_shape(who: str, names: tuple[str, ...], *operands: Any) -> None:
    """Raises ShapeError unless all operands have the first one's shape."""
    for name, x in zip(names[1:], operands[1:], strict=False):
        if x.shape != operands[0].shape:
            raise ShapeError(
                f"{who}: expected a {name} of the {names[0]}'s shape {operands[0].shape}; got "
                f"{x.shape}{slip(operands[0].shape, x.shape)}.")


def expect(who: str, what: str, t: Tensor, low: float | None = None, high: float | None = None, hint: str = "") -> None:
    """Raises DataError for values known on the host that lie outside [low, high];
    what only the device has is not looked at.
    """
    if t.value is None or not t.size:
        return
    least, most = float(t.value.min()), float(t.value.max())
    if (low is not None and least < low) or (high is not None and most > high):
        span = f"of at least {low:g}" if high is None else f"in [{low:g}, {high:g}]"
        raise DataError(f"{who}: expected a {what} {span}; got values from {least:.6g} to {most:.6g}{hint}.")


def expect_among(who: str, what: str, t: Tensor, *sets: tuple[float, ...], hint: str = "") -> None:
    """Raises DataError unless the values known on the host all lie in one of the sets."""
    if t.value is None:
        return
    found = {float(v) for v in np.unique(t.value)}
    if not any(found <= set(s) for s in sets):
        shown = ", ".join(f"{v:g}" for v in sorted(found)[:6])
        raise DataError(
            f"{who}: expected a {what} of {' or '.join('{' + ', '.join(f'{v:g}' for v in s) + '}' for s in sets)}; "
            f"got {shown}{hint}.")


def class_weights(values: Sequence[float] | None, classes: int, dtype: str, who: str) -> Tensor | None:
    """A field of weights as a tensor (None stays). Raises ConfigError unless there is one in all or one a class."""
    if values is None:
        return None
    if len(values) not in (1, classes):
        raise ConfigError(f"{who}: expected one weight per class, {classes}; got {len(values)}.")
    return tensor(list(values), dtype)


def classes_last(x: Tensor) -> Tensor:
    """(N, C, ...) -> (N, ..., C)"""
    return F.permute(x, 0, *range(2, x.ndim), 1) if x.ndim > 2 else x


def rest(x: Tensor) -> tuple[int, ...]:
    """The axes of a sample: all but the first."""
    return tuple(range(1, x.ndim))


def floored_log(p: Tensor, least: float = TINY, value: float = FLOOR) -> Tensor:
    """ln p, and `value` with slope 0 where p ≤ least; nothing is computed on the branch not taken, and NaN stays."""
    low = p <= least
    return F.where(low, value, F.log(F.where(low, 1.0, p)))


@contextlib.contextmanager
def frozen(*networks: Layer | None) -> Iterator[None]:
    """Networks inside a loss: in evaluation mode, remembering nothing."""
    held = [(n, n.training) for n in networks if n is not None]
    for n, _ in held:
        n.eval()
    try:
        with no_tape():
            yield
    finally:
        for n, before in held:
            n.train(before)
