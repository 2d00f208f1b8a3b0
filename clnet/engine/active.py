"""Which engine runs: the innermost `on(...)` of this thread, else the default of the process. State and nothing else,
so that every module of the engine may look.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device.device import Device
    from .protocol import Engine

default: Engine | None = None
why = ""  # it is the default


class _Local(threading.local):
    engine: Engine | None = None

    def __init__(self) -> None:
        self.outer: list[Engine | None] = []  # those of the blocks around


local = _Local()


def chosen() -> tuple[Device, str] | None:
    """The device in use and why, as a sentence; None before anything has run."""
    if local.engine is not None:
        return local.engine.device, f"{local.engine.device}: in use within this `with clnet.on(...)`."
    return None if default is None else (default.device, why)
