"""Memories that are read and written, by PyTorch's own attention and cosines, and levels one after another."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT


def _address(c: Any, x: Any, memory: Any, p: Any) -> Any:
    key = F.linear(x, p["w_key"], p.get("b_key"))
    if c.similarity == "dot":
        return torch.softmax(torch.einsum("nm,nsm->ns", key, memory), 1)
    beta = F.softplus(F.linear(x, p["w_beta"], p["b_beta"]))
    return torch.softmax(beta * F.cosine_similarity(key[:, None], memory, -1), 1)


def read(c: Any, x: Any, p: Any) -> Any:
    x, memory = x
    memory = memory.expand(len(x), *memory.shape[-2:])
    if c.similarity == "dot":
        key = F.linear(x, p["w_key"])[:, None]
        r = F.scaled_dot_product_attention(key, memory, memory, scale=1.0)[:, 0]
    else:
        r = torch.einsum("ns,nsm->nm", _address(c, x, memory, p), memory)
    return ACT[c.activation](F.linear(F.linear(r, p["w_value"]), p["w_out"], p["b_out"]))


def write(c: Any, x: Any, p: Any) -> Any:
    x, memory = x
    memory = memory.expand(len(x), *memory.shape[-2:])
    w = _address(c, x, memory, p)
    erase, add = torch.sigmoid(F.linear(x, p["w_erase"], p["b_erase"])), F.linear(x, p["w_add"], p["b_add"])
    return memory * (1 - torch.einsum("ns,nm->nsm", w, erase)) + torch.einsum("ns,nm->nsm", w, add)


def continuum(c: Any, x: Any, p: Any) -> Any:
    (y,) = x
    for k in range(c.num_levels):
        y = ACT[c.activation](F.linear(y, p[f"levels.{k}.weight"], p[f"levels.{k}.bias"]))
    return y


RULES = {"ContinuumMemory": continuum, "MemoryRead": read, "MemoryWrite": write}
