"""What this thread records at present: its log, whether every op runs at once, whose engine is meant,
and whether it is a step that will run again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engine.protocol import Engine
    from .tensor import Tensor


class Local(threading.local):
    """The state of one thread."""

    eager = False
    home: Engine | None = None  # the engine that computes what is recorded; None: the one in use when it runs
    log: list[Tensor] | None = None
    # Where in the log the gradient of which tensor begins; that of y, behind all others, is where they end.
    trail: list[tuple[int, Tensor]] | None = None
    step = False  # what is recorded is computed again later, with other inputs


local = Local()


def recording() -> bool:
    """Whether this thread records a step: what it computes now is computed again later, with other inputs."""
    return local.step


@contextlib.contextmanager
def recorded() -> Iterator[list[Tensor]]:
    """Collects what is recorded inside."""
    outer, log = local.log, []  # type: tuple[list[Tensor] | None, list[Tensor]]
    local.log = log
    try:
        yield log
    finally:
        local.log = outer
        if outer is not None:
            outer.extend(log)


@contextlib.contextmanager
def homed(engine: Engine | None) -> Iterator[None]:
    """What is recorded inside, and what is made of it later, is computed by this engine, whichever is in use then."""
    before, local.home = local.home, engine
    try:
        yield
    finally:
        local.home = before


@contextlib.contextmanager
def eager(on: bool = True) -> Iterator[None]:
    """Debugging: flush after every op, so that an error or a NaN appears at its line. There is no second code path."""
    before, local.eager = local.eager, on
    try:
        yield
    finally:
        local.eager = before
