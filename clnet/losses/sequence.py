"""Losses on sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops as F
from ..config.fields import field
from ..core.tensor import Tensor
from ..ops.ctc import ctc
from .base import Loss

TARGETS = np.array([[1, 2, 2], [3, 1, 0], [0, 0, 0]], np.int32)


class CTCLoss(Loss):
    """−ln Σ over alignments of the target of Π_t p(t, ·), repeated labels and blanks left out of an alignment

    Log-probabilities (T, N, C), or with from_logits any numbers; targets (N, S) of integers, or all of them one after
    the other; lengths of inputs (N) and of targets (N). The mean runs over values divided by their target's length. A
    target that cannot be written in its frames is ∞ (with slope 0), or 0 with zero_infinity.
    Paper: Graves, Fernández, Gomez, Schmidhuber 2006, ICML.
    """

    spec_name = "CTCLoss"
    aliases = ("CTC", "ctc")
    per = "sample"
    inputs = ("log_probs", "targets", "input_lengths", "target_lengths")
    labels = True
    blank: int = field(0, doc="class of frames that write nothing", ge=0)
    from_logits: bool = field(False, doc="whether the input is logits, before the log-softmax")
    zero_infinity: bool = field(False, doc="whether targets that cannot be written count as 0")
    examples = [(dict(from_logits=True), (8, 3, 4), TARGETS, np.array([8, 5, 7], np.int32),
                 np.array([3, 2, 0], np.int32)),
                (dict(blank=4), (9, 2, 5), np.array([3, 1, 1, 0, 2], np.int32), np.array([9, 6], np.int32),
                 np.array([3, 2], np.int32))]

    def check(self, *operands: Any) -> None:
        """Shapes, lengths and labels are checked by the op."""

    def formula(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor,  # type: ignore[override]
                target_lengths: Tensor) -> Tensor:
        lp = F.log_softmax(log_probs) if self.from_logits else log_probs
        values = ctc(lp, targets, input_lengths, target_lengths, self.blank)
        return F.where(F.isfinite(values) | F.isnan(values), values, 0.0) if self.zero_infinity else values

    def reduce(self, values: Tensor, weight: Tensor | None, *operands: Any) -> Tensor:
        if self.reduction == "mean":
            values = values / F.maximum(operands[3].astype(values.dtype), 1.0)
        return super().reduce(values, weight, *operands)
