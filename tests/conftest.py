"""The devices that tests run on: every OpenCL device found, or the NumPy engine when CLNET_DEVICE=numpy asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from clnet.engine import on
from clnet.engine.device.devices import devices

# What a test plans is planned by what the test says, not read from another's file.
os.environ.setdefault("CLNET_KEEP_PLANS", "0")
HOST_ONLY = os.environ.get("CLNET_DEVICE", "").strip() == "numpy"
FOUND = [d.key for d in devices() if not d.is_host and not d.is_simulator]
# Parameters that go through all that is registered, or through kinds of layers and of data.
ROWS = {"op", "cls", "subject", "recipe", "rule", "kind", "layer", "case"}
BASIS = {"core", "engine", "ops"}  # folders of what all others are made of
LONG = ("RRDBNet", "densenet")  # rows whose programs take half a minute to build


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick set runs by default, `-m "full or not full"` runs all. It is what comes first, in the order of files:

    on NumPy, and where no device is needed      everything
    on a device                                  of a test that goes through a table of ops, layers, losses, optimizers
                                                 or networks, the first row of each family (`clnet status --check` runs
                                                 every row), of kinds of layers and data the first; of a test in which
                                                 a CPU plays a GPU, the first case; all other tests
    on PoCL, which compiles slowly               the first test of each file of ops, core and engine, of each other
                                                 folder the first
    """
    seen: set[object] = set()
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        key = given.get("engine", given.get("device", "numpy"))
        first = _first(item, given, getattr(key, "key", key))
        slow = first is not None and any(name in item.nodeid for name in LONG)
        if slow or (first is not None and first in seen):
            item.add_marker(pytest.mark.full)
        else:
            seen.add(first)


def _first(item: pytest.Item, given: dict[str, object], device: object) -> object:
    """What an item must be the first of to be in the quick set; None: of nothing."""
    if device == "numpy":
        return None
    if device == "pocl":
        return item.path if item.path.parent.name in BASIS else item.path.parent
    test = item.path, getattr(item, "originalname", item.name), device
    if row := next((given[name] for name in sorted(ROWS & set(given))), None):
        return *test, getattr(row, "family", None) or getattr(row, "__module__", "")
    return test if "as_gpu" in getattr(item, "fixturenames", ()) else None


def pytest_sessionstart(session: pytest.Session) -> None:
    if not FOUND and not HOST_ONLY:
        raise pytest.UsageError(
            "tests: expected at least one OpenCL device; found none; run `clnet doctor`, or set CLNET_DEVICE=numpy to "
            "test without one.")


@pytest.fixture(params=["numpy"] if HOST_ONLY else FOUND)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The engine of a device, in use for the length of the test."""
    with on(request.param) as found:
        yield found
