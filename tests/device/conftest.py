"""Tensor cores before Hopper's where there are none: a CPU that compiles fast runs their instructions emulated (emulated_ptx.h)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clnet.engine import codegen
from clnet.engine import ctypes as ct

# What kernels say behind BEGIN: lanes meet in local memory that is declared there.
FIRST = ("THREADS", "__local uchar blocks")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that lies here is marked `device`, whatever its file says."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.device)


@pytest.fixture
def quick(device: Any) -> Any:
    """The device, where kernels build quickly."""
    if not hasattr(device, "pool") or device.device.runtime == "pocl":
        pytest.skip("whole networks are built where kernels build quickly")
    return device


@pytest.fixture
def as_gpu() -> Callable[..., Any]:
    """(device, **profile) -> an engine over the device that takes the kernels and the geometry of GPUs.

    On Intel's CPU runtime without optimisation: work-groups and local memory cost its compiler a minute a program, and what is shown is the kernel's logic.
    """

    def made(device: Any, **profile: Any) -> Any:
        from clnet.engine.opencl import OpenCLEngine

        found = device.device
        engine = OpenCLEngine(dataclasses.replace(found, **{"kind": "gpu", "vector_width": 1, **profile}))
        engine.options = (*device.options, "-cl-opt-disable") if found.kind == "cpu" and found.runtime == "intel" else device.options
        return engine

    return made


@pytest.fixture
def tensor_cores(device: Any, as_gpu: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """(played, **profile) -> an engine whose device has tensor cores of its own or, `played`, an engine over this CPU that plays to have them."""

    def made(played: bool, **profile: Any) -> Any:
        found = device.device
        if found.ampere and not played:
            return device
        if found.ampere or not played:
            pytest.skip("no tensor cores that clnet can use; they are played elsewhere" if not played else "it has tensor cores of its own")
        if found.is_host or found.kind != "cpu" or found.runtime == "pocl":
            pytest.skip("neither tensor cores that clnet can use nor a CPU that compiles fast and plays them")
        original, emulated = codegen.kernel_file.__wrapped__, (Path(__file__).parent / "emulated_ptx.h").read_text("utf-8")

        bits = ct._to_bfloat16

        def kernel_file(name: str) -> str:
            text = emulated if name == "include/ptx.h" else original(name)
            for first in FIRST:
                text = text.replace(f"    BEGIN\n    {first}", f"    BEGIN\n    EMULATE\n    {first}")
            return text

        monkeypatch.setattr(codegen, "kernel_file", kernel_file)
        monkeypatch.setattr(ct, "_to_bfloat16", lambda lanes, _: bits(lanes, False))  # the emulation has no PTX for bfloat16's rounding either
        return as_gpu(device, key="tensor cores", inline_ptx=True, compute_capability=80, **profile)

    return made
