"""Sizes of blocks and codes of errors."""

from __future__ import annotations

from clnet.engine.device.memory import size_class
from clnet.errors import DeviceLost, OutOfDeviceMemory


def test_size_classes_waste_little_and_grow() -> None:
    sizes = [*range(1, 70_000, 61), *(int(1.07**n) for n in range(164, 480))]
    for nbytes in sizes:
        capacity = size_class(nbytes)
        assert capacity % 512 == 0
        assert nbytes <= capacity < nbytes + max(512, nbytes // 8 + 1)
        assert size_class(capacity) == capacity
        assert nbytes < 1 << 20 or capacity <= nbytes * 257 / 256
    assert size_class(0) == size_class(1) == 512


def test_every_code_becomes_one_of_ours() -> None:
    from clnet.engine.device.faults import translate

    for code, kind in ((-4, OutOfDeviceMemory), (-61, OutOfDeviceMemory), (-36, DeviceLost), (-9999, DeviceLost)):
        error = RuntimeError("x")
        error.code, error.routine = code, "clFinish"  # type: ignore[attr-defined]
        made = translate(error, "Queue")
        assert type(made) is kind
        assert str(made).startswith("Queue: expected clFinish to succeed")
