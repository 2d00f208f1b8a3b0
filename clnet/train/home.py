"""Where a trainer runs, and that it does one thing at a time."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import UseError

if TYPE_CHECKING:
    from .trainer import Trainer


def at_home(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that runs on the device that its trainer's model was told to `use`."""

    @functools.wraps(method)
    def placed(self: Trainer, *args: Any, **named: Any) -> Any:
        with getattr(self.model, "placed", contextlib.nullcontext)():
            return method(self, *args, **named)

    return placed


def alone(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that changes its trainer, which one call at a time may do. Raises UseError in a second one."""

    @functools.wraps(method)
    def guarded(self: Trainer, *args: Any, **named: Any) -> Any:
        if not self.running.acquire(blocking=False):
            raise UseError(
                f"fit: expected one run of a trainer at a time; got another one in "
                f"{threading.current_thread().name!r} while the first goes on; make a Trainer for each thread, "
                "or take a copy: copy.deepcopy(trainer).")
        try:
            return method(self, *args, **named)
        finally:
            self.running.release()

    return guarded
