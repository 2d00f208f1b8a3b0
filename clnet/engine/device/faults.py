"""What an OpenCL error code means to the user of clnet, in one table."""

from __future__ import annotations

from types import TracebackType

from ...errors import ClnetError, DeviceLost, KernelBuildError, OutOfDeviceMemory

LOST = "the device, its driver or its context is gone; start a new process"
FULL = "no room on the device; make the batch smaller or set a limit with Pool.set_limit"
CODES: dict[int, tuple[type[ClnetError], str]] = {
    -1001: (DeviceLost, "no OpenCL platform in this process any more; start a new process"),
    -9999: (DeviceLost, "NVIDIA's driver reports an illegal access in a kernel; start a new process"),
    -61: (OutOfDeviceMemory, "the buffer has no bytes or more than CL_DEVICE_MAX_MEM_ALLOC_SIZE; split it"),
    -36: (DeviceLost, LOST),
    -34: (DeviceLost, LOST),
    -11: (KernelBuildError, "the compiler refused the program"),
    -6: (OutOfDeviceMemory, FULL),
    -5: (OutOfDeviceMemory, FULL),
    -4: (OutOfDeviceMemory, FULL),
    -2: (DeviceLost, LOST),
}


def translate(error: Exception, who: str) -> ClnetError:
    """The member of our family for a pyopencl error raised on behalf of `who`."""
    code = getattr(error, "code", 0)
    routine = getattr(error, "routine", "") or type(error).__name__
    kind, meaning = CODES.get(code, (ClnetError, str(error).split("\n", 1)[0]))
    return kind(f"{who}: expected {routine} to succeed, got code {code}; {meaning}.")


class translated:
    """pyopencl's errors leave the block as ours."""

    # A class and no generator: every launch passes here.

    __slots__ = ("who",)

    def __init__(self, who: str) -> None:
        self.who = who

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if error is None:
            return
        import pyopencl as cl

        if isinstance(error, cl.Error):
            raise translate(error, self.who) from error
