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

    _remember_callers()
    return cl.Kernel(getattr(program, "_prg", program), name)  # cl.Program's own look-ups take 0.1 ms more


def give(kernel: Any, place: int, number: Any) -> None:
    """Sets an argument that is a NumPy number: set_arg would try first, by exceptions, whether it is a buffer, for ten
    times the time.
    """
    getattr(kernel, "_set_arg_buf", kernel.set_arg)(place, number)


@functools.cache
def _remember_callers() -> None:
    """PyOpenCL writes a Python function that calls a kernel for each one that is made: 0.2 ms, of which a plan of 600
    launches makes 600. It is the same for a name and a number of arguments, so it is kept. A release of PyOpenCL
    without that function is left as it is.
    """
    with _without_data_base():
        from pyopencl import invoker

    write: Callable[..., Any] | None = getattr(invoker, "generate_enqueue_and_set_args", None)
    if write is None:
        return
    known: dict[Any, Any] = {}

    @functools.wraps(write)
    def remembered(*args: Any, **more: Any) -> Any:
        key = args, tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in more.items())
        with _without_data_base():
            try:
                if key not in known:
                    known[key] = write(*args, **more)
                return known[key]
            except TypeError:  # something that cannot be a key
                return write(*args, **more)

    invoker.generate_enqueue_and_set_args = remembered


@contextlib.contextmanager
def _without_data_base() -> Iterator[None]:
    """PyOpenCL can keep such functions in a data base in the home folder, too. Finding it takes as long as writing ten
    of them, and where the folder is full or not to be written to it cannot even be imported.
    """
    import pyopencl as cl

    with _telling:
        before, cl._PYOPENCL_NO_CACHE = cl._PYOPENCL_NO_CACHE, True
        try:
            yield
        finally:
            cl._PYOPENCL_NO_CACHE = before


_telling = threading.Lock()  # of PyOpenCL, for all threads
