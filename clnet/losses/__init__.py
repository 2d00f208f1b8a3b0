"""Losses: a formula per element or per sample, and a reduction; each is imported when somebody asks for it."""

from typing import TYPE_CHECKING

from ..names import offer as _offer

if TYPE_CHECKING:  # for editors and mypy; at run time the table below
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

__all__ = _offer(__name__, {
    "adversarial": "clip_weights gradient_penalty",
    "base": "Loss",
    "classification": "BCELoss CategoricalCrossEntropyLoss CrossEntropyLoss FocalLoss "
                      "SparseCategoricalCrossEntropyLoss WeightedCrossEntropyLoss",
    "distribution": "DistillationLoss KLDivLoss QuantumLoss",
    "margin": "ExponentialLoss HingeLoss MarginLoss ModifiedHuberLoss OrdinalRegressionLoss SquaredHingeLoss "
              "WassersteinLoss",
    "overlap": "DiceLoss JaccardLoss",
    "perceptual": "PerceptualLoss RealESRGANLoss RotationPredictionLoss",
    "physics": "PhysicsInformedLoss",
    "regression": "CharbonnierLoss ElasticNetLoss HuberLoss LogCoshLoss MAELoss MeanBiasErrorLoss MSELoss PoissonLoss "
                  "QuantileLoss RMSELoss ScaleInvariantDepthLoss",
    "sequence": "CTCLoss",
    "similarity": "ContrastiveLoss CosineSimilarityLoss NoiseContrastiveEstimationLoss TripletLoss",
})
