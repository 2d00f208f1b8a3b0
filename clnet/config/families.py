"""The families of configured classes (layers, losses, optimizers, ...), filled as their base classes are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .fields import Configured

FAMILIES: list[type[Configured]] = []


def family_of(cls: type) -> type[Configured] | None:
    """The family that a class belongs to; None of what is not configured."""
    return next((c for c in cls.__mro__ if c in FAMILIES), None)
