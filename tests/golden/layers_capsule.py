"""Capsules, the layers around an autoencoder's code, images that are warped."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from layers_random import draws
from rules import ACT


def _squash(s: Any) -> Any:
    square = s.square().sum(-1, keepdim=True)
    return square / (1 + square) * s / (square + 1e-8).sqrt()


def primary(c: Any, x: Any, p: Any) -> Any:
    y = F.conv2d(x[0], p["conv.weight"], p["conv.bias"], c.stride, c.padding)
    return _squash(y.unflatten(1, (c.num_maps, c.capsule_dim)).movedim(2, -1).flatten(1, 3))


def capsule(c: Any, x: Any, p: Any) -> Any:
    """Sample by sample and capsule by capsule, in the paper's words."""
    bias = p.get("bias", torch.zeros(c.num_capsules, c.capsule_dim).double())
    out = []
    for sample in x[0]:
        u = torch.stack([torch.stack([sample[i] @ p["weight"][i, j] for j in range(c.num_capsules)])
                         for i in range(c.in_capsules)])
        logits = torch.zeros(c.in_capsules, c.num_capsules).double()
        for _ in range(c.routing_iterations):
            share = torch.softmax(logits, 1)
            v = torch.stack([_squash((share[:, j, None] * u[:, j]).sum(0) + bias[j]) for j in range(c.num_capsules)])
            logits = logits + (u * v).sum(-1)
            logits = logits.detach() if c.detach_routing else logits
        out.append(v)
    return torch.stack(out)


def reparameterize(c: Any, x: Any, p: Any) -> Any:
    mean, log_variance = x[0].chunk(2, -1)
    return mean + torch.exp(log_variance / 2) * torch.from_numpy(draws(c).normal(mean.shape))


def reconstruction(c: Any, x: Any, p: Any) -> Any:
    y = x[0]
    for k, act in enumerate((c.hidden_activation, c.hidden_activation, c.output_activation)):
        y = ACT[act](F.linear(y, p[f"layers.{k}.weight"], p[f"layers.{k}.bias"]))
    return y


def spatial(c: Any, x: Any, p: Any) -> Any:
    x = x[0]
    theta = F.linear(torch.tanh(F.linear(x.flatten(1), p["w1"], p["b1"])), p["w2"], p["b2"]).unflatten(1, (2, 3))
    size = (*x.shape[:2], *(c.output_size or x.shape[2:]))
    return F.grid_sample(x, F.affine_grid(theta, size, c.align_corners), align_corners=c.align_corners)


RULES = {"PrimaryCapsule": primary, "Capsule": capsule, "DigitCapsule": capsule, "Reparameterize": reparameterize,
         "Reconstruction": reconstruction, "SpatialTransformer": spatial}
