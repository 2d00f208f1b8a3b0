"""The process that `compilers` starts: `python compile_child.py LOADER` compiles what lines of its input describe.

It asks OpenCL's loader itself, by its C functions, and imports nothing of clnet, NumPy or pyopencl: it is ready in a
third of the time that it took with them. Answers are a line of JSON, {"failed": "", "bytes": n}, and the n bytes of the
binary.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Any

IDLE = 120.0  # [s] without a question, after which nobody is taken to be there any more
PLATFORM_VERSION, PLATFORM_NAME = 0x0901, 0x0902
ALL_DEVICES, DEVICE_NAME, DRIVER_VERSION, DEVICE_VERSION = 0xFFFFFFFF, 0x102B, 0x102D, 0x102F
BINARY_SIZES, BINARIES = 0x1165, 0x1166
FACTS = (DEVICE_NAME, DRIVER_VERSION, DEVICE_VERSION), (PLATFORM_NAME, PLATFORM_VERSION)

Handle = ctypes.c_void_p


class Refused(Exception):
    """A call of OpenCL did not return 0."""


class OpenCL:
    """The loader at a path, and the contexts of the devices that were asked for."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.contexts: dict[str, tuple[Handle, Handle]] = {}

    def call(self, name: str, *args: Any) -> None:
        """A function that returns a status. Raises Refused."""
        if status := getattr(self.library, name)(*args):
            raise Refused(f"{name}: {status}")

    def make(self, name: str, *args: Any) -> Handle:
        """A function that returns an object, and a status by its last argument. Raises Refused."""
        function, status = getattr(self.library, name), ctypes.c_int32()
        function.restype = Handle
        made = function(*args, ctypes.byref(status))
        if status.value:
            raise Refused(f"{name}: {status.value}")
        return Handle(made)

    def every(self, name: str, *args: Any) -> list[Handle]:
        """All objects that a function lists."""
        count = ctypes.c_uint32()
        self.call(name, *args, 0, None, ctypes.byref(count))
        found = (Handle * count.value)()
        self.call(name, *args, count, found, None)
        return [Handle(h) for h in found]

    def text(self, name: str, thing: Handle, what: int) -> str:
        """What a function of texts says."""
        size = ctypes.c_size_t()
        self.call(name, thing, what, ctypes.c_size_t(0), None, ctypes.byref(size))
        found = ctypes.create_string_buffer(size.value)
        self.call(name, thing, what, size, found, None)
        return found.value.decode("utf-8", "replace").strip()

    def context(self, facts: list[str]) -> tuple[Handle, Handle]:
        """The device of which these are true (name, driver, version; the platform's name and version) and its context.
        Of other platforms nothing but their names is asked. Raises Refused.
        """
        key = json.dumps(facts)
        if key not in self.contexts:
            device = next(self._with(facts), None)
            if device is None:
                raise Refused("it is another device here")
            self.contexts[key] = device, self.make("clCreateContext", None, 1, ctypes.byref(device), None, None)
        return self.contexts[key]

    def _with(self, facts: list[str]) -> Any:
        for platform in self.every("clGetPlatformIDs"):
            if [self.text("clGetPlatformInfo", platform, k) for k in FACTS[1]] == facts[3:]:
                for device in self.every("clGetDeviceIDs", platform, ctypes.c_uint64(ALL_DEVICES)):
                    if [self.text("clGetDeviceInfo", device, k) for k in FACTS[0]] == facts[:3]:
                        yield device

    def compiled(self, facts: list[str], source: bytes, options: bytes) -> bytes:
        """The binary of a program for the device of these facts. Raises Refused."""
        device, context = self.context(facts)
        text, length = ctypes.c_char_p(source), ctypes.c_size_t(len(source))
        program = self.make("clCreateProgramWithSource", context, 1, ctypes.byref(text), ctypes.byref(length))
        try:
            self.call("clBuildProgram", program, 1, ctypes.byref(device), options, None, None)
            size = ctypes.c_size_t()
            self.call("clGetProgramInfo", program, BINARY_SIZES, ctypes.c_size_t(8), ctypes.byref(size), None)
            found = ctypes.create_string_buffer(size.value)
            place = Handle(ctypes.addressof(found))
            self.call("clGetProgramInfo", program, BINARIES, ctypes.c_size_t(8), ctypes.byref(place), None)
            return found.raw
        finally:
            self.call("clReleaseProgram", program)


def answer(asked: dict[str, Any], driver: Callable[[], OpenCL]) -> tuple[str, bytes]:
    """What failed, "" for nothing, and the binary."""
    try:
        return "", driver().compiled(asked["facts"], asked["source"].encode(), asked["options"].encode())
    except Exception as error:  # the parent compiles it itself and says what is wrong
        return f"{type(error).__name__}: {str(error)[:200]}", b""


def main(path: str) -> None:
    """Answers line by line. Ends with its input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and closes the pipe
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a compiler prints is no answer
    opened: list[OpenCL] = []

    def driver() -> OpenCL:
        if not opened:
            opened.append(OpenCL(path))
        return opened[0]

    while os.name != "posix" or select.select([sys.stdin], [], [], IDLE)[0]:
        line = sys.stdin.buffer.readline()
        if not line:
            return
        failed, binary = answer(json.loads(line), driver)
        out.write(json.dumps({"failed": failed, "bytes": len(binary)}).encode() + b"\n" + binary)
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1])
