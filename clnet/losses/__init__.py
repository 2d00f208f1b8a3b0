"""Losses: a formula per element or per sample, and a reduction."""

from .base import Loss
from .classification import BCELoss, CategoricalCrossEntropyLoss, CrossEntropyLoss
from .regression import HuberLoss, MAELoss, MSELoss

__all__ = ["BCELoss", "CategoricalCrossEntropyLoss", "CrossEntropyLoss", "HuberLoss", "Loss", "MAELoss", "MSELoss"]
