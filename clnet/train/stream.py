"""Samples that come one after another and are never all in memory: generators, iterables, loaders."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arrays import Loader, as_array
from ..core.spec import Spec, dtype_name
from ..errors import DataError
from .ahead import ahead
from .batches import SIZE, Batches
from .lazy import Array
from .preparing import Preparation
from .samples import Batch, Dataset, Index, Samples, Trial, as_dataset, parts, single, unlabelled

HEAD = 64  # samples that are looked at before anything runs


class Stream(Samples):
    """What `make_iterator()` gives, anew for each epoch: samples (x, y), x an array or a tuple of them for a model of
    several inputs; or x alone, as `predict` takes it.

    make_iterator   a function that returns an iterator, or an iterable that can be gone through again
    length          samples of an epoch: needed where the iterator never ends; None: all there are
    shuffle_buffer  as many samples wait, of which the next is drawn by `fit`'s seed and the epoch; 0: as they come
    batched         whether it gives batches, as a loader does: they are taken apart and cut anew
    size            samples of a batch, where `batch_size` does not say it
    A thread reads two ahead; it is gone at the end,
    after an exception and after Ctrl-C. Shapes, dtypes and targets are tried with the first samples; samples of
    another shape raise DataError when they come.
    """

    counted = False

    def __init__(self, make_iterator: Callable[[], Iterable[Any]] | Iterable[Any], *, length: int | None = None,
                 shuffle_buffer: int = 0, batched: bool = False, size: int = SIZE, classes: tuple[str, ...] = (),
                 title: str = "stream") -> None:
        if isinstance(make_iterator, Iterator):
            raise DataError(f"{title}: expected a function that makes an iterator, for each epoch needs a new "
                            f"one; got a {type(make_iterator).__name__}, which gives its samples once; pass the "
                            "function itself: Stream(samples), without brackets.")
        if not callable(make_iterator) and not isinstance(make_iterator, Iterable):
            raise DataError(f"{title}: expected a function that makes an iterator; got {make_iterator!r}.")
        self.make, self.title, self.batched, self.classes = make_iterator, title, batched, tuple(classes)
        self.length = None if length is None else arguments.integer(title, "length", length, 1, DataError)
        self.shuffle_buffer = arguments.integer(title, "shuffle_buffer", shuffle_buffer, 0, DataError)
        self.size = arguments.integer(title, "size", size, 1, DataError)
        self.seen = 0  # samples of the longest pass
        head = list(itertools.islice(self._samples(), HEAD))
        if not head:
            raise DataError(f"{title}: expected at least one sample; got none.")
        self.head = self._stacked(head)
        self.labelled, self.given = self.head.labelled, self.head.given

    # --- samples
    def _samples(self) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """(inputs, target or None) of one sample after the other, from the start."""
        source = self.make() if callable(self.make) else self.make
        if not isinstance(source, Iterable):
            raise DataError(f"{self.title}: expected a function that returns an iterator; "
                            f"got {type(source).__name__} from it.")
        for item in source:
            pair = isinstance(item, (tuple, list)) and len(item) == 2
            x, y = item if pair else (item, None)
            if not self.batched:
                yield parts(x), y
                continue
            inputs = [as_array(a, self.title) for a in parts(x)]
            targets = None if y is None else as_array(y, self.title)
            if len({len(a) for a in (*inputs, *(() if targets is None else (targets,)))}) > 1:
                raise DataError(f"{self.title}: expected as many samples as targets in a batch; got shapes "
                                f"{' and '.join(str(a.shape) for a in (*inputs, targets) if a is not None)}.")
            for k in range(len(inputs[0])):
                yield tuple(a[k] for a in inputs), None if targets is None else targets[k]

    def _stacked(self, samples: list[tuple[tuple[Any, ...], Any]]) -> Dataset:
        arrays = [self._joined([x[k] for x, _ in samples], f"x[{k}]") for k in range(len(samples[0][0]))]
        labelled = samples[0][1] is not None
        y = self._joined([t for _, t in samples], "y") if labelled else np.zeros(len(samples), np.int32)
        return Dataset(tuple(arrays) if len(arrays) > 1 else arrays[0], y, self.classes, "", self.title,
                       labelled=labelled)

    def _joined(self, values: list[Any], name: str) -> Array:
        found = [np.asarray(as_array(v, f"{self.title}.{name}")) for v in values]
        if len(shapes := sorted({a.shape for a in found})) > 1:
            raise DataError(f"{self.title}: expected samples of one shape in {name}; got {shapes[0]} and {shapes[1]}; "
                            "cut or fill them.")
        return single(np.stack(found))

    def batches(self, size: int, draws: np.random.Generator | None, drop_last: bool = False) -> Iterator[Batch]:
        """One pass in batches; with `draws` from the buffer."""
        source = self._samples() if self.length is None else itertools.islice(self._samples(), self.length)
        if draws is not None and self.shuffle_buffer > 1:
            source = _shuffled(source, self.shuffle_buffer, draws)
        count = 0
        while chunk := list(itertools.islice(source, size)):
            if len(chunk) == size or not drop_last:
                yield self._checked(self._stacked(chunk), count)
            count += len(chunk)
        if not count:
            raise DataError(f"{self.title}: expected samples in every pass; got none, after {self.seen} before; "
                            "the function has to make a new iterator whenever it is called.")
        self.seen = max(self.seen, count)
        if self.length is not None and count < self.length:
            warnings.warn(f"{self.title}: expected {self.length} samples an epoch; got {count}.", UserWarning,
                          stacklevel=2)

    def _checked(self, found: Dataset, count: int) -> Batch:
        """In the shapes and dtypes of the first samples."""
        inputs, y = found.rows(slice(None))
        first, target = self.head.rows(slice(0, 1))
        arrays = []
        if len(inputs) != len(first):
            raise DataError(f"{self.title}: expected {len(first)} inputs a sample, as at first; got {len(inputs)} from "
                            f"sample {count} on.")
        for a, b in zip((*inputs, y), (*first, target), strict=True):
            if a.shape[1:] != b.shape[1:] or not np.can_cast(a.dtype, b.dtype, "same_kind"):
                raise DataError(f"{self.title}: expected samples of {b.dtype}{list(b.shape[1:])}, as at first; got "
                                f"{a.dtype}{list(a.shape[1:])} from sample {count} on.")
            arrays.append(a.astype(b.dtype, copy=False))
        return tuple(arrays[:-1]), arrays[-1]

    # --- as samples
    def __len__(self) -> int:
        if self.length is None and not self.seen:
            raise DataError(f"{self.title}: expected length=, the number of samples; got none, "
                            "and no pass has counted them yet.")
        return self.length or self.seen

    @property
    def total(self) -> int:
        return self.length or max(self.seen, 1)

    def rows(self, index: Index) -> Batch:
        return self.head.rows(index)

    def one(self, index: int) -> Any:
        return self.head.one(index)

    def chosen(self, index: Any) -> Any:
        """The first samples, at a slice, as a Dataset."""
        if not isinstance(index, slice) or (index.start or 0) < 0 or index.stop is None or index.stop < 0:
            raise TypeError("a stream has its first samples alone, [:100]")
        return self._stacked(list(itertools.islice(self._samples(), index.start, index.stop, index.step)))

    def split(self, test: float = 0.2, seed: int = 0, *, stratify: object = None, groups: object = None) -> Any:
        raise DataError(f"{self.title}: expected validation=(x, y), a Dataset or another Stream; "
                        f"got a share to hold out, {test!r}, of samples that come one after another.")

    def trials(self) -> list[Trial]:
        inputs, y = self.head.rows(slice(None))
        return [([Spec(a.shape, dtype_name(a.dtype)) for a in inputs], y)]

    def inputs(self, samples: Array | None = None) -> list[Array]:
        return self.head.inputs(samples)

    def targets(self) -> Array:
        return self.head.y

    def place(self, row: int, targets: bool = False, samples: Array | None = None) -> str:
        return f"sample {row} of the batch" if samples is not None else f"sample {row}"

    def __repr__(self) -> str:
        many = f"{self.length} samples" if self.length else "samples"
        shapes = ", ".join(f"{a.dtype}{list(a.shape[1:])}" for a in self.head.inputs())
        return f"<Stream {self.title}: {many} that come one after another, x {shapes}, {self.head._about_y()}>"


class StreamBatches(Batches):
    """Batches of a Stream, read ahead by a thread; an epoch's order is drawn from its buffer."""

    data: Stream

    def __init__(self, data: Stream, size: int | None, shuffle: bool, seed: int = 0, drop_last: bool = False) -> None:
        self.data, self.shuffle = data, shuffle
        self.seed = arguments.integer("Batches", "seed", seed, 0, DataError)
        self.count = arguments.integer("Batches", "batch_size", data.size if size is None else size, 1, DataError)
        self.size = self.count
        self.tokens, self.bucket, self.drop_last = None, True, bool(drop_last)

    def __len__(self) -> int:
        return -(-len(self.data) // self.count)

    def cuts(self, epoch: int = 0) -> list[Array]:
        """That of a whole batch: which samples it has is known when they are there."""
        return [np.arange(self.count)]

    def most(self) -> int:
        return self.count

    def counts(self) -> list[int]:
        return [self.count]

    def looked_at(self, batch: Batch, epoch: int, number: int) -> tuple[Samples, Array]:
        inputs, y = batch
        return Dataset(inputs, y, title=f"batch {number + 1}"), np.arange(len(y))

    def shapes(self) -> list[tuple[int, ...]]:
        return []

    def epoch(self, epoch: int = 0, start: int = 0) -> Generator[Batch, None, None]:
        draws = np.random.Generator(np.random.Philox(key=[self.seed & (2**64 - 1), epoch])) if self.shuffle else None
        found = self.data.batches(self.count, draws, self.drop_last)
        return ahead(itertools.islice(found, start, None))


def as_samples(data: object) -> Samples:
    """Samples; a pair (x, y) of arrays made a Dataset; a loader of PyTorch, or what is like one, made a Stream.
    Raises DataError.
    """
    if not isinstance(data, Loader) or not isinstance(data, Iterable):
        return as_dataset(data)
    batched = data.batch_size is not None or data.batch_sampler is not None
    return Stream(data, batched=batched, size=data.batch_size or SIZE, title=type(data).__name__)


def samples_of(x: object, preparation: Preparation | None) -> Samples:
    """What `predict` takes: samples, a loader of them, arrays, or raw data as the preparation takes it.
    Raises DataError.
    """
    x = as_samples(x) if type(x) is not np.ndarray and isinstance(x, Loader) else x  # of protocols one asks slowly
    if isinstance(x, Samples):
        return x.prepared_by(preparation)
    return unlabelled(x) if preparation is None or not preparation.takes(x) else preparation.apply(x, False, "predict")


def batches_of(data: Samples, size: int | None, shuffle: bool = True, seed: int = 0, tokens: int | None = None,
               drop_last: bool = False, bucket: bool = True) -> Batches:
    """The batches of samples that are there, or that come. Raises DataError."""
    if not isinstance(data, Stream):
        return Batches(data, size, shuffle, seed, tokens, drop_last, bucket)
    if tokens is not None:
        raise DataError(f"{data.title}: expected batch_size= with a Stream; got tokens={tokens!r}.")
    return StreamBatches(data, size, shuffle, seed, drop_last)


def _shuffled(source: Iterator[Any], size: int, draws: np.random.Generator) -> Iterator[Any]:
    """Each next one is drawn from a buffer of `size`, which the one that comes takes the place in."""
    buffer = list(itertools.islice(source, size))
    for item in source:
        k = int(draws.integers(len(buffer)))
        yield buffer[k]
        buffer[k] = item
    yield from (buffer[k] for k in draws.permutation(len(buffer)))
