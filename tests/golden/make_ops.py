"""Writes ops.npz: values and gradients of ops as PyTorch computes them in float64. Run by hand where PyTorch is installed:

    python tests/golden/make_ops.py

A row of OPS is name -> (PyTorch function, inputs); tests/device/test_golden.py has the same names with clnet's functions and
needs no PyTorch. Inputs are float32 numbers, so that a device starts from the same ones; a second row of random cotangents u
gives the gradients of Σ u · y.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(20)


def real(*shape: int, low: float = -3.0, high: float = 3.0) -> Array:
    return RNG.uniform(low, high, shape).astype(np.float32)


def whole(n: int, *shape: int) -> Array:
    return RNG.integers(0, n, shape)


def _reduced(how: str) -> Callable[..., Any]:
    def f(source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        start = torch.zeros(6, source.shape[1], dtype=source.dtype)
        return start.index_reduce(0, index, source, how, include_self=False)

    return f



ANYWHERE = ("abs", "exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "erf", "square", "sigmoid")
POSITIVE = ("sqrt", "rsqrt", "log", "log1p", "log2", "reciprocal")
ROWS = np.array([2, 0, 2, 5, 2, 0, 1, 5])
OPS: dict[str, tuple[Callable[..., Any], list[Array]]] = {
    # pointwise
    **{name: (getattr(torch, name), [real(4, 5)]) for name in ANYWHERE},
    **{name: (getattr(torch, name), [real(4, 5, low=0.1)]) for name in POSITIVE},
    "maximum": (torch.maximum, [real(4, 5), real(5)]),
    "minimum": (torch.minimum, [real(4, 5), real(4, 1)]),
    "maximum_ties": (torch.maximum, [np.float32([1, 2, 3, -1]), np.float32([1, 0, 3, 4])]),
    "pow": (torch.pow, [real(4, 5, low=0.1), real(4, 5)]),
    "mod": (torch.remainder, [real(4, 5), real(4, 5)]),
    "floordiv": (lambda x, y: torch.floor_divide(x, y).detach(), [real(4, 5), real(4, 5)]),
    "softplus": (F.softplus, [real(4, 5)]),
    "relu": (F.relu, [real(4, 5)]),
    "elu": (F.elu, [real(4, 5)]),
    "celu": (lambda x: F.celu(x, 0.5), [real(4, 5)]),
    "selu": (F.selu, [real(4, 5)]),
    "leaky_relu": (F.leaky_relu, [real(4, 5)]),
    "gelu": (F.gelu, [real(4, 5)]),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), [real(4, 5)]),
    "mish": (F.mish, [real(4, 5)]),
    "silu": (F.silu, [real(4, 5)]),
    "hard_swish": (F.hardswish, [real(4, 5, low=-4, high=4)]),
    # F.hardsigmoid's own gradient has 1/6 in float32, and F.celu's 1/alpha: 0.5 is exact.
    "hard_sigmoid": (lambda x: torch.clamp(x / 6 + 0.5, 0, 1), [real(4, 5, low=-4, high=4)]),
    "clip": (lambda x: torch.clamp(x, -1, 1.5), [real(4, 5)]),
    # reductions
    "sum": (lambda x: x.sum((0, 2)), [real(2, 3, 4)]),
    "mean": (lambda x: x.mean(1), [real(2, 3, 4)]),
    "var": (lambda x: x.var(1, unbiased=False), [real(4, 6)]),
    "prod": (lambda x: x.prod(1), [np.float32([[1, 2, 0, 3], [0, 2, 0, 1], [2, -1, 3, 0.5]])]),
    "max": (lambda x: x.max(1).values, [real(4, 6)]),
    "logsumexp": (lambda x: x.logsumexp(1), [real(4, 6)]),
    # movement
    "windows": (lambda x: x.unfold(1, 3, 2), [real(2, 8)]),
    "gather": (lambda x, i: x[i], [real(6, 4), ROWS]),
    "gather_axis_1": (lambda x, i: x[:, i], [real(3, 6, 2), ROWS]),
    "take_along_axis": (lambda x, i: torch.take_along_dim(x, i, 1), [real(3, 5, 2), whole(5, 3, 4, 2)]),
    "scatter_add": (lambda s, i: torch.zeros(6, 3, dtype=s.dtype).index_add(0, i, s), [real(8, 3), ROWS]),
    "scatter_mean": (_reduced("mean"), [real(8, 3), ROWS]),
    "scatter_max": (_reduced("amax"), [real(8, 3), ROWS]),
    "one_hot": (lambda i: F.one_hot(i, 6).double(), [ROWS]),
    # contractions
    "matmul": (torch.matmul, [real(2, 3, 5), real(5, 4)]),
    "linear": (F.linear, [real(3, 5), real(4, 5), real(4)]),
    "conv": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), [real(2, 2, 5, 6), real(3, 2, 3, 3), real(3)]),
    "conv_groups_dilation": (lambda x, w: F.conv2d(x, w, dilation=2, groups=2), [real(1, 4, 6, 7), real(4, 2, 2, 3)]),
    "conv_transpose": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), [real(1, 3, 3, 4), real(3, 2, 3, 3)]),
    "max_pool": (lambda x: F.max_pool2d(x, 3, 2, 1), [real(1, 2, 6, 7)]),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2), [real(1, 2, 6, 6)]),
    # normalisation and attention
    "softmax": (lambda x: F.softmax(x, -1), [real(3, 7)]),
    "log_softmax": (lambda x: F.log_softmax(x, -1), [real(3, 7)]),
    "layer_norm": (lambda x, g, b: F.layer_norm(x, (6,), g, b), [real(4, 6), real(6), real(6)]),
    "rms_norm": (lambda x, g: F.rms_norm(x, (6,), g, 1e-5), [real(4, 6), real(6)]),
    "group_norm": (lambda x, g, b: F.group_norm(x, 2, g, b), [real(2, 4, 3), real(4), real(4)]),
    "instance_norm": (lambda x, g, b: F.instance_norm(x, weight=g, bias=b), [real(2, 3, 5), real(3), real(3)]),
    "attention": (F.scaled_dot_product_attention, [real(1, 2, 4, 3), real(1, 2, 5, 3), real(1, 2, 5, 3)]),
    "attention_causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [real(1, 2, 4, 3), real(1, 2, 4, 3), real(1, 2, 4, 3)]),
}


def main() -> None:
    out: dict[str, Array] = {}
    for name, (function, inputs) in OPS.items():
        xs = [torch.tensor(x.astype(np.float64), requires_grad=True) if x.dtype.kind == "f" else torch.tensor(x) for x in inputs]
        y = function(*xs)
        u = RNG.standard_normal(y.shape).astype(np.float32)
        floats = [x for x in xs if x.requires_grad]
        grads = torch.autograd.grad((y * torch.tensor(u.astype(np.float64))).sum(), floats) if y.requires_grad else []
        out |= {f"{name}/x{k}": x for k, x in enumerate(inputs)} | {f"{name}/y": y.detach().numpy(), f"{name}/u": u}
        out |= {f"{name}/g{k}": g.numpy() for k, g in enumerate(grads)}
    path = Path(__file__).with_name("ops.npz")
    np.savez_compressed(path, **out)
    print(f"{path.name}: {len(OPS)} ops, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
