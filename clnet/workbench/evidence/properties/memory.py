"""Memories that learn at paces of their own, or by predicting what comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..registry import Subject, draw
from ..results import Result
from . import equal, holds, true

Array = np.ndarray[Any, Any]
CALLS = 7


def chain(values: Sequence[Array], x: Array) -> list[Array]:
    """x, W₁ x + b₁, W₂ (W₁ x + b₁) + b₂, … of values (W₁, b₁, W₂, b₂, …)."""
    found = [x]
    for w, b in zip(values[::2], values[1::2], strict=True):
        found.append(found[-1] @ w.T + b)
    return found


def slopes(values: Sequence[Array], x: Array, g: Array) -> list[Array]:
    """The gradients of ⟨g, the last of the chain⟩ to its values, in their order."""
    found: list[Array] = []
    for h, w in zip(reversed(chain(values, x)[:-1]), reversed(values[::2]), strict=True):
        found = [g.T @ h, g.sum(0), *found]
        g = g @ w
    return found


@holds("layer", "ContinuumMemory")
def levels_move_when_they_are_due(subject: Subject) -> Iterator[Result]:
    """Calls of local_update down ½ |y|² against a loop: level 1 in every third, level 2 in every one; then
    consolidate.
    """
    layer = subject.thing(in_features=3, hidden_features=3, num_levels=2, update_frequencies=(1, 3),
                          level_lrs=(0.05, 0.02), activation=None)
    (x,) = draw([(4, 3)], "levels")
    held = [v for level in layer.levels for v in level.variables().values()]
    values = [np.asarray(v.numpy(), np.float64) for v in held]
    total = [np.zeros_like(v) for v in values]
    for call in range(1, CALLS + 1):
        layer.backward(layer(x).numpy())
        layer.local_update()
        total = [s + g for s, g in zip(total, slopes(values, x, chain(values, x)[-1]), strict=True)]
        for k in range(4):
            if call % (3, 3, 1, 1)[k] == 0:
                values[k], total[k] = values[k] - (0.05, 0.05, 0.02, 0.02)[k] * total[k], np.zeros_like(values[k])
    for v, want in zip(held, values, strict=True):
        yield equal(v.numpy(), want, 1e-5, "a level moved otherwise")
    layer.consolidate(0.25)
    for k in (2, 3):
        yield equal(held[k].numpy(), 0.75 * values[k] + 0.25 * values[k - 2], 1e-5, "a level took another share")


@holds("layer", "TemporalMemory")
def a_sequence_that_repeats_stops_bursting(subject: Subject) -> Iterator[Result]:
    """X B C and Y B D, again and again: at last nothing bursts behind the first pattern, B is other cells after X than
    after Y, and so what comes is known; what was learned stays in evaluation, and X B D bursts where D comes.
    """
    layer = subject.thing(column_count=10, cells_per_column=3, activation_threshold=2, min_threshold=2, max_segments=4,
                          initial_permanence=0.3, max_synapses=4, max_new_synapses=4)
    patterns = np.eye(5, dtype=np.float32).repeat(2, 1)
    for _ in range(6):
        for order in ((0, 1, 2), (3, 1, 4)):
            layer.reset_state()
            y = layer(patterns[list(order)]).numpy()
    layer.eval()
    found = []
    for order in ((0, 1, 2), (3, 1, 4), (0, 1, 4)):
        layer.reset_state()
        y = layer(patterns[list(order)]).numpy()
        found.append(y)
        yield equal(y.sum(1), [6, 2, 2 if order != (0, 1, 4) else 6], note="others burst")
        yield true(float(layer.anomaly.numpy()) == float(order == (0, 1, 4)), "another anomaly")
    yield true(not (found[0][1] * found[1][1]).any(), "B is the same after X and after Y")
    yield equal(found[2][1], found[0][1], note="B after X is not what it was")
    columns = np.kron(patterns[[0, 1, 2]], np.ones(3, np.float32))
    yield true(bool((found[0] <= columns).all()), "a cell of a silent column is active")
