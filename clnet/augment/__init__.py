"""Random changes of images, drawn anew for every sample of every step on the device: `fit(augment=[...])`; each is
imported when somebody asks for it.
"""

from typing import TYPE_CHECKING

from ..names import offer as _offer

if TYPE_CHECKING:  # for editors and mypy; at run time the table below
    from .base import Batch, Compose, Transform
    from .color import ColorJitter, RandomGrayscale
    from .geometry import (
        RandomAffine,
        RandomCrop,
        RandomHorizontalFlip,
        RandomResizedCrop,
        RandomRotation,
        RandomVerticalFlip,
    )
    from .mixing import CutMix, MixUp, RandomErasing

__all__ = _offer(__name__, {
    "base": "Batch Compose Transform",
    "color": "ColorJitter RandomGrayscale",
    "geometry": "RandomAffine RandomCrop RandomHorizontalFlip RandomResizedCrop RandomRotation RandomVerticalFlip",
    "mixing": "CutMix MixUp RandomErasing",
})
