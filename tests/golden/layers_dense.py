"""Dense, gated and residual blocks: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from rules import ACT


def dense(c: Any, x: Any, p: Any) -> Any:
    return ACT[c.activation](F.linear(x[0], p["weight"], p.get("bias")))


def feed_forward(c: Any, x: Any, p: Any) -> Any:
    return F.linear(ACT[c.activation](F.linear(x[0], p["w1"], p.get("b1"))), p["w2"], p.get("b2"))


def swiglu(c: Any, x: Any, p: Any) -> Any:
    gate = ACT[c.gate_activation](F.linear(x[0], p["w_gate"], p.get("b_gate")))
    return F.linear(gate * F.linear(x[0], p["w_up"], p.get("b_up")), p["w_down"], p.get("b_down"))


def residual(c: Any, x: Any, p: Any) -> Any:
    layers = c.layer if isinstance(c.layer, tuple) else (c.layer,)
    y = x[0]
    for k, layer in enumerate(layers):
        prefix = f"layer.{k}." if len(layers) > 1 else "layer."
        y = F.linear(y, p[prefix + "weight"], p[prefix + "bias"]) if hasattr(layer, "weight") else ACT[layer.name](y)
    return ACT[c.activation](y + (x[0] if c.projection is None else F.linear(x[0], p["projection.weight"])))


RULES = {
    "Dense": dense,
    "FeedForward": feed_forward,
    "SwiGLU": swiglu,
    "Residual": residual,
}
