"""Explain a model: which inputs an output depends on, what is inside, what it is wrong about. Functions that give
arrays; `clnet.interpret.plots` draws them.
"""

from ..names import guide as _guide
from . import plots
from .attribution import grad_cam, integrated_gradients, saliency, smooth_grad
from .inside import (
    Components,
    Wrong,
    activations,
    dead_units,
    embeddings,
    filters,
    most_wrong,
    parameter_gradients,
    pca,
)

__all__ = ["Components", "Wrong", "activations", "dead_units", "embeddings", "filters", "grad_cam",
           "integrated_gradients", "most_wrong", "parameter_gradients", "pca", "plots", "saliency", "smooth_grad"]

_guide(__name__)
