"""The devices that tests run on: every OpenCL device found, or the NumPy engine when CLNET_DEVICE=numpy asks for it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from clnet.engine import on
from clnet.engine.device import devices, is_simulator

HOST_ONLY = os.environ.get("CLNET_DEVICE", "").strip() == "numpy"
FOUND = [d.key for d in devices() if not d.is_host and not is_simulator(d.platform)]
ROWS = {"op", "cls", "subject", "recipe", "rule"}  # parameters that go through all that is registered
LONG = ("RRDBNet", "densenet")  # rows whose programs take half a minute to build


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Compilers take most of the time, so a part of the tests runs on a device by default; `-m "slow or not slow"` runs all.

    On PoCL, which compiles slowly, a 96th of those that go through a table and a 24th of the others. Elsewhere a 16th of those through all
    ops, layers, losses, optimizers or networks, of which `clnet status --check` runs every row, and a third of those in which a CPU plays a GPU.
    """
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        key, number = given.get("device", given.get("engine", "numpy")), zlib.crc32(item.nodeid.encode())
        device = getattr(key, "key", key)
        share = (96 if len(given) > 1 else 24) if device == "pocl" else 1 if device == "numpy" else 16 if ROWS & set(given) else 3 if played(item) else 1
        if number % share or (device != "numpy" and any(name in item.nodeid for name in LONG)):
            item.add_marker(pytest.mark.slow)


def played(item: pytest.Item) -> bool:
    return "as_gpu" in getattr(item, "fixturenames", ())


def pytest_sessionstart(session: pytest.Session) -> None:
    if not FOUND and not HOST_ONLY:
        raise pytest.UsageError("tests: expected at least one OpenCL device; found none; run `clnet doctor`, or set CLNET_DEVICE=numpy to test without one.")


@pytest.fixture(params=["numpy"] if HOST_ONLY else FOUND)
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The engine of a device, in use for the length of the test."""
    with on(request.param) as engine:
        yield engine
