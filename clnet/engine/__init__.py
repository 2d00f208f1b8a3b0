"""The only package that imports pyopencl. `current()` is the engine that runs what is asked for. Its words:

device      what OpenCL offers, or the host: a key, a name and what it can do                          device.devices
engine      runs recorded tensors on one device: OpenCLEngine, or NumpyEngine, which is the reference  opencl, reference
graph       a copy of what has to run, lowered to what the device runs                                 compile
plan        the launches that compute a graph, made once, run many times; `compile` says its words     compile
launch      one kernel, enqueued once                                                                  compile
block       memory of a device that the pool gave out; a buffer is OpenCL's                            device.memory
transfer    a copy between host and device; all of them are counted                                    device.transfers
program     OpenCL C that was built; kept in memory and on disk                                        device.programs
recorded    a function that was traced once, and is replayed as a plan with its buffers                record
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from ..core import running
from ..names import guide as _guide
from . import active

if TYPE_CHECKING:
    from .device.device import Device
    from .protocol import Engine

_engines: dict[str, Engine] = {}
_lock = threading.RLock()


def engine_for(device: Device) -> Engine:
    """The engine of a device, made on first use."""
    with _lock:
        if device.key not in _engines:
            if device.is_host:
                from .reference import NumpyEngine

                _engines[device.key] = NumpyEngine("float32")
            else:
                from .opencl import OpenCLEngine

                _engines[device.key] = OpenCLEngine(device)
        return _engines[device.key]


def use(device: str | int | Device | None = None) -> Device:
    """Makes a device the default: a Device, its key ("intel", "numpy"), part of its name, "gpu", "cpu" or a number.

    None chooses again: CLNET_DEVICE, GPU, Intel CPU, other CPU, PoCL, NumPy. Raises NoDeviceError with what there is.
    """
    from .device.devices import select

    found, active.why = select(device)
    active.default = engine_for(found)
    return found


def chosen() -> tuple[Device, str]:
    """The device in use and why, as a sentence; before anything has run, the one that would be. Raises NoDeviceError.
    """
    from .device.devices import select

    return active.chosen() or select()


def current() -> Engine:
    """The engine in use: the innermost `on(...)` of this thread, else the default."""
    found = active.local.engine or active.default
    if found is None:
        found = engine_for(use())
    return found


class on(contextlib.ContextDecorator):
    """Within the block this thread runs on `device` (anything `use` takes, or an engine)."""

    # A class and no generator: eager calls and steps pass here. The thread knows what was before, so that one object
    # serves several threads and blocks within blocks.

    def __init__(self, device: str | int | Device | Engine | None) -> None:
        self.device = device

    def __enter__(self) -> Engine:
        local, engine = active.local, resolved(self.device)
        local.outer.append(local.engine)
        local.engine = engine
        return engine

    def __exit__(self, *_: object) -> None:
        active.local.engine = active.local.outer.pop()


def resolved(device: str | int | Device | Engine | None) -> Engine:
    """The engine itself, or the one of the device that `use` would take. Raises NoDeviceError."""
    if device is not None and (device is active.default or device is active.local.engine):
        return device  # type: ignore[return-value]
    from .device.device import Device
    from .device.devices import select

    if device is None or isinstance(device, (str, int, Device)):
        return engine_for(select(device)[0])
    return device


def exact() -> Engine:
    """An engine on the host that computes at the precision of its leaves."""
    from .reference import NumpyEngine

    return NumpyEngine(dtype=None)


def _forget(op: str) -> None:
    for engine in list(_engines.values()):
        engine.forget(op)


running.register(current, exact)
running.on_replaced(_forget)
_guide(__name__)
