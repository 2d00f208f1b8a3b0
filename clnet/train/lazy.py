"""Samples that are read when they are asked for: what is on disk, in a file that is mapped or in files of pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

Array = np.ndarray[Any, Any]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
PIECE = 1024  # samples that are looked at together where all are


class Rows(ABC):
    """An array to a Dataset, whose rows are read when they are picked.

    shape, dtype   of all rows, as they are read
    lazy           whether reading them takes a while, so that it is worth a thread
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    lazy: bool = True

    @abstractmethod
    def read(self, numbers: Numbers) -> Array:
        """The rows of these numbers."""

    @abstractmethod
    def chosen(self, numbers: Numbers) -> Self:
        """The rows of these numbers, unread."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Array:
        """As of an array; only the rows that are asked for are read."""
        first, *rest = index if isinstance(index, tuple) else (index,)
        if first is None or first is Ellipsis:
            return np.asarray(self[:][index])
        numbers = np.arange(len(self))[first]
        found = self.read(numbers) if numbers.ndim else self.read(numbers[None])[0]
        return found[(*[slice(None)] * numbers.ndim, *rest)] if rest else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self[:].astype(dtype or self.dtype, copy=False)

    def picked(self, index: Any) -> Self:
        """The rows at a slice, numbers or a mask, unread."""
        return self.chosen(np.atleast_1d(np.arange(len(self))[index]))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.dtype}{list(self.shape)}, read when needed>"


class Mapped(Rows):
    """Rows of a mapped file, np.memmap or np.load(path, mmap_mode="r"): a batch is read, never all; `numbers` says
    which rows, where they are not all.
    """

    def __init__(self, values: np.memmap[Any, Any], dtype: np.dtype[Any], numbers: Numbers | None = None) -> None:
        self.values, self.numbers, self.dtype = values, numbers, dtype
        self.shape = (len(values) if numbers is None else len(numbers), *values.shape[1:])

    def read(self, numbers: Numbers) -> Array:
        numbers = numbers if self.numbers is None else self.numbers[numbers]
        if len(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers) and (np.diff(numbers) == 1).all():
            found = self.values[numbers[0] : numbers[-1] + 1]  # one piece of the file
        else:
            found = self.values[numbers]
        return np.array(found, self.dtype, order="C", subok=False)

    def chosen(self, numbers: Numbers) -> Self:
        return type(self)(self.values, self.dtype, numbers if self.numbers is None else self.numbers[numbers])
