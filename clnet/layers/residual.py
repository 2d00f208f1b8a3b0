"""Residual blocks of image networks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .. import ops as F
from ..config.fields import bound, field, positive
from ..core.tensor import Operators, Tensor
from ..ops.activations import activation
from .base import Layer, New
from .convolution import Conv2d
from .fields import Act
from .normalisation import BatchNorm

IMAGE = "N in_channels H W -> N out_channels H2 W2"
FEATURES = "N num_features H W -> N num_features H W"


def conv_norm(c: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> tuple[Conv2d, BatchNorm]:
    """A convolution without bias that keeps the size (over stride), and the normalisation behind it."""
    return Conv2d(c, out, kernel, stride, kernel // 2, groups=groups, bias=False), BatchNorm(out)


def shortcut(c: int, out: int, stride: int) -> tuple[Layer, ...]:
    """What leads past a block: nothing, or a 1×1 convolution where the shape changes."""
    return conv_norm(c, out, 1, stride) if stride != 1 or c != out else ()


def through(layers: Iterable[Layer], x: Tensor) -> Tensor:
    """One after the other."""
    for layer in layers:
        x = layer(x)
    return x


class BasicBlock(Layer):
    """y = relu(BN₂(W₂ ∗ relu(BN₁(W₁ ∗ x))) + s(x)), W₁ with the stride; s(x) = x, or BN(W₃ ∗ x) where the shape changes

    x (N, in_channels, H, W), W₁ and W₂ 3×3, W₃ 1×1 with the stride, y (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉).
    Paper: He, Zhang, Ren, Sun 2016, arXiv:1512.03385.
    """

    spec_name = "BasicBlock"
    family = "blocks"
    in_channels: int | None = bound(doc="channels of the input")
    out_channels: int = positive(doc="channels of the output")
    stride: int = positive(1, doc="distance between windows of the first convolution")
    zero_init_residual: bool = field(True, doc="whether the last scale starts at 0, so that the block starts as s")
    signature = IMAGE
    examples = [(dict(in_channels=2, out_channels=3, stride=2, zero_init_residual=False), [(2, 2, 4, 5)]),
                (dict(out_channels=2), [(2, 2, 3, 4)])]

    def setup(self, new: New) -> None:
        c, out = self.in_channels or 0, self.out_channels
        self.conv1, self.bn1 = conv_norm(c, out, 3, self.stride)
        self.conv2, self.bn2 = conv_norm(out, out, 3)
        self.downsample = shortcut(c, out, self.stride)
        if self.zero_init_residual:
            self.bn2.weight = new.zeros(out, role="normalization")

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + through(self.downsample, x))


class BottleneckBlock(Layer):
    """y = relu(BN₃(W₃ ∗ relu(BN₂(W₂ ∗ relu(BN₁(W₁ ∗ x))))) + s(x)), W₂ with the stride;
    s(x) = x, or BN(W₄ ∗ x) where the shape changes

    x (N, in_channels, H, W), W₁ 1×1 to base_channels, W₂ 3×3, W₃ 1×1 to e = expansion · base_channels,
    y (N, e, ⌈H / stride⌉, ⌈W / stride⌉).
    Paper: He, Zhang, Ren, Sun 2016, arXiv:1512.03385.
    """

    spec_name = "BottleneckBlock"
    aliases = ("Bottleneck",)
    family = "blocks"
    in_channels: int | None = bound(doc="channels of the input")
    base_channels: int = positive(doc="channels between the convolutions")
    stride: int = positive(1, doc="distance between windows of the 3×3 convolution")
    expansion: int = positive(4, doc="channels of the output, times base_channels")
    zero_init_residual: bool = field(True, doc="whether the last scale starts at 0, so that the block starts as s")
    signature = "N in_channels H W -> N e H2 W2"
    examples = [(dict(in_channels=3, base_channels=2, stride=2, expansion=2, zero_init_residual=False), [(2, 3, 4, 5)])]

    def setup(self, new: New) -> None:
        c, base, out = self.in_channels or 0, self.base_channels, self.expansion * self.base_channels
        self.conv1, self.bn1 = conv_norm(c, base)
        self.conv2, self.bn2 = conv_norm(base, base, 3, self.stride)
        self.conv3, self.bn3 = conv_norm(base, out)
        self.downsample = shortcut(c, out, self.stride)
        if self.zero_init_residual:
            self.bn3.weight = new.zeros(out, role="normalization")

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(y)) + through(self.downsample, x))


class SqueezeExcitation(Layer):
    """y = x · gate(W₂ act(W₁ m + b₁) + b₂), m the mean of x over all positions

    x and y (N, channels, *S), W₁ (channels / reduction, channels), W₂ (channels, channels / reduction).
    Paper: Hu, Shen, Albanie, Sun, Wu 2018, arXiv:1709.01507.
    """

    spec_name = "SqueezeAndExcitationLayer"
    aliases = ("SqueezeAndExcitation", "SqueezeExcite", "SEBlock")
    family = "blocks"
    channels: int | None = bound(doc="channels of the input and the output")
    reduction: int = positive(16, doc="how many times fewer features there are between the maps")
    activation: Act = field("relu", doc="name of the function between the maps")
    gate_activation: Act = field("sigmoid", doc="name of the function that makes the gate")
    signature = "N channels ... -> N channels ..."
    examples = [(dict(channels=4, reduction=2), [(2, 4, 3, 5)]),
                (dict(activation="tanh", gate_activation="tanh"), [(3, 5)])]

    def setup(self, new: New) -> None:
        c = self.channels or 0
        few = max(1, c // self.reduction)
        self.w1, self.b1 = new.weight(few, c), new.bias(few, fan_in=c)
        self.w2, self.b2 = new.weight(c, few), new.bias(c, fan_in=few)

    def forward(self, x: Tensor) -> Tensor:
        m = F.mean(x, tuple(range(2, x.ndim))) if x.ndim > 2 else x
        hidden = activation(self.activation)(F.linear(m, self.w1, self.b1))
        gate = activation(self.gate_activation)(F.linear(hidden, self.w2, self.b2))
        return x * F.reshape(gate, (*gate.shape, *(1,) * (x.ndim - 2)))


class InvertedResidual(Layer):
    """y = x + z where stride is 1 and the channels stay, else z;  z = BN(W₃ ∗ SE(act(BN(W₂ ∗ act(BN(W₁ ∗ x))))))

    x (N, in_channels, H, W), W₁ 1×1 to expansion · in_channels (not there if expansion is 1),
    W₂ one kernel for every channel, with the stride, SE a SqueezeExcitation (use_se), W₃ 1×1 to out_channels,
    y (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉).
    Paper: Sandler et al. 2018, arXiv:1801.04381; Howard et al. 2019, arXiv:1905.02244.
    """

    spec_name = "InvertedResidualBlock"
    aliases = ("MBConv",)
    family = "blocks"
    in_channels: int | None = bound(doc="channels of the input")
    out_channels: int = positive(doc="channels of the output")
    stride: int = positive(1, doc="distance between windows of the middle convolution")
    expansion: int = positive(6, doc="how many times more channels there are inside")
    kernel_size: int = positive(3, doc="size of the middle kernel, odd")
    use_se: bool = field(False, doc="whether a SqueezeExcitation follows the middle convolution")
    se_ratio: int = positive(4, doc="its reduction")
    activation: Act = field("relu6", doc="name of the function after the first two normalisations")
    signature = IMAGE
    examples = [(dict(in_channels=2, out_channels=2, expansion=2), [(2, 2, 3, 4)]),
                (dict(out_channels=3, stride=2, expansion=1, kernel_size=5, use_se=True, se_ratio=2,
                      activation="hard_swish"), [(2, 4, 4, 5)])]

    def setup(self, new: New) -> None:
        c = self.in_channels or 0
        inner, at = c * self.expansion, int(self.expansion > 1)
        parts = [conv_norm(c, inner)] if at else []
        parts.append(conv_norm(inner, inner, self.kernel_size, self.stride, inner))
        self.conv = {f"{k}.{j}": layer for k, part in enumerate(parts) for j, layer in enumerate(part)}
        self.conv |= {str(len(parts) + j): layer for j, layer in enumerate(conv_norm(inner, self.out_channels))}
        self.se = SqueezeExcitation(inner, self.se_ratio) if self.use_se else None

    def forward(self, x: Tensor) -> Tensor:
        layers, act = list(self.conv.values()), activation(self.activation)
        *inside, last, norm = layers
        y = x
        for layer, normalised in zip(inside[::2], inside[1::2], strict=True):
            y = act(normalised(layer(y)))
        y = norm(last(y if self.se is None else self.se(y)))
        return x + y if self.stride == 1 and x.shape[1] == self.out_channels else y


class RepConv2d(Layer):
    """y = act(BN₃(W₃ ∗ x) + BN₁(W₁ ∗ x) + BN(x)), the last where the shape stays;
    in evaluation one convolution: act(b + W ∗ x)

    x (N, in_channels, H, W), W₃ 3×3 and W₁ 1×1 (out_channels, in_channels / groups),
    y (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉). With s = γ / √(σ² + ε) of each branch W = Σ s · W_branch,
    b = Σ β − s μ; the last branch's W is the identity.
    Paper: Ding et al. 2021, arXiv:2101.03697.
    """

    spec_name = "RepConv2d"
    aliases = ("RepVGGBlock",)
    family = "blocks"
    in_channels: int | None = bound(doc="channels of the input")
    out_channels: int = positive(doc="channels of the output")
    stride: int = positive(1, doc="distance between windows")
    groups: int = positive(1, doc="groups of channels that do not mix")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = IMAGE
    examples = [(dict(in_channels=4, out_channels=4, groups=2), [(2, 4, 3, 4)]),
                (dict(out_channels=3, stride=2, activation="tanh"), [(2, 2, 4, 3)])]

    def setup(self, new: New) -> None:
        c, out = self.in_channels or 0, self.out_channels
        self.conv3, self.bn3 = conv_norm(c, out, 3, self.stride, self.groups)
        self.conv1, self.bn1 = conv_norm(c, out, 1, self.stride, self.groups)
        self.bn = BatchNorm(c) if self.stride == 1 and c == out else None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            weight, bias = self.fused()
            return activation(self.activation)(F.conv(x, weight, bias, self.stride, 1, groups=self.groups))
        y = self.bn3(self.conv3(x)) + self.bn1(self.conv1(x))
        return activation(self.activation)(y if self.bn is None else y + self.bn(x))

    def fused(self) -> tuple[Any, Any]:
        """(W, b) of the one convolution that evaluation runs."""
        w3, w1 = self.conv3.weight, self.conv1.weight
        branches = [(w3, self.bn3), (_centred(w1), self.bn1)]
        if self.bn is not None:
            out, c = w1.shape[:2]
            own = F.equal(F.reshape(F.arange(n=out, dtype="int32") % c, (out, 1)), F.arange(n=c, dtype="int32"))
            branches.append((_centred(F.reshape(F.cast(own, w1.dtype), w1.shape)), self.bn))
        weight: Tensor | float = 0.0
        bias: Tensor | float = 0.0
        for w, norm in branches:
            assert norm.weight is not None and norm.bias is not None
            scale = norm.weight * F.rsqrt(norm.running_var + norm.eps)
            weight, bias = weight + w * F.reshape(scale, (-1, 1, 1, 1)), bias + (norm.bias - norm.running_mean * scale)
        return weight, bias


def _centred(w: Operators) -> Tensor:
    """A 1×1 kernel in the middle of a 3×3 one."""
    return F.pad(w, (0, 0, 1, 1), (0, 0, 1, 1))


class ResidualDenseBlock(Layer):
    """y = x + s · x₅, x_k = act(W_k ∗ [x, x₁, …, x_{k−1}] + b_k), act leaky but the identity for x₅

    x and y (N, num_features, H, W), W_k 3×3 to growth_channels, W₅ to num_features; s = residual_scale.
    Paper: Wang et al. 2018, arXiv:1809.00219.
    """

    spec_name = "ResidualDenseBlock"
    aliases = ("RDB",)
    family = "blocks"
    num_features: int = positive(64, doc="channels of the input and the output")
    growth_channels: int = positive(32, doc="channels that each of the first four convolutions adds")
    residual_scale: float = field(0.2, doc="s, share of the branch")
    negative_slope: float = field(0.2, doc="slope of act below zero", ge=0)
    signature = FEATURES
    examples = [(dict(num_features=2, growth_channels=1), [(1, 2, 2, 2)])]

    def setup(self, new: New) -> None:
        f, g = self.num_features, self.growth_channels
        self.convs = [Conv2d(f + k * g, g if k < 4 else f, 3, padding=1) for k in range(5)]
        for conv in self.convs:
            shape = conv.weight.shape
            conv.weight = new.normal(*shape, std=0.1 * math.sqrt(2 / math.prod(shape[1:])))
            conv.bias = new.zeros(shape[0])

    def forward(self, x: Tensor) -> Tensor:
        known = [x]
        for conv in self.convs[:-1]:
            known.append(F.leaky_relu(conv(F.concat(known, 1)), self.negative_slope))
        return x + self.residual_scale * self.convs[-1](F.concat(known, 1))


class RRDB(ResidualDenseBlock):
    """y = x + s · RDB₃(RDB₂(RDB₁(x))), each a ResidualDenseBlock

    x and y (N, num_features, H, W); s = residual_scale.
    Paper: Wang et al. 2018, arXiv:1809.00219.
    """

    spec_name = "RRDBLayer"
    family = "blocks"
    examples = [(dict(num_features=2, growth_channels=1), [(1, 2, 2, 2)])]

    def setup(self, new: New) -> None:
        own = (self.num_features, self.growth_channels, self.residual_scale, self.negative_slope)
        self.rdb = [ResidualDenseBlock(*own) for _ in range(3)]

    def forward(self, x: Tensor) -> Tensor:
        return x + self.residual_scale * through(self.rdb, x)
