"""Dense, gated and residual blocks: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT, by


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


def glu(c: Any, x: Any, p: Any) -> Any:
    value, gate = F.linear(x[0], p["w_value"], p.get("b_value")), F.linear(x[0], p["w_gate"], p.get("b_gate"))
    return F.glu(torch.cat([value, gate], -1)) if c.gate_activation == "sigmoid" else value * ACT[c.gate_activation](
        gate)


def highway(c: Any, x: Any, p: Any) -> Any:
    h = ACT[c.activation](F.linear(x[0], p["w_h"], p["b_h"]))
    t = ACT[c.gate_activation](F.linear(x[0], p["w_t"], p["b_t"]))
    return t * h + (1 - t) * x[0]


def sparse_linear(c: Any, x: Any, p: Any) -> Any:
    ptr, column = (torch.tensor(v.numpy()).long() for v in (c.row_ptr, c.col_idx))
    row = torch.repeat_interleave(torch.arange(c.out_features), ptr.diff())
    dense = torch.zeros(c.out_features, c.in_features).double().index_put((row, column), p["values"])
    return ACT[c.activation](F.linear(x[0], dense, p.get("bias")))


def locally_connected(c: Any, x: Any, p: Any) -> Any:
    (ho, wo, o), columns = p["weight"].shape[:3], F.unfold(x[0], c.kernel_size, padding=c.padding, stride=c.stride)
    y = torch.einsum("nkl,lok->nol", columns, p["weight"].reshape(ho * wo, o, -1)).unflatten(-1, (ho, wo))
    return ACT[c.activation](y if not c.use_bias else y + (p["bias"][:, None, None] if c.tied_bias else p["bias"]))


@by("the paper's Möbius matrix-vector product, in torch")
def hyperbolic(c: Any, x: Any, p: Any) -> Any:
    k = -c.curvature

    def norm(v: Any) -> Any:
        return (v.square().sum(-1, keepdim=True) + 1e-40).sqrt()

    def inside(v: Any) -> Any:
        return torch.where(norm(v) * k**0.5 > 1 - c.eps, v / norm(v) * (1 - c.eps) / k**0.5, v)

    point = inside(x[0])
    wx = F.linear(point, p["weight"])
    y = torch.tanh(norm(wx) / norm(point) * torch.atanh(k**0.5 * norm(point))) * wx / norm(wx) / k**0.5
    if c.use_bias:
        b = torch.tanh(k**0.5 * norm(p["bias"])) * p["bias"] / norm(p["bias"]) / k**0.5
        yb, yy, bb = (y * b).sum(-1, keepdim=True), y.square().sum(-1, keepdim=True), b.square().sum(-1, keepdim=True)
        y = ((1 + 2 * k * yb + k * bb) * y + (1 - k * yy) * b) / (1 + 2 * k * yb + k * k * yy * bb)
    return inside(y)


def _conjugate(a: Any) -> Any:
    return torch.cat([a[..., :1], -a[..., 1:]], -1)


def _cayley_dickson(x: Any, y: Any) -> Any:
    """(a, b)(c, d) = (ac − d̄b, da + bc̄), down to real numbers."""
    n = x.shape[-1] // 2
    if n == 0:
        return x * y
    (a, b), (c, d) = x.split(n, -1), y.split(n, -1)
    return torch.cat([_cayley_dickson(a, c) - _cayley_dickson(_conjugate(d), b),
                      _cayley_dickson(d, a) + _cayley_dickson(b, _conjugate(c))], -1)


@by("the Cayley-Dickson construction, in torch")
def octonion(c: Any, x: Any, p: Any) -> Any:
    products = _cayley_dickson(p["weight"], x[0].unflatten(-1, (-1, 8)).unsqueeze(-3))
    y = products.sum(-2)
    return ACT[c.activation]((y + p["bias"] if c.use_bias else y).flatten(-2))


def expert(c: Any, x: Any, p: Any) -> Any:
    y = x[0]
    for k, layer in enumerate(c.layers):
        y = ACT[layer.activation](F.linear(y, p[f"layers.{k}.weight"], p[f"layers.{k}.bias"]))
    return ACT[c.activation](y)


@by("a loop over tokens, in torch")
def mixture(c: Any, x: Any, p: Any) -> Any:
    if c.capacity_factor:
        return _routed(c, x, p)
    rows = []
    for token in x[0].flatten(0, -2):
        score = F.linear(token, p["gate.weight"] if "gate.weight" in p else p["router.weight"], p.get("router.bias"))
        kept = torch.topk(score, c.top_k or len(score)).indices
        share = F.softmax(score[kept], 0)
        outs = [ACT[c.experts[e].activation](F.linear(token, p[f"experts.{e}.weight"], p[f"experts.{e}.bias"]))
                for e in kept.tolist()]
        rows.append(sum(s * y for s, y in zip(share, outs, strict=True)))
    return ACT[c.activation](torch.stack(rows).reshape(*x[0].shape[:-1], -1))


def _routed(c: Any, x: Any, p: Any) -> Any:
    """Choice after choice, token after token takes a place while there is one."""
    tokens, count = x[0].flatten(0, -2), len(c.experts)
    room = min(len(tokens), math.ceil(c.capacity_factor * c.top_k * len(tokens) / count))
    scores = F.linear(tokens, p["gate.weight"])
    kept = torch.topk(scores, c.top_k)
    taken, out = [0] * count, [torch.zeros(p["experts.0.weight"].shape[0]).double() for _ in tokens]
    for k in range(c.top_k):
        for m, token in enumerate(tokens):
            e = int(kept.indices[m, k])
            if taken[e] < room:
                y = F.linear(token, p[f"experts.{e}.weight"], p[f"experts.{e}.bias"])
                out[m] = out[m] + F.softmax(kept.values[m], 0)[k] * ACT[c.experts[e].activation](y)
            taken[e] += 1
    assert max(taken) > room, "the example drops nothing"
    return ACT[c.activation](torch.stack(out).reshape(*x[0].shape[:-1], -1))


RULES = {
    "Dense": dense,
    "FeedForward": feed_forward,
    "SwiGLU": swiglu,
    "GeGLU": swiglu,
    "GatedLinearUnit": glu,
    "ReGLU": glu,
    "BilinearGLU": glu,
    "Highway": highway,
    "SparseLinear": sparse_linear,
    "LocallyConnected2d": locally_connected,
    "HyperbolicLinear": hyperbolic,
    "OctonionLinear": octonion,
    "Expert": expert,
    "MixtureOfExperts": mixture,
    "Residual": residual,
}
