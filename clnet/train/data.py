"""Data sets: arrays in memory with a fixed split, readers that trust no header, and batches in an order that a seed fixes."""

from __future__ import annotations

import gzip
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..names import guide as _guide

IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
LARGEST = 8 << 30  # [bytes] of one array: a header that claims more is not believed
CHUNK = 1 << 20
Batch = tuple[tuple[np.ndarray[Any, Any], ...], np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Dataset:
    """Samples x (N, …) (a tuple of such arrays for a model of several inputs) and targets y (N, …), class names, a description.

    Raises DataError when empty, of unequal lengths, or not numbers.
    """

    x: Any
    y: np.ndarray[Any, Any]
    names: tuple[str, ...] = ()
    description: str = ""
    title: str = "data"

    def __post_init__(self) -> None:
        arrays = [np.asarray(a) for a in (*parts(self.x), self.y)]
        for a in arrays:
            if a.dtype.hasobject or a.dtype.kind not in "biuf":
                raise DataError(f"{self.title}: expected arrays of numbers; got {a.dtype}; convert them first.")
        if any(not a.ndim or len(a) != len(arrays[0]) for a in arrays):
            raise DataError(f"{self.title}: expected as many samples as targets; got shapes {' and '.join(str(a.shape) for a in arrays)}.")
        if not len(arrays[0]):
            raise DataError(f"{self.title}: expected at least one sample; got none.")
        *x, y = map(_single, arrays)
        object.__setattr__(self, "x", tuple(x) if isinstance(self.x, tuple) else x[0])
        object.__setattr__(self, "y", y)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{list(a.shape[1:])}" for a in parts(self.x))
        return f"<Dataset {self.title}: {len(self)} samples, x {shapes}, y {self.y.dtype}{list(self.y.shape[1:])}>"

    def rows(self, index: Any) -> tuple[tuple[np.ndarray[Any, Any], ...], np.ndarray[Any, Any]]:
        """(inputs, targets) at an index array or slice; inputs always a tuple."""
        return tuple(a[index] for a in parts(self.x)), self.y[index]

    def take(self, index: Any) -> Dataset:
        """The samples at an index array or slice, as a data set of its own."""
        x, y = self.rows(index)
        return Dataset(x if isinstance(self.x, tuple) else x[0], y, self.names, self.description, self.title)

    def split(self, test: float = 0.2, seed: int = 0) -> tuple[Dataset, Dataset]:
        """(train, test): ⌈test · N⌉ samples drawn by the seed go to the second; the same in every run."""
        count = math.ceil(len(self) * test)
        if not 0 < count < len(self):
            raise DataError(f"{self.title}.split(test={test}): expected samples on both sides; got {len(self) - count} and {count}.")
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(self))
        return self.take(np.sort(order[count:])), self.take(np.sort(order[:count]))


def parts(x: Any) -> tuple[Any, ...]:
    """The inputs of a model as a tuple, which they are only where there are several."""
    return x if isinstance(x, tuple) else (x,)


def _single(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Native byte order, C order, and single precision where it is double: what a device computes with."""
    wanted = {"float64": np.dtype(np.float32), "int64": np.dtype(np.int32)}.get(a.dtype.name, a.dtype.newbyteorder("="))
    if wanted == np.int32 and a.size and not -(2**31) <= a.min() <= a.max() < 2**31:
        wanted = np.dtype(np.int64)
    return np.ascontiguousarray(a, wanted)


def from_arrays(x: Any, y: Any, names: Sequence[str] = (), description: str = "", title: str = "data") -> Dataset:
    """A data set from anything NumPy understands. Raises DataError."""
    return Dataset(x if isinstance(x, tuple) else np.asarray(x), np.asarray(y), tuple(map(str, names)), description, title)


def load(name: str) -> Dataset:
    """A data set that needs no network: "digits" (1797 images of 8 x 8 handwritten digits, values in [0, 1]). Raises DataError."""
    if name != "digits":
        raise DataError(f"data.load({name!r}): expected 'digits'; got another name; read files with read_idx or read_npz.")
    from sklearn.datasets import load_digits

    found = load_digits()
    x = (found.images / 16.0).astype(np.float32)[:, None]
    about = "1797 handwritten digits, 8 x 8 pixels in [0, 1]; UCI optical recognition of handwritten digits (CC BY 4.0), bundled with scikit-learn."
    return Dataset(x, found.target.astype(np.int32), tuple(str(n) for n in found.target_names), about, "digits")


def read_idx(path: str | Path) -> np.ndarray[Any, Any]:
    """The array of an IDX file (MNIST's format), gzipped or not. Raises DataError for a wrong magic number, a cut file, trailing bytes."""
    who = f"read_idx({Path(path).name})"
    try:
        with _opened(Path(path)) as file:
            magic = file.read(4)
            if len(magic) != 4 or magic[:2] != b"\0\0" or magic[2] not in IDX_TYPES or not 1 <= magic[3] <= 8:
                raise DataError(f"{who}: expected an IDX file (magic 0 0 type rank); got {magic.hex(' ') or 'an empty file'}.")
            header = file.read(4 * magic[3])
            if len(header) != 4 * magic[3]:
                raise DataError(f"{who}: expected {magic[3]} axis sizes; got {len(header)} of {4 * magic[3]} bytes; the file is cut.")
            shape, dtype = struct.unpack(f">{magic[3]}I", header), np.dtype(IDX_TYPES[magic[2]])
            nbytes = math.prod(shape) * dtype.itemsize
            if not 0 < nbytes <= LARGEST:
                raise DataError(f"{who}: expected between 1 and {LARGEST} bytes; the header says {shape} of {dtype.name}.")
            data = _exactly(file, nbytes, who)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{who}: expected a readable file; got: {error}.") from None
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _opened(path: Path) -> Any:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")


def _exactly(file: Any, nbytes: int, who: str) -> bytes:
    """`nbytes` and then the end. Read in pieces: memory is taken for what is there, not for what a header claims."""
    pieces, missing = [], nbytes
    while missing and (piece := file.read(min(missing, CHUNK))):
        pieces.append(piece)
        missing -= len(piece)
    if missing:
        raise DataError(f"{who}: expected {nbytes} bytes of values; got {nbytes - missing}; the file is cut.")
    if file.read(1):
        raise DataError(f"{who}: expected {nbytes} bytes of values; got more; the file is not what its header says.")
    return b"".join(pieces)


def read_npz(path: str | Path, x: str = "x", y: str = "y") -> Dataset:
    """The data set in two arrays of an .npz file. Never unpickles; sizes are checked against the file's before memory is taken. Raises DataError."""
    who = f"read_npz({Path(path).name})"
    try:
        with zipfile.ZipFile(path) as archive:
            members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
            for name in (x, y):
                if name not in members:
                    raise DataError(f"{who}: expected an array {name!r}; got {', '.join(sorted(members)) or 'none'}; name them with x= and y=.")
            arrays = [_read_npy(archive, members[name], f"{who}[{name}]") for name in (x, y)]
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{who}: expected a readable .npz file; got: {error}.") from None
    return Dataset(arrays[0], arrays[1], title=Path(path).stem)


def _read_npy(archive: zipfile.ZipFile, info: zipfile.ZipInfo, who: str) -> np.ndarray[Any, Any]:
    """One member. The header must agree with the archive's directory, so that a small file cannot claim a large array."""
    with archive.open(info) as file:
        try:
            version = np.lib.format.read_magic(file)
            read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read_header(file)
        except (ValueError, KeyError) as error:
            raise DataError(f"{who}: expected an .npy header of version 1 or 2; got: {error}.") from None
        if dtype.hasobject:
            raise DataError(f"{who}: expected numbers; got Python objects, which would run code when read.")
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes > LARGEST or nbytes > info.file_size or info.file_size > 1000 * max(info.compress_size, 1) + CHUNK:
            raise DataError(f"{who}: expected a header that fits the file; got {shape} of {dtype} in {info.file_size} bytes ({info.compress_size} packed).")
        data = _exactly(file, nbytes, who)
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


class Batches:
    """The batches of a data set: one order per (seed, epoch), the same whenever it is asked for, so that a run can be resumed anywhere.

    The last batch may be short. Raises DataError for a size below 1.
    """

    def __init__(self, data: Dataset, size: int = 64, shuffle: bool = True, seed: int = 0) -> None:
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
            raise DataError(f"Batches(size={size!r}): expected a whole number of samples, at least 1.")
        self.data, self.size, self.shuffle, self.seed = as_dataset(data), int(size), shuffle, int(seed)

    def __len__(self) -> int:
        return -(-len(self.data) // self.size)

    def order(self, epoch: int = 0) -> np.ndarray[Any, Any]:
        """The sample numbers in the order of an epoch."""
        if not self.shuffle:
            return np.arange(len(self.data))
        return np.random.Generator(np.random.Philox(key=[self.seed & (2**64 - 1), epoch])).permutation(len(self.data))

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """(inputs, targets) of every batch from number `start` on: a tuple of arrays and an array, fresh copies."""
        order = self.order(epoch)
        for k in range(start, len(self)):
            yield self.data.rows(order[k * self.size : (k + 1) * self.size])

    def __iter__(self) -> Iterator[Batch]:
        return self.epoch(0)


def even(count: int, size: int) -> int:
    """A batch size of at most `size` that cuts `count` samples into batches as equal as can be: fewer shapes, fewer plans."""
    return -(-count // -(-count // size))


def as_dataset(data: Any) -> Dataset:
    """A Dataset, or a pair (x, y) of arrays made one. Raises DataError."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, (tuple, list)) and len(data) == 2:
        return from_arrays(*data)
    raise DataError(f"data: expected a Dataset or a pair (x, y) of arrays; got {type(data).__name__}; see data.from_arrays.")

_guide(__name__)
