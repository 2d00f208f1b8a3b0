"""What a loss is: a formula per element (or per sample), and a reduction. The gradient is the formula's."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..autodiff import gradients
from ..config import Configured, choice
from ..errors import ShapeError
from ..spec import is_float
from ..tensor import Operators, Tensor, as_tensor, tensor

REDUCTIONS = ("mean", "sum", "none")


class Loss(Configured):
    """Base of losses. `loss(prediction, target)` is a scalar, or with reduction="none" one value per element or sample."""

    per: ClassVar[str] = "element"  # what the mean runs over: "element" or "sample" (samples sum over their other axes)
    paper: ClassVar[str] = ""
    # What checks, status and benchmarks run: (fields, prediction, target) each; a shape (drawn from U(−2, 2)) or an array.
    examples: ClassVar[list[tuple[dict[str, Any], Any, Any]]] = [({}, (4, 5), (4, 5))]
    labels: ClassVar[bool] = False  # whether integer targets are class numbers; else they count as numbers
    reduction: str = choice("mean", REDUCTIONS, doc="mean, sum or none")

    def formula(self, prediction: Any, target: Any) -> Any:
        """Values before the reduction."""
        raise NotImplementedError(f"{type(self).__name__}.formula")

    def check(self, prediction: Tensor, target: Tensor) -> None:
        """Raises ShapeError unless shapes are equal; losses with labels override it."""
        if prediction.shape != target.shape:
            raise ShapeError(f"{type(self).__name__}: expected a target of the prediction's shape {prediction.shape}; got {target.shape}; reshape one of them.")

    def __call__(self, prediction: Any, target: Any) -> Tensor:
        p, y = self.operands(prediction, target)
        self.check(p, y)
        return self.reduce(self.formula(p, y))

    def operands(self, prediction: Any, target: Any) -> tuple[Tensor, Tensor]:
        """Both as tensors, the target in the prediction's precision: NumPy's float64 must not widen the loss."""
        p = prediction if isinstance(prediction, Operators) else tensor(prediction)
        p = as_tensor(p) if is_float(p.dtype) else as_tensor(p).astype("float32")
        y = as_tensor(target) if isinstance(target, Operators) else _leaf(target, p.dtype, self.labels)
        return p, y if y.dtype == p.dtype or (self.labels and not is_float(y.dtype)) else y.astype(p.dtype)

    def reduce(self, values: Tensor) -> Tensor:
        if self.reduction == "mean":
            return F.mean(values)
        return F.sum(values) if self.reduction == "sum" else values

    def value_and_grad(self, prediction: Any, target: Any) -> tuple[Tensor, Tensor]:
        """(loss, d loss / d prediction), in one pass when run together."""
        p = as_tensor(prediction)
        value = self(p, target)
        return value, gradients(value, [p], F.ones(value.shape, value.dtype))[0]


def _leaf(value: Any, dtype: str, labels: bool) -> Tensor:
    """Host data as a leaf, converted on the host, so that checks can still look at it."""
    array = np.asarray(value)
    return tensor(array, None if labels and array.dtype.kind in "iu" else dtype)
