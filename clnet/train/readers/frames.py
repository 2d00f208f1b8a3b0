"""Tables as people have them, as one pandas frame: frames of pandas and Polars, dicts and records, files by ending."""

from __future__ import annotations

import csv
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...core.arrays import ByColumns, Series
from ...core.arrays import Frame as PandasLike
from ...errors import DataError
from ...names import ending, ending_of_path
from .spelt import ISO_DATE, all_match

if TYPE_CHECKING:
    import pandas

TEXTS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ""}  # endings of tables as text, and what separates cells
LINES = (".jsonl", ".ndjson")
FILES = (*TEXTS, ".parquet", ".pq", *LINES, ".json")
PACKED = (".gz", ".bz2", ".xz", ".zip")
WITH_COMMA = re.compile(r"[-+]?\d*,?\d+([eE][-+]?\d+)?")
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # 1,234 may be either
MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}  # bytes that a text begins with
ELSEWHERE = {".xlsx": "pandas.read_excel(path)", ".xls": "pandas.read_excel(path)", ".ods": "pandas.read_excel(path)",
             ".feather": "pandas.read_feather(path)", ".arrow": "pandas.read_feather(path)",
             ".sas7bdat": "pandas.read_sas(path)", ".dta": "pandas.read_stata(path)", ".sav": "pandas.read_spss(path)",
             ".xml": "pandas.read_xml(path)", ".html": "pandas.read_html(path)[0]"}
ARRAYS = {".npy": "numpy.load(path)", ".mat": "scipy.io.loadmat(path)[name]", ".h5": "h5py.File(path)[name]",
          ".hdf5": "h5py.File(path)[name]", ".pt": "torch.load(path)"}


@runtime_checkable
class PolarsLike(ByColumns, Protocol):
    """A frame of Polars."""

    def to_pandas(self) -> pandas.DataFrame: ...


@runtime_checkable
class Lazy(Protocol):
    """What Polars is to compute a frame by."""

    def collect(self) -> Any: ...
    def collect_schema(self) -> Any: ...


@runtime_checkable
class ArrowLike(Protocol):
    """A table of Arrow."""

    column_names: list[str]

    def to_pandas(self) -> pandas.DataFrame: ...


def is_frame(value: object) -> bool:
    """Whether it is a frame of pandas or Polars."""
    return isinstance(value, (PandasLike, PolarsLike))


def is_rows(value: object) -> bool:
    """Whether it is rows with names of columns, in anything that `frame_of` takes."""
    records = isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], Mapping)
    return (is_frame(value) or records or (isinstance(value, Mapping) and len(value) > 0) or _is_row(value)
            or _has_names(value) or isinstance(value, ArrowLike))


def _is_row(value: object) -> bool:
    """A row of a frame, which pandas gives as a series."""
    index = getattr(value, "index", None)
    return isinstance(value, Series) and index is not None and all(isinstance(n, str) for n in index)


def _has_names(value: object) -> bool:
    """An array of records."""
    return bool(getattr(getattr(value, "dtype", None), "names", None))


def frame_of(value: object, who: str) -> pandas.DataFrame:
    """A pandas frame of a frame, a dict of columns or a list of records; names of columns are text, each there once.
    Raises DataError.
    """
    import pandas

    if isinstance(value, Lazy):
        raise DataError(f"{who}: expected a frame; got a {type(value).__name__}, which is a plan of one; "
                        "frame.collect() makes it.")
    if isinstance(value, PolarsLike):  # by its own columns: its to_pandas asks for pyarrow
        columns = {s.name: s.to_numpy() if s.dtype.is_numeric() else s.to_list() for s in value.get_columns()}
        found = pandas.DataFrame(columns)
    elif isinstance(value, pandas.DataFrame):
        found = value
    elif _has_names(value):
        found = pandas.DataFrame.from_records(value)  # type: ignore[call-overload]
    elif isinstance(value, ArrowLike):
        found = value.to_pandas()
    elif is_rows(value):
        one = _is_row(value) or (isinstance(value, Mapping) and all(map(pandas.api.types.is_scalar, value.values())))
        try:
            found = pandas.DataFrame([dict(value)] if one else value)  # type: ignore[call-overload]
        except ValueError as error:
            raise DataError(f"{who}: expected columns of one length; got {error}.") from None
    else:
        raise DataError(
            f"{who}: expected a frame of pandas or Polars, a dict of columns or a list of records; "
            f"got {type(value).__name__}; arrays go to fit(x, y) as they are.")
    names = [str(c) for c in found.columns]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise DataError(f"{who}: expected every column once; got {', '.join(map(repr, twice))} several times.")
    if not len(found):
        raise DataError(f"{who}: expected at least one row; got none, in columns {listed(names)}.")
    return found.set_axis(names, axis=1).reset_index(drop=True).apply(_plain)


def _plain(s: pandas.Series[Any]) -> pandas.Series[Any]:
    """A column in a dtype that pandas computes with: of Arrow's, half precision, dates and bytes in objects."""
    import pandas

    kind = str(s.dtype)
    if kind in ("float16", "halffloat[pyarrow]"):
        return s.astype("float32")
    if kind == "bool[pyarrow]":
        return s.astype("boolean")
    if kind.endswith("[pyarrow]") and kind.startswith(("list", "large_list", "struct", "map", "fixed_size")):
        return s.astype(object)
    there = s.dropna()
    first = there.iloc[0] if (kind == "object" or kind.startswith("date32")) and len(there) else None
    if isinstance(first, datetime.date):
        return pandas.to_datetime(s.astype(object), errors="coerce").where(s.notna())
    if isinstance(first, bytes) and all(isinstance(v, bytes) for v in there):
        return s.map(lambda v: v.decode(errors="replace") if isinstance(v, bytes) else v)
    return s


def ending_of(path: Path) -> str:
    """The ending that says the format, without what it was packed with: ".csv" of a.csv.gz."""
    parts = [s.lower() for s in path.suffixes]
    return parts[-2] if len(parts) > 1 and parts[-1] in PACKED else parts[-1] if parts else ""


def read_frame(path: Path, sep: str | None, decimal: str | None, na_values: Sequence[str], encoding: str,
               who: str) -> pandas.DataFrame:
    """The table in a file, by its ending. Raises DataError; ImportError where Parquet lacks its library."""
    import pandas

    kind = ending_of(path)
    if kind not in FILES:
        how = (f"; from_frame({ELSEWHERE[kind]}, target=...) takes it." if kind in ELSEWHERE else
               f"; fit takes its arrays: x = {ARRAYS[kind]}." if kind in ARRAYS else
               ending(kind, FILES) if kind else ".")
        raise DataError(f"{who}: expected a file ending in {', '.join(FILES)} or .npz, or a folder of images; "
                        f"got {path.name!r}{how}")
    if not path.is_file():
        raise DataError(f"{who}: expected a table; got {str(path)!r}, which is not there{ending_of_path(path)}")
    if not path.stat().st_size:
        raise DataError(f"{who}: expected a table with a head and rows; got an empty file.")
    encoding = encoding_of(path, encoding)
    try:
        if kind in TEXTS:
            found = _text(path, sep or _separator(path, TEXTS[kind], encoding), decimal, na_values, encoding, who)
        elif kind in (".parquet", ".pq"):
            found = _parquet(path, who)
        else:
            found = pandas.read_json(path, lines=kind in LINES, encoding=encoding)
    except (OSError, ValueError, UnicodeError, EOFError, LookupError) as error:
        if isinstance(error, DataError):
            raise
        if isinstance(error, UnicodeError):
            at = f", the first at {error.start}" if isinstance(error, UnicodeDecodeError) else ""
            raise DataError(f"{who}: expected text in {encoding}; got other bytes{at}; say what it is in: "
                            "encoding='cp1252' is what Excel writes often.") from None
        raise DataError(f"{who}: expected a readable table; got: {' '.join(str(error).split()).rstrip('.')}.") from None
    return _with_dates(found)


def encoding_of(path: Path, encoding: str) -> str:
    """What a text is in: where it should be UTF-8, and its first bytes say another Unicode, that."""
    if encoding.lower() not in ("utf-8", "utf8") or ending_of(path) != path.suffix.lower() or not path.is_file():
        return encoding
    with path.open("rb") as file:
        start = file.read(3)
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), encoding)


def _text(path: Path, sep: str, decimal: str | None, na_values: Sequence[str], encoding: str,
          who: str) -> pandas.DataFrame:
    """A table as text; a sign between whole and parts that is not said is looked for, where it may be a comma."""
    import pandas

    def read(sign: str) -> pandas.DataFrame:
        return pandas.read_csv(path, sep=sep, decimal=sign, na_values=list(na_values), encoding=encoding,
                               skipinitialspace=True)

    found = read(decimal or ".")
    if not isinstance(found.index, pandas.RangeIndex):  # pandas takes the first cells of longer rows for their names
        raise DataError(f"{who}: expected as many cells in each row as in the head, {len(found.columns)}; got "
                        f"{len(found.columns) + found.index.nlevels}, parted by {sep!r}; name every column, or put "
                        "cells that hold such a sign in quotes.")
    return read(",") if decimal is None and sep != "," and _has_commas(found) else found


def _has_commas(frame: pandas.DataFrame) -> bool:
    """Whether columns of text are numbers with commas, not all of which may part thousands, and none has points."""
    def with_commas(s: pandas.Series[Any]) -> bool:
        cells = [str(v).strip() for v in s]
        return all(map(WITH_COMMA.fullmatch, cells)) and any(not THOUSANDS.fullmatch(c) for c in cells if "," in c)

    there = [frame[c].dropna() for c in frame.columns]
    points = any(s.dtype.kind == "f" and bool((s % 1 != 0).any()) for s in there)
    return not points and any(s.dtype.kind not in "biufcM" and with_commas(s) for s in there)


def _parquet(path: Path, who: str) -> pandas.DataFrame:
    import pandas

    try:
        return pandas.read_parquet(path)
    except ImportError:
        raise ImportError(f"{who}: expected pyarrow, which reads Parquet; install it: "
                          "pip install 'clnet[parquet]', or save the table as CSV.") from None


def _separator(path: Path, usual: str, encoding: str) -> str:
    """What separates the cells of the first line: the usual one, or another that is there more often."""
    import pandas

    (line,) = pandas.read_csv(path, sep="\0", header=None, nrows=1, encoding=encoding, engine="python",
                              quoting=csv.QUOTE_NONE).iloc[0]
    line = re.sub(r'"[^"]*"', "", str(line))
    often = {s: line.count(s) for s in dict.fromkeys((usual or ",", ",", ";", "\t", "|"))}
    return max(often, key=lambda s: often[s])


def _with_dates(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Columns of text in which all that is there is a date of ISO 8601, as dates."""
    import pandas

    def is_date(s: pandas.Series[Any]) -> bool:
        types = pandas.api.types
        other = types.is_numeric_dtype(s) or types.is_datetime64_any_dtype(s)
        return not other and all_match(s.dropna(), ISO_DATE)

    return frame.assign(**{c: pandas.to_datetime(frame[c], format="ISO8601", errors="coerce", utc=True)
                           for c in map(str, frame.columns) if c in frame and is_date(frame[c])})


def listed(names: Iterable[str], most: int = 8) -> str:
    """'a', 'b' and 3 more"""
    names = list(names)
    shown = ", ".join(map(repr, names[:most]))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"
