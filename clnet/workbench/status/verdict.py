"""What really works of one subject on one device, found by running it."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.spec import is_float, np_dtype
from ...core.tensor import Tensor, tensor
from ...engine.device.devices import Device
from ...errors import DTypeError
from ...optimizers.closure import ClosureOptimizer
from ..evidence import checks, golden, properties
from ..evidence import step as probe
from ..evidence.registry import Example, Subject
from ..marks import NO, NONE, PARTIAL, YES
from ..tables import device_words
from .row import ASPECTS, Row
from .steps import STEPS, Steps, changed

if TYPE_CHECKING:
    from ...engine.protocol import Engine

TRIED = 2  # examples of each subject that are run


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


def measure(subject: Subject, engine: Engine) -> Row:
    """The row of a subject on the engine's device, with its time."""
    return timed(check(subject, engine), subject, engine)


def check(subject: Subject, engine: Engine, quick: bool = False, skip: Sequence[str] = ()) -> Row:
    """As `measure`, but for the time.

    quick   of its first example alone, values and gradients from one recorded step, properties only where no values are
            kept
    skip    aspects that are not asked, n/a in the row: "fp16"
    """
    v, row, steps = Verdicts(), blank(subject, engine.device), Steps(subject, engine, quick)
    v.values |= dict.fromkeys(skip, NONE)
    if quick:
        subject = replace(subject, examples=lambda: steps.subject.examples()[:1])
    if subject.kind == "optimizer":
        _updates(v, subject, engine)
    else:
        examples = _examples(v, subject)
        if not examples:
            return replace(row, note="; ".join(v.notes) or "no example, so nothing was run: the class states none, "
                           "such as examples = [({'features': 5}, [(4, 5)])]")
        _values(v, subject, examples, engine, steps if quick else None)
    numbers = _step(v, subject, steps)
    _parity(v, subject, engine, quick)
    found: dict[str, Any] = {**dict.fromkeys(ASPECTS, NO), **v.values, **numbers}
    return replace(row, **found, note="; ".join(dict.fromkeys(v.notes)))


def timed(row: Row, subject: Subject, engine: Engine) -> Row:
    """The row with the time of a step; nothing else should run meanwhile."""
    if row.kernels is None and row.resident != YES:
        return row  # no step ran: the note says why
    try:
        return replace(row, time_ms=round(probe.step_of(subject).milliseconds(engine), 4))
    except Exception as error:  # as in Verdicts.ask
        why = f"time: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return replace(row, note="; ".join(filter(None, [row.note, why])))


def blank(subject: Subject, device: Device) -> Row:
    """The row of a subject of which nothing is known yet."""
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
def _values(v: Verdicts, subject: Subject, examples: list[Example], engine: Engine, steps: Steps | None) -> None:
    """Values and gradients of each example by themselves;
    with `steps` those of the recorded step, which compiles half as many programs.
    """
    if steps:
        v.ask("forward", lambda: steps.forward(examples[0]))
    else:
        v.ask("forward",
              lambda: checks.worst("forward", (checks.compare(e.function, e.inputs, engine) for e in examples)))
    v.ask("backward", lambda: _backward(subject, examples, engine, steps))
    if subject.kind == "layer" and not subject.thing.has_gradient:
        v.notes.append("backward: no gradient, the output is a choice")
    if why := _surrogate(subject):
        v.notes.append(f"backward: a surrogate, {why}")
    if "fp16" not in v.values:
        v.ask("fp16", lambda: NONE if subject.single else _half(examples[0], engine))


def _backward(subject: Subject, examples: list[Example], engine: Engine, steps: Steps | None) -> checks.Result | str:
    if not _has_gradient(subject, examples[0]):
        return NONE
    if steps:
        return steps.backward(examples[0])
    if _surrogate(subject):
        slopes = ((checks.derivative(e.function, e.inputs, np.random.default_rng(0)), e.inputs) for e in examples)
        return checks.worst("backward", (checks.compare(f, x, engine, check="backward") for f, x in slopes))
    return checks.worst("backward", (checks.check_gradient(e.function, e.inputs, engine, order=1) for e in examples))


def _surrogate(subject: Subject) -> str:
    """What a layer says of a gradient that is not its formula's, "" of others."""
    return subject.thing.surrogate_gradient if subject.kind == "layer" else ""


def _has_gradient(subject: Subject, example: Example) -> bool:
    if not getattr(subject.thing, "has_gradient", True):
        return False
    return any(is_float(x.dtype.name) for x in example.inputs) and any(is_float(t.dtype) for t in _traced(example))


def _traced(example: Example) -> list[Tensor]:
    return probe.outputs_of(example.function(*(tensor(x) for x in example.inputs)))


def _half(example: Example, engine: Engine) -> checks.Result | str:
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
        if rule := subject.thing.own_rule:
            v.notes.append(f"update: a rule of its own, {rule}")
    return numbers


# --- optimizers
def _updates(v: Verdicts, subject: Subject, engine: Engine) -> None:
    for aspect in ("forward", "backward"):
        v.values[aspect] = NONE

    def compared(dtype: str) -> checks.Result:
        def make() -> probe.Probe:
            return probe.optimizer_step(subject.thing(**subject.thing.tried), dtype)

        start = {n: p.numpy() for n, p in make().params.items()}
        _, got = make().run(engine, STEPS)
        _, want = make().run(checks.oracle(), STEPS)
        return changed(got, want, start, checks.TOLERANCE[dtype] * (STEPS + 1))

    v.ask("update", lambda: compared("float32"))
    if issubclass(subject.thing, ClosureOptimizer):
        v.lower("fp16", NONE, "losses are compared by more digits than float16 has; its weights are float32")
    elif "fp16" not in v.values:
        v.ask("fp16", lambda: compared("float16"))


# --- parity: the reference, the derivative and independent evidence:
# another library's values, a property that only the right formula has
def _parity(v: Verdicts, subject: Subject, engine: Engine, quick: bool) -> None:
    needed = [a for a in ("forward", "backward", "update") if v.values.get(a, NONE) != NONE]
    wrong = [a for a in needed if v.values[a] != YES]
    if wrong or not needed:
        v.values["parity"] = NO
        return
    independent: list[checks.Result] = []
    v.ask("parity", lambda: _golden(subject, engine, independent, quick))
    if v.values["parity"] == PARTIAL:
        v.notes.append("parity: no independent values yet")


def _golden(subject: Subject, engine: Engine, found: list[checks.Result], quick: bool) -> checks.Result | str:
    found.extend(golden.compare(subject, engine))
    if not (quick and found):
        found.extend(properties.check(subject, engine))
    return checks.worst("parity", found) if found else PARTIAL
