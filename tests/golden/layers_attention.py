"""Attention and transformer blocks: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


def attention(c: Any, x: Any, p: Any) -> Any:
    q, k, v = x[0], x[min(1, len(x) - 1)], x[min(2, len(x) - 1)]
    kv = getattr(c, "num_kv_heads", None) or c.num_heads

    def heads(t: Any, which: str, count: int) -> Any:
        return F.linear(t, p[f"w_{which}"], p.get(f"b_{which}")).unflatten(-1, (count, -1)).transpose(1, 2)

    y = F.scaled_dot_product_attention(heads(q, "q", c.num_heads), heads(k, "k", kv), heads(v, "v", kv), is_causal=c.causal, enable_gqa=True)
    y = F.linear(y.transpose(1, 2).flatten(2), p["w_o"], p.get("b_o"))
    if kv == c.num_heads and len(x) == 1:
        module = nn.MultiheadAttention(c.embed_dim, c.num_heads, bias=c.bias, batch_first=True).double()
        assert torch.allclose(y, functional_call(module, _attention_weights(p), (x[0], x[0], x[0]))[0], atol=1e-12)
    return y


def _attention_weights(p: Any, prefix: str = "") -> dict[str, Any]:
    w = {f"{prefix}in_proj_weight": torch.cat([p[f"{prefix}w_{n}"] for n in "qkv"]), f"{prefix}out_proj.weight": p[f"{prefix}w_o"]}
    if f"{prefix}b_q" in p:
        w |= {f"{prefix}in_proj_bias": torch.cat([p[f"{prefix}b_{n}"] for n in "qkv"]), f"{prefix}out_proj.bias": p[f"{prefix}b_o"]}
    return w


def encoder(c: Any, x: Any, p: Any) -> Any:
    if c.dropout:
        return None
    module = nn.TransformerEncoderLayer(c.d_model, c.num_heads, c.d_ff, 0.0, c.activation, c.eps, True, c.norm_first, c.bias).double()
    mask = nn.Transformer.generate_square_subsequent_mask(x[0].shape[1], dtype=torch.float64) if c.causal else None
    weights = {n: v for n, v in p.items() if not n.startswith("self_attn")} | _attention_weights(p, "self_attn.")
    return functional_call(module, weights, (x[0], mask))


RULES = {
    "MultiHeadAttention": attention,
    "SelfAttention": attention,
    "TransformerEncoderBlock": encoder,
}
