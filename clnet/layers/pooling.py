"""Pooling: what a window, or everything, comes to."""

from __future__ import annotations

from typing import ClassVar

from ..config.fields import choice, field
from ..core.arguments import per_axis
from ..core.tensor import Tensor
from ..ops.pool import avg_pool, global_pool, max_pool, max_pool_indices
from ..ops.resize import adaptive_avg_pool
from .base import Layer
from .fields import Amount, Size

IMAGE = "N C H W -> N C H2 W2"


class _Pool(Layer):
    """y[n, c, p] = a fold of x[n, c, p · stride + k · dilation − padding] over the window's offsets k"""

    axes: ClassVar[int] = 2
    kernel_size: Size = field(doc="size of the window, one number or one per axis")
    stride: Size | None = field(None, doc="distance between windows; None: the window")
    padding: Amount = field(0, doc="what is added at both sides, at most half the window")

    def validate(self) -> None:
        for name, least in (("kernel_size", 1), ("stride", 1), ("padding", 0)):
            if getattr(self, name) is not None:
                per_axis(type(self).__name__, name, getattr(self, name), self.axes, least)


class _MaxPool(_Pool):
    """y[n, c, p] = max over k of x[n, c, p · stride + k · dilation − padding]"""

    dilation: Size = field(1, doc="distance between the elements of a window")
    ceil_mode: bool = field(False, doc="whether a last, partial window counts")
    return_indices: bool = field(
        False, doc="whether the place of each maximum is returned too, row-major among the positions of x")

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        how = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
        return (max_pool(x, *how), max_pool_indices(x, *how)) if self.return_indices else max_pool(x, *how)


class MaxPool2d(_MaxPool):
    """y[n, c, p, q] = max over u, v of x[n, c, p · stride + u · dilation − padding, …]; padding counts as −∞

    x (N, C, H, W), y (N, C, H', W'). The gradient goes to the first maximum.
    """

    spec_name = "MaxPoolingLayer"
    aliases = ("MaxPooling", "MaxPooling2D", "MaxPool2D", "max_pool2d")
    signature = IMAGE
    examples = [(dict(kernel_size=2), [(2, 3, 6, 5)]),
                (dict(kernel_size=3, stride=2, padding=1, ceil_mode=True), [(1, 2, 6, 7)])]


class MaxPool3d(_MaxPool):
    """y[n, c, p] = max over k of x[n, c, p · stride + k · dilation − padding]; padding counts as −∞

    x (N, C, D, H, W), y (N, C, D', H', W'). The gradient goes to the first maximum.
    """

    spec_name = "MaxPool3DLayer"
    aliases = ("MaxPool3D", "max_pool3d")
    axes = 3
    signature = "N C D H W -> N C D2 H2 W2"
    examples = [(dict(kernel_size=2), [(1, 2, 4, 4, 5)])]


class AvgPool2d(_Pool):
    """y[n, c, p, q] = mean over u, v of x[n, c, p · stride + u − padding, …]

    x (N, C, H, W), y (N, C, H', W').
    """

    spec_name = "AveragePoolingLayer"
    aliases = ("AveragePooling", "AveragePooling2D", "AvgPool2D", "avg_pool2d")
    ceil_mode: bool = field(False, doc="whether a last, partial window counts")
    count_include_pad: bool = field(True, doc="whether padding counts in the mean")
    signature = IMAGE
    examples = [(dict(kernel_size=2), [(2, 3, 6, 5)]),
                (dict(kernel_size=3, stride=2, padding=1, count_include_pad=False), [(1, 2, 6, 7)])]

    def forward(self, x: Tensor) -> Tensor:
        return avg_pool(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class Pool2d(_Pool):
    """y[n, c, p, q] = max or mean over u, v of x[n, c, p · stride + u − padding, …]

    x (N, C, H, W), y (N, C, H', W').
    """

    spec_name = "PoolingLayer"
    aliases = ("Pooling",)
    mode: str = choice("max", ("max", "avg"), doc="what a window comes to")
    signature = IMAGE
    examples = [(dict(kernel_size=2), [(2, 3, 6, 5)]), (dict(kernel_size=2, mode="avg"), [(2, 3, 6, 5)])]

    def forward(self, x: Tensor) -> Tensor:
        return (max_pool if self.mode == "max" else avg_pool)(x, self.kernel_size, self.stride, self.padding)


class GlobalPool(Layer):
    """y[n, c] = mean, max or sum of x[n, c, …] over all positions

    x (N, C, *S), y (N, C), or (N, C, 1, …) with keepdims.
    Paper: Lin, Chen, Yan 2014, arXiv:1312.4400.
    """

    spec_name = "GlobalPoolingLayer"
    aliases = ("GlobalPooling", "global_pool")
    mode: str = choice("avg", ("avg", "max", "sum"), doc="what the positions come to")
    keepdims: bool = field(False, doc="whether axes of size 1 stay")
    signature = "N C ... -> N C"
    examples = [({}, [(2, 3, 6, 5)]), (dict(mode="max", keepdims=True), [(2, 3, 7)]),
                (dict(mode="sum"), [(2, 3, 6, 5)])]

    def forward(self, x: Tensor) -> Tensor:
        return global_pool(x, self.mode, self.keepdims)


class AdaptiveAvgPool2d(Layer):
    """y[n, c, i, j] = mean of x[n, c, h, w] over ⌊i H / H'⌋ ≤ h < ⌈(i + 1) H / H'⌉, the same for w

    x (N, C, H, W), y (N, C, H', W') with (H', W') = output_size.
    """

    spec_name = "AdaptiveAveragePoolingLayer"
    aliases = ("AdaptiveAveragePooling", "AdaptiveAvgPool2D", "adaptive_avg_pool2d")
    output_size: Size = field((1, 1), doc="height and width of the output, one number or both")
    signature = IMAGE
    examples = [(dict(output_size=(3, 2)), [(2, 3, 7, 4)]), ({}, [(2, 3, 6, 5)])]

    def validate(self) -> None:
        per_axis("AdaptiveAvgPool2d", "output_size", self.output_size, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return adaptive_avg_pool(x, self.output_size)
