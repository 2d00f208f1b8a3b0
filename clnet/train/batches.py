"""Batches: which samples a step sees together, in an order that a seed fixes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from ..core import arguments
from ..errors import DataError
from .ahead import ahead
from .samples import Batch, Samples, as_dataset
from .weighing import batch_of

Array = np.ndarray[Any, Any]
SIZE = 64


class Batches:
    """The batches of a data set: one order per (seed, epoch), the same whenever it is asked for,
    so that a run can be resumed anywhere.

    size       samples of a batch; 64 where neither size nor tokens is given
    tokens     of Sequences, in place of size: as many as fit, N · T ≤ tokens with what fills them up; of
               PackedSequences Σ T ≤ tokens
    bucket     of Sequences: those of like lengths share a batch, so that little is filled up; within a length the order
               is drawn, and then that of the batches. Without shuffle: from short to long
    drop_last  whether a last batch that is not full is left out; else it is short
    Raises DataError for a size below 1, and tokens that a sequence does not fit into.
    """

    def __init__(self, data: Samples | Any, size: int | None = None, shuffle: bool = True, seed: int = 0,
                 tokens: int | None = None, drop_last: bool = False, bucket: bool = True) -> None:
        self.data, self.shuffle = as_dataset(data), shuffle
        self.seed = arguments.integer("Batches", "seed", seed, 0, DataError)
        if size is not None and tokens is not None:
            raise DataError(f"Batches(size={size!r}, tokens={tokens!r}): expected one of them; leave one out.")
        self.size = None if tokens is not None else SIZE if size is None else _count("size", "samples", size)
        self.tokens = None if tokens is None else _count("tokens", "steps", tokens)
        self.bucket, self.drop_last = bool(bucket), bool(drop_last)
        self._cut: tuple[int, list[Array]] = -1, []
        self._check()

    def _check(self) -> None:
        lengths = self.data.lengths_of(np.arange(len(self.data)))
        if self.tokens is not None and lengths is None:
            raise DataError(f"Batches(tokens={self.tokens}): expected Sequences, which have steps to count; "
                            f"got samples of one shape; pass a number of samples.")
        if self.tokens is not None and lengths is not None and (wrong := np.flatnonzero(lengths > self.tokens)).size:
            most = int(lengths.max())
            raise DataError(
                f"Batches(tokens={self.tokens}): expected room for every sequence; sequence {wrong[0]} takes "
                f"{lengths[wrong[0]]} steps, padded, as {len(wrong)} of {len(lengths)} take more; "
                f"allow tokens={most}, or cut what is too long: [s[:{self.tokens}] for s in x].")
        if self.drop_last and not self.cuts(0):
            raise DataError(f"Batches(drop_last=True): expected at least one full batch; got {len(self.data)} samples; "
                            "make batches smaller.")

    def __len__(self) -> int:
        return len(self.cuts(0))

    def order(self, epoch: int = 0) -> Array:
        """The sample numbers in the order of an epoch."""
        return np.concatenate(self.cuts(epoch))

    def cuts(self, epoch: int = 0) -> list[Array]:
        """The sample numbers of each batch of an epoch."""
        if self._cut[0] != epoch:
            self._cut = epoch, self._cuts(np.random.Generator(np.random.Philox(key=[self.seed & (2**64 - 1), epoch])))
        return self._cut[1]

    def _cuts(self, draws: np.random.Generator) -> list[Array]:
        count = len(self.data)
        order = draws.permutation(count) if self.shuffle else np.arange(count)
        lengths = self.data.lengths_of(order)
        if lengths is None:
            found = np.split(order, range(self.room(1), count, self.room(1)))
            return found[:-1] if self.drop_last and len(found[-1]) < self.room(1) else found
        if self.bucket:
            rise = np.argsort(lengths, kind="stable")
            order, lengths = order[rise], lengths[rise]
        found = np.split(order, self._ends(lengths.tolist()))
        full = self._full(lengths[count - len(found[-1]) :])
        last = [] if full else [found.pop()]
        if self.bucket and self.shuffle:
            found = [found[k] for k in draws.permutation(len(found))]
        return found if self.drop_last else [*found, *last]

    def _full(self, lengths: Array) -> bool:
        """Whether a batch of these has no room for one more like its last."""
        if self._counts_steps:
            return bool(lengths.sum() + lengths[-1] > (self.tokens or 0))
        return len(lengths) == self.room(int(lengths.max()))

    @property
    def _counts_steps(self) -> bool:
        return self.tokens is not None and self.data.packed

    def _ends(self, lengths: list[int]) -> list[int]:
        """Where a batch ends because the next sample would find no room."""
        ends, begin, longest, steps = [], 0, 0, 0
        for k, n in enumerate(lengths):
            longest, steps = max(longest, n), steps + n
            if steps > (self.tokens or 0) if self._counts_steps else k - begin >= self.room(longest):
                ends.append(k)
                begin, longest, steps = k, n, n
        return ends

    def room(self, length: int) -> int:
        """How many samples a batch of this length takes."""
        return self.size if self.size is not None else (self.tokens or 0) // length

    def shapes(self) -> list[tuple[int, ...]]:
        """Those of the batches of Sequences, (samples, steps), each once; none where samples have one shape."""
        found = [self.data.shape_of(part) for part in self.cuts(0)]
        return list(dict.fromkeys(shape for shape in found if shape is not None))

    def position(self) -> dict[str, Any]:
        """What makes the batches, of the unusual what there is of it."""
        ways = (("tokens", self.tokens, None), ("drop_last", self.drop_last, False), ("bucket", self.bucket, True))
        return {"seed": self.seed, "batch_size": self.size, **{n: v for n, v, usual in ways if v != usual}}

    def most(self) -> int:
        """How many samples a whole batch has."""
        return min(self.room(1), len(self.data))

    def counts(self) -> list[int]:
        """How many samples whole batches have and, where there is one, the short one at the end."""
        left = 0 if self.drop_last else len(self.data) % self.most()
        return [self.most(), *([left] if left else [])]

    def looked_at(self, batch: Batch, epoch: int, number: int) -> tuple[Samples, Array]:
        """(samples, the numbers of those of this batch), for messages."""
        return self.data, self.cuts(epoch)[number]

    def epoch(self, epoch: int = 0, start: int = 0) -> Generator[Batch, None, None]:
        """(inputs, targets) of every batch from number `start` on: a tuple of arrays and an array, fresh copies.
        Those of files are read ahead by a thread, which is gone when this is closed.
        """
        found = (batch_of(self.data, part) for part in self.cuts(epoch)[start:])
        return ahead(found) if self.data.lazy else found

    def __iter__(self) -> Iterator[Batch]:
        return self.epoch(0)


def _count(name: str, what: str, value: Any) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        called = "batch_size" if name == "size" else name  # as fit, evaluate and predict call it
        raise DataError(f"{called}={value!r}: expected a whole number of {what}, at least 1.")
    return int(value)


def even(count: int, size: int) -> int:
    """A batch size of at most `size` that cuts `count` samples into batches as equal as can be:
    fewer shapes, fewer plans. Raises DataError for a size below 1.
    """
    size = _count("size", "samples", size)
    return -(-count // -(-count // size))
