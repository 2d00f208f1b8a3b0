"""Kernels that walk over time take the number of sequences and of steps as arguments: one plan for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import layers as L
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import Tensor, tensor
from clnet.layers.base import no_tape
from clnet.ops.ctc import ctc
from clnet.ops.recurrent import CELLS, recurrence

SMALL, MIDDLE = [(5, 7), (3, 4), (2, 2), (16, 16), (13, 3)], [(20, 33), (17, 29), (131, 17), (31, 100), (256, 37)]
Arrays = list[np.ndarray[Any, Any]]


def draws(*shapes: tuple[int, ...]) -> Arrays:
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [rng.uniform(-0.5, 0.5, s).astype(np.float32) for s in shapes]


def loop(cell: str, h: int, reverse: bool) -> tuple[Callable[..., Any], Callable[[int, int], Arrays]]:
    """(all steps, the last state and all gradients but those of weights; inputs of n sequences of t steps)."""
    kind = CELLS[cell]
    w, b = draws((kind.gates * h, h), (kind.gates * h,))

    def fn(xp: Tensor, state: Tensor, g: Tensor) -> list[Tensor]:
        ys, last = recurrence(cell, xp, [state[k] for k in range(kind.states)], tensor(w.astype(xp.dtype)),
                              tensor(b.astype(xp.dtype)), reverse)
        return [ys, *last, *gradients(F.sum(ys * g) + F.sum(last[0] * last[-1]), [xp, state])]

    return fn, lambda n, t: draws((t, n, kind.gates * h), (kind.states, n, h), (t, n, h))


@pytest.mark.parametrize(("cell", "h", "reverse", "sizes"), [
    ("lstm", 20, False, SMALL), ("lstm", 16, True, MIDDLE), ("gru", 17, False, MIDDLE), ("tanh", 5, True, SMALL),
    ("relu", 8, False, SMALL)])
def test_the_loop_over_time(engine: Any, serves_all: Any, cell: str, h: int, reverse: bool,
                            sizes: Sequence[tuple[int, int]]) -> None:
    """A sequence is computed alone, a step's sums run over the units in order: to the last bit. A GPU's compiler, which
    knows the sizes or does not, rounds some products with their sums and some before (seen on an H100: one ulp).
    """
    fn, inputs = loop(cell, h, reverse)
    serves_all(fn, [inputs(n, t) for n, t in sizes], alone=0 if engine.device.is_cpu else 1e-6)


@pytest.mark.parametrize(("cell", "h", "reverse", "sizes"), [
    ("lstm", 20, True, MIDDLE), ("gru", 17, False, MIDDLE), ("lstm", 8, False, SMALL), ("tanh", 5, True, SMALL)])
def test_the_loop_over_time_of_gpus(engine: Any, as_gpu: Any, serves_all: Any, cell: str, h: int, reverse: bool,
                                    sizes: Sequence[tuple[int, int]]) -> None:
    """Work-groups of a few sequences, as many as the typical number of a class wants; other numbers of them may have
    the compiler join other products and sums.
    """
    if engine.device.runtime == "pocl":
        pytest.skip("kernels of GPUs are built where they build quickly")
    fn, inputs = loop(cell, h, reverse)
    with clnet.on(engine if engine.device.is_gpu else as_gpu(engine, max_work_group=256, compute_units=8)):
        recorded = serves_all(fn, [inputs(n, t) for n, t in sizes], alone=1e-6)
        plan = recorded.prepare(*inputs(*sizes[-1])).plan
    assert {"recurrence", "recurrence_gradient"} <= {launch.name for launch in plan.launches}


@pytest.mark.parametrize("sizes", [[(n, 6) for n in (20, 17, 65, 256)], [(9, t) for t in (20, 17, 65, 256)],
                                   [(n, 4) for n in (300, 257, 700)]])
def test_one_axis_alone(serves_all: Any, sizes: Sequence[tuple[int, int]]) -> None:
    """The number of sequences, that of steps, and more sequences than go through time at once."""
    fn, inputs = loop("lstm", 8, False)
    serves_all(fn, [inputs(n, t) for n, t in sizes])


def trained(layer: Any, features: int) -> Callable[..., Any]:
    """x, … -> (y, the gradients of x and of all parameters) of a layer."""
    clnet.init.seed(0)
    weights = [p.tensor for p in clnet.Sequential([layer]).build((3, features)).parameters()]

    def fn(x: Tensor, *more: Tensor) -> list[Tensor]:
        with no_tape():
            y = layer(x, *more)
        return [y, *gradients(F.sum(y * y), [x, *weights])]

    return fn


@pytest.mark.parametrize("layer", [
    L.LSTM(hidden_size=12), L.GRU(hidden_size=8, num_layers=2, return_sequences=False),
    L.Bidirectional(layer=L.GRU(hidden_size=8)), L.RNN(hidden_size=8)], ids=["lstm", "gru", "bidirectional", "rnn"])
def test_layers_with_and_without_lengths(serves_all: Any, layer: Any) -> None:
    """A weight's gradient adds up as many terms as there are steps, in blocks that a class of sizes may cut elsewhere.
    """
    fn, rng = trained(layer, 6), np.random.default_rng(0)
    sizes = [(20, 33), (17, 29), (61, 17), (19, 100)]
    serves_all(fn, [draws((n, t, 6)) for n, t in sizes], alone=2e-6, digits=5e-6)
    serves_all(fn, [[*draws((n, t, 6)), rng.integers(0, t + 1, n).astype(np.int32)] for n, t in sizes], alone=2e-6,
               digits=5e-6)


@pytest.mark.parametrize("packed", [False, True])
def test_alignments(serves_all: Any, packed: bool) -> None:
    """(the loss, its gradient) of n samples of t frames with up to s labels."""
    def fn(x: Tensor, targets: Tensor, frames: Tensor, labels: Tensor) -> list[Tensor]:
        y = ctc(F.log_softmax(x), targets, frames, labels)
        return [y, *gradients(F.sum(y), [x])]

    def inputs(n: int, t: int, s: int) -> Arrays:
        rng = np.random.default_rng((n, t, s))
        targets = rng.integers(1, 11, (n, s)).astype(np.int32)
        labels = np.maximum(s - np.arange(n) % 3, 0).astype(np.int32)
        frames = np.maximum(t - np.arange(n) % 4, 1).astype(np.int32)
        if packed:
            targets = np.concatenate([line[:count] for line, count in zip(targets, labels, strict=True)])
        return [rng.normal(size=(t, n, 11)).astype(np.float32), targets, frames, labels]

    serves_all(fn, [inputs(*sizes) for sizes in ((6, 14, 5), (5, 11, 6), (7, 16, 5), (8, 9, 4), (13, 15, 3))],
               digits=1e-5)
