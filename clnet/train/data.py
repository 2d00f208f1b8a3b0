"""Data sets: arrays in memory with a fixed split, readers that trust no header, and batches
in an order that a seed fixes.
"""

from __future__ import annotations

import gzip
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from ..core.arrays import as_array, column_names, pair
from ..errors import DataError
from ..names import guide as _guide

Index = int | np.integer[Any] | slice | list[int] | np.ndarray[Any, Any]  # numbers of samples, or a mask

IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
LARGEST = 8 << 30  # [bytes] of one array: a header that claims more is not believed
CHUNK = 1 << 20
Batch = tuple[tuple[np.ndarray[Any, Any], ...], np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Dataset:
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
        *x, y = map(_single, arrays)
        object.__setattr__(self, "x", tuple(x) if isinstance(self.x, tuple) else x[0])
        object.__setattr__(self, "y", y)

    given: ClassVar[tuple[str, ...]] = ()  # an instance has its own: the dtypes that its arrays came in

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{list(a.shape[1:])}" for a in parts(self.x))
        return f"<Dataset {self.title}: {len(self)} samples, x {shapes}, y {self.y.dtype}{list(self.y.shape[1:])}>"

    def __getitem__(self, index: Index) -> Any:
        """(sample, target) at a number; a Dataset at a slice, an array or list of numbers or a mask."""
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool):
            return self.take(index)
        if not -len(self) <= index < len(self):
            raise DataError(
                f"{self.title}[{index}]: expected a number of a sample from {-len(self)} to {len(self) - 1}.")
        x, y = self.rows(index)
        return (x if isinstance(self.x, tuple) else x[0]), y

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def rows(self, index: Index) -> tuple[tuple[np.ndarray[Any, Any], ...], np.ndarray[Any, Any]]:
        """(inputs, targets) at an index array or slice; inputs always a tuple."""
        return tuple(a[index] for a in parts(self.x)), self.y[index]

    def take(self, index: Index) -> Dataset:
        """The samples at an index array or slice, as a data set of its own."""
        try:
            x, y = self.rows(np.asarray(index) if isinstance(index, list) else index)
        except (IndexError, TypeError) as error:
            raise DataError(
                f"{self.title}: expected a slice, numbers of samples below {len(self)}, "
                f"or a mask of {len(self)}; got {index!r} ({error}).") from None
        found = Dataset(x if isinstance(self.x, tuple) else x[0], y, self.names, self.description, self.title,
                        self.columns)
        object.__setattr__(found, "given", self.given)
        return found

    def split(self, test: float = 0.2, seed: int = 0) -> tuple[Dataset, Dataset]:
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


def _single(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Native byte order, C order, and single precision where it is double: what a device computes with."""
    wanted = {"float64": np.dtype(np.float32), "int64": np.dtype(np.int32)}.get(a.dtype.name, a.dtype.newbyteorder("="))
    wanted = np.dtype(np.float32) if wanted.kind == "f" and wanted.itemsize > 8 else wanted
    if wanted == np.int32 and a.size and not -(2**31) <= a.min() <= a.max() < 2**31:
        wanted = np.dtype(np.int64)
    return np.ascontiguousarray(a, wanted)


def from_arrays(x: Any, y: Any, names: Sequence[str] = (), description: str = "", title: str = "data") -> Dataset:
    """A data set from arrays, frames, tensors or lists: see Dataset. Raises DataError."""
    return Dataset(x, y, tuple(map(str, names)), description, title)


def load(name: str) -> Dataset:
    """A data set that needs no network: "digits" (1797 images of 8 x 8 handwritten digits, values in [0, 1]).
    Raises DataError.
    """
    if name != "digits":
        raise DataError(
            f"data.load({name!r}): expected 'digits', the only data set that comes along; "
            "for one's own there are data.from_arrays(x, y) for arrays and frames, "
            "data.read_npz(path), and data.read_idx(path) for the files of MNIST.")
    from sklearn.datasets import load_digits

    found = load_digits()
    x = (found.images / 16.0).astype(np.float32)[:, None]
    about = ("1797 handwritten digits, 8 x 8 pixels in [0, 1]; "
             "UCI optical recognition of handwritten digits (CC BY 4.0), bundled with scikit-learn.")
    return Dataset(x, found.target.astype(np.int32), tuple(str(n) for n in found.target_names), about, "digits")


def read_idx(path: str | Path) -> np.ndarray[Any, Any]:
    """The array of an IDX file (MNIST's format), gzipped or not. Raises DataError for a wrong magic number,
    a cut file, trailing bytes.
    """
    who = f"read_idx({Path(path).name})"
    try:
        with _opened(Path(path)) as file:
            magic = file.read(4)
            if len(magic) != 4 or magic[:2] != b"\0\0" or magic[2] not in IDX_TYPES or not 1 <= magic[3] <= 8:
                raise DataError(
                    f"{who}: expected an IDX file (magic 0 0 type rank); got {magic.hex(' ') or 'an empty file'}.")
            header = file.read(4 * magic[3])
            if len(header) != 4 * magic[3]:
                raise DataError(
                    f"{who}: expected {magic[3]} axis sizes; "
                    f"got {len(header)} of {4 * magic[3]} bytes; the file is cut.")
            shape, dtype = struct.unpack(f">{magic[3]}I", header), np.dtype(IDX_TYPES[magic[2]])
            nbytes = math.prod(shape) * dtype.itemsize
            if not 0 < nbytes <= LARGEST:
                raise DataError(
                    f"{who}: expected between 1 and {LARGEST} bytes; the header says {shape} of {dtype.name}.")
            data = _exactly(file, nbytes, who)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{who}: expected a readable file; got: {error}.") from None
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _opened(path: Path) -> Any:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")


def _exactly(file: IO[bytes], nbytes: int, who: str) -> bytes:
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
    """The data set in two arrays of an .npz file. Never unpickles; sizes are checked against the file's before memory
    is taken. Raises DataError.
    """
    who = f"read_npz({Path(path).name})"
    try:
        with zipfile.ZipFile(path) as archive:
            members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
            for name in (x, y):
                if name not in members:
                    raise DataError(
                        f"{who}: expected an array {name!r}; "
                        f"got {', '.join(sorted(members)) or 'none'}; name them with x= and y=.")
            arrays = [_read_npy(archive, members[name], f"{who}[{name}]") for name in (x, y)]
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{who}: expected a readable .npz file; got: {error}.") from None
    return Dataset(arrays[0], arrays[1], title=Path(path).stem)


def _read_npy(archive: zipfile.ZipFile, info: zipfile.ZipInfo, who: str) -> np.ndarray[Any, Any]:
    """One member. The header must agree with the archive's directory, so that a small file cannot claim a large array.
    """
    with archive.open(info) as file:
        try:
            version = np.lib.format.read_magic(file)
            read_header = {(1, 0): np.lib.format.read_array_header_1_0,
                           (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read_header(file)
        except (ValueError, KeyError) as error:
            raise DataError(f"{who}: expected an .npy header of version 1 or 2; got: {error}.") from None
        if dtype.hasobject:
            raise DataError(f"{who}: expected numbers; got Python objects, which would run code when read.")
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes > LARGEST or nbytes > info.file_size or info.file_size > 1000 * max(info.compress_size, 1) + CHUNK:
            raise DataError(
                f"{who}: expected a header that fits the file; "
                f"got {shape} of {dtype} in {info.file_size} bytes ({info.compress_size} packed).")
        data = _exactly(file, nbytes, who)
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


class Batches:
    """The batches of a data set: one order per (seed, epoch), the same whenever it is asked for,
    so that a run can be resumed anywhere.

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
    """A batch size of at most `size` that cuts `count` samples into batches as equal as can be:
    fewer shapes, fewer plans.
    """
    return -(-count // -(-count // size))


def as_dataset(data: object) -> Dataset:
    """A Dataset, or a pair (x, y) of arrays made one. Raises DataError."""
    return data if isinstance(data, Dataset) else from_arrays(*pair(data))


_guide(__name__)
