"""Optimizers as formulas on flat vectors, and learning-rate schedules."""

from .base import Optimizer
from .first_order import NAG, SGD, Adam, AdamW, AMSGrad, Momentum, RMSprop
from .schedules import Constant, Cosine, Schedule, StepDecay, WarmUp

__all__ = ["NAG", "SGD", "AMSGrad", "Adam", "AdamW", "Constant", "Cosine", "Momentum", "Optimizer", "RMSprop", "Schedule", "StepDecay", "WarmUp"]
