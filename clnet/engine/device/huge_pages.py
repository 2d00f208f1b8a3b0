"""Huge pages under large buffers of CPU devices: what streams through memory misses fewer address translations."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

import numpy as np

from .device import Device

HUGE = 2 << 20  # [bytes] the larger page of x86-64, and of AArch64 with pages of 4 KiB


@cache
def _madvise() -> Any:
    """libc's madvise; None where it knows no huge pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    call = ctypes.CDLL(None).madvise
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return call


def prefer_huge(device: Device, buffer: Any) -> None:
    """Asks Linux for huge pages under a new buffer, before the first touch decides;
    a kernel that has none refuses, and nothing changes.

    NumPy does so for arrays from 4 MiB on, OpenCL runtimes do not.
    """
    import pyopencl as cl

    if device.has_own_memory or buffer.size < HUGE or (madvise := _madvise()) is None:
        return
    queue = cl.CommandQueue(device.context)
    mapping: Any = cl.enqueue_map_buffer
    whole, _ = mapping(queue, buffer, cl.map_flags.WRITE_INVALIDATE_REGION, 0, buffer.size, np.uint8)
    start = whole.ctypes.data
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    madvise(first, start + buffer.size - first, mmap.MADV_HUGEPAGE)
    whole.base.release(queue)
    queue.finish()
