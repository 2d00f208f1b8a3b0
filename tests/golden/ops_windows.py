"""Views, convolution and pooling, and their gradients: each (inputs, attributes) -> output. Attributes are those of
clnet's own ops.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rules import More, pulled

CONV, TRANSPOSED, POOL = ({d: getattr(F, f"{n}{d}d") for d in (1, 2, 3)}
                          for n in ("conv", "conv_transpose", "max_pool"))


def padded(x: Any, low: Any, high: Any, value: float = 0.0) -> Any:
    """x with its last axes padded (PyTorch names them from the last)."""
    return F.pad(x, [n for pair in reversed(list(zip(low, high, strict=True))) for n in pair], value=value)


def cut(x: Any, low: Any, n: Any) -> Any:
    """`n` elements from `low` on, along the last axes."""
    for axis, (a, m) in enumerate(zip(low, n, strict=True), x.ndim - len(n)):
        x = x.narrow(axis, a, m)
    return x


# --- convolution
def conv(x: Any, w: Any, stride: Any, low: Any, high: Any, dilation: Any, groups: int) -> Any:
    return CONV[len(stride)](padded(x, low, high), w, None, stride, 0, dilation, groups)


def conv_data_gradient(g: Any, w: Any, size: Any, groups: int, **how: Any) -> Any:
    x = torch.zeros(g.shape[0], w.shape[1] * groups, *size, dtype=g.dtype, requires_grad=True)
    return pulled(conv(x, w, groups=groups, **how), x, g)[0]


def conv_weight_gradient(g: Any, x: Any, size: Any, groups: int, **how: Any) -> Any:
    w = torch.zeros(g.shape[1], x.shape[1] // groups, *size, dtype=g.dtype, requires_grad=True)
    return pulled(conv(x, w, groups=groups, **how), w, g)[0]


def conv_transpose(x: Any, w: Any, stride: int = 1, padding: int = 0, output_padding: int = 0) -> Any:
    return F.conv_transpose2d(x, w, None, stride, padding, output_padding)


# --- pooling
def _winners(x: Any, size: Any, stride: Any, low: Any, high: Any, dilation: Any) -> Any:
    return POOL[len(size)](padded(x, low, high, -math.inf), size, stride, 0, dilation, return_indices=True)


def max_pool(x: Any, **how: Any) -> Any:
    return _winners(x, **how)[0]


def max_pool_index(x: Any, size: Any, stride: Any, low: Any, high: Any, dilation: Any) -> Any:
    """PyTorch numbers the elements of the padded input: taken back to the offset within the window."""
    flat = _winners(x.detach(), size, stride, low, high, dilation)[1].numpy()
    whole = [n + a + b for n, a, b in zip(x.shape[2:], low, high, strict=True)]
    at = np.unravel_index(flat, whole)
    corner = np.meshgrid(*(np.arange(p) * s for p, s in zip(flat.shape[2:], stride, strict=True)), indexing="ij")
    return torch.from_numpy(np.ravel_multi_index([(h - c) // d for h, c, d in zip(at, corner, dilation, strict=True)],
                                                 size))


def max_pool_gradient(g: Any, index: Any, n: Any, size: Any, stride: Any, low: Any, high: Any, dilation: Any) -> Any:
    whole = [m + a + b for m, a, b in zip(n, low, high, strict=True)]
    offset = np.unravel_index(index.numpy().astype(np.int64), size)
    corner = np.meshgrid(*(np.arange(p) * s for p, s in zip(index.shape[2:], stride, strict=True)), indexing="ij")
    flat = np.ravel_multi_index([c + k * d for c, k, d in zip(corner, offset, dilation, strict=True)], whole)
    x = torch.zeros(*g.shape[:2], math.prod(whole), dtype=g.dtype).scatter_add(
        2, torch.from_numpy(flat).flatten(2), g.flatten(2))
    return cut(x.unflatten(2, whole), low, n)


def sum_pool(x: Any, size: Any, stride: Any, low: Any, high: Any, dilation: Any) -> Any:
    """A convolution with ones, channel by channel."""
    ones = torch.ones(x.shape[1], 1, *size, dtype=x.dtype)
    return CONV[len(size)](padded(x, low, high), ones, None, stride, 0, dilation, x.shape[1])


def sum_pool_gradient(g: Any, n: Any, **how: Any) -> Any:
    x = torch.zeros(*g.shape[:2], *n, dtype=g.dtype, requires_grad=True)
    return pulled(sum_pool(x, **how), x, g)[0]


# --- views
def crop(x: Any, start: Any, size: Any, step: Any) -> Any:
    for axis, (a, m, s) in enumerate(zip(start, size, step, strict=True)):
        x = x.index_select(axis, torch.arange(m) * s + a)
    return x


def pad(x: Any, low: Any, high: Any, inner: Any, value: float) -> Any:
    for axis, between in enumerate(inner):
        gap = torch.full_like(x.narrow(axis, 0, 1), value).repeat_interleave(between, axis)
        x = torch.cat([piece for row in x.split(1, axis) for piece in (gap, row)][1:], axis)
    return padded(x, low, high, value)


def windows(x: Any, size: Any, stride: Any, dilation: Any) -> Any:
    first = x.ndim - len(size)
    for axis, (k, s, d) in enumerate(zip(size, stride, dilation, strict=True), first):
        x = x.unfold(axis, d * (k - 1) + 1, s)[..., ::d]
    return x


def _taps(size: Any) -> list[tuple[Any, Any]]:
    """Each offset of a window, with the kernel that is 1 there alone."""
    taps = []
    for k in np.ndindex(*size):
        delta = torch.zeros(1, 1, *size, dtype=torch.float64)
        delta[(0, 0, *k)] = 1
        taps.append((k, delta))
    return taps


def diagonal(x: Any, out: Any, stride: Any, dilation: Any) -> Any:
    """Offset k of every window of x[…, k]: a convolution with a one at k."""
    d, size = len(out), x.shape[-len(out) :]
    found = [cut(CONV[d](x[(..., *k)].reshape(-1, 1, *x.shape[-2 * d : -d]), w, None, stride, 0, dilation), (0,) * d,
                 out) for k, w in _taps(size)]
    return torch.stack(found, -1).reshape(*x.shape[: -2 * d], *out, *size)


def spread(x: Any, n: Any, size: Any, stride: Any, dilation: Any) -> Any:
    """The transposed convolutions with a one at k."""
    d = len(n)
    found = []
    for k, w in _taps(size):
        y = TRANSPOSED[d](x[(..., *k)].reshape(-1, 1, *x.shape[-2 * d : -d]), w, None, stride, 0, 0, 1, dilation)
        found.append(padded(y, (0,) * d, [m - have for m, have in zip(n, y.shape[2:], strict=True)]))
    return torch.stack(found, -1).reshape(*x.shape[: -2 * d], *n, *size)


RULES = {
    "after": lambda x, first: x.clone(), "checkpoint": lambda x, region: x.clone(),
    "reshape": lambda x, shape: x.reshape(shape), "permute": lambda x, order: x.permute(*order),
    "expand": lambda x, shape: x.expand(shape),
    "flip": lambda x, axes: x.flip(tuple(axes)), "crop": crop, "pad": pad,
    "concat": lambda *xs, axis: torch.cat(xs, axis), "windows": windows,
    "unspread": diagonal, "spread": spread, "conv": conv, "conv_data_gradient": conv_data_gradient,
    "conv_weight_gradient": conv_weight_gradient,
    "conv_transpose": conv_transpose, "max_pool": max_pool, "max_pool_index": max_pool_index,
    "max_pool_gradient": max_pool_gradient,
    "sum_pool": sum_pool, "sum_pool_gradient": sum_pool_gradient, "avg_pool": lambda x, size: F.avg_pool2d(x, size),
}

RNG = np.random.default_rng(29)


def draw(*shape: int) -> Any:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


# Few values: most windows have ties; −∞ padding must not win over them, and of NaN and numbers NaN does.
TIED = RNG.integers(-1, 1, (2, 3, 7, 8)).astype(np.float32)
HOLED = np.where(RNG.uniform(size=(1, 2, 6, 6)) < 0.1, np.nan, draw(1, 2, 6, 6)).astype(np.float32)
OVERLAP = dict(size=(3, 3), stride=(2, 2), low=(1, 1), high=(1, 1), dilation=(1, 1))
MORE = {
    "conv": [More([draw(2, 4, 6, 7), draw(6, 4, 3, 3), draw(6)], dict(stride=2, padding=1), "conv.conv",
                  lambda x, w, b, stride, padding: F.conv2d(x, w, b, stride, padding)),
             More([draw(2, 4, 6, 7), draw(6, 2, 3, 3)], dict(dilation=2, groups=2), "conv.conv",
                  lambda x, w, dilation, groups: F.conv2d(x, w, None, 1, 0, dilation, groups))],
    "conv_transpose": [More([draw(2, 3, 4, 5), draw(3, 4, 3, 3)], dict(stride=2, padding=1, output_padding=1),
                            "conv.conv_transpose")],
    "max_pool": [More([TIED], OVERLAP), More([HOLED], OVERLAP, slopes=False),
                 More([draw(2, 3, 8, 7)], dict(size=(3, 3), stride=2, padding=1), "pool.max_pool",
                 lambda x, size, stride, padding: F.max_pool2d(x, size, stride, padding))],
    "max_pool_index": [More([TIED], OVERLAP)],
    "avg_pool": [More([draw(2, 3, 7, 8)], dict(size=3, stride=2, padding=1, count_include_pad=False), "pool.avg_pool",
                      lambda x, size, stride, padding, count_include_pad: F.avg_pool2d(
                          x, size, stride, padding, count_include_pad=count_include_pad))],
    "windows": [More([draw(2, 9)], dict(size=(3,), stride=(2,)), "view.windows",
                     lambda x, size, stride: x.unfold(1, size[0], stride[0]))],
    "pad": [More([draw(2, 3)], dict(low=(0, 2), high=(1, 0), value=0.75), "view.pad",
                 lambda x, low, high, value: padded(x, low, high, value))],
}
