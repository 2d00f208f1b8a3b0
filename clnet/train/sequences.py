"""Samples of several lengths: sentences, time series, requests. They lie one after another,
and are padded batch by batch.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np

from ..core import arguments
from ..core.arrays import as_array
from ..core.spec import Spec, dtype_name
from ..errors import ConfigError, DataError
from .samples import Batch, Index, Samples, Trial, parts, single

Array = np.ndarray[Any, Any]
MOST = 1 << 24  # targets of steps, with what fills them up, that are tried as they stand in batches
SHAPES = 4  # lengths to which sequences are padded, where nobody says to which
BESIDE = ("lengths", "mask", None)


class Sequences(Samples):
    """x[k] (Tₖ, …), one array a sequence, and targets y (N, …), one a sequence, or y[k] (Tₖ, …), one a step.

    In a batch all are as long as its longest: x (N, T, …), filled up with `padding`, then `beside`, then targets.

    x            a list of arrays or lists of numbers (a tuple of such lists for a model of several inputs,
                 which then agree in their lengths)
    y            an array: a target a sequence; a list of arrays: a target a step; None for `predict`
    beside       what the model is given behind x: "lengths", int32 (N), or "mask", bool (N, T), True for steps that
                 are there; None: nothing
    padding      the number that fills x up
    ignore       the label of steps that do not count, which fills y up; targets that are no integers are filled up with
                 NaN. Losses and metrics leave out what was filled up; a function (output, target) sees it
    multiple_of  lengths are padded to multiples of it, and each such length is a shape that steps are planned for once;
                 None: a quarter of the longest
    A sequence may be empty. Integers of y become int32, float64 becomes float32, as in Dataset.
    Raises DataError for anything but numbers, targets that do not fit, and where no sequence has a step.
    """

    beside: str | None

    def __init__(self, x: Any, y: Any = None, *, beside: Literal["lengths", "mask"] | None = "lengths",
                 padding: float = 0, ignore: int = -100, multiple_of: int | None = None,
                 title: str = "data") -> None:
        if beside not in BESIDE:
            raise ConfigError(f"Sequences(beside={beside!r}): expected 'lengths', 'mask' or None.")
        self.title, self.beside = title, beside
        self.several = isinstance(x, tuple)
        lists = [_listed(a, f"x[{k}]" if self.several else "x", title) for k, a in enumerate(parts(x))]
        self.lengths = _lengths(lists, title)
        self.multiple_of = (-(-int(self.lengths.max()) // SHAPES) if multiple_of is None
                            else arguments.integer("Sequences", "multiple_of", multiple_of, 1, DataError))
        self.values = [_joined(a, title) for a in lists]
        self.padding = [_filling(a, padding) for a in self.values]
        self.labelled = y is not None
        self._take_targets(y, arguments.integer("Sequences", "ignore", ignore))
        self.given = (*(a.dtype.name for a in self.values), self.y_values.dtype.name)

    def _take_targets(self, y: Any, ignore: int) -> None:
        """One a sequence, or one a step, which then lie one after another as the steps do."""
        count = len(self.lengths)
        stepwise = _ragged(y) if y is not None else None
        self.stepwise = stepwise is not None
        if stepwise is None:
            self.y_values = np.zeros(count, np.int32) if y is None else single(as_array(y, self.title))
            if not self.y_values.ndim or len(self.y_values) != count:
                raise DataError(
                    f"{self.title}: expected one target a sequence, {count}; got shape {self.y_values.shape}.")
            return
        self.ignore = ignore
        targets = [_sequence(a, f"{self.title}.y[{k}]") for k, a in enumerate(stepwise)]
        if len(targets) != count:
            raise DataError(f"{self.title}: expected targets of {count} sequences; got {len(targets)}.")
        for k, (a, n) in enumerate(zip(targets, self.lengths, strict=True)):
            if not a.ndim or len(a) != n:
                raise DataError(
                    f"{self.title}: expected {n} targets for the {n} steps of sequence {k}; got shape {a.shape}; "
                    "one target a sequence is an array y (N, ...).")
        values = _joined(targets, f"{self.title}.y")
        if values.dtype.kind in "biu" and values.dtype != np.int64:  # in a type that has the negative `ignore` too
            values = single(values.astype(np.int64))
        self.y_values = values
        if not self.total:
            raise DataError(f"{self.title}: expected targets that count; got none but {ignore}, which is ignored.")

    # --- what it holds
    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> Array:
        """Where each sequence begins among all steps, and where the last one ends: int64 (N + 1)."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def x(self) -> Any:
        """The sequences, as views; a tuple of lists where there are several inputs."""
        found = [np.split(a, self.offsets[1:-1]) for a in self.values]
        return tuple(found) if self.several else found[0]

    @property
    def y(self) -> Any:
        """The targets: an array, or a list of arrays where there is one a step."""
        return np.split(self.y_values, self.offsets[1:-1]) if self.stepwise else self.y_values

    def __repr__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{['T', *a.shape[1:]]}".replace("'", "") for a in self.values)
        least, most = int(self.lengths.min()), int(self.lengths.max())
        of = "step" if self.stepwise else "sequence"
        return (f"<{type(self).__name__} {self.title}: {len(self)} of {least} to {most} steps, x {shapes}, "
                f"y {self.y_values.dtype}{list(self.y_values.shape[1:])} a {of}>")

    # --- pieces
    def one(self, index: int) -> Any:
        begin, end = self.offsets[index % len(self)], self.offsets[index % len(self) + 1]
        x = [a[begin:end] for a in self.values]
        return (tuple(x) if self.several else x[0],
                self.y_values[begin:end] if self.stepwise else self.y_values[index])

    def chosen(self, index: Any) -> Self:
        numbers = np.arange(len(self))[index]
        if not len(numbers):
            raise DataError(f"{self.title}: expected at least one sequence; got none.")
        found: Self = object.__new__(type(self))
        vars(found).update(vars(self))
        steps = self._steps(numbers)
        found.lengths, found.values = self.lengths[numbers], [a[steps] for a in self.values]
        found.y_values = self.y_values[steps if self.stepwise else numbers]
        return found

    def _steps(self, numbers: Array) -> Array:
        """Where the steps of these sequences lie, sequence after sequence."""
        lengths = self.lengths[numbers]
        first = np.repeat(self.offsets[:-1][numbers] - np.cumsum(lengths) + lengths, lengths)
        return first + np.arange(len(first))

    # --- batches
    def padded(self, lengths: Array) -> Array:
        """The lengths that sequences of these have in a batch, if they are its longest."""
        return np.maximum(-(-lengths // self.multiple_of), 1) * self.multiple_of

    def lengths_of(self, order: Array) -> Array:
        return self.padded(self.lengths[order])

    def rows(self, index: Index) -> Batch:
        numbers = np.atleast_1d(np.arange(len(self))[index])
        lengths, steps = self.lengths[numbers], self._steps(numbers)
        there = np.arange(int(self.padded(lengths.max(initial=0)))) < lengths[:, None]
        x = [_filled(a[steps], there, fill) for a, fill in zip(self.values, self.padding, strict=True)]
        if self.beside:
            x.append({"lengths": lengths.astype(np.int32), "mask": there}[self.beside])
        if self.ignore is None:
            return tuple(x), self.y_values[numbers]
        return tuple(x), _filled(self.y_values[steps], there, self._filler)

    @property
    def _filler(self) -> Any:
        assert self.ignore is not None
        return np.nan if self.y_values.dtype.kind == "f" else self.ignore

    def known(self, y: Array) -> Array:
        if self.ignore is None:
            return super().known(y)
        there: Array = ~np.isnan(y) if y.dtype.kind == "f" else y != self.ignore
        return np.asarray(there.all(axis=tuple(range(2, y.ndim))))

    @property
    def total(self) -> int:
        return len(self) if self.ignore is None else self.weight(self.y_values[:, None])

    # --- what is looked at before anything runs
    def trials(self) -> list[Trial]:
        """With the longest sequences, all targets in rows of their length; and with the shortest, if those differ."""
        longest, shortest = (int(self.padded(f(self.lengths))) for f in (np.max, np.min))
        y = self.y_values
        if self.ignore is not None:
            if len(self) * longest <= MOST:  # an index into them is (sequence, step)
                there = np.arange(longest) < self.lengths[:, None]
            else:
                there = np.arange(-(-len(y) // longest) * longest).reshape(-1, longest) < len(y)
            y = _filled(y, there, self._filler)
        found = [(self.specs(len(y), longest), y)]
        if shortest != longest:
            found.append((self.specs(len(self), shortest), self._of_shortest(shortest)))
        return found

    def _of_shortest(self, steps: int) -> Array:
        """Targets as a batch of the shortest sequences has them, all ignored where they are one a step."""
        if self.ignore is None:
            return self.y_values
        return np.full((len(self), steps, *self.y_values.shape[1:]), self._filler, self.y_values.dtype)

    def specs(self, count: int, steps: int, rows: int = 0) -> list[Spec]:
        """Of the inputs of a batch of so many sequences, padded to so many steps."""
        x = [Spec((count, steps, *a.shape[1:]), dtype_name(a.dtype)) for a in self.values]
        beside = {"lengths": Spec((count,), "int32"), "mask": Spec((count, steps), "bool")}
        return [*x, beside[self.beside]] if self.beside else x

    def shape_of(self, part: Array) -> tuple[int, ...]:
        """What `specs` and `batch_specs` take, of the batch of these sequences."""
        return len(part), int(self.lengths_of(part).max())

    def filled_up(self, shape: tuple[int, ...], room: Callable[[int], int]) -> tuple[int, ...]:
        """That of a batch which takes as many sequences as there is room for: so a short one needs no plan of its own.
        """
        return room(shape[1]), shape[1]

    def parted(self, output: Array, part: Array, axis: int | None) -> Any:
        """What belongs to each of these sequences, of the output of their batch, whose steps lie along `axis`."""
        return output[: len(part)]

    def batch_specs(self, count: int, steps: int, rows: int = 0) -> list[Spec]:
        """The specs of a batch: inputs, and targets."""
        shape = (count, *self.y_values.shape[1:]) if self.ignore is None else (count, steps, *self.y_values.shape[1:])
        return [*self.specs(count, steps), Spec(shape, dtype_name(self.y_values.dtype))]

    def inputs(self, samples: Array | None = None) -> list[Array]:
        return self.values if samples is None else [a[self._steps(samples)] for a in self.values]

    def targets(self) -> Array:
        return self.y_values

    def place(self, row: int, targets: bool = False, samples: Array | None = None) -> str:
        numbers = np.arange(len(self)) if samples is None else samples
        if targets and not self.stepwise:
            return f"sequence {numbers[row]}"
        ends = np.cumsum(self.lengths[numbers])
        k = int(np.searchsorted(ends, row, "right"))
        return f"sequence {numbers[k]}, step {row - (ends[k] - self.lengths[numbers[k]])}"


# --- what people bring
def _ragged(y: Any) -> list[Any] | None:
    """Targets of steps, one array a sequence; None where there is one a sequence."""
    whole = list(y) if isinstance(y, (list, tuple)) or str(getattr(y, "dtype", "")) == "object" else []
    return whole if any(isinstance(a, (list, tuple)) or getattr(a, "ndim", 0) for a in whole) else None


def _listed(x: Any, name: str, title: str) -> list[Array]:
    """The sequences of an input as arrays."""
    try:
        whole = None if isinstance(x, (str, bytes, dict)) or getattr(x, "ndim", 1) == 0 else list(x)
    except TypeError:
        whole = None
    if whole is None:
        raise DataError(f"{title}: expected a list of sequences as {name}; got {reprlib.repr(x)}.")
    if not whole:
        raise DataError(f"{title}: expected at least one sequence; got none.")
    return [_sequence(a, f"{title}.{name}[{k}]") for k, a in enumerate(whole)]


def _sequence(a: Any, who: str) -> Array:
    if isinstance(a, (str, bytes)) or (isinstance(a, (list, tuple)) and a and isinstance(a[0], (str, bytes))):
        words = "s.split()" if isinstance(a, (str, bytes)) else "s"
        raise DataError(
            f"{who}: expected numbers; got text, {reprlib.repr(a)}; give every word a number: number = "
            f"{{w: k + 1 for k, w in enumerate(sorted({{w for s in all for w in {words}}}))}}.")
    found = as_array(a, who)
    if not found.ndim:
        raise DataError(
            f"{who}: expected a sequence (T, ...); got the number {found}; one sequence is a list of one: [x].")
    return found


def _lengths(lists: list[list[Array]], title: str) -> Array:
    lengths = [np.array([len(a) for a in found], np.int64) for found in lists]
    for k, other in enumerate(lengths[1:], 1):
        if len(other) != len(lengths[0]):
            raise DataError(f"{title}: expected {len(lengths[0])} sequences in x[{k}], as in x[0]; got {len(other)}.")
        if (wrong := np.flatnonzero(other != lengths[0])).size:
            n = wrong[0]
            raise DataError(f"{title}: expected {lengths[0][n]} steps of sequence {n} in x[{k}], as in x[0]; "
                            f"got {other[n]}; inputs of several lengths are for models called by hand.")
    if not lengths[0].any():
        raise DataError(f"{title}: expected a step in at least one sequence; got {len(lengths[0])} empty ones.")
    return lengths[0]


def _joined(sequences: list[Array], title: str) -> Array:
    """One after another. Empty ones have no say in dtype and features: [] is of floats to NumPy."""
    whole = [a for a in sequences if len(a)]
    features = whole[0].shape[1:]
    for k, a in enumerate(sequences):
        if len(a) and a.shape[1:] != features:
            raise DataError(
                f"{title}: expected sequences with steps of one shape, {features} as the first; sequence {k} has "
                f"{a.shape[1:]}; only the first axis may differ.")
    dtype = np.result_type(*{a.dtype for a in whole})
    return single(np.concatenate([a.astype(dtype, copy=False) for a in whole]))


def _filling(values: Array, padding: float) -> Any:
    """The padding as one of the values."""
    kind, number = values.dtype.kind, isinstance(padding, (bool, int, float, np.number))
    limits = (0, 1) if kind == "b" else (-np.inf, np.inf) if kind == "f" else np.iinfo(values.dtype)
    least, most = limits if isinstance(limits, tuple) else (limits.min, limits.max)
    if not number or (kind != "f" and not (least <= padding <= most and padding == int(padding))):
        raise DataError(f"Sequences(padding={padding!r}): expected a number that {values.dtype} holds.")
    return values.dtype.type(padding)


def _filled(values: Array, there: Array, fill: Any) -> Array:
    """(N, T, …): the values where they are there, in their order, the filling elsewhere."""
    out = np.full((*there.shape, *values.shape[1:]), fill, values.dtype)
    out[there] = values
    return out
