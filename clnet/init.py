"""Initial values of parameters. All draws come from one explicit generator: `seed(n)` makes a network reproducible."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .errors import ConfigError
from .names import guide as _guide

PIECE = 1 << 14  # numbers that are drawn at once: their memory is in the caches when the next are drawn
_generator = np.random.default_rng(0)


def seed(n: int) -> None:
    """Restarts the generator that new layers draw their parameters from. Raises ConfigError."""
    if not isinstance(n, (int, np.integer)) or n < 0:
        raise ConfigError(f"seed: expected a whole number of at least 0; got {n!r}.")
    global _generator
    _generator = np.random.default_rng(n)


@contextlib.contextmanager
def seeded(n: int) -> Iterator[None]:
    """Layers that are made inside draw as after `seed(n)`; those made later as if there had been none of these."""
    global _generator
    before = _generator
    seed(n)
    try:
        yield
    finally:
        _generator = before


def generator() -> np.random.Generator:
    return _generator


def _drawn(shape: tuple[int, ...], draw: Callable[[int], Any]) -> np.ndarray[Any, Any]:
    """draw(count) in float32: a piece at a time, which gives the same numbers without all of them in float64."""
    flat = np.empty(math.prod(shape), np.float32)
    for start in range(0, flat.size, PIECE):
        flat[start : start + PIECE] = draw(min(PIECE, flat.size - start))
    return flat.reshape(shape)


def uniform(shape: tuple[int, ...], limit: float) -> np.ndarray[Any, Any]:
    """U(−limit, limit)"""
    return _drawn(shape, functools.partial(_generator.uniform, -limit, limit))


def normal(shape: tuple[int, ...], std: float = 1.0, mean: float = 0.0) -> np.ndarray[Any, Any]:
    """N(mean, std²)"""
    return _drawn(shape, functools.partial(_generator.normal, mean, std))


def fan(shape: tuple[int, ...]) -> tuple[int, int]:
    """(fan in, fan out) of a weight (out, in, *kernel)."""
    field = math.prod(shape[2:])
    return shape[1] * field if len(shape) > 1 else shape[0], shape[0] * field


def orthogonal(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Q of the QR decomposition of a normal matrix, signs made unique.  Saxe et al. 2014, arXiv:1312.6120."""
    rows, columns = shape[0], math.prod(shape[1:])
    q, r = np.linalg.qr(_generator.normal(size=(max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))
    return (q if rows >= columns else q.T).reshape(shape).astype(np.float32)


def pattern(rows: int, columns: int, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(row, column) of `count` places of a matrix, drawn without replacement, in row-major order; int32."""
    places = np.sort(_generator.choice(rows * columns, count, replace=False, shuffle=False))
    return (places // columns).astype(np.int32), (places % columns).astype(np.int32)


def singular_pair(matrix: np.ndarray[Any, Any], least: int = 15,
                  most: int = 100) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(u, v) of the largest singular value: u ← W v / ‖W v‖, v ← Wᵀ u / ‖Wᵀ u‖ from a random v, until they stand still.
    """
    w, v = matrix.astype(np.float64), _generator.normal(size=matrix.shape[1])
    u = np.zeros(len(w))
    for k in range(most):
        before = u
        u = w @ v / max(float(np.linalg.norm(w @ v)), 1e-12)
        v = w.T @ u / max(float(np.linalg.norm(w.T @ u)), 1e-12)
        if k >= least and np.abs(u - before).max() < 1e-9:
            break
    return u.astype(np.float32), v.astype(np.float32)


def sinusoids(length: int, width: int, period: float = 10000.0) -> np.ndarray[Any, Any]:
    """pe[t, 2i] = sin(t / period^(2i / width)), pe[t, 2i + 1] = cos(same).  Vaswani et al. 2017, arXiv:1706.03762."""
    angle = np.arange(length)[:, None] / period ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(length, -1)[:, :width].astype(np.float32)


def frequencies(count: int, period: float = 10000.0) -> np.ndarray[Any, Any]:
    """wᵢ = period^(−i / count), i = 0 … count − 1.  Ho et al. 2020, arXiv:2006.11239."""
    return (period ** (-np.arange(count) / count)).astype(np.float32)


_guide(__name__)
