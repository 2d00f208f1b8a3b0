"""Normalisation: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F


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


RULES = {
    "BatchNorm": batch_norm,
    "LayerNorm": layer_norm,
    "RMSNorm": rms_norm,
    "GroupNorm": group_norm,
    "InstanceNorm": instance_norm,
}
