"""Resizing, sampling anywhere, deformable convolution: each (inputs, attributes) -> output."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rules import pulled


def resample(x: Any, rule: str, n: int, m: int) -> Any:
    lines = x.transpose(1, 2)
    if rule == "area":
        y = F.adaptive_avg_pool1d(lines, m)
    elif rule == "nearest":
        y = F.interpolate(lines, m, mode="nearest")
    else:
        y = F.interpolate(lines, m, mode="linear", align_corners=rule == "corners")
    return y.transpose(1, 2)


def resample_adjoint(g: Any, rule: str, n: int, m: int) -> Any:
    x = torch.zeros(g.shape[0], n, g.shape[2], dtype=g.dtype, requires_grad=True)
    return pulled(resample(x, rule, n, m), x, g)[0]


def affine_grid(theta: Any, size: Any, align_corners: bool = False) -> Any:
    return F.affine_grid(theta, [theta.shape[0], 1, *size], align_corners)


def grid_sample(x: Any, grid: Any, padding: str, align_corners: bool) -> Any:
    return F.grid_sample(x, grid, "bilinear", padding, align_corners)


def bilinear(x: Any, px: Any, py: Any, padding: str = "zeros") -> Any:
    """Through coordinates of −1 … 1."""
    grid = torch.stack([2 * px.flatten(1) / (x.shape[3] - 1) - 1, 2 * py.flatten(1) / (x.shape[2] - 1) - 1], -1)
    y = F.grid_sample(x, grid[:, None], "bilinear", padding, True)
    return y.reshape(*x.shape[:2], *px.shape[1:])


def sample_bilinear(x: Any, px: Any, py: Any) -> Any:
    grid = torch.stack([(2 * p + 1) / n - 1 for p, n in ((px, x.shape[3]), (py, x.shape[2]))], -1)
    return F.grid_sample(x, grid[:, None], align_corners=False)[:, :, 0]


def hats(px: Any, py: Any, h: int, w: int) -> list[Any]:
    """How near points are to each row and each column: PyTorch derives grid_sample once only."""
    return [F.relu(1 - (p[..., None] - torch.arange(n).double()).abs()) for p, n in ((py, h), (px, w))]


def bilinear_image(g: Any, px: Any, py: Any, size: Any) -> Any:
    return torch.einsum("ncp,nph,npw->nchw", g, *hats(px, py, *size))


def bilinear_points(x: Any, g: Any, px: Any, py: Any) -> Any:
    y = torch.einsum("nchw,nph,npw->ncp", x, *hats(px, py, *x.shape[2:]))
    return torch.stack(pulled(y, (px, py), g))


def deform_conv(x: Any, offset: Any, mask: Any, weight: Any, stride: Any, low: Any, dilation: Any, size: Any) -> Any:
    """PyTorch's grid_sample tap by tap and offset group by offset group, then the product with the weight group by
    group.
    """
    taps, (height, width) = [divmod(k, weight.shape[3]) for k in range(weight.shape[2] * weight.shape[3])], x.shape[2:]
    count, groups = mask.shape[1] // len(taps), x.shape[1] // weight.shape[1]
    base = torch.meshgrid(*(torch.arange(p).double() * s - a for p, s, a in zip(size, stride, low, strict=True)),
                          indexing="ij")
    columns = []
    for g, part in enumerate(x.chunk(count, 1)):
        sampled = []
        for k, (i, j) in enumerate(taps):
            at = g * len(taps) + k
            down, across = base[0] + i * dilation[0] + offset[:, 2 * at], base[1] + j * dilation[1] + offset[
                :, 2 * at + 1]
            points = torch.stack([2 * across / (width - 1) - 1, 2 * down / (height - 1) - 1], -1)
            sampled.append(F.grid_sample(part, points, align_corners=True) * mask[:, at : at + 1])
        columns.append(torch.stack(sampled, 2))
    table = torch.cat(columns, 1).reshape(len(x), groups, weight.shape[1], len(taps), *size)
    return torch.einsum("ngckpq,gock->ngopq", table, weight.reshape(groups, -1, weight.shape[1], len(taps))).flatten(
        1, 2)


RULES = {
    "bilinear": bilinear, "sample_bilinear": sample_bilinear, "bilinear_image": bilinear_image,
    "bilinear_points": bilinear_points,
    "resample": resample, "resample_adjoint": resample_adjoint, "affine_grid": affine_grid, "grid_sample": grid_sample,
    "deform_conv": deform_conv,
    "pixel_shuffle": lambda x, factor: F.pixel_shuffle(x, factor),
    "adaptive_avg_pool": lambda x, size: F.adaptive_avg_pool2d(x, size),
    "resize": lambda x, size, mode: F.interpolate(x, tuple(size), mode={"linear": "bilinear"}.get(mode, mode)),
}
