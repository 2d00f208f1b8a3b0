"""Models: layers in a row, or wired as a graph. A model is a layer, its configuration is JSON,
its values are a safetensors file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..config.fields import Configured, field
from ..core.op import Op
from ..core.spec import Spec
from ..errors import ConfigError, IndexingError
from ..layers.base import Layer
from ..layers.fields import Child
from ..layers.shape import Input as InputLayer
from ..layers.utility import Activation, Lambda
from ..names import guide as _guide
from ..ops import ACTIVATIONS
from .files import load
from .graph import Graph, Input, Model, Node, Symbol
from .network import _Network, apply

__all__ = ["Graph", "Input", "Model", "Node", "Sequential", "load"]


def _layer(value: Any) -> Any:
    """The layer that is meant by the name of an activation, by a function of a tensor and by what `Input` gives."""
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if isinstance(value, str) or (isinstance(value, Op) and name in ACTIVATIONS):
        return Activation(name)
    if isinstance(value, Symbol) and value.layer is None and value.spec is not None:
        return InputLayer(value.spec.shape, value.spec.dtype)
    return value if isinstance(value, (Configured, dict, type)) or not callable(value) else Lambda(value)


def _variadic(cls: type) -> type:
    """Sequential(a, b, c), Sequential([a, b, c]) and Sequential(layers=[a, b, c]) are one."""
    build: Callable[..., None] = cls.__init__  # type: ignore[misc]

    def init(self: Sequential, *layers: Any, **fields: Any) -> None:
        if not layers and not fields:
            raise ConfigError("Sequential: expected layers; got none; write Sequential(Dense(out_features=10)), to "
                              "which append(layer) adds.")
        if len(layers) == 1 and isinstance(layers[0], dict) and "type" not in layers[0]:  # named ones
            layers = tuple(layers[0].values())
        if len(layers) == 1 and isinstance(layers[0], (list, tuple)):
            layers = tuple(layers[0])
        build(self, *((list(map(_layer, layers)),) if layers else ()), **fields)

    init.__doc__ = build.__doc__
    cls.__init__ = init  # type: ignore[misc]
    return cls


@_variadic
class Sequential(_Network):
    """y = layerₙ(… layer₁(x))"""

    aliases = ("sequential", "SequentialModel")
    layers: tuple[Child, ...] = field(doc="the layers in order", min_length=1)

    def forward(self, *inputs: Any) -> Any:
        for k, layer in enumerate(self.layers):
            inputs = apply(f"layers.{k}", layer, inputs)
        return inputs[0] if len(inputs) == 1 else inputs

    def config(self) -> dict[str, Any]:
        for k, layer in enumerate(self.layers):
            if any(layer is other for other in self.layers[:k]):
                raise ConfigError(
                    "Sequential: expected every layer once; "
                    f"got layers[{k}] ({layer!r}) twice; share it by name in a Graph.")
        return super().config()

    def specs_of_inputs(self) -> list[Spec | None]:
        first = self.layers[0]
        return [Spec(first.shape, first.dtype) if isinstance(first, InputLayer) else None]

    def lines(self) -> list[tuple[str, Layer, str]]:
        return [(str(k), layer, "") for k, layer in enumerate(self.layers)]

    # --- as a list
    def fixed(self, name: str) -> bool:
        return False

    def _become(self, layers: Iterable[Layer]) -> None:
        self.layers = tuple(map(_layer, layers))
        vars(self).pop("_whole", None)
        self.train(self.training)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, k: int | slice) -> Any:
        """Layer k; of a slice a Sequential with the same layers, not copies."""
        if isinstance(k, slice):
            return type(self)(layers=self.layers[k]).train(self.training)
        return self.layers[self._number(k)]

    def __setitem__(self, k: int | slice, layer: Layer | Iterable[Layer]) -> None:
        """Puts another layer in place k. What was recorded is recorded again; shapes are checked at the next call."""
        layers: Any = list(self.layers)  # a number takes one layer, a slice several
        layers[k if isinstance(k, slice) else self._number(k)] = layer
        self._become(layers)

    def __delitem__(self, k: int | slice) -> None:
        layers = list(self.layers)
        del layers[k if isinstance(k, slice) else self._number(k)]
        self._become(layers)

    def _number(self, k: object) -> int:
        if not isinstance(k, (int, np.integer)):
            raise ConfigError(
                f"Sequential: expected the number of a layer, or a slice; got {k!r}; write model[0] or model[:2].")
        if not -len(self) <= k < len(self):
            raise IndexingError(f"Sequential: expected the number of a layer in [{-len(self)}, {len(self)}); got {k}.")
        return int(k)

    def append(self, layer: Layer) -> Any:
        """One more layer at the end. Returns the model."""
        return self.insert(len(self), layer)

    def insert(self, k: int, layer: Layer) -> Any:
        """A layer before layer k. Returns the model."""
        if not isinstance(k, (int, np.integer)):
            raise ConfigError(
                f"Sequential.insert: expected the number of a layer first; got {k!r}; write model.insert(0, layer).")
        self._become((*self.layers[:k], layer, *self.layers[k:]))
        return self

    def extend(self, layers: Iterable[Layer]) -> Any:
        """More layers at the end. Returns the model."""
        if not isinstance(layers, Iterable):
            raise ConfigError(f"Sequential.extend: expected layers; got {layers!r}; write model.extend([layer]).")
        self._become((*self.layers, *layers))
        return self

    def pop(self, k: int = -1) -> Layer:
        """Takes layer k out and returns it."""
        found: Layer = self[k]
        del self[k]
        return found


_guide(__name__)
