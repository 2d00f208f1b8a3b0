"""Upsampling: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from rules import ACT


def upsample(c: Any, x: Any, p: Any) -> Any:
    size, corners = getattr(c, "size", None), getattr(c, "align_corners", False)
    how = {} if c.mode == "nearest" else {"align_corners": corners}
    return F.interpolate(x[0], size, None if size else c.scale_factor, c.mode, **how)


def subpixel(c: Any, x: Any, p: Any) -> Any:
    kernel = p["weight"].shape[2:]
    y = F.conv2d(x[0], p["weight"], p.get("bias"), padding=c.padding if c.padding is not None
                 else [k // 2 for k in kernel])
    return ACT[c.activation](F.pixel_shuffle(y, c.upscale_factor))


RULES = {
    "Upsample2d": upsample,
    "Upsample3d": upsample,
    "PixelShuffle": lambda c, x, p: F.pixel_shuffle(x[0], c.upscale_factor),
    "SubpixelConv2d": subpixel,
}
