"""Images that change at random in a recorded step of training: which transforms, with which random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops as F
from ..augment.base import Batch, Transform, augmented, transform_of
from ..core.spec import dtype_name, is_float
from ..core.state import Generator
from ..core.tensor import Tensor
from ..errors import ConfigError, DataError
from ..losses.base import Loss
from ..losses.reading import named
from .samples import Samples
from .sequences import Sequences

LOOKED_AT = 64  # samples whose pixels are


class Augmentation:
    """A transform of the first input of the model, with random numbers of its own: a function of the seed and a counter
    on the device, which goes on from step to step.

    pictures   whether targets are pictures, too, of the images' height and width
    """

    def __init__(self, transform: Transform, seed: int, pictures: bool) -> None:
        self.transform, self.seed, self.pictures = transform, seed, pictures
        self.random = Generator(seed)

    def __call__(self, inputs: Sequence[Tensor], y: Tensor, weight: Tensor | None) -> Batch:
        """The images and the targets, changed."""
        return augmented(self.transform, Batch(inputs[0], (y,), weight=weight, pictures=self.pictures), self.random)

    def equals(self, transform: Transform, seed: int, pictures: bool) -> bool:
        return (seed, pictures, transform.config()) == (self.seed, self.pictures, self.transform.config())


def augmentation_of(value: object, data: Samples, seed: int, loss: Callable[..., Any],
                    before: Augmentation | None) -> Augmentation | None:
    """What `fit(augment=)` says; that of the fit before where it is the same, so that nothing is recorded anew and no
    number drawn again. Raises ConfigError, ShapeError, DataError.
    """
    if value is None:
        return None
    transform, who = transform_of(value), "fit(augment=...)"
    if isinstance(data, Sequences) or not data.trials():
        raise ConfigError(f"{who}: expected images (N, channels, height, width); got {type(data).__name__}.")
    specs, y = data.trials()[0]
    image = specs[0]
    transform.check_images(image.shape)
    if transform.mixes:
        if len(specs) > 1:
            raise ConfigError(f"{who}: expected a model of one input where samples are mixed; got {len(specs)}; leave "
                              "MixUp and CutMix out.")
        if not is_float(dtype_name(y.dtype)) and not isinstance(loss, Loss):
            raise ConfigError(f"{who}: expected a loss of clnet.losses, which weighs, where samples of whole numbers "
                              f"as targets are mixed; got the function {named(loss)}; give it probabilities: "
                              "np.eye(classes, dtype='float32')[y].")
    if transform.unit and is_float(image.dtype):
        _check_unit(transform, data)
    pictures = y.ndim in (3, 4) and tuple(y.shape[-2:]) == tuple(image.shape[2:])
    same = before is not None and before.equals(transform, seed, pictures)
    return before if same else Augmentation(transform, seed, pictures)


def _check_unit(transform: Transform, data: Samples) -> None:
    x = data.rows(slice(0, LOOKED_AT))[0][0]
    least, most = float(x.min()), float(x.max())
    if least < 0 or most > 1:
        raise DataError(f"fit(augment={transform!r}): expected pixels in [0, 1], or bytes; got values from {least:g} "
                        f"to {most:g}; divide by 255, and standardise in the model: BatchNorm(num_features=...) first.")


def asked(batch: Batch, output: Any, joined: Callable[[list[Any]], Any]) -> tuple[Any, Tensor, Tensor | None]:
    """(output, target, weight) as a loss takes them: of several targets, which count by their shares, one after the
    other, each beside the same outputs.
    """
    if not batch.shares:
        return output, batch.targets[0], batch.weight
    return joined([output] * len(batch.targets)), F.concat(batch.targets, 0), F.concat(batch.shares, 0)


def seen(batch: Batch) -> Tensor:
    """The target of each sample as metrics see it: of several the one that counts most."""
    y, most = batch.targets[0], batch.shares[0] if batch.shares else None
    for other, share in zip(batch.targets[1:], batch.shares[1:], strict=True):
        assert most is not None
        y = F.where(F.reshape(share > most, (-1, *(1,) * (y.ndim - 1))), other, y)
        most = F.maximum(share, most)
    return y
