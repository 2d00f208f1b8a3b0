"""Networks that make and judge images: super-resolution, its discriminator, optical flow."""

from __future__ import annotations

from itertools import pairwise

from .. import ops as F
from ..config.bounded import PositiveInt
from ..config.fields import choice, field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.pool import avg_pool
from ..ops.resize import pixel_shuffle, resize
from ..ops.sample import warp
from .base import Layer, New
from .convolution import Conv2d
from .normalisation import SpectralNorm
from .residual import RRDB

SLOPE = 0.2  # of the leaky functions below zero


class RRDBNet(Layer):
    """f = W₁ ∗ x;  f ← f + W₂ ∗ RRDB_n(… RRDB₁(f));  for each factor of 2 f ← act(W_u ∗ up(f));
    y = W_l ∗ act(W_h ∗ f), act leaky

    x (N, in_channels, H, W), all kernels 3×3 with bias, y (N, out_channels, H · scale, W · scale). up repeats pixels,
    or W_u makes four times the channels and a pixel shuffle follows.
    Paper: Wang et al. 2018, arXiv:1809.00219; Wang et al. 2021, arXiv:2107.10833.
    """

    spec_name = "RRDBNetGenerator"
    in_channels: int = positive(3, doc="channels of the input")
    out_channels: int = positive(3, doc="channels of the output")
    num_features: int = positive(64, doc="channels inside")
    growth_channels: int = positive(32, doc="channels that the convolutions of a block add")
    num_blocks: int = positive(23, doc="n, number of RRDB")
    scale: int = choice(4, (1, 2, 4), doc="how many times larger the output is")
    residual_scale: float = field(0.2, doc="share of the branches of a block")
    upsample: str = choice("nearest", ("nearest", "pixelshuffle"), doc="what makes the image larger")
    signature = "N in_channels H W -> N out_channels H2 W2"
    examples = [(dict(in_channels=1, out_channels=1, num_features=2, growth_channels=1, num_blocks=1, scale=2),
                 [(1, 1, 2, 2)]),
                (dict(in_channels=1, out_channels=1, num_features=2, growth_channels=1, num_blocks=1, scale=2,
                      upsample="pixelshuffle"), [(1, 1, 2, 2)])]

    def setup(self, new: New) -> None:
        f, more = self.num_features, 4 if self.upsample == "pixelshuffle" else 1
        self.conv_first = Conv2d(self.in_channels, f, 3, padding=1)
        self.blocks = [RRDB(f, self.growth_channels, self.residual_scale) for _ in range(self.num_blocks)]
        self.conv_body = Conv2d(f, f, 3, padding=1)
        self.conv_up = [Conv2d(f, f * more, 3, padding=1) for _ in range(self.scale // 2)]
        self.conv_hr, self.conv_last = Conv2d(f, f, 3, padding=1), Conv2d(f, self.out_channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        f = y = self.conv_first(x)
        for block in self.blocks:
            y = block(y)
        f = f + self.conv_body(y)
        for conv in self.conv_up:
            if self.upsample == "nearest":
                f = conv(resize(f, (2 * f.shape[2], 2 * f.shape[3])))
            else:
                f = pixel_shuffle(conv(f), 2)
            f = F.leaky_relu(f, SLOPE)
        return self.conv_last(F.leaky_relu(self.conv_hr(f), SLOPE))


class UNetDiscriminator(Layer):
    """x₀ = act(W₀ ∗ x);  x_i = act(D_i ∗ x_{i−1}) down to x_B;  u ← act(U_i ∗ up(u)) + x_{i−1} from u = x_B;
    y = W ∗ act(V₂ ∗ act(V₁ ∗ u)), act leaky

    x (N, in_channels, H, W), y (N, 1, H, W), how real each pixel is [logit].
    D_i 4×4 with stride 2, the others 3×3, up bilinear; D, U and V without bias and spectrally normalised.
    H and W are multiples of 2^B, B = num_blocks. Raises ShapeError.
    Paper: Wang et al. 2021, arXiv:2107.10833.
    """

    spec_name = "UNetDiscriminator"
    in_channels: int = positive(3, doc="channels of the input")
    num_features: int = positive(64, doc="channels at full size; twice as many at half of it")
    num_blocks: int = positive(3, doc="B, how often the size is halved")
    skip: bool = field(True, doc="whether the way down is added to the way up")
    spectral_norm: bool = field(True, doc="whether D, U and V are spectrally normalised")
    signature = "N in_channels H W -> N 1 H W"
    examples = [(dict(in_channels=1, num_features=2, num_blocks=1), [(1, 1, 4, 2)]),
                (dict(in_channels=2, num_features=1, num_blocks=2, skip=False, spectral_norm=False), [(1, 2, 4, 4)])]

    def setup(self, new: New) -> None:
        f, sizes = self.num_features, [self.num_features * 2**i for i in range(self.num_blocks + 1)]
        self.conv_first = Conv2d(self.in_channels, f, 3, padding=1)
        self.down = [self._conv(a, b, 4, 2) for a, b in pairwise(sizes)]
        self.up = [self._conv(b, a, 3, 1) for a, b in pairwise(sizes)]
        self.conv_body = [self._conv(f, f, 3, 1) for _ in range(2)]
        self.conv_last = Conv2d(f, 1, 3, padding=1)

    def _conv(self, c: int, out: int, kernel: int, stride: int) -> Layer:
        layer = Conv2d(c, out, kernel, stride, 1, bias=False)
        return SpectralNorm(layer) if self.spectral_norm else layer

    def forward(self, x: Tensor) -> Tensor:
        if any(n % 2**self.num_blocks for n in x.shape[2:]):
            raise ShapeError(
                f"UNetDiscriminator: expected H and W to be multiples of {2**self.num_blocks}; got {x.shape[2:]}; "
                "pad the images.")
        y = F.leaky_relu(self.conv_first(x), SLOPE)
        passed = []
        for conv in self.down:
            passed.append(y)
            y = F.leaky_relu(conv(y), SLOPE)
        for conv, other in zip(reversed(self.up), reversed(passed), strict=True):
            y = F.leaky_relu(conv(resize(y, other.shape[2:], "linear")), SLOPE)
            y = y + other if self.skip else y
        for conv in self.conv_body:
            y = F.leaky_relu(conv(y), SLOPE)
        return self.conv_last(y)


class SpyNet(Layer):
    """From coarse to fine:  v ← 2 · up(v);  v ← v + net([a, warp(b, v), v]),
    a and b the frames at that size, v = 0 at first

    Frames a and b (N, in_channels, H, W), as two inputs or joined along the channels, y = v (N, 2, H, W),
    the motion from a to b across and down [pixels]. Each level halves the size by 2×2 means and has a net of its own:
    convolutions to `channels`, then to 2, relu between. Sizes that are no multiples of 2^(num_levels − 1) are resized
    to one, and the motion back.
    Paper: Ranjan, Black 2017, arXiv:1611.00850.
    """

    spec_name = "SpyNetLayer"
    aliases = ("SPyNet",)
    in_channels: int = positive(3, doc="channels of a frame")
    num_levels: int = positive(5, doc="sizes at which the motion is improved")
    channels: tuple[PositiveInt, ...] = field((32, 64, 32, 16), doc="channels between the convolutions of a level")
    kernel_size: int = positive(7, doc="size of every kernel, odd")
    signature = "N C H W, N C H W -> N 2 H W"
    examples = [(dict(in_channels=1, num_levels=2, channels=(2, 3), kernel_size=3), [(1, 1, 4, 6), (1, 1, 4, 6)]),
                (dict(in_channels=1, num_levels=2, channels=(2,), kernel_size=3), [(1, 2, 3, 4)])]

    def setup(self, new: New) -> None:
        sizes = (2 * self.in_channels + 2, *self.channels, 2)
        self.nets = [_Level(sizes, self.kernel_size) for _ in range(self.num_levels)]

    def forward(self, a: Tensor, b: Tensor | None = None) -> Tensor:
        if b is None:
            a, b = F.split(a, 2, 1)
        if a.shape != b.shape or a.shape[1] != self.in_channels:
            raise ShapeError(
                f"SpyNet: expected two frames (N, {self.in_channels}, H, W), or one tensor of both; got {a.shape} and "
                f"{b.shape}.")
        size, step = a.shape[2:], 2 ** (self.num_levels - 1)
        whole = tuple(-(-n // step) * step for n in size)
        if whole == size:
            return self._flow(a, b)
        v = resize(self._flow(resize(a, whole, "linear"), resize(b, whole, "linear")), size, "linear")
        return F.concat([v[:, :1] * (size[1] / whole[1]), v[:, 1:] * (size[0] / whole[0])], 1)

    def _flow(self, a: Tensor, b: Tensor) -> Tensor:
        levels = [(a, b)]
        for _ in self.nets[1:]:
            a, b = avg_pool(a, 2), avg_pool(b, 2)
            levels.append((a, b))
        coarsest, *finer = zip(self.nets, reversed(levels), strict=True)
        net, (a, b) = coarsest
        v: Tensor = net(F.concat([a, b, F.zeros((a.shape[0], 2, *a.shape[2:]), a.dtype)], 1))
        for net, (a, b) in finer:
            v = 2.0 * resize(v, a.shape[2:], "linear", align_corners=True)
            v = v + net(F.concat([a, warp(b, v), v], 1))
        return v


class _Level(Layer):
    """y = W_k ∗ relu(… relu(W₁ ∗ x))"""

    sizes: tuple[PositiveInt, ...] = field(doc="channels from the input to the output")
    kernel_size: int = positive(doc="size of every kernel")

    def setup(self, new: New) -> None:
        self.convs = [Conv2d(c, out, self.kernel_size, padding=self.kernel_size // 2)
                      for c, out in pairwise(self.sizes)]

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.convs[:-1]:
            x = F.relu(conv(x))
        return self.convs[-1](x)
