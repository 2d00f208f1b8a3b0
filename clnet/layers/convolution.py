"""Convolutions (cross-correlation, as everyone writes it) and their adjoint."""

from __future__ import annotations

import math
from typing import ClassVar

from ..config.fields import bound, field, positive
from ..core.arguments import per_axis
from ..core.tensor import Tensor
from ..errors import ConfigError
from ..ops.activations import activation
from ..ops.conv import conv, conv_transpose
from ..ops.pointwise import sigmoid
from ..ops.sample import deform_conv
from .base import Layer, New
from .fields import Act, Amount, Padding, Size
from .normalisation import BatchNorm


def _check_windows(layer: Layer, axes: int = 2) -> None:
    for name in ("kernel_size", "stride", "dilation"):
        per_axis(type(layer).__name__, name, getattr(layer, name), axes, 1)


def _check_groups(layer: _Conv | ConvTranspose2d | DeformConv2d) -> None:
    if layer.out_channels % layer.groups or (layer.in_channels or 0) % layer.groups:
        raise ConfigError(f"{type(layer).__name__}: expected channels that are multiples of groups = {layer.groups}; "
                          f"got {layer.in_channels} in, {layer.out_channels} out.")


class _Windows(Layer):
    """What slides over an image, whatever it makes of a window."""

    axes: ClassVar[int] = 2
    in_channels: int | None = bound(doc="channels of the input")
    out_channels: int = positive(doc="channels of the output")
    kernel_size: Size = field(doc="size of the kernel, one number or one per axis")
    stride: Size = field(1, doc="distance between windows")
    padding: Padding = field(
        0, doc='zeros at both sides: a number, one per axis, (low, high) per axis, "same" or "valid"')
    dilation: Size = field(1, doc="distance between the elements of a window")

    def validate(self) -> None:
        _check_windows(self, self.axes)


class _Conv(_Windows):
    """y[n, o, p] = act(b[o] + Σ over c, k of W[o, c, k] · x[n, c, p · stride + k · dilation − padding])"""

    groups: int = positive(1, doc="groups of channels that do not mix")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")

    def validate(self) -> None:
        super().validate()
        _check_groups(self)

    def weight_shape(self) -> tuple[int, ...]:
        self.validate()
        return (self.out_channels, (self.in_channels or 0) // self.groups,
                *per_axis("kernel", "kernel_size", self.kernel_size, self.axes, 1))

    def setup(self, new: New) -> None:
        shape = self.weight_shape()
        self.weight = new.weight(*shape)
        self.bias = new.bias(self.out_channels, fan_in=math.prod(shape[1:])) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = conv(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        return activation(self.activation)(y)


class Conv1d(_Conv):
    """y[n, o, p] = act(b[o] + Σ over c, k of W[o, c, k] · x[n, c, p · stride + k · dilation − padding])

    x (N, in_channels, L), W (out_channels, in_channels / groups, kernel), b (out_channels), y (N, out_channels, L').
    """

    spec_name = "Conv1DLayer"
    aliases = ("Conv1D", "conv1d")
    axes = 1
    signature = "N in_channels L -> N out_channels L2"
    examples = [(dict(in_channels=3, out_channels=4, kernel_size=3, padding=1), [(2, 3, 9)]),
                (dict(out_channels=2, kernel_size=2, stride=2, bias=False), [(1, 3, 8)])]


class Conv2d(_Conv):
    """y[n, o, p, q] = act(b[o] + Σ over c, u, v of W[o, c, u, v] · x[n, c, p · stride + u · dilation − padding, …])

    x (N, in_channels, H, W), W (out_channels, in_channels / groups, *kernel), b (out_channels),
    y (N, out_channels, H', W').
    Paper: LeCun, Bottou, Bengio, Haffner 1998, Proceedings of the IEEE 86.
    """

    spec_name = "ConvolutionalLayer"
    aliases = ("Conv2D", "conv2d", "Conv2DLayer", "Convolutional")
    signature = "N in_channels H W -> N out_channels H2 W2"
    examples = [(dict(in_channels=3, out_channels=4, kernel_size=3, padding=1), [(2, 3, 6, 5)]),
                (dict(out_channels=4, kernel_size=(3, 2), stride=(2, 1), groups=2, bias=False), [(2, 4, 6, 5)]),
                (dict(out_channels=3, kernel_size=3, padding="same", dilation=2, activation="relu"), [(1, 2, 6, 5)])]


class DilatedConv2d(Conv2d):
    """y[n, o, p, q] = act(b[o] + Σ over c, u, v of W[o, c, u, v] · x[n, c, p · stride + 2u − padding, …])

    Shapes of Conv2d.
    Paper: Yu, Koltun 2016, arXiv:1511.07122.
    """

    spec_name = "DilatedConvolutionalLayer"
    dilation: Size = field(2, doc="distance between the elements of a window")
    examples = [(dict(in_channels=2, out_channels=3, kernel_size=3, padding=2), [(2, 2, 6, 5)])]


class Conv3d(_Conv):
    """y[n, o, p] = act(b[o] + Σ over c, k of W[o, c, k] · x[n, c, p · stride + k · dilation − padding])

    x (N, in_channels, D, H, W), W (out_channels, in_channels / groups, *kernel), b (out_channels),
    y (N, out_channels, D', H', W').
    Paper: Ji, Xu, Yang, Yu 2013, IEEE TPAMI 35.
    """

    spec_name = "Conv3DLayer"
    aliases = ("Conv3D", "conv3d")
    axes = 3
    signature = "N in_channels D H W -> N out_channels D2 H2 W2"
    examples = [(dict(in_channels=2, out_channels=3, kernel_size=2, padding=1, stride=2), [(2, 2, 3, 4, 5)])]


class ConvTranspose2d(Layer):
    """y[n, o, h · stride + u · dilation − padding, …] = act(b[o] + Σ over c of W[c, o, u, v] · x[n, c, h, w])

    x (N, in_channels, H, W), W (in_channels, out_channels / groups, *kernel), b (out_channels),
    y (N, out_channels, H', W') with H' = (H − 1) stride − 2 padding + dilation (kernel − 1) + output_padding + 1:
    the adjoint of Conv2d.
    Paper: Zeiler, Krishnan, Taylor, Fergus 2010, CVPR.
    """

    spec_name = "DeconvolutionalLayer"
    aliases = ("Deconvolutional", "Conv2DTranspose", "conv_transpose2d")
    in_channels: int | None = bound(doc="channels of the input")
    out_channels: int = positive(doc="channels of the output")
    kernel_size: Size = field(doc="size of the kernel, one number or one per axis")
    stride: Size = field(1, doc="distance between the places of neighbouring inputs in the output")
    padding: Amount = field(0, doc="what is cut off at both sides, a number or one per axis")
    output_padding: Amount = field(0, doc="what is added at the end, below stride or dilation")
    dilation: Size = field(1, doc="distance between the elements of the kernel")
    groups: int = positive(1, doc="groups of channels that do not mix")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "N in_channels H W -> N out_channels H2 W2"
    examples = [(dict(in_channels=3, out_channels=4, kernel_size=3, stride=2, padding=1, output_padding=1),
                 [(2, 3, 4, 3)]),
                (dict(out_channels=2, kernel_size=2, groups=2, bias=False), [(1, 4, 3, 3)])]

    def validate(self) -> None:
        for name, least in (("kernel_size", 1), ("stride", 1), ("dilation", 1), ("padding", 0), ("output_padding", 0)):
            per_axis(type(self).__name__, name, getattr(self, name), 2, least)
        _check_groups(self)

    def setup(self, new: New) -> None:
        self.validate()
        shape = (self.out_channels // self.groups, *per_axis("kernel", "kernel_size", self.kernel_size, 2, 1))
        self.weight = new.weight(self.in_channels or 0, *shape)
        self.bias = new.bias(self.out_channels, fan_in=math.prod(shape)) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = conv_transpose(x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.dilation,
                           self.groups)
        return activation(self.activation)(y)


class _Separable(_Windows):
    """y = act(b + Σ over channels of W₂ · (W₁ ∗ x)): a kernel of its own for every channel,
    then a map of the channels
    """

    kernel_size: Size = field(3, doc="size of the kernel, one number or one per axis")
    signature = "N in_channels H W -> N out_channels H2 W2"

    def weights(self, new: New, multiplier: int, bias: bool) -> None:
        inner, kernel = (self.in_channels or 0) * multiplier, per_axis("kernel", "kernel_size", self.kernel_size, 2, 1)
        self.depthwise, self.pointwise = new.weight(inner, 1, *kernel), new.weight(self.out_channels, inner, 1, 1)
        self.bias = new.bias(self.out_channels, fan_in=inner) if bias else None

    def depth(self, x: Tensor) -> Tensor:
        return conv(x, self.depthwise, None, self.stride, self.padding, self.dilation, self.in_channels or 1)

    def point(self, x: Tensor) -> Tensor:
        return conv(x, self.pointwise, self.bias)


class DepthwiseSeparableConv2d(_Separable):
    """y[n, o, p, q] = act(norm₂(b[o] + Σ over c of W₂[o, c]
    · mid(norm₁(Σ over u, v of W₁[c, u, v] · x[n, c, p · stride + u · dilation − padding, …]))))

    x (N, in_channels, H, W), W₁ "depthwise" (in_channels, 1, *kernel), W₂ "pointwise" (out_channels, in_channels, 1,
    1), b (out_channels), y (N, out_channels, H', W'). With norm a BatchNorm follows each convolution and there is no b;
    the block of MobileNet is norm=True, mid_activation="relu", activation="relu".
    Paper: Howard et al. 2017, arXiv:1704.04861.
    """

    spec_name = "DepthwiseSeparableConvolutionalLayer"
    aliases = ("DepthwiseSeparableConvolutional", "DepthwiseSeparableConv2D")
    norm: bool = field(False, doc="whether a BatchNorm follows each convolution, in place of b")
    mid_activation: Act = field(None, doc="name of the function between the convolutions; None: identity")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_channels=3, out_channels=4, padding=1), [(2, 3, 5, 4)]),
                (dict(out_channels=3, kernel_size=(3, 2), stride=2, norm=True, mid_activation="relu",
                      activation="relu"), [(3, 2, 6, 7)])]

    def setup(self, new: New) -> None:
        self.weights(new, 1, self.use_bias and not self.norm)
        self.norm1 = BatchNorm(num_features=self.in_channels) if self.norm else None
        self.norm2 = BatchNorm(num_features=self.out_channels) if self.norm else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(x)
        y = self.point(activation(self.mid_activation)(self.norm1(y) if self.norm1 else y))
        return activation(self.activation)(self.norm2(y) if self.norm2 else y)


class SeparableConv2d(_Separable):
    """y[n, o, p, q] = act(b[o] + Σ over c, j of W₂[o, c m + j]
    · Σ over u, v of W₁[c m + j, u, v] · x[n, c, p · stride + u · dilation − padding, …])

    x (N, in_channels, H, W), m = depth_multiplier, W₁ "depthwise" (in_channels · m, 1, *kernel), W₂ "pointwise"
    (out_channels, in_channels · m, 1, 1), b (out_channels), y (N, out_channels, H', W').
    Paper: Chollet 2017, arXiv:1610.02357.
    """

    spec_name = "SeparableConvolutionalLayer"
    aliases = ("SeparableConvolutional", "SeparableConv2D")
    depth_multiplier: int = positive(1, doc="m, filters for each channel of the input")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_channels=3, out_channels=4, depth_multiplier=2), [(2, 3, 5, 4)]),
                (dict(out_channels=3, kernel_size=2, padding="same", dilation=2, bias=False, activation="tanh"),
                 [(1, 2, 5, 4)])]

    def setup(self, new: New) -> None:
        self.weights(new, self.depth_multiplier, self.use_bias)

    def forward(self, x: Tensor) -> Tensor:
        return activation(self.activation)(self.point(self.depth(x)))


class DeformConv2d(_Windows):
    """y[n, o, p] = b[o] + Σ over c, k of W[o, c, k] · m[n, k, p] · x[n, c]
    at p · stride + k · dilation − padding + Δ[n, k, p], bilinear, 0 outside

    Δ = conv(x) (down and across for every tap), m = σ(conv(x)), or 1 if not modulated; both convolutions start at zero.
    x (N, in_channels, H, W), W (out_channels, in_channels / groups, *kernel), b (out_channels),
    y (N, out_channels, H', W'). Each of offset_groups parts of the channels has offsets of its own.
    Paper: Dai et al. 2017, arXiv:1703.06211; Zhu et al. 2019, arXiv:1811.11168.
    """

    spec_name = "DeformableConvolutionalLayer"
    aliases = ("DeformableConvolutional", "DeformableConv2D", "deform_conv2d")
    kernel_size: Size = field(3, doc="size of the kernel, one number or one per axis")
    padding: Padding = field(
        1, doc='zeros at both sides: a number, one per axis, (low, high) per axis, "same" or "valid"')
    groups: int = positive(1, doc="groups of channels that do not mix")
    offset_groups: int = positive(1, doc="parts of the channels with offsets of their own")
    modulated: bool = field(True, doc="whether m is there")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    offset_std: float = field(
        0.0, doc="deviation of the first weights of the two predictors; 0: a plain convolution at first", ge=0)
    signature = "N in_channels H W -> N out_channels H2 W2"
    examples = [(dict(in_channels=2, out_channels=3, kernel_size=2, padding=(1, 0), offset_std=0.3), [(1, 2, 3, 4)]),
                (dict(out_channels=4, kernel_size=(2, 1), stride=(1, 2), padding=0, groups=2, offset_groups=2,
                      modulated=False, bias=False, offset_std=0.2), [(2, 4, 3, 4)])]

    def validate(self) -> None:
        super().validate()
        _check_groups(self)
        if (self.in_channels or 0) % self.offset_groups:
            raise ConfigError(
                f"DeformConv2d: expected input channels that are a multiple of offset_groups = {self.offset_groups}; "
                f"got {self.in_channels}.")

    def setup(self, new: New) -> None:
        self.validate()
        kernel = per_axis("kernel", "kernel_size", self.kernel_size, 2, 1)
        shape = (self.out_channels, (self.in_channels or 0) // self.groups, *kernel)
        self.weight = new.weight(*shape)
        self.bias = new.bias(self.out_channels, fan_in=math.prod(shape[1:])) if self.use_bias else None
        taps = self.offset_groups * math.prod(kernel)
        self.offset = self._predictor(new, 2 * taps)
        self.mask = self._predictor(new, taps) if self.modulated else None

    def _predictor(self, new: New, channels: int) -> Conv2d:
        layer = Conv2d(self.in_channels, channels, self.kernel_size, self.stride, self.padding, self.dilation)
        layer.weight, layer.bias = new.normal(*layer.weight.shape, std=self.offset_std), new.zeros(channels)
        return layer

    def forward(self, x: Tensor) -> Tensor:
        mask = sigmoid(self.mask(x)) if self.mask else None
        return deform_conv(x, self.offset(x), self.weight, self.bias, mask, self.stride, self.padding, self.dilation)
