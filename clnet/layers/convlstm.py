"""A recurrent layer whose states are images."""

from __future__ import annotations

import math

from .. import ops as F
from ..config.fields import bound, field, positive
from ..core.arguments import per_axis
from ..core.tensor import Tensor
from ..errors import ConfigError, ShapeError
from ..ops.conv import conv
from ..ops.scan import scan
from .base import Layer, New
from .fields import Padding, Size


class ConvLSTM2d(Layer):
    """i, f, g, o = W_x ∗ xₜ + W_h ∗ hₜ₋₁ + b;  cₜ = σ(f) cₜ₋₁ + σ(i) tanh(g);  hₜ = σ(o) tanh(cₜ)

    x (N, T, in_channels, H, W), W_x (4 Hc, in_channels, *kernel), W_h (4 Hc, Hc, *kernel),
    b (4 Hc), y (N, T, Hc, H', W'), or the last step alone with return_sequences=False;
    Hc = hidden_channels. With peepholes i and f also see w_ci cₜ₋₁ and w_cf cₜ₋₁, and o sees w_co cₜ.
    A second and a third input are the initial h and c (N, Hc, H', W').
    Paper: Shi et al. 2015, arXiv:1506.04214.
    """

    spec_name = "ConvLSTMLayer"
    aliases = ("ConvLSTM", "ConvLSTM2D")
    family = "recurrent"
    in_channels: int | None = bound(doc="channels of the input")
    hidden_channels: int = positive(doc="channels of the state and the output")
    kernel_size: Size = field(3, doc="size of both kernels, odd: one number or one per axis")
    padding: Padding = field(
        "same", doc='zeros around the input: a number, one per axis, (low, high) per axis, "same" or "valid"')
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    peephole: bool = field(False, doc="whether the gates see the cell")
    spatial_size: tuple[int, int] | None = field(None, doc="height and width of the state, which peepholes need")
    return_sequences: bool = field(True, doc="whether all steps are returned; else the last")
    return_state: bool = field(False, doc="whether the last h and c are returned too")
    signature = "N T in_channels H W -> N T hidden_channels H2 W2"
    examples = [(dict(in_channels=2, hidden_channels=2), [(1, 2, 2, 3, 4)]),
                (dict(hidden_channels=2, kernel_size=(1, 3), padding=0, peephole=True, spatial_size=(3, 2), bias=False,
                      return_sequences=False),
                 [(2, 2, 1, 3, 4), (2, 2, 3, 2), (2, 2, 3, 2)])]

    def validate(self) -> None:
        per_axis("ConvLSTM2d", "kernel_size", self.kernel_size, 2, 1)
        if self.spatial_size is not None:
            per_axis("ConvLSTM2d", "spatial_size", self.spatial_size, 2, 1)
        if self.peephole and self.spatial_size is None:
            raise ConfigError(
                "ConvLSTM2d(peephole=True): expected spatial_size, the height and width of the state; got none.")

    def setup(self, new: New) -> None:
        h, kernel = self.hidden_channels, per_axis("kernel", "kernel_size", self.kernel_size, 2, 1)
        self.w_x, self.w_h = new.weight(4 * h, self.in_channels or 0, *kernel), new.weight(4 * h, h, *kernel)
        self.bias = new.bias(4 * h, fan_in=h * math.prod(kernel)) if self.use_bias else None
        seen = self.spatial_size if self.peephole else None
        self.w_ci, self.w_cf, self.w_co = (new.weight(h, *seen, fan_in=h * math.prod(kernel)) if seen else None
                                           for _ in range(3))

    def forward(self, x: Tensor, h: Tensor | None = None,
                c: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        n, t = x.shape[:2]
        xp = conv(F.reshape(x, (n * t, *x.shape[2:])), self.w_x, self.bias, padding=self.padding)
        xp = F.permute(F.reshape(xp, (n, t, *xp.shape[1:])), 1, 0, 2, 3, 4)
        want = (n, self.hidden_channels, *xp.shape[3:])
        state = tuple(F.zeros(want, x.dtype) if s is None else s for s in (h, c))
        if any(s.shape != want for s in state) or (self.peephole and self.spatial_size != want[2:]):
            raise ShapeError(
                f"ConvLSTM2d: expected states of shape {want}; got {[s.shape for s in state]}, spatial_size "
                f"{self.spatial_size}.")
        (h, c), ys = scan(self._step, state, xp)
        y = F.permute(ys, 1, 0, 2, 3, 4) if self.return_sequences else h
        return (y, h, c) if self.return_state else y

    def _step(self, state: tuple[Tensor, Tensor], xp: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        h, c = state
        i, f, g, o = F.split(xp + conv(h, self.w_h, padding="same"), 4, 1)
        if self.w_ci is not None and self.w_cf is not None:
            i, f = i + self.w_ci * c, f + self.w_cf * c
        c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
        h = F.sigmoid(o if self.w_co is None else o + self.w_co * c) * F.tanh(c)
        return (h, c), h
