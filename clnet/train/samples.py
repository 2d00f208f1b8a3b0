"""What a model learns from: samples and their targets, as the Trainer reads them, and those of one shape."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..core.arrays import as_array, column_names, pair
from ..core.spec import Spec, dtype_name
from ..errors import DataError

Index = int | np.integer[Any] | slice | list[int] | np.ndarray[Any, Any]  # numbers of samples, or a mask
Batch = tuple[tuple[np.ndarray[Any, Any], ...], np.ndarray[Any, Any]]
Trial = tuple[list[Spec], np.ndarray[Any, Any]]
SINGLE = np.dtype(np.float32)


class Samples(ABC):
    """Samples that are counted, picked and cut into batches: what a Dataset and Sequences have in common.

    given     dtypes that the arrays came in, inputs before targets: what messages speak of
    columns   names of the features of each input, from the frames that they came in
    labelled  whether there are targets
    packed    whether a batch has the steps of sequences one after another, with nothing that fills them up
    apart     whether what a model gives for steps of packed samples is wanted step by step; else for the first of each
    ignore    the label of steps that do not count, where targets are one per step; None elsewhere
    """

    title: str
    given: tuple[str, ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()
    labelled: bool = True
    ignore: int | None = None
    packed: bool = False
    apart: bool = True

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rows(self, index: Index) -> Batch:
        """(inputs, targets) of the samples at an index array or slice; inputs always a tuple."""

    @abstractmethod
    def one(self, index: int) -> Any:
        """(sample, target) of a number that is there."""

    @abstractmethod
    def chosen(self, index: Any) -> Self:
        """The samples at a slice, numbers or a mask, as samples of their own. Raises IndexError, TypeError."""

    @abstractmethod
    def trials(self) -> list[Trial]:
        """(specs of the inputs, targets) that a model and its loss are tried with before anything runs:
        all targets, in shapes as batches may have.
        """

    @abstractmethod
    def inputs(self, samples: np.ndarray[Any, Any] | None = None) -> list[np.ndarray[Any, Any]]:
        """The values of the inputs of these samples (None: of all), first axes as `place` counts them."""

    @abstractmethod
    def targets(self) -> np.ndarray[Any, Any]:
        """The values of all targets, first axis as `place` counts it."""

    @abstractmethod
    def place(self, row: int, targets: bool = False, samples: np.ndarray[Any, Any] | None = None) -> str:
        """Where a row of `inputs(samples)`, or of `targets()`, stands, in words."""

    def lengths_of(self, order: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """How many steps each of these samples takes in a batch; None where samples have one shape."""
        return None

    def shape_of(self, part: np.ndarray[Any, Any]) -> tuple[int, ...] | None:
        """What tells the shape of the batch of these sequences; None where samples have one shape."""
        return None

    def known(self, y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Which targets of a batch count: bool (N), or (N, T) where they are one per step."""
        return np.ones(len(y), bool)

    def weight(self, y: np.ndarray[Any, Any]) -> int:
        """How many targets of a batch count."""
        return len(y) if self.ignore is None else int(self.known(y).sum())

    @property
    def total(self) -> int:
        """How many targets count in all."""
        return len(self)

    def __getitem__(self, index: Index) -> Any:
        """(sample, target) at a number; samples of their own at a slice, an array or list of numbers or a mask."""
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool):
            return self.take(index)
        if not -len(self) <= index < len(self):
            raise DataError(
                f"{self.title}[{index}]: expected a number of a sample from {-len(self)} to {len(self) - 1}.")
        return self.one(int(index))

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def take(self, index: Index) -> Self:
        """The samples at an index array or slice, as a data set of its own."""
        try:
            return self.chosen(np.asarray(index) if isinstance(index, list) else index)
        except (IndexError, TypeError) as error:
            raise DataError(
                f"{self.title}: expected a slice, numbers of samples below {len(self)}, "
                f"or a mask of {len(self)}; got {index!r} ({error}).") from None

    def split(self, test: float = 0.2, seed: int = 0) -> tuple[Self, Self]:
        """(train, test): a share test in (0, 1), rounded up, or a number of samples goes to the second,
        drawn by the seed; the same in every run.
        """
        who = f"{self.title}.split(test={test!r})"
        number = isinstance(test, (int, float, np.number)) and not isinstance(test, bool)
        whole = number and isinstance(test, (int, np.integer)) and test >= 1
        if not number or not (whole or 0 < test < 1):
            raise DataError(
                f"{who}: expected a share in (0, 1), or a number of samples, "
                "at least 1, so that there are samples on both sides.")
        count = int(test) if whole else math.ceil(len(self) * test)
        if not 0 < count < len(self):
            raise DataError(
                f"{who}: expected samples on both sides; got {len(self) - count} and {count} of {len(self)}.")
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(self))
        return self.take(np.sort(order[count:])), self.take(np.sort(order[:count]))


@dataclass(frozen=True)
class Dataset(Samples):
    """Samples x (N, …) (a tuple of such arrays for a model of several inputs) and targets y (N, …),
    class names, a description.

    Arrays, pandas frames and series, tensors of other libraries and lists are taken. float64 becomes float32; integers
    and bools stay what they are, and become float32 on the device where a layer computes with them: the bytes of an
    image are not scaled, x / 255 does that. `len(d)`, `d[0]` (one sample and its target), `d[:100]` (a Dataset), and
    iteration over samples.
    columns   names of the features of each input, from the frames that they came in
    Raises DataError when empty, of unequal lengths, or not numbers.
    """

    x: Any
    y: np.ndarray[Any, Any]
    names: tuple[str, ...] = ()
    description: str = ""
    title: str = "data"
    columns: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        arrays = [as_array(a, self.title) for a in (*parts(self.x), self.y)]
        if any(not a.ndim or len(a) != len(arrays[0]) for a in arrays):
            raise DataError(
                f"{self.title}: expected as many samples as targets; "
                f"got shapes {' and '.join(str(a.shape) for a in arrays)}.")
        if not len(arrays[0]):
            raise DataError(f"{self.title}: expected at least one sample; got none.")
        columns = tuple(column_names(a) for a in parts(self.x))
        if any(columns):
            object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "given", tuple(a.dtype.name for a in arrays))  # what messages speak of
        *x, y = map(single, arrays)
        object.__setattr__(self, "x", tuple(x) if isinstance(self.x, tuple) else x[0])
        object.__setattr__(self, "y", y)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{list(a.shape[1:])}" for a in parts(self.x))
        return f"<Dataset {self.title}: {len(self)} samples, x {shapes}, y {self.y.dtype}{list(self.y.shape[1:])}>"

    def one(self, index: int) -> Any:
        x, y = self.rows(index)
        return (x if isinstance(self.x, tuple) else x[0]), y

    def rows(self, index: Index) -> Batch:
        return tuple(a[index] for a in parts(self.x)), self.y[index]

    def chosen(self, index: Any) -> Dataset:
        x, y = self.rows(index)
        found = Dataset(x if isinstance(self.x, tuple) else x[0], y, self.names, self.description, self.title,
                        self.columns)
        object.__setattr__(found, "given", self.given)
        return found

    def trials(self) -> list[Trial]:
        return [([Spec(a.shape, dtype_name(a.dtype)) for a in parts(self.x)], self.y)]

    def inputs(self, samples: np.ndarray[Any, Any] | None = None) -> list[np.ndarray[Any, Any]]:
        return [a if samples is None else a[samples] for a in parts(self.x)]

    def targets(self) -> np.ndarray[Any, Any]:
        return self.y

    def place(self, row: int, targets: bool = False, samples: np.ndarray[Any, Any] | None = None) -> str:
        return f"sample {row if samples is None else int(samples[row])}"


def unlabelled(x: object) -> Dataset:
    """Inputs alone, as `predict` takes them. Raises DataError."""
    inputs = tuple(as_array(a, "predict") for a in parts(x))
    if not inputs or not inputs[0].ndim:
        raise DataError(f"predict: expected samples (N, ...); got {x!r}.")
    return Dataset(tuple(inputs) if isinstance(x, tuple) else inputs[0], np.zeros(len(inputs[0]), np.int32),
                   title="predict")


def parts(x: object) -> tuple[Any, ...]:
    """The inputs of a model as a tuple, which they are only where there are several."""
    return x if isinstance(x, tuple) else (x,)


def single(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Native byte order, C order, and single precision where it is double: what a device computes with."""
    if type(a) is np.ndarray and a.dtype is SINGLE and a.flags.c_contiguous:
        return a
    wanted = {"float64": np.dtype(np.float32), "int64": np.dtype(np.int32)}.get(a.dtype.name, a.dtype.newbyteorder("="))
    wanted = np.dtype(np.float32) if wanted.kind == "f" and wanted.itemsize > 8 else wanted
    if wanted == np.int32 and a.size and not -(2**31) <= a.min() <= a.max() < 2**31:
        wanted = np.dtype(np.int64)
    return np.ascontiguousarray(a, wanted)


def from_arrays(x: Any, y: Any, names: Sequence[str] = (), description: str = "", title: str = "data") -> Dataset:
    """A data set from arrays, frames, tensors or lists: see Dataset. Raises DataError."""
    return Dataset(x, y, tuple(map(str, names)), description, title)


def as_dataset(data: object) -> Samples:
    """Samples, or a pair (x, y) of arrays made a Dataset. Raises DataError."""
    return data if isinstance(data, Samples) else from_arrays(*pair(data))
