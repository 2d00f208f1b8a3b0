"""What a table is to be predicted: classes by name, or numbers; and the rule that tells which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ...errors import DataError
from ...show import plural
from .columns import Array, _natural, kind_of, numbers, words
from .frames import listed
from .spelt import Spelling, spelling

if TYPE_CHECKING:
    import pandas

Task = Literal["classes", "regression"]
TASKS = ("classes", "regression")
MOST, EACH = 20, 5  # whole numbers are classes where there are at most MOST, of EACH rows or more on average


@dataclass(frozen=True)
class Classes:
    """Class numbers int32 (N), in the order of `classes`; names of classes are text."""

    kind: ClassVar[str] = "classes"
    name: str
    classes: tuple[str, ...]

    @classmethod
    def fitted(cls, name: str, s: pandas.Series[Any], who: str) -> Classes:
        found = words(s.dropna())
        there = list(found.unique())
        declared = [str(c) for c in s.cat.categories] if str(s.dtype) == "category" and s.cat.ordered else []
        classes = [c for c in declared if c in there] or sorted(there, key=_natural)
        if len(classes) < 2:
            raise DataError(f"{who}: expected at least two classes in column {name!r}; got {listed(classes)}.")
        if len(classes) > max(EACH, len(found) // 2):
            raise DataError(
                f"{who}: expected classes in column {name!r}; got {len(classes)} different values in {len(found)} "
                'rows; if they are numbers to predict, say task="regression"; name another column with target=.')
        return cls(name, tuple(classes))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def outputs(self) -> int:
        return len(self.classes)

    def values(self, frame: pandas.DataFrame, who: str) -> Array:
        found = words(frame[self.name])
        codes = found.map({c: k for k, c in enumerate(self.classes)})
        if (missing := np.flatnonzero(found.isna().to_numpy())).size:
            raise DataError(
                f"{who}: expected a class in column {self.name!r} of every row; got none at row {missing[0]}, as in "
                f"{plural(len(missing), 'row')}; leave them out: frame.dropna(subset=[{self.name!r}]).")
        if (wrong := np.flatnonzero(codes.isna().to_numpy())).size:
            raise DataError(
                f"{who}: expected classes {listed(self.classes)} in column {self.name!r}, as in training; "
                f"got {found.iloc[wrong[0]]!r} at row {wrong[0]}, and {len(wrong)} such rows in all.")
        return codes.to_numpy(np.int32)

    def __str__(self) -> str:
        return f"{self.name}: {len(self.classes)} classes, {listed(self.classes)}"


@dataclass(frozen=True)
class Amounts:
    """(v - mean) / scale of numbers, float32 (N, columns); mean 0 and scale 1 where they stay in their units.
    `spelt`: how those are written that are text, as of Number.
    """

    kind: ClassVar[str] = "regression"
    names: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    spelt: tuple[Spelling, ...] = ()
    classes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def fitted(cls, names: tuple[str, ...], frame: pandas.DataFrame, standardise: bool, who: str) -> Amounts:
        if date := next((n for n in names if kind_of(frame[n]) == "date"), None):
            raise DataError(f"{who}: expected numbers or classes in column {date!r}; got dates; make numbers of them: "
                            f"(frame[{date!r}] - day).dt.days.")
        spelt = tuple(spelling(frame[n].dropna()) for n in names)
        found = [numbers(n, frame[n], who, how) for n, how in zip(names, spelt, strict=True)]
        if not standardise:
            return cls(names, (0.0,) * len(names), (1.0,) * len(names), spelt)
        return cls(names, tuple(float(np.nanmean(v)) for v in found),
                   tuple(float(np.nanstd(v)) or 1.0 for v in found), spelt)

    @property
    def outputs(self) -> int:
        return len(self.names)

    def values(self, frame: pandas.DataFrame, who: str) -> Array:
        spelt = self.spelt or ((),) * len(self.names)
        found = np.stack([numbers(n, frame[n], who, how) for n, how in zip(self.names, spelt, strict=True)], 1)
        return ((found - self.mean) / self.scale).astype(np.float32)

    def in_units(self, output: Array) -> Array:
        if output.shape[1:] != (len(self.names),):
            return output
        found: Array = (output * np.array(self.scale) + np.array(self.mean)).astype(output.dtype)
        return found

    def __str__(self) -> str:
        scaled = any(s != 1.0 or m for s, m in zip(self.scale, self.mean, strict=True))
        units = f", in training (v - {self.mean[0]:g}) / {self.scale[0]:g}" if scaled and len(self.names) == 1 else ""
        return f"{', '.join(self.names)}: regression{units}{', standardised' if scaled and not units else ''}"


Target = Classes | Amounts


def task_of(s: pandas.Series[Any]) -> Task:
    """Text, categories, yes and no are classes; so are whole numbers of at most 20 different values, five rows or more
    of each on average. All other numbers are regression.
    """
    there = s.dropna()
    if str(s.dtype) in ("bool", "boolean") or kind_of(s) == "category":
        return "classes"
    if kind_of(s) != "number" or not len(there):
        return "regression"
    values = np.unique(numbers(str(s.name), there, "table", spelling(there)))
    whole = bool((np.asarray(values, np.float64) % 1 == 0).all())
    return "classes" if whole and len(values) <= MOST and len(there) >= EACH * len(values) else "regression"
