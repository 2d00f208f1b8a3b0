"""Programs are built once; a damaged entry is built again and replaced."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.engine.device.commands import Queue
from clnet.engine.device.devices import Device, devices
from clnet.engine.device.kernel import kernel_of
from clnet.engine.device.programs import ProgramCache
from clnet.errors import KernelBuildError

ROOT = Path(__file__).resolve().parents[3]
FOUND = [pytest.param(device, id=device.key) for device in devices() if not device.is_host]
STORING = [pytest.param(d, id=d.key) for d in devices() if not d.is_host and not d.known.keeps]
SOURCE = "__kernel void add(__global float *a) { a[get_global_id(0)] += STEP; }\n"
OPTIONS = ["-DSTEP=2.0f"]


def works(cache: ProgramCache) -> bool:
    """The program that comes out of the cache computes."""
    return added(cache, cache.get(SOURCE, OPTIONS)) == 3.0


def added(cache: ProgramCache, program: Any) -> float:
    """What a program makes of ones; all alike."""
    import pyopencl as cl

    queue = Queue(cache.device)
    buffer = cl.Buffer(cache.context, cl.mem_flags.READ_WRITE, 64)
    queue.upload(buffer, np.ones(16, np.float32))
    kernel = cl.Kernel(program, "add")
    kernel.set_args(buffer)
    cl.enqueue_nd_range_kernel(queue.commands, kernel, (16,), None)
    found = queue.download(buffer, np.empty(16, np.float32))
    assert (found == found[0]).all()
    return float(found[0])


@pytest.mark.parametrize("device", FOUND)
def test_the_second_time_comes_from_memory(device: Device, tmp_path: Path) -> None:
    cache = ProgramCache(device, tmp_path / "programs")
    first = cache.get(SOURCE, OPTIONS)
    assert cache.get(SOURCE, OPTIONS) is first
    assert cache.get(SOURCE, ["-DSTEP=3.0f"]) is not first
    counters = cache.counters()
    assert (counters.builds, counters.memory_hits, counters.disk_hits) == (2, 1, 0)
    assert counters.seconds > 0
    cache.reset()
    assert cache.counters().builds == 0


@pytest.mark.parametrize("device", STORING)
def test_what_includes_a_file_is_not_kept(device: Device, tmp_path: Path) -> None:
    (tmp_path / "step.h").write_text("#define STEP 2.0f\n")
    source, options = f'  # include "{tmp_path / "step.h"}"\n{SOURCE}', [f"-I{tmp_path}"]
    cache = ProgramCache(device, tmp_path / "programs")
    cache.get(source, options, name="add")
    assert cache.store.entries() == [] and not cache.lacks(cache.key(source, options), source)
    (tmp_path / "step.h").write_text("#define STEP 5.0f\n")
    program = ProgramCache(device, tmp_path / "programs").get(source, options, name="add")
    assert added(cache, program) == 6.0


@pytest.mark.parametrize("device", FOUND)
def test_pyopencl_calls_kernels_by_its_own_means(device: Device, tmp_path: Path) -> None:
    import pyopencl as cl

    cache, queue, before = ProgramCache(device, tmp_path / "programs"), Queue(device), cl._PYOPENCL_NO_CACHE
    program = cache.get(SOURCE, OPTIONS)
    kernel_of(program, "add")
    buffer = cl.Buffer(cache.context, cl.mem_flags.READ_WRITE, 64)
    queue.upload(buffer, np.ones(16, np.float32))
    kernel = cl.Kernel(program, "add")
    kernel(queue.commands, (16,), None, buffer)
    kernel.set_args(buffer)
    cl.enqueue_nd_range_kernel(queue.commands, kernel, (16,), None)
    program.add(queue.commands, (16,), None, buffer)
    assert (queue.download(buffer, np.empty(16, np.float32)) == 7.0).all()
    with pytest.raises(TypeError):
        kernel(queue.commands, (16,), None)
    assert before == cl._PYOPENCL_NO_CACHE, "PyOpenCL keeps what others build"


@pytest.mark.parametrize("device", FOUND)
def test_a_thread_that_helps_makes_each_program_once(device: Device, tmp_path: Path) -> None:
    cache = ProgramCache(device, tmp_path / "programs")
    wanted = {SOURCE.replace("STEP", f"{k}.0f"): ["add"] for k in range(6)}
    with cache.helped(wanted):
        found = [cache.get(text, name="add") for text in wanted]
    assert "clnet programs" not in [t.name for t in threading.enumerate()], "it ends with the block"
    assert len(set(map(id, found))) == 6
    assert (cache.counters().builds, cache.counters().memory_hits) == (6, 0), "asked for once, each"
    assert [cache.get(text) for text in wanted] == found and cache.counters().memory_hits == 6


@pytest.mark.parametrize("device", FOUND)
def test_what_a_thread_that_helps_cannot_make_is_told_to_whoever_asks(device: Device, tmp_path: Path) -> None:
    cache = ProgramCache(device, tmp_path / "programs")
    wrong = SOURCE.replace("STEP", "no_such_thing")
    with pytest.raises(KernelBuildError, match="no_such_thing"), cache.helped(
            {SOURCE: ["add"], wrong: ["add"]}, OPTIONS):
        cache.get(SOURCE, OPTIONS, name="add")
        cache.get(wrong, OPTIONS, name="add")
    assert works(cache)


@pytest.mark.parametrize("device", STORING)
def test_another_cache_comes_from_disk_and_computes(device: Device, tmp_path: Path) -> None:
    assert works(ProgramCache(device, tmp_path / "programs"))
    second = ProgramCache(device, tmp_path / "programs")
    assert works(second)
    assert (second.counters().builds, second.counters().disk_hits) == (0, 1)


@pytest.mark.parametrize("device", STORING)
def test_a_second_process_hits_the_disk(device: Device, tmp_path: Path) -> None:
    code = f"""
from clnet.engine.device.devices import select
from clnet.engine.device.programs import ProgramCache
cache = ProgramCache(select({device.key!r})[0])
cache.get({SOURCE!r}, {OPTIONS!r})
print(cache.counters().builds, cache.counters().disk_hits)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "CLNET_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    seen = [subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split() for _ in "ab"]
    assert seen == [["1", "0"], ["0", "1"]]


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def emptied(data: bytes) -> bytes:
    return b""


def longer(data: bytes) -> bytes:
    return data + b"more"


def beheaded(data: bytes) -> bytes:
    return data.split(b"\n", 1)[1]


def of_another_key(data: bytes) -> bytes:
    start = data.index(b'"key": "') + len(b'"key": "')
    return data[:start] + b"0" * 64 + data[start + 64 :]


@pytest.mark.parametrize("damage", [truncated, flipped, emptied, longer, beheaded, of_another_key])
@pytest.mark.parametrize("device", STORING)
def test_a_damaged_entry_is_built_again_and_replaced(device: Device, tmp_path: Path,
                                                     damage: Callable[[bytes], bytes]) -> None:
    first = ProgramCache(device, tmp_path / "programs")
    first.get(SOURCE, OPTIONS)
    path = first.store.path(first.key(SOURCE, OPTIONS))
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    second = ProgramCache(device, tmp_path / "programs")
    assert works(second)
    assert (second.counters().builds, second.counters().disk_hits) == (1, 0)
    third = ProgramCache(device, tmp_path / "programs")
    third.get(SOURCE, OPTIONS)
    assert third.counters().disk_hits == 1, "the damaged entry was not replaced"


@pytest.mark.parametrize("device", STORING)
def test_a_whole_entry_that_the_driver_refuses_is_built_again(device: Device, tmp_path: Path) -> None:
    cache = ProgramCache(device, tmp_path / "programs")
    cache.store.write(cache.key(SOURCE, OPTIONS), b"not a program of any driver" * 20)
    assert works(cache)
    assert cache.counters().builds == 1


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("device", STORING)
def test_what_others_can_write_is_not_loaded(device: Device, tmp_path: Path) -> None:
    first = ProgramCache(device, tmp_path / "programs")
    first.get(SOURCE, OPTIONS)
    first.store.path(first.key(SOURCE, OPTIONS)).chmod(0o666)
    second = ProgramCache(device, tmp_path / "programs")
    second.get(SOURCE, OPTIONS)
    assert second.counters().builds == 1
    first.store.folder.chmod(0o777)
    third = ProgramCache(device, tmp_path / "programs")
    third.get(SOURCE, OPTIONS)
    assert third.counters().builds == 1
    assert "others may write" in third.store.problem


@pytest.mark.parametrize("device", FOUND)
def test_an_impossible_folder_is_no_error(device: Device, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ProgramCache(device, tmp_path / "file" / "programs")
    assert works(cache)
    assert cache.store.problem


@pytest.mark.parametrize("device", STORING)
def test_clear_forgets_memory_and_disk(device: Device, tmp_path: Path) -> None:
    cache = ProgramCache(device, tmp_path / "programs")
    cache.get(SOURCE, OPTIONS)
    cache.clear(disk=False)
    cache.get(SOURCE, OPTIONS)
    assert cache.counters().disk_hits == 1
    cache.clear()
    assert cache.store.entries() == []
    cache.get(SOURCE, OPTIONS)
    assert cache.counters().builds == 2


@pytest.mark.parametrize("device", FOUND)
def test_a_build_error_names_op_options_and_line(device: Device, tmp_path: Path) -> None:
    source = "__kernel void k(__global float *a) {\n    float x = 1;\n    a[0] = x + nowhere;\n}\n"
    with pytest.raises(KernelBuildError) as caught:
        ProgramCache(device, tmp_path).get(source, ["-DWIDTH=4"], name="softmax")
    text = str(caught.value)
    assert text.startswith("softmax: expected")
    assert "-DWIDTH=4" in text
    assert ">    3 |     a[0] = x + nowhere;" in text
    assert "nowhere" in text.split("}\n", 1)[1]


@pytest.mark.parametrize("device", FOUND)
def test_threads_share_one_build(device: Device, tmp_path: Path) -> None:
    cache = ProgramCache(device, tmp_path)
    got: list[object] = []
    threads = [threading.Thread(target=lambda: got.append(cache.get(SOURCE, OPTIONS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 4
    assert all(program is got[0] for program in got)
    assert cache.counters().builds == 1


@pytest.mark.parametrize("device", [p for p in FOUND if "intel" in str(p.id)])
def test_the_compiler_knows_which_kernels_are_of_single_work_items(device: Device, tmp_path: Path) -> None:
    """It need not compile them for joined ones too.
    What it has understood of a kernel's attributes stands in the binary.
    """
    cache = ProgramCache(device, tmp_path)
    body = "void k(__global float *a, const ulong n) { for (ulong i = 0; i < n; ++i) a[i] = a[i] * 2 + i; }"
    for sizes, told in (("1, 1, 1", True), ("8, 1, 1", False)):
        found = cache.binary(cache.get(f"__kernel __attribute__((reqd_work_group_size({sizes}))) {body}"))
        assert f"reqd_work_group_size({sizes.replace(' ', '')})".encode() in found
        assert (b"intel_vec_len_hint(1)" in found) == told


@pytest.mark.parametrize("device", [p for p in FOUND if "intel" in str(p.id)])
def test_what_was_built_is_kept_as_it_was_stored(device: Device, tmp_path: Path) -> None:
    import pyopencl as cl

    cache = ProgramCache(device, tmp_path)
    # made of the binary, without the compiler's state
    assert cache.get(SOURCE, OPTIONS).get_info(cl.program_info.SOURCE) == ""
    assert (cache.counters().builds, cache.counters().disk_hits) == (1, 0)
    assert works(cache)
