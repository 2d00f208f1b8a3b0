"""Optimizers as formulas on flat vectors, and learning-rate schedules; each is imported when somebody asks for it."""

from typing import TYPE_CHECKING

from ..names import offer as _offer

if TYPE_CHECKING:  # for editors and mypy; at run time the table below
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
    from .rate import Schedule
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
        SequentialLR,
        StepLR,
    )

__all__ = _offer(__name__, {
    "adaptive": "AdaDelta Adagrad AdaMax Lion Nadam RAdam RMSprop Rprop",
    "base": "Optimizer",
    "coordinate": "CoordinateDescent",
    "first_order": "ASGD NAG SGD Adam AdamW AMSGrad GradientDescent MiniBatchGradientDescent Momentum",
    "groups": "Group",
    "layerwise": "LAMB LARS",
    "least_squares": "LevenbergMarquardt",
    "modified": "ModifiedGradientDescent",
    "newton": "NewtonMethod TrustRegion",
    "proximal": "ADMM FTRL ProximalGradientDescent",
    "quantized": "Adam8bit",
    "quasi_newton": "BFGS DFP LBFGS ConjugateGradient",
    "rate": "Schedule",
    "schedules": "AdaptiveFitness ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR "
                 "LambdaLR LinearWarmup MultiStepLR NoamLR OneCycleLR PolynomialLR ReduceLROnPlateau "
                 "SequentialLR StepLR",
})
