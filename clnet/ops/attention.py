"""Scaled dot-product attention over (batch, heads, time, features), with grouped queries, masks and the causal rule."""

from __future__ import annotations

import math
from typing import Any

from ..errors import ShapeError
from ..tensor import Tensor, as_tensor
from .matmul import matmul
from .normalize import _softmax, masked
from .pointwise import arange, bit_and
from .view import expand, reshape, transpose


def attention(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float | None = None) -> Tensor:
    """y = softmax(s · q kᵀ + mask) v per head, s = 1/√d unless given.

    q (N, H, T, d), k (N, Hk, S, d), v (N, Hk, S, e) -> (N, H, T, e); query head h reads key head h // (H / Hk).
    mask    bool (True: may attend) or float (added to the scores), broadcasts to (N, H, T, S)
    causal  position t attends to positions up to t + S − T, so that a cache of S − T earlier keys fits in front
    A row with nothing to attend to gives zeros.
    Fused: scale, mask and causal rule melt into the first product's epilogue, the softmax is one row kernel, and the heads
    of a group are stacked as rows of one product, so keys and values are never repeated. Weights (T × S) are in memory.
    Paper: Vaswani et al. 2017, arXiv:1706.03762; grouped queries: Ainslie et al. 2023, arXiv:2305.13245.
    """
    q, k, v = as_tensor(q), as_tensor(k), as_tensor(v)
    _check(q, k, v)
    (n, h, t), (hk, s), e = q.shape[:3], k.shape[1:3], v.shape[3]
    scores = attention_scores(q, k, scale)
    allowed = causal_mask(t, s) if causal else None
    if mask is not None:
        mask = _mask(as_tensor(mask), scores)
        if causal and mask.dtype == "bool":
            allowed = bit_and(mask, allowed)
        else:
            scores = masked(scores, mask)
    weights = _softmax(masked(scores, allowed), axis=-1)
    return reshape(matmul(reshape(weights, (n, hk, h // hk * t, s)), v), (n, h, t, e))


def attention_scores(q: Tensor, k: Tensor, scale: float | None = None) -> Tensor:
    """s · q kᵀ: (N, H, T, d), (N, Hk, S, d) -> (N, H, T, S)."""
    (n, h, t, d), (hk, s) = q.shape, k.shape[1:3]
    rows = matmul(reshape(q, (n, hk, h // hk * t, d)), transpose(k))
    return reshape(rows, (n, h, t, s)) * (1 / math.sqrt(d) if scale is None else scale)


def causal_mask(t: int, s: int) -> Tensor:
    """True where key position ≤ query position + s − t; (t, s), costs no memory where it is consumed."""
    column: Tensor = reshape(arange(n=t, dtype="int32"), (t, 1)) + (s - t)
    return column >= arange(n=s, dtype="int32")


def _mask(mask: Tensor, scores: Tensor) -> Tensor:
    try:
        return expand(mask, scores.shape)
    except ValueError:
        raise ShapeError(f"attention: expected a mask that broadcasts to (N, H, T, S) = {scores.shape}; got {mask.shape}.") from None


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    shapes = f"q{q.shape}, k{k.shape}, v{v.shape}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ShapeError(f"attention: expected q, k and v of 4 axes (N, H, T, d); got {shapes}.")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3]:
        raise ShapeError(f"attention: expected q (N, H, T, d), k (N, Hk, S, d), v (N, Hk, S, e); got {shapes}.")
    if k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        raise ShapeError(f"attention: expected query heads a multiple of key heads; got {q.shape[1]} and {k.shape[1]} in {shapes}.")
