"""Tensor cores before Hopper's where there are none:
a CPU that compiles fast runs their instructions emulated (emulated_ptx.h).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from clnet.core.op import Kernel
from clnet.engine.compile import c_types as ct
from clnet.engine.compile import source
from clnet.engine.device.device import Device
from clnet.errors import ClnetError
from clnet.kernels.choosers import Chooser
from clnet.kernels.operand import Operand
from clnet.kernels.variant import Choice

# What kernels say behind BEGIN: lanes meet in local memory that is declared there.
FIRST = ("THREADS", "__local uchar blocks")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that lies here is marked `device`, whatever its file says."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.device)


@pytest.fixture
def quick(engine: Any) -> Any:
    """The engine, where kernels build quickly."""
    if not engine.compiles or engine.device.runtime == "pocl":
        pytest.skip("whole networks are built where kernels build quickly")
    return engine


@pytest.fixture
def shows(engine: Any) -> Callable[[Callable[[], Any], Any], None]:
    """(call, expected): holds what a row of habits says (test_habits.py)."""

    def check(call: Callable[[], Any], expected: Any) -> None:
        if not isinstance(expected, str):
            result = call()
            assert expected(result) if callable(expected) else result == expected, f"got {result!r}"
            return
        with pytest.raises((ClnetError, AttributeError, ImportError)) as caught:
            call()
        text = str(caught.value)
        assert re.search(expected, text), text
        assert not text.endswith("?."), text

    return check


@pytest.fixture
def as_gpu() -> Callable[..., Any]:
    """(engine, **profile) -> an engine over its device that takes the kernels and the geometry of GPUs.

    On Intel's CPU runtime without optimisation: work-groups and local memory cost its compiler a minute a program, and
    what is shown is the kernel's logic.
    """

    def made(engine: Any, **profile: Any) -> Any:
        from clnet.engine.opencl import OpenCLEngine

        found = engine.device
        engine = OpenCLEngine(dataclasses.replace(found, **{"kind": "gpu", "vector_width": 1, **profile}))
        if found.kind == "cpu" and found.runtime == "intel":
            engine.options = (*engine.options, "-cl-opt-disable")
        return engine

    return made


@pytest.fixture
def chosen_for(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Choice]]:
    """(op, **profile) -> what is chosen for the op from now on, as for a device of this profile."""

    def made(op: Kernel, **profile: Any) -> list[Choice]:
        asked = list[Choice]()

        class Other(Chooser):
            def choice(self, device: Device, operands: Sequence[Operand], **attrs: Any) -> Choice:
                asked.append(super().choice(dataclasses.replace(device, **profile), operands, **attrs))
                return asked[-1]

        assert isinstance(op.launch, Chooser)
        monkeypatch.setattr(op, "launch", Other(*op.launch))
        return asked

    return made


@pytest.fixture
def tensor_cores(engine: Any, as_gpu: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """(played, **profile) -> an engine whose device has tensor cores of its own or, `played`, an engine over this CPU
    that plays to have them.
    """

    def made(played: bool, **profile: Any) -> Any:
        found = engine.device
        if found.ampere and not played:
            return engine
        if found.ampere or not played:
            pytest.skip("no tensor cores that clnet can use; they are played elsewhere" if not played
                        else "it has tensor cores of its own")
        if found.is_host or found.kind != "cpu" or found.runtime == "pocl":
            pytest.skip("neither tensor cores that clnet can use nor a CPU that compiles fast and plays them")
        original, bits = source.kernel_file.__wrapped__, ct._to_bfloat16
        emulated = (Path(__file__).parent / "emulated_ptx.h").read_text("utf-8")

        def kernel_file(name: str) -> str:
            text = emulated if name == "include/ptx.h" else original(name)
            for first in FIRST:
                text = text.replace(f"    BEGIN\n    {first}", f"    BEGIN\n    EMULATE\n    {first}")
            return text

        monkeypatch.setattr(source, "kernel_file", kernel_file)
        # the emulation has no PTX for bfloat16's rounding either
        monkeypatch.setattr(ct, "_to_bfloat16", lambda lanes, _: bits(lanes, False))
        return as_gpu(engine, key="tensor cores", inline_ptx=True, compute_capability=80, **profile)

    return made
