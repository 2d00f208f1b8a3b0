"""What a model learns from: samples and their targets, as the Trainer reads them, and those of one shape."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..core.arrays import as_array, column_names, pair
from ..core.spec import Spec, dtype_name
from ..errors import DataError
from .lazy import Mapped, Rows
from .preparing import Preparation
from .shown import page
from .splits import parts as parts_of

Index = int | np.integer[Any] | slice | list[int] | np.ndarray[Any, Any]  # numbers of samples, or a mask
Batch = tuple[tuple[np.ndarray[Any, Any], ...], np.ndarray[Any, Any]]
Trial = tuple[list[Spec], np.ndarray[Any, Any]]
DEVICES = (np.dtype(np.float32), np.dtype(np.int32))  # dtypes that a device computes with as they are


class Samples(ABC):
    """Samples that are counted, picked and cut into batches: what a Dataset and Sequences have in common.

    given     dtypes that the arrays came in, inputs before targets: what messages speak of
    columns   names of the features of each input, from the frames that they came in
    labelled  whether there are targets
    packed    whether a batch has the steps of sequences one after another, with nothing that fills them up
    apart     whether what a model gives for steps of packed samples is wanted step by step; else for the first of each
    ignore    the label of steps that do not count, where targets are one per step; None elsewhere
    preparation    what made them of raw data, and makes new data alike; None: they came as they are
    sample_weight  how much each counts in the loss that is trained with; None: all the same
    classes        names of the classes, where they are known
    counted        whether there is a number of them that can be drawn from; else they come one after another
    lazy           whether they are read from files when they are picked
    """

    title: str
    given: tuple[str, ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()
    labelled: bool = True
    ignore: int | None = None
    preparation: Preparation | None = None
    sample_weight: np.ndarray[Any, Any] | None = None
    classes: tuple[str, ...] = ()
    counted: bool = True
    lazy: bool = False
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

    def split(self, test: float = 0.2, seed: int = 0, *, stratify: object = None,
              groups: object = None) -> tuple[Self, Self]:
        """(train, test): a share test in (0, 1), rounded up, or a number of samples goes to the second,
        drawn by the seed; the same in every run.

        stratify   True: both have the classes of the targets in the same shares; or the classes, one a sample
        groups     one label a sample: those of one label stay together, so that there may be a few more in the second
        """
        who = f"{self.title}.split(test={test!r})"
        strata = self._strata(who) if stratify is True else stratify
        given = (None if a is None or a is False else np.asarray(a) for a in (strata, groups))
        return self.sides(*parts_of(who, len(self), test, seed, *given))

    def _strata(self, who: str) -> np.ndarray[Any, Any]:
        found = self.targets()
        if self.ignore is not None or len(found) != len(self) or not self.labelled:
            raise DataError(f"{who}: expected one class a sample to stratify by; "
                            "got targets of steps, or none; pass stratify=classes.")
        return found

    def sides(self, train: np.ndarray[Any, Any], test: np.ndarray[Any, Any]) -> tuple[Self, Self]:
        """The samples of these numbers, to train with and to test with."""
        return self.take(train), self.take(test)

    def evenly(self) -> Samples:
        """These samples, each counting the same: as they are looked at when they are not trained with."""
        return self

    def weighed(self, sample_weight: object) -> Samples:
        """These samples with weights. Raises DataError where each has no place for one."""
        raise DataError(f"fit(sample_weight=...): expected samples of one shape; got {type(self).__name__}.")

    def prepared_by(self, preparation: Preparation | None) -> Samples:
        """These samples as a preparation that was fitted on others has them; as they are, where none made them."""
        return self


@dataclass(frozen=True)
class Dataset(Samples):
    """Samples x (N, …) (a tuple of such arrays for a model of several inputs) and targets y (N, …),
    class names, a description.

    Arrays, pandas frames and series, tensors of other libraries and lists are taken. float64 becomes float32; integers
    and bools stay what they are, and become float32 on the device where a layer computes with them: the bytes of an
    image are not scaled, x / 255 does that. `len(d)`, `d[0]` (one sample and its target), `d[:100]` (a Dataset), and
    iteration over samples.
    columns        names of the features of each input, from the frames that they came in
    preparation    what made them of raw data, and makes new data alike
    sample_weight  (N), of at least 0: how much each sample counts in the loss that is trained with
    labelled       whether there are targets; y is not looked at where there are none
    Files that are mapped, np.memmap, are read batch by batch. `classes` are the names of the classes.
    Raises DataError when empty, of unequal lengths, or not numbers.
    """

    x: Any
    y: np.ndarray[Any, Any]
    names: tuple[str, ...] = ()
    description: str = ""
    title: str = "data"
    columns: tuple[tuple[str, ...], ...] = ()
    preparation: Preparation | None = None
    sample_weight: Any = None
    labelled: bool = True

    def __post_init__(self) -> None:
        _expect_one(self.y, next(iter(parts(self.x)), None), self.title)
        arrays = [unread(a, self.title) for a in (*parts(self.x), self.y)]
        if any(not a.ndim or len(a) != len(arrays[0]) for a in arrays):
            several = isinstance(self.x, list) and arrays[-1].ndim and arrays[0].shape[1:2] == arrays[-1].shape[:1]
            raise DataError(
                f"{self.title}: expected as many samples as targets; "
                f"got shapes {' and '.join(str(a.shape) for a in arrays)}"
                f"{'; several inputs are a tuple, in place of a list: tuple(x)' if several else ''}.")
        if not len(arrays[0]):
            raise DataError(f"{self.title}: expected at least one sample; got none.")
        if empty := next((a.shape for a in arrays[:-1] if 0 in a.shape), None):
            raise DataError(f"{self.title}: expected at least one feature a sample; got shape {empty}.")
        columns = tuple(column_names(a) for a in parts(self.x))
        if any(columns):
            object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "given", tuple(_name(a.dtype) for a in arrays))  # what messages speak of
        *x, y = (a if isinstance(a, Rows) else single(a, self.title) for a in arrays)
        object.__setattr__(self, "x", tuple(x) if isinstance(self.x, tuple) else x[0])
        object.__setattr__(self, "y", y)
        if self.sample_weight is not None:
            object.__setattr__(self, "sample_weight", weights(self.sample_weight, len(y), self.title))

    @property
    def classes(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the classes, in the order of their numbers."""
        return self.names

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{list(a.shape[1:])}" for a in parts(self.x))
        return f"<Dataset {self.title}: {len(self)} samples, x {shapes}, {self._about_y()}>"

    def _about_y(self) -> str:
        if not self.labelled:
            return "no targets"
        names = f", {len(self.names)} classes" if self.names else ""
        return f"y {self.y.dtype}{list(self.y.shape[1:])}{names}"

    def _repr_html_(self) -> str:
        return page(self)

    @property
    def lazy(self) -> bool:  # type: ignore[override]
        return any(isinstance(a, Rows) and a.lazy for a in parts(self.x))

    def one(self, index: int) -> Any:
        x, y = self.rows(index)
        return (x if isinstance(self.x, tuple) else x[0]), y

    def rows(self, index: Index) -> Batch:
        return tuple(a[index] for a in parts(self.x)), self.y[index]

    def chosen(self, index: Any) -> Self:
        return replace(self, **self._picked(index))._as(self)

    def _picked(self, index: Any) -> dict[str, Any]:
        x, y = tuple(a.picked(index) if isinstance(a, Rows) else a[index] for a in parts(self.x)), self.y[index]
        weight = None if self.sample_weight is None else self.sample_weight[index]
        return {"x": x if isinstance(self.x, tuple) else x[0], "y": y, "sample_weight": weight}

    def _as(self, other: Dataset) -> Self:
        """These, which came in the dtypes of others that they are a part of."""
        object.__setattr__(self, "given", other.given)
        return self

    def evenly(self) -> Dataset:
        return self if self.sample_weight is None else replace(self, sample_weight=None)._as(self)

    def weighed(self, sample_weight: object) -> Dataset:
        return replace(self, sample_weight=sample_weight)._as(self)

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
    inputs = tuple(unread(a, "predict") for a in parts(x))
    if not inputs or not inputs[0].ndim:
        raise DataError(f"predict: expected samples (N, ...); got {x!r}.")
    return Dataset(tuple(inputs) if isinstance(x, tuple) else inputs[0], np.zeros(len(inputs[0]), np.int32),
                   title="predict")


def weights(given: object, count: int, who: str) -> np.ndarray[Any, Any]:
    """The weights of samples as float32 (N). Raises DataError."""
    found = as_array(given, f"{who}.sample_weight").astype(np.float32)
    if found.shape != (count,) or not (np.isfinite(found).all() and (found >= 0).all()) or not found.any():
        shown = f"shape {found.shape}" if found.shape != (count,) else f"{found.min():g} to {found.max():g}"
        raise DataError(f"{who}: expected a sample_weight of one finite number of at least 0 a sample, {count}, "
                        f"not all of them 0; got {shown}.")
    return found


@functools.cache
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # NumPy puts it together anew each time


def parts(x: object) -> tuple[Any, ...]:
    """The inputs of a model as a tuple, which they are only where there are several."""
    return x if isinstance(x, tuple) else (x,)


def unread(a: object, who: str) -> Any:
    """An array of what people have in hand, or rows that are read when they are needed."""
    if isinstance(a, np.memmap) and a.dtype.kind in "biuf" and a.ndim:
        return Mapped(a, single(np.zeros(0, a.dtype)).dtype)
    return a if isinstance(a, Rows) else as_array(a, who)


def _counted(a: object) -> int | None:
    """How many rows a list or an array has; a scalar, or what is neither, has none."""
    shape = getattr(a, "shape", (len(a),) if isinstance(a, (list, tuple)) else ())
    return int(shape[0]) if shape else None


def _expect_one(y: object, x: object, who: str) -> None:
    """Raises DataError for several arrays of targets, as models of several outputs have them elsewhere."""
    if not isinstance(y, (dict, tuple, list)):
        return
    count = _counted(x)
    parts = y.values() if isinstance(y, dict) else y if count is not None and 1 < len(y) != count else ()
    if isinstance(y, dict) or (parts and all(_counted(a) == count for a in parts)):
        raise DataError(
            f"{who}: expected one array of targets; got {len(parts)} in a {type(y).__name__}; put them side by side, "
            "np.column_stack([a, b]), and let the loss take them apart: lambda out, y: f(out[0], y[:, 0]) + "
            "g(out[1], y[:, 1:]).")


def single(a: np.ndarray[Any, Any], who: str = "data") -> np.ndarray[Any, Any]:
    """Native byte order, C order, and single precision where it is double: what a device computes with.
    Raises DataError for numbers that are too large for it.
    """
    if type(a) is np.ndarray and a.dtype in DEVICES and a.flags.c_contiguous:
        return a
    wanted = {"float64": np.dtype(np.float32), "int64": np.dtype(np.int32)}.get(a.dtype.name, a.dtype.newbyteorder("="))
    wanted = np.dtype(np.float32) if wanted.kind == "f" and wanted.itemsize > 8 else wanted
    if wanted == np.int32 and a.size and not -(2**31) <= a.min() <= a.max() < 2**31:
        wanted = np.dtype(np.int64)
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(a, wanted)
    except FloatingPointError:
        most = np.abs(np.where(np.isfinite(a), a, 0))
        at = ", ".join(map(str, np.unravel_index(most.argmax(), a.shape)))
        raise DataError(f"{who}: expected numbers up to {np.finfo(wanted).max:.3g}, which single precision holds; got "
                        f"{a.flat[most.argmax()]:.3g} at [{at}]; scale them: x / x.std(0).") from None


def from_arrays(x: Any, y: Any, names: Sequence[str] = (), description: str = "", title: str = "data") -> Dataset:
    """A data set from arrays, frames, tensors or lists: see Dataset; `names` are those of the classes.
    Raises DataError.
    """
    found = Dataset(x, y, tuple(map(str, names)), description, title)
    most = int(found.y.max()) if found.names and found.y.dtype.kind in "iu" else -1
    if most >= len(found.names) or len(set(found.names)) < len(found.names):
        raise DataError(f"{title}: expected a name of its own for each class from 0 to {max(most, 0)}; "
                        f"got names={list(found.names)[:8]}.")
    return found


def as_dataset(data: object) -> Samples:
    """Samples, or a pair (x, y) of arrays made a Dataset. Raises DataError."""
    return data if isinstance(data, Samples) else from_arrays(*pair(data))
