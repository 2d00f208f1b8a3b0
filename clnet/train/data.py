"""Data sets as people have them: arrays, sequences of several lengths, and files, whose readers trust no header."""

from __future__ import annotations

import gzip
import importlib.util
import math
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import DataError
from ..names import guide as _guide
from .batches import Batches
from .graph import Graph
from .graphs import Graphs, Neighbours
from .mesh import mesh_edges
from .packed import PackedSequences
from .preparing import load_preparation
from .readers.frames import FILES, ending_of, listed, read_frame
from .readers.images import read_images, stored
from .readers.tables import Table, TablePreparation, from_frame
from .readers.text import Tokeniser, read_text, read_texts
from .samples import Dataset, from_arrays
from .sequences import Sequences
from .stream import Stream

__all__ = [
    "Batches", "Dataset", "Graph", "Graphs", "Neighbours", "PackedSequences", "Sequences", "Stream", "Table",
    "TablePreparation", "Tokeniser", "from_arrays", "from_frame", "load", "load_preparation", "mesh_edges", "read",
    "read_idx", "read_images", "read_npz", "read_text", "read_texts",
]

IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
LARGEST = 8 << 30  # [bytes] of one array: a header that claims more is not believed
CHUNK = 1 << 20


def load(name: str) -> Dataset:
    """A data set that needs no network: "digits" (1797 images of 8 x 8 handwritten digits, values in [0, 1]).
    Raises DataError.
    """
    if name != "digits":
        raise DataError(
            f"data.load({name!r}): expected 'digits', the only data set that comes along; "
            "for one's own there are data.read(path, target=...) for tables and folders of images, "
            "data.from_frame(frame, target=...), data.from_arrays(x, y), "
            "data.Sequences(x, y) for what has several lengths, and data.read_idx(path) for the files of MNIST.")
    table = _digits()
    x = (table[:, :-1] / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    about = ("1797 handwritten digits, 8 x 8 pixels in [0, 1]; "
             "UCI optical recognition of handwritten digits (CC BY 4.0), bundled with scikit-learn.")
    return Dataset(x, table[:, -1].astype(np.int32), tuple("0123456789"), about, "digits")


def _digits() -> np.ndarray[Any, Any]:
    """The digits: a row an image, 64 pixels in [0, 16] and the class. The file that scikit-learn has is read without
    scikit-learn, whose import takes a second.
    """
    package = importlib.util.find_spec("sklearn")
    file = Path(package.origin or "").parent / "datasets" / "data" / "digits.csv.gz" if package else Path()
    if file.is_file():
        return np.loadtxt(file, delimiter=",", dtype=np.float64)
    from sklearn.datasets import load_digits  # of a version that keeps it elsewhere

    found = load_digits()
    return np.concatenate([found.data, found.target[:, None]], 1)


def read(path: str | Path, target: str | Sequence[str] | None = None, *, sep: str | None = None,
         decimal: str | None = None, na_values: Sequence[str] = (), encoding: str = "utf-8",
         **preparing: Any) -> Dataset:
    """The data set in a file, by its ending: tables (.csv, .tsv, .txt, .parquet, .jsonl, .json, also packed as .gz,
    .bz2, .xz, .zip), arrays x and y (.npz), pictures in MNIST's files (…-images-idx3-ubyte, .gz, with …-labels-… beside
    it); a folder as `read_images` does.

    target      of tables: the column to predict; of arrays: the name of y
    sep         what separates cells; None: what separates those of the first line
    decimal     of numbers, "." or ","; None: ".", or "," where cells are parted by another sign and the numbers of a
                column have commas, none points
    na_values   cells that count as missing, beside empty ones, NA, NaN and the like
    preparing   what `from_frame` takes: task, categorical, drop, keep, encode, …
    Text in which all cells are dates of ISO 8601 is dates. Raises DataError; ImportError where Parquet lacks pyarrow.
    """
    if not str(path).strip():
        raise DataError(f"read: expected the path of a file or a folder; got {str(path)!r}.")
    path = Path(path)
    who = f"read({path.name})"
    if path.is_dir():
        return read_images(path, **preparing)
    if ending_of(path) == ".npz":
        if preparing or not (target is None or isinstance(target, str)):
            raise DataError(f"{who}: expected target=, the name of one array, and no arguments of tables; "
                            "read_npz(path, x=, y=) names both arrays.")
        return read_npz(path, y=target or "y")
    if "idx" in path.name and ending_of(path) not in FILES:
        if target is not None or preparing:
            raise DataError(f"{who}: expected neither target= nor arguments of tables; got "
                            f"{listed([*(['target'] if target is not None else []), *preparing])}; labels of MNIST's "
                            "files are those of the file with labels in its name beside it.")
        return _read_mnist(path)
    frame = read_frame(path, sep, decimal, na_values, encoding, who)
    if target is None:
        raise DataError(f"{who}: expected target=, the column to predict, one of {listed(map(str, frame.columns))}.")
    reading = {"sep": sep, "decimal": decimal, "na_values": list(na_values), "encoding": encoding}
    return from_frame(frame, target, **preparing, title=path.name, reading=reading)


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


def _read_mnist(path: Path) -> Dataset:
    """Pictures, and their labels from the file beside them."""
    who = f"read({path.name})"
    pixels = read_idx(path)
    if pixels.ndim not in (3, 4) or pixels.dtype != np.uint8:
        raise DataError(f"{who}: expected bytes of pictures, (N, height, width); got {pixels.dtype} of shape "
                        f"{pixels.shape}; read_idx reads any array.")
    labels = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    y = read_idx(labels) if labels != path and labels.exists() else None
    if y is not None and (y.ndim != 1 or len(y) != len(pixels)):
        raise DataError(f"{who}: expected {len(pixels)} labels in {labels.name}; got shape {y.shape}.")
    return stored(pixels, y, path.name)


def read_npz(path: str | Path, x: str | None = None, y: str = "y") -> Dataset:
    """The data set in two arrays of an .npz file; x is by default "x", or the only one beside y. Never unpickles; sizes
    are checked against the file's before memory is taken. Raises DataError.
    """
    who = f"read_npz({Path(path).name})"
    try:
        with zipfile.ZipFile(path) as archive:
            members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
            if x is None:
                beside = [name for name in members if name != y]
                x = beside[0] if len(beside) == 1 and "x" not in members else "x"
            for name in (y, x):
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


_guide(__name__)
