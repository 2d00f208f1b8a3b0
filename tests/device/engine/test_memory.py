"""The pool wastes little, reuses, keeps its budget, gives back, and never lets a byte count drift."""

from __future__ import annotations

import gc
import random
import re
import threading
from pathlib import Path

import numpy as np
import pytest

from clnet.engine.device.commands import Queue
from clnet.engine.device.devices import Device, devices
from clnet.engine.device.memory import Block, Pool
from clnet.errors import OutOfDeviceMemory, ShapeError

FOUND = [pytest.param(device, id=device.key) for device in devices() if not device.is_host]
MIB = 1 << 20
on_every_device = pytest.mark.parametrize("device", FOUND)


@on_every_device
def test_released_memory_is_used_again(device: Device) -> None:
    pool = Pool(device, limit=64 * MIB)
    for _ in range(100):
        pool.alloc(1000).release()
    after = pool.statistics()
    assert (after.allocations, after.requests, after.active, after.cached) == (1, 100, 0, 1024)


@on_every_device
def test_the_buffer_that_came_back_last_is_handed_on_with_right_books(device: Device) -> None:
    pool = Pool(device, limit=64 * MIB)
    other, first = pool.alloc(5000, "other"), pool.alloc(1000, "result")
    buffer = first.buffer
    other.release()
    first.release()
    again = pool.alloc(900, "result")  # the same class, fewer bytes: nothing else is touched
    assert again.buffer is buffer
    now = pool.statistics()
    assert (now.active, now.wasted, now.peak, now.allocations, now.requests) == (1024, 124, 5120 + 1024, 2, 3)
    assert pool.holders() == [("result", 1024)]
    again.release()
    assert pool.alloc(900, "another").buffer is buffer  # another label: by the cache
    assert pool.statistics().allocations == 2


@on_every_device
def test_zero_bytes_get_a_buffer(device: Device) -> None:
    block = Pool(device, limit=MIB).alloc(0)
    assert block.buffer.size >= 1
    assert block.nbytes == 0


@on_every_device
def test_statistics(device: Device) -> None:
    pool = Pool(device, limit=64 * MIB)
    a, b = pool.alloc(1000, "a"), pool.alloc(700, "b")
    now = pool.statistics()
    assert (now.active, now.wasted, now.peak, now.cached) == (2048, 348, 2048, 0)
    assert pool.holders() == [("a", 1024), ("b", 1024)]
    a.release()
    a.release()
    del b
    now = pool.statistics()
    assert (now.active, now.wasted, now.peak, now.cached) == (0, 0, 2048, 2048)
    assert pool.holders() == []
    pool.reset_peak()
    assert pool.statistics().peak == 0


@on_every_device
def test_large_blocks_fit_under_twice(device: Device) -> None:
    pool = Pool(device, limit=64 * MIB)
    pool.alloc(4 * MIB).release()
    fits = pool.alloc(3 * MIB)
    assert fits.capacity == 4 * MIB
    fits.release()
    assert pool.alloc(2 * MIB).capacity == 2 * MIB
    small = pool.alloc(2048)
    small.release()
    assert pool.alloc(1024).capacity == 1024


@on_every_device
def test_the_budget_holds_and_the_message_says_who_has_it(device: Device) -> None:
    pool = Pool(device, limit=8 * MIB)
    weights, cache = pool.alloc(4 * MIB, "weights"), pool.alloc(3 * MIB, "activations")
    words = r"^scores: .* 2\.0 MiB on .* weights 4\.0 MiB, activations 3\.0 MiB"
    with pytest.raises(OutOfDeviceMemory, match=words):
        pool.alloc(2 * MIB, "scores")
    cache.release()
    assert pool.alloc(2 * MIB, "scores").nbytes == 2 * MIB
    with pytest.raises(OutOfDeviceMemory, match="split it"):
        pool.alloc(device.max_alloc + 1)
    assert weights.buffer is not None


@on_every_device
def test_before_it_gives_up_it_flushes_and_collects(device: Device) -> None:
    flushed: list[bool] = []
    pool = Pool(device, limit=8 * MIB, flush=lambda: flushed.append(True))
    gc.disable()
    try:
        cycle: list[object] = [pool.alloc(6 * MIB)]
        cycle.append(cycle)
        del cycle
        assert pool.alloc(6 * MIB).capacity == 6 * MIB
    finally:
        gc.enable()
    assert flushed == [True]


@on_every_device
def test_trim_gives_the_oldest_back_first(device: Device) -> None:
    pool = Pool(device, limit=64 * MIB)
    blocks = [pool.alloc(size * MIB) for size in (1, 2, 3)]
    for block in blocks:
        block.release()
    assert pool.trim(5 * MIB) == MIB
    assert pool.trim() == 5 * MIB
    assert pool.statistics().cached == 0


@on_every_device
def test_the_cache_stays_under_its_soft_limit(device: Device) -> None:
    pool = Pool(device, limit=8 * MIB)
    blocks = [pool.alloc(MIB) for _ in range(8)]
    del blocks
    assert pool.statistics().cached == pool.soft_limit == 4 * MIB


@on_every_device
def test_threads_and_a_random_life_leave_no_byte_behind(device: Device) -> None:
    pool = Pool(device, limit=256 * MIB)

    def live(seed: int) -> None:
        rng = random.Random(seed)
        mine: list[Block] = []
        for _ in range(400):
            mine.append(pool.alloc(rng.randrange(200_000), str(seed)))
            if len(mine) > 20:
                mine.pop(rng.randrange(len(mine)))

    threads = [threading.Thread(target=live, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = pool.statistics()
    assert (after.active, after.wasted, after.requests) == (0, 0, 1600)
    assert pool.holders() == []
    assert pool.trim() == after.cached


def _flags_at(address: int) -> set[str]:
    """What Linux says of the piece of this process's memory that an address lies in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if span := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(span[1], 16) <= address < int(span[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return set(line.split()[1:])
    return set()


@on_every_device
@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(),
                    reason="this kernel has no huge pages to ask for")
@pytest.mark.parametrize("nbytes", [2 * MIB, 32 * MIB])
def test_large_blocks_of_cpus_prefer_huge_pages(device: Device, nbytes: int) -> None:
    import pyopencl as cl

    queue, block = Queue(device), Pool(device, limit=64 * MIB).alloc(nbytes)
    queue.upload(block.buffer, values := np.arange(nbytes, dtype=np.uint8))
    assert (queue.download(block.buffer, np.empty_like(values)) == values).all()
    if device.kind == "cpu":
        mapped, _ = cl.enqueue_map_buffer(cl.CommandQueue(device.context), block.buffer, cl.map_flags.READ, 0, nbytes,
                                          np.uint8)
        assert "hg" in _flags_at(mapped.ctypes.data + nbytes // 2)


@on_every_device
def test_no_two_live_blocks_share_a_buffer(device: Device) -> None:
    pool = Pool(device, limit=64 * MIB)
    rng, alive = random.Random(1), []
    for _ in range(300):
        alive.append(pool.alloc(rng.randrange(5000)))
        if rng.random() < 0.5:
            alive.pop(rng.randrange(len(alive)))
        assert len({block.buffer.int_ptr for block in alive}) == len(alive)


@on_every_device
def test_a_buffer_from_another_thread_is_settled_first(device: Device) -> None:
    settled: list[int] = []
    pool = Pool(device, limit=MIB, settle=settled.append)
    owners: list[int] = []

    def use() -> None:
        owners.append(threading.get_ident())
        pool.alloc(1000).release()

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    pool.alloc(1000)
    assert settled == [owner for owner in owners if owner != threading.get_ident()]


@on_every_device
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_go_and_come_back(device: Device, order: str) -> None:
    queue, pool = Queue(device), Pool(device, limit=MIB)
    array = np.asarray(np.arange(12, dtype=np.float32).reshape(3, 4), order=order)  # type: ignore[call-overload]
    block = pool.alloc(array.nbytes)
    queue.upload(block.buffer, array)
    assert (queue.download(block.buffer, np.empty((3, 4), np.float32)) == array).all()
    assert (queue.download(block.buffer, np.empty(2, np.float32), offset=16) == [4, 5]).all()
    moved = queue.transfers.snapshot()
    assert (moved.bytes_to_device, moved.copies_to_device) == (48, 1)
    assert (moved.bytes_to_host, moved.copies_to_host) == (56, 2)
    assert (queue.transfers.snapshot() - moved).bytes_to_host == 0
    with pytest.raises(ShapeError, match="contiguous"):
        queue.download(block.buffer, np.empty((4, 3), np.float32).T)


@on_every_device
def test_an_upload_that_nobody_waits_for_keeps_its_array(device: Device) -> None:
    queue, pool = Queue(device), Pool(device, limit=64 * MIB)
    block = pool.alloc(4 * MIB)
    for step in range(4):
        queue.upload(block.buffer, np.full(MIB, step, np.float32), wait=False)
    assert (queue.download(block.buffer, np.empty(MIB, np.float32)) == 3).all()
    queue.finish()
