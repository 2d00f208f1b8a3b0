"""How work is dealt out: lanes of vectors, work-items of CPUs, whole work-groups of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.size import divides, typical, varies
from ..core.spec import np_dtype

if TYPE_CHECKING:
    from ..engine.device.devices import Device

PER_CORE = 4  # work-items a core, against uneven cores


def up(n: int, by: int) -> int:
    """The next multiple of `by`."""
    return -(-n // by) * by


def item_count(device: Device, most: int, work: int, worth: int) -> int:
    """Work-items of a CPU for `work`, of which `worth` is worth one; `most` can be used."""
    return max(1, min(typical(most), device.compute_units * PER_CORE, typical(work) // worth))


def dealt(device: Device, count: int, work: int, worth: int) -> tuple[int, int]:
    """(how many of `count` things a work-item of a CPU takes, work-items)."""
    chunk = -(-count // item_count(device, count, work, worth))
    return chunk, -(-count // chunk)


def in_parts(count: int, parts: int) -> tuple[int, int]:
    """(parts, how many each): `count` dealt out to so many at most. Of a count that varies they are as many as asked
    for, and the last may be empty.
    """
    each = -(-count // parts)
    return parts if varies(count) else -(-count // each), each


def vector_lanes(device: Device, dtype: str) -> int:
    """Elements of a vector of a CPU; those of fewer than 32 bits are computed in 32."""
    return max(1, device.vector_width * 4 // max(4, np_dtype(dtype).itemsize))


def fitting(lanes: int, n: int) -> int:
    """So many lanes, or half, a quarter of them where a row of n elements is shorter than a vector."""
    while lanes > max(n, 1):
        lanes //= 2
    return lanes


def gpu_lanes(n: int) -> int:
    """Vectors of 4 on a GPU where a row is a number of them."""
    return 4 if divides(4, n) else 1
