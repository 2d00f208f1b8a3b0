"""Training steps planned on described GPUs with sizes in the place of numbers: every kernel takes them, and what is
launched for a shape is what a plan for that shape alone launches, where both choose alike.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import layers as L
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.precision import autocast
from clnet.core.spec import Spec
from clnet.core.varying import Numbers, Varying
from clnet.engine.compile import graph
from clnet.engine.compile.pipeline import parts, unlaid
from clnet.engine.compile.plan import AtShape
from clnet.engine.compile.sized import SizedPlan
from clnet.engine.compile.source import Source
from clnet.engine.compile.sources import Code
from clnet.engine.replay import Trace
from clnet.engine.shapes import Axes
from clnet.layers.base import no_tape
from clnet.workbench import played
from clnet.workbench.bench.suites import steps

# Axes by which a batch is known: (input, axis) -> number.
BATCH = {(0, 0): 0, (1, 0): 0}
LENGTH = {**BATCH, (0, 1): 1, (1, 1): 1}
Step = tuple[Callable[..., Any], tuple[Spec, ...]]


@functools.cache
def bench(name: str) -> Step:
    """A training step of the bench and the specs of its batch."""
    found = [*steps.tasks(), *steps.gpu_tasks()]
    task = next(t for t in found if t.name.startswith(name))
    with clnet.on("numpy"):
        step, arguments = steps.training(task, clnet.engine.current())
        given = [np.asarray(a) for a in arguments(*task.batch())]
    return step.fn, tuple(Spec(a.shape, a.dtype.name) for a in given)


@functools.cache
def block() -> Step:
    """A causal encoder block whose heads are as tensor cores want them, with the gradients of all parameters."""
    with clnet.on("numpy"):
        layer = clnet.Sequential([L.TransformerEncoderBlock(num_heads=2, d_ff=128, dropout=0.0, causal=True)])
        net = layer.build((12, 64))

    def fn(x: Any, y: Any) -> list[Any]:
        with no_tape():
            out = net(x)
        return [out, *gradients(F.mean(F.square(out - y)), [p.tensor for p in net.parameters()])]

    return fn, (Spec((8, 40, 64)), Spec((8, 40, 64)))


def traced(step: Step, specs: Sequence[Spec], device: Any, arithmetic: str) -> tuple[Any, dict[int, int]]:
    with clnet.on("numpy"), autocast(arithmetic):
        t = Trace(step[0], specs)
    into = {len(t.outputs) + k: len(t.inputs) + k for k in range(len(t.updates))}
    return graph.build([*t.outputs, *t.updates], lambda x: x.op is None, device, [*t.inputs, *t.before]), into


def batch(step: Step, places: dict[tuple[int, int], int], numbers: Sequence[int]) -> tuple[Spec, ...]:
    """The specs of the step with other numbers at these places."""
    return tuple(Spec(tuple(numbers[places[k, a]] if (k, a) in places else n for a, n in enumerate(s.shape)), s.dtype)
                 for k, s in enumerate(step[1]))


def sized(step: Step, places: dict[tuple[int, int], int], first: Sequence[int], device: Any, arithmetic: str,
          near: Sequence[int] = ()) -> tuple[list[Code], SizedPlan]:
    """The plan made at one shape, and its code; `near`: the sizes to choose by in place of those of the class."""
    there = {(k, a): n for (k, a), n in places.items() if a < len(step[1][k].shape)}
    specs, varying = batch(step, there, first), Varying(tuple(first))
    varying.typical = varying.at(near) if near else varying.typical
    found, into = traced(step, Axes(there, specs).sized(specs, varying), device, arithmetic)
    code, memory = parts(found, device, into)
    return code, SizedPlan(unlaid(found, code, memory), memory.slots, varying)


@pytest.mark.parametrize(("name", "places", "first", "others"), [
    ("mlp", BATCH, (40,), [(17,), (33,), (256,)]), ("mlp", BATCH, (300,), [(257,), (4096,)]),
    ("cnn", BATCH, (7,), [(2,), (16,)]), ("lstm", LENGTH, (30, 20), [(17, 31), (200, 19), (256, 256)]),
    ("resnet", BATCH, (33,), [(20,), (256,)]), ("gpt", LENGTH, (18, 30), [(17, 23), (65, 127)])])
@pytest.mark.parametrize("profile", ["h200", "a100", "amd"])
def test_the_networks_of_the_bench_serve_a_class_of_sizes(name: str, places: dict[tuple[int, int], int],
                                                          first: tuple[int, ...], others: list[tuple[int, ...]],
                                                          profile: str) -> None:
    """Nothing has to be known (Unsettled is raised), and no number of the class is decided on."""
    step = bench(name)
    _, plan = sized(step, {k: v for k, v in places.items() if name != "lstm" or k != (1, 1)}, first,
                 played.device(profile), "fp32")
    count = len(plan.template.launches)
    for axes in others:
        assert plan.serves(axes)
        found = plan.at(axes)
        launches = found.launches
        assert len(launches) == count and all(isinstance(n, int) and n > 0 for one in launches for n in one.grid)
        # What turns kernels to a shape is what its launches say, which nobody makes for that.
        assert isinstance(launches, AtShape) and found.grids == [one.grid for one in launches]
        assert launches[-1] is launches[count - 1]
        taken = {place: later.of(number) for (later, places), number
                 in zip(launches.moving.takers, launches.arguments, strict=True) for place in places}
        differ = {(i, k) for i, (one, other) in enumerate(zip(launches, plan.template.launches, strict=True))
                  for k, ((_, value), (_, more)) in enumerate(zip(one.args, other.args, strict=True))
                  if value is not more}
        assert taken.keys() == differ and all(launches[i].args[k][1] == v for (i, k), v in taken.items())


def substituted(source: Source, numbers: Numbers) -> str:
    """The text with the arguments' numbers in their places."""
    text = source.text
    for k in range(len(source.sizes)):
        text = text.replace(f", const int g_size{k}", "").replace(f", g_size{k}", "")
    return re.sub(r"g_size(\d+)", lambda m: str(numbers(source.sizes[int(m[1])])), text)


def known(text: str) -> dict[str, str]:
    """The macros that say what is computed. What sizes are multiples of is known of numbers alone, and so is how
    far memory is aligned behind other numbers.
    """
    found = dict(re.findall(r"^#define (\w+(?:\([^)]*\))?) (.*)$", text, re.MULTILINE))
    return {name: re.sub(r"\(ulong\)(\d+)", r"\1ul", value) for name, value in found.items()
            if not name.endswith(("_OF", "_ALIGN")) and "EPILOGUE" not in name}


OWN = re.compile("matmul|forward|backward|attention|recurrence|pack_recurrent")


@pytest.mark.parametrize(("step", "places", "shape", "profile", "arithmetic"), [
    (lambda: bench("mlp"), BATCH, (40,), "h200", "fp32"), (lambda: bench("mlp"), BATCH, (37,), "h200", "tf32"),
    (lambda: bench("mlp"), BATCH, (1000,), "h200", "bf16"), (lambda: bench("mlp"), BATCH, (333,), "a100", "bf16"),
    (lambda: bench("mlp"), BATCH, (64,), "a100", "tf32"), (lambda: bench("mlp"), BATCH, (300,), "h200", "fp32x3"),
    (lambda: bench("lstm"), {k: v for k, v in LENGTH.items() if k != (1, 1)}, (48, 33), "h200", "fp32"),
    (block, LENGTH, (5, 1000), "h200", "fp32"), (block, LENGTH, (33, 40), "h200", "bf16"),
    (block, LENGTH, (20, 33), "a100", "fp16"), (block, LENGTH, (6, 70), "amd", "fp32")])
def test_a_shape_gets_what_a_plan_of_its_own_launches(step: Callable[[], Step], places: dict[tuple[int, int], int],
                                                      shape: tuple[int, ...], profile: str, arithmetic: str) -> None:
    """Made at another shape, with the choices of this one: the same kernels, macros, grids and temporary memory."""
    device, found = played.device(profile), step()
    written, plan = sized(found, places, tuple(n - 3 for n in shape), device, arithmetic, near=shape)
    assert plan.serves(shape)
    numbers = plan.varying.at(shape)
    there = {(k, a): n for (k, a), n in places.items() if a < len(found[1][k].shape)}
    built, into = traced(found, batch(found, there, shape), device, arithmetic)
    wanted = [s for code in parts(built, device, into)[0] for s in code.sources]
    given = [s for code in written for s in code.sources]
    assert [s.name for s in given] == [s.name for s in wanted]
    pairs = [(s, w) for s, w in zip(given, wanted, strict=True) if OWN.match(s.name)]
    for s, w in pairs:
        assert (tuple(map(numbers, s.grid)), s.group) == (w.grid, w.group)
        assert {name: numbers(n) for name, n in s.params.scratch.items()} == w.params.scratch
        assert known(substituted(s, numbers)) == known(w.text)
    assert any(s.sizes for s, _ in pairs)
