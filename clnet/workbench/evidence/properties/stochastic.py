"""Layers that draw random numbers: a row each. What they draw follows the stated law, evaluation draws nothing,
backward has forward's draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....core.tensor import tensor
from ....layers.base import Layer
from ..registry import Subject
from ..results import Result
from . import equal, holds, true

SIZE = (200, 300)
SIGMAS = 5  # of the mean of SIZE draws: a right layer fails one seed in a million, and the seed is fixed
Array = np.ndarray[Any, Any]


def layer_of(subject: Subject) -> Layer:
    """The first example's layer with the same draws in every run."""
    layer: Layer = subject.thing(**subject.thing.examples[0][0])
    layer.random.seed(2011)
    return layer


def drawn(layer: Layer, shape: tuple[int, ...] = SIZE) -> tuple[Array, Array]:
    """y and ∂Σy/∂x for x = 1."""
    x = tensor(np.ones(shape, np.float32))
    y = layer(x)
    return y.numpy(), layer.backward(np.ones(y.shape, np.float32)).numpy()


def _common(layer: Layer) -> Iterator[Result]:
    first, second = drawn(layer)[0], drawn(layer)[0]
    yield true(not np.array_equal(first, second), "two calls draw the same")
    x = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
    yield equal(layer.eval()(x).numpy(), x, note="evaluation is not the identity")


def masked(name: str, kept: Callable[[Any], float], units: Callable[[Array], Array] = np.ravel,
           shape: tuple[int, ...] = SIZE) -> None:
    """y = x · m / q, m ~ Bernoulli(q), q = kept(layer). `units` picks from y one element for each independent draw
    (channels: one of each).
    """

    @holds("layer", name)
    def survivors(subject: Subject) -> Iterator[Result]:
        layer = layer_of(subject)
        q, (y, slope) = kept(layer), drawn(layer, shape)
        yield equal(y[y != 0], np.float32(1 / q), note="survivors are not scaled by 1 / (1 − p)")
        m = units(y) != 0
        yield true(abs(m.mean() - q) <= SIGMAS * np.sqrt(q * (1 - q) / m.size),
                   f"{m.mean():.4f} of {m.size} are kept, expected {q}")
        yield equal(slope, y, note="backward has another mask than forward")
        yield from _common(layer)


def added(name: str, mean: Callable[[Any], float], std: Callable[[Any], float]) -> None:
    """y = x + n, n ~ N(mean, std²)."""

    @holds("layer", name)
    def noise(subject: Subject) -> Iterator[Result]:
        layer = layer_of(subject)
        y, slope = drawn(layer)
        n = (y - 1.0 - mean(layer)) / std(layer)
        # of a standard normal, and their variances
        for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
            yield true(abs((n**power).mean() - moment) <= SIGMAS * np.sqrt(spread / n.size),
                       f"moment {power} is {(n**power).mean():.4f}, expected {moment}")
        yield equal(slope, 1.0, note="backward is not the identity")
        yield from _common(layer)


masked("Dropout", lambda c: 1 - c.p)
added("GaussianNoise", lambda c: c.mean, lambda c: c.std)
