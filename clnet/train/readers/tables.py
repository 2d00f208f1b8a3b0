"""A table: its preparation, fitted on the rows that are learnt from, and a data set that keeps its rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ...core import arguments
from ...errors import ConfigError, DataError
from ...names import ending, told
from ...show import plural
from ..preparing import Preparation
from ..samples import Dataset
from .columns import FEW, Array, Category, Column, Date, Number, doubts, kind_of, no_numbers, numbers
from .frames import frame_of, is_rows, listed, read_frame
from .spelt import alike, read_as, spelling
from .targets import TASKS, Amounts, Classes, Target, Task, task_of

if TYPE_CHECKING:
    import pandas

Encode = Literal["onehot", "codes"]
KINDS: dict[str, Any] = {"number": Number, "category": Category}


@dataclass(frozen=True)
class Wishes:
    """What was asked for; a split fits anew with the same."""

    target: tuple[str, ...] = ()
    task: Task | None = None
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    encode: Encode = "onehot"
    standardise: bool = True
    standardise_target: bool = True
    max_categories: int = FEW
    reading: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TablePreparation(Preparation):
    """Columns of a table → the inputs of a model, and its target, as fitted on the rows of the training.

    columns    how each becomes numbers, in the order of the table
    target     Classes or Amounts; None where there is none
    encode     "onehot": x is float32 (N, features); "codes": a tuple of those of numbers, and int32 (N) a category
    left_out   columns that are not used, and why
    """

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    target: Target | None
    encode: Encode = "onehot"
    left_out: dict[str, str] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def fitted(cls, frame: pandas.DataFrame, wishes: Wishes, who: str,
               whole: TablePreparation | None = None) -> TablePreparation:
        """whole   the preparation of all rows, of which these are a part: what was left out stays out,
        and the names of the classes are known
        """
        columns, left_out = [], whole.left_out if whole else dict.fromkeys(wishes.drop, "was to be left out")
        for name in (n for n in frame.columns if n not in wishes.target and n not in left_out):
            kind = "category" if name in wishes.categorical else kind_of(frame[name])
            if kind == "number":
                numbers(name, frame[name], who, spelling(frame[name].dropna()))  # says what is none
            why = [w for what, w in doubts(name, frame[name], kind, wishes.max_categories) if what == "left out"]
            if why and (name not in wishes.keep or not frame[name].notna().any()):
                left_out = {**left_out, name: why[0]}
            else:
                columns.append(_fitted(name, frame[name], kind, wishes, who))
        if not columns:
            raise DataError(f"{who}: expected a column that tells rows apart; got "
                            f"{'; '.join(f'{n!r}, which {w}' for n, w in left_out.items()) or 'the target alone'}; "
                            "keep=[name] takes one all the same.")
        target = whole.target if whole and isinstance(whole.target, Classes) else _target(frame, wishes, who)
        return cls(tuple(columns), target, wishes.encode, left_out, wishes.reading)

    # --- what a model needs to know
    @property
    def classes(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.target.classes if self.target else ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features of x, or of its first array."""
        return tuple(n for c in self._as_numbers() for n in c.names)

    @property
    def codes(self) -> dict[str, int]:
        """With encode="codes", how many codes each categorical column has: num_embeddings of its Embedding."""
        return {c.name: c.codes for c in self._as_codes()}

    @property
    def outputs(self) -> int:
        """How many numbers a model gives: one a class, or one a column of the target."""
        return self.target.outputs if self.target else 0

    def _as_codes(self) -> list[Category]:
        return [c for c in self.columns if isinstance(c, Category) and self.encode == "codes"]

    def _as_numbers(self) -> list[Column]:
        return [c for c in self.columns if not (isinstance(c, Category) and self.encode == "codes")]

    # --- new rows
    def takes(self, data: object) -> bool:
        return is_rows(data) or isinstance(data, (str, Path))

    def apply(self, data: Any, target: bool | None = None, who: str = "apply") -> Table:
        """New rows, prepared as those of the training; with targets where the frame has them, or as `target` says.

        data   a frame or a row of one, a dict of columns or of one row, a list of records, or a file as `read` takes it
        Raises DataError for columns that are missing, text in place of numbers, classes that were not there.
        """
        if isinstance(data, (str, Path)):
            data = read_frame(Path(data), **_reading(self.reading), who=who)
        return self.table(frame_of(data, who), target, who=who)

    def table(self, frame: pandas.DataFrame, target: bool | None = None, title: str = "data",
              wishes: Wishes | None = None, who: str = "") -> Table:
        who = who or title
        wanted = self.target is not None and (all(n in frame for n in self.target.names) if target is None else target)
        needed = [c.name for c in self.columns] + (list(self.target.names) if wanted and self.target else [])
        if missing := [n for n in needed if n not in frame]:
            raise DataError(f"{who}: expected the columns {listed(missing)}, as in training; got a frame of "
                            f"{listed(map(str, frame.columns))}{ending(missing[0], map(str, frame.columns))}")
        y = self.target.values(frame, who) if wanted and self.target else np.zeros(len(frame), np.int32)
        return Table(self.inputs(frame, who), y, self.classes, "", title, (self.names,), preparation=self, frame=frame,
                     wishes=wishes or Wishes(), labelled=wanted)

    def inputs(self, frame: pandas.DataFrame, who: str = "inputs") -> Any:
        """x of these rows."""
        found = [c.values(frame[c.name], who) for c in self._as_numbers()]
        whole = np.concatenate(found, 1) if found else None
        codes = [c.coded(frame[c.name]) for c in self._as_codes()]
        if not codes:
            return whole
        return (*([] if whole is None else [whole]), *codes)

    def in_units(self, output: Array) -> Array:
        """A model's output in the units of the target; scores of classes stay as they are."""
        return self.target.in_units(output) if isinstance(self.target, Amounts) else output

    # --- files
    def to_dict(self) -> dict[str, Any]:
        return {"columns": [{"kind": c.kind, **asdict(c)} for c in self.columns],
                "target": self.target and {"kind": self.target.kind, **asdict(self.target)},
                "encode": self.encode, "left_out": self.left_out, "reading": self.reading}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TablePreparation:
        target = fields["target"]
        return cls(tuple(map(_column_of, fields["columns"])), target and _target_of(target), fields["encode"],
                   fields["left_out"], fields["reading"])

    def __repr__(self) -> str:
        rows = [f"  {c}" for c in self.columns] + [f"  {n}: left out, {why}" for n, why in self.left_out.items()]
        return "\n".join([f"<TablePreparation of {plural(len(self.columns), 'column')}: x "
                          f"{f'{len(self.names)} features' if self.names else 'codes'}", *rows,
                          f"  target {self.target or 'none'}>"])


@dataclass(frozen=True, repr=False)
class Table(Dataset):
    """A Dataset of rows of a table, which keeps the rows and what prepared them.

    `split` fits the preparation anew on the rows that are trained with, and prepares the others by it: what is held
    out has no say in means, medians and categories. `fit(table, validation=0.2)` does the same.
    """

    frame: Any = None
    wishes: Wishes = field(default_factory=Wishes)

    def chosen(self, index: Any) -> Table:
        found = replace(self, **self._picked(index), frame=self.frame.iloc[_positions(index)].reset_index(drop=True))
        return found._as(self)

    def prepared_by(self, preparation: Preparation | None) -> Dataset:
        if preparation == self.preparation or not isinstance(preparation, TablePreparation):
            return self
        found = preparation.table(self.frame, self.labelled, self.title, self.wishes)
        return replace(found, sample_weight=self.sample_weight)

    def sides(self, train: Array, test: Array) -> tuple[Table, Table]:
        left, right = self.take(train), self.take(test)
        whole = self.preparation if isinstance(self.preparation, TablePreparation) else None
        fitted = TablePreparation.fitted(left.frame, self.wishes, self.title, whole)
        return left.prepared_by(fitted), right.prepared_by(fitted)  # type: ignore[return-value]


@told
def from_frame(frame: Any, target: str | int | Sequence[Any] | None = None, *, task: Task | None = None,
               categorical: Sequence[str] = (), drop: Sequence[str] = (), keep: Sequence[str] = (),
               encode: Encode = "onehot", standardise: bool = True, standardise_target: bool = True,
               max_categories: int = FEW, title: str = "data", reading: dict[str, Any] | None = None) -> Table:
    """A frame of pandas or Polars, a dict of columns or a list of records → a data set with its preparation.

    Numbers become (v - mean) / deviation, missing ones the median, which a second column points out; yes and no 1
    and 0; text and categories one-hot; dates year, month, day, weekday and hour, as far as they vary. Text is dates
    where all of it is 2024-12-31, 31.12.2024 or, as some value must tell, 31/12/2024 or 12/31/2024; it is numbers,
    with a warning, where all of it is as $1,234.50, 1.234,50 €, 12 % or 80.5 kg, of one unit. Columns of one value,
    that count the rows or tell every row apart are left out, with a warning.

    target               the column to predict, or several columns of numbers; rows without are left out, with a warning
    task                 "classes" or "regression"; None: text, categories, yes and no are classes, and whole numbers
                         of at most 20 different values, of five rows or more each on average; other numbers regression
    categorical          columns of numbers that are names: postcodes, codes
    drop, keep           columns to leave out; to take though the warning would leave them out
    encode               "onehot", or "codes": x is a tuple of the numbers and, of each category, int32 (N) for an
                         Embedding(num_embeddings=table.preparation.codes[name])
    standardise          whether columns of numbers are; `standardise_target`: whether the target of a regression is,
                         where loss and metrics are in deviations, R² is what it is, and `predict` gives units
    max_categories       of a column; of more the most frequent keep their own
    reading              how the file was read, which the preparation remembers for the next one
    `table.preparation` prepares new rows alike, `table.classes` are the names. Raises DataError, ConfigError.
    """
    who = "from_frame" if title == "data" else title
    for name, value, known in (("task", task, (None, *TASKS)), ("encode", encode, ("onehot", "codes"))):
        if value not in known:
            raise ConfigError(f"{who}({name}={value!r}): expected one of {', '.join(map(repr, known))}.")
    whole = frame_of(frame, who)
    wanted, names, left, kept = (_names(given, whole.columns) for given in (target, categorical, drop, keep))
    wishes = Wishes(wanted, task, names, left, kept, encode, bool(standardise), bool(standardise_target),
                    arguments.integer(who, "max_categories", max_categories, 1, DataError), reading or {})
    return prepared(whole, wishes, title, who, 4 if reading is None else 5)


def prepared(frame: pandas.DataFrame, wishes: Wishes, title: str, who: str, depth: int = 3) -> Table:
    """The table of all rows that have a target, prepared by themselves; what is doubtful is said in one warning."""
    named = {"target": wishes.target, "categorical": wishes.categorical, "drop": wishes.drop, "keep": wishes.keep}
    for argument, names in named.items():
        for name in names:
            if name not in frame:
                raise DataError(f"{who}({argument}={name!r}): expected a column of the frame, one of "
                                f"{listed(map(str, frame.columns))}{_headless(frame)}"
                                f"{ending(name, map(str, frame.columns))}")
    there = frame[list(wishes.target)].notna().all(axis=1).to_numpy() if wishes.target else np.ones(len(frame), bool)
    said = [] if there.all() else [f"{plural(int((~there).sum()), 'row')} without a target left out"]
    if not there.any():
        raise DataError(f"{who}: expected rows with a target in {listed(wishes.target)}; got none.")
    frame = frame[there].reset_index(drop=True)
    found = TablePreparation.fitted(frame, wishes, who)
    for name in (n for n in frame.columns if n not in (*wishes.target, *wishes.drop)):
        kind = "category" if name in wishes.categorical else kind_of(frame[name])
        for _, why in doubts(name, frame[name], kind, wishes.max_categories):
            said.append(f"{name!r} {why}{' (left out)' if name in found.left_out else ''}")
    if isinstance(found.target, Classes) and (same := alike(list(found.classes))):
        said.append(f"{wishes.target[0]!r} has classes that are the same but for blanks or capitals: {listed(same)}")
    if isinstance(found.target, Amounts):
        spelt = zip(wishes.target, found.target.spelt, strict=True)
        said += [f"{name!r} {read_as(frame[name], how)}" for name, how in spelt if how]
    if said:
        warnings.warn(f"{who}: {'; '.join(said)}.", UserWarning, stacklevel=depth)
    return found.table(frame, bool(wishes.target), title, wishes, who)


# --- pieces
def _fitted(name: str, s: pandas.Series[Any], kind: str, wishes: Wishes, who: str) -> Column:
    if kind == "category":
        return Category.fitted(name, s, wishes.max_categories)
    if kind == "date":
        return Date.fitted(name, s, wishes.standardise, who)
    return Number.fitted(name, s, wishes.standardise, who)


def _target(frame: pandas.DataFrame, wishes: Wishes, who: str) -> Target | None:
    if not wishes.target:
        return None
    first = frame[wishes.target[0]]
    task = wishes.task or ("regression" if len(wishes.target) > 1 else task_of(first))
    if wishes.task is None and task == "classes" and (odd := no_numbers(first.dropna())):
        raise DataError(f"{who}: expected numbers or classes in column {wishes.target[0]!r}; got {listed(odd)} among "
                        f"numbers; read it as missing: na_values={list(odd)!r}; or say task=\"classes\".")
    if task == "regression":
        return Amounts.fitted(wishes.target, frame, wishes.standardise_target, who)
    if len(wishes.target) > 1:
        raise DataError(f"{who}: expected one column of classes; got {listed(wishes.target)}.")
    return Classes.fitted(wishes.target[0], first, who)


def _names(value: Any, columns: Any) -> tuple[str, ...]:
    """Names of columns; a number, or a tuple as pandas has it of names over names, is one."""
    if value is None:
        return ()
    one = isinstance(value, (str, int, np.integer)) or (isinstance(value, tuple) and str(value) in columns)
    return (str(value),) if one else tuple(dict.fromkeys(map(str, value)))


def _headless(frame: pandas.DataFrame) -> str:
    """What to say of names that are all numbers, as of a file without a line of names."""
    def is_number(name: str) -> bool:
        return name.replace(".", "", 2).lstrip("-").isdigit()

    return (" (is there no line of names? from_frame(pandas.read_csv(path, header=None), target=0) numbers the columns)"
            if len(frame.columns) and all(map(is_number, map(str, frame.columns))) else "")


def _positions(index: Any) -> Any:
    return index if isinstance(index, slice) else np.asarray(index)


def _reading(given: dict[str, Any]) -> dict[str, Any]:
    return {"sep": None, "decimal": None, "na_values": (), "encoding": "utf-8", **given}


def _tuples(value: Any) -> Any:
    """The lists of JSON as the tuples that they were."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _column_of(fields: dict[str, Any]) -> Column:
    given = {k: _tuples(v) for k, v in fields.items() if k not in ("kind", "parts")}
    if fields["kind"] == "date":
        parts = tuple(Number(**{k: _tuples(v) for k, v in p.items()}) for p in fields["parts"])
        return Date(parts=parts, **given)
    found: Column = KINDS[fields["kind"]](**given)
    return found


def _target_of(fields: dict[str, Any]) -> Target:
    given: dict[str, Any] = {k: _tuples(v) for k, v in fields.items() if k != "kind"}
    return Classes(**given) if fields["kind"] == "classes" else Amounts(**given)
