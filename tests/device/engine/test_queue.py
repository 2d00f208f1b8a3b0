"""Waits hear Ctrl-C at once and leave the queue usable; threads have queues of their own."""

from __future__ import annotations

import signal
import sys
import threading

import numpy as np
import pytest

from clnet.engine.device.commands import Queue
from clnet.engine.device.devices import Device, devices
from clnet.engine.device.programs import ProgramCache
from clnet.engine.profiling import Profile

FOUND = [pytest.param(device, id=device.key) for device in devices() if not device.is_host]
SOURCE = """
__kernel void spin(__global float *a, int turns) {
    float x = a[0];
    for (int i = 0; i < turns; i++) x = x * 0.5f + 1.0f;
    a[0] = x;
}
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs setitimer")
@pytest.mark.parametrize("device", FOUND)
def test_an_interrupt_is_heard_while_the_kernel_runs(device: Device) -> None:
    import pyopencl as cl

    queue = Queue(device)
    buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 64)
    out = np.zeros(16, np.float32)
    queue.upload(buffer, out)
    kernel = cl.Kernel(ProgramCache(device).get(SOURCE), "spin")
    kernel.set_args(buffer, np.int32(400_000_000))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        event = cl.enqueue_nd_range_kernel(queue.commands, kernel, (1,), (1,))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            queue.download(buffer, out)
        assert event.command_execution_status > 0, "the interrupt waited for the kernel"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    queue.finish()
    assert queue.download(buffer, np.empty(16, np.float32))[0] == pytest.approx(2.0)


@pytest.mark.parametrize("device", FOUND)
def test_every_thread_has_its_own_queue(device: Device) -> None:
    queue, seen = Queue(device), []
    threads = [threading.Thread(target=lambda: (seen.append(queue.commands), gate.wait())) for _ in range(3)]
    gate = threading.Barrier(3)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({commands.int_ptr for commands in seen}) == 3
    assert queue.commands is queue.commands


@pytest.mark.parametrize("device", FOUND)
def test_a_queue_takes_times_while_somebody_is_told(device: Device) -> None:
    import pyopencl as cl

    told, queue = Profile(), Queue(device)
    buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 64)
    plain = queue.commands
    queue.told = told
    queue.upload(buffer, np.arange(16, dtype=np.float32))
    assert queue.download(buffer, np.empty(16, np.float32))[3] == 3.0
    assert queue.commands is not plain, "one that takes times"
    told._take()
    assert [(s.name, s.nbytes, s.length > 0) for s in told.spans] == [("to device", 64, True), ("to host", 64, True)]
    queue.told = None
    queue.upload(buffer, np.zeros(16, np.float32))
    assert len(told.spans) == 2 and queue.download(buffer, np.empty(16, np.float32))[3] == 0.0
