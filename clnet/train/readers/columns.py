"""How a column of a table becomes numbers: standardised, one-hot or coded, a date in parts. Each is fitted once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...errors import DataError
from .spelt import ISO_DATE, UNSURE, Spelling, alike, all_match, first_of, iso, plain, read_as, spelling

if TYPE_CHECKING:
    import pandas

Array = np.ndarray[Any, Any]
PARTS = {"year": "year", "month": "month", "day": "day", "weekday": "day_of_week", "hour": "hour"}  # as pandas says it
MOST = 1e100  # of a number: its square is finite
NESTED = (list, tuple, dict, set, np.ndarray)  # what is several values
FEW = 64  # categories of a column that keep a place of their own, unless more are asked for


@dataclass(frozen=True)
class Number:
    """(v - mean) / scale, v the median where it is missing; with `indicator` a second column, 1 where it was.

    scale    the standard deviation; 1 for yes and no, which become 1 and 0
    spelt    how they are written, if they are text: (".", "$") as "$1,234.50", (",", "kg") as "80,5 kg"
    """

    kind: ClassVar[str] = "number"
    name: str
    median: float
    mean: float
    scale: float
    indicator: bool
    spelt: Spelling = ()

    @classmethod
    def fitted(cls, name: str, s: pandas.Series[Any], standardise: bool, who: str) -> Number:
        spelt = spelling(s.dropna())
        v = numbers(name, s, who, spelt)
        there = v[~np.isnan(v)]
        flags = set(np.unique(there)) <= {0.0, 1.0}
        mean, scale = (0.0, 1.0) if flags or not standardise else (float(there.mean()), float(there.std()) or 1.0)
        return cls(name, float(np.median(there)), mean, scale, len(there) < len(v), spelt)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} missing") if self.indicator else (self.name,)

    def values(self, s: pandas.Series[Any], who: str) -> Array:
        """float32 (N, 1 or 2)"""
        v = numbers(self.name, s, who, self.spelt)
        missing = np.isnan(v)
        found = (np.where(missing, self.median, v) - self.mean) / self.scale
        return np.stack([found, missing] if self.indicator else [found], 1).astype(np.float32)

    def __str__(self) -> str:
        missing = f", {self.median:g} where missing" if self.indicator else ""
        return f"({self.name} {'+' if self.mean < 0 else '-'} {abs(self.mean):g}) / {self.scale:g}{missing}"


@dataclass(frozen=True)
class Category:
    """The categories of a column, in text.

    categories   those with a code of their own, 1, 2, …; code 0 is for all others, seen rarely or never
    rare         whether rare ones were seen, which share a column behind those of the categories
    missing      whether values were missing, which then have the last code and the last column
    One-hot, a category that was not seen is a row of zeros, or a 1 among the rare where there are some.
    """

    kind: ClassVar[str] = "category"
    name: str
    categories: tuple[str, ...]
    rare: bool
    missing: bool

    @classmethod
    def fitted(cls, name: str, s: pandas.Series[Any], most: int) -> Category:
        v = words(s)
        counts = v.value_counts()
        kept = sorted(counts.index[:most], key=_natural)
        return cls(name, tuple(kept), len(counts) > most, bool(v.isna().any()))

    @property
    def codes(self) -> int:
        """How many there are: the num_embeddings of an Embedding."""
        return 1 + len(self.categories) + self.missing

    @property
    def names(self) -> tuple[str, ...]:
        more = (["other"] if self.rare else []) + (["missing"] if self.missing else [])
        return tuple(f"{self.name}={c}" for c in (*self.categories, *more))

    def coded(self, s: pandas.Series[Any]) -> Array:
        """int32 (N)"""
        v = words(s)
        found = v.map({c: k for k, c in enumerate(self.categories, 1)}).fillna(0).to_numpy(np.int32)
        return np.where(v.isna().to_numpy(), self.codes - 1 if self.missing else 0, found).astype(np.int32)

    def values(self, s: pandas.Series[Any], who: str) -> Array:
        """float32 (N, columns)"""
        whole = np.eye(self.codes, dtype=np.float32)[self.coded(s)]
        own = list(range(1, 1 + len(self.categories)))
        return np.ascontiguousarray(whole[:, [*own, *([0] if self.rare else []), *([self.codes - 1] * self.missing)]])

    def __str__(self) -> str:
        more = [*(["other"] if self.rare else []), *(["missing"] if self.missing else [])]
        shown = [*self.categories[:6], *(["…"] if len(self.categories) > 6 else []), *more]
        return f"{self.name}: {', '.join(shown)}"


@dataclass(frozen=True)
class Date:
    """A date in parts, each a Number: the year, month, day, weekday (Monday 0) and hour, as far as they vary.

    first   of dates in text that are not ISO 8601's, what they begin with: "day" or "month"
    """

    kind: ClassVar[str] = "date"
    name: str
    parts: tuple[Number, ...]
    first: str = ""

    @classmethod
    def fitted(cls, name: str, s: pandas.Series[Any], standardise: bool, who: str) -> Date:
        first = first_of(s.dropna())
        found_dates = dates(name, s, who, first)
        parts = {p: _part(found_dates, p) for p in PARTS}
        vary = {p: v for p, v in parts.items() if v.nunique() > 1}
        found = [Number.fitted(f"{name} {p}", v, standardise, who) for p, v in vary.items()]
        # that it is missing is said once
        return cls(name, tuple(Number(**{**asdict(n), "indicator": n.indicator and not k})
                               for k, n in enumerate(found)), first)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for p in self.parts for name in p.names)

    def values(self, s: pandas.Series[Any], who: str) -> Array:
        found = dates(self.name, s, who, self.first)
        return np.concatenate([p.values(_part(found, p.name.rpartition(" ")[2]), who) for p in self.parts], 1)

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(p.name.rpartition(' ')[2] for p in self.parts)}"


Column = Number | Category | Date


# --- values
def numbers(name: str, s: pandas.Series[Any], who: str, spelt: Spelling = ()) -> Array:
    """float64 (N), NaN where missing; `spelt`: how text is written. Raises DataError for other text and infinity."""
    import pandas

    if pandas.api.types.is_timedelta64_dtype(s):
        s = s.dt.total_seconds()
    s = s.astype(object).map(lambda v: plain(v, spelt)) if spelt else s
    found = pandas.to_numeric(s.astype(object), errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(found) & s.notna().to_numpy())
    if len(wrong):
        unit = f" in {spelt[1]}" if spelt and spelt[1] else ""
        raise DataError(f"{who}: expected numbers{unit} in column {name!r}; got {s.iloc[wrong[0]]!r} at row "
                        f"{wrong[0]}, as {len(wrong)} of {len(s)}; mend them, or read them as missing: "
                        "na_values=[...].")
    if (endless := np.flatnonzero(np.abs(found) > MOST)).size:
        raise DataError(f"{who}: expected finite numbers in column {name!r}; got {found[endless[0]]} at row "
                        f"{endless[0]}; mend it, or make it missing: frame.replace([inf, -inf], nan).")
    return found


def words(s: pandas.Series[Any]) -> pandas.Series[Any]:
    """The values in text, None where missing: 3 and 3.0 are one category, as a missing value makes integers floats."""
    def word(v: Any) -> str:
        whole = isinstance(v, (float, np.floating)) and float(v).is_integer()
        return str(int(v)) if whole else str(v)

    spelt = {v: word(v) for v in s.dropna().unique()}
    return s.astype(object).map(spelt).where(s.notna(), None)


def dates(name: str, s: pandas.Series[Any], who: str, first: str = "") -> pandas.Series[Any]:
    """As dates, NaT where missing; `first`: what those in text begin with. Raises DataError."""
    import pandas

    if pandas.api.types.is_datetime64_any_dtype(s):
        return s
    if isinstance(s.dtype, pandas.PeriodDtype):
        return s.dt.to_timestamp()
    text = s.dropna().map(type).eq(str).all()
    found = pandas.to_datetime(s.map(lambda v: iso(v, first)) if text else s, errors="coerce", utc=True,
                               format="ISO8601" if text else None)
    if (wrong := np.flatnonzero(found.isna().to_numpy() & s.notna().to_numpy())).size:
        raise DataError(f"{who}: expected dates in column {name!r}; got {s.iloc[wrong[0]]!r} at row {wrong[0]}.")
    return found


def _part(s: pandas.Series[Any], part: str) -> pandas.Series[Any]:
    found: pandas.Series[Any] = getattr(s.dt, PARTS[part])
    return found


def _natural(word: str) -> tuple[bool, float, str]:
    """Numbers by their size, and before text."""
    try:
        return False, float(word), ""
    except ValueError:
        return True, 0.0, word


# --- what a column is
def kind_of(s: pandas.Series[Any]) -> str:
    """number, category or date. Raises DataError for lists, dicts and arrays in the place of values."""
    import pandas

    types = pandas.api.types
    if types.is_datetime64_any_dtype(s) or isinstance(s.dtype, pandas.PeriodDtype):
        return "date"
    if types.is_timedelta64_dtype(s) or (types.is_numeric_dtype(s) and not types.is_complex_dtype(s)):
        return "number"
    there = s.dropna()
    if s.dtype == object and (nested := next((v for v in there if isinstance(v, NESTED)), None)) is not None:
        name = str(s.name)
        raise DataError(
            f"table: expected one value a row in column {name!r}; got a {type(nested).__name__}, {str(nested)[:40]}; "
            f"leave it out, drop=[{name!r}], or make columns of it: pandas.DataFrame(frame[{name!r}].tolist()).")
    if s.dtype == object and len(there) and not any(isinstance(v, str) for v in there):
        if pandas.to_numeric(there, errors="coerce").notna().all():
            return "number"
        if pandas.to_datetime(there, errors="coerce").notna().all():
            return "date"
    if s.dtype != "category" and spelling(there):
        return "number"
    if s.dtype != "category" and (all_match(there, ISO_DATE) or first_of(there) not in ("", UNSURE)):
        return "date"
    return "category"


def doubts(name: str, s: pandas.Series[Any], kind: str, most: int) -> Iterator[tuple[str, str]]:
    """(what is done: "left out" or "kept", why) of a column that tells a network little."""
    there = s.dropna()
    different = words(there).nunique() if kind == "category" else there.nunique()
    if different < 2:
        yield "left out", f"holds one value, {words(there).iloc[0]}" if len(there) else "holds nothing"
    elif kind == "category" and first_of(there) == UNSURE:
        yield "left out", (f"may be dates with the day or the month first, as {there.iloc[0]!r}; make them dates: "
                           f"frame[{name!r}] = pandas.to_datetime(frame[{name!r}], dayfirst=True)")
    elif kind == "number" and (how := spelling(there)):
        yield "kept", read_as(there, how)
    elif kind == "category" and (same := alike(list(words(there).unique()))):
        yield "kept", f"has categories that are the same but for blanks or capitals: {', '.join(map(repr, same[:6]))}"
    elif kind == "category" and len(odd := no_numbers(there)):
        yield "kept", (f"is text, though most of it is numbers; read {', '.join(map(repr, odd))} as missing: "
                       f"na_values={list(odd)!r}")
    elif kind == "category" and different > 0.9 * len(there) and different > 20:
        yield "left out", f"tells rows apart, as an ID does: {different} categories in {len(there)} rows"
    elif kind == "number" and _counts_rows(s, there, different):
        yield "left out", "counts the rows"
    elif kind == "category" and different > most:
        yield "kept", f"has {different} categories: {most} keep their own, the others share one"


def _counts_rows(s: pandas.Series[Any], there: pandas.Series[Any], different: int) -> bool:
    """Whole numbers, each one more than the one before, but for rows that were left out."""
    whole = len(there) == len(s) == different and len(s) > 20 and s.dtype.kind in "iu"
    if not whole:
        return False
    steps = np.diff(there.to_numpy(np.int64))
    return bool((steps > 0).all() and (steps == 1).mean() > 0.95)


def no_numbers(there: pandas.Series[Any]) -> Sequence[str]:
    """Of a column of text that is mostly numbers, what is none."""
    import pandas

    wrong = there[pandas.to_numeric(there.astype(object), errors="coerce").isna()].unique()
    return [str(v) for v in wrong] if 0 < len(wrong) <= 3 and there.nunique() > 20 else []
