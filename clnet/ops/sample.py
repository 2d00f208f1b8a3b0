"""Reading images between their pixels: bilinear sampling at any coordinates, and convolution over
offsets that are computed.

Derivatives by the coordinates are those of the cell ⌊p⌋ … ⌊p⌋ + 1, also at whole numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arguments import Ints, Padding, Sizes, per_axis
from ..core.autocast import wide
from ..core.formula import composite
from ..core.function import function
from ..core.op import Case, Cotangents, Samples
from ..core.size import real
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ShapeError
from ..kernels.choosers import bilinear_kernel
from .conv import out_sizes, padding_sides
from .index import _gather, _scatter_add
from .joining import stack
from .pointwise import arange, bit_and, cast, clip, detach, equal, floor, ones, where
from .reduce import sum
from .view import permute, reshape


def _samples(*kinds: str) -> Samples:
    """Images, values at points and coordinates, for ops of such operands."""
    def make() -> list[Case]:
        rng = np.random.default_rng(8)
        found = []
        for n, c, h, w, p in ((2, 3, 4, 5, 7), (1, 2, 3, 1, 70), (3, 1, 2, 6, 33)):
            points = [rng.integers(-3, m + 1, (n, p)) + rng.uniform(0.1, 0.9, (n, p)) for m in (w, h)]
            shapes = {"x": (n, c, h, w), "g": (n, c, p)}
            found.append(Case((*(shapes[k] for k in kinds), *(v.astype("float32") for v in points)),
                              dict(size=(h, w)) if "x" not in kinds else {}))
        return found

    return make


def _neighbours(px: Tensor, py: Tensor, h: int, w: int) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers among all pixels of the corners of every point's cell, (2, 2, N, P) down and across, one too large
    outside; how near each is across, and down.
    """
    high_x, high_y = (reshape(arange(n=2, dtype="int64"), shape) for shape in ((1, 2, 1, 1), (2, 1, 1, 1)))
    (fx, ix), (fy, iy) = _cell(px), _cell(py)
    ix, iy, n = ix + high_x, iy + high_y, px.shape[0]
    inside = bit_and(bit_and(ix >= 0, ix < w), bit_and(iy >= 0, iy < h))
    image = reshape(arange(n=n, dtype="int64"), (n, 1)) * (h * w)
    return (where(inside, image + iy * w + ix, n * h * w), where(equal(high_x, 1), fx, 1.0 - fx),
            where(equal(high_y, 1), fy, 1.0 - fy))


def _cell(p: Tensor) -> tuple[Tensor, Tensor]:
    """(place in the cell, the cell's number)"""
    low = detach(floor(p))
    return p - low, cast(low, "int64")


def _corners(x: Tensor, index: Tensor) -> Tensor:
    """x at the corners, (2, 2, N, P, C), 0 outside."""
    n, c, h, w = x.shape
    found = _gather(reshape(permute(x, 0, 2, 3, 1), (1, n * h * w, c)), reshape(index, (index.size,)), fill="zero")
    return reshape(found, (*index.shape, c))


# One gather takes the four neighbours of every point, so the way back is one scatter that adds in a fixed order.
@composite(cl="bilinear.cl", accepts="float", samples=_samples("x"), launch=bilinear_kernel("SAMPLE"))
def _sample_bilinear(x: Tensor, px: Tensor, py: Tensor) -> Tensor:
    """y[n, c, p] = Σ over the neighbours (i, j) of (1 − |py − i|)(1 − |px − j|) · x[n, c, i, j]

    x (N, C, H, W), px and py (N, P) in pixels, in float32 at least: 16 bits would move a point by parts of a pixel.
    Outside lie zeros.
    """
    index, across, down = _neighbours(px, py, *x.shape[2:])
    weight = across * down
    return permute(cast(sum(_corners(x, index) * reshape(weight, (*weight.shape, 1)), (0, 1)), x.dtype), 0, 2, 1)


@_sample_bilinear.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, px: Tensor, py: Tensor) -> Cotangents:
    slopes = _bilinear_points(x, g, px, py)
    return _bilinear_image(g, px, py, size=x.shape[2:]), slopes[0], slopes[1]


@composite(cl="bilinear.cl", accepts="float", samples=_samples("g"), launch=bilinear_kernel("IMAGE"))
def _bilinear_image(g: Tensor, px: Tensor, py: Tensor, *, size: Ints) -> Tensor:
    """dx[n, c, i, j] = Σ over the points p near (i, j) of (1 − |py − i|)(1 − |px − j|) · g[n, c, p]"""
    (n, c, p), (h, w) = g.shape, size
    index, across, down = _neighbours(px, py, h, w)
    terms = reshape(permute(g, 0, 2, 1), (1, 1, n, p, c)) * reshape(across * down, (2, 2, n, p, 1))
    found = _scatter_add(reshape(cast(terms, g.dtype), (1, 4 * n * p, c)), reshape(index, (4 * n * p,)), rows=n * h * w)
    return permute(reshape(found, (n, h, w, c)), 0, 3, 1, 2)


@_bilinear_image.defvjp
def _(u: Tensor, y: Tensor, g: Tensor, px: Tensor, py: Tensor, *, size: Ints) -> Cotangents:
    slopes = _bilinear_points(u, g, px, py)
    return _sample_bilinear(u, px, py), slopes[0], slopes[1]


@composite(cl="bilinear.cl", accepts="float", samples=_samples("x", "g"), launch=bilinear_kernel("POINTS"))
def _bilinear_points(x: Tensor, g: Tensor, px: Tensor, py: Tensor) -> Tensor:
    """(dpx, dpy)[n, p] = Σ over c of g[n, c, p] · the slopes of x[n, c] across and down, in the cell of the point"""
    index, across, down = (reshape(v, (*v.shape, 1)) for v in _neighbours(px, py, *x.shape[2:]))
    found, flow = _corners(x, index[..., 0]), permute(g, 0, 2, 1)
    slopes = (found[:, 1] - found[:, 0]) * down[:, 0], (found[1] - found[0]) * across[0]
    return cast(stack([sum(sum(slope, 0) * flow, -1) for slope in slopes]), px.dtype)


def _near(p: Tensor, n: int, border: bool) -> Tensor:
    """Coordinates that lie at the border of n pixels where they are outside; or that move no further than two cells,
    where they still read nothing.
    """
    return clip(p, 0.0, real(n - 1)) if border else clip(p, -2.0, real(n + 1))


def _read(x: Tensor, px: Tensor, py: Tensor, border: bool = False) -> Tensor:
    """As _sample_bilinear; with `border`, points outside count as the nearest inside."""
    y: Tensor = _sample_bilinear(x, _near(px, x.shape[3], border), _near(py, x.shape[2], border))
    return y


def _pixels(grid: Tensor, n: int, align_corners: bool) -> Tensor:
    """Coordinates of −1 … 1 in pixels: −1 and 1 are the centres of the corner pixels, or their outer edges."""
    return (grid + 1.0) * (0.5 * (n - 1)) if align_corners else ((grid + 1.0) * real(n) - 1.0) * 0.5


def _grid_samples() -> list[Case]:
    return [Case(((2, 3, 4, 5), (2, 3, 2, 2)), dict(padding=p, align_corners=a))
            for p, a in (("zeros", False), ("border", True), ("zeros", True))]


@composite(samples=_grid_samples, accepts="float", domain=(-1.3, 1.3))
def grid_sample(x: Tensor, grid: Tensor, *, padding: str = "zeros", align_corners: bool = False) -> Tensor:
    """y[n, c, i, j] = x[n, c] at the point (grid[n, i, j, 0], grid[n, i, j, 1]) = (across, down), bilinear

    x (N, C, H, W), grid (N, H', W', 2) with −1 … 1 over the image -> (N, C, H', W'). Outside: "zeros", or the nearest
    pixel ("border"). align_corners: −1 and 1 are the centres of the corner pixels, else their outer edges. Raises
    ShapeError, ConfigError.
    """
    if x.ndim != 4 or grid.ndim != 4 or grid.shape[0] != x.shape[0] or grid.shape[3] != 2 or not x.size:
        raise ShapeError(
            "grid_sample: expected x (N, C, H, W), not empty, and grid (N, H', W', 2); "
            f"got {x.shape} and {grid.shape}.")
    arguments.choice("grid_sample", "padding", padding, ("zeros", "border"))
    n, _, h, w = x.shape
    flat = reshape(wide(grid), (n, grid.shape[1] * grid.shape[2], 2))
    y = _read(x, _pixels(flat[..., 0], w, align_corners), _pixels(flat[..., 1], h, align_corners), padding == "border")
    return reshape(y, (n, x.shape[1], *grid.shape[1:3]))


@composite(samples=lambda: [Case(((2, 2, 3),), dict(size=(3, 4))),
                            Case(((1, 2, 3),), dict(size=(1, 3), align_corners=True))], accepts="float")
def _affine_grid(theta: Tensor, *, size: Ints, align_corners: bool = False) -> Tensor:
    """y[n, i, j] = θ[n] · (x_j, y_i, 1), x_j and y_i from −1 to 1 over the image"""
    h, w = size
    across = reshape(_line(w, align_corners, theta.dtype), (1, 1, w, 1))
    down = reshape(_line(h, align_corners, theta.dtype), (1, h, 1, 1))
    column = reshape(theta, (theta.shape[0], 1, 1, 2, 3))
    return across * column[..., 0] + down * column[..., 1] + column[..., 2]


def affine_grid(theta: TensorLike, size: Sizes, align_corners: bool = False) -> Tensor:
    """y[n, i, j] = θ[n] · (x_j, y_i, 1), x_j and y_i from −1 to 1 over the image

    theta (N, 2, 3), size (H, W) -> (N, H, W, 2), what grid_sample reads. align_corners as there. Raises ShapeError.
    Paper: Jaderberg et al. 2015, arXiv:1506.02025.
    """
    theta = as_tensor(theta)
    if theta.ndim != 3 or theta.shape[1:] != (2, 3):
        raise ShapeError(f"affine_grid: expected theta (N, 2, 3); got {theta.shape}.")
    grid: Tensor = _affine_grid(theta, size=per_axis("affine_grid", "size", size, 2, 1, ShapeError),
                                align_corners=bool(align_corners))
    return grid


def _line(n: int, align_corners: bool, dtype: str) -> Tensor:
    i = cast(arange(n=n, dtype="int32"), dtype)
    if align_corners:
        return i * (2.0 / (n - 1)) - 1.0 if n > 1 else i
    return (i * 2.0 + 1.0) / float(n) - 1.0


def warp(x: TensorLike, flow: TensorLike) -> Tensor:
    """y[n, c, i, j] = x[n, c] at (j + flow[n, 0, i, j], i + flow[n, 1, i, j]), bilinear;
    outside counts the nearest pixel

    x (N, C, H, W), flow (N, 2, H, W) in pixels, across and down -> (N, C, H, W). Raises ShapeError.
    """
    x, flow = as_tensor(x), as_tensor(flow)
    if x.ndim != 4 or flow.shape != (x.shape[0], 2, *x.shape[2:]) or 0 in x.shape[1:]:
        raise ShapeError(f"warp: expected x (N, C, H, W) and flow (N, 2, H, W); got {x.shape} and {flow.shape}.")
    n, c, h, w = x.shape
    flow = wide(flow)
    across = cast(arange(n=w, dtype="int32"), flow.dtype)
    down = reshape(cast(arange(n=h, dtype="int32"), flow.dtype), (h, 1))
    return reshape(_read(x, reshape(flow[:, 0] + across, (n, h * w)), reshape(flow[:, 1] + down, (n, h * w)), True),
                   (n, c, h, w))


@function(lambda: [Case(((2, 3, 4, 5), (2, 6), (2, 6))), Case(((1, 2, 3, 3), (1, 2, 4), (1, 2, 4)),
                                                              dict(padding="border"))])
def bilinear(x: TensorLike, px: TensorLike, py: TensorLike, padding: str = "zeros") -> Tensor:
    """y[n, c, …] = x[n, c] at the point px[n, …] across and py[n, …] down, in pixels: the four neighbours by their
    nearness

    x (N, C, H, W), px and py (N, …) -> (N, C, …). Outside: "zeros", or the nearest pixel ("border").
    Raises ShapeError, ConfigError.
    """
    x, px, py = as_tensor(x), wide(as_tensor(px)), wide(as_tensor(py))
    if x.ndim != 4 or not x.size or px.shape != py.shape or px.shape[:1] != x.shape[:1]:
        raise ShapeError("bilinear: expected x (N, C, H, W), not empty, and px and py (N, ...) of one shape; "
                         f"got {x.shape}, {px.shape} and {py.shape}.")
    arguments.choice("bilinear", "padding", padding, ("zeros", "border"))
    n, points = x.shape[0], px.shape[1:]
    y = _read(x, reshape(px, (n, math.prod(points))), reshape(py, (n, math.prod(points))), padding == "border")
    return reshape(y, (n, x.shape[1], *points))


# --- deformable convolution
def _deform_samples() -> list[Case]:
    how: dict[str, Any] = dict(stride=(1, 1), low=(1, 0), dilation=(1, 1))
    return [Case(((1, 2, 3, 4), (1, 8, 4, 3), (1, 4, 4, 3), (3, 2, 2, 2)), dict(how, size=(4, 3))),
            Case(((2, 4, 5, 4), (2, 16, 2, 3), (2, 8, 2, 3), (4, 2, 2, 2)),
                 dict(stride=(2, 1), low=(0, 0), dilation=(2, 1), size=(2, 3)))]


@composite(samples=_deform_samples, accepts="float")
def _deform_conv(x: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, *, size: Ints, stride: Ints, low: Ints,
                 dilation: Ints) -> Tensor:
    """y[n, o, p] = Σ over c, k of w[o, c, k] · mask[n, k, p] · x[n, c]
    at p · stride + k · dilation − low + offset[n, k, p], bilinear, 0 outside

    x (N, C, H, W), offset (N, 2 G K, *size) with (down, across) of every group and tap, mask (N, G K, *size),
    weight (O, C / groups, *kernel).
    """
    n, c, h, w = x.shape
    o, cg, kh, kw = weight.shape
    k, p = kh * kw, math.prod(size)
    groups, deformed = c // cg, mask.shape[1] // k
    moved = reshape(wide(offset), (n, deformed, kh, kw, 2, *size))
    start = [_starts(j, kernel, size, stride, low, dilation, moved.dtype) for j, kernel in enumerate((kh, kw))]
    py, px = (reshape(moved[:, :, :, :, j] + start[j], (n * deformed, k * p)) for j in range(2))
    found = _read(reshape(x, (n * deformed, c // deformed, h, w)), px, py)
    found = reshape(found, (n, deformed, c // deformed, k, p)) * reshape(mask, (n, deformed, 1, k, p))
    columns = reshape(found, (n, groups, cg * k, p))
    return reshape(reshape(weight, (1, groups, o // groups, cg * k)) @ columns, (n, o, *size))


def _starts(axis: int, kernel: int, size: Ints, stride: Ints, low: Ints, dilation: Ints, dtype: str) -> Tensor:
    """Where the taps lie without offsets, along one axis: broadcastable to (kh, kw, *size)."""
    taps = reshape(arange(n=kernel, dtype="int32"), (kernel, *(1,) * (3 - axis)))
    places = reshape(arange(n=size[axis], dtype="int32"), (size[axis], *(1,) * (1 - axis)))
    return cast(places * stride[axis] + taps * dilation[axis] - low[axis], dtype)


def deform_conv(x: TensorLike, offset: TensorLike, weight: TensorLike, bias: TensorLike | None = None,
                mask: TensorLike | None = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1) -> Tensor:
    """y[n, o, p] = b[o] + Σ over c, k of w[o, c, k] · mask[n, k, p] · x[n, c]
    at p · stride + k · dilation − padding + offset[n, k, p], bilinear, 0 outside

    x (N, C, H, W), offset (N, 2 G kh kw, H', W') with (down, across) of each of G groups of channels and each tap,
    mask (N, G kh kw, H', W') or None (1), weight (O, C / groups, kh, kw), bias (O) -> (N, O, H', W').
    Raises ShapeError, ConfigError.
    Paper: Dai et al. 2017, arXiv:1703.06211; Zhu et al. 2019, arXiv:1811.11168.
    """
    x, offset, weight = as_tensor(x), as_tensor(offset), as_tensor(weight)
    if (x.ndim != 4 or weight.ndim != 4 or 0 in weight.shape or x.shape[1] % weight.shape[1]
            or weight.shape[0] % (x.shape[1] // weight.shape[1])):
        raise ShapeError(
            "deform_conv: expected x (N, C, H, W) and weight (O, C / groups, kh, kw); "
            f"got {x.shape} and {weight.shape}.")
    kernel, k = weight.shape[2:], math.prod(weight.shape[2:])
    stride, dilation = (per_axis("deform_conv", name, v, 2, 1)
                        for name, v in (("stride", stride), ("dilation", dilation)))
    low, high = padding_sides("deform_conv", padding, kernel, stride, dilation)
    size = out_sizes(x.shape[2:], kernel, stride=stride, low=low, high=high, dilation=dilation)
    deformed = offset.shape[1] // (2 * k) if offset.ndim == 4 else 0
    if (any(n < 1 for n in size) or not deformed or x.shape[1] % deformed
            or offset.shape != (x.shape[0], 2 * deformed * k, *size)):
        raise ShapeError(
            f"deform_conv: expected offset (N, 2 · G · {k}, {size[0]}, {size[1]}), "
            f"G a divisor of {x.shape[1]} channels; got {offset.shape}.")
    wanted = (x.shape[0], deformed * k, *size)
    mask = ones(wanted, x.dtype) if mask is None else as_tensor(mask)
    if mask.shape != wanted:
        raise ShapeError(f"deform_conv: expected mask {wanted}, one for each pair of offsets; got {mask.shape}.")
    y: Tensor = _deform_conv(x, offset, mask, weight, size=size, stride=stride, low=low, dilation=dilation)
    return y if bias is None else y + reshape(as_tensor(bias), (-1, 1, 1))
