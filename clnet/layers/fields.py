"""Types of fields that several layers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

from ..config.bounded import After, Before, NonNegativeInt, PositiveInt
from ..errors import ConfigError
from ..ops.activations import activation
from .base import Layer

Activation: TypeAlias = str | Callable[..., Any] | None


def _known(name: Activation) -> Activation:
    if isinstance(name, type):
        raise ConfigError(
            f"activation: expected a name or a function of a tensor; got the class {name.__name__}; call it: "
            f"{name.__name__}(...).")
    activation(name)
    return name


def _built(value: object) -> object:
    return Layer.from_config(value) if isinstance(value, dict) else value


# An activation: a registered name, a function of a tensor, or None (identity). Unknown names raise ConfigError here.
Act = Annotated[Activation, After(_known)]

# A length along every spatial axis, or one for each.
Size = PositiveInt | tuple[PositiveInt, ...]
Amount = NonNegativeInt | tuple[NonNegativeInt, ...]
# Amounts at both sides: a number, one per axis, (low, high) per axis, "same" or "valid".
Padding = (NonNegativeInt | Literal["same", "valid"] | tuple[NonNegativeInt, ...]
           | tuple[tuple[NonNegativeInt, NonNegativeInt], ...])

# A layer, given as one or as its configuration; several run one after the other.
Child = Annotated[Layer, Before(_built)]
Children = Child | tuple[Child, ...]
