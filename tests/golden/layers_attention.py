"""Attention and transformer blocks: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT
from torch import nn
from torch.func import functional_call


def of_each(rule: Any) -> Any:
    """A rule for batches, and for packed x (S, …) beside its offsets: of one sequence after the other."""

    def of(c: Any, x: Any, p: Any) -> Any:
        if x[0].ndim > 2:
            return rule(c, x, p)
        ends = [int(o) for o in x[1]]
        return torch.cat([rule(c, [x[0][a:b][None]], p)[0] for a, b in itertools.pairwise(ends)])

    return of


@of_each
def attention(c: Any, x: Any, p: Any) -> Any:
    q, k, v = x[0], x[min(1, len(x) - 1)], x[min(2, len(x) - 1)]
    kv = getattr(c, "num_kv_heads", None) or c.num_heads

    def heads(t: Any, which: str, count: int) -> Any:
        return F.linear(t, p[f"w_{which}"], p.get(f"b_{which}")).unflatten(-1, (count, -1)).transpose(1, 2)

    y = F.scaled_dot_product_attention(heads(q, "q", c.num_heads), heads(k, "k", kv), heads(v, "v", kv),
                                       is_causal=c.causal, enable_gqa=True)
    y = F.linear(y.transpose(1, 2).flatten(2), p["w_o"], p.get("b_o"))
    if kv == c.num_heads and len(x) == 1:
        module = nn.MultiheadAttention(c.embed_dim, c.num_heads, bias=c.use_bias, batch_first=True).double()
        assert torch.allclose(y, functional_call(module, _attention_weights(p), (x[0], x[0], x[0]))[0], atol=1e-12)
    return y


def _attention_weights(p: Any, prefix: str = "") -> dict[str, Any]:
    w = {f"{prefix}in_proj_weight": torch.cat([p[f"{prefix}w_{n}"] for n in "qkv"]),
         f"{prefix}out_proj.weight": p[f"{prefix}w_o"]}
    if f"{prefix}b_q" in p:
        w |= {f"{prefix}in_proj_bias": torch.cat([p[f"{prefix}b_{n}"] for n in "qkv"]),
              f"{prefix}out_proj.bias": p[f"{prefix}b_o"]}
    return w


@of_each
def encoder(c: Any, x: Any, p: Any) -> Any:
    if c.dropout:
        return None
    module = nn.TransformerEncoderLayer(c.d_model, c.num_heads, c.d_ff, 0.0, c.activation, c.eps, True, c.norm_first,
                                        c.use_bias).double()
    mask = nn.Transformer.generate_square_subsequent_mask(x[0].shape[1], dtype=torch.float64) if c.causal else None
    weights = {n: v for n, v in p.items() if not n.startswith("self_attn")} | _attention_weights(p, "self_attn.")
    return functional_call(module, weights, (x[0], mask))


def one_head(q: Any, context: Any, p: Any, mask: Any = None, causal: bool = False, prefix: str = "") -> Any:
    q, k, v = (F.linear(t, p[f"{prefix}w_{n}"], p.get(f"{prefix}b_{n}")) for n,
               t in (("q", q), ("k", context), ("v", context)))
    return F.linear(F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal), p[f"{prefix}w_o"],
                    p.get(f"{prefix}b_o"))


def single(c: Any, x: Any, p: Any) -> Any:
    return one_head(x[0], x[min(1, len(x) - 1)], p, x[2] if len(x) > 2 else None, c.causal)


def cross(c: Any, x: Any, p: Any) -> Any:
    q, context = x[0].flatten(2).transpose(1, 2) if x[0].ndim == 4 else x[0], x[1].expand(len(x[0]), -1, -1)
    q, k, v = (F.linear(t, p[f"w_{n}"], p.get(f"b_{n}")).unflatten(-1, (c.num_heads, -1)).transpose(1, 2)
               for n, t in (("q", q), ("k", context), ("v", context)))
    y = F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), p["w_o"], p.get("b_o"))
    return y.transpose(1, 2).reshape(x[0].shape) if x[0].ndim == 4 else y


def decoder(c: Any, x: Any, p: Any) -> Any:
    module = nn.TransformerDecoderLayer(c.d_model, c.num_heads, c.d_ff, 0.0, c.activation, c.eps, True, c.norm_first,
                                        c.use_bias).double()
    mask = nn.Transformer.generate_square_subsequent_mask(x[0].shape[1], dtype=torch.float64) if c.causal else None
    weights = {n: v for n, v in p.items() if "attn" not in n} | _attention_weights(
        p, "self_attn.") | _attention_weights(p, "multihead_attn.")
    return functional_call(module, weights, (x[0], x[1], mask))


def decoder_block(c: Any, x: Any, p: Any) -> Any:
    def norm(h: Any, k: int) -> Any:
        return F.layer_norm(h, h.shape[-1:], p[f"norm{k}.weight"], p[f"norm{k}.bias"])

    h = norm(x[0] + one_head(x[0], x[0], p, None, c.causal, "self_attn."), 1)
    h = norm(h + one_head(h, x[-1], p, None, False, "cross_attn."), 2)
    inner = ACT[c.activation](F.linear(h, p["ffn.w1"], p["ffn.b1"]))
    return norm(h + F.linear(inner, p["ffn.w2"], p["ffn.b2"]), 3)


RULES = {
    "MultiHeadAttention": attention,
    "SelfAttention": attention,
    "GroupedQueryAttention": attention,
    "Attention": single,
    "CrossAttention": cross,
    "TransformerDecoderBlock": decoder,
    "DecoderBlock": decoder_block,
    "TransformerEncoderBlock": encoder,
}
