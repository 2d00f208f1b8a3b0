"""Python's collector of cycles, which walks what grows again and again: a graph while it is planned, modules while they
are imported.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """The block runs without it: what a plan is made of is nearly all kept, and a deep network's would be walked dozens
    of times, for a third of the time that planning takes. Of imports it is a fifth.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
