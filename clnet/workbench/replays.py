"""A recorded step that is run again and again to be looked at: its stages, who reads which parameter, and when each of
its launches runs, by the device's clock. What it changes is what it was before, when that is done.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.state import Parameter, Variable
from ..core.tensor import as_tensor
from ..engine import current, on
from ..engine.compile.node import Leaf
from ..engine.compile.reads import base_at, strided
from ..engine.device import roof
from ..engine.explain import Explanation, explain, explain_replay
from ..engine.opencl import OpenCLEngine
from ..engine.profiling import Profile, Span, profile, write_trace
from ..engine.record import Recorded
from ..engine.replay import Replay, in_place
from ..engine.work import Blocks, Work, forecast
from ..errors import ConfigError, DataError, NoDeviceError
from ..layers.base import Layer
from ..model.cost import named
from ..model.files import layers
from ..show import duration, plural
from ..train.trainer import Trainer

if TYPE_CHECKING:
    from ..engine.compile.node import Node
    from ..engine.compile.plan import Launch

ROUNDS = 5


@dataclass
class Times:
    """What some runs took: `ms` of each launch of the plan, the median of the rounds (None: computed by the host), and
    `spans` of the shortest run.
    """

    ms: list[float | None]
    spans: list[Span]

    def __str__(self) -> str:
        """How many launches, how long from the first start to the last end, and how much of that they run."""
        launched = [s for s in self.spans if s.launch is not None]
        length = max((s.end for s in self.spans), default=0.0)
        busy = sum(s.length for s in launched) / (length or 1.0)
        return f"{plural(len(launched), 'launch')}, {duration(length * 1e-6)}, {busy:.0%} of it in kernels"


@dataclass
class Replayed:
    """`name`, its `stages` on an `engine`, `run` to run it once, `state` around runs that change nothing; `layers` are
    those that each launch belongs to, by their paths: the one that recorded it or ("∂ ...") whose gradient it is, as
    `works` say, else those whose parameters it reads or makes the gradients of.
    """

    name: str
    engine: OpenCLEngine
    stages: Explanation
    run: Callable[[], object]
    variables: dict[int, Variable] = field(default_factory=dict)
    parameters: Sequence[Parameter] = ()
    state: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    works: Sequence[Work] = ()

    @property
    def launches(self) -> Sequence[Launch]:
        return self.stages.plan.launches

    @cached_property
    def layers(self) -> list[list[str]]:
        found = [list(dict.fromkeys(self._layers(nodes))) for nodes in self.stages.fused]
        if [w.launches for w in self.works] == list(map(len, self.stages.stages)):  # else it is another plan
            for work, stages in zip(self.works, self.stages.stages, strict=True):
                for k in stages if work.part.name else ():
                    found[k] = ["∂ " * work.part.backward + work.part.name]
        return found

    def _layers(self, nodes: Sequence[Node]) -> Iterator[str]:
        for n in nodes:
            for i in n.inputs:
                base, (_, offset, _) = base_at(i)[0], strided(i) or (i, 0, ())
                if isinstance(base, Leaf) and (v := self.variables.get(base.leaf)) is not None:
                    yield from self._owners(v, offset, i.size)
            if n in self.stages.memory.parts:
                whole, at = self.stages.memory.parts[n]
                for v in self.variables.values():
                    if v.size == whole.size:
                        yield from (f"∂ {owner}" for owner in self._owners(v, at, n.size))

    def _owners(self, v: Variable, offset: int, size: int) -> Iterator[str]:
        """The layer of the parameter that begins there; none of a vector of all of them that is read whole."""
        for p in self.parameters:
            if p is v or (p.arena is not None and p.arena.flat is v and p.arena.offsets[p.part] <= offset
                          and offset + size <= p.arena.offsets[p.part] + p.size):
                yield p.path.rpartition(".")[0] or p.path

    def measure(self, rounds: int = ROUNDS) -> Times:
        """Times of `rounds` runs after one, each launch behind the other as in a run that is not timed."""
        if rounds < 1:
            raise ConfigError(f"measure(rounds={rounds!r}): expected at least 1.")
        found: list[Profile] = []
        with on(self.engine), self.state():
            self.run()
            for _ in range(rounds):
                with profile(alone=False) as one:
                    self.run()
                found.append(one)
        launched = [k for k, launch in enumerate(self.launches) if launch.host is None]
        times: list[float | None] = [None] * len(self.launches)
        for k, *ms in zip(launched, *([row[2] for row in one] for one in found), strict=True):
            times[k] = statistics.median(ms)
        return Times(times, min((one.spans for one in found), key=lambda spans: max((s.end for s in spans), default=0)))

    def shares(self, times: Times) -> list[float | None]:
        """Of the roof: the time that the device's measured peak allows for the bytes and flops of a fusion / that of
        its launches, at the last of them. Above 1 where caches serve what is counted as memory, and where a kernel
        makes fewer products than its formula (Winograd).
        """
        peak, found = roof.known(self.engine), list[float | None]([None] * len(self.launches))
        for stages in self.stages.stages:
            last = self.launches[stages[-1]]
            ms = sum(times.ms[k] or 0.0 for k in stages)
            least = max(last.flops / peak.gflops, last.nbytes / peak.bandwidth(last.nbytes)) * 1e-6
            found[stages[-1]] = least / ms if ms else None
        return found

    def trace(self, file: str | Path, times: Times) -> Path:
        """Writes the spans for Perfetto and chrome://tracing, with layers, bytes, flops and shares of the roof."""
        numbers, shares = {id(launch): k for k, launch in enumerate(self.launches)}, self.shares(times)

        def facts(span: Span) -> dict[str, Any]:
            k = numbers.get(id(span.launch), -1)
            more = {"share of roof": round(share, 4)} if k >= 0 and (share := shares[k]) is not None else {}
            return ({"launch": k, "layers": self.layers[k]} if k >= 0 else {}) | span.facts() | more

        return write_trace(file, times.spans, f"{self.name} on {self.engine.device}", facts)


def replayed(what: Any, *inputs: Any, who: str = "graph") -> Replayed:
    """What a trainer replays (its training step, of the largest batch that it made a step with), what a recorded
    function replays, a model or a function at inputs, or what tensors need.

    who     the name of the function that asks, for errors
    Raises DataError where nothing ran yet, NoDeviceError on NumPy, which plans nothing.
    """
    if isinstance(what, Trainer):
        if inputs:
            raise ConfigError(f"{who}: expected a trainer alone; got inputs, too; its step runs over the last batch.")
        return _of_step(what.steps.train, "training step", what.model, who)
    if isinstance(what, Recorded) or (callable(what) and inputs):
        step = what if isinstance(what, Recorded) else Recorded(what, getattr(what, "__name__", type(what).__name__))
        if inputs:
            step(*inputs)
        return _of_step(step, step.name, what if isinstance(what, Layer) else None, who)
    if isinstance(what, (str, bytes)) or what is None:
        raise ConfigError(f"{who}: expected a trainer, a recorded function, a model or a function with inputs, or "
                          f"tensors; got {what!r}.")
    if callable(what):
        raise ConfigError(f"{who}: expected {type(what).__name__} with inputs; got it alone; pass some, too: "
                          f"{who}(model, x).")
    return _of_tensors((what, *inputs))


def _of_step(step: Recorded, name: str, model: Layer | None, who: str) -> Replayed:
    every = [getattr(r, "replay", r) for r in step.replays.values()]
    ran = [r for r in every if isinstance(r, Replay) and r.fed]
    if every and not any(isinstance(r, Replay) for r in every):
        raise NoDeviceError(f"{who}: expected an OpenCL device; got NumPy, which evaluates op by op and plans nothing; "
                            'try `with clnet.on("opencl"):`.')
    if not ran:
        raise DataError(f"{who}: expected a {name} that ran; got one that did not; call it, or fit, first.")
    replay = max(ran, key=lambda r: sum(s.nbytes for s in r.specs))
    parameters = [v for v in model.variables().values() if isinstance(v, Parameter)] if model is not None else []
    return Replayed(name, replay.engine, explain_replay(step, replay), replay.again, dict(replay.watched), parameters,
                    lambda: in_place(replay), _works(step, replay, model) if model is not None else ())


def _works(step: Recorded, replay: Replay, model: Layer) -> list[Work]:
    """What the launches work on, by layers: of the step recorded once more."""
    names, blocks = {id(layer): path for path, layer in layers(model).items() if path}, Blocks()
    with on(replay.engine), named(model, names, blocks):
        return forecast(step.fn, replay.specs, replay.engine, blocks)[1]


def _of_tensors(tensors: Sequence[Any]) -> Replayed:
    stages = explain(*tensors)
    assert isinstance(stages, Explanation)
    roots = [as_tensor(t) for t in tensors]
    engine = next((t.home for t in roots if t.home is not None), current())
    assert isinstance(engine, OpenCLEngine)

    def run() -> None:
        engine.execute(stages.plan, [engine.upload(leaf) for leaf in stages.graph.leaves])

    return Replayed("plan", engine, stages, run)
