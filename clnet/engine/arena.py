"""Where a recorded step's values between live."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .opencl import OpenCLEngine


class Arena:
    """Memory for the values between inputs and outputs, for all replays that run one after another."""

    def __init__(self, engine: OpenCLEngine) -> None:
        self.engine = engine
        self.block: Any = None
        self.age = 0  # how often it was moved
        self.user = 0  # the thread that uses it, and what is bound to it

    def enter(self) -> None:
        """This thread uses it from now on. Waits for what is left of another's work, which has a queue of its own."""
        thread = threading.get_ident()
        if thread != self.user:
            self.engine.queue.settle(self.user)
            self.user = thread
            if self.block is not None:
                self.block.adopt()

    def hold(self, nbytes: int) -> None:
        """Makes it as large at least."""
        if nbytes and (self.block is None or self.block.nbytes < nbytes):
            self.block = None  # so that it is free when the new one is asked for
            self.block = self.engine.pool.alloc(nbytes, "step arena")
            self.age += 1
