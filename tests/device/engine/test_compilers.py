"""Programs of a plan are compiled side by side, and come out the same: whatever becomes of the processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.engine.device import compilers, together
from clnet.engine.device.commands import Queue
from clnet.engine.device.devices import Device, devices
from clnet.engine.device.programs import ProgramCache
from clnet.errors import KernelBuildError

GATHERING = [pytest.param(d, id=d.key) for d in devices() if not d.is_host and d.known.gathers]
TEXT = """#define STEP {k}
inline float more(float x) {{ return x + STEP; }}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void add{k}(__global float *a) {{ a[0] = more(a[0]); }}
"""
WANTED = {TEXT.format(k=k): [f"add{k}"] for k in range(6)}
pytestmark = pytest.mark.skipif(not GATHERING, reason="no device whose programs are compiled together")


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One process compiles beside this one, whatever the machine and however little there is to do."""
    monkeypatch.setenv(compilers.VARIABLE, "1")
    monkeypatch.setattr(together, "START", 1e-3)
    monkeypatch.setattr(together, "LEAST", 0.1)
    compilers.stop()
    yield
    compilers.stop()


def values(cache: ProgramCache) -> list[float]:
    """What the kernels make of 1."""
    import pyopencl as cl

    queue, found = Queue(cache.device), []
    buffer = cl.Buffer(cache.context, cl.mem_flags.READ_WRITE, 64)
    for text, (name,) in WANTED.items():
        queue.upload(buffer, np.ones(16, np.float32))
        kernel = cl.Kernel(cache.get(text, name=name), name)
        kernel.set_args(buffer)
        cl.enqueue_nd_range_kernel(queue.commands, kernel, (1,), (1,))
        found.append(float(queue.download(buffer, np.empty(16, np.float32))[0]))
    return found


RIGHT = [1.0 + k for k in range(6)]


@pytest.mark.parametrize("device", GATHERING)
def test_what_was_prepared_computes_and_was_built_once(device: Device, tmp_path: Path) -> None:
    cache, told = ProgramCache(device, tmp_path), list[tuple[int, int]]()
    assert cache.prepare(WANTED, tell=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 6) and told[-1] == (6, 6) and told == sorted(told)
    assert values(cache) == RIGHT
    counters = cache.counters()
    assert (counters.builds, counters.disk_hits, counters.memory_hits) == (6, 0, 0)
    assert not cache.prepare(WANTED)
    second = ProgramCache(device, tmp_path)
    assert not second.prepare(WANTED)
    assert values(second) == RIGHT
    assert (second.counters().builds, second.counters().disk_hits) == (0, 6)


@pytest.mark.parametrize("device", GATHERING)
def test_a_process_does_all_of_it(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("this process compiled")

    take = compilers.Work.take
    monkeypatch.setattr(compilers.Work, "take", lambda work, helper=False: take(work, True) if helper else None)
    monkeypatch.setattr(ProgramCache, "build", never)
    cache = ProgramCache(device, tmp_path)
    cache.prepare(WANTED)
    assert len(compilers.running()) == 1
    assert values(cache) == RIGHT
    assert cache.counters().builds == 6


@pytest.mark.parametrize("device", GATHERING)
def test_when_a_process_dies_nothing_is_lost_and_nothing_of_it_stays(device: Device, tmp_path: Path) -> None:
    compilers.start(1)
    (pid,) = compilers.running()
    os.kill(pid, 9)
    cache = ProgramCache(device, tmp_path)
    cache.prepare(WANTED)
    assert values(cache) == RIGHT
    assert cache.counters().builds == 6
    compilers.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("device", GATHERING)
def test_a_device_that_only_this_process_knows_is_no_trouble(device: Device, tmp_path: Path) -> None:
    import dataclasses

    cache = ProgramCache(dataclasses.replace(device, driver="another version"), tmp_path)
    assert cache.prepare(WANTED)
    assert values(cache) == RIGHT


@pytest.mark.parametrize("device", GATHERING)
def test_an_error_is_that_of_the_program_and_the_others_are_there(device: Device, tmp_path: Path) -> None:
    bad = "__kernel void bad(__global float *a) {\n    a[0] = nowhere;\n}\n"
    cache = ProgramCache(device, tmp_path)
    cache.prepare({**WANTED, bad: ["bad"]})
    assert values(cache) == RIGHT
    with pytest.raises(KernelBuildError, match=r"^bad: expected") as caught:
        cache.get(bad, name="bad")
    assert ">    2 |     a[0] = nowhere;" in str(caught.value)


@pytest.mark.parametrize("device", GATHERING)
def test_without_a_store_or_processes_programs_are_built_here(device: Device, tmp_path: Path,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compilers.VARIABLE, "0")
    (tmp_path / "file").write_text("")
    lost = ProgramCache(device, tmp_path / "file" / "programs")
    assert not lost.prepare(WANTED)
    kept = ProgramCache(device, tmp_path / "programs")
    assert kept.prepare(WANTED)
    assert compilers.running() == []
    assert values(lost) == values(kept) == RIGHT
    assert lost.counters().builds == kept.counters().builds == 6


@pytest.mark.parametrize("device", GATHERING)
def test_a_damaged_group_is_built_anew(device: Device, tmp_path: Path) -> None:
    first = ProgramCache(device, tmp_path)
    first.prepare(WANTED)
    large = [p for p in first.store.entries() if p.stat().st_size > 1000]
    assert 0 < len(large) < 6, "the programs were not put together"
    for path in large:
        path.write_bytes(path.read_bytes()[:500])
    second = ProgramCache(device, tmp_path)
    assert values(second) == RIGHT
    assert second.counters().builds == 6


@pytest.mark.parametrize("device", GATHERING)
def test_a_program_is_found_by_its_kernel_alone(device: Device, tmp_path: Path) -> None:
    """One that was compiled with others serves the kernels that were asked of it."""
    cache = ProgramCache(device, tmp_path)
    cache.prepare(WANTED)
    text = next(iter(WANTED))
    again = ProgramCache(device, tmp_path)
    again.get(text, name="add0")
    assert (again.counters().builds, again.counters().disk_hits) == (0, 1)
    other = ProgramCache(device, tmp_path)
    other.get(text, name="something else")
    assert (other.counters().builds, other.counters().disk_hits) == (1, 0)


def test_a_process_ends_with_the_one_that_it_compiles_for(tmp_path: Path) -> None:
    code = "import os\nfrom clnet.engine.device import compilers\ncompilers.start(1)\nprint(compilers.running()[0])"
    for end in ("", "\nos._exit(0)"):
        env = {**compilers.environment(), compilers.VARIABLE: "1", "CLNET_CACHE_DIR": str(tmp_path)}
        out = subprocess.run([sys.executable, "-c", code.replace(")[0])", ")[0], flush=True)") + end], env=env,
                             capture_output=True, text=True, timeout=60, check=True).stdout
        assert gone(int(out)), "a process stayed behind"


def gone(pid: int) -> bool:
    """Whether a process ends, within a time that no test should need."""
    import time

    for _ in range(300):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_has_none(tmp_path: Path) -> None:
    code = ("import os\nfrom clnet.engine.device import compilers\ncompilers.start(1)\npid = os.fork()\n"
            "if not pid:\n    os._exit(10 * len(compilers.running()) + compilers.start(1))\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(compilers.running()))")
    env = {**compilers.environment(), compilers.VARIABLE: "1", "CLNET_CACHE_DIR": str(tmp_path)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert out.stdout.split() == ["0", "1"]


@pytest.mark.parametrize("device", GATHERING)
def test_processes_start_early_where_nothing_is_on_disk_alone(device: Device, tmp_path: Path) -> None:
    empty = ProgramCache(device, tmp_path / "programs")
    empty.store.write(empty.key("something"), b"anything")
    empty.expect()
    assert compilers.running() == []
    empty.store.clear()
    empty.expect()
    assert len(compilers.running()) == 1
