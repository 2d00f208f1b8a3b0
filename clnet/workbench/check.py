"""`clnet.check(op, ...)`: what the status table finds out about a name, about a call of one's own.

The checks are those of `clnet status` (evidence.checks, evidence.step); here their numbers are shown, too, and what
they run on may be passed: arrays, or shapes of numbers drawn from U(−2, 2).
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..core.arguments import shown
from ..core.op import Op
from ..core.spec import is_float
from ..core.tensor import Operators, Tensor, tensor
from ..engine import current, on
from ..engine.device import roof
from ..engine.profiling import profile
from ..engine.protocol import Engine
from ..errors import KernelBuildError, UseError
from ..layers.base import Layer
from ..losses.base import Loss
from ..names import guide as _guide
from ..show import Shown, Table, count, duration, in_notebook, plural, size
from .evidence import checks, registry
from .evidence import step as steps
from .evidence.layer_checks import round_trip
from .evidence.registry import Example
from .evidence.results import Result, worst
from .marks import NO, NONE, PARTIAL, YES, Mark
from .status.steps import STEPS, changed

if TYPE_CHECKING:
    from ..core.tensor import TensorLike

Input: TypeAlias = "TensorLike | tuple[int, ...]"
TRIED = 2  # examples that are run where none is passed
TIMES = 9  # runs that are timed
SHORT = 5e-5  # [s] of a device below which launching is most of what is seen


@dataclass
class Finding:
    """One line: an aspect, its verdict (yes, partial, no, n/a), and what was found in words."""

    aspect: str
    verdict: str
    found: str


@dataclass(repr=False)
class Checked(Shown):
    """What `check` found; true where nothing is wrong. Shows itself as a table."""

    name: str
    device: str
    findings: list[Finding] = field(default_factory=list)

    def __bool__(self) -> bool:
        return all(f.verdict != NO for f in self.findings)

    def __getitem__(self, aspect: str) -> Finding:
        """The line of an aspect. Raises KeyError."""
        found = {f.aspect: f for f in self.findings}
        return found[aspect]

    def table(self) -> Table:
        rows = [(f.aspect, Mark(f.verdict).text, f.found) for f in self.findings]
        wrong = [k for k, f in enumerate(self.findings) if f.verdict == NO]
        return Table(("", "holds", "found"), rows, title=f"{self.name} on {self.device}", align="lll", marked=wrong)

    def __str__(self) -> str:
        return self.table().text(200)

    __repr__ = __str__


def check(thing: Op | Layer | Loss | Callable[..., Any] | type | str, *inputs: Input, engine: Engine | None = None,
          roofs: bool = True, show: bool | None = None) -> Checked:
    """Runs a call in every way there is and compares: does it compute what its reference says, on this device?

        clnet.check(clnet.ops.softmax, np.ones((4, 8)))       clnet.check(my_op)       clnet.check(MyLayer(3), (4, 5))

    thing    an op or another function of tensors, a layer or a loss or the class of one, or a name of the status table
    inputs   of a call: arrays, or shapes; none: the examples that a thing states, or shapes like a layer's last call
    engine   where it runs; None: the engine in use
    roofs    whether to measure what the device reaches at best, once a process, which takes about a second
    show     whether the findings are printed; None: where no interpreter shows what a call returned

    parity         values against the float64 reference: error |a − b| / (1 + |b|), and in units of the last place
    gradient       the derivative against differences in float64, and the device's against the reference's
    extremes       ±0, ±1e-30, ±88, ±200, ±1e4, NaN and ±∞ in one element and in all; where the reference is finite
    range          numbers below the least normal one and near the largest: partial, not wrong, where float32 overflows
    deterministic  two recorded runs, forward and backward: equal bits
    recorded       the recorded step against the eager call
    resident       a step leaves nothing on the host          update   of a layer: the parameters after some steps
    launches       kernels forward, and with backward         time     on the device, against what its memory allows

    Raises UseError where there is nothing to run it with, KernelBuildError where it does not build.
    """
    engine = engine if engine is not None else current()
    if isinstance(thing, str):
        known = next((s for s in registry.subjects() if s.name == thing), None) or registry.find(thing)
        if known is None:
            raise UseError(f"check: expected a name of the status table; got {thing!r}; `clnet status` lists them.")
        thing = known.thing
    trial = _trial(thing, inputs)
    found = Checked(trial.name, str(engine.device))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _checked(trial, engine, roofs, found)
    interactive = in_notebook() or "ps1" in vars(sys)
    if show or (show is None and not interactive):
        print(found)
    return found


# --- what is tried
@dataclass
class _Trial:
    """A thing with calls of it; `fresh` makes one recorded step after the other, equal each time."""

    name: str
    examples: list[Example]
    fresh: Callable[[], steps.Probe]
    data: int  # inputs of an example before its parameters
    differentiable: bool = True
    thing: Any = None
    stated: bool = False  # whether the examples are the thing's own
    surrogate: str = ""


def _trial(thing: Any, inputs: Sequence[Input]) -> _Trial:
    if isinstance(thing, type) and issubclass(thing, (Layer, Loss)):
        if not inputs:
            return _registered(thing)
        thing = thing()
    if isinstance(thing, Layer):
        return _of_layer(thing, inputs or _like_before(thing))
    if not inputs:
        return _registered(thing)
    arrays = [_array(thing, x, k) for k, x in enumerate(inputs)]
    if isinstance(thing, Loss):
        example = registry.loss_example(thing, arrays)
        return _Trial(repr(thing), [example], lambda: steps.function_step(example), len(example.inputs), thing=thing)
    if not callable(thing):
        raise UseError(f"check: expected an op, a layer, a loss or a function of tensors; got {shown(thing)}.")
    example = Example(lambda *tensors: thing(*tensors), arrays, [f"input {k}" for k in range(len(arrays))])
    slopes = getattr(thing, "has_gradient", True)
    return _Trial(_name(thing), [example], lambda: steps.function_step(example, slopes), len(arrays), slopes, thing)


def _array(thing: object, x: Input, k: int) -> np.ndarray[Any, Any]:
    """An input as an array; of a shape numbers from U(−2, 2), the same in every run."""
    if isinstance(x, tuple) and all(isinstance(n, int) for n in x):
        return registry.draw([x], f"{_name(thing)}.{k}")[0]
    a = x.tensor.numpy() if isinstance(x, Operators) else np.asarray(x)
    return a.astype(np.float32) if not isinstance(x, (np.ndarray, Operators)) and a.dtype == np.float64 else a


def _name(thing: object) -> str:
    return str(getattr(thing, "name", "") or getattr(thing, "__name__", "") or type(thing).__name__)


def _registered(thing: Any) -> _Trial:
    """By the examples that the status table runs."""
    subject = next((s for s in registry.subjects() if s.thing is thing), None)
    if subject is None or subject.kind == "optimizer" or not (examples := subject.examples()[:TRIED]):
        raise UseError(f"check: expected inputs to call {_name(thing)} with; got none, and it states no examples; "
                       "pass arrays or shapes.")
    layer = subject.kind == "layer"
    data = len(thing.examples[0][1]) if layer else len(examples[0].inputs)
    return _Trial(subject.name, examples, lambda: steps.step_of(subject), data, getattr(thing, "has_gradient", True),
                  thing, True, thing.surrogate_gradient if layer else "")


def _like_before(layer: Layer) -> list[Input]:
    specs = vars(layer).get("_seen")
    if not specs:
        raise UseError(f"check: expected inputs for {type(layer).__name__}; got none, and the layer was not called "
                       "yet; pass arrays or shapes: clnet.check(layer, (4, 8)).")
    if other := next((s for s in specs if not is_float(s.dtype)), None):
        raise UseError(f"check: expected inputs for {type(layer).__name__}, whose last call took {other}; pass arrays.")
    return [tuple(map(int, s.shape)) for s in specs]


def _of_layer(layer: Layer, inputs: Sequence[Input]) -> _Trial:
    """A layer as it is: what is run are twins of it, so that it stays so."""
    arrays = [_array(layer, x, k) for k, x in enumerate(inputs)]
    registry.built(layer, arrays)

    def twin() -> Layer:
        made = registry.seeded(0, lambda: registry.built(type(layer).from_config(layer.config()), arrays))
        for name, variable in made.variables().items():
            variable.assign(layer.variables()[name].numpy())
        return made.train(layer.training)

    example = registry.layer_example(twin(), arrays)
    return _Trial(repr(layer), [example], lambda: steps.layer_step(twin(), arrays), len(arrays), layer.has_gradient,
                  layer, surrogate=layer.surrogate_gradient)


# --- the lines
def _checked(trial: _Trial, engine: Engine, roofs: bool, found: Checked) -> None:
    ask = functools.partial(_ask, found)
    example = trial.examples[0]
    layer = isinstance(trial.thing, Layer) or (isinstance(trial.thing, type) and issubclass(trial.thing, Layer))
    slopes = trial.differentiable and any(is_float(x.dtype.name) for x in example.inputs)
    ask("parity", lambda: worst("parity", [checks.compare(e.function, e.inputs, engine, normwise=layer)
                                           for e in trial.examples]))
    ask("gradient", lambda: _gradient(trial, engine, layer) if slopes else _none("not differentiable"))
    ask("extremes", lambda: _extremes(trial, engine))
    ask("range", lambda: _range(trial, engine))
    probes: list[steps.Probe] = []
    ask("deterministic", lambda: _same(trial, engine, probes))
    ask("recorded", lambda: _recorded(trial, engine, probes))
    ask("resident", lambda: steps.resident(probes[0], engine))
    if layer:
        ask("update", lambda: _update(trial, engine))
    if isinstance(trial.thing, Layer):
        ask("JSON", lambda: round_trip(trial.thing))
    ask("launches", lambda: _launches(example, probes[0], engine))
    ask("time", lambda: _time(example, engine, roofs))


def _ask(found: Checked, aspect: str, run: Callable[[], Result | Finding]) -> None:
    """The line of a check; an exception is a "no" that says what happened."""
    try:
        answer = run()
    except KernelBuildError:
        raise  # of what does not build nothing can be found
    except Exception as error:  # whatever the thing raises is a finding, and must not hide the other lines
        text = f"{type(error).__name__}: {error}"
        first = next((f for f in found.findings if f.found == text), None)
        found.findings.append(Finding(aspect, NONE if first else NO, f"as {first.aspect}" if first else text))
        return
    if isinstance(answer, Finding):
        answer.aspect = aspect
        found.findings.append(answer)
        return
    notes = answer.note.split("; ")
    note = f"{notes[0]}; and {len(notes) - 1} more" if len(notes) > 2 else answer.note
    numbers = (f"error {answer.error:.2g} (allowed {answer.allowed:.2g}), {answer.ulp:.3g} ulp"
               if answer.allowed and math.isfinite(answer.error) else "")
    text = "; ".join(filter(None, [numbers, note]))
    found.findings.append(Finding(aspect, YES if answer else NO, text))


def _none(why: str) -> Finding:
    return Finding("", NONE, why)


def _gradient(trial: _Trial, engine: Engine, normwise: bool) -> Result:
    if isinstance(trial.thing, Op) or not normwise:
        return worst("gradient", [checks.check_gradient(e.function, e.inputs, engine) for e in trial.examples])
    rng, results = np.random.default_rng(0), []
    for e in trial.examples:
        if not trial.surrogate:
            results.append(checks.directional(e.function, e.inputs, rng))
        slope = checks.derivative(e.function, e.inputs, rng)
        results.append(checks.compare(slope, e.inputs, engine, check="gradient", normwise=True))
    return worst("gradient", results)


def _of_data(trial: _Trial) -> tuple[Callable[..., Any], list[Any]]:
    """The first example as a function of its data alone."""
    e = trial.examples[0]
    rest = [tensor(x) for x in e.inputs[trial.data :]]
    return (lambda *xs: e.function(*xs, *rest)), e.inputs[: trial.data]


def _extremes(trial: _Trial, engine: Engine) -> Result:
    if isinstance(trial.thing, Op) and trial.stated:
        return checks.extremes(trial.thing, engine)
    return checks.check_extremes(*_of_data(trial), engine, slopes=trial.differentiable)


def _range(trial: _Trial, engine: Engine) -> Result | Finding:
    function, inputs = _of_data(trial)
    if not any(is_float(x.dtype.name) for x in inputs):
        return _none("no float input")
    result = checks.check_extremes(function, inputs, engine, values=checks.ENDS, slopes=trial.differentiable)
    return result if result else Finding("", PARTIAL, f"float32 ends before float64 does, first {result.note}"[:180])


def _same(trial: _Trial, engine: Engine, probes: list[steps.Probe]) -> Result:
    probes += [trial.fresh(), trial.fresh()]
    return steps.same_bits(*(p.run(engine, 1) for p in probes))


def _recorded(trial: _Trial, engine: Engine, probes: list[steps.Probe]) -> Result:
    """The outputs of a step as recorded, against those of the call."""
    example = trial.examples[0]
    outputs = steps.outputs_of(example.function(*(tensor(x) for x in example.inputs)))
    got = trial.fresh().run(engine, 1)[0][: len(outputs)]
    eager = engine.values(outputs)
    if all(a.tobytes() == b.tobytes() for a, b in zip(got, eager, strict=True)):
        return Result("recorded", True, note="equal bits")
    allowed = checks.allowance(outputs)
    return worst("recorded", [checks.judge("recorded", a, b.astype(np.float64) if is_float(t.dtype) else b, t.dtype,
                                           allowed, normwise=True)
                              for a, b, t in zip(got, eager, outputs, strict=True)])


def _update(trial: _Trial, engine: Engine) -> Result | Finding:
    before = {n: p.numpy() for n, p in trial.fresh().params.items()}
    if not before:
        return _none("no parameters")
    got, want = (trial.fresh().run(e, STEPS)[1] for e in (engine, checks.oracle()))
    allowed = checks.TOLERANCE["float32"] * (STEPS + 1) * math.sqrt(max(x.size for x in trial.examples[0].inputs))
    still = frozenset(n for n, w in want.items() if np.abs(w - before[n]).max(initial=0.0) < 1e-12)
    result = changed(got, want, before, allowed, still)
    return Result("update", result.ok, result.error, result.ulp, result.allowed,
                  result.note or f"{plural(len(before), 'parameter')}, {STEPS} steps of SGD"
                  + (f"; without gradient here: {', '.join(sorted(still))}" if still else ""))


def _launches(example: Example, probe: steps.Probe, engine: Engine) -> Finding:
    if not engine.compiles:
        return _none("NumPy evaluates op by op")
    forward = steps.function_step(example, False).plan(engine)
    names = ", ".join(dict.fromkeys(launch.name for launch in forward))
    return Finding("", YES, f"{len(forward)} forward ({names}), {len(probe.plan(engine))} with backward")


# --- time
def _time(example: Example, engine: Engine, roofs: bool) -> Finding:
    """The device's own time of the kernels forward, and the least that its memory and units allow for them."""
    inputs = [tensor(x) for x in example.inputs]
    if not engine.compiles:
        return _none("NumPy has no roof")
    engine.run(inputs)

    def run() -> list[Tensor]:
        outputs = steps.outputs_of(example.function(*inputs))
        engine.run(outputs)
        engine.finish()
        return outputs

    run()
    times = []
    with on(engine):
        for _ in range(TIMES):
            with profile() as rows:
                run()
            times.append(sum(row[2] for row in rows) * 1e-3)
    seconds, moved = statistics.median(times), sum(row[3] for row in rows)
    flops = sum(launch.flops for launch in steps.function_step(example, False).plan(engine))
    text = f"{duration(seconds)} on the device (median of {TIMES}), {size(moved)} moved"
    if not rows or not seconds or not roofs:
        return Finding("", YES, text)
    peak = roof.known(engine)
    least = max(moved / (peak.bandwidth(moved) * 1e9), flops / (peak.gflops * 1e9))
    what = (f"{peak.bandwidth(moved):.3g} GB/s" if moved / peak.bandwidth(moved) >= flops / peak.gflops
            else f"{peak.gflops:.4g} GFLOP/s")
    work = f"{count(round(flops))} flops; " if flops else ""
    text += f", {moved / seconds * 1e-9:.3g} GB/s; {work}{least / seconds:.0%} of the roof ({what})"
    return Finding("", YES, text + ("; too short to say much: pass larger inputs" if seconds < SHORT else ""))


_guide(__name__)
