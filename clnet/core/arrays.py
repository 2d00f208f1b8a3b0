"""What people have in hand, as arrays: frames, series, tensors of other libraries, lists.
What cannot be one is refused with the way to one.

No other library is imported: its things are known by what they can do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..errors import DataError

Array = np.ndarray[Any, Any]
KINDS = {"O": "objects", "U": "text", "T": "text", "S": "bytes", "M": "dates", "m": "time spans",
         "c": "complex numbers", "V": "records"}
MEND = {"O": "convert them first: np.array(list, float)",
        "U": "number them first: names, y = np.unique(labels, return_inverse=True)",
        "T": "number them first: names, y = np.unique(labels, return_inverse=True)",
        "S": "number them first: names, y = np.unique(labels, return_inverse=True)",
        "M": "turn them into numbers first: (t - t[0]) / np.timedelta64(1, 's')",
        "m": "turn them into numbers first: t / np.timedelta64(1, 's')",
        "c": "stack their parts: np.stack([z.real, z.imag], -1)",
        "V": "stack the columns first: np.stack([a[name] for name in a.dtype.names], -1)"}


def alike(array: Array) -> bool:
    """Whether it is one number in memory that stands in every place."""
    return array.size > 1 and not any(array.strides)


# --- what other libraries' things can do
@runtime_checkable
class Sparse(Protocol):
    """A sparse matrix of SciPy."""

    nnz: int
    shape: tuple[int, ...]

    def toarray(self) -> Array: ...


@runtime_checkable
class Frame(Protocol):
    """A frame of pandas; `iloc` finds columns by number."""

    columns: Iterable[object]
    dtypes: object
    iloc: Any
    shape: tuple[int, int]


@runtime_checkable
class ByColumns(Protocol):
    """A frame of Polars."""

    columns: list[str]

    def get_columns(self) -> Sequence[Any]: ...


@runtime_checkable
class Series(Protocol):
    """A series or index of pandas, or a series of Polars."""

    dtype: Any

    def to_numpy(self) -> Array: ...


@runtime_checkable
class Nullable(Protocol):
    """A series of pandas, as Polars' is none."""

    dtype: Any

    def isna(self) -> Any: ...
    def to_numpy(self, dtype: Any = None, *, na_value: Any = None) -> Array: ...


@runtime_checkable
class ByNumber(Protocol):
    """A data set of PyTorch, which gives a sample for its number."""

    def __getitem__(self, index: int, /) -> Any: ...
    def __len__(self) -> int: ...


@runtime_checkable
class Detachable(Protocol):
    """A tensor of PyTorch."""

    def detach(self) -> Any: ...
    def cpu(self) -> Any: ...


@runtime_checkable
class Loader(Protocol):
    """A loader of PyTorch, which makes batches of a data set."""

    batch_size: int | None  # None where it has a sampler of batches, or gives samples
    batch_sampler: object
    dataset: object


def as_array(value: Any, who: str = "data") -> Array:
    """Numbers or bools as NumPy has them. Raises DataError with a way out for text, dates,
    objects, streams and mappings.
    """
    if type(value) is np.ndarray:  # what predict is given at every request; asking what else it could be takes 0.1 ms
        return _of_numbers(value, who)
    if isinstance(value, Sparse):
        raise DataError(f"{who}: expected a dense array; got a sparse one of shape {value.shape}; pass x.toarray().")
    if isinstance(value, dict):
        names = ", ".join(map(repr, list(value)[:4]))
        raise DataError(
            f"{who}: expected an array; got a dict of {names or 'nothing'}; "
            "pass its arrays: x as d[name], or a tuple of them for several inputs.")
    if isinstance(value, Iterator):
        raise DataError(
            f"{who}: expected an array; got a {type(value).__name__}, which has no length; "
            "collect it first: np.stack(list(...)).")
    if isinstance(tensors := getattr(value, "tensors", None), tuple):
        raise DataError(f"{who}: expected an array; got a {type(value).__name__} of {len(tensors)} tensors; "
                        "pass the one that is meant: data.tensors[0].")
    if isinstance(value, (Frame, ByColumns)):
        return _of_frame(value, who)
    if isinstance(value, Series):
        return _of_series(value, who)
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise DataError(
            f"{who}: expected values everywhere; "
            f"got a masked array with {int(np.ma.getmaskarray(value).sum())} masked; fill it: x.filled(0).")
    return _of_numbers(_plain(value, who), who)


def _plain(value: Any, who: str) -> Array:
    try:
        if isinstance(value, Detachable):
            value = value.detach().cpu()
            value = value.float() if str(value.dtype).endswith("bfloat16") else value
        return np.asarray(os.fspath(value) if isinstance(value, os.PathLike) else value)
    except (ValueError, TypeError, RuntimeError) as error:
        lengths = sorted({len(v) for v in value if isinstance(v, Sized)}) if isinstance(value, (list, tuple)) else []
        if len(lengths) > 1:
            raise DataError(
                f"{who}: expected rows of one length; got lengths from {lengths[0]} to {lengths[-1]}; "
                "data.Sequences(x, y) takes several; a tuple of arrays is for a model of several inputs.") from None
        raise DataError(
            f"{who}: expected an array; got {type(value).__name__}, "
            f"which NumPy cannot read ({error}); convert it first.") from None


def _of_numbers(a: Array, who: str) -> Array:
    if a.dtype.isbuiltin == 1 and a.dtype.kind in "biuf":
        return a
    if a.dtype.kind in "biuf" and not a.dtype.hasobject:
        return a
    if a.dtype.kind == "V" and a.dtype.names is None and np.can_cast(a.dtype, np.float32):
        return a.astype(np.float32)  # bfloat16 and other short floats and integers of ml_dtypes
    if a.dtype.kind == "O" and a.ndim and a.size and (found := _of_objects(a)) is not None:
        return found
    if a.dtype.kind == "O" and a.ndim == 0:
        raise DataError(
            f"{who}: expected an array; got {type(a.item()).__name__}; pass x and y as arrays, frames or lists.")
    text = a.dtype.kind == "O" and a.size and isinstance(a.flat[0], str)
    kind = "U" if text else a.dtype.kind
    mend = "they are numbers: x.astype(float)" if _spelt(a) else MEND.get(kind, "convert them first")
    if a.ndim == 0 and kind in "UTS":  # a name of a file more likely than a label
        mend = "clnet.data.read(path, target=...) reads a file, pandas.read_csv(path) one without a target"
    raise DataError(
        f"{who}: expected arrays of numbers; got {KINDS.get(kind, a.dtype.name)} ({a.dtype}); {mend}.")


def _of_objects(a: Array) -> Array | None:
    """Numbers that NumPy holds as objects, None among them missing; None where there is anything else."""
    from decimal import Decimal

    kinds = set(map(type, a.flat))
    if not all(issubclass(k, (Real, Decimal, np.bool_, type(None))) for k in kinds):
        return None
    found = np.array(a.tolist()) if all(issubclass(k, (Real, np.bool_)) for k in kinds) else a
    return found if found.dtype.kind in "biuf" else a.astype(np.float64)


def _spelt(a: Array) -> bool:
    """Whether text is numbers, as far as its beginning says."""
    if a.dtype.kind not in "OUST" or not a.size or not isinstance(a.flat[0], (str, bytes)):
        return False
    try:
        return bool(np.asarray(a.ravel()[:64]).astype(np.float64).size)
    except (TypeError, ValueError):
        return False


# --- pandas and Polars
def _of_series(s: Any, who: str) -> Array:
    kind, name = _kind(s.dtype, s), f" in {s.name!r}" if getattr(s, "name", None) is not None else ""
    if kind in ("text", "categories"):
        how = "y.cat.codes" if kind == "categories" else "codes, names = pandas.factorize(y)"
        raise DataError(f"{who}: expected numbers; got {kind}{name}; number them first: {how}.")
    if kind != "numbers":
        raise DataError(f"{who}: expected numbers; got {kind}{name}; convert them first.")
    return _column(s)


def _column(s: Any) -> Array:
    """A column as NumPy has it; missing values, which integers and bools of pandas may have, are NaN."""
    if isinstance(s.dtype, np.dtype) or not isinstance(s, Nullable):
        return _of_numbers(np.asarray(s.to_numpy()), "data")
    if s.isna().any():
        return np.asarray(s.to_numpy(dtype=np.float64, na_value=np.nan))
    kind = getattr(s.dtype, "kind", "f")
    return np.asarray(s.to_numpy(dtype={"b": bool, "i": np.int64, "u": np.uint64}.get(kind, np.float64)))


def _kind(dtype: Any, s: Any) -> str:
    name, kind = str(dtype), getattr(dtype, "kind", "O")
    if getattr(dtype, "is_numeric", bool)():  # Polars
        return "numbers"
    if name.startswith(("Categorical", "Enum")) or name == "category":
        return "categories"
    if name.startswith("Duration"):
        return "time spans"
    name = name.lower()
    if kind in "Mm" or name.startswith(("date", "period", "time")):
        return "dates" if kind != "m" else "time spans"
    if kind in "biuf" or name == "boolean":
        return "numbers"
    if name == "object" and len(s) and _of_objects(np.asarray(s.to_numpy())) is not None:
        return "numbers"
    if name.startswith(("str", "large_string")) or (name == "object" and any(isinstance(v, str) for v in s)):
        return "text"
    return "complex numbers" if kind == "c" else "objects"


def _of_frame(frame: Any, who: str) -> Array:
    pandas = isinstance(frame, Frame)
    columns = [frame.iloc[:, k] for k in range(frame.shape[1])] if pandas else frame.get_columns()
    wrong = [(name, kind) for name, s in zip(frame.columns, columns, strict=True)
             if (kind := _kind(s.dtype, s)) != "numbers"]
    if wrong:
        named = [n for n, _ in wrong]
        shown = ", ".join(f"{name!r} ({kind})" for name, kind in wrong[:6])
        shown += f" and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        texts = [n for n, kind in wrong if kind in ("text", "categories")]
        drop = f"frame.drop(columns={named[:6]!r})" if pandas else f"frame.drop({named[:6]!r})"
        dummies = f"pandas.get_dummies(frame, columns={texts[:6]!r})" if pandas else f"frame.to_dummies({texts[:6]!r})"
        encode = f", or turn text into columns of 0 and 1: {dummies}" if texts else ""
        raise DataError(f"{who}: expected columns of numbers; got {shown}; leave them out: {drop}{encode}; "
                        "data.from_frame(frame, target=...) prepares such columns.")
    found = [_column(s) for s in columns]
    if not found:
        return np.zeros(frame.shape, np.float32)
    kinds = {a.dtype for a in found}
    whole = all(a.dtype.kind in "biu" for a in found)
    return np.stack(found if len(kinds) == 1 else [a.astype(np.int64 if whole else np.float32) for a in found], 1)


def column_names(value: Any) -> tuple[str, ...]:
    """The names of a frame's columns; () of anything else."""
    known = type(value) is not np.ndarray and isinstance(value, (Frame, ByColumns))
    return tuple(map(str, value.columns)) if known else ()


# --- other libraries' data sets
def pair(data: Any, who: str = "data") -> Any:
    """(x, y) of a pair, or of another library's data set that holds tensors.
    Raises DataError with a way out for the rest.
    """
    if isinstance(data, (tuple, list)) and len(data) == 2:
        return data
    kind = type(data).__name__
    if isinstance(tensors := getattr(data, "tensors", None), tuple) and len(tensors) > 1:
        return (tensors[0] if len(tensors) == 2 else tuple(tensors[:-1])), tensors[-1]
    if isinstance(data, Loader):
        raise DataError(
            f"{who}: expected arrays; got a {kind}, which makes batches itself; pass its data set, "
            f"if that is a TensorDataset: fit(loader.dataset, batch_size={data.batch_size}), or arrays.")
    if isinstance(data, dict) and len(data) >= 2:
        a, *_, b = map(repr, data)
        raise DataError(
            f"{who}: expected a Dataset or a pair (x, y) of arrays; "
            f"got a dict; pass the arrays in it: fit(d[{a}], d[{b}]).")
    if isinstance(data, Iterator) or (isinstance(data, Iterable) and not isinstance(data, Sized)):
        raise DataError(
            f"{who}: expected a Dataset or a pair (x, y) of arrays; "
            f"got a {kind}, which gives batches once; data.Stream(make, batched=True) takes the function that "
            "makes it, or collect them first: x, y = map(np.concatenate, zip(*batches)).")
    if getattr(data, "shape", None) is not None or isinstance(data, (list, tuple)):
        raise DataError(f"{who}: expected labels too; got {kind} alone; pass x and y: fit(x, y).")
    if isinstance(data, ByNumber) and not isinstance(data, (str, bytes, dict)):
        raise DataError(f"{who}: expected a Dataset or a pair (x, y) of arrays; got {kind}, which gives one sample "
                        "after another; a loader of it is taken: DataLoader(data, batch_size=64, shuffle=True).")
    raise DataError(f"{who}: expected a Dataset or a pair (x, y) of arrays; got {kind}; see data.from_arrays.")
