"""Images of which a part is missing or another's: erased boxes, mixtures and boxes of two samples, targets with them.

A sample's partner is the one before it in its batch, whose order is drawn anew every epoch. Of whole numbers as targets
both count, by their shares: Σ λ l(o, y) + (1 − λ) l(o, y′) over Σ λ + (1 − λ); other targets are mixed themselves.
"""

from __future__ import annotations

import math

from .. import ops as F
from ..config.fields import field, positive
from ..core.spec import is_float
from ..core.tensor import Tensor
from ..errors import ConfigError
from .base import Batch, Transform, between, each
from .geometry import ordered


class RandomErasing(Transform):
    """y[n, c, i, j] = value in a box with probability p, else x; the box has h = round √(H W s r) rows and
    w = round √(H W s / r) columns, at most H and W, s ~ U[scale], ln r ~ U[ln ratio], anywhere inside

    x and y (N, C, H, W). Paper: Zhong et al. 2017, arXiv:1708.04896; of squares DeVries and Taylor 2017,
    arXiv:1708.04552 (Cutout).
    """

    aliases = ("erase", "cutout", "erasing")
    numbers = 5
    p: float = field(0.5, doc="probability", ge=0, le=1)
    scale: tuple[float, float] = field((0.02, 0.33), doc="least and largest share of the area")
    ratio: tuple[float, float] = field((0.3, 3.3), doc="least and largest height by width")
    value: float = field(0.0, doc="what the box is filled with")

    def validate(self) -> None:
        if not 0 <= self.scale[0] <= self.scale[1] <= 1:
            raise ConfigError(f"RandomErasing(scale={self.scale}): expected two shares, 0 <= least <= largest <= 1.")
        ordered("RandomErasing", "ratio", self.ratio)

    def forward(self, x: Tensor, *u: Tensor) -> Tensor:
        height, width = x.shape[2:]
        area = between(u[1], *self.scale) * float(height * width)
        ratio = F.exp(between(u[2], math.log(self.ratio[0]), math.log(self.ratio[1])))
        rows, columns = (F.minimum(F.floor(F.sqrt(a) + 0.5), float(n))
                         for a, n in ((area * ratio, height), (area / ratio, width)))
        top, left = (F.minimum(F.floor(v * (n - size + 1.0)), n - size)
                     for v, size, n in ((u[3], rows, height), (u[4], columns, width)))
        box = F.bit_and(_within(top, top + rows, height, 2), _within(left, left + columns, width, 3))
        return F.where(F.bit_and(box, each(u[0]) < self.p), self.value, x)


class MixUp(Transform):
    """y = λ x + (1 − λ) x′, λ ~ Beta(α, α) for each sample, x′ the sample before it

    x and y (N, C, H, W). Paper: Zhang et al. 2017, arXiv:1710.09412.
    """

    aliases = ("mixup",)
    numbers = 3
    mixes = True
    alpha: float = positive(0.2, doc="α; small values mix little")
    p: float = field(1.0, doc="probability that a sample is mixed", ge=0, le=1)

    def forward(self, x: Tensor, *u: Tensor) -> Tensor:
        share = each(self._share(u))
        return x * share + partner(x) * (1.0 - share)

    def apply(self, batch: Batch, *u: Tensor) -> Batch:
        return mixed(batch._replace(x=self.forward(batch.x, *u)), self._share(u))

    def _share(self, u: tuple[Tensor, ...]) -> Tensor:
        return F.where(u[0] < self.p, beta(self.alpha, u[1], u[2]), 1.0)


class CutMix(Transform):
    """y[n, c, i, j] = x′[n, c, i, j] in a box, else x, x′ the sample before it; the box reaches ⌊½ √(1 − λ) H⌋ rows and
    ⌊½ √(1 − λ) W⌋ columns from its centre, which lies anywhere, λ ~ Beta(α, α); the target's share is that of the area

    x and y (N, C, H, W). Paper: Yun et al. 2019, arXiv:1905.04899.
    """

    aliases = ("cutmix",)
    numbers = 5
    mixes = True
    alpha: float = positive(1.0, doc="α; 1 draws shares evenly")
    p: float = field(1.0, doc="probability that a sample is mixed", ge=0, le=1)

    def forward(self, x: Tensor, *u: Tensor) -> Tensor:
        return F.where(self._box(x, u)[0], partner(x), x)

    def apply(self, batch: Batch, *u: Tensor) -> Batch:
        box, share = self._box(batch.x, u)
        found = batch._replace(x=F.where(box, partner(batch.x), batch.x))
        if not batch.pictures:
            return mixed(found, share)
        inside = F.reshape(box, (box.shape[0], *box.shape[2:]))
        return found._replace(targets=tuple(
            F.where(inside if y.ndim == 3 else box, partner(y), y) for y in batch.targets))

    def _box(self, x: Tensor, u: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """(whether a pixel is the partner's (N, 1, H, W), the share (N) that stays)"""
        height, width = x.shape[2:]
        reach = F.sqrt(1.0 - beta(self.alpha, u[1], u[2])) * 0.5
        inside, sizes = [], []
        for v, n, axis in ((u[3], height, 2), (u[4], width, 3)):
            centre, half = F.minimum(F.floor(v * n), n - 1.0), F.floor(reach * n)
            low, high = F.maximum(centre - half, 0.0), F.minimum(centre + half, float(n))
            inside.append(_within(low, high, n, axis))
            sizes.append(high - low)
        mine = u[0] < self.p
        share = 1.0 - sizes[0] * sizes[1] * (1.0 / (height * width))
        return F.bit_and(F.bit_and(*inside), each(mine)), F.where(mine, share, 1.0)


def partner(x: Tensor) -> Tensor:
    """x′[n] = x[n − 1], of the first the last"""
    return F.concat([x[-1:], x[:-1]], 0)


def mixed(batch: Batch, share: Tensor) -> Batch:
    """The targets of a batch whose images were mixed by λ = share (N)."""
    if not batch.targets:
        return batch
    if not is_float(batch.targets[0].dtype):
        before = batch.shares or (F.ones(share.shape) if batch.weight is None else batch.weight,)
        return batch._replace(targets=(*batch.targets, *map(partner, batch.targets)),
                       shares=(*(s * share for s in before), *(partner(s) * (1.0 - share) for s in before)))
    (y,), weight = batch.targets, batch.weight
    beside = F.reshape(share, (-1, *(1,) * (y.ndim - 1))).astype(y.dtype)
    if weight is not None:
        weight = weight * share + partner(weight) * (1.0 - share)
    return batch._replace(targets=(y * beside + partner(y) * (1.0 - beside),), weight=weight)


def beta(alpha: float, u: Tensor, v: Tensor) -> Tensor:
    """½ (1 + c √((1 − q) / (q + (1 − q) c²))) ~ Beta(α, α), q = (1 − u)^(1/α), c = cos 2πv

    u and v ~ U[0, 1) of one shape. Source: Devroye 1996, "Random variate generation in one line of code", WSC '96.
    """
    q, c = F.exp(F.log(1.0 - u) * (1.0 / alpha)), F.cos(v * (2 * math.pi))
    found = (c * F.sqrt((1.0 - q) / (q + (1.0 - q) * c * c + 1e-37)) + 1.0) * 0.5
    return F.clip(found, 0.0, 1.0)  # which rounding may leave, and no share or root may be below 0


def _within(low: Tensor, high: Tensor, n: int, axis: int) -> Tensor:
    """Whether rows (axis 2) or columns (3) lie in [low, high), (N) each: bool (N, 1, n, 1) or (N, 1, 1, n)."""
    place = F.reshape(F.arange(n=n, dtype="float32"), (1, 1, -1, 1) if axis == 2 else (1, 1, 1, -1))
    return F.bit_and(place >= each(low), place < each(high))
