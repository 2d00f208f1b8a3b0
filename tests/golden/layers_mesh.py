"""Layers over meshes: each (layer with its fields, inputs, parameters by name) -> output."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT


def _around(x: Any, table: Any) -> Any:
    """(…, V, L, C) of the neighbours; a row of zeros behind the others is what −1 counts from the end."""
    return torch.cat([x, torch.zeros_like(x[..., :1, :])], -2)[..., table, :]


def spiral(c: Any, x: Any, p: Any) -> Any:
    return ACT[c.activation](F.linear(_around(*x).flatten(-2), p["weight"], p.get("bias")))


def mesh_edge(c: Any, x: Any, p: Any) -> Any:
    """As a convolution with a kernel of 1 x 5 over the features of an edge, side by side."""
    a, b, d, e = _around(*x).unbind(-2)
    parts = [x[0], a + d, b + e, (a - d).abs(), (b - e).abs()] if c.symmetric else [x[0], a, b, d, e]
    image = torch.stack(parts, -1).movedim(-2, -3)  # (…, C, E, 5)
    weight = p["weight"].unflatten(1, (5, c.in_channels)).movedim(1, 2)[:, :, None]
    y = F.conv2d(image if image.ndim == 4 else image[None], weight, p.get("bias"))[..., 0].movedim(1, 2)
    return ACT[c.activation](y if image.ndim == 4 else y[0])


def diffusion(c: Any, x: Any, p: Any) -> Any:
    x, values, vectors, *mass = x
    spectrum = vectors.T @ (torch.diag(mass[0]) if mass else torch.eye(len(vectors)).double()) @ x
    spread = [vectors @ torch.diag(torch.exp(-values * t)) @ spectrum for t in p["log_t"].exp()]
    return ACT[c.activation](F.linear(torch.cat(spread, -1), p["weight"], p.get("bias")))


RULES = {"SpiralConv": spiral, "MeshEdgeConv": mesh_edge, "DiffusionConv": diffusion}
