"""What a metric is: the statistic that a step leaves of its batch on the device, and the number that is made of the
statistics of all batches. So a number of an epoch is that of all its samples, whatever the batches were.

    PerStep   scalars, each a mean over the batch (or sums): kept a row a step, added up in float64 on the host
    Summed    an array of counts: added up on the device between two reads, in int64 on the host
    Kept      values of each sample: kept on the device between two reads, all of them on the host, where they are
              sorted once at the end. So ROC AUC and average precision are exact
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import ops as F
from ..core.spec import Spec
from ..core.tensor import Tensor, as_tensor
from ..losses.ignored import beside
from ..losses.reading import CLASSES, YES_NO, decided
from ..names import ending

Array = np.ndarray[Any, Any]
GIVEN = "classes"  # what a prediction is where somebody decided already: numbers of classes, or yes and no of labels


@dataclass(frozen=True)
class Kind:
    """What predictions and targets are: what the loss reads (a word of clnet.losses.reading, or GIVEN) and the specs.

    several   outputs of the model, where it has more than one
    """

    reads: str
    output: Spec
    target: Spec
    several: bool = False
    count: int = 0  # of classes, where the output does not say it (GIVEN)

    @property
    def labels(self) -> bool:
        """Whether there are several questions of yes and no a sample: (N, L)."""
        asked = self.reads in YES_NO or (self.reads == GIVEN and not self.count)
        return asked and len(self.output.shape) > 1 and self.output.shape[1] > 1

    @property
    def classes(self) -> int:
        """How many classes, or labels of yes and no, there are; yes and no are two."""
        if self.count:
            return self.count
        if self.reads in CLASSES and self.output.shape[1:2]:
            return int(self.output.shape[1])
        return int(self.output.shape[1]) if self.labels else 2

    @property
    def decides(self) -> bool:
        """Whether predictions and targets are classes, or yes and no, that are comparable."""
        if self.reads in CLASSES:
            sparse = (self.output.shape[0], *self.output.shape[2:])
            return self.target.shape in (self.output.shape, sparse)
        return (self.reads in YES_NO or self.reads == GIVEN) and self.output.shape == self.target.shape


class Seen(NamedTuple):
    """A batch as statistics read it.

    counts   which targets count: bool (N, T), or weights (N,); None: all
    """

    output: Any
    target: Any
    loss: Callable[..., Any]
    kind: Kind
    counts: Tensor | None = None

    def decided(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """(decided, labels, weight): int32 vectors of classes at all places; of several labels, yes and no (M, L)."""
        output, target, given = as_tensor(self.output), as_tensor(self.target), self.kind.reads == GIVEN
        if self.kind.reads in CLASSES or (given and not self.kind.labels):
            classes = output if given else decided(self.loss, output)
            labels, counted = labels_of(classes, target, self.loss, self.counts)
            weight = None if counted is None else counted.reshape(-1)
            return classes.astype("int32").reshape(-1), labels.astype("int32").reshape(-1), weight
        yes, truth = output > 0.5 if given else decided(self.loss, output), target > 0.5
        return self.flat(yes.astype("int32")), self.flat(truth.astype("int32")), self.weight(truth)

    def flat(self, t: Tensor) -> Tensor:
        """Values of yes and no at all places as a vector; of several labels (M, L)."""
        if not self.kind.labels:
            return t.reshape(-1)
        return F.moveaxis(t, 1, -1).reshape(-1, self.kind.classes) if t.ndim > 2 else t

    def weight(self, t: Tensor) -> Tensor | None:
        """What counts of these values, like `flat` of them: bool, or weights; None: all."""
        return None if self.counts is None else self.flat(F.expand(beside(self.counts, t), t.shape))


def labels_of(classes: Tensor, target: Tensor, loss: Callable[..., Any],
              counts: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """(labels, which of them count: bool or weights; None: all), both of the shape of the classes."""
    if target.ndim > classes.ndim:
        return F.argmax(target, 1).astype("int32"), None
    labels, ignored = target.astype("int32"), getattr(loss, "ignore_index", None)
    counted = None if ignored is None else F.not_equal(labels, ignored)
    if counts is not None:
        mine = F.expand(beside(counts, labels), labels.shape)
        counted = mine if counted is None else F.bit_and(counted, mine)
    return labels, counted


class Statistic(ABC):
    """What a step leaves. Statistics are values: metrics that read the same one share it."""

    @abstractmethod
    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        """Records it: scalars, an array of counts, or values (M, width)."""


class PerStep(Statistic):
    """Scalars of each step: metrics read (samples (S,), columns (S, width))."""


class Summed(Statistic):
    """One array of counts, int64: metrics read the sum over all steps."""


class Kept(Statistic):
    """One float32 array (M, width) of each step: metrics read those of all steps, rows with NaN left out."""

    @abstractmethod
    def width(self, kind: Kind) -> int:
        """How many numbers a place of the target has."""


def average(samples: Array, columns: Array) -> float:
    """Σ n v / Σ n of the first column, n the samples of each step: every sample counts once."""
    return math.fsum(samples * columns[:, 0]) / math.fsum(samples)


def summed(values: Tensor, counted: Tensor | None) -> tuple[Tensor, Tensor]:
    """(Σ values, how many count), or (Σ w values, Σ w): two columns of a PerStep, whose quotient is the mean."""
    if counted is None:
        return F.sum(values), as_tensor(float(values.size))
    if counted.dtype == "bool":
        values = F.where(counted, values, 0.0)
        return F.sum(values), F.sum(counted.astype("float32"))
    return F.sum(values * counted), F.sum(counted)


def quotient(columns: Array) -> float:
    """Σ of the first column / Σ of the second; NaN where nothing counts."""
    counted = math.fsum(columns[:, 1])
    return math.fsum(columns[:, 0]) / counted if counted else math.nan


METRICS: dict[str, Metric] = {}  # of the modules that were imported; clnet.metrics.METRICS imports all
FUNCTIONS: dict[Callable[..., Any], type[Metric]] = {}  # of arrays, and what they are as metrics


@dataclass(frozen=True)
class Metric(ABC):
    """Base of metrics. A subclass with a `key` is one: it is known by that name, with its usual fields, as
    Trainer(metrics=[key]) and as clnet.metrics.key(y_true, y_pred).

    key      its name; `aliases` others for it
    wants    what predictions and targets have to be, in words
    high     whether more is better
    steps    whether it leaves out what does not count, where targets are one per step of a sequence
    reads    how the function on arrays takes y_pred: "classes", "numbers", "scores" (an order is enough) or
             "probabilities"
    """

    key: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    wants: ClassVar[str] = ""
    high: ClassVar[bool] = False
    steps: ClassVar[bool] = True
    reads: ClassVar[str] = "classes"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "key" in vars(cls):  # fields of its own, which dataclass adds behind this, are class attributes until then
            ours = cls.__module__.startswith(f"{__package__}.") and cls.key in METRICS
            if not ours:  # somebody's own metric of that name stays, though ours is imported after it
                METRICS[cls.key] = cls()

    @property
    def name(self) -> str:
        """Its column of the history."""
        return self.key

    def fits(self, kind: Kind) -> bool:
        """Whether it can be had of such predictions and targets."""
        return True

    @abstractmethod
    def statistic(self, kind: Kind) -> Statistic:
        """What it is computed from."""

    @abstractmethod
    def result(self, found: Any, kind: Kind) -> Any:
        """The number, or an array with one a class, of what the statistic gathered."""

    def spelt(self) -> dict[str, Metric]:
        """Metrics by further names: its aliases, and names with an argument in them."""
        return dict.fromkeys(self.aliases, self)

    def columns(self, kind: Kind) -> tuple[str, ...]:
        """Its columns of the history: one, or one a class; none where it is no number."""
        return (self.name,)


class OfFunction(Metric):
    """The mean of a function (output, target) -> scalar tensor, weighted by the samples of each batch."""

    def __init__(self, fn: Callable[[Any, Any], Any]) -> None:
        object.__setattr__(self, "fn", fn)

    fn: Callable[[Any, Any], Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfFunction) and other.fn is self.fn

    def __hash__(self) -> int:
        return hash(self.fn)

    @property
    def name(self) -> str:
        return str(getattr(self.fn, "__name__", type(self.fn).__name__))

    def statistic(self, kind: Kind) -> Statistic:
        return FunctionValue(self.fn)

    def result(self, found: tuple[Array, Array], kind: Kind) -> float:
        return average(*found)


@dataclass(frozen=True)
class FunctionValue(PerStep):
    """The scalar of a function."""

    fn: Callable[[Any, Any], Any]

    def of(self, seen: Seen) -> tuple[Tensor, ...]:
        return (self.fn(seen.output, seen.target),)


def metric(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Registers a function (output, target) -> scalar tensor, the mean of a batch, as a metric under its name."""
    made = OfFunction(fn)
    METRICS[made.name] = made
    return fn


def known(name: str, among: Mapping[str, Metric]) -> Metric | None:
    """The metric of a name, an alias, or a name with an argument (f1_macro, top_3); None where there is none."""
    return among.get(name) or next((m.spelt()[name] for m in among.values() if name in m.spelt()), None)


def suggestion(name: str, among: Mapping[str, Metric]) -> str:
    """How a sentence about an unknown metric ends."""
    return ending(name, [*among, *(n for m in among.values() for n in m.spelt())])


def higher_is_better(column: str, among: Mapping[str, Metric]) -> bool:
    """Whether more is better of a column of the history, val_ or not, of one class or of all."""
    name = column.removeprefix("val_")
    found = known(name, among) or known(name.rstrip("0123456789").rstrip("_"), among)
    return found.high if found else "acc" in name
