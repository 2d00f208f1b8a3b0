"""Activations, shapes, what joins branches: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT


def activation(c: Any, x: Any, p: Any) -> Any:
    return ACT[c.name](x[0], **(c.params or {}))


def softmax(c: Any, x: Any, p: Any) -> Any:
    if c.variant == "grid":
        return F.softmax(x[0].unflatten(-1, (c.rows, c.cols)), -1).flatten(-2)
    if c.variant == "masked":
        return F.softmax(x[0].masked_fill(~torch.tensor(c.mask), -torch.inf), -1)
    return F.softmax(x[0] / c.temperature, -1)


RULES = {
    "Activation": activation,
    "Softmax": softmax,
    "Flatten": lambda c, x, p: torch.flatten(x[0], c.start_dim, c.end_dim),
    "Reshape": lambda c, x, p: x[0].reshape(len(x[0]), *c.shape),
    "Add": lambda c, x, p: ACT[c.activation](sum(x)),
    "Concatenate": lambda c, x, p: ACT[c.activation](torch.cat(x, c.axis)),
    "Multiply": lambda c, x, p: ACT[c.activation](torch.prod(torch.stack(torch.broadcast_tensors(*x)), 0)),
}
