"""Python's collector of cycles, which walks what grows again and again: a graph while it is planned, modules while they
are imported.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused(keeps: bool = False) -> Iterator[None]:
    """The block runs without it: what a plan is made of is nearly all kept, and a deep network's would be walked dozens
    of times, for a third of the time that planning takes. Of imports it is a fifth.

    `keeps`: all that the block makes is kept, as what modules hold; it counts as old at once, and is not walked at the
    end either. So does what the program had just made, which is walked with the rest at the next full collection.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if keeps and not gc.get_freeze_count():  # else the program has objects of its own there
            gc.freeze()
            gc.unfreeze()
        gc.enable()
