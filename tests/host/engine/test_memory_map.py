"""Where slots lie in an arena."""

from __future__ import annotations

import numpy as np

from clnet.engine.compile.memory_map import _Taken

Place = tuple[int, int, int, int]  # start, end, first, last


def lowest(taken: list[Place], size: int, first: int, last: int) -> int:
    """The lowest offset that is free for the whole life, by trying every one where something ends."""
    beside = [(start, end) for start, end, a, b in taken if a <= last and first <= b]
    return min(at for at in [0, *(end for _, end in beside)]
               if all(at + size <= start or end <= at for start, end in beside))


def test_a_slot_lies_at_the_lowest_offset_that_is_free_during_its_life() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        taken, slots = list[Place](), _Taken(60)
        for _ in range(60):
            size, first = int(rng.integers(1, 9)) * 512, int(rng.integers(0, 20))
            last = first + int(rng.integers(0, 8))
            want = lowest(taken, size, first, last)
            assert slots.place(size, first, last) == want
            taken.append((want, want + size, first, last))
