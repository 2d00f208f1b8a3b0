"""Whom we are timed against: PyTorch where it is installed, NumPy always; with the same threads and the same arithmetic."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Run = Callable[[], Any]


@dataclass(frozen=True)
class Torch:
    """PyTorch on the CPU, or on CUDA when our device is an NVIDIA GPU."""

    torch: Any
    where: str

    @property
    def name(self) -> str:
        return f"torch {self.where} {self.torch.__version__.partition('+')[0]}"

    def array(self, a: Any, grad: bool = False) -> Any:
        """A tensor of the peer's with the values of a NumPy array."""
        t = self.torch.from_numpy(np.array(a)).to(self.where)
        return t.requires_grad_() if grad else t

    def finish(self) -> None:
        """Waits for what was launched."""
        if self.where == "cuda":
            self.torch.cuda.synchronize()


def torch_for(device: Any) -> Torch | None:
    """The PyTorch peer of a device; None where PyTorch is not installed, or has no CUDA for a GPU."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    if device.kind != "gpu":
        return Torch(torch, "cpu")
    if device.runtime != "nvidia" or not torch.cuda.is_available():
        return None
    # cuDNN multiplies in TF32 unless told otherwise, and we do not.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return Torch(torch, "cuda")


def threads_of(device: Any) -> int:
    """Threads that a peer on the host gets: as many as the device has compute units, if the device is the host's CPU."""
    import os

    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(there, device.compute_units) if device.kind == "cpu" else there


@contextlib.contextmanager
def equal_threads(device: Any, torch: Torch | None) -> Iterator[int]:
    """Within the block NumPy's BLAS and PyTorch use the device's number of threads."""
    n = threads_of(device)
    before = torch.torch.get_num_threads() if torch else None
    if torch:
        torch.torch.set_num_threads(n)
    limits: Any = contextlib.nullcontext()
    if importlib.util.find_spec("threadpoolctl") is not None:
        limits = importlib.import_module("threadpoolctl").threadpool_limits(n, "blas")
    try:
        with limits:
            yield n
    finally:
        if torch and before:
            torch.torch.set_num_threads(before)
