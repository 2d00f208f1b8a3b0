"""Embeddings and positions: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

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


RULES = {
    "Embedding": embedding,
    "PositionalEncoding": positional,
}
