"""Activations, shapes, what joins branches: each (layer with its fields, inputs, parameters by name) -> output or
outputs.
"""

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


def split(c: Any, x: Any, p: Any) -> Any:
    if c.stack:
        return x[0].unflatten(c.axis, (c.num_splits, -1))
    return torch.tensor_split(x[0], c.num_splits, c.axis) if c.num_splits else torch.split(x[0], c.sizes, c.axis)


def crop(c: Any, x: Any, p: Any) -> Any:
    (top, bottom), (left, right) = c.crop
    return F.pad(x[0], (-left, -right, -top, -bottom))


def pad(c: Any, x: Any, p: Any) -> Any:
    amounts = [n for pair in reversed(c.padding) for n in pair]
    return ACT[c.activation](F.pad(x[0], amounts, c.mode, *([c.value] if c.mode == "constant" else [])))


def masking(c: Any, x: Any, p: Any) -> Any:
    gone = x[0] == c.mask_value
    return x[0].masked_fill(gone if c.per_element else gone.all(-1, keepdim=True), 0)


def sequence_last(c: Any, x: Any, p: Any) -> Any:
    if len(x) == 1:
        return x[0][:, -1]
    return torch.stack([row[n - 1] if n else row[0] * 0 for row, n in zip(x[0], x[1].tolist(), strict=True)])


def time_distributed(c: Any, x: Any, p: Any) -> Any:
    map = F.linear if x[0].ndim == 3 else F.conv2d
    return ACT[c.activation](torch.stack([map(t, p["layer.weight"], p["layer.bias"]) for t in x[0].unbind(1)], 1))


def log_variance(c: Any, x: Any, p: Any) -> Any:
    return torch.log(torch.var(x[0], c.axis, unbiased=False, keepdim=c.keepdims) + c.eps)


def checkpoint(c: Any, x: Any, p: Any) -> Any:
    return F.linear(torch.tanh(F.linear(x[0], p["layer.0.weight"], p["layer.0.bias"])), p["layer.1.weight"],
                    p["layer.1.bias"])


RULES = {
    "Checkpoint": checkpoint,
    "PReLU": lambda c, x, p: F.prelu(x[0], p["slope"]),
    "Activation": activation,
    "Softmax": softmax,
    "Flatten": lambda c, x, p: torch.flatten(x[0], c.start_dim, c.end_dim),
    "Reshape": lambda c, x, p: x[0].reshape(len(x[0]), *c.shape),
    "Add": lambda c, x, p: ACT[c.activation](sum(x)),
    "Concatenate": lambda c, x, p: ACT[c.activation](torch.cat(x, c.axis)),
    "Input": lambda c, x, p: x[0] * 1,
    "Split": split,
    "Crop2d": crop,
    "Pad": pad,
    "Masking": masking,
    "SequenceLast": sequence_last,
    "TimeDistributed": time_distributed,
    "Mean": lambda c, x, p: torch.mean(x[0], c.axis, keepdim=c.keepdims),
    "LogVariance": log_variance,
    "Lambda": lambda c, x, p: torch.tanh(x[0]) if c.fn == "tanh" else torch.clamp(x[0], -0.5, 0.5),
    "Multiply": lambda c, x, p: ACT[c.activation](torch.prod(torch.stack(torch.broadcast_tensors(*x)), 0)),
}
