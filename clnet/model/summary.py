"""What a model is made of, and what training it takes: exact counts, and bytes and times read off the plan
of a step that never ran, or measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import show
from ..core.spec import Spec
from ..core.state import Parameter
from ..core.tensor import Tensor
from ..engine import current
from ..engine.device.memory import size_class
from ..engine.record import infer
from ..layers.base import Layer
from ..optimizers.base import Optimizer
from ..optimizers.first_order import Adam
from .cost import UPDATE, Times, measured, planned
from .files import layers

BATCHES = (5, 7)  # samples that shapes are tried with: an axis that is 5 with one and 7 with the other is N
MEANING = {"parameters": "the weights", "gradients": "one number for every weight",
           "buffers": "running means and the like", "activations": "kept for the backward pass",
           "inputs": "one batch", "rounding": "what the buffer pool rounds up"}


# What a step's time goes to, of a Times.
PHASES: dict[str, Callable[[Times], float]] = {
    "forward": lambda t: t.phase(False), "backward": lambda t: t.phase(True),
    "update": lambda t: t.parts.get(UPDATE, 0.0)}


@dataclass(frozen=True)
class Row:
    """A layer: its path, type, shape(s) of its output with N for the batch, and the parameters that it holds itself,
    each where it is met first.

    Layers inside one that users do not name, the levels of a stack for example, count as that one's own.
    """

    layer: str
    type: str
    output: str
    parameters: int
    forward: float | None = None  # [s] forecast, of what it does itself in a training step of the batch
    step: float | None = None  # [s] the same with its gradient
    measured: float | None = None  # [s] of that step where it was measured


@dataclass(repr=False)
class Summary(show.Shown):
    """`rows` in order of the model; `parameters` in all; `memory` in bytes by what it is for, "total" included; `times`
    of a training step, forecast, and `measured`, None where there are none. Shows as two tables, or three.

    batch   samples a step that memory and times are for
    """

    rows: list[Row]
    parameters: int
    trainable: int
    memory: dict[str, int] = field(default_factory=dict)
    title: str = ""
    batch: int = 1
    state: str = ""
    note: str = ""
    device: str = ""
    times: Times | None = None
    measured: Times | None = None

    def table(self) -> show.Table:
        """A row a layer: its output, its parameters, and its times or, where there are none, its share of these."""
        frozen, totals = self.parameters - self.trainable, dict[str, float]()
        if self.times:
            totals |= {"forward": self.times.phase(False), "step": self.times.total}
        if self.measured and self.measured.parts:
            totals["measured"] = self.measured.total
        more = [[_time(getattr(r, name)) for name in totals] or [self._share(r.parameters)] for r in self.rows]
        rows = [(r.layer, r.type, r.output, r.parameters or None, *m) for r, m in zip(self.rows, more, strict=True)]
        heads = ["layer", "type", "output", "parameters", *(totals or ["share"])]
        return show.Table(heads, rows, align="lll".ljust(len(heads), "r"), title=self.title,
                          foot=("total", "", "", self.parameters, *(map(_time, totals.values()) if totals else [""])),
                          notes=[f"{show.count(frozen)} of them are not trained."] if frozen else [])

    def _share(self, n: int) -> str:
        return f"{100 * n / self.parameters:.1f} %" if n else ""

    def costs(self) -> show.Table:
        """A row for everything that a training step keeps on the device."""
        whys = {**MEANING, "optimizer state": self.state}
        rows = [(name, show.size(n), whys[name]) for name, n in self.memory.items() if name != "total"]
        return show.Table(["memory", "size", "what for"], rows, align="lrl",
                          title=f"Training with batches of {self.batch}",
                          foot=("total", show.size(self.memory["total"]), ""), notes=[self.note] if self.note else [])

    def clock(self) -> show.Table:
        """A row for every part of a training step: its time, forecast and measured."""
        both = {name: t for name, t in (("forecast", self.times), ("measured", self.measured)) if t is not None}
        rows = [(name, *(_time(of(t)) for t in both.values())) for name, of in PHASES.items()]
        known = [t.launches for t in both.values() if t.launches]
        notes = [f"{name}: {show.count(round(self.batch / t.total))} samples/s" for name, t in both.items()]
        if self.times and self.measured:
            notes.append(f"forecast / measured: {self.times.total / self.measured.total:.2f}")
        how = f"{show.plural(known[-1], 'launch')} on {self.device}" if known else self.device
        return show.Table(["time", *both], rows if known else [], align="l".ljust(len(both) + 1, "r"), notes=notes,
                          title=f"A training step with batches of {self.batch}: {how}",
                          foot=("total", *(_time(t.total) for t in both.values())))

    def _tables(self) -> list[show.Table]:
        timed = self.times is not None or self.measured is not None
        return [self.table(), self.costs(), *([self.clock()] if timed else [])]

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self._tables()))

    def _repr_html_(self) -> str:
        return "".join(t.html() for t in self._tables())


def summarize(model: Layer, samples: Sequence[Spec], batch: int, optimizer: Optimizer | None = None,
              given: Sequence[Any] | None = None) -> Summary:
    """The summary of a model for samples of these specs; builds the model. Nothing runs, unless samples are `given`
    (None for each input that has none) to measure a step with. Raises ShapeError.
    """
    seen = [_outputs(model, samples, n) for n in BATCHES]
    found, chosen = _parameters(model), optimizer or Adam()
    within = {path: next((found[p][0] for p in _upwards(path) if p in found), "") for path in layers(model)}
    specs = [Spec((batch, *s.shape), s.dtype) for s in samples]
    nbytes, times = planned(model, specs, chosen, {id(x): within[path] for path, x in layers(model).items()})
    clock = None if given is None else measured(model, given, specs, chosen, within)
    rows = []
    for name, layer, count in found.values():
        called = all(id(layer) in s for s in seen)
        output = ", ".join(map(shaped, *(s[id(layer)] for s in seen))) if called else "not called"
        rows.append(Row(name, type(layer).__name__, output, count, times.of(name, False) if times else None,
                        times.of(name) if times else None, clock.of(name) if clock and clock.parts else None))
    params = [v for v in model.variables().values() if isinstance(v, Parameter)]
    shapes = " -> ".join((", ".join(f"{s.dtype} {shaped((0, *s.shape), (1, *s.shape))}" for s in samples),
                          ", ".join(map(shaped, *(s[0] for s in seen)))))
    slots = len(chosen.slots())
    state = f"{type(chosen).__name__} keeps {show.plural(slots, 'number') + ' for every weight' if slots else 'none'}"
    note = "No optimizer was given, so Adam's state is counted: summary(optimizer=...) counts another's."
    return Summary(rows, sum(p.size for p in params), sum(p.size for p in params if p.trainable),
                   _memory(model, specs, chosen, nbytes), f"{type(model).__name__}: {shapes}", batch, state,
                   "" if optimizer else note, str(current().device), times, clock)


def _parameters(model: Layer) -> dict[str, tuple[str, Layer, int]]:
    """(name, layer, parameters that it holds itself and are met there first) of every row, by the layer's path."""
    found, counted = dict[str, tuple[str, Layer, int]](), set[int]()
    parts = [part for part in model.descend() if "specs_of_inputs" not in dir(type(part))]  # which are no models
    within = {id(x) for part in parts for x in part.children().values()}
    for path, layer in _named(layers(model)):
        own = [v for x in _own(layer) for v in vars(x).values() if isinstance(v, Parameter) and id(v) not in counted]
        counted |= {id(v) for v in own}
        if own or (layer is not model and id(layer) not in within):
            found[path] = path or type(model).__name__, layer, sum(v.size for v in own)
    return found


def _upwards(path: str) -> Iterator[str]:
    """A path, that of the layer around it, and so on to the model's."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


def _time(seconds: float | None) -> str:
    return show.duration(seconds) if seconds else ""


def _own(layer: Layer) -> Iterator[Layer]:
    """A layer and those inside that have no name outside this package."""
    yield layer
    for child in layer.children().values():
        if _hidden(child):
            yield from _own(child)


def _hidden(layer: Layer) -> bool:
    return type(layer).__name__.startswith("_")


def _named(found: dict[str, Layer]) -> list[tuple[str, Layer]]:
    hidden = [f"{path}." for path, layer in found.items() if _hidden(layer) and path]
    return [(p, x) for p, x in found.items() if not p or not f"{p}.".startswith(tuple(hidden))]


def _outputs(model: Layer, samples: Sequence[Spec], batch: int) -> dict[int, list[tuple[int, ...]]]:
    """Shapes of what every layer returned, by its id; under 0 those of the model.
    What layers remember of a call before stays.
    """
    every = list(layers(model).values())
    before = [(x, vars(x).pop("_called", None)) for x in every]
    try:
        total = infer(model, [Spec((batch, *s.shape), s.dtype) for s in samples])
        every = list(layers(model).values())  # building makes layers too
        found = {id(x): [o.shape for o in _several(vars(x)["_called"][1]) if isinstance(o, Tensor)]
                 for x in every if "_called" in vars(x)}
        return {**found, 0: [s.shape for s in total]}
    finally:
        for x in every:
            vars(x).pop("_called", None)
        for x, called in before:
            if called is not None:
                vars(x)["_called"] = called


def _several(output: object) -> Sequence[Any]:
    return output if isinstance(output, (tuple, list)) else (output,)


def shaped(one: tuple[int, ...], other: tuple[int, ...]) -> str:
    """The shape in words: what grows with the batch is N, or a multiple of it."""
    a, b = BATCHES
    axes = []
    for m, n in zip(one, other, strict=True):
        times = m // a if m != n and m % a == 0 and m // a * b == n else 0
        axes.append(str(n) if m == n else "N" if times == 1 or not times else f"{times} N")
    return f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"


def _memory(model: Layer, specs: Sequence[Spec], optimizer: Optimizer, between: int) -> dict[str, int]:
    """[bytes] of a training step on the current engine, `between` of them for values between inputs and outputs."""
    params, every = model.parameters(), model.variables().values()
    weights = sum(v.spec.nbytes for v in every if isinstance(v, Parameter))  # frozen ones, too
    others = sum(v.spec.nbytes for v in every) - weights
    memory = {"parameters": weights, "gradients": sum(p.spec.nbytes for p in params),
              "optimizer state": optimizer.state_bytes(sum(p.size for p in params))}
    if others:
        memory["buffers"] = others
    memory["activations"] = between if params else 0
    memory["inputs"] = sum(s.nbytes for s in specs)
    if current().compiles:
        memory["rounding"] = _rounding(memory, len(optimizer.slots()), specs)
    return memory | {"total": sum(memory.values())}


def _rounding(memory: dict[str, int], slots: int, specs: Sequence[Spec]) -> int:
    """[bytes] by which the pool's buffers are larger than what is put into them.
    Gradients lie in the arena of the activations.
    """
    state = memory["optimizer state"] // max(1, slots)
    blocks = [memory["parameters"], *[state] * slots, memory["gradients"] + memory["activations"],
              *(s.nbytes for s in specs)]
    return sum(size_class(n) - n for n in blocks if n)
