"""Losses: a formula per element or per sample, and a reduction."""

from ..names import guide as _guide
from .adversarial import clip_weights, gradient_penalty
from .base import Loss
from .classification import (
    BCELoss,
    CategoricalCrossEntropyLoss,
    CrossEntropyLoss,
    FocalLoss,
    SparseCategoricalCrossEntropyLoss,
    WeightedCrossEntropyLoss,
)
from .distribution import DistillationLoss, KLDivLoss, QuantumLoss
from .margin import (
    ExponentialLoss,
    HingeLoss,
    MarginLoss,
    ModifiedHuberLoss,
    OrdinalRegressionLoss,
    SquaredHingeLoss,
    WassersteinLoss,
)
from .overlap import DiceLoss, JaccardLoss
from .perceptual import PerceptualLoss, RealESRGANLoss, RotationPredictionLoss
from .physics import PhysicsInformedLoss
from .regression import (
    CharbonnierLoss,
    ElasticNetLoss,
    HuberLoss,
    LogCoshLoss,
    MAELoss,
    MeanBiasErrorLoss,
    MSELoss,
    PoissonLoss,
    QuantileLoss,
    RMSELoss,
    ScaleInvariantDepthLoss,
)
from .sequence import CTCLoss
from .similarity import ContrastiveLoss, CosineSimilarityLoss, NoiseContrastiveEstimationLoss, TripletLoss

__all__ = [
    "BCELoss", "CTCLoss", "CategoricalCrossEntropyLoss", "CharbonnierLoss", "ContrastiveLoss", "CosineSimilarityLoss",
    "CrossEntropyLoss", "DiceLoss", "DistillationLoss", "ElasticNetLoss", "ExponentialLoss", "FocalLoss", "HingeLoss",
    "HuberLoss", "JaccardLoss", "KLDivLoss", "LogCoshLoss", "Loss", "MAELoss", "MSELoss", "MarginLoss",
    "MeanBiasErrorLoss", "ModifiedHuberLoss", "NoiseContrastiveEstimationLoss", "OrdinalRegressionLoss",
    "PerceptualLoss", "PhysicsInformedLoss", "PoissonLoss", "QuantileLoss", "QuantumLoss", "RMSELoss", "RealESRGANLoss",
    "RotationPredictionLoss", "ScaleInvariantDepthLoss", "SparseCategoricalCrossEntropyLoss", "SquaredHingeLoss",
    "TripletLoss", "WassersteinLoss", "WeightedCrossEntropyLoss", "clip_weights", "gradient_penalty",
]

_guide(__name__)
