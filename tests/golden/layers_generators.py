"""Generators, discriminators, flow: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from layers_blocks import rrdb
from layers_normalisation import spectrally_normed


def _conv(x: Any, p: Any, name: str, **how: Any) -> Any:
    w = p[f"{name}.weight"]
    return F.conv2d(x, w, p.get(f"{name}.bias"), padding=w.shape[-1] // 2, **how)


def rrdb_net(c: Any, x: Any, p: Any) -> Any:
    f = y = _conv(x[0], p, "conv_first")
    for k, block in enumerate(c.blocks):
        y = rrdb(block, [y], p, f"blocks.{k}.")
    f = f + _conv(y, p, "conv_body")
    for k in range(len(c.conv_up)):
        if c.upsample == "nearest":
            f = _conv(F.interpolate(f, scale_factor=2, mode="nearest"), p, f"conv_up.{k}")
        else:
            f = F.pixel_shuffle(_conv(f, p, f"conv_up.{k}"), 2)
        f = F.leaky_relu(f, 0.2)
    return _conv(F.leaky_relu(_conv(f, p, "conv_hr"), 0.2), p, "conv_last")


def discriminator(c: Any, x: Any, p: Any) -> Any:
    def conv(y: Any, name: str, k: int, stride: int = 1) -> Any:
        layer = getattr(c, name)[k]
        if c.spectral_norm:
            w = spectrally_normed(layer, p[f"{name}.{k}.layer.weight"])
        else:
            w = p[f"{name}.{k}.weight"]
        return F.leaky_relu(F.conv2d(y, w, None, stride, 1), 0.2)

    y, passed = F.leaky_relu(_conv(x[0], p, "conv_first"), 0.2), []
    for k in range(c.num_blocks):
        passed.append(y)
        y = conv(y, "down", k, 2)
    for k in reversed(range(c.num_blocks)):
        y = conv(F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False), "up", k)
        y = y + passed[k] if c.skip else y
    for k in range(2):
        y = conv(y, "conv_body", k)
    return _conv(y, p, "conv_last")


def _warp(x: Any, flow: Any) -> Any:
    h, w = x.shape[2:]
    down, across = torch.meshgrid(torch.arange(h).double(), torch.arange(w).double(), indexing="ij")
    grid = torch.stack([2 * (across + flow[:, 0]) / (w - 1) - 1, 2 * (down + flow[:, 1]) / (h - 1) - 1], -1)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True)


def spynet(c: Any, x: Any, p: Any) -> Any:
    a, b = x if len(x) == 2 else x[0].chunk(2, 1)
    size, step = a.shape[2:], 2 ** (c.num_levels - 1)
    whole = [-(-n // step) * step for n in size]
    frames = [F.interpolate(t, whole, mode="bilinear", align_corners=False) for t in (a, b)]
    levels = [frames]
    for _ in range(c.num_levels - 1):
        levels.insert(0, [F.avg_pool2d(t, 2) for t in levels[0]])
    v = torch.zeros(len(a), 2, *levels[0][0].shape[2:]).double()
    for k, (a, b) in enumerate(levels):
        if k:
            v = 2 * F.interpolate(v, a.shape[2:], mode="bilinear", align_corners=True)
        y = torch.cat([a, _warp(b, v), v], 1)
        for j in range(len(c.channels) + 1):
            y = _conv(F.relu(y) if j else y, p, f"nets.{k}.convs.{j}")
        v = v + y
    v = F.interpolate(v, size, mode="bilinear", align_corners=False)
    return v * torch.tensor([size[1] / whole[1], size[0] / whole[0]]).double()[:, None, None]


RULES = {
    "RRDBNet": rrdb_net,
    "UNetDiscriminator": discriminator,
    "SpyNet": spynet,
}
