"""What a subject's recorded training step shows:
update, residency, determinism, launches; in a quick run values and gradients, too.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.autodiff import gradients
from ...core.state import Parameter
from ...core.tensor import tensor
from ..evidence import checks, registry
from ..evidence import step as probe
from ..evidence.registry import Example, Subject
from ..marks import NONE

if TYPE_CHECKING:
    from ...engine.protocol import Engine

STEPS = 3  # steps after which updates are compared


class Steps:
    """Runs of the step on the device and on the float64 reference: each made when it is first asked for, and once.

    gradients   the step gives the gradients of a layer's parameters beside what it updates by them
    """

    def __init__(self, subject: Subject, engine: Engine, gradients: bool = False) -> None:
        self.subject, self.engine, self.gradients = subject, engine, gradients

    def fresh(self) -> probe.Probe:
        """A step that has not run."""
        return probe.step_of(self.subject, self.gradients)

    @functools.cached_property
    def _ran(self) -> tuple[probe.Probe, list[Any]]:
        first, last = self.fresh(), self.fresh()
        return last, [first.run(self.engine, STEPS), last.run(self.engine, STEPS)]

    @functools.cached_property
    def wanted(self) -> tuple[list[Any], dict[str, Any]]:
        """Outputs of the first step and the parameters after the last, by the reference."""
        return self.fresh().run(checks.oracle(), STEPS)

    @functools.cached_property
    def allowed(self) -> float:
        """The tolerance of a gradient."""
        if self.subject.kind == "optimizer":
            return checks.TOLERANCE["float32"]
        example = self.subject.examples()[0]
        slope = checks.derivative(example.function, example.inputs, np.random.default_rng(0))
        return checks.allowance(slope(*(tensor(x) for x in example.inputs)))

    def same_bits(self) -> checks.Result:
        """Two runs, equal bits."""
        return probe.same_bits(*self._ran[1])

    def resident(self, numbers: dict[str, Any]) -> checks.Result:
        """Further steps leave nothing on the host; the number of launches goes into `numbers`."""
        numbers["kernels"] = len(self._ran[0].plan(self.engine)) if self.engine.compiles else None
        return probe.resident(self._ran[0], self.engine)

    def update(self) -> checks.Result | str:
        """Steps of an optimizer change every parameter, to what the float64 reference gets."""
        start = {n: p.numpy() for n, p in self.fresh().params.items()}
        if not start:
            return NONE
        return changed(self._ran[1][0][1], self.wanted[1], start, self.allowed * (STEPS + 1), _still(self.subject))

    def forward(self, example: Example) -> checks.Result:
        """The outputs of the first step against the reference's."""
        traced = probe.outputs_of(example.function(*(tensor(x) for x in example.inputs)))
        pairs = zip(self._ran[1][0][0], self.wanted[0], traced, strict=False)
        return checks.worst("forward", (checks.judge("forward", got, want, t.dtype, checks.allowance(traced))
                                        for got, want, t in pairs))

    def backward(self, example: Example) -> checks.Result:
        """Its gradients against the reference's, and the reference's against differences of the formula."""
        count = len(probe.outputs_of(example.function(*(tensor(x) for x in example.inputs))))
        pairs = zip(self._ran[1][0][0][count:], self.wanted[0][count:], strict=True)
        surrogate = self.subject.kind == "layer" and self.subject.thing.surrogate_gradient
        slope = [] if surrogate else [checks.directional(example.function, example.inputs, np.random.default_rng(0),
                                                         "gradient 1")]
        return checks.worst("backward", [*slope, *(checks.judge("backward", got, want, got.dtype.name, self.allowed)
                                                   for got, want in pairs)])


def _still(subject: Subject) -> frozenset[str]:
    """Parameters whose gradient is 0 by the formula: a key's bias shifts all scores of a row alike."""
    if subject.kind == "optimizer":
        return frozenset()
    layer, inputs = registry.make_layer(subject.thing, 0)
    y = probe.outputs_of(layer(*inputs))[0]
    params = {n: v for n, v in layer.variables().items() if isinstance(v, Parameter)}
    u = tensor(np.random.default_rng(0).standard_normal(y.shape).astype(np.float32), y.dtype)
    found = checks.oracle().values(gradients(y, [p.tensor for p in params.values()], u))
    return frozenset(n for n, g in zip(params, found, strict=True) if np.max(np.abs(g), initial=0.0) < 1e-12)


def changed(got: dict[str, Any], want: dict[str, Any], start: dict[str, Any], allowed: float,
            still: frozenset[str] = frozenset()) -> checks.Result:
    """Whether every parameter moved, and to where the reference has it; but for those that stand still."""
    found = []
    for n, w in want.items():
        r = checks.judge("update", got[n], w, got[n].dtype.name, allowed)
        found.append(r if r else replace(r, note=f"{n} {r.note}"))
        moved = float(np.max(np.abs(w - start[n]), initial=0.0))
        if w.size and moved == 0.0 and n not in still:
            found.append(checks.Result("update", False, note=f"{n} never changes: no gradient reaches it"))
        elif moved > 1e-5 and np.array_equal(got[n], start[n]):
            found.append(checks.Result("update", False, note=f"{n} is not changed on the device"))
    return checks.worst("update", found)
