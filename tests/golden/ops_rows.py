"""Reductions, products, softmax, normalisation, losses and their gradients, cells: each (inputs, attributes) -> output
or outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rules import More, by, pulled

aten = torch.ops.aten


def _single(f: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch reduces over one axis here: several are laid into one."""
    def folded(x: Any, axes: Any) -> Any:
        kept = [a for a in range(x.ndim) if a not in axes]
        flat = x.permute(*kept, *axes).reshape(*(x.shape[a] for a in kept), -1)
        return f(flat, -1).reshape([1 if a in axes else n for a, n in enumerate(x.shape)])
    return folded


def one(x: Any, value: float = 1.0) -> Any:
    """A parameter of x's last axis."""
    return torch.full(x.shape[-1:], value, dtype=x.dtype, requires_grad=True)


def layer_norm_gradient(g: Any, x: Any, gamma: Any, eps: float) -> Any:
    return pulled(F.layer_norm(x, x.shape[-1:], gamma, None, eps), x, g)[0]


def layer_norm_parameter_gradient(g: Any, x: Any, eps: float) -> Any:
    gamma, beta = one(x), one(x, 0.0)
    return torch.stack(pulled(F.layer_norm(x, x.shape[-1:], gamma, beta, eps), (gamma, beta), g))


def rms_norm_gradient(g: Any, x: Any, gamma: Any, eps: float) -> Any:
    return pulled(F.rms_norm(x, x.shape[-1:], gamma, eps), x, g)[0]


def rms_norm_parameter_gradient(g: Any, x: Any, eps: float) -> Any:
    gamma = one(x)
    return pulled(F.rms_norm(x, x.shape[-1:], gamma, eps), gamma, g)[0]


def standardize(x: Any, axes: Any, eps: float) -> Any:
    """Layer normalisation of the axes moved to the end."""
    moved = torch.movedim(x, tuple(axes), tuple(range(-len(axes), 0)))
    return torch.movedim(F.layer_norm(moved, moved.shape[-len(axes) :], eps=eps), tuple(range(-len(axes), 0)),
                         tuple(axes))


def standardize_gradient(g: Any, x: Any, axes: Any, eps: float) -> Any:
    return pulled(standardize(x, axes, eps), x, g)[0]


def batch_norm_train(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    mean, var = torch.zeros(x.shape[1]).double(), torch.ones(x.shape[1]).double()
    y = F.batch_norm(x, mean, var, gamma, beta, True, 1.0, eps)  # momentum 1: the running statistics are the batch's
    return y, mean, var


# --- losses: classes on the last axis
def cross_entropy(x: Any, labels: Any, smoothing: float, ignore_index: int) -> Any:
    y = F.cross_entropy(x.reshape(-1, x.shape[-1]), labels.long().reshape(-1), ignore_index=ignore_index,
                        label_smoothing=smoothing, reduction="none")
    return y.reshape(labels.shape)


def cross_entropy_slope(x: Any, labels: Any, **attrs: Any) -> Any:
    return pulled(cross_entropy(x, labels, **attrs).sum(), x, None)[0]


def soft_cross_entropy(x: Any, q: Any) -> Any:
    return F.cross_entropy(x.reshape(-1, x.shape[-1]), q.reshape(-1, x.shape[-1]),
                           reduction="none").reshape(x.shape[:-1])


def gru_cell(xp: Any, h: Any, w_hh: Any, b_hh: Any = None) -> Any:
    """The input is projected already: PyTorch's own projection is the identity."""
    return torch.gru_cell(xp, h, torch.eye(xp.shape[-1]).double(), w_hh, None if b_hh is None
                          else torch.zeros_like(b_hh), b_hh)


def rnn_cell(xp: Any, h: Any, w_hh: Any, b_hh: Any = None, nonlinearity: str = "tanh") -> Any:
    cell = torch.rnn_tanh_cell if nonlinearity == "tanh" else torch.rnn_relu_cell
    return cell(xp, h, torch.eye(xp.shape[-1]).double(), w_hh, None if b_hh is None else torch.zeros_like(b_hh), b_hh)


def lstm_cell(xp: Any, h: Any, c: Any, w_hh: Any) -> Any:
    return torch.lstm_cell(xp, (h, c), torch.eye(xp.shape[-1]).double(), w_hh)


@by("numpy")
def prod_gradient(g: Any, x: Any, axes: Any) -> Any:
    """Each element's product of all others along the axes, one by one."""
    kept = [a for a in range(x.ndim) if a not in axes]
    lines = np.transpose(x, (*kept, *axes)).reshape(-1, int(np.prod([x.shape[a] for a in axes])))
    others = np.array([[np.prod(np.delete(line, i).astype(np.float64)) for i in range(len(line))] for line in lines])
    order = np.argsort((*kept, *axes))
    return g * np.transpose(others.reshape([x.shape[a] for a in (*kept, *axes)]), order)


def damped(init: Any, xs: Any, step: Any, reverse: bool = False) -> Any:
    """The state that halves and takes x, unrolled: sums of x by powers of 1/2."""
    xs = xs.flip(0) if reverse else xs
    states = [init / 2**t + sum(xs[j] / 2 ** (t - 1 - j) for j in range(t)) for t in range(len(xs) + 1)]
    squares = torch.stack([s * s for s in states[:-1]])
    return states[-1], squares.flip(0) if reverse else squares


def first_maxima(x: Any, axis: int) -> Any:
    """PyTorch gives the last of equal ones; draws have none."""
    y = torch.cummax(x, axis)
    return y.values, y.indices


def cumulative(x: Any, how: str, out: str, reverse: bool) -> Any:
    run = {"SUM": torch.cumsum, "PRODUCT": torch.cumprod, "LOGADDEXP": torch.logcumsumexp,
           "MAXIMUM": lambda x, axis: torch.cummax(x, axis).indices}[how]
    return run(x.flip(1), 1).flip(1) if reverse else run(x, 1)


RULES = {
    "cumsum": torch.cumsum, "cumprod": torch.cumprod, "logcumsumexp": torch.logcumsumexp, "cummax": first_maxima,
    "cumulative": cumulative,
    "prod_gradient": prod_gradient,
    "sum": lambda x, axes: torch.sum(x, tuple(axes), keepdim=True), "max": _single(lambda x, a: torch.max(x, a).values),
    "min": _single(lambda x, a: torch.min(x, a).values), "prod": _single(torch.prod), "argmax": _single(torch.argmax),
    "argmin": _single(torch.argmin),
    "logsumexp": lambda x, axes: torch.logsumexp(x, tuple(axes)), "mean": lambda x, axes: torch.mean(x, tuple(axes)),
    "var": lambda x, axes: torch.var(x, tuple(axes), correction=0),
    "std": lambda x, axes, keepdims=False, ddof=0: torch.std(x, axes, correction=ddof, keepdim=keepdims),
    "log_variance": lambda x, axis: torch.log(torch.var(x, axis, correction=0) + 1e-8),
    "norm": lambda x: torch.linalg.vector_norm(x),
    "euclidean_norm": lambda x, axes: torch.linalg.vector_norm(x, dim=tuple(axes), keepdim=True),
    "any": lambda x, axes: torch.any(x, axes),
    "all": lambda x, axes: torch.all(x, axes), "scan": damped, "matmul": torch.matmul, "linear": F.linear,
    "softmax": lambda x, axis: F.softmax(x, axis), "log_softmax": lambda x, axis: F.log_softmax(x, axis),
    "softmax_gradient": lambda g, y, axis: aten._softmax_backward_data(g, y, axis, torch.float64),
    "log_softmax_gradient": lambda g, y, axis: aten._log_softmax_backward_data(g, y, axis, torch.float64),
    "layer_norm": lambda x, g, b, eps: F.layer_norm(x, x.shape[-1:], g, b, eps),
    "layer_norm_gradient": layer_norm_gradient,
    "layer_norm_parameter_gradient": layer_norm_parameter_gradient,
    "rms_norm": lambda x, g, eps: F.rms_norm(x, x.shape[-1:], g, eps),
    "rms_norm_gradient": rms_norm_gradient, "rms_norm_parameter_gradient": rms_norm_parameter_gradient,
    "standardize_affine": lambda x, gamma, beta, axes, eps: standardize(x, axes, eps) * gamma + beta,
    "standardize_groups": lambda x, gamma, beta, eps: standardize(x, (2, 3), eps) * gamma + beta,
    "standardize": standardize, "standardize_gradient": standardize_gradient, "batch_norm_train": batch_norm_train,
    "instance_norm": lambda x: F.instance_norm(x), "group_norm": lambda x, num_groups: F.group_norm(x, num_groups),
    "cross_entropy": cross_entropy, "cross_entropy_slope": cross_entropy_slope,
    "soft_cross_entropy": soft_cross_entropy,
    "gru_cell": gru_cell, "rnn_cell": rnn_cell, "lstm_cell": lstm_cell,
}

RNG = np.random.default_rng(23)


def draw(*shape: int) -> Any:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


TIED = np.array([[1, 3, 3, -2], [0, 0, 0, 0], [-5, -1, -1, -7]], np.float32)
MORE = {
    **{n: [More([TIED], dict(axes=(1,))), More([TIED], dict(axes=(0, 1)))] for n in ("max", "min", "argmax", "argmin")},
    "cumprod": [More([np.array([[2, -3, 0, 4], [1, 0, 5, 0], [1, 2, 3, 4]], np.float32)], dict(axis=1))],
    "norm": [More([np.array([[3e25, -4e25], [0, 0]], np.float32)], slopes=False), More([np.zeros((2, 2), np.float32)])],
    "any": [More([np.array([[0, 0], [0, -1], [2, 3]], np.float32)], dict(axes=1))],
    "all": [More([np.array([[0, 0], [0, -1], [2, 3]], np.float32)], dict(axes=1))],
    "prod": [More([np.array([[2, -3, 0.5], [0, 4, -1], [0, 0, 3]], np.float32)], dict(axes=(1,)))],
    "prod_gradient": [More([np.float32([[1], [-2], [0.5]]),
                            np.array([[2, -3, 0.5], [0, 4, -1], [0, 0, 3]], np.float32)], dict(axes=(1,)))],
    "rnn_cell": [More([draw(3, 4), draw(3, 4), draw(4, 4), draw(4)], dict(nonlinearity="relu"), "scan.rnn_cell")],
    "gru_cell": [More([draw(3, 12), draw(3, 4), draw(12, 4), draw(12)], {}, "scan.gru_cell")],
}
