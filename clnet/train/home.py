"""Where a trainer runs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trainer import Trainer


def at_home(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that runs on the device that its trainer's model was told to `use`."""

    @functools.wraps(method)
    def placed(self: Trainer, *args: Any, **named: Any) -> Any:
        with getattr(self.model, "placed", contextlib.nullcontext)():
            return method(self, *args, **named)

    return placed
