"""Tensor cores before Hopper's where there are none:
a CPU that compiles fast runs their instructions emulated (emulated_ptx.h).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.core.op import Kernel
from clnet.engine import current, on
from clnet.engine.compile import c_types as ct
from clnet.engine.compile import source
from clnet.engine.device.device import Device
from clnet.engine.record import Recorded
from clnet.engine.reference import NumpyEngine
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


def _builds(engine: Any) -> int:
    found = engine.programs.counters()
    return int(found.builds + found.disk_hits)


@pytest.fixture
def builds() -> Callable[[Any], int]:
    """engine -> how many programs it has made or taken from the disk so far."""
    return _builds


@pytest.fixture
def serves_all(engine: Any) -> Callable[..., Recorded]:
    """(fn, inputs, alone=, digits=): calls fn, recorded once, with all inputs in turn, and gives the recording.

    Two shapes come first: one that has a plan of its own, and one with which the plan of all sizes is made. For the
    others nothing is built. Each result is that of fn recorded for the shape alone, but for `alone` of the largest
    number (0: to the last bit), and of float64, but for `digits` of it (None: it is not compared). It runs on the
    engine in use.
    """
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")

    def check(fn: Callable[..., Any], inputs: Iterable[Sequence[Any]], alone: float = 0.0,
              digits: float | None = 2e-6, recordings: int = 2) -> Recorded:
        recorded, used = Recorded(fn), current()
        for k, given in enumerate(inputs):
            before = _builds(used)
            got = _values(recorded(*given))
            assert k < 2 or _builds(used) == before, f"programs were built for {[a.shape for a in given]}"
            _near(got, _values(Recorded(fn)(*given)), alone)
            if digits is not None:
                with on(NumpyEngine()):
                    _near(got, _values(Recorded(fn)(*map(_wide, given))), digits)
        assert (recorded.refused, recorded.fixed, recorded.recorded) == ("", {}, recordings)
        return recorded

    return check


def _values(found: Any) -> list[np.ndarray[Any, Any]]:
    return [t.numpy() for t in (found if isinstance(found, (tuple, list)) else (found,))]


def _wide(a: Any) -> Any:
    return a.astype(np.float64) if a.dtype == np.float32 else a


def _near(got: Sequence[Any], want: Sequence[Any], most: float) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max(initial=0) <= most * max(np.abs(b).max(initial=0), 1e-30)


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
