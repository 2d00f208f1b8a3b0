"""Attention, gates, recurrent cells, softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops as F
from ..core import arguments
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError, ShapeError
from ..ops.scan import relu_cell
from .operation import Activation, activated, operation

HEADS = [(2, 4, 5, 3), (2, 4, 5, 3), (2, 4, 5, 3)]
GROUPED = [(2, 4, 5, 3), (2, 2, 6, 3), (2, 2, 6, 3)]
# Weights of usual size: scores of ±30 would make the weights' gradient a difference of nearly equal numbers.
SMALL = list(np.random.default_rng(7).uniform(-0.5, 0.5, (4, 4, 4)).astype(np.float32))
CELLS = {"tanh": F.rnn_cell, "relu": relu_cell}


@operation("ScaledDotProductAttention", (HEADS, {}), (HEADS, dict(causal=True, scale=0.3)),
           backward="ScaledDotProductAttentionBackward")
def scaled_dot_product_attention(q: TensorLike, k: TensorLike, v: TensorLike, mask: TensorLike | None = None, *,
                                 causal: bool = False, scale: float | None = None) -> Tensor:
    """y = softmax(s · q kᵀ + mask) v, s = 1/√d unless given

    q (N, H, T, d), k (N, H, S, d), v (N, H, S, e), mask bool (True: may attend) or float; y (N, H, T, e).
    A row with nothing to attend to is 0.
    """
    return F.attention(q, k, v, mask, causal, scale)


@operation("FlashAttention", (HEADS, dict(causal=True)), backward="FlashAttentionBackward")
def flash_attention(q: TensorLike, k: TensorLike, v: TensorLike, *, causal: bool = False,
                    scale: float | None = None) -> Tensor:
    """y = softmax(s · q kᵀ) v block by block: the T × S weights are in no memory

    Paper: Dao et al. 2022, arXiv:2205.14135.
    """
    return F.attention(q, k, v, None, causal, scale)


@operation("GroupedQueryAttention", (GROUPED, {}), (GROUPED, dict(causal=True)),
           backward="GroupedQueryAttentionBackward")
def grouped_query_attention(q: TensorLike, k: TensorLike, v: TensorLike, mask: TensorLike | None = None, *,
                            causal: bool = False, scale: float | None = None) -> Tensor:
    """y = softmax(s · q kᵀ + mask) v, query head h reading key head h // (H / Hk);
    dk and dv are summed over a group

    Paper: Ainslie et al. 2023, arXiv:2305.13245.
    """
    return F.attention(q, k, v, mask, causal, scale)


@operation("FusedAttention", ([(2, 3, 4), *SMALL], dict(num_heads=2)))
def fused_attention(x: TensorLike, w_q: TensorLike, w_k: TensorLike, w_v: TensorLike, w_o: TensorLike, *,
                    num_heads: int, causal: bool = False) -> Tensor:
    """y = concat over heads of softmax(q kᵀ / √d) v, · W_oᵀ;  q = x W_qᵀ, k = x W_kᵀ, v = x W_vᵀ

    x (N, T, E), W (h · d, E), W_o (E, h · d), y (N, T, E).
    """
    x, num_heads = as_tensor(x), arguments.integer("fused_attention", "num_heads", num_heads, 1)
    if x.ndim != 3:
        raise ShapeError(f"fused_attention: expected x (N, T, E); got {x.shape}.")
    n, t, _ = x.shape
    q, k, v = (F.permute(F.reshape(F.linear(x, w), (n, t, num_heads, -1)), 0, 2, 1, 3) for w in (w_q, w_k, w_v))
    y = F.permute(F.attention(q, k, v, None, causal), 0, 2, 1, 3)
    return F.linear(F.reshape(y, (n, t, -1)), w_o)


# --- gates
@operation("GeGLU", ([(3, 8), (3, 8)], {}), backward="GeGLUBackward")
def geglu(a: TensorLike, b: TensorLike) -> Tensor:
    """y = a ∘ gelu(b). Paper: Shazeer 2020, arXiv:2002.05202."""
    return as_tensor(a) * F.gelu(b)


@operation("SwiGLU", ([(3, 8), (3, 8)], {}), backward="SwiGLU backward")
def swiglu(a: TensorLike, b: TensorLike) -> Tensor:
    """y = silu(a) ∘ b. Paper: Shazeer 2020, arXiv:2002.05202."""
    return F.swish(a) * as_tensor(b)


@operation("activations", *(([(3, 7)], dict(activation=a.value)) for a in Activation),
           backward="activation backwards")
def activate(x: TensorLike, *, activation: Activation | str) -> Tensor:
    """y = activation(x)"""
    return activated(x, activation)


# --- softmax
@operation("FusedScaledSoftmax", ([(3, 7)], dict(scale=0.7)), backward="softmax backward")
def fused_scaled_softmax(x: TensorLike, *, scale: float = 1.0) -> Tensor:
    """y = softmax(k · x) over the last axis"""
    return F.softmax(as_tensor(x) * scale)


@operation("FusedBiasDropout", ([(4, 5), (5,)], dict(p=0.4, seed=7)), backward="dropout_backward")
def fused_bias_dropout(x: TensorLike, bias: TensorLike, *, p: float = 0.5, seed: int = 0, counter: int = 0) -> Tensor:
    """y = (x + b) · m / (1 − p), m ~ Bernoulli(1 − p) by Philox: the mask is a function of (seed, counter)
    and is computed again in backward
    """
    x, p = as_tensor(x), arguments.real("fused_bias_dropout", "p", p, 0)
    if p >= 1:
        raise ConfigError(f"fused_bias_dropout: expected p < 1; got {p}; nothing would be left.")
    keep = F.bernoulli(1 - p, x.shape, seed, counter)
    return F.where(keep, (x + as_tensor(bias)) * (1 / (1 - p)), 0.0)


# --- recurrent cells
@operation("lstm_gates_precompute", ([(2, 3, 4), (8, 4), (8,)], {}))
def lstm_gates_precompute(x: TensorLike, w_ih: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """y = x · W_ihᵀ + b for all steps in one product: x (N, T, in), W_ih (4H, in), y (N, T, 4H)"""
    return F.linear(x, w_ih, bias)


@operation("lstm_cell_forward", ([(2, 12), (2, 3), (2, 3), (12, 3)], {}), backward="lstm_cell_backward")
def lstm_cell(x: TensorLike, h: TensorLike, c: TensorLike, w_hh: TensorLike,
              b_hh: TensorLike | None = None) -> tuple[Tensor, Tensor]:
    """(h', c') with i, f, g, o = x + h W_hhᵀ + b; c' = σ(f) c + σ(i) tanh(g); h' = σ(o) tanh(c');
    x (N, 4H) projected
    """
    return F.lstm_cell(x, (h, c), w_hh, b_hh)


@operation("gru_cell_forward", ([(2, 9), (2, 3), (9, 3), (9,)], {}), backward="gru_cell_backward")
def gru_cell(x: TensorLike, h: TensorLike, w_hh: TensorLike, b_hh: TensorLike | None = None) -> Tensor:
    """h' = (1 − z) n + z h;  r, z = σ(x + h W_hhᵀ + b), n = tanh(xₙ + r (h W_hhᵀ + b)ₙ);  x (N, 3H) projected"""
    return F.gru_cell(x, h, w_hh, b_hh)


@operation("FusedRNN", ([(2, 3, 4), (2, 3), (3, 4), (3, 3), (3,)], {}))
def fused_rnn(x: TensorLike, h: TensorLike, w_ih: TensorLike, w_hh: TensorLike, bias: TensorLike | None = None, *,
              nonlinearity: str = "tanh") -> Tensor:
    """hₜ = f(xₜ · W_ihᵀ + b + hₜ₋₁ · W_hhᵀ) for a whole sequence: x (N, T, in), h (N, H), y (N, T, H)"""
    arguments.choice("fused_rnn", "nonlinearity", nonlinearity, CELLS)
    y: Any = F.recur(CELLS[nonlinearity], F.permute(as_tensor(x), 1, 0, 2), as_tensor(h), as_tensor(w_ih),
                     as_tensor(w_hh), None if bias is None else as_tensor(bias))[0]
    return F.permute(y, 1, 0, 2)
