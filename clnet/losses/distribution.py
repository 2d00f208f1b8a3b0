"""Losses between distributions and states."""

from __future__ import annotations

import numpy as np

from .. import ops as F
from ..config.fields import field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.losses import check_labels, cross_entropy
from .base import Loss, classes_last, expect, floored_log, rest, same_shape

ROWS = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.4, 0.1]], np.float32)
SPARSE = np.array([[0.0, 0.5, 0.25, 0.25], [0.3, 0.3, 0.4, 0.0], [0.0, 0.0, 1.0, 0.0]], np.float32)


class KLDivLoss(Loss):
    """Σ y (ln y − ln p), 0 ln 0 = 0, ln p at least −100; with log_input the prediction is ln p

    prediction and target (N, ...) of one shape, distributions; the value is that of a sample,
    all its other axes summed: the mean is PyTorch's "batchmean".
    Paper: Kullback & Leibler 1951, Annals of Mathematical Statistics 22.
    """

    spec_name = "KullbackLeiblerDivergence"
    aliases = ("KLDivergence", "kl_div", "kld")
    per = "sample"
    log_input: bool = field(False, doc="whether the prediction is logarithms of probabilities")
    examples = [({}, ROWS, SPARSE), (dict(log_input=True), np.log(ROWS), SPARSE)]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        expect("KLDivLoss", "target", target, 0.0, 1.0)
        if not self.log_input:
            expect("KLDivLoss", "prediction", prediction, 0.0, 1.0,
                   "; set log_input=True for logarithms of probabilities")

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        logs = prediction if self.log_input else floored_log(prediction)
        nothing = F.equal(target, 0.0)
        return F.sum(
            F.where(nothing, 0.0, target * (F.log(F.where(nothing, 1.0, target)) - F.where(nothing, 0.0, logs))),
            rest(target))


class DistillationLoss(Loss):
    """α CE(z, label) + (1 − α) T² KL(softmax(v / T) ‖ softmax(z / T)); without labels T² KL alone

    Student logits z and teacher logits v (N, C, ...), labels (N, ...) of integers. No gradient goes to the teacher.
    Paper: Hinton, Vinyals, Dean 2015, arXiv:1503.02531.
    """

    spec_name = "DistillationLoss"
    aliases = ("Distillation", "distillation")
    per = "sample"
    inputs = ("student", "teacher", "label")
    optional = ("label",)
    labels = True
    temperature: float = positive(3.0, doc="T: how soft both distributions are")
    alpha: float = field(0.3, doc="α, weight of the labels", ge=0, le=1)
    examples = [({}, (4, 5), (4, 5), np.array([4, 0, 2, 2], np.int32)), (dict(temperature=2.0), (3, 4), (3, 4))]

    def check(self, student: Tensor, teacher: Tensor, label: Tensor | None) -> None:  # type: ignore[override]
        same_shape("DistillationLoss", self.inputs, student, teacher)
        sparse = (student.shape[0], *student.shape[2:]) if student.ndim > 1 else None
        if sparse is None or (label is not None and label.shape != sparse):
            got = student.shape if label is None else f"{student.shape} and {label.shape}"
            raise ShapeError(
                f"DistillationLoss: expected logits (N, C, ...) and labels (N, ...); got {got}; classes go on axis 1.")
        if label is not None:
            check_labels("DistillationLoss", label, student.shape[1])

    def formula(self, student: Tensor, teacher: Tensor, label: Tensor) -> Tensor:  # type: ignore[override]
        z, v = classes_last(student), F.detach(classes_last(teacher))
        log_p, log_q = F.log_softmax(z / self.temperature), F.log_softmax(v / self.temperature)
        soft = self.temperature**2 * F.sum(F.exp(log_q) * (log_q - log_p), -1)
        return soft if label is None else self.alpha * cross_entropy(z, label) + (1.0 - self.alpha) * soft


class QuantumLoss(Loss):
    """1 − |⟨t, p⟩|² / (‖p‖² ‖t‖²): the infidelity of two states; an overall phase or length does not count

    prediction and target (N, 2n), real and imaginary parts in turn; a state of length 0 is orthogonal to all.
    Paper: Nielsen & Chuang 2000, Quantum Computation and Quantum Information, §9.2.
    """

    spec_name = "QuantumLoss"
    aliases = ("Quantum", "infidelity")
    per = "sample"
    examples = [({}, (4, 6), (4, 6)), ({}, (2, 2), (2, 2))]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        if prediction.ndim != 2 or prediction.shape[1] % 2:
            raise ShapeError(
                f"QuantumLoss: expected states (N, 2n), real and imaginary parts in turn; got {prediction.shape}.")

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        p, t = (x.reshape(x.shape[0], -1, 2) for x in (prediction, target))
        norm = F.sum(F.square(t), (1, 2), keepdims=True)
        unit = F.where(F.equal(norm, 0.0), 1.0, norm)
        turned = F.stack([-t[:, :, 1], t[:, :, 0]], 2)  # i t
        # What of p is not along t, over all of p: near 0 this keeps the digits that 1 − fidelity loses.
        re, im = (F.sum(p * x, (1, 2), keepdims=True) / unit for x in (t, turned))
        left, whole = F.sum(F.square(p - re * t - im * turned), (1, 2)), F.sum(F.square(p), (1, 2))
        none = F.equal(whole, 0.0)
        return F.where(none, 1.0, left / F.where(none, 1.0, whole))
