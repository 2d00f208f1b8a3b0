"""What a loss is: a formula per element (or per sample), and a reduction. The gradient is the formula's."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops as F
from ..autodiff import gradients
from ..config import Configured, choice
from ..errors import ShapeError
from ..tensor import Tensor, as_tensor

REDUCTIONS = ("mean", "sum", "none")


class Loss(Configured):
    """Base of losses. `loss(prediction, target)` is a scalar, or with reduction="none" one value per element or sample."""

    per: ClassVar[str] = "element"  # what the mean runs over: "element" or "sample" (samples sum over their other axes)
    paper: ClassVar[str] = ""
    # What checks, status and benchmarks run: (fields, prediction, target) each; a shape (drawn from U(−2, 2)) or an array.
    examples: ClassVar[list[tuple[dict[str, Any], Any, Any]]] = [({}, (4, 5), (4, 5))]
    reduction: str = choice("mean", REDUCTIONS, doc="mean, sum or none")

    def formula(self, prediction: Any, target: Any) -> Any:
        """Values before the reduction."""
        raise NotImplementedError(f"{type(self).__name__}.formula")

    def check(self, prediction: Tensor, target: Tensor) -> None:
        """Raises ShapeError unless shapes are equal; losses with labels override it."""
        if prediction.shape != target.shape:
            raise ShapeError(f"{type(self).__name__}: expected a target of the prediction's shape {prediction.shape}; got {target.shape}; reshape one of them.")

    def __call__(self, prediction: Any, target: Any) -> Tensor:
        p, y = as_tensor(prediction), as_tensor(target)
        self.check(p, y)
        return self.reduce(self.formula(p, y))

    def reduce(self, values: Tensor) -> Tensor:
        if self.reduction == "mean":
            return F.mean(values)
        return F.sum(values) if self.reduction == "sum" else values

    def value_and_grad(self, prediction: Any, target: Any) -> tuple[Tensor, Tensor]:
        """(loss, d loss / d prediction), in one pass when run together."""
        p = as_tensor(prediction)
        value = self(p, target)
        return value, gradients(value, [p], F.ones(value.shape, value.dtype))[0]
