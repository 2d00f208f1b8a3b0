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
# Parameters that go through all that is registered.
ROWS = {"op", "cls", "subject", "recipe", "rule", "kind", "layer"}
BASIS = {"core", "engine", "ops"}  # folders of what all others are made of
LONG = ("RRDBNet", "densenet")  # rows whose programs take half a minute to build


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick set runs by default, `-m "full or not full"` runs all. In the order of files it is:

    on NumPy, and where no device is needed      everything
    on a device                                  of a test that goes through a table of ops, layers, losses, optimizers
                                                 or networks, the first row of each family (`clnet status --check` runs
                                                 every row); of one in which a CPU plays a GPU, and of kernels, the
                                                 first case; of other tests with cases the first and the last, all where
                                                 the test is marked `cheap`; tests without any
    on PoCL, which compiles slowly               the first test of each file of ops, core and engine, of each other
                                                 folder the first
    """
    groups: dict[tuple[object, bool], list[pytest.Item]] = {}
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        key = given.get("engine", given.get("device", "numpy"))
        group = _group(item, given, getattr(key, "key", key))
        if group and not group[1] and any(name in item.nodeid for name in LONG):
            item.add_marker(pytest.mark.full)
        elif group:
            groups.setdefault(group, []).append(item)
    for (_, ends), members in groups.items():
        for item in members[1:-1] if ends else members[1:]:
            item.add_marker(pytest.mark.full)


def _group(item: pytest.Item, given: dict[str, object], device: object) -> tuple[object, bool] | None:
    """The items of which the quick set has the first, and whether it has the last, too; None: of none."""
    if device == "numpy" or (device != "pocl" and item.get_closest_marker("cheap")):
        return None
    if device == "pocl":
        return (item.path if item.path.parent.name in BASIS else item.path.parent), False
    test = item.path, getattr(item, "originalname", item.name), device
    if row := next((given[name] for name in sorted(ROWS & set(given))), None):
        return (*test, getattr(row, "family", None) or getattr(row, "__module__", "")), False
    return test, item.path.parent.name != "kernels" and "as_gpu" not in getattr(item, "fixturenames", ())


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
