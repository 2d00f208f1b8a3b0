"""`with clnet.session():` gives back what was taken inside: memory of devices, threads and processes."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.tensor import Tensor
from ..errors import ConfigError
from ..show import Shown, Table, size
from . import _engines
from .device import commands, compilers
from .opencl import DeviceArray, OpenCLEngine
from .record import Recorded

if TYPE_CHECKING:
    from types import TracebackType


class Session(Shown):
    """From when it is made until `close()`, or the end of its `with`.

    Then, on every device: recordings that took memory inside (of trainers, of functions) are forgotten, and made again
    if they are called again; values that came to lie on a device inside (of models, optimizers, tensors, also of those
    made before) go to the host to the last bit, and back when they are used again; the pool is as large as it was; the
    threads and compiling processes that were started inside end. Results stay right: only the next use is slower.

    programs   whether compiled programs and plans go, too (those on disk stay)
    What an OpenCL driver took for itself with the first use of a device stays until the process ends: its own threads,
    and a context.
    """

    def __init__(self, programs: bool = False) -> None:
        if not isinstance(programs, bool):
            raise ConfigError(f"session(programs={programs!r}): expected True or False.")
        self.programs, self.open, self.freed = programs, True, 0
        self._before = {engine.device.key: _state(engine) for engine in _running()}
        self._threads, self._compiles = set(threading.enumerate()), bool(compilers.running())

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def table(self) -> Table:
        rows = [(str(e.device), size(max(0, _held(e) - self._before.get(e.device.key, (0, 0, 0))[1])))
                for e in _running()]
        title = "Session: taken so far" if self.open else f"Session: closed, {size(self.freed)} given back"
        return Table(("device", "memory"), rows if self.open else [], title=title)

    def close(self) -> None:
        """Gives back what was taken since. Twice is once."""
        if not self.open:
            return
        self.open = False
        engines = [(e, *self._before.get(e.device.key, (0, 0, 0))) for e in _running()]
        held = sum(_held(e) for e, *_ in engines)
        for engine, *_ in engines:
            engine.finish()
            engine.unbind()
        since = {id(engine): number for engine, number, *_ in engines}
        for recorded in _alive(Recorded):
            if recorded.newest(since):
                recorded.release()
        gc.collect()  # graphs hold each other
        for t in _alive(Tensor):
            _to_host(t, since)
        for engine, _, _, cached in engines:
            engine.finish()
            if self.programs:
                engine.plans.clear()
                engine.programs.clear(False)
            engine.pool.trim(cached)
        self.freed = max(0, held - sum(_held(e) for e, *_ in engines))
        if not self._compiles:
            compilers.stop()
        commands.dismiss(self._threads)


def session(programs: bool = False) -> Session:
    """with session(): … gives every byte of device memory, every thread and process taken inside back at its end;
    `s = session()` does at `s.close()`. Values and trainers made inside stay usable.

    programs   whether compiled programs and plans go, too
    Raises ConfigError.
    """
    return Session(programs)


def _running() -> list[OpenCLEngine]:
    return [e for e in _engines.values() if isinstance(e, OpenCLEngine)]


def _state(engine: OpenCLEngine) -> tuple[int, int, int]:
    """(number of the newest block, bytes held, of these bytes in the pool's cache)"""
    s = engine.pool.statistics()
    return s.requests, s.active + s.cached, s.cached


def _held(engine: OpenCLEngine) -> int:
    s = engine.pool.statistics()
    return s.active + s.cached


def _alive(kind: type[Any]) -> list[Any]:
    return [o for o in gc.get_objects() if isinstance(o, kind)]


def _to_host(t: Tensor, since: dict[int, int]) -> None:
    """Its value, if it came to a device after the block of this number."""
    storage = t.storage
    if not isinstance(storage, DeviceArray) or storage.block.number <= since.get(id(storage.engine), 0):
        return
    if t.value is None:
        value = np.asarray(storage.numpy())
        value.flags.writeable = False
        t.value = value
    t.storage = None
