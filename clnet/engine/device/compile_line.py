"""A line of a terminal that says how far compiling has come, where nobody else does."""

from __future__ import annotations

import sys
import time
from typing import TextIO

PATIENCE = 1.0  # [s] of compiling before a word is said about it


class Line:
    """Called with (ready, of how many), it says so after PATIENCE, where standard error is a terminal; `end` wipes it
    away. In pipes, logs and notebooks, which keep what they are told, it is silent.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.since, self.width = time.monotonic(), 0

    def __call__(self, ready: int, total: int) -> None:
        if time.monotonic() - self.since < PATIENCE or not self._heard():
            return
        text = f"compiling kernels {ready}/{total}, once; kept for the next start"
        self.stream.write("\r" + text.ljust(self.width))
        self.stream.flush()
        self.width = len(text)

    def _heard(self) -> bool:
        try:
            return self.stream is not None and self.stream.isatty()
        except (AttributeError, ValueError):  # closed, or no file at all
            return False

    def end(self) -> None:
        """Leaves the line as it was."""
        if self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0
