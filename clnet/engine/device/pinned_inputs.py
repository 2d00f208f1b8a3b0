"""Inputs of a replay that come from the host, on GPUs: through pinned memory and a queue of their own, so that they
travel while the step before runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.spec import Spec, np_dtype
from .faults import translated

if TYPE_CHECKING:
    from ..opencl import OpenCLEngine
    from .memory import Block

SLOTS = 3  # batches in flight: one that a step reads, one that travels, one that is being written
ALIGNED = 512  # [bytes]
# [bytes] of inputs that travel in the queue of the launches: up to here the copy takes less than two queues that wait
# for each other, and a driver's calls for that take as long as five launches (an H100, a few numbers).
SMALL = 1 << 14


class _Slot:
    """Device memory for each input of a step, pinned memory for all of them,
    and the events that say when either may be written again.

    Blocks of their own, and no regions of one: with those NVIDIA's driver (580) ended the process at a later launch,
    once the pool had handed the buffer on while a region of it was still there. Small programs did not show it.
    """

    def __init__(self, engine: OpenCLEngine, sizes: Sequence[int], nbytes: int) -> None:
        import pyopencl as cl

        self.blocks = [engine.pool.alloc(size, "step inputs") for size in sizes]
        with translated("Feed"):
            flags = cl.mem_flags
            self._pinned = cl.Buffer(engine.device.context, flags.READ_ONLY | flags.ALLOC_HOST_PTR, nbytes)
            mapping: Any = cl.enqueue_map_buffer
            self.memory: Any = mapping(engine.queue.commands, self._pinned, cl.map_flags.WRITE, 0, (nbytes,),
                                       np.uint8)[0]
        self.copied: list[Any] = []
        self.done: Any = None


class Feed:
    """The slots of one replay, in turn. `send` before a step's launches, `started` behind them."""

    def __init__(self, engine: OpenCLEngine, specs: Sequence[Spec], least: Sequence[int] = ()) -> None:
        """`least`: as many bytes at least for each input."""
        self.engine, self.specs = engine, specs
        self.sizes = [max(s.nbytes, n, 1) for s, n in zip(specs, least or [0] * len(specs), strict=True)]
        self.offsets, self.nbytes = [], 0
        for size in self.sizes:
            self.offsets.append(self.nbytes)
            self.nbytes += -(-size // ALIGNED) * ALIGNED
        self._slots: list[_Slot] = []
        self._turn = 0
        self._now: _Slot | None = None

    def fitting(self, specs: Sequence[Spec]) -> Feed:
        """A feed for inputs of these specs: this one, where they fit into its slots."""
        if all(new.nbytes <= size for new, size in zip(specs, self.sizes, strict=True)):
            self.specs = specs
            return self
        return Feed(self.engine, specs, self.sizes)

    def blocks(self) -> list[Block]:
        """The device memory of its slots."""
        return [block for slot in self._slots for block in slot.blocks]

    def send(self, arrays: dict[int, np.ndarray[Any, Any]]) -> dict[int, Block]:
        """Starts the copy of the inputs; this thread's queue waits for it. The arrays may be changed at once."""
        import pyopencl as cl

        slot, queue = self._next(), self.engine.queue
        for copied in slot.copied:
            queue.wait(copied)
        pieces: dict[int, Any] = {}
        for k, a in arrays.items():
            spec, at = self.specs[k], self.offsets[k]
            piece = slot.memory[at : at + spec.nbytes]
            piece.view(np_dtype(spec.dtype)).reshape(spec.shape)[...] = a
            queue.transfers.to_device(spec.nbytes)
            if spec.nbytes:
                pieces[k] = piece
        beside = sum(piece.nbytes for piece in pieces.values()) > SMALL
        with translated("Feed"):
            if beside and slot.done is None:  # launches may read it that nobody marked, or whose block it was before
                slot.done = cl.enqueue_marker(queue.commands)
            after = [slot.done] if beside else None
            # All events stay until the slot's next turn: pyopencl waits for a copy whose event is let go of.
            slot.copied = [cl.enqueue_copy(queue.uploads if beside else queue.commands, slot.blocks[k].buffer, piece,
                                           is_blocking=False, wait_for=after)
                           for k, piece in pieces.items()]
            slot.done = None
            if beside:
                queue.uploads.flush()
                cl.enqueue_barrier(queue.commands, wait_for=slot.copied)
        if queue.told is not None:
            for piece, copied in zip(pieces.values(), slot.copied, strict=True):
                queue.told.copied("to device", piece.nbytes, copied, "uploads" if beside else "commands")
        self._now = slot if beside else None
        return {k: slot.blocks[k] for k in arrays}

    def started(self) -> None:
        """The launches that read what was sent are in the queue."""
        import pyopencl as cl

        if self._now is not None:
            self._now.done, self._now = cl.enqueue_marker(self.engine.queue.commands), None

    def _next(self) -> _Slot:
        if len(self._slots) < SLOTS:
            self._slots.append(_Slot(self.engine, self.sizes, self.nbytes))
            return self._slots[-1]
        self._turn = (self._turn + 1) % SLOTS
        return self._slots[(self._turn - 1) % SLOTS]
