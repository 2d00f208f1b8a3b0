"""Layers over meshes: each (layer with its fields, inputs, parameters by name) -> output."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT, by


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


@by("numpy, a transcription of the definition")
def mesh_pool(c: Any, x: Any, p: Any) -> Any:
    x, table, corners = x
    if c.mode == "topk":
        score = x @ p["weight"]
        left = torch.topk(score, min(c.target_edges, len(x))).indices.sort().values
        number = torch.full((len(x) + 1,), -1).index_copy(0, left, torch.arange(len(left)))
        y = x[left] * torch.tanh(score[left] / p["weight"].norm())[:, None]
        return y, number[table[left]], corners[left]
    return _collapsed(x, table.tolist(), corners.tolist(), c.target_edges)


def _collapsed(x: Any, table: Any, corners: Any, target: int) -> Any:
    groups, alive = torch.eye(len(x)).double(), dict.fromkeys(range(len(x)))
    for e in torch.argsort(x.detach().square().sum(1), stable=True).tolist():
        a, b, c, d = table[e]
        if len(alive) <= target or e not in alive or min(table[e]) < 0 or len({a, b, c, d}) < 4:
            continue
        around = [{w for f in alive if end in corners[f] for w in corners[f]} - set(corners[e]) for end in corners[e]]
        if len(around[0] & around[1]) != 2:
            continue
        for keep, drop in ((a, b), (c, d)):
            kept, gone = (table[f][2:] if e in table[f][:2] else table[f][:2] for f in (keep, drop))
            table[keep] = [*kept, *gone]
            for q in gone:
                table[q] = [keep if f == drop else f for f in table[q]]
            groups[keep] += groups[e] + groups[drop]
            del alive[drop]
        del alive[e]
        u, v = corners[e]
        corners = [[u if w == v else w for w in pair] for pair in corners]
    left = list(alive)
    y = groups[left] @ x / groups[left].sum(1, keepdim=True)
    return (y, torch.tensor([[left.index(f) if f >= 0 else -1 for f in table[e]] for e in left]),
            torch.tensor([corners[e] for e in left]))


RULES = {"MeshPool": mesh_pool, "SpiralConv": spiral, "MeshEdgeConv": mesh_edge, "DiffusionConv": diffusion}
