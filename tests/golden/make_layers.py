"""Writes layer/<name>.npz: what PyTorch gives for the examples of every layer, in float64.

    python tests/golden/make_layers.py [name ...]       needs torch; the tests that read the files do not

A file holds for example k: `k.in.j` (inputs, then parameters), `k.out.j` (outputs), `k.u` (cotangent of the first output),
`k.grad.j` (gradients of ⟨u, output⟩ to the float inputs and parameters), more for layers with state, and `source`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from clnet.layers import Layer
from clnet.workbench.registry import layer_example, make_layer

HERE = Path(__file__).resolve().parent / "layer"
ACT: dict[str | None, Callable[..., Any]] = {
    None: lambda x: x, "relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu, "silu": F.silu,
    "leaky_relu": lambda x, slope=0.01: F.leaky_relu(x, slope), "softmax": lambda x, temperature=1.0: F.softmax(x / temperature, -1)}


# --- each: (layer with its fields, inputs, parameters by name) -> outputs
def dense(c: Any, x: Any, p: Any) -> Any:
    return ACT[c.activation](F.linear(x[0], p["weight"], p.get("bias")))


def feed_forward(c: Any, x: Any, p: Any) -> Any:
    return F.linear(ACT[c.activation](F.linear(x[0], p["w1"], p.get("b1"))), p["w2"], p.get("b2"))


def swiglu(c: Any, x: Any, p: Any) -> Any:
    gate = ACT[c.gate_activation](F.linear(x[0], p["w_gate"], p.get("b_gate")))
    return F.linear(gate * F.linear(x[0], p["w_up"], p.get("b_up")), p["w_down"], p.get("b_down"))


def conv(c: Any, x: Any, p: Any) -> Any:
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[c.axes]
    return ACT[c.activation](function(x[0], p["weight"], p.get("bias"), c.stride, c.padding, c.dilation, c.groups))


def conv_transpose(c: Any, x: Any, p: Any) -> Any:
    return ACT[c.activation](F.conv_transpose2d(x[0], p["weight"], p.get("bias"), c.stride, c.padding, c.output_padding, c.groups, c.dilation))


def max_pool(c: Any, x: Any, p: Any) -> Any:
    return (F.max_pool2d if c.axes == 2 else F.max_pool3d)(x[0], c.kernel_size, c.stride, c.padding, c.dilation, c.ceil_mode)


def avg_pool(c: Any, x: Any, p: Any) -> Any:
    return F.avg_pool2d(x[0], c.kernel_size, c.stride, c.padding, c.ceil_mode, c.count_include_pad)


def pool(c: Any, x: Any, p: Any) -> Any:
    return (F.max_pool2d if c.mode == "max" else F.avg_pool2d)(x[0], c.kernel_size, c.stride, c.padding)


def global_pool(c: Any, x: Any, p: Any) -> Any:
    fold = {"avg": torch.mean, "max": torch.amax, "sum": torch.sum}[c.mode]
    return fold(x[0], tuple(range(2, x[0].ndim)), keepdim=c.keepdims)


def batch_norm(c: Any, x: Any, p: Any) -> Any:
    return F.batch_norm(x[0], None, None, p.get("weight"), p.get("bias"), True, c.momentum, c.eps)


def layer_norm(c: Any, x: Any, p: Any) -> Any:
    shape = c.normalized_shape if isinstance(c.normalized_shape, tuple) else (c.normalized_shape,)
    return F.layer_norm(x[0], shape, p.get("weight"), p.get("bias"), c.eps)


def rms_norm(c: Any, x: Any, p: Any) -> Any:
    shape = c.normalized_shape if isinstance(c.normalized_shape, tuple) else (c.normalized_shape,)
    return F.rms_norm(x[0], shape, p.get("weight"), c.eps)


def group_norm(c: Any, x: Any, p: Any) -> Any:
    return F.group_norm(x[0], c.num_groups, p.get("weight"), p.get("bias"), c.eps)


def instance_norm(c: Any, x: Any, p: Any) -> Any:
    return F.instance_norm(x[0], None, None, p.get("weight"), p.get("bias"), eps=c.eps)


def recurrent(c: Any, x: Any, p: Any) -> Any:
    kind = type(c).__name__
    more = {"nonlinearity": c.nonlinearity} if kind == "RNN" else {}
    module = getattr(nn, kind)(c.input_size, c.hidden_size, c.num_layers, bias=c.bias, batch_first=True, **more).double()
    names = {"w_ih": "weight_ih", "w_hh": "weight_hh", "b_ih": "bias_ih", "b_hh": "bias_hh"}
    weights = {f"{names[n.split('.')[2]]}_l{n.split('.')[1]}": v for n, v in p.items()}
    state = () if len(x) == 1 else (x[1],) if kind != "LSTM" else ((x[1], x[2]),)
    y, _ = functional_call(module, weights, (x[0], *state))
    return y if c.return_sequences else y[:, -1]


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
    module = nn.TransformerEncoderLayer(c.d_model, c.num_heads, c.d_ff, 0.0, c.activation, c.eps, True, c.norm_first, c.bias).double()
    mask = nn.Transformer.generate_square_subsequent_mask(x[0].shape[1], dtype=torch.float64) if c.causal else None
    weights = {n: v for n, v in p.items() if not n.startswith("self_attn")} | _attention_weights(p, "self_attn.")
    return functional_call(module, weights, (x[0], mask))


def embedding(c: Any, x: Any, p: Any) -> Any:
    return F.embedding(x[0], p["weight"], c.padding_idx)


def positional(c: Any, x: Any, p: Any) -> Any:
    t, i = torch.arange(x[0].shape[-2]).double()[:, None], torch.arange(c.d_model)[None]
    angle = t / 10000 ** ((i - i % 2) / c.d_model)
    pe = torch.where(i % 2 == 0, torch.sin(angle), torch.cos(angle)).float().double()  # the table is kept in float32
    return x[0] + (p["pe"][: len(t)] if c.learned else pe)


def activation(c: Any, x: Any, p: Any) -> Any:
    return ACT[c.name](x[0], **(c.params or {}))


def softmax(c: Any, x: Any, p: Any) -> Any:
    if c.variant == "grid":
        return F.softmax(x[0].unflatten(-1, (c.rows, c.cols)), -1).flatten(-2)
    if c.variant == "masked":
        return F.softmax(x[0].masked_fill(~torch.tensor(c.mask), -torch.inf), -1)
    return F.softmax(x[0] / c.temperature, -1)


def residual(c: Any, x: Any, p: Any) -> Any:
    layers = c.layer if isinstance(c.layer, tuple) else (c.layer,)
    y = x[0]
    for k, layer in enumerate(layers):
        prefix = f"layer.{k}." if len(layers) > 1 else "layer."
        y = F.linear(y, p[prefix + "weight"], p[prefix + "bias"]) if hasattr(layer, "weight") else ACT[layer.name](y)
    return ACT[c.activation](y + (x[0] if c.projection is None else F.linear(x[0], p["projection.weight"])))


ORACLES: dict[str, Callable[..., Any]] = {
    "Dense": dense, "FeedForward": feed_forward, "SwiGLU": swiglu, "Conv1d": conv, "Conv2d": conv, "DilatedConv2d": conv, "Conv3d": conv,
    "ConvTranspose2d": conv_transpose, "MaxPool2d": max_pool, "MaxPool3d": max_pool, "AvgPool2d": avg_pool, "Pool2d": pool,
    "GlobalPool": global_pool, "BatchNorm": batch_norm, "LayerNorm": layer_norm, "RMSNorm": rms_norm, "GroupNorm": group_norm,
    "InstanceNorm": instance_norm, "RNN": recurrent, "LSTM": recurrent, "GRU": recurrent, "MultiHeadAttention": attention,
    "SelfAttention": attention, "TransformerEncoderBlock": encoder, "Embedding": embedding, "PositionalEncoding": positional,
    "Activation": activation, "Softmax": softmax, "Residual": residual,
    "Flatten": lambda c, x, p: torch.flatten(x[0], c.start_dim, c.end_dim), "Reshape": lambda c, x, p: x[0].reshape(len(x[0]), *c.shape),
    "Add": lambda c, x, p: ACT[c.activation](sum(x)), "Concatenate": lambda c, x, p: ACT[c.activation](torch.cat(x, c.axis)),
    "Multiply": lambda c, x, p: ACT[c.activation](torch.prod(torch.stack(torch.broadcast_tensors(*x)), 0)),
}


def state(c: Any, x: Any, p: Any) -> dict[str, Any]:
    """Running statistics after the example's batch, and the output of evaluation with them."""
    if type(c).__name__ != "BatchNorm" or not c.track_running_stats:
        return {}
    mean, var = torch.zeros(c.num_features).double(), torch.ones(c.num_features).double()
    F.batch_norm(x[0], mean, var, p.get("weight"), p.get("bias"), True, c.momentum, c.eps)
    return {"running_mean": mean, "running_var": var, "eval": F.batch_norm(x[0], mean, var, p.get("weight"), p.get("bias"), False, 0.0, c.eps)}


def values(cls: type[Layer], k: int) -> dict[str, Any]:
    layer, inputs = make_layer(cls, k)
    example = layer_example(layer, inputs)
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) if a.dtype.kind == "f" else torch.tensor(a).long() for a in example.inputs]
    x, p = leaves[: len(inputs)], dict(zip(example.names[len(inputs) :], leaves[len(inputs) :], strict=True))
    y = ORACLES[cls.__name__](layer, x, p)
    u = np.random.default_rng(k).uniform(-1, 1, y.shape)
    floats = [t for t in leaves if t.requires_grad]
    grads = torch.autograd.grad(y, floats, torch.tensor(u), allow_unused=True)
    out = {f"{k}.in.{j}": a for j, a in enumerate(example.inputs)} | {f"{k}.out.0": y.detach().numpy(), f"{k}.u": u}
    out |= {f"{k}.grad.{j}": (torch.zeros_like(t) if g is None else g).numpy() for j, (t, g) in enumerate(zip(floats, grads, strict=True))}
    return out | {f"{k}.{n}": v.detach().numpy() for n, v in state(layer, x, p).items()}


def main(wanted: list[str]) -> None:
    HERE.mkdir(exist_ok=True)
    for name, cls in sorted(Layer.registry.items()):
        if name in ORACLES and (not wanted or name in wanted):
            found: dict[str, Any] = {"source": np.array(f"torch {torch.__version__.split('+')[0]}")}
            for k, (fields, _) in enumerate(cls.examples):
                if not (name == "TransformerEncoderBlock" and fields.get("dropout")):
                    found |= values(cls, k)
            np.savez_compressed(HERE / f"{name}.npz", **found)
    print(f"{len(list(HERE.glob('*.npz')))} files, {sum(f.stat().st_size for f in HERE.glob('*.npz')) // 1024} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
