"""The only package that imports pyopencl. `current()` is the engine that runs what is asked for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from ..names import guide as _guide

_engines: dict[str, Any] = {}
_lock = threading.RLock()
_default: Any = None
_why = ""  # it is the default


class _Local(threading.local):
    engine: Any = None


_local = _Local()


def engine_for(device: Any) -> Any:
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


def use(device: Any = None) -> Any:
    """Makes a device the default: a Device, its key ("intel", "numpy"), part of its name, "gpu", "cpu" or a number.

    None chooses again: CLNET_DEVICE, GPU, Intel CPU, other CPU, PoCL, NumPy. Raises NoDeviceError with what there is.
    """
    global _default, _why
    from .device import select

    found, _why = select(device)
    _default = engine_for(found)
    return found


def chosen() -> tuple[Any, str]:
    """The device in use and why, as a sentence; before anything has run, the one that would be. Raises NoDeviceError."""
    from .device import select

    if _local.engine is not None:
        return _local.engine.device, f"{_local.engine.device}: in use within this `with clnet.on(...)`."
    return (_default.device, _why) if _default is not None else select()


def current() -> Any:
    """The engine in use: the innermost `on(...)` of this thread, else the default."""
    if _local.engine is not None:
        return _local.engine
    if _default is None:
        use()
    return _default


@contextlib.contextmanager
def on(device: Any) -> Iterator[Any]:
    """Within the block this thread runs on `device` (anything `use` takes, or an engine)."""
    from .device import select

    engine = device if hasattr(device, "values") else engine_for(select(device)[0])
    before, _local.engine = _local.engine, engine
    try:
        yield engine
    finally:
        _local.engine = before

_guide(__name__)
