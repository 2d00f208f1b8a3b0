"""The engine as other programs embed it: the specification's named operations, and tensors that stay on
the device between calls.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.tensor import Tensor, as_tensor, realize, tensor
from ..engine import on, resolved
from ..errors import ConfigError
from ..names import guide as _guide
from .operation import OPERATIONS, Activation, Backward, Operation
from .operations import Operations

if TYPE_CHECKING:
    from ..engine.protocol import Where

__all__ = ["OPERATIONS", "Activation", "Backward", "Engine", "Operation", "Role"]


class Role(str, enum.Enum):
    """What a persistent tensor is."""

    WEIGHTS = "weights"
    BIASES = "biases"
    NORMALIZATION_PARAMS = "normalization params"
    EMBEDDINGS = "embeddings"
    ATTENTION_CACHE = "attention cache"
    OTHER = "other"


@dataclass
class Persistent:
    """A registered array: what it is, and its copy, None while that is stale."""

    array: np.ndarray[Any, Any]
    role: Role
    copy: Tensor | None = None


class Engine(Operations):
    """Operations by the specification's names, on one device:
    `e = Engine("intel"); y = e.fused_linear(x, w, b, activation="gelu"); e.read(y)`.

    device   anything `clnet.use` takes; None: the best there is. "numpy": the host, where registering is of no effect
    Every operation has a `..._backward(g, ...)`. Results are recorded tensors, so that operations fuse; `read` computes
    them. Raises NoDeviceError.
    """

    def __init__(self, device: Where = None) -> None:
        self.engine = resolved(device)
        self._kept: dict[int, Persistent] = {}
        self._inside: list[Any] = []

    def __repr__(self) -> str:
        return f"Engine({self.engine.device.key!r})"

    @property
    def supports_gpu(self) -> bool:
        """Whether operations run on an OpenCL device."""
        return not self.engine.device.is_host

    def read(self, *tensors: Any) -> Any:
        """The values as NumPy arrays (one alone, several as a list), computed on this engine together."""
        with on(self.engine):
            found = [as_tensor(t) for t in tensors]
            realize(*found)
            values = [t.numpy() for t in found]
        return values[0] if len(values) == 1 else values

    def __enter__(self) -> Engine:
        """Within the block everything that this thread computes runs here."""
        self._inside.append(on(self.engine))
        self._inside[-1].__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._inside.pop().__exit__(kind, error, trace)

    # --- tensors that stay
    def register_persistent_tensor(self, array: np.ndarray[Any, Any],
                                   role: Role | str = Role.OTHER) -> np.ndarray[Any, Any]:
        """Keeps a copy of the array on the device: it is uploaded with its first use,
        and again only after `invalidate`. Returns the array.
        """
        if not isinstance(array, np.ndarray):
            raise ConfigError(
                "register_persistent_tensor: expected a NumPy array; "
                f"got {type(array).__name__}; tensors stay on the device anyway.")
        if role not in [r.value for r in Role]:
            raise ConfigError(
                f"register_persistent_tensor: expected a role of {', '.join(r.value for r in Role)}; "
                f"got {role!r}; take one of `Role`.")
        self._kept.setdefault(id(array), Persistent(array, Role(role)))
        return array

    def invalidate_persistent_tensor(self, array: np.ndarray[Any, Any]) -> None:
        """The array was changed: its next use uploads it again. Raises ConfigError for one that is not registered."""
        self._persistent("invalidate_persistent_tensor", array).copy = None

    def unregister_persistent_tensor(self, array: np.ndarray[Any, Any]) -> None:
        """Gives the copy up. Raises ConfigError for an array that is not registered."""
        self._persistent("unregister_persistent_tensor", array)
        del self._kept[id(array)]

    @property
    def persistent_tensors(self) -> list[Persistent]:
        """All that are registered."""
        return list(self._kept.values())

    def close(self) -> None:
        """Unregisters everything."""
        self._kept.clear()

    def _persistent(self, who: str, array: object) -> Persistent:
        if id(array) not in self._kept:
            raise ConfigError(
                f"{who}: expected an array that is registered; got another; pass the very array that was registered.")
        return self._kept[id(array)]

    def resolve(self, value: object) -> Any:
        """The copy of a registered array; anything else as it is."""
        kept = self._kept.get(id(value)) if isinstance(value, np.ndarray) else None
        if kept is None:
            return value
        if kept.copy is None:
            kept.copy = tensor(kept.array)
        return kept.copy


_guide(__name__)
