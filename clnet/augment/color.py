"""Images whose colours change: brightness, contrast, saturation, hue, and none at all.

Pixels lie in [0, 1]; grey is 0.2989 R + 0.587 G + 0.114 B (ITU-R BT.601).
"""

from __future__ import annotations

from .. import ops as F
from ..config.fields import field
from ..core.tensor import Tensor
from .base import Transform, between, each

LUMA = (0.2989, 0.587, 0.114)


class ColorJitter(Transform):
    """y = hue(saturation(contrast(brightness(x)))), each clipped to [0, 1]: f x; f x + (1 − f) mean(grey(x));
    f x + (1 − f) grey(x); the hue h + d of hue, saturation and value; f ~ U[max(0, 1 − a), 1 + a], d ~ U[−hue, hue]

    x and y (N, C, H, W) in [0, 1], of 1 channel (then grey alone: brightness and contrast) or red, green and blue. a is
    the field of each; 0 leaves it as it is.
    """

    aliases = ("color", "colour")
    numbers = 4
    channels = (1, 3)
    unit = True
    brightness: float = field(0.2, doc="a of brightness", ge=0)
    contrast: float = field(0.2, doc="a of contrast", ge=0)
    saturation: float = field(0.2, doc="a of saturation", ge=0)
    hue: float = field(0.0, doc="largest turn of the hue, as a share of the circle", ge=0, le=0.5)

    def forward(self, x: Tensor, *u: Tensor) -> Tensor:
        colored = x.shape[1] == 3
        if self.brightness:
            x = F.clip(x * _factor(u[0], self.brightness), 0.0, 1.0)
        if self.contrast:
            x = _blended(x, F.mean(grey(x), (1, 2, 3), keepdims=True), _factor(u[1], self.contrast))
        if self.saturation and colored:
            x = _blended(x, grey(x), _factor(u[2], self.saturation))
        return _turned(x, each(between(u[3], -self.hue, self.hue))) if self.hue and colored else x


class RandomGrayscale(Transform):
    """y[n, c] = 0.2989 x[n, 0] + 0.587 x[n, 1] + 0.114 x[n, 2] with probability p, else x

    x and y (N, 3, H, W); of 1 channel as they are.
    """

    aliases = ("grayscale", "greyscale", "grey", "gray")
    channels = (1, 3)
    p: float = field(0.1, doc="probability", ge=0, le=1)

    def forward(self, x: Tensor, *u: Tensor) -> Tensor:
        return F.where(each(u[0]) < self.p, grey(x), x)


def grey(x: Tensor) -> Tensor:
    """(N, 3, H, W) -> (N, 1, H, W); of 1 channel as it is."""
    if x.shape[1] == 1:
        return x
    red, green, blue = (x[:, k : k + 1] * share for k, share in enumerate(LUMA))
    return red + green + blue


def _factor(u: Tensor, a: float) -> Tensor:
    return each(between(u, max(0.0, 1 - a), 1 + a))


def _blended(x: Tensor, other: Tensor, f: Tensor) -> Tensor:
    return F.clip(x * f + other * (1.0 - f), 0.0, 1.0)


def _turned(x: Tensor, d: Tensor) -> Tensor:
    """The hue h of (h, s, v) turned by d of a whole circle: channel k is v − v s max(0, min(q, 4 − q, 1)),
    q = (5, 3, 1)[k] + 6 h modulo 6.
    """
    red, green, blue = (x[:, k : k + 1] for k in range(3))
    value, least = F.max(x, 1, keepdims=True), F.min(x, 1, keepdims=True)
    span = value - least
    safe = F.where(span > 0.0, span, 1.0)
    sixth = F.where(F.equal(value, red), (green - blue) / safe,
                    F.where(F.equal(value, green), (blue - red) / safe + 2.0, (red - green) / safe + 4.0))
    sixth = sixth + d * 6.0
    found = []
    for start in (5.0, 3.0, 1.0):
        q = sixth + start
        q = q - F.floor(q * (1 / 6)) * 6.0
        found.append(value - span * F.clip(F.minimum(q, 4.0 - q), 0.0, 1.0))
    return F.concat(found, 1)
