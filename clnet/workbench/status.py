"""What really works, found by running it: a row for everything registered, and for everything that is to come."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import DTypeError
from ..spec import is_float, np_dtype
from ..tensor import tensor
from . import catalog, checks, golden, probe, properties, registry
from .marks import NO, NONE, PARTIAL, YES
from .registry import Example, Subject
from .status_steps import STEPS, Steps, changed
from .tables import device_words

ASPECTS = ("forward", "backward", "update", "resident", "parity", "deterministic", "fp16")
TO_COME = "not there yet"  # the note of a row that nothing answers
TRIED = 2  # examples of each subject that are run


@dataclass(frozen=True)
class Row:
    """What is known of one name on one device. The aspects are yes, partial, no or n/a; `note` says why not yes."""

    kind: str
    name: str
    spec_name: str
    family: str
    device: str
    forward: str = NO
    backward: str = NO
    update: str = NO
    resident: str = NO
    parity: str = NO
    deterministic: str = NO
    fp16: str = NO
    kernels: int | None = None
    time_ms: float | None = None
    note: str = ""
    driver: str = ""
    date: str = ""
    device_name: str = ""


@dataclass
class Verdicts:
    """Collects the aspects of one subject; an exception is a "no" that says what happened."""

    values: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def ask(self, aspect: str, check: Callable[[], checks.Result | str]) -> None:
        """Runs a check: a Result becomes yes or no with its note, a string is the verdict itself."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = check()
        except Exception as error:  # whatever a layer raises is a finding, and must not hide the other rows
            self.values[aspect] = NO
            self.notes.append(f"{aspect}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
            return
        if isinstance(found, str):
            self.values[aspect] = found
            return
        self.values[aspect] = YES if found else NO
        if not found:
            self.notes.append(f"{aspect}: {found.note[:200] or str(found)}")

    def lower(self, aspect: str, to: str, why: str) -> None:
        self.values[aspect] = to
        self.notes.append(f"{aspect}: {why}")


def measure(subject: Subject, engine: Any) -> Row:
    """The row of a subject on the engine's device, with its time."""
    return timed(check(subject, engine), subject, engine)


def check(subject: Subject, engine: Any, quick: bool = False, skip: Sequence[str] = ()) -> Row:
    """As `measure`, but for the time.

    quick   of its first example alone, values and gradients from one recorded step, properties only where no values are kept
    skip    aspects that are not asked, n/a in the row: "fp16"
    """
    v, row, steps = Verdicts(), _blank(subject, engine.device), Steps(subject, engine, quick)
    v.values |= dict.fromkeys(skip, NONE)
    if quick:
        subject = replace(subject, examples=lambda: steps.subject.examples()[:1])
    if subject.kind == "optimizer":
        _updates(v, subject, engine)
    else:
        examples = _examples(v, subject)
        if not examples:
            return replace(row, note="; ".join(v.notes) or "no example: nothing was run")
        _values(v, subject, examples, engine, steps if quick else None)
    numbers = _step(v, subject, steps)
    _parity(v, subject, engine, quick)
    found: dict[str, Any] = {**dict.fromkeys(ASPECTS, NO), **v.values, **numbers}
    return replace(row, **found, note="; ".join(dict.fromkeys(v.notes)))


def timed(row: Row, subject: Subject, engine: Any) -> Row:
    """The row with the time of a step; nothing else should run meanwhile."""
    if row.kernels is None and row.resident != YES:
        return row  # no step ran: the note says why
    try:
        return replace(row, time_ms=round(probe.step_of(subject).milliseconds(engine), 4))
    except Exception as error:  # as in Verdicts.ask
        return replace(row, note="; ".join(filter(None, [row.note, f"time: {type(error).__name__}: {' '.join(str(error).split())[:200]}"])))


def _blank(subject: Subject, device: Any) -> Row:
    return Row(subject.kind, subject.name, subject.spec_name, subject.family, device.key, driver=device.driver,
               date=datetime.date.today().isoformat(), device_name=device_words(device))


def _examples(v: Verdicts, subject: Subject) -> list[Example]:
    found: list[Example] = []

    def make() -> str:
        found.extend(subject.examples()[:TRIED])
        return YES

    v.ask("forward", make)
    return found


# --- ops, layers, losses: values and gradients
def _values(v: Verdicts, subject: Subject, examples: list[Example], engine: Any, steps: Steps | None) -> None:
    """Values and gradients of each example by themselves; with `steps` those of the recorded step, which compiles half as many programs."""
    if steps:
        v.ask("forward", lambda: steps.forward(examples[0]))
    else:
        v.ask("forward", lambda: checks.worst("forward", (checks.compare(e.function, e.inputs, engine) for e in examples)))
    v.ask("backward", lambda: _backward(subject, examples, engine, steps))
    if "fp16" not in v.values:
        v.ask("fp16", lambda: _half(examples[0], engine))


def _backward(subject: Subject, examples: list[Example], engine: Any, steps: Steps | None) -> checks.Result | str:
    if not _has_gradient(subject, examples[0]):
        return NONE
    if steps:
        return steps.backward(examples[0])
    return checks.worst("backward", (checks.check_gradient(e.function, e.inputs, engine, order=1) for e in examples))


def _has_gradient(subject: Subject, example: Example) -> bool:
    if not getattr(subject.thing, "has_gradient", True):
        return False
    return any(is_float(x.dtype.name) for x in example.inputs) and any(is_float(t.dtype) for t in _traced(example))


def _traced(example: Example) -> list[Any]:
    return probe.outputs_of(example.function(*(tensor(x) for x in example.inputs)))


def _half(example: Example, engine: Any) -> checks.Result | str:
    """The example with every float input in float16, within float16's tolerance of the float64 reference."""
    if not any(is_float(x.dtype.name) for x in example.inputs):
        return NONE
    inputs = [x.astype(np_dtype("float16")) if is_float(x.dtype.name) else x for x in example.inputs]
    try:
        return checks.compare(example.function, inputs, engine, check="fp16")
    except DTypeError as error:
        return checks.Result("fp16", False, note=str(error))


# --- the step: update, residency, determinism, launches
def _step(v: Verdicts, subject: Subject, steps: Steps) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    v.ask("deterministic", steps.same_bits)
    v.ask("resident", lambda: steps.resident(numbers))
    if subject.kind in ("op", "loss"):
        v.values["update"] = NONE
    elif subject.kind == "layer":
        v.ask("update", steps.update)
    return numbers


# --- optimizers
def _updates(v: Verdicts, subject: Subject, engine: Any) -> None:
    for aspect in ("forward", "backward"):
        v.values[aspect] = NONE

    def compared(dtype: str) -> checks.Result:
        def make() -> probe.Probe:
            return probe.optimizer_step(subject.thing(), dtype)

        start = {n: p.numpy() for n, p in make().params.items()}
        _, got = make().run(engine, STEPS)
        _, want = make().run(checks.oracle(), STEPS)
        return changed(got, want, start, checks.TOLERANCE[dtype] * (STEPS + 1))

    v.ask("update", lambda: compared("float32"))
    if "fp16" not in v.values:
        v.ask("fp16", lambda: compared("float16"))


# --- parity: the reference, the derivative and independent evidence: another library's values, a property that only the right formula has
def _parity(v: Verdicts, subject: Subject, engine: Any, quick: bool) -> None:
    needed = [a for a in ("forward", "backward", "update") if v.values.get(a, NONE) != NONE]
    wrong = [a for a in needed if v.values[a] != YES]
    if wrong or not needed:
        v.values["parity"] = NO
        return
    independent: list[checks.Result] = []
    v.ask("parity", lambda: _golden(subject, engine, independent, quick))
    if v.values["parity"] == PARTIAL:
        v.notes.append("parity: no independent values yet")


def _golden(subject: Subject, engine: Any, found: list[checks.Result], quick: bool) -> checks.Result | str:
    found.extend(golden.compare(subject, engine))
    if not (quick and found):
        found.extend(properties.check(subject, engine))
    return checks.worst("parity", found) if found else PARTIAL


# --- tables
def run(devices: Sequence[Any] = (None,), kinds: Sequence[str] = catalog.KINDS, only: str = "", progress: bool = True,
        subjects: Sequence[Subject] | None = None, quick: bool = False, skip: Sequence[str] = ()) -> list[Row]:
    """Rows of everything registered on every device, and of every goal that nothing answers yet. `quick`, `skip` as in `check`."""
    from ..engine import on

    found = list(subjects) if subjects is not None else registry.subjects(kinds, only)
    rows: list[Row] = []
    for device in devices:
        with on(device) as engine:
            rows += [r for row in _rows(found, engine, quick, skip, progress) for r in _named(row)]
            if subjects is None:
                rows += to_come(engine.device, {(s.kind, s.name) for s in found}, kinds, only)
    return rows


def _rows(found: Sequence[Subject], engine: Any, quick: bool, skip: Sequence[str], progress: bool) -> list[Row]:
    """A row a subject: checked in processes of their own where there are many, and timed here, one after the other."""
    from . import status_workers, terminal

    rows: dict[int, Row] = {}
    with terminal.bar(total=len(found), desc=f"status {engine.device.key}: checks", unit="row", progress=progress) as bar:
        for k, answer in status_workers.each(found, engine.device, quick, skip):
            bar.set_postfix_str(f"{found[k].kind} {found[k].name}"[:32].ljust(32))
            if "unknown" not in answer:
                rows[k] = Row(**answer["row"]) if "row" in answer else replace(_blank(found[k], engine.device), note=answer["failed"])
                bar.update()
        for k, subject in enumerate(found):
            if k not in rows:
                bar.set_postfix_str(f"{subject.kind} {subject.name}"[:32].ljust(32))
                rows[k] = check(subject, engine, quick, skip)
                bar.update()
    if quick:
        return [rows[k] for k in range(len(found))]
    with terminal.bar(found, desc=f"status {engine.device.key}: times ", unit="row", progress=progress) as bar:
        return [timed(rows[k], subject, engine) for k, subject in enumerate(bar)]


def _named(row: Row) -> list[Row]:
    """The row under each of the specification's names for it: a class that merges two answers both."""
    if row.kind == "op":
        return [row]
    return [replace(row, spec_name=name) for name in catalog.spec_names(row.kind, row.name)] or [row]


def to_come(device: Any, present: set[tuple[str, str]], kinds: Sequence[str], only: str = "") -> list[Row]:
    """Rows of the goals that are not there yet."""
    goals = [(kind, goal) for kind in kinds for goal in catalog.missing(kind, {n for k, n in present if k == kind})]
    chosen, rows = registry.selected({name for _, name in present} | {goal.name for _, goal in goals}, only), []
    for kind, goal in goals:
        if goal.name in chosen:
            rows.append(Row(kind, goal.name, goal.spec_name, goal.family, device.key, note=TO_COME, driver=device.driver, device_name=device_words(device)))
    return rows


def as_dicts(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [asdict(r) for r in rows]


RANK = {NO: 0, PARTIAL: 1, NONE: 2, YES: 2}


def inflated(claimed: Iterable[dict[str, Any]], fresh: Iterable[dict[str, Any]]) -> list[str]:
    """What the claimed rows say that the fresh ones do not show: better verdicts, or rows for what is gone. Times and launches do not count."""
    measured = {_key(r): r for r in fresh}
    lies = []
    for row in claimed:
        now = measured.get(_key(row))
        for aspect in ASPECTS:
            seen = now[aspect] if now else NO
            if RANK.get(row.get(aspect, NO), 3) > RANK[seen] or (row.get(aspect) == YES and seen == NONE):
                why = (now["note"] if now else "") or "nothing registered answers to the name"
                lies.append(f"{row['kind']} {row['name']} on {row['device']}: {aspect} is claimed {row.get(aspect)!r}, a run shows {seen!r} ({why[:160]})")
    return lies


def _key(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["kind"], row["name"], row["spec_name"], row["device"]
