"""Optimizers as formulas on flat vectors, and learning-rate schedules."""

from ..names import guide as _guide
from .adaptive import AdaDelta, Adagrad, AdaMax, Lion, Nadam, RAdam, RMSprop, Rprop
from .base import Optimizer
from .coordinate import CoordinateDescent
from .first_order import ASGD, NAG, SGD, Adam, AdamW, AMSGrad, GradientDescent, MiniBatchGradientDescent, Momentum
from .groups import Group
from .layerwise import LAMB, LARS
from .least_squares import LevenbergMarquardt
from .modified import ModifiedGradientDescent
from .newton import NewtonMethod, TrustRegion
from .proximal import ADMM, FTRL, ProximalGradientDescent
from .quantized import Adam8bit
from .quasi_newton import BFGS, DFP, LBFGS, ConjugateGradient
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
    "ADMM", "ASGD", "BFGS", "DFP", "FTRL", "LAMB", "LARS", "LBFGS", "NAG", "SGD", "AMSGrad", "AdaDelta", "AdaMax",
    "Adagrad", "Adam", "Adam8bit", "AdamW", "AdaptiveFitness", "ConjugateGradient", "ConstantLR", "CoordinateDescent",
    "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "GradientDescent", "Group",
    "LambdaLR", "LevenbergMarquardt", "LinearWarmup", "Lion", "MiniBatchGradientDescent", "ModifiedGradientDescent",
    "Momentum", "MultiStepLR", "Nadam", "NewtonMethod", "NoamLR", "OneCycleLR", "Optimizer", "PolynomialLR",
    "ProximalGradientDescent", "RAdam", "RMSprop", "ReduceLROnPlateau", "Rprop", "Schedule", "SequentialLR", "StepLR",
    "TrustRegion",
]

_guide(__name__)
