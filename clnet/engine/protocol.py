"""What an engine is: whatever runs recorded graphs on one device."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from ..core.tensor import Tensor
    from .compile.plan import Plan
    from .device.commands import Listener
    from .device.device import Device
    from .device.memory import Statistics
    from .device.programs import Counters
    from .device.transfers import Transfers


class Memory(Protocol):
    """The memory of an engine. All bytes are 0 where it is the host's, in which NumPy counts nothing."""

    def statistics(self) -> Statistics:
        """Bytes in use, kept for what comes next, at most; buffers made."""

    def holders(self, count: int = 5) -> list[tuple[str, int]]:
        """The labels that hold most, with their bytes."""

    def reset_peak(self) -> None:
        """The peak starts from what is in use now."""

    def trim(self, keep: int = 0) -> int:
        """Gives cached buffers back until `keep` bytes are left; returns the bytes freed."""


class Programs(Protocol):
    """The compiled programs of an engine; none where nothing is compiled."""

    def counters(self) -> Counters:
        """How programs came about: memory hits, disk hits, builds, seconds."""

    def keeps(self) -> str:
        """A sentence on what the next process will find compiled."""

    def clear(self, disk: bool = True) -> None:
        """Forgets every program, on disk too."""


class Engine(Protocol):
    """Runs recorded graphs on one device.

    device      what it runs on
    compiles    whether graphs become plans of kernels, as on every OpenCL device; NumPy evaluates op by op
    transfers   the account of copies between host and device; nothing is copied where both are one
    pool        its memory
    programs    what it has compiled
    plans       structure of a graph -> its plan, for those run so far
    launches    kernels launched so far
    fallbacks   op -> how often it ran on the host, because the device has no kernel for it
    profile     who is told of every launch and copy, with its times, or None
    """

    device: Device
    compiles: bool
    launches: int
    fallbacks: dict[str, int]
    profile: Listener | None

    @property
    def transfers(self) -> Transfers: ...

    @property
    def pool(self) -> Memory: ...

    @property
    def programs(self) -> Programs: ...

    @property
    def plans(self) -> MutableMapping[Any, Plan]: ...

    def run(self, tensors: Sequence[Tensor]) -> None:
        """Computes what the tensors need and gives each storage here."""

    def values(self, tensors: Sequence[Tensor]) -> list[np.ndarray[Any, Any]]:
        """The values on the host."""

    def on_host(self, t: Tensor) -> np.ndarray[Any, Any] | None:
        """The value, where the host is sooner done with a call on host arrays; else None."""

    def forget(self, op: str) -> None:
        """Lets go of plans with this op, by its key: it was replaced."""

    def finish(self) -> None:
        """Waits for everything that this thread has launched."""


# What may say where to run: an engine, its device, the device's key or a part of its name, "gpu", a number;
# None: the best there is.
Where: TypeAlias = "str | int | Device | Engine | None"
