"""Optimizers as formulas on flat vectors, and learning-rate schedules."""

from .base import Optimizer
from .first_order import SGD, Adam, AdamW, RMSprop
from .schedules import Constant, Cosine, Schedule, StepDecay, WarmUp

__all__ = ["SGD", "Adam", "AdamW", "Constant", "Cosine", "Optimizer", "RMSprop", "Schedule", "StepDecay", "WarmUp"]
