"""Nothing leaves the device silently: bytes and counts in both directions."""

from __future__ import annotations

import threading
from typing import NamedTuple


class Moved(NamedTuple):
    """Bytes and copies between host and device."""

    bytes_to_device: int = 0
    bytes_to_host: int = 0
    copies_to_device: int = 0
    copies_to_host: int = 0

    def __sub__(self, before: Moved) -> Moved:
        return Moved(self.bytes_to_device - before.bytes_to_device, self.bytes_to_host - before.bytes_to_host,
                     self.copies_to_device - before.copies_to_device, self.copies_to_host - before.copies_to_host)


class Transfers:
    """The running account; take a snapshot before and one after, and subtract."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self.bytes_to_device = self.bytes_to_host = self.copies_to_device = self.copies_to_host = 0

    def to_device(self, nbytes: int) -> None:
        with self._lock:
            self.bytes_to_device += nbytes
            self.copies_to_device += 1

    def to_host(self, nbytes: int) -> None:
        with self._lock:
            self.bytes_to_host += nbytes
            self.copies_to_host += 1

    def snapshot(self) -> Moved:
        with self._lock:
            return Moved(self.bytes_to_device, self.bytes_to_host, self.copies_to_device, self.copies_to_host)
