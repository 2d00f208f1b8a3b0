"""Where slots lie in an arena."""

from __future__ import annotations

import numpy as np

from clnet.engine.compile.layout import SLOT, Layout, Piece, Slot, _Taken, layout

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
            assert slots.place([(0, size, first, last)]) == want
            taken.append((want, want + size, first, last))


def laid(lives: list[tuple[int, int, int]],
         pieces: dict[int, tuple[Piece, ...]] | None = None) -> tuple[Layout, list[Place]]:
    """Where temporary slots of these sizes [bytes] and lives lie, and what lies where, when."""
    slots = [Slot(*life, (pieces or {}).get(k, ())) for k, life in enumerate(lives)]
    found = layout(slots, [size for size, _, _ in lives])
    held = [(at + start, at + end, first, last) for at, s in zip(found.starts, slots, strict=True)
            for start, end, first, last in s.rooms(-(-s.nbytes // SLOT) * SLOT)]
    return found, held


def disjoint(places: list[Place]) -> bool:
    return not any(a[0] < b[1] and b[0] < a[1] and a[2] <= b[3] and b[2] <= a[3]
                   for k, a in enumerate(places) for b in places[:k])


def test_what_is_not_written_yet_of_a_concatenation_is_room_for_others() -> None:
    """A gradient of 8 slots whose last 6 come at the end, beside values of 6 that live before."""
    lives = [(8 * SLOT, 0, 9), (6 * SLOT, 1, 3), (6 * SLOT, 4, 7)]
    pieces = (Piece(0, 2 * SLOT, 0), Piece(2 * SLOT, 6 * SLOT, 8))
    (whole, _), (parted, held) = laid(lives), laid(lives, {0: pieces})
    assert (whole.arena, parted.arena, parted.least) == (14 * SLOT, 8 * SLOT, 8 * SLOT)
    assert disjoint(held)


def test_pieces_share_no_bytes_of_a_multiple_with_others() -> None:
    """Pieces end anywhere; what lies beside them begins at multiples of SLOT."""
    pieces = (Piece(0, 700, 5), Piece(700, 800, 0))
    _, held = laid([(1500, 0, 9), (512, 0, 4), (512, 0, 9)], {0: pieces})
    *own, one, other = held
    assert all(disjoint([mine, one, other]) for mine in own)
    assert all(start % SLOT == 0 for start, *_ in held)


def test_another_order_is_tried_where_big_ones_first_wastes_much() -> None:
    """Convolutional networks' pattern: two large values, between them many that live long."""
    rng = np.random.default_rng(1)
    better = 0
    for _ in range(30):
        lives = [(int(n) * SLOT, int(a), int(a + b)) for n, a, b in
                 zip(rng.integers(1, 40, 24), rng.integers(0, 20, 24), rng.integers(0, 9, 24), strict=True)]
        found, held = laid(lives)
        assert disjoint(held) and found.arena >= found.least
        assert found.arena == max(end for _, end, _, _ in held)
        taken, first = _Taken(len(lives)), 0
        for size, start, last in sorted(lives, key=lambda s: (-s[0], s[1])):
            first = max(first, taken.place([(0, size, start, last)]) + size)
        assert found.arena <= first
        better += found.arena < first
    assert better > 10
