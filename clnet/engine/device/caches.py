"""Sizes of a processor's caches, asked of the system: Linux tells them core by core. OpenCL tells one size, of a level
that depends on the runtime (known_runtimes).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FIRST_CORE = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Caches(NamedTuple):
    """[bytes] of data, of the levels 1 to 3; 0: unknown, or there is none."""

    l1: int = 0
    l2: int = 0
    l3: int = 0

    def known(self, level: int, size: int) -> Caches:
        """With that size of a level, if nothing was known of it."""
        return Caches(*(old or (size if k == level else 0) for k, old in enumerate(self, 1)))


def of_the_system(folder: Path = FIRST_CORE) -> Caches:
    """The caches of the first core; what the system doesn't tell is unknown."""
    found = Caches()
    for index in sorted(folder.glob("index*")):
        try:
            kind, level, text = ((index / name).read_text("ascii").strip() for name in ("type", "level", "size"))
        except (OSError, ValueError):
            continue
        size = re.fullmatch(r"(\d+)([KMG]?)", text)
        if kind != "Instruction" and level.isdecimal() and size:
            found = found.known(int(level), int(size[1]) * UNITS[size[2]])
    return found
