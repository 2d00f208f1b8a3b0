"""One training step of a subject's example, recorded as the Trainer records it: what residency, launches, times and
updates are read from.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops as F
from ...core.autodiff import gradients
from ...core.spec import is_float, np_dtype
from ...core.state import Parameter, Variable
from ...core.tensor import Tensor, as_tensor, tensor
from ...engine import on
from ...engine.record import Recorded
from ...layers.base import Layer, no_tape
from ...optimizers import SGD
from ...optimizers.base import Optimizer
from ...optimizers.closure import ClosureOptimizer, Search
from .checks import Result
from .registry import Example, Subject, draw, make_layer

if TYPE_CHECKING:
    from ...engine.protocol import Engine

Array = np.ndarray[Any, Any]
OPTIMIZED = {"matrix": (5, 3), "vector": (7,), "cube": (2, 2, 2)}  # what an optimizer is tried on


@dataclass
class Probe:
    """A step that can be run on any engine. `params`: what changes by it, by `optimizer` or a layer's own rule."""

    body: Callable[..., Any]
    inputs: list[Array]
    params: Mapping[str, Variable] = field(default_factory=dict)
    optimizer: Optimizer | None = None

    def __post_init__(self) -> None:
        self.recorded = Recorded(self.body, "probe")
        self.t = 0

    def step(self, engine: Engine) -> Any:
        """One step; the outputs stay where they are."""
        self.t += 1
        more = [self.optimizer.hyper(self.t)] if self.optimizer else []
        with on(engine):
            return self.recorded(*self.inputs, *more)

    def run(self, engine: Engine, steps: int) -> tuple[list[Array], dict[str, Array]]:
        """The outputs of the first of some steps, and the parameters after the last, on the host."""
        with on(engine):
            first = [t.numpy() for t in _several(self.step(engine))]
            for _ in range(steps - 1):
                self.step(engine)
            return first, {n: p.numpy() for n, p in self.params.items()}

    def plan(self, engine: Engine) -> list[Any]:
        """The launches of a step; none on an engine that does not plan."""
        if not self.recorded.replays:
            self.step(engine)
        replay = next(iter(self.recorded.replays.values()))
        return list(replay.plan.launches) if engine.compiles else []

    def milliseconds(self, engine: Engine, most: int = 7) -> float:
        """Median wall time of a step on a warm engine."""
        times = []
        for _ in range(most + 2):
            start = time.perf_counter()
            outputs = self.step(engine)
            engine.finish()
            times.append(time.perf_counter() - start)
            del outputs
        return statistics.median(times[2:]) * 1e3


def _several(outputs: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def step_of(subject: Subject, gradients: bool = False) -> Probe:
    """A fresh step of the subject's first example: equal in every call. `gradients` as in `layer_step`."""
    if subject.kind == "layer":
        return layer_step(*make_layer(subject.thing), gradients)
    if subject.kind == "optimizer":
        return optimizer_step(subject.thing(**subject.thing.tried))
    return function_step(subject.examples()[0], getattr(subject.thing, "has_gradient", True))


def function_step(example: Example, differentiable: bool = True) -> Probe:
    """Forward, and backward to every float input."""

    def body(*inputs: Any) -> tuple[Any, ...]:
        ys = outputs_of(example.function(*inputs))
        return (*ys, *pull(ys, [as_tensor(x) for x in inputs])) if differentiable else tuple(ys)

    return Probe(body, example.inputs)


def layer_step(layer: Layer, inputs: list[Array], gradients: bool = False) -> Probe:
    """Forward, backward to inputs and parameters, and one update by SGD with momentum.
    Gives outputs and the inputs' gradients.

    gradients   the parameters' gradients as well
    """
    params = {n: v for n, v in layer.variables().items() if isinstance(v, Parameter) and v.trainable}
    own = {n: v for n, v in layer.variables().items() if layer.own_rule and n not in params and is_float(v.dtype)}
    optimizer = SGD(lr=0.1, momentum=0.9) if params else None
    if optimizer:
        optimizer.attach(list(params.values()))

    def body(*given: Any) -> tuple[Any, ...]:
        xs = [as_tensor(x) for x in given[: len(inputs)]]
        with no_tape():
            ys = outputs_of(layer(*xs))
        targets = [p.tensor for p in optimizer.parameters] if optimizer else []
        found = pull(ys, [*xs, *targets])
        if optimizer:
            optimizer.apply(found[len(found) - len(targets) :], given[-1])
        return (*ys, *found[: len(found) - (0 if gradients else len(targets))])

    return Probe(body, inputs, params | own, optimizer)


def optimizer_step(optimizer: Optimizer, dtype: str = "float32") -> Probe:
    """Updates of a few parameters by given gradients, or down a valley where it needs a loss."""
    values = draw(list(OPTIMIZED.values()), "parameters")
    params = {n: Parameter(v, n, dtype=dtype) for n, v in zip(OPTIMIZED, values, strict=True)}
    optimizer.attach(list(params.values()))
    grads = [g.astype(np_dtype(dtype)) for g in draw(list(OPTIMIZED.values()), "gradients")]
    if isinstance(optimizer, ClosureOptimizer):
        return SearchProbe(len, grads, params, optimizer)
    by_parameter = {id(p): k for k, p in enumerate(params.values())}

    def body(*given: Any) -> tuple[Any, ...]:
        optimizer.apply([given[by_parameter[id(p)]] for p in optimizer.parameters], given[-1])
        return ()

    return Probe(body, grads, params, optimizer)


@dataclass
class SearchProbe(Probe):
    """Steps of an optimizer that evaluates a loss, down a Valley; inputs are what the parameters aim at."""

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self.optimizer, ClosureOptimizer)
        self.search = Search(self.optimizer, Valley(list(self.params.values())), Recorded)

    def step(self, engine: Engine) -> Any:
        with on(engine):
            self.search.step(self.inputs)
        self.search.optimizer.t += 1
        return ()

    def plan(self, engine: Engine) -> list[Any]:
        if not self.search.pieces:
            self.step(engine)
        replays = [r for p in self.search.pieces.values() if isinstance(p, Recorded) for r in p.replays.values()]
        return [launch for r in replays for launch in r.plan.launches] if engine.compiles else []


class Valley:
    """½ Σ r² of parameters p and what they aim at, t: r = (p − t, 0.3 p², 0.1 Σ p); convex, no parabola, and each
    parameter pulls at all others.
    """

    def __init__(self, params: Sequence[Variable]) -> None:
        self.params = params

    def residuals(self, batch: Sequence[Tensor], first: Tensor, row: Tensor) -> Tensor:
        ps = [p.tensor.reshape(-1) for p in self.params]
        pulls = [p - t.reshape(-1) for p, t in zip(ps, batch, strict=True)]
        total = sum((F.sum(p) for p in ps[1:]), F.sum(ps[0]))
        return F.concat([*pulls, *(0.3 * p * p for p in ps), 0.1 * total.reshape(1)], 0)

    def loss(self, batch: Sequence[Tensor], first: Tensor, row: Tensor) -> Tensor:
        r = self.residuals(batch, first, row)
        return 0.5 * F.sum(r * r)

    def recording(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()


def outputs_of(y: object) -> list[Tensor]:
    """The tensors that a function gave."""
    if isinstance(y, dict):
        y = list(y.values())
    return [as_tensor(t) for t in (y if isinstance(y, (tuple, list)) else (y,)) if t is not None]


def pull(ys: Sequence[Tensor], wrt: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of Σ u · y for fixed random u, to the float tensors among `wrt`."""
    rng = np.random.default_rng(5)
    floats = [y for y in ys if is_float(y.dtype)]
    targets = [w for w in wrt if is_float(w.dtype)]
    if not floats or not targets:
        return []
    total = sum((F.sum(y * tensor(rng.standard_normal(y.shape), y.dtype)).astype("float32") for y in floats[1:]),
                F.sum(floats[0] * tensor(rng.standard_normal(floats[0].shape), floats[0].dtype)))
    return gradients(total, targets)


# --- what is read from steps
def resident(probe: Probe, engine: Engine) -> Result:
    """Two steps after the first move nothing to the host, and no op runs there. An optimizer that decides by losses and
    slopes reads those, each time less than the parameters are.
    """
    if not engine.compiles:
        return Result("resident", True, note="the engine is the host")
    probe.step(engine)
    moved, fell, search = engine.transfers.snapshot(), dict(engine.fallbacks), getattr(probe, "search", None)
    read = search.read if search else 0
    for _ in range(2):
        probe.step(engine)
    engine.finish()
    back = (engine.transfers.snapshot() - moved).bytes_to_host
    if search and search.largest < search.at.arena.flat.spec.nbytes:
        back -= search.read - read
    ops = sorted(n for n, k in engine.fallbacks.items() if k > fell.get(n, 0))
    note = "; ".join(filter(None, [f"{back} bytes to the host" if back else "",
                                   f"on the host: {', '.join(ops)}" if ops else ""]))
    return Result("resident", not note, float(back), note=note)


def same_bits(a: tuple[list[Array], dict[str, Array]], b: tuple[list[Array], dict[str, Array]]) -> Result:
    """Whether two runs gave the same bits, outputs and parameters."""
    pairs = [*zip(a[0], b[0], strict=True), *((a[1][n], b[1][n]) for n in a[1])]
    same = all(x.tobytes() == y.tobytes() for x, y in pairs)
    return Result("deterministic", same, note="" if same else "two runs of the same work gave different bits")
