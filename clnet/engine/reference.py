"""The oracle: evaluates each recorded op by its own NumPy reference, in float64 by default.
Also the engine of last resort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.spec import NARROW, is_float, np_dtype
from ..core.tensor import Tensor, no_value, walk
from ..errors import ShapeError
from .device.device import host_device
from .device.memory import Statistics
from .device.programs import Counters
from .device.transfers import Transfers

if TYPE_CHECKING:
    from .compile.plan import Plan
    from .device.commands import Listener


class NoMemory:
    """The memory of an engine that allocates nothing of its own."""

    def statistics(self) -> Statistics:
        return Statistics(active=0, cached=0, peak=0, wasted=0, limit=0, allocations=0, requests=0)

    def holders(self, count: int = 5) -> list[tuple[str, int]]:
        return []

    def reset_peak(self) -> None:
        """It is 0."""

    def trim(self, keep: int = 0) -> int:
        return 0


class NoPrograms:
    """The programs of an engine that compiles none."""

    def counters(self) -> Counters:
        return Counters()

    def keeps(self) -> str:
        return "NumPy needs no programs."

    def clear(self, disk: bool = True) -> None:
        """There are none."""


class HostStorage:
    """A value that the NumPy engine computed."""

    def __init__(self, engine: NumpyEngine, array: np.ndarray[Any, Any]) -> None:
        self.engine, self.array = engine, array

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.array

    def read(self, start: int, count: int) -> np.ndarray[Any, Any]:
        """`count` elements from `start` on, as a vector."""
        return self.array.reshape(-1)[start : start + count]


class NumpyEngine:
    """Evaluates graphs on the host.

    dtype     float width of the arithmetic: "float64" (the oracle), None to keep what the leaves have, or "float32":
              the host as a device, where float64 is computed as such and results have the dtypes that tensors say
    rounded   whether values of 16-bit dtypes are rounded to them, as memory does, or kept at the width of the
              arithmetic
    """

    compiles = False

    def __init__(self, dtype: str | None = "float64", rounded: bool = False) -> None:
        self.dtype, self.rounded, self.device = dtype, rounded, host_device()
        self.transfers, self.pool, self.programs = Transfers(), NoMemory(), NoPrograms()
        self.plans: dict[Any, Plan] = {}
        self.launches = 0
        self.fallbacks: dict[str, int] = {}
        self.profile: Listener | None = None

    def __repr__(self) -> str:
        return f"numpy({self.dtype or 'as given'})"

    def run(self, tensors: Sequence[Tensor]) -> None:
        """Gives every tensor storage on this engine."""
        for t, value in zip(tensors, self._evaluate(tensors), strict=True):
            if t.op is not None and (t.storage is None or t.storage.engine is not self):
                t.storage = HostStorage(self, value)

    def values(self, tensors: Sequence[Tensor]) -> list[np.ndarray[Any, Any]]:
        """The values, at the precision of this engine, in C order; nothing is stored."""
        return [np.asarray(value, order="C") for value in self._evaluate(tensors)]

    def on_host(self, t: Tensor) -> None:
        """Everything runs on the host anyhow."""

    def forget(self, op: str) -> None:
        """There are no plans."""

    def finish(self) -> None:
        """Nothing is ever in flight."""

    def _evaluate(self, tensors: Sequence[Tensor]) -> list[np.ndarray[Any, Any]]:
        done: dict[int, Any] = {}

        def known(t: Tensor) -> bool:
            return t.op is None or (t.storage is not None and t.storage.engine is self)

        with np.errstate(all="ignore"):
            for t in walk(tensors, stop=known):
                done[id(t)] = self._leaf(t) if known(t) else self._apply(t, [done[id(i)] for i in t.inputs])
        return [self._given(done[id(t)], t.dtype) for t in tensors]

    def _given(self, value: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
        """A result as a device's memory would have it; the oracle's keeps all its digits."""
        return value.astype(np_dtype(dtype), copy=False) if self.dtype == "float32" else value

    def _leaf(self, t: Tensor) -> np.ndarray[Any, Any]:
        value = t.value if t.value is not None else t.storage.numpy() if t.storage is not None else None
        if value is None:
            raise ShapeError(no_value(t))
        return self._cast(value, t.dtype)

    def _apply(self, t: Tensor, inputs: list[Any]) -> np.ndarray[Any, Any]:
        assert t.op is not None
        # A device writes a constant into its kernels, where arithmetic is wider than 16 bits: memory never rounds it.
        dtype = "float32" if t.op.name == "full" and t.dtype in NARROW else t.dtype
        return self._cast(np.asarray(t.op.ref(*inputs, **t.attrs)), dtype)

    def _cast(self, value: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
        """Floats at the engine's width whatever the spec says; everything else as specified."""
        if not is_float(dtype):
            return np.asarray(value, np_dtype(dtype))
        if self.rounded and dtype in NARROW:
            value = value.astype(np_dtype(dtype))
        if self.dtype is None:
            return value if value.dtype.kind == "f" else value.astype(np_dtype(dtype))
        return value.astype("float64" if dtype == "float64" else self.dtype, copy=False)
