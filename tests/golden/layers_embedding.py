"""Embeddings and positions: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F


def embedding(c: Any, x: Any, p: Any) -> Any:
    return F.embedding(x[0], p["weight"], c.padding_idx)


def positional(c: Any, x: Any, p: Any) -> Any:
    t, i = torch.arange(x[0].shape[-2]).double()[:, None], torch.arange(c.d_model)[None]
    angle = t / 10000 ** ((i - i % 2) / c.d_model)
    pe = torch.where(i % 2 == 0, torch.sin(angle), torch.cos(angle)).float().double()  # the table is kept in float32
    return x[0] + (p["pe"][: len(t)] if c.learned else pe)


def time(c: Any, x: Any, p: Any) -> Any:
    half = c.embedding_dim // 2
    # the table is kept in float32
    w = torch.exp(-math.log(c.max_period) * torch.arange(half).double() / half).float().double()
    angle = x[0].reshape(-1, 1) * w
    e = F.pad(torch.cat([torch.sin(angle), torch.cos(angle)], 1), (0, c.embedding_dim % 2))
    return F.linear(F.silu(F.linear(e, p["w1"], p["b1"])), p["w2"], p["b2"])


def patches(c: Any, x: Any, p: Any) -> Any:
    y = F.conv2d(x[0], p["weight"], p.get("bias"), stride=c.patch_size).flatten(2).transpose(1, 2)
    y = torch.cat([p["cls"].expand(len(y), 1, -1), y], 1) if c.cls_token else y
    return y + p["pos"] if c.pos_embed else y


RULES = {
    "Embedding": embedding,
    "PositionalEncoding": positional,
    "TimeEmbedding": time,
    "PatchEmbedding": patches,
}
