"""Convolutions: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from rules import ACT


def conv(c: Any, x: Any, p: Any) -> Any:
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[c.axes]
    return ACT[c.activation](function(x[0], p["weight"], p.get("bias"), c.stride, c.padding, c.dilation, c.groups))


def conv_transpose(c: Any, x: Any, p: Any) -> Any:
    return ACT[c.activation](F.conv_transpose2d(x[0], p["weight"], p.get("bias"), c.stride, c.padding, c.output_padding, c.groups, c.dilation))


RULES = {
    "Conv1d": conv,
    "Conv2d": conv,
    "DilatedConv2d": conv,
    "Conv3d": conv,
    "ConvTranspose2d": conv_transpose,
}
