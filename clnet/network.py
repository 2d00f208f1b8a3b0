"""What every model can do, besides what layers can: sizes, JSON, summaries, devices, files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import dialects, model_io
from .config import parse_json
from .engine import current, engine_for, on
from .engine.device import Device, select
from .engine.record import infer
from .errors import DTypeError, ShapeError
from .layers.base import Layer
from .optimizers.base import Optimizer
from .spec import Spec
from .state import carry
from .summary import Summary, summarize
from .tensor import homed

TRIAL = 5  # samples that shapes are tried with: one would broadcast where it must not


class _Network(Layer):
    """What every model can do, besides what layers can. Shapes given to it are those of one sample, without the batch."""

    integers = True

    def build(self, *shapes: Sequence[int], dtype: str = "float32") -> Any:
        """Binds all sizes that were left out; nothing runs. Returns the model. Raises ShapeError where layers do not fit."""
        infer(self, [Spec((TRIAL, *s), dtype) for s in shapes])
        return self

    def to_json(self, indent: int | None = 2) -> str:
        """The configuration; `from_json` makes a model with the same structure (and new values) of it."""
        return json.dumps(self.config(), indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Any:
        """The model that a text describes, in these words or those of `clnet.dialects`. ConfigError has the path of what is wrong: $.nodes[2].layer.eps."""
        return Layer.from_config(dialects.own(parse_json(text, "model")))

    def specs_of_inputs(self) -> list[Spec | None]:
        """Shape and dtype of one sample of every input, None where the configuration does not say."""
        return [None]

    def summary(self, *shapes: Sequence[int], batch: int = 1, dtype: str = "float32", optimizer: Optimizer | None = None) -> Summary:
        """Layers, output shapes, exact counts, and what training takes in bytes with this batch and optimizer (Adam if none is given)."""
        return summarize(self, [Spec((batch, *s), dtype) for s in shapes], optimizer)

    # --- where it runs
    def use(self, device: Any = None) -> Any:
        """The model goes on with another device: "numpy", "opencl", or anything `clnet.use` takes. Returns the model.

        Weights, buffers, random counters and, once it trains, the optimizer's state are carried over to the last bit. From then on its calls, what is
        computed from their results, and what a Trainer does with it run there, within `with clnet.on(...)` too; other models and tensors stay where
        they are. What is computed from results of two models on two devices runs on one of the two. Raises NoDeviceError, and nothing has changed.
        """
        chosen, _ = select(device)
        engine_for(chosen)
        carry(model_io.held(self))
        self._device = chosen
        return self

    @property
    def device(self) -> Device:
        """The device that the model runs on: the one given to `use`, else the one in use."""
        found: Device = getattr(self, "_device", None) or current().device
        return found

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """What is recorded and run in the block runs on the model's device."""
        if hasattr(self, "_device"):
            engine = engine_for(self._device)
            with on(engine), homed(engine):
                yield
        else:
            yield

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        with self.placed():
            return super().__call__(*inputs, **named)

    def backward(self, g: Any = None) -> Any:
        with self.placed():
            return super().backward(g)

    def update(self, lr: float = 0.01) -> None:
        with self.placed():
            super().update(lr)

    # --- files
    def save(self, path: str | Path) -> None:
        """Configuration and values in one safetensors file, atomically; a name as other programs end theirs (".h5", ".pt") is refused.

        Raises CheckpointError, ConfigError where sizes are open.
        """
        model_io.save(self, path)

    def load(self, source: str | Path | Mapping[str, Any]) -> Any:
        """Values from a file that `save` wrote of a model with this structure, or from arrays by the names of `variables()`. Returns the model.

        Raises CheckpointError, which lists all names, shapes and dtypes that do not fit; ConfigError where sizes are open.
        """
        model_io.load_into(self, source)
        return self


def apply(name: str, layer: Layer, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """layer(*inputs) as a tuple; errors say which layer it was."""
    try:
        out = layer(*inputs)
    except (ShapeError, DTypeError) as error:
        error.args = (f"{name}: {error}",)
        raise
    except TypeError as error:
        if len(inputs) == 1:
            raise
        raise ShapeError(f"{name}: expected inputs that {type(layer).__name__} takes; got {len(inputs)} ({error}).") from None
    return out if isinstance(out, tuple) else (out,)


