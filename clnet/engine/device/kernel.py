"""Kernels of a program, without what PyOpenCL does for calls of kernels that clnet never makes."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any


def kernel_of(program: Any, name: str) -> Any:
    """A cl.Kernel of its own, for one thread: arguments are its state."""
    import pyopencl as cl

    _write_callers_late()
    return cl.Kernel(getattr(program, "_prg", program), name)  # cl.Program's own look-ups take 0.1 ms more


def give(kernel: Any, place: int, number: Any) -> None:
    """Sets an argument that is a NumPy number: set_arg would try first, by exceptions, whether it is a buffer, for ten
    times the time.
    """
    getattr(kernel, "_set_arg_buf", kernel.set_arg)(place, number)


@functools.cache
def _write_callers_late() -> None:
    """PyOpenCL writes two Python functions for each kernel that is made, which call it and set its arguments: 0.2 ms,
    of which a plan of 600 launches makes 600. From now on they are written when they are first called. A release of
    PyOpenCL without what writes them is left as it is.
    """
    with _without_data_base():
        from pyopencl import invoker

    write: Callable[..., Any] | None = getattr(invoker, "generate_enqueue_and_set_args", None)
    if write is None:
        return

    @functools.wraps(write)
    def later(*args: Any, **more: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
        @functools.cache
        def written() -> Any:
            with _without_data_base():
                return write(*args, **more)

        return lambda *a, **k: written()[0](*a, **k), lambda *a, **k: written()[1](*a, **k)

    invoker.generate_enqueue_and_set_args = later


@contextlib.contextmanager
def _without_data_base() -> Iterator[None]:
    """PyOpenCL can keep what it writes in a data base in the home folder. Finding that takes as long as writing for ten
    kernels, and where the folder is full or not to be written to it cannot even be imported.
    """
    import pyopencl as cl

    with _telling:
        before, cl._PYOPENCL_NO_CACHE = cl._PYOPENCL_NO_CACHE, True
        try:
            yield
        finally:
            cl._PYOPENCL_NO_CACHE = before


_telling = threading.Lock()  # of PyOpenCL, for all threads
