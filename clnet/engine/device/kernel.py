"""Kernels of a program, without what PyOpenCL does for calls of kernels that clnet never makes."""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Callable
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
    """PyOpenCL writes a Python function that calls a kernel for each one that is made, or looks it up in a data base
    in the home folder: 0.2 ms, of which a plan of 600 launches makes 600. It is the same for a name and a number of
    arguments, so it is kept. A release of PyOpenCL without that function is left as it is.
    """
    import pyopencl as cl

    if not _keeps_callers():
        cl._PYOPENCL_NO_CACHE = True  # else it cannot even be imported
    from pyopencl import invoker

    write: Callable[..., Any] | None = getattr(invoker, "generate_enqueue_and_set_args", None)
    if write is None:
        return
    known: dict[Any, Any] = {}

    @functools.wraps(write)
    def remembered(*args: Any, **more: Any) -> Any:
        key = args, tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in more.items())
        try:
            found = known.get(key)
        except TypeError:  # something that cannot be a key
            return write(*args, **more)
        if found is None:
            try:
                found = write(*args, **more)
            except (OSError, sqlite3.Error):  # the folder is full, or was taken away meanwhile
                cl._PYOPENCL_NO_CACHE = True
                found = write(*args, **more)
            known[key] = found
        return found

    invoker.generate_enqueue_and_set_args = remembered


def _keeps_callers() -> bool:
    """Whether PyOpenCL can write into the folder of its data base."""
    try:
        from platformdirs import user_cache_dir

        folder = user_cache_dir("pytools", "pytools")
        os.makedirs(folder, exist_ok=True)
    except (ImportError, OSError):
        return False
    return os.access(folder, os.W_OK)
