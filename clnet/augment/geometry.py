"""Images whose pixels move: flipped, shifted, cut, turned. Every image keeps its size.

Targets that are pictures move with them; there the nearest pixel is read, for classes have nothing between them.
"""

from __future__ import annotations

import math

from .. import ops as F
from ..config.fields import choice, field
from ..core.spec import is_float
from ..core.tensor import Tensor
from ..errors import ConfigError, ShapeError
from .base import Batch, Transform, between, each


class Moving(Transform, abstract=True):
    """Pixels move; targets that are pictures with them."""

    def moved(self, x: Tensor, u: tuple[Tensor, ...], target: bool = False) -> Tensor:
        """The images of x; or targets (N, c, H, W), of which no value lies between two, with 0 where they have nothing.
        """
        raise NotImplementedError(f"{type(self).__name__}.moved")

    def forward(self, x: Tensor, *u: Tensor) -> Tensor:
        return self.moved(x, u)

    def apply(self, batch: Batch, *u: Tensor) -> Batch:
        if not batch.pictures:
            return super().apply(batch, *u)
        n, _, height, width = batch.x.shape
        found = []
        for y in batch.targets:
            whole = y if is_float(y.dtype) else y.astype("float32")  # exact up to 2²⁴ classes
            there = self.moved(F.reshape(whole, (n, -1, height, width)), u, True)
            found.append(F.reshape(there, y.shape).astype(y.dtype))
        return super().apply(batch, *u)._replace(targets=tuple(found))


class RandomHorizontalFlip(Moving):
    """y[n, c, i, j] = x[n, c, i, W − 1 − j] with probability p, else x

    x and y (N, C, H, W). Where left and right tell classes apart (digits, letters), leave it out.
    """

    aliases = ("flip", "horizontal_flip", "hflip")
    p: float = field(0.5, doc="probability", ge=0, le=1)

    def moved(self, x: Tensor, u: tuple[Tensor, ...], target: bool = False) -> Tensor:
        return F.where(each(u[0]) < self.p, F.flip(x, 3), x)


class RandomVerticalFlip(Moving):
    """y[n, c, i, j] = x[n, c, H − 1 − i, j] with probability p, else x

    x and y (N, C, H, W).
    """

    aliases = ("vertical_flip", "vflip")
    p: float = field(0.5, doc="probability", ge=0, le=1)

    def moved(self, x: Tensor, u: tuple[Tensor, ...], target: bool = False) -> Tensor:
        return F.where(each(u[0]) < self.p, F.flip(x, 2), x)


class RandomCrop(Moving):
    """y[n, c, i, j] = x[n, c, i + a, j + b], a and b whole numbers ~ U{−padding, …, padding}

    x and y (N, C, H, W): what is cut from the image with `padding` pixels around it has the image's size. Outside lies
    `fill`, the nearest pixel ("edge"), or what is seen in a mirror along the edge ("reflect").
    """

    aliases = ("crop",)
    numbers = 2
    padding: int | None = field(None, doc="pixels on each side; None: an eighth of the shorter side", ge=0)
    mode: str = choice("constant", ("constant", "edge", "reflect"), doc="what lies outside")
    fill: float = field(0.0, doc="value outside, of mode constant")

    def check_images(self, shape: tuple[int, ...]) -> None:  # type: ignore[override]
        super().check_images(shape)
        if self.mode == "reflect" and (self.padding or 0) >= min(shape[2:]):
            raise ShapeError(f"RandomCrop(padding={self.padding}, mode='reflect'): expected images larger than their "
                             f"padding; got {shape[2]} x {shape[3]} pixels.")

    def moved(self, x: Tensor, u: tuple[Tensor, ...], target: bool = False) -> Tensor:
        height, width = x.shape[2:]
        p = max(1, min(height, width) // 8) if self.padding is None else self.padding
        down, across = (F.minimum(F.floor(v * (2 * p + 1)), 2.0 * p) - float(p) for v in u)
        return _at(x, self._place(down, height, 2), self._place(across, width, 3), 0.0 if target else self.fill)

    def _place(self, shift: Tensor, n: int, axis: int) -> Tensor:
        """Where rows or columns are read, (N, H, 1) or (N, 1, W)."""
        place = _line(n, axis) + F.reshape(shift, (-1, 1, 1))
        if self.mode == "edge":
            return F.clip(place, 0.0, float(n - 1))
        return n - 1.0 - F.abs(n - 1.0 - F.abs(place)) if self.mode == "reflect" else place


class RandomResizedCrop(Moving):
    """y[n, c, i, j] = x[n, c] at (top + (i + ½) h / H − ½, left + (j + ½) w / W − ½), bilinear;
    w = min(W, √(H W s r)), h = min(H, √(H W s / r)), s ~ U[scale], ln r ~ U[ln ratio], left ~ U[0, W − w], top alike

    x and y (N, C, H, W): a part of the image, brought to the image's size. Paper: Szegedy et al. 2014, arXiv:1409.4842.
    """

    aliases = ("resized_crop",)
    numbers = 4
    scale: tuple[float, float] = field((0.08, 1.0), doc="least and largest share of the area")
    ratio: tuple[float, float] = field((3 / 4, 4 / 3), doc="least and largest width by height of the part")

    def validate(self) -> None:
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ConfigError(f"RandomResizedCrop(scale={self.scale}): expected two shares, 0 < least <= largest <= 1.")
        ordered("RandomResizedCrop", "ratio", self.ratio)

    def moved(self, x: Tensor, u: tuple[Tensor, ...], target: bool = False) -> Tensor:
        height, width = x.shape[2:]
        area = between(u[0], *self.scale) * float(height * width)
        ratio = F.exp(between(u[1], math.log(self.ratio[0]), math.log(self.ratio[1])))
        down = self._place(F.sqrt(area / ratio), u[2], height, 2)
        across = self._place(F.sqrt(area * ratio), u[3], width, 3)
        if target:
            down, across = (F.clip(F.floor(p + 0.5), 0.0, n - 1.0) for p, n in ((down, height), (across, width)))
            return _at(x, down, across, 0.0)
        return F.bilinear(x, *_grid(across, down, x.shape), padding="border")

    def _place(self, size: Tensor, u: Tensor, n: int, axis: int) -> Tensor:
        size = F.minimum(size, float(n))
        start, step = (F.reshape(v, (-1, 1, 1)) for v in (u * (n - size), size / n))
        return start + (_line(n, axis) + 0.5) * step - 0.5


class RandomAffine(Moving):
    """y[n, c, i, j] = x[n, c] at c + A⁻¹ ((j, i) − c − t), bilinear; A = s R(θ) [[1, −tan φ], [0, 1]], c the centre,
    θ ~ U[−degrees, degrees], φ ~ U[−shear, shear], s ~ U[scale], t ~ U[−translate, translate] (W, H)

    x and y (N, C, H, W); θ > 0 turns clockwise. What was outside of the image is `fill`. Two degrees are the least and
    the largest, two of translate those of the width and of the height.
    """

    aliases = ("affine",)
    numbers = 5
    degrees: float | tuple[float, float] = field(10.0, doc="largest angle, or the least and it [degrees]")
    translate: float | tuple[float, float] = field(0.0, doc="largest shift, as a share of the side, or of each")
    scale: tuple[float, float] = field((1.0, 1.0), doc="least and largest magnification")
    shear: float = field(0.0, doc="largest angle by which columns lean [degrees]", ge=0, lt=90)
    fill: float = field(0.0, doc="value of what was outside")

    def validate(self) -> None:
        ordered("RandomAffine", "scale", self.scale)
        angles("RandomAffine", self.degrees)
        if not all(0 <= t <= 1 for t in self._shifts()):
            raise ConfigError(f"RandomAffine(translate={self.translate}): expected shares of the sides in [0, 1].")

    def _shifts(self) -> tuple[float, float]:
        return self.translate if isinstance(self.translate, tuple) else (self.translate, self.translate)

    def moved(self, x: Tensor, u: tuple[Tensor, ...], target: bool = False) -> Tensor:
        height, width = x.shape[2:]
        turn, lean = _angle(u[0], self.degrees), _angle(u[1], self.shear) if self.shear else None
        scale = between(u[2], *self.scale) if self.scale != (1.0, 1.0) else None
        shifts = self._shifts()
        shift = [between(v, -t, t) * float(n) for v, t, n in zip(u[3:], shifts, (width, height), strict=True)]
        place = _turned(x.shape, turn, lean, scale, shift if any(shifts) else None)
        return _read(x, *place, self.fill, target)


class RandomRotation(Moving):
    """y[n, c, i, j] = x[n, c] at c + R(−θ) ((j, i) − c), bilinear; c the centre, θ ~ U[−degrees, degrees]

    x and y (N, C, H, W); θ > 0 turns clockwise. What was outside of the image is `fill`. Two degrees are the least and
    the largest.
    """

    aliases = ("rotate", "rotation")
    degrees: float | tuple[float, float] = field(15.0, doc="largest angle, or the least and it [degrees]")
    fill: float = field(0.0, doc="value of what was outside")

    def validate(self) -> None:
        angles("RandomRotation", self.degrees)

    def moved(self, x: Tensor, u: tuple[Tensor, ...], target: bool = False) -> Tensor:
        return _read(x, *_turned(x.shape, _angle(u[0], self.degrees)), self.fill, target)


def ordered(who: str, name: str, values: tuple[float, float]) -> None:
    """Raises ConfigError unless these are two positive numbers, the smaller first."""
    if not 0 < values[0] <= values[1]:
        raise ConfigError(f"{who}({name}={values}): expected two numbers above 0, the least first.")


def angles(who: str, degrees: float | tuple[float, float]) -> tuple[float, float]:
    """[degrees] (least, largest) of ± degrees or of both. Raises ConfigError unless they lie in [−180, 180]."""
    low, high = degrees if isinstance(degrees, tuple) else (-degrees, degrees)
    if not -180 <= low <= high <= 180:
        raise ConfigError(f"{who}(degrees={degrees}): expected an angle from 0 to 180, or two from -180 to 180, the "
                          "least first.")
    return low, high


def _angle(u: Tensor, degrees: float | tuple[float, float]) -> Tensor:
    """[radians] between the least and the largest angle"""
    return between(u, *map(math.radians, angles("", degrees)))


def _turned(shape: tuple[int, ...], turn: Tensor, lean: Tensor | None = None, scale: Tensor | None = None,
            shift: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """(across, down) of c + A⁻¹ (p − c − t) for every pixel p, (N, H, W) each; A, c and t as in RandomAffine."""
    height, width = shape[2:]
    cos, sin = (F.reshape(f(turn), (-1, 1, 1)) for f in (F.cos, F.sin))
    across, down = _line(width, 3) - (width - 1) / 2, _line(height, 2) - (height - 1) / 2
    if shift is not None:
        across, down = (p - F.reshape(t, (-1, 1, 1)) for p, t in zip((across, down), shift, strict=True))
    px, py = cos * across + sin * down, cos * down - sin * across
    if lean is not None:
        px = px + F.reshape(F.sin(lean) / F.cos(lean), (-1, 1, 1)) * py
    if scale is not None:
        px, py = (p / F.reshape(scale, (-1, 1, 1)) for p in (px, py))
    return px + (width - 1) / 2, py + (height - 1) / 2


def _read(x: Tensor, across: Tensor, down: Tensor, fill: float, target: bool) -> Tensor:
    """x at these points: bilinear, `fill` outside; of targets the nearest pixel, 0 outside."""
    if target:
        return _at(x, F.floor(down + 0.5), F.floor(across + 0.5), 0.0)
    return F.bilinear(x - fill, across, down) + fill if fill else F.bilinear(x, across, down)


def _line(n: int, axis: int) -> Tensor:
    """0 … n − 1 in float32 along axis 2 or 3 of images, as (1, n, 1) or (1, 1, n)."""
    return F.reshape(F.arange(n=n, dtype="float32"), (1, -1, 1) if axis == 2 else (1, 1, -1))


def _grid(across: Tensor, down: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Columns and rows as (N, H, W) each."""
    whole = (shape[0], *shape[2:])
    return F.expand(across, whole), F.expand(down, whole)


def _at(x: Tensor, down: Tensor, across: Tensor, fill: float) -> Tensor:
    """y[n, c, i, j] = x[n, c, down[n, i, j], across[n, i, j]] at whole numbers; `fill` outside."""
    n, channels, height, width = x.shape
    inside = F.bit_and(F.bit_and(down >= 0.0, down < height), F.bit_and(across >= 0.0, across < width))
    row, column = (F.clip(p, 0.0, m - 1.0).astype("int32") for p, m in ((down, height), (across, width)))
    plane = F.reshape(F.arange(n=n * channels, dtype="int32"), (n, channels, 1, 1)) * (height * width)
    place = plane + F.reshape(row * width + column, (n, 1, height, width))
    return F.where(F.reshape(inside, (n, 1, height, width)), F.gather(F.reshape(x, (-1,)), place), fill)
