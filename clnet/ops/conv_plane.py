"""Blocks of conv_plane.cl: convolutions with so few result channels a group that vector lanes are better spent on pixels.

Pure Python. Sizes in elements unless said otherwise.
"""

from __future__ import annotations

from math import ceil
from typing import Any

FILE = "conv_plane.cl"
TALL = 8  # rows of the register tile at most
TAPS = 28  # taps of the register tile of the weight gradient at most


def _suits(layout: Any, o: int, lanes: int) -> bool:
    return lanes > 1 and o * layout.numbers["few"] <= lanes and layout.step[2] <= 2


def rows(layout: Any, o: int, c: int, lanes: int, itemsize: int) -> dict[str, int] | None:
    """TH, JB of ROWS_OUT, or None where lanes are better spent on channels, or a block does not fit."""
    if not _suits(layout, o, lanes):
        return None
    down = ceil(layout.result[1] / layout.out[1])
    th = min(range(min(TALL // 2 + 1, down), min(TALL, down) + 1), key=lambda t: (ceil(down / t) * t, -t))
    row = layout.out[1] * layout.result[2] * itemsize
    fits = [j for j in range(th, down + th, th) if c * layout.plane(j) * itemsize <= layout.numbers["copy"] and j * row <= layout.numbers["tile"]]
    return dict(TH=th, JB=fits[-1]) if fits else None


def weights(device: Any, layout: Any, n: int, groups: int, o: int, c: int, k: int, lanes: int, itemsize: int) -> dict[str, int] | None:
    """TB, JB, PARTS of WEIGHTS, or None alike."""
    if not _suits(layout, o, lanes) or o * c * k * lanes * itemsize > layout.numbers["sums"]:
        return None
    down, row = layout.result[1], layout.result[2] * itemsize
    fits = [j for j in range(1, down + 1) if c * layout.plane(j) * itemsize <= layout.numbers["copy"] and j * row <= layout.numbers["tile"]]
    if not fits:
        return None
    j = ceil(down / ceil(down / fits[-1]))
    units = n * layout.result[0] * ceil(down / j)
    return dict(TB=ceil(k / ceil(k / TAPS)), JB=j, PARTS=max(1, min(units, ceil(device.compute_units * layout.numbers["per_core"] / groups))))
