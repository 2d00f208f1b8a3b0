"""Numbers that follow from the one before, of which an optimizer needs one a step: each is computed once."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Series:
    """s₀ = first, s_t = following(s_{t−1}, t)"""

    def __init__(self, first: float, following: Callable[[float, int], float]) -> None:
        self._known, self._following, self._lock = [first], following, threading.Lock()

    def __getitem__(self, t: int) -> float:
        with self._lock:
            while len(self._known) <= t:
                self._known.append(self._following(self._known[-1], len(self._known)))
        return self._known[t]
