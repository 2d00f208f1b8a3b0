"""What a training step of a model takes: memory and time, forecast from its plan or measured, layer by layer."""

from __future__ import annotations

import contextlib
import copy
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import ops as F
from ..core.autodiff import gradients
from ..core.spec import Spec, is_float, np_dtype
from ..core.state import Parameter
from ..core.tensor import Tensor, tensor
from ..engine import current
from ..engine.device import roof
from ..engine.opencl import OpenCLEngine
from ..engine.profiling import profile
from ..engine.record import Recorded
from ..engine.work import Blocks, Part, Work, forecast, works_of
from ..layers.base import Layer, no_tape
from ..optimizers.base import Optimizer
from .files import layers

WARM, ROUNDS, PROFILES = 2, 7, 3


@dataclass
class Times:
    """[s] of a training step: `total`, and of that by `parts`, whose launches are counted in `launches`."""

    total: float
    parts: dict[Part, float] = field(default_factory=dict)
    launches: int = 0

    def of(self, name: str, backward: bool | None = None) -> float:
        """[s] of a layer by its path, forward, backward or (None) both."""
        return sum(s for p, s in self.parts.items() if p.name == name and backward in (None, p.backward))

    def phase(self, backward: bool) -> float:
        """[s] forward, or backward, of all layers and the loss."""
        return sum(s for p, s in self.parts.items() if p.backward is backward and p != UPDATE)


UPDATE = Part("update", True)


class Step:
    """The training step of a model whose loss is Σ mean(y²) over its outputs, for what is asked of a model without
    its loss: loss, gradients, and with an optimizer that has its parameters the update.
    """

    def __init__(self, model: Layer, names: Mapping[int, str]) -> None:
        self.model, self.names, self.blocks = model, names, Blocks()

    def forecast(self, *inputs: Any) -> tuple[Any, ...]:
        """The step without the update."""
        total, found = self(*inputs)
        flat = [g.reshape(-1) for g in found]
        # As optimizers read them: one after the other in the arena, where each takes its place as it is made.
        kinds = {g.dtype: [o for o in flat if o.dtype == g.dtype] for g in flat}
        return total, *(F.mean(F.concat(some)) for some in kinds.values())

    def __call__(self, *inputs: Any) -> tuple[Any, list[Tensor]]:
        params = self.model.parameters()
        before = self.model.training
        self.model.train()
        try:
            with no_tape(), named(self.model, self.names, self.blocks):
                out = self.model(*inputs)
        finally:
            self.model.train(before)
        total: Any = 0.0
        for o in out if isinstance(out, (tuple, list)) else (out,):
            total = total + F.mean(o * o)
        return total, gradients(total, [p.tensor for p in params])


@contextlib.contextmanager
def named(model: Layer, names: Mapping[int, str], blocks: Blocks) -> Iterator[None]:
    """What the layers of the model record inside is told apart: `names` has theirs, by the id of a layer."""
    every = {id(x): x for x in layers(model).values() if id(x) in names}.values()
    for x in every:
        vars(x)["forward"] = functools.partial(_within, blocks, names[id(x)], x.forward)
    try:
        yield
    finally:
        for x in every:
            del vars(x)["forward"]


def _within(blocks: Blocks, name: str, forward: Callable[..., Any], *inputs: Any, **arguments: Any) -> Any:
    with blocks.block(name):
        return forward(*inputs, **arguments)


def planned(model: Layer, specs: Sequence[Spec], optimizer: Optimizer,
            names: Mapping[int, str]) -> tuple[int, Times | None]:
    """([bytes] between inputs and outputs of a training step beside its gradients, its forecast times); nothing is
    compiled or allocated.
    No times on NumPy, which plans nothing.
    """
    engine, step = current(), Step(model, names)
    nbytes, found = forecast(step.forecast, specs, engine, step.blocks)
    nbytes = max(0, nbytes - sum(p.spec.nbytes for p in model.parameters()))
    if not found:
        return nbytes, None
    peak = roof.known(engine)
    found = [*found, _update(model, optimizer)]
    parts: dict[Part, float] = {}
    for w in found:
        parts[w.part] = parts.get(w.part, 0.0) + w.seconds(peak)
    return nbytes, Times(sum(parts.values()), parts, sum(w.launches for w in found))


def _update(model: Layer, optimizer: Optimizer) -> Work:
    """Weights and state are read and written, gradients are read."""
    params = model.parameters()
    size, kinds = sum(p.size for p in params), len({p.dtype for p in params})
    slots = optimizer.state_bytes(size)
    return Work(UPDATE, kinds, 12.0 * size, sum(p.spec.nbytes for p in params) * 3 + 2 * slots)


def measured(model: Layer, given: Sequence[Any], specs: Sequence[Spec], optimizer: Optimizer,
             names: Mapping[str, str]) -> Times:
    """The times of a training step that really runs, of a copy of the model: the median of several, and by parts as
    the launches, each timed alone, share it; without parts on NumPy.

    given   arrays of samples, of which the batch is made, or None: normal numbers, zeros of integers
    names   the path under which a layer's time counts, by its own
    """
    twin, rule = copy.deepcopy(model), Optimizer.from_config(optimizer.config())
    step = Step(twin, {id(x): names[path] for path, x in layers(twin).items() if path in names})
    rule.attach({n: v for n, v in twin.variables().items() if isinstance(v, Parameter) and v.trainable})

    def train(*arguments: Any) -> Tensor:
        *inputs, h = arguments
        loss, found = step(*inputs)
        rule.apply(found, h)
        return loss

    recorded, engine = Recorded(train, "measured step"), current()
    arguments = (*(tensor(_batch(s, g)) for s, g in zip(specs, given, strict=True)), rule.hyper(1))
    with step.blocks.watching():
        replay = recorded.prepare(*arguments)
    found = [w for r in recorded.recordings.values() for w in works_of(r, engine, step.blocks)] \
        if isinstance(engine, OpenCLEngine) else []
    for _ in range(WARM):
        replay(*arguments)
    total = statistics.median(_seconds(lambda: replay(*arguments)) for _ in range(ROUNDS))
    if not found:
        return Times(total)
    profiles = []
    for _ in range(PROFILES):
        with profile() as launches:
            replay(*arguments)
        profiles.append([row[2] for row in launches])
    return Times(total, _shares(found, [min(ms) for ms in zip(*profiles, strict=True)], total), len(launches))


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    found = run()
    found.numpy()
    return time.perf_counter() - start


def _shares(found: Sequence[Work], times: Sequence[float], total: float) -> dict[Part, float]:
    """The whole time by parts, as the launches that were timed alone share it."""
    if sum(w.launches for w in found) != len(times) or not sum(times):
        return {}
    parts, rest = dict[Part, float](), iter(times)
    for w in found:
        mine = sum(next(rest) for _ in range(w.launches))
        part = UPDATE if w.part == Part("", True) else w.part
        parts[part] = parts.get(part, 0.0) + mine * total / sum(times)
    return parts


def _batch(spec: Spec, given: Any) -> Any:
    """A batch of samples: those given, again and again as far as they do, or drawn."""
    if given is not None:
        a = np.asarray(given)
        return np.ascontiguousarray(np.resize(a, spec.shape), np_dtype(spec.dtype))
    if not is_float(spec.dtype):
        return np.zeros(spec.shape, np_dtype(spec.dtype))
    return np.random.default_rng(0).standard_normal(spec.shape, np.float32).astype(np_dtype(spec.dtype))
