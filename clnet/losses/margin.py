"""Losses that ask for a margin: between two classes y = ±1, between capsules, between ranks."""

from __future__ import annotations

import numpy as np

from .. import ops as F
from ..config.fields import field, positive
from ..core.state import Parameter
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.losses import check_labels
from .base import Loss, expect_among, rest
from .reading import CLASS_SCORES, MARGINS, RANKS

SIGNS = np.array([[1, -1, -1, 1, 1], [-1, -1, 1, 1, -1], [1, 1, -1, -1, 1], [-1, 1, 1, -1, -1]], np.float32)
LENGTHS = np.array([[0.95, 0.3, 0.05], [0.2, 0.7, 0.5], [0.02, 0.4, 0.97]], np.float32)
CAPSULES = np.array([[[0.5, -0.3], [0.1, 0.2]], [[0.9, 0.6], [-0.4, 0.7]], [[-0.2, 0.05], [0.02, 0.03]]], np.float32)


class _Signed(Loss):
    """Prediction and target of one shape, y in {−1, 1}; {0, 1} is taken for it."""

    reads = MARGINS
    examples = [({}, (4, 5), SIGNS), ({}, (4, 5), np.maximum(SIGNS, 0))]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        expect_among(type(self).__name__, "target", target, (-1.0, 1.0), (0.0, 1.0))

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self.of_margin(F.where(target > 0.0, prediction, -prediction))

    def of_margin(self, z: Tensor) -> Tensor:
        """The value for z = y p."""
        raise NotImplementedError(f"{type(self).__name__}.of_margin")


class HingeLoss(_Signed):
    """max(0, 1 − y p); the subgradient at y p = 1 is 0. y in {−1, 1}, or in {0, 1} with 0 for −1.

    Paper: Cortes & Vapnik 1995, Machine Learning 20.
    """

    spec_name = "HingeLoss"
    aliases = ("Hinge", "hinge")

    def of_margin(self, z: Tensor) -> Tensor:
        return F.relu(1.0 - z)


class SquaredHingeLoss(_Signed):
    """max(0, 1 − y p)². y in {−1, 1}, or in {0, 1} with 0 for −1."""

    spec_name = "SquaredHingeLoss"
    aliases = ("SquaredHinge", "squared_hinge")

    def of_margin(self, z: Tensor) -> Tensor:
        return F.square(F.relu(1.0 - z))


class ExponentialLoss(_Signed):
    """e^(−y p): infinite in float32 from y p = −89 on. y in {−1, 1}, or in {0, 1} with 0 for −1.

    Paper: Freund & Schapire 1997, Journal of Computer and System Sciences 55.
    """

    spec_name = "ExponentialLoss"
    aliases = ("Exponential", "exponential")

    def of_margin(self, z: Tensor) -> Tensor:
        return F.exp(-z)


class ModifiedHuberLoss(_Signed):
    """max(0, 1 − z)² where z = y p ≥ −1, else −4 z. y in {−1, 1}, or in {0, 1} with 0 for −1.

    Paper: Zhang 2004, International Conference on Machine Learning.
    """

    spec_name = "ModifiedHuberLoss"
    aliases = ("ModifiedHuber", "modified_huber")

    def of_margin(self, z: Tensor) -> Tensor:
        near = F.maximum(z, -1.0)
        return F.square(F.relu(1.0 - near)) + 4.0 * (near - z)


class WassersteinLoss(_Signed):
    """−y p: a critic's scores p, y = 1 for real and −1 (or 0) for generated ones; a generator uses y = 1 on its own.

    The critic has to be Lipschitz: see `gradient_penalty` and `clip_weights`.
    Paper: Arjovsky, Chintala, Bottou 2017, arXiv:1701.07875.
    """

    spec_name = "WassersteinLoss"
    aliases = ("Wasserstein", "wasserstein")
    reads = ""  # a critic's scores are no decision

    def of_margin(self, z: Tensor) -> Tensor:
        return -z


class MarginLoss(Loss):
    """Σ_k [t_k max(0, m⁺ − v_k)² + λ (1 − t_k) max(0, v_k − m⁻)²], v_k the lengths of the capsules

    Lengths (N, K) or capsules (N, K, D); labels (N) of integers, or one-hot (N, K).
    Paper: Sabour, Frosst, Hinton 2017, arXiv:1710.09829.
    """

    spec_name = "MarginLoss"
    aliases = ("Margin", "margin")
    per = "sample"
    reads = CLASS_SCORES
    labels = True
    m_plus: float = positive(0.9, doc="m⁺: least length of a capsule whose class is present")
    m_minus: float = field(0.1, doc="m⁻: largest length of one whose class is absent", ge=0)
    lam: float = field(0.5, doc="λ, weight of absent classes", ge=0)
    examples = [({}, LENGTHS, np.array([0, 2, 2], np.int32)),
                (dict(lam=0.25), CAPSULES, np.array([[1, 0], [0, 1], [1, 0]], np.float32))]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        sparse = target.shape == prediction.shape[:1]
        if prediction.ndim not in (2, 3) or not (sparse or target.shape == prediction.shape[:2]):
            raise ShapeError(
                "MarginLoss: expected lengths (N, K) or capsules (N, K, D) with labels (N) or one-hot (N, K); got "
                f"{prediction.shape} and {target.shape}.")
        if sparse:
            check_labels("MarginLoss", target, prediction.shape[1])
        else:
            expect_among("MarginLoss", "one-hot target", target, (0.0, 1.0))

    def scores(self, prediction: Tensor) -> Tensor:
        return F.sqrt(F.sum(F.square(prediction), -1)) if prediction.ndim == 3 else prediction

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        v = self.scores(prediction)
        t = (F.one_hot(target, v.shape[1]) if target.ndim == 1 else target).astype(v.dtype)
        present = t * F.square(F.relu(self.m_plus - v))
        return F.sum(present + self.lam * (1.0 - t) * F.square(F.relu(v - self.m_minus)), 1)


class OrdinalRegressionLoss(Loss):
    """Σ_j BCE(σ(l_j), 1[y > j]), j = 0 … K − 2; l the logits, or score − threshold_j

    Logits (N, K − 1), or scores (N) or (N, 1), from which the K − 1 trainable `thresholds` are taken;
    labels (N) of integers in [0, K).
    Paper: Rennie & Srebro 2005, IJCAI workshop on preference handling; Cao, Mirjalili, Raschka 2020, arXiv:1901.07884.
    """

    spec_name = "OrdinalRegressionLoss"
    aliases = ("OrdinalRegression", "ordinal")
    per = "sample"
    reads = RANKS
    labels = True
    num_classes: int = field(doc="K, how many ranks there are", gt=1)
    examples = [(dict(num_classes=5), (4, 4), np.array([4, 0, 2, 2], np.int32)),
                (dict(num_classes=4), (5,), np.array([3, 0, 1, 2, 2], np.int32))]

    def __post_init__(self) -> None:
        super().__post_init__()
        even = np.arange(self.num_classes - 1, dtype=np.float32) - (self.num_classes - 2) / 2
        self.thresholds = Parameter(even, "thresholds", role="bias")

    def check(self, prediction: Tensor, target: Tensor) -> None:
        sample = ((), (1,), (self.num_classes - 1,))
        if prediction.ndim == 0 or prediction.shape[1:] not in sample or target.shape != prediction.shape[:1]:
            raise ShapeError(
                f"OrdinalRegressionLoss: expected logits (N, {self.num_classes - 1}) or scores (N) with labels (N) for "
                f"{self.num_classes} ranks; got {prediction.shape} and {target.shape}.")
        check_labels("OrdinalRegressionLoss", target, self.num_classes)

    def scores(self, prediction: Tensor) -> Tensor:
        if prediction.shape[1:] == (self.num_classes - 1,):
            return prediction
        return prediction.reshape(-1, 1) - self.thresholds.tensor.astype(prediction.dtype)

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        logits = self.scores(prediction)
        above = (target.reshape(-1, 1) > F.arange(n=self.num_classes - 1, dtype="int32")).astype(logits.dtype)
        return F.sum(F.binary_cross_entropy_with_logits(logits, above), rest(logits))
