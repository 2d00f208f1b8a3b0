"""Pooling: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def max_pool(c: Any, x: Any, p: Any) -> Any:
    return (F.max_pool2d if c.axes == 2 else F.max_pool3d)(x[0], c.kernel_size, c.stride, c.padding, c.dilation,
                                                           c.ceil_mode)


def avg_pool(c: Any, x: Any, p: Any) -> Any:
    return F.avg_pool2d(x[0], c.kernel_size, c.stride, c.padding, c.ceil_mode, c.count_include_pad)


def pool(c: Any, x: Any, p: Any) -> Any:
    return (F.max_pool2d if c.mode == "max" else F.avg_pool2d)(x[0], c.kernel_size, c.stride, c.padding)


def global_pool(c: Any, x: Any, p: Any) -> Any:
    fold = {"avg": torch.mean, "max": torch.amax, "sum": torch.sum}[c.mode]
    return fold(x[0], tuple(range(2, x[0].ndim)), keepdim=c.keepdims)


RULES = {
    "MaxPool2d": max_pool,
    "MaxPool3d": max_pool,
    "AvgPool2d": avg_pool,
    "Pool2d": pool,
    "GlobalPool": global_pool,
    "AdaptiveAvgPool2d": lambda c, x, p: F.adaptive_avg_pool2d(x[0], c.output_size),
}
