"""What was fitted on training data so that new data become the same numbers: a value, kept as JSON beside the model."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..engine.device.folders import write_atomically
from ..errors import DataError
from ..names import ending

if TYPE_CHECKING:
    from .samples import Samples

Array = np.ndarray[Any, Any]
ENDING = ".preparation.json"
FORMAT = 1


class Preparation(ABC):
    """Raw data → samples, as fitted on those of the training.

    kind      what files call it
    classes   names of the classes in the order of their numbers; () where the targets are no classes
    """

    kind: ClassVar[str]
    known: ClassVar[dict[str, type[Preparation]]] = {}
    classes: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        Preparation.known[cls.kind] = cls

    @abstractmethod
    def apply(self, data: Any, target: bool | None = None, who: str = "apply") -> Samples:
        """New data as samples; with targets where it has them, or as `target` says. Errors name `who`, the call."""

    @abstractmethod
    def takes(self, data: object) -> bool:
        """Whether it is raw data as `apply` takes it, in place of arrays."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""

    @classmethod
    @abstractmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self: ...

    def in_units(self, output: Array) -> Array:
        """A model's output in the units of the targets."""
        return output

    def labels(self, output: Array) -> Array:
        """The names of the classes with the largest of the outputs (N, classes), or with these numbers (N).
        Raises DataError where there are no classes.
        """
        if not self.classes:
            raise DataError("labels: expected targets that are classes; got numbers; predict gives them in units.")
        numbers = np.asarray(output)
        return np.array(self.classes, object)[numbers.argmax(1) if numbers.ndim > 1 else numbers.astype(int)]

    def save(self, path: str | Path) -> None:
        """As JSON, atomically; `clnet.data.load_preparation(path)` reads it. Raises DataError."""
        text = json.dumps({"clnet": "preparation", "format": FORMAT, "kind": self.kind, **self.to_dict()}, indent=1,
                          ensure_ascii=False)
        try:
            write_atomically(Path(path), text.encode())
        except OSError as error:
            raise DataError(f"save({Path(path).name}): expected a place to write to; got: {error}.") from None


def beside(path: str | Path) -> Path:
    """Where the preparation of a model in this file is kept: model.preparation.json for model.safetensors."""
    return Path(path).with_suffix(ENDING)


def load_preparation(path: str | Path) -> Any:
    """The preparation in a file that `save` wrote, or that a Trainer wrote beside the model in this file.
    Raises DataError.
    """
    path = Path(path)
    path = path if path.suffix == ".json" else beside(path)
    who = f"load_preparation({path.name})"
    try:
        fields = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{who}: expected a readable file; got: {error}.") from None
    if not isinstance(fields, Mapping) or fields.get("clnet") != "preparation" or fields.get("format") != FORMAT:
        raise DataError(f"{who}: expected a preparation of format {FORMAT}, as its `save` writes it; "
                        "got other JSON; clnet.load reads models.")
    kind = str(fields.get("kind"))
    if kind not in Preparation.known:
        raise DataError(f"{who}: expected one of {', '.join(Preparation.known)}; got {kind!r}"
                        f"{ending(kind, Preparation.known)}")
    try:
        return Preparation.known[kind].from_dict({k: v for k, v in fields.items()
                                                  if k not in ("clnet", "format", "kind")})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{who}: expected the fields that `save` writes; got: {error!r}; "
                        "the file was changed.") from None
