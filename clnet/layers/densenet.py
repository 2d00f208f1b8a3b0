"""Blocks of densely connected networks: every layer sees all channels before it."""

from __future__ import annotations

from .. import ops as F
from ..config.fields import bound, field, fraction, positive
from ..core.tensor import Tensor
from ..ops.pool import avg_pool
from .base import Layer, New
from .convolution import Conv2d
from .normalisation import BatchNorm
from .utility import Dropout


class DenseBlockUnit(Layer):
    """y = W₂ ∗ relu(BN₂(W₁ ∗ relu(BN₁(x)))): the new channels alone

    x (N, in_channels, H, W), W₁ 1×1 to bn_size · growth_rate, W₂ 3×3, y (N, growth_rate, H, W).
    Dropout on y in training.
    Paper: Huang, Liu, van der Maaten, Weinberger 2017, arXiv:1608.06993.
    """

    spec_name = "DenseBlockLayer"
    family = "blocks"
    in_channels: int | None = bound(doc="channels of the input")
    growth_rate: int = positive(doc="channels of the output")
    bn_size: int = positive(4, doc="channels between the convolutions, times growth_rate")
    dropout: float = fraction(0.0, doc="probability that an element is dropped in training")
    signature = "N in_channels H W -> N growth_rate H W"
    examples = [(dict(in_channels=3, growth_rate=2, bn_size=2), [(2, 3, 3, 4)]),
                (dict(growth_rate=1, dropout=0.4), [(2, 2, 3, 4)])]

    def setup(self, new: New) -> None:
        inner = self.bn_size * self.growth_rate
        self.norm1, self.conv1 = BatchNorm(self.in_channels), Conv2d(self.in_channels, inner, 1, bias=False)
        self.norm2, self.conv2 = BatchNorm(inner), Conv2d(inner, self.growth_rate, 3, padding=1, bias=False)
        self.drop = Dropout(p=self.dropout)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.relu(self.norm1(x)))
        return self.drop(self.conv2(F.relu(self.norm2(y))))


class DenseBlock(Layer):
    """y = [x, y₁, …, y_L], y_l = unit_l([x, y₁, …, y_{l−1}]), each a DenseBlockUnit

    x (N, in_channels, H, W), y (N, in_channels + num_layers · growth_rate, H, W); L = num_layers.
    Paper: Huang, Liu, van der Maaten, Weinberger 2017, arXiv:1608.06993.
    """

    spec_name = "DenseBlock"
    family = "blocks"
    in_channels: int | None = bound(doc="channels of the input")
    num_layers: int = positive(doc="L, number of units")
    growth_rate: int = positive(doc="channels that each unit adds")
    bn_size: int = positive(4, doc="channels inside a unit, times growth_rate")
    signature = "N in_channels H W -> N C2 H W"
    examples = [(dict(in_channels=2, num_layers=2, growth_rate=1, bn_size=2), [(2, 2, 5, 4)])]

    def setup(self, new: New) -> None:
        channels = [(self.in_channels or 0) + k * self.growth_rate for k in range(self.num_layers)]
        self.layers = [DenseBlockUnit(c, self.growth_rate, self.bn_size) for c in channels]

    def forward(self, x: Tensor) -> Tensor:
        for unit in self.layers:
            x = F.concat([x, unit(x)], 1)
        return x


class Transition(Layer):
    """y = mean over 2×2 windows of W ∗ relu(BN(x))

    x (N, in_channels, H, W), W 1×1 to C₂ = max(1, ⌊compression · in_channels⌋) channels,
    y (N, C₂, ⌊H / 2⌋, ⌊W / 2⌋).
    Paper: Huang, Liu, van der Maaten, Weinberger 2017, arXiv:1608.06993.
    """

    spec_name = "TransitionLayer"
    family = "blocks"
    in_channels: int | None = bound(doc="channels of the input")
    compression: float = field(0.5, doc="share of the channels that is left", gt=0, le=1)
    signature = "N in_channels H W -> N C2 H2 W2"
    examples = [(dict(in_channels=4), [(2, 4, 4, 4)])]

    def setup(self, new: New) -> None:
        c = self.in_channels or 0
        self.norm, self.conv = BatchNorm(c), Conv2d(c, max(1, int(c * self.compression)), 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return avg_pool(self.conv(F.relu(self.norm(x))), 2)
