"""What a random change of images is: fields, and a formula of images and of numbers that are drawn for each sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from .. import ops as F
from ..config.families import find
from ..config.fields import Configured, field
from ..core.autocast import wide
from ..core.precision import autocast
from ..core.spec import is_float
from ..core.state import Generator
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError, ShapeError
from ..names import ending
from ..ops.draws import uniform
from ..picture import Picture
from .preview import drawn

BYTE = 255.0  # what white is where pixels are bytes
COLORS = (1, 3, 4)  # channels of pictures as files have them


class Batch(NamedTuple):
    """Images x (N, C, H, W) and what belongs to them.

    targets   one (N, …); several where whole numbers were mixed
    shares    (N) of each of several targets: how much it counts in the loss, weights of samples among it
    weight    (N), how much a sample counts in the loss; None: all the same
    pictures  whether targets are (N, H, W) or (N, c, H, W), of the images' height and width, and move with them
    """

    x: Tensor
    targets: tuple[Tensor, ...] = ()
    shares: tuple[Tensor, ...] = ()
    weight: Tensor | None = None
    pictures: bool = False


class Transform(Configured):
    """Base of random changes of images: `numbers` draws u ~ U[0, 1) for each sample, and a formula of them.

    `transform(x)` gives changed images, `transform.preview(x)` shows some; `fit(augment=...)` takes one or several.
    """

    in_models: ClassVar[bool] = False
    numbers: ClassVar[int] = 1  # that are drawn for each sample
    channels: ClassVar[tuple[int, ...]] = ()  # of the images that it takes; () any
    unit: ClassVar[bool] = False  # whether pixels have to lie in [0, 1], as bytes do once they are divided by 255
    mixes: ClassVar[bool] = False  # whether samples are mixed, and their targets
    paper: ClassVar[str] = ""

    # --- what a transform states
    def forward(self, x: Tensor, *u: Tensor) -> Tensor:
        """The images of x (N, C, H, W) in float32 and the numbers u, (N) each."""
        raise ConfigError(f"{type(self).__name__}: expected a method forward(self, x, *u) with the formula; got a "
                          "class without; write it with clnet.ops.")

    def apply(self, batch: Batch, *u: Tensor) -> Batch:
        """The images, and targets with them."""
        return batch._replace(x=self.forward(batch.x, *u))

    # --- what is called
    def __call__(self, x: TensorLike, random: int | Generator = 0) -> Tensor:
        """The images of x (N, C, H, W), changed; of one dtype with them, bytes as float32 of 0 … 255.

        random   a seed, or a Generator, which every call advances. Raises ShapeError, ConfigError.
        """
        generator = random if isinstance(random, Generator) else Generator(random)
        return augmented(self, Batch(as_tensor(x)), generator).x

    def preview(self, images: Any, rows: int = 3, seed: int = 0) -> Picture:
        """Eight images as they are, and `rows` rows of what becomes of them: of an array (N, C, H, W) with 1 or 3
        channels, or of a data set. Raises ShapeError, ConfigError.
        """
        return drawn(self, images, rows, seed)

    def check_images(self, shape: Sequence[int]) -> None:
        """Raises ShapeError unless images of this shape can be changed."""
        who = type(self).__name__
        if len(shape) != 4:
            raise ShapeError(f"{who}: expected images (N, channels, height, width); got shape {tuple(shape)}"
                             f"{'; grey ones need an axis: x[:, None]' if len(shape) == 3 else ''}.")
        last = shape[3] in COLORS and shape[1] not in COLORS
        if last or (self.channels and shape[1] not in self.channels):
            some = f" of {' or '.join(map(str, self.channels))} channels," if self.channels else ""
            raise ShapeError(
                f"{who}: expected images{some} (N, channels, height, width); got {shape[1]} channels in shape "
                f"{tuple(shape)}{'; turn them: x.transpose(0, 3, 1, 2)' if last else ''}.")


class Compose(Transform):
    """y = fₙ(… f₂(f₁(x)))

    One after the other, in the order of the list: `fit(augment=[...])` makes one of it.
    """

    transforms: tuple[Any, ...] = field(doc="transforms, or their names")

    def validate(self) -> None:
        if not self.transforms:
            raise ConfigError("augment: expected at least one transform; got none; leave augment out.")
        object.__setattr__(self, "transforms", tuple(map(transform_of, self.transforms)))

    @property
    def numbers(self) -> int:  # type: ignore[override]
        return sum(t.numbers for t in self.transforms)

    @property
    def unit(self) -> bool:  # type: ignore[override]
        return any(t.unit for t in self.transforms)

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        return any(t.mixes for t in self.transforms)

    def check_images(self, shape: Sequence[int]) -> None:
        for t in self.transforms:
            t.check_images(shape)

    def apply(self, batch: Batch, *u: Tensor) -> Batch:
        for t in self.transforms:
            batch, u = t.apply(batch, *u[: t.numbers]), u[t.numbers :]
        return batch


def transform_of(value: object) -> Transform:
    """A transform given as one, by name or as a class; several in a list as one. Raises ConfigError."""
    if isinstance(value, Transform):
        return value
    if isinstance(value, type) and issubclass(value, Transform):
        return value()  # type: ignore[no-any-return]
    if isinstance(value, str):
        if found := Transform.registry.likely(_plain, value) or find([Transform], value.lower()):
            return found()  # type: ignore[no-any-return]
        raise ConfigError(f"augment: expected the name of a transform; got {value!r}{ending(value, names())}")
    if isinstance(value, Iterable):
        return Compose(transforms=tuple(value))
    raise ConfigError("augment: expected a transform of clnet.augment, its name or several in a list, as "
                      f"[RandomCrop(padding=2), RandomHorizontalFlip()]; got {value!r}.")


def names() -> list[str]:
    """The short names of all transforms, in the order of the alphabet."""
    return sorted(c.aliases[0] for c in Transform.registry.values() if c.aliases)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").removeprefix("random")


def augmented(transform: Transform, batch: Batch, random: Generator) -> Batch:
    """A batch, changed by numbers of which the generator's next draw has as many as are needed."""
    transform.check_images(batch.x.shape)
    x, count = wide(batch.x), transform.numbers
    with autocast(None):
        scale = 1.0 if is_float(x.dtype) else BYTE
        pixels = x if is_float(x.dtype) else x.astype("float32") * (1 / BYTE)
        whole = -(-count // 4) * 4  # blocks, so that their number says nothing of whether 4 divides the batch's
        u = uniform((whole, x.shape[0]), random.key, random.advance())
        found = transform.apply(batch._replace(x=pixels), *(u[k] for k in range(count)))
        return found if scale == 1.0 else found._replace(x=found.x * scale)


def each(u: Tensor) -> Tensor:
    """A number a sample (N) as (N, 1, 1, 1), beside images."""
    return F.reshape(u, (-1, 1, 1, 1))


def between(u: Tensor, low: float, high: float) -> Tensor:
    """low + (high − low) u"""
    return u * (high - low) + low
