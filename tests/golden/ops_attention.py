"""Attention's ops with their flat results: PyTorch's scaled dot-product attention, its log-sum-exp, and its walk back.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rules import More
from torch.nn.attention import SDPBackend, sdpa_kernel


def _scores(q: Any, k: Any, mask: Any, causal: bool, scale: float) -> Any:
    """The scores with everything that forbids at −∞: heads (N, H, T, S)."""
    s = scale * q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else s + mask
    allowed = torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[-1] - s.shape[-2])
    return s.masked_fill(~allowed, -torch.inf) if causal else s


def _flat(*parts: Any) -> Any:
    return torch.cat([p.transpose(1, 2).reshape(-1) for p in parts])


def masked_attention(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float) -> Any:
    """(y, lse): y is PyTorch's attention where every row may attend somewhere."""
    s = _scores(q, k, mask, causal, scale)
    lse, wide = torch.logsumexp(s, -1), v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    y = torch.where(torch.isneginf(lse)[..., None], 0.0, torch.nan_to_num(torch.softmax(s, -1)) @ wide)
    with sdpa_kernel(SDPBackend.MATH):
        theirs = F.scaled_dot_product_attention(q, k, v,
                                                torch.where(torch.isneginf(s), -torch.inf, s - s + _bias(s, mask)),
                                                scale=scale, enable_gqa=True)
    assert torch.allclose(y, torch.nan_to_num(theirs), rtol=0, atol=1e-12)
    return _flat(y, lse[..., None])


def _bias(s: Any, mask: Any) -> Any:
    return torch.zeros_like(s) if mask is None or mask.dtype == torch.bool else mask.expand(s.shape)


def attention(q: Any, k: Any, v: Any, causal: bool, scale: float) -> Any:
    return masked_attention(q, k, v, None, causal, scale)


def masked_attention_gradient(g: Any, lse: Any, delta: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool,
                              scale: float) -> Any:
    """By definition, for whatever lse (N, T, H) and δ are given; `walked_back` holds it to PyTorch's own walk back."""
    group = q.shape[1] // k.shape[1]
    p = torch.exp(_scores(q, k, mask, causal, scale) - lse.mT[..., None])
    ds = p * (g @ v.repeat_interleave(group, 1).mT - delta.mT[..., None])

    def shared(x: Any) -> Any:
        return x.unflatten(1, (k.shape[1], group)).sum(2)

    return _flat(scale * ds @ k.repeat_interleave(group, 1), shared(scale * ds.mT @ q), shared(p.mT @ g))


def attention_gradient(g: Any, lse: Any, delta: Any, q: Any, k: Any, v: Any, causal: bool, scale: float) -> Any:
    return masked_attention_gradient(g, lse, delta, q, k, v, None, causal, scale)


def walked_back(causal: bool, masked: bool) -> More:
    """A call with the lse and δ of a forward pass, where PyTorch's differentiation of its own attention gives the same.
    """
    rng = np.random.default_rng(7)
    q, k, v = (torch.from_numpy(rng.uniform(-1, 1, s).astype(np.float32)).double().requires_grad_()
               for s in ((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8)))
    g = torch.from_numpy(rng.uniform(-1, 1, (2, 4, 3, 8)).astype(np.float32)).double()
    mask = torch.from_numpy(rng.uniform(-1, 1, (2, 4, 3, 5)).astype(np.float32)).double() if masked else None
    scale = 1 / math.sqrt(8)
    with sdpa_kernel(SDPBackend.MATH):
        bias = torch.zeros(3, 5).double().masked_fill(~torch.ones(3, 5, dtype=torch.bool).tril(2),
                                                      -torch.inf) if causal else torch.zeros(3, 5).double()
        y = F.scaled_dot_product_attention(q, k, v, bias if mask is None else bias + mask, scale=scale, enable_gqa=True)
    slopes = torch.autograd.grad(y, (q, k, v), g)
    lse, delta = torch.logsumexp(_scores(q, k, mask, causal, scale), -1).mT, (g * y).sum(-1).mT
    given = [g, lse, delta, q, k, v, *([mask] if masked else [])]
    own = masked_attention_gradient(g, lse, delta, q, k, v, mask, causal, scale)
    assert torch.allclose(own, _flat(*slopes), rtol=0, atol=1e-13)
    return More([t.detach().numpy().astype(np.float32) for t in given], dict(causal=causal, scale=scale), slopes=False)


# --- sequences one after another: each by itself
def _sequences(offsets: Any, key_offsets: Any) -> list[tuple[slice, slice]]:
    ends = [[slice(int(a), int(b)) for a, b in itertools.pairwise(o)] for o in (offsets, key_offsets)]
    return list(zip(*ends, strict=True))


def _heads(x: Any, rows: slice) -> Any:
    return x[rows].transpose(0, 1)[None]


def _packed(parts: list[tuple[Any, ...]]) -> Any:
    """Flat results of sequences, (1, H, T, features) each, as one flat result of all."""
    return torch.cat([torch.cat([x[0].transpose(0, 1) for x in part]).reshape(-1)
                      for part in zip(*parts, strict=True)])


def packed_attention(q: Any, k: Any, v: Any, offsets: Any, key_offsets: Any, causal: bool, scale: float) -> Any:
    """PyTorch's attention and log-sum-exp of one sequence after the other."""
    found = []
    for own, walked in _sequences(offsets, key_offsets):
        heads = _heads(q, own), _heads(k, walked), _heads(v, walked)
        s = _scores(*heads[:2], None, causal, scale)
        none = torch.isneginf(s).all(-1) if s.shape[-1] else torch.ones(s.shape[:-1], dtype=torch.bool)
        with sdpa_kernel(SDPBackend.MATH):
            y = F.scaled_dot_product_attention(*heads, torch.where(torch.isneginf(s), -torch.inf, 0.0), scale=scale,
                                               enable_gqa=True)
        lse = torch.where(none, 0.0, torch.logsumexp(s, -1))
        found.append((torch.where(none[..., None], 0.0, y), lse[..., None]))
    return _packed(found)


def packed_attention_gradient(g: Any, lse: Any, delta: Any, q: Any, k: Any, v: Any, offsets: Any, key_offsets: Any,
                              causal: bool, scale: float) -> Any:
    """Sequence by sequence what `attention_gradient` gives, which `walked_back` holds to PyTorch's own walk back."""
    found = []
    for own, walked in _sequences(offsets, key_offsets):
        given = _heads(g, own), lse[own][None], delta[own][None], _heads(q, own), _heads(k, walked), _heads(v, walked)
        flat, at, parts = attention_gradient(*given, causal, scale), 0, []
        for x in given[3:]:
            parts.append(flat[at : at + x.numel()].reshape(x.transpose(1, 2).shape).transpose(1, 2))
            at += x.numel()
        found.append(tuple(parts))
    return _packed(found)


RULES = {"packed_attention": packed_attention, "packed_attention_gradient": packed_attention_gradient,
         "attention": attention, "masked_attention": masked_attention, "attention_gradient": attention_gradient,
         "masked_attention_gradient": masked_attention_gradient}
MORE = {"attention_gradient": [walked_back(False, False), walked_back(True, False)],
        "masked_attention_gradient": [walked_back(True, True)]}
