"""Linear maps over octonions and in the hyperbolic ball, and mixtures of experts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....ops.hyperbolic import distance, exp0
from ..registry import Subject, draw
from ..results import Result
from . import equal, holds, true

TOLERANCE = 1e-5
Array = np.ndarray[Any, Any]


def _points(n: int, d: int, name: str) -> Array:
    """Points of the unit ball, norms up to 0.8."""
    (x,) = draw([(n, d)], name)
    return np.asarray(x * np.float32(0.4) / np.sqrt(np.float32(d)))


@holds("layer", "OctonionLinear")
def norms_multiply(subject: Subject) -> Iterator[Result]:
    """|w · x| = |w| |x|, and w · (w · x) = (w · w) · x: octonions are a normed, alternative algebra."""
    w, x = draw([(1, 1, 8), (6, 8)], "octonions")

    def times(a: Array) -> Any:
        layer = subject.thing(in_features=1, out_features=1, bias=False)
        layer.weight.assign(a.reshape(1, 1, 8))
        return layer

    y = times(w)(x).numpy()
    yield equal(np.linalg.norm(y, axis=1), np.linalg.norm(w) * np.linalg.norm(x, axis=1), TOLERANCE,
                "|w x| is not |w| |x|")
    square = times(w)(w.reshape(1, 8)).numpy()
    yield equal(times(w)(y).numpy(), times(square)(x).numpy(), TOLERANCE, "w (w x) is not (w w) x")


@holds("layer", "HyperbolicLinear")
def distances_from_the_origin(subject: Subject) -> Iterator[Result]:
    """W = 2 doubles the distance from the origin;
    ⊕ exp₀(b) moves the origin to −exp₀(b) as far as distances from it go.
    """
    x, origin = _points(5, 3, "ball"), np.zeros(3, np.float32)
    twice = subject.thing(in_features=3, out_features=3, bias=False)
    twice.weight.assign(2 * np.eye(3, dtype=np.float32))
    yield equal(distance(origin, twice(x)).numpy(), 2 * distance(origin, x).numpy(), 1e-4,
                "the distance is not doubled")
    same = subject.thing(in_features=3, out_features=3)
    same.weight.assign(np.eye(3, dtype=np.float32))
    yield equal(distance(origin, same(x)).numpy(), distance(-exp0(same.bias), x).numpy(), 1e-4,
                "the bias is no translation")


@holds("layer", "MixtureOfExperts")
def equal_experts_are_one(subject: Subject) -> Iterator[Result]:
    """Shares add up to 1: experts with the same parameters give what one of them gives, however many are chosen."""
    (x,) = draw([(6, 4)], "tokens")
    for top_k in (0, 1, 2):
        layer = subject.thing(experts=[{"type": "Dense", "in_features": 4, "out_features": 3}] * 3, in_features=4,
                              top_k=top_k)
        for expert in layer.experts[1:]:
            expert.weight.assign(layer.experts[0].weight.tensor)
            expert.bias.assign(layer.experts[0].bias.tensor)
        yield equal(layer(x).numpy(), layer.experts[0](x).numpy(), TOLERANCE,
                    f"shares of top_k={top_k} do not add up to 1")


@holds("layer", "MixtureOfExperts")
def the_best_are_chosen(subject: Subject) -> Iterator[Result]:
    """With constant experts 1, 10, 100, 1000 and scores that tie,
    y shows who was chosen: the largest, then the lower number.
    """
    layer = subject.thing(experts=[{"type": "Dense", "in_features": 2, "out_features": 1}] * 4, in_features=2, top_k=2)
    for e, expert in enumerate(layer.experts):
        expert.weight.assign(np.zeros((1, 2), np.float32))
        expert.bias.assign(np.full(1, 10.0**e, np.float32))
    layer.gate.weight.assign(np.array([[0, 0], [0, 1], [0, 1], [1, 1]], np.float32))
    y = layer(np.array([[0, 0], [0, 1], [1, 0]], np.float32)).numpy()[:, 0]
    e = np.exp(1.0)
    yield equal(y, [(1 + 10) / 2, (10 + 100) / 2, (1 + 1000 * e) / (1 + e)], TOLERANCE, "others were chosen")
    unused = np.abs(layer.backward(np.ones((3, 1), np.float32)).numpy()).sum() > 0
    yield true(unused, "no gradient reaches the scores")
