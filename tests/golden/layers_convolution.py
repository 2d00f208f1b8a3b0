"""Convolutions: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT, by, vision


def conv(c: Any, x: Any, p: Any) -> Any:
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[c.axes]
    return ACT[c.activation](function(x[0], p["weight"], p.get("bias"), c.stride, c.padding, c.dilation, c.groups))


def conv_transpose(c: Any, x: Any, p: Any) -> Any:
    return ACT[c.activation](F.conv_transpose2d(x[0], p["weight"], p.get("bias"), c.stride, c.padding, c.output_padding,
                                                c.groups, c.dilation))


def _norm(c: Any, y: Any, p: Any, name: str) -> Any:
    return F.batch_norm(y, None, None, p[f"{name}.weight"], p[f"{name}.bias"], True) if f"{name}.weight" in p else y


def separable(c: Any, x: Any, p: Any) -> Any:
    y = F.conv2d(x[0], p["depthwise"], None, c.stride, c.padding, c.dilation, c.in_channels)
    y = ACT[getattr(c, "mid_activation", None)](_norm(c, y, p, "norm1"))
    return ACT[c.activation](_norm(c, F.conv2d(y, p["pointwise"], p.get("bias")), p, "norm2"))


@by("torchvision")
def deform(c: Any, x: Any, p: Any) -> Any:
    how = (c.stride, c.padding, c.dilation)
    offset = F.conv2d(x[0], p["offset.weight"], p["offset.bias"], *how)
    mask = torch.sigmoid(F.conv2d(x[0], p["mask.weight"], p["mask.bias"], *how)) if c.modulated else None
    return vision("ops").deform_conv2d(x[0], offset, p["weight"], p.get("bias"), *how, mask)


def conv_lstm(c: Any, x: Any, p: Any) -> Any:
    n, t, _, *_ = x[0].shape
    xs = [F.conv2d(x[0][:, k], p["w_x"], p.get("bias"), padding=c.padding) for k in range(t)]
    h, cell = x[1:] if len(x) > 1 else [torch.zeros(n, c.hidden_channels, *xs[0].shape[2:]).double()] * 2
    ys = []
    for xp in xs:
        i, f, g, o = (xp + F.conv2d(h, p["w_h"], padding="same")).chunk(4, 1)
        if c.peephole:
            i, f = i + p["w_ci"] * cell, f + p["w_cf"] * cell
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o + p["w_co"] * cell if c.peephole else o) * torch.tanh(cell)
        ys.append(h)
    return torch.stack(ys, 1) if c.return_sequences else h


RULES = {
    "Conv1d": conv,
    "Conv2d": conv,
    "DilatedConv2d": conv,
    "Conv3d": conv,
    "ConvTranspose2d": conv_transpose,
    "DepthwiseSeparableConv2d": separable,
    "SeparableConv2d": separable,
    "DeformConv2d": deform,
    "ConvLSTM2d": conv_lstm,
}
