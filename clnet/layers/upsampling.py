"""Upsampling: larger images by repetition, by interpolation, or by moving channels into space."""

from __future__ import annotations

import math

from ..config.bounded import PositiveFloat, PositiveInt
from ..config.fields import bound, choice, field, positive
from ..core.arguments import per_axis
from ..core.tensor import Tensor
from ..errors import ConfigError
from ..ops.activations import activation
from ..ops.conv import conv
from ..ops.resize import pixel_shuffle, resize, sizes_of
from .base import Layer, New
from .fields import Act, Amount, Size

Factor = PositiveInt | PositiveFloat | tuple[PositiveInt | PositiveFloat, ...]


class Upsample2d(Layer):
    """y[n, c, i, j] = x[n, c, ⌊i H / H'⌋, ⌊j W / W'⌋], or bilinear between the neighbours
    of ((2 i + 1) H / H' − 1) / 2 and the same across

    x (N, C, H, W), y (N, C, H', W') with H' = ⌊H · scale_factor⌋, or (H', W') = size.
    With align_corners the places are i (H − 1) / (H' − 1).
    """

    spec_name = "UpsamplingLayer"
    aliases = ("Upsampling", "UpSampling2D", "Upsample", "upsample")
    scale_factor: Factor = field(2, doc="how many times larger, one number or one per axis")
    size: Size | None = field(None, doc="height and width of the output, in place of scale_factor")
    mode: str = choice("nearest", ("nearest", "bilinear"), doc="what lies between the pixels")
    align_corners: bool = field(False, doc="whether bilinear corners keep their values")
    signature = "N C H W -> N C H2 W2"
    examples = [({}, [(2, 3, 3, 4)]), (dict(scale_factor=(2, 3), mode="bilinear"), [(2, 2, 3, 4)]),
                (dict(size=(5, 7), mode="bilinear", align_corners=True), [(1, 2, 3, 4)]),
                (dict(size=(5, 3)), [(1, 2, 3, 4)])]

    def validate(self) -> None:
        _check_factor("Upsample2d", self.scale_factor, 2)
        if self.size is not None:
            per_axis("Upsample2d", "size", self.size, 2, 1)
        if self.align_corners and self.mode == "nearest":
            raise ConfigError("Upsample2d(align_corners=True): expected mode 'bilinear' for it; got 'nearest'.")

    def forward(self, x: Tensor) -> Tensor:
        size = self.size or sizes_of(x.shape, self.scale_factor)
        return resize(x, size, "nearest" if self.mode == "nearest" else "linear", self.align_corners)


class Upsample3d(Layer):
    """y[n, c, i, j, k] = x[n, c, ⌊i D / D'⌋, ⌊j H / H'⌋, ⌊k W / W'⌋], or trilinear between the neighbours
    of ((2 i + 1) D / D' − 1) / 2, …

    x (N, C, D, H, W), y (N, C, D', H', W') with D' = ⌊D · scale_factor⌋, ….
    """

    spec_name = "Upsample3DLayer"
    aliases = ("Upsample3D", "UpSampling3D")
    scale_factor: Factor = field(2, doc="how many times larger, one number or one per axis")
    mode: str = choice("nearest", ("nearest", "trilinear"), doc="what lies between the voxels")
    signature = "N C D H W -> N C D2 H2 W2"
    examples = [({}, [(1, 2, 2, 3, 2)]), (dict(scale_factor=(2, 1, 3), mode="trilinear"), [(1, 2, 2, 3, 2)])]

    def validate(self) -> None:
        _check_factor("Upsample3d", self.scale_factor, 3)

    def forward(self, x: Tensor) -> Tensor:
        return resize(x, sizes_of(x.shape, self.scale_factor), "nearest" if self.mode == "nearest" else "linear")


def _check_factor(who: str, factor: float | tuple[float, ...], d: int) -> None:
    if isinstance(factor, tuple) and len(factor) != d:
        raise ConfigError(f"{who}: expected scale_factor to be one number or {d}; got {factor}.")


class PixelShuffle(Layer):
    """y[n, c, h · r + i, w · r + j] = x[n, c · r² + i · r + j, h, w], r = upscale_factor

    x (N, C r², H, W), y (N, C, H r, W r).
    Paper: Shi et al. 2016, arXiv:1609.05158.
    """

    spec_name = "PixelShuffleLayer"
    aliases = ("pixel_shuffle",)
    upscale_factor: int = positive(doc="r")
    signature = "N C H W -> N C2 H2 W2"
    examples = [(dict(upscale_factor=2), [(2, 8, 3, 2)]), (dict(upscale_factor=3), [(1, 9, 2, 3)])]

    def forward(self, x: Tensor) -> Tensor:
        return pixel_shuffle(x, self.upscale_factor)


class SubpixelConv2d(Layer):
    """y[n, o, h · r + i, w · r + j] = act((b + W ∗ x)[n, o · r² + i · r + j, h, w]), r = upscale_factor

    x (N, in_channels, H, W), W (out_channels · r², in_channels, *kernel), b (out_channels · r²),
    y (N, out_channels, H r, W r) where the padding keeps the size, which it does if left out and the kernel is odd.
    Paper: Shi et al. 2016, arXiv:1609.05158.
    """

    spec_name = "SubpixelConvolutionalLayer"
    aliases = ("SubpixelConvolutional", "SubpixelConv2D")
    in_channels: int | None = bound(doc="channels of the input")
    out_channels: int = positive(doc="channels of the output")
    upscale_factor: int = positive(doc="r")
    kernel_size: Size = field(3, doc="size of the kernel, one number or one per axis")
    padding: Amount | None = field(None, doc="zeros at both sides, one number or one per axis; None: half the kernel")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "N in_channels H W -> N out_channels H2 W2"
    examples = [(dict(in_channels=2, out_channels=2, upscale_factor=2), [(2, 2, 3, 4)]),
                (dict(out_channels=1, upscale_factor=3, kernel_size=(1, 3), bias=False, activation="tanh"),
                 [(1, 2, 3, 2)])]

    def kernel(self) -> tuple[int, ...]:
        return per_axis("SubpixelConv2d", "kernel_size", self.kernel_size, 2, 1)

    def validate(self) -> None:
        self.kernel()
        if self.padding is not None:
            per_axis("SubpixelConv2d", "padding", self.padding, 2, 0)

    def setup(self, new: New) -> None:
        out, fan_in = self.out_channels * self.upscale_factor**2, (self.in_channels or 0) * math.prod(self.kernel())
        self.weight = new.weight(out, self.in_channels or 0, *self.kernel())
        self.bias = new.bias(out, fan_in=fan_in) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        padding = tuple(k // 2 for k in self.kernel()) if self.padding is None else self.padding
        y = conv(x, self.weight, self.bias, padding=padding)
        return activation(self.activation)(pixel_shuffle(y, self.upscale_factor))
