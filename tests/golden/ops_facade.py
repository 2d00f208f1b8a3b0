"""The named operations of clnet.facade: each forward (tensors, attributes) -> output or outputs; backwards are
PyTorch's own of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from philox import Draws
from rules import ACT, More, pulled
from torch.nn.attention import SDPBackend, sdpa_kernel

from clnet.facade import OPERATIONS, Backward

ACTS = {**ACT, "linear": ACT[None], "swish": F.silu}


def turned(a: Any, transpose: bool) -> Any:
    return a.mT if transpose else a


def product(a: Any, b: Any, c: Any = None, alpha: float = 1.0, beta: float = 0.0, transpose_a: bool = False,
            transpose_b: bool = False) -> Any:
    y = alpha * torch.matmul(turned(a, transpose_a), turned(b, transpose_b))
    return y if c is None else y + beta * c


def gemv(a: Any, x: Any, y: Any = None, alpha: float = 1.0, beta: float = 0.0, transpose: bool = False) -> Any:
    return product(a, x, y, alpha, beta, transpose)


def gemm_bias(act: str) -> Callable[..., Any]:
    return lambda a, b, bias: ACTS[act](torch.addmm(bias, a, b))


def conv(f: Any) -> Callable[..., Any]:
    return lambda x, w, b=None, activation="linear", **how: ACTS[activation](f(x, w, b, **how))


def conv_input(f: Any) -> Callable[..., Any]:
    return lambda g, w, size, **how: f([g.shape[0], w.shape[1], *size], w, g, **how)


def conv_weights(f: Any) -> Callable[..., Any]:
    return lambda g, x, size, **how: f(x, [g.shape[1], x.shape[1], *size], g, **how)


def batch_norm(x: Any, w: Any, b: Any, activation: str = "linear") -> Any:
    axes = [0, *range(2, x.ndim)]
    return ACTS[activation](F.batch_norm(x, None, None, w, b, True)), x.mean(axes), x.var(axes)


def layer_norm(x: Any, w: Any, b: Any, activation: str = "linear") -> Any:
    return ACTS[activation](F.layer_norm(x, w.shape, w, b))


def attention(q: Any, k: Any, v: Any, causal: bool = False, scale: Any = None) -> Any:
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2]) if causal else None
    with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivative
        return F.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def fused_attention(x: Any, q: Any, k: Any, v: Any, o: Any, num_heads: int) -> Any:
    t, none = x.movedim(0, 1), torch.zeros(3 * x.shape[-1], dtype=x.dtype)
    y = F.multi_head_attention_forward(t, t, t, x.shape[-1], num_heads, None, none, None, None, False, 0.0, o, None,
                                       need_weights=False,
                                       use_separate_proj_weight=True, q_proj_weight=q, k_proj_weight=k, v_proj_weight=v)
    return y[0].movedim(1, 0)


def bias_dropout(x: Any, bias: Any, p: float, seed: int) -> Any:
    keep = torch.from_numpy(Draws((seed, 0)).uniform(tuple(x.shape)) < 1 - p)
    return (x + bias) * keep / (1 - p)


def lstm_cell(x: Any, h: Any, c: Any, w: Any) -> Any:
    i, f, g, o = (x + F.linear(h, w)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_cell(x: Any, h: Any, w: Any, b: Any) -> Any:
    return torch.gru_cell(x, h, torch.eye(x.shape[1], dtype=x.dtype), w, torch.zeros_like(b), b)


def fused_rnn(x: Any, h: Any, w_ih: Any, w_hh: Any, b: Any) -> Any:
    steps = []
    for k in range(x.shape[1]):
        steps.append(h := torch.rnn_tanh_cell(x[:, k], h, w_ih, w_hh, b, torch.zeros_like(b)))
    return torch.stack(steps, 1)


def scatter(x: Any, index: Any, rows: int, reduce: str = "sum", axis: int = 0) -> Any:
    shape = [rows if a == axis else n for a, n in enumerate(x.shape)]
    if reduce == "sum":
        return torch.zeros(shape, dtype=x.dtype).index_add(axis, index, x)
    wide = index.long()[:, None].expand_as(x)
    return torch.zeros(shape, dtype=x.dtype).scatter_reduce(0, wide, x, reduce, include_self=False)


def message_passing(x: Any, source: Any, target: Any, weight: Any, rows: int) -> Any:
    return scatter(x[source.long()] * weight, target, rows)


def sparse(values: Any, row: Any, column: Any, x: Any, rows: int) -> Any:
    return torch.sparse_coo_tensor(torch.stack([row, column]), values, (rows, x.shape[0]),
                                   check_invariants=True).to_dense() @ x


G = torch.nn.grad
FORWARD: dict[str, Callable[..., Any]] = {
    "gemm": product, "gemv": gemv, "batch_mat_mul": product, "tensor_mat_mul": torch.matmul, "bias_add": torch.add,
    "tensor_broadcast_add": torch.add,
    "gemm_bias": gemm_bias("linear"), "gemm_bias_relu": gemm_bias("relu"), "gemm_bias_gelu": gemm_bias("gelu"),
    "gemm_bias_sigmoid": gemm_bias("sigmoid"),
    "gemm_bias_tanh": gemm_bias("tanh"),
    "fused_gemm_bias_activation": lambda a, b, c, activation: gemm_bias(activation)(a, b, c),
    "fused_linear": lambda x, w, b=None, activation="linear": ACTS[activation](F.linear(x, w, b)),
    "fused_conv2d": conv(F.conv2d), "fused_conv3d": conv(F.conv3d), "conv2d_backward_input": conv_input(G.conv2d_input),
    "conv2d_backward_weights": conv_weights(G.conv2d_weight), "conv3d_backward_input": conv_input(G.conv3d_input),
    "conv3d_backward_weights": conv_weights(G.conv3d_weight),
    "avg_pool2d": lambda x, size, **how: F.avg_pool2d(x, size, **how),
    "max_pool2d": lambda x, size, **how: F.max_pool2d(x, size, **how),
    "global_avg_pool": lambda x: x.mean((2, 3)), "global_max_pool": lambda x: F.adaptive_max_pool2d(x, 1)[..., 0, 0],
    "adaptive_avg_pool2d": lambda x, size: F.adaptive_avg_pool2d(x, size),
    "fused_batch_norm": batch_norm, "fused_layer_norm": layer_norm, "fused_layer_norm_activation": layer_norm,
    "layer_norm": layer_norm,
    "fused_norm": lambda x, w, activation: ACTS[activation](F.rms_norm(x, w.shape, w, 1e-5)),
    "rms_norm": lambda x, w: F.rms_norm(x, w.shape, w, 1e-5),
    "fused_residual_layer_norm": lambda x, r, w, b: layer_norm(x + r, w, b),
    "group_norm": lambda x, w, b, num_groups: F.group_norm(x, num_groups, w, b),
    "instance_norm": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
    "scaled_dot_product_attention": attention, "flash_attention": attention, "grouped_query_attention": attention,
    "fused_attention": fused_attention,
    "geglu": lambda a, b: a * F.gelu(b), "swiglu": lambda a, b: F.silu(a) * b,
    "activate": lambda x, activation: ACTS[activation](x),
    "fused_scaled_softmax": lambda x, scale: F.softmax(scale * x, -1), "fused_bias_dropout": bias_dropout,
    "lstm_gates_precompute": F.linear, "lstm_cell": lstm_cell, "gru_cell": gru_cell, "fused_rnn": fused_rnn,
    "scatter_add": scatter, "scatter_mean": lambda x, i, rows: scatter(x, i, rows, "mean"),
    "scatter_max": lambda x, i, rows: scatter(x, i, rows, "amax"),
    "scatter_add_batched": lambda x, i, rows: scatter(x, i, rows, axis=1), "embedding": lambda w, i: F.embedding(i, w),
    "message_passing": message_passing, "sparse_mm": sparse, "mse": F.mse_loss,
    "softmax_cross_entropy": lambda z, t: F.cross_entropy(z, t.long()),
    "bce_with_logits": F.binary_cross_entropy_with_logits,
}
# under clnet.ops
ELSEWHERE = {"scatter_add", "scatter_mean", "scatter_max", "layer_norm", "rms_norm", "group_norm", "instance_norm",
             "lstm_cell", "gru_cell"}


def backward(rule: Callable[..., Any]) -> Callable[..., Any]:
    def pull(g: Any, *tensors: Any, **attributes: Any) -> Any:
        for t in tensors:
            if t.is_floating_point() and not t.requires_grad:
                t.requires_grad_()
        y = rule(*tensors, **attributes)
        return pulled(y[0] if isinstance(y, tuple) else y, [t for t in tensors if t.is_floating_point()], g)
    return pull


RULES = {n: r for n, r in FORWARD.items() if n not in ELSEWHERE}
RULES |= {n: backward(FORWARD[o.forward.name]) for n, o in OPERATIONS.items() if isinstance(o, Backward)}
MORE: dict[str, list[More]] = {}
