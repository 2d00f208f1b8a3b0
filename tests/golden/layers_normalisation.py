"""Normalisation: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def batch_norm(c: Any, x: Any, p: Any) -> Any:
    return F.batch_norm(x[0], None, None, p.get("weight"), p.get("bias"), True, c.momentum, c.eps)


def layer_norm(c: Any, x: Any, p: Any) -> Any:
    shape = c.normalized_shape if isinstance(c.normalized_shape, tuple) else (c.normalized_shape,)
    return F.layer_norm(x[0], shape, p.get("weight"), p.get("bias"), c.eps)


def rms_norm(c: Any, x: Any, p: Any) -> Any:
    shape = c.normalized_shape if isinstance(c.normalized_shape, tuple) else (c.normalized_shape,)
    return F.rms_norm(x[0], shape, p.get("weight"), c.eps)


def group_norm(c: Any, x: Any, p: Any) -> Any:
    return F.group_norm(x[0], c.num_groups, p.get("weight"), p.get("bias"), c.eps)


def instance_norm(c: Any, x: Any, p: Any) -> Any:
    return F.instance_norm(x[0], None, None, p.get("weight"), p.get("bias"), eps=c.eps)


def spectrally_normed(c: Any, weight: Any) -> Any:
    """weight / σ as torch's parametrization has it, from the layer's u and v and one training step of the iteration."""
    module = nn.Module()
    module.weight = nn.Parameter(weight.detach())
    module = nn.utils.parametrizations.spectral_norm(module, "weight", c.n_power_iterations, c.eps, c.dim)
    part = module.parametrizations.weight[0].double()
    part._u, part._v = (torch.tensor(t.numpy()).double() for t in (c.u, c.v))
    return part(weight)


def spectral_norm(c: Any, x: Any, p: Any) -> Any:
    w, b = spectrally_normed(c, p["layer.weight"]), p.get("layer.bias")
    return F.linear(x[0], w, b) if w.ndim == 2 else F.conv_transpose2d(x[0], w, b)


RULES = {
    "BatchNorm": batch_norm,
    "LayerNorm": layer_norm,
    "RMSNorm": rms_norm,
    "GroupNorm": group_norm,
    "InstanceNorm": instance_norm,
    "SpectralNorm": spectral_norm,
}
