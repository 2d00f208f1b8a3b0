"""Optimizers as formulas on flat vectors, and learning-rate schedules."""

from ..names import guide as _guide
from .adaptive import AdaDelta, Adagrad, AdaMax, Lion, Nadam, RAdam, RMSprop, Rprop
from .base import Optimizer
from .first_order import ASGD, NAG, SGD, Adam, AdamW, AMSGrad, GradientDescent, MiniBatchGradientDescent, Momentum
from .groups import Group
from .layerwise import LAMB, LARS
from .proximal import FTRL, ProximalGradientDescent
from .quantized import Adam8bit
from .schedules import (
    AdaptiveFitness,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearWarmup,
    MultiStepLR,
    NoamLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    Schedule,
    SequentialLR,
    StepLR,
)

__all__ = [
    "ASGD", "FTRL", "LAMB", "LARS", "NAG", "SGD", "AMSGrad", "AdaDelta", "AdaMax", "Adagrad", "Adam", "Adam8bit",
    "AdamW", "AdaptiveFitness", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "GradientDescent", "Group", "LambdaLR", "LinearWarmup", "Lion", "MiniBatchGradientDescent",
    "Momentum", "MultiStepLR", "Nadam", "NoamLR", "OneCycleLR", "Optimizer", "PolynomialLR", "ProximalGradientDescent",
    "RAdam", "RMSprop", "ReduceLROnPlateau", "Rprop", "Schedule", "SequentialLR", "StepLR",
]

_guide(__name__)
