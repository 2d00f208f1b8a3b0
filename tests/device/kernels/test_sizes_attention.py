"""Attention takes batches, queries and keys as arguments of its kernels: one plan for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import layers as L
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import Tensor
from clnet.layers.base import no_tape

SMALL = [(5, 7, 9), (3, 4, 8), (2, 3, 2), (16, 15, 16), (7, 2, 13)]
MIDDLE = [(4, 33, 40), (3, 17, 31), (2, 251, 256), (13, 64, 65), (16, 18, 17)]
LARGE = [(3, 300, 290), (2, 257, 331), (5, 521, 260)]


def draws(n: int, h: int, hk: int, t: int, s: int, d: int, e: int) -> list[np.ndarray[Any, Any]]:
    """q, k, v and the cotangent of the result."""
    rng = np.random.default_rng((n, t, s))
    shapes = (n, h, t, d), (n, hk, s, d), (n, hk, s, e), (n, h, t, e)
    return [rng.uniform(-2, 2, shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize(("h", "hk", "d", "e", "causal", "sizes"), [
    (2, 2, 17, 33, False, SMALL), (4, 2, 8, 8, True, SMALL), (2, 2, 32, 32, True, MIDDLE),
    (4, 1, 16, 24, False, MIDDLE), (2, 1, 16, 16, True, LARGE)])
def test_batches_queries_and_keys(serves_all: Any, h: int, hk: int, d: int, e: int, causal: bool,
                                  sizes: Sequence[tuple[int, int, int]]) -> None:
    """A row's sums run over keys in order, in blocks of a size that is the same for all of a class: to the last bit."""
    def fn(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
        y = F.attention(q, k, v, causal=causal)
        return [y, *gradients(F.sum(y * g), [q, k, v])]

    serves_all(fn, [draws(n, h, hk, t, s, d, e) for n, t, s in sizes], digits=5e-6)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(serves_all: Any, kind: str) -> None:
    """The mask of a batch, of each head alike: keys that count; or what is added to the scores."""
    def fn(q: Tensor, k: Tensor, v: Tensor, g: Tensor, mask: Tensor) -> list[Tensor]:
        y = F.attention(q, k, v, mask)
        return [y, *gradients(F.sum(y * g), [q, k, v, *([mask] if kind == "float" else [])])]

    def inputs(n: int, t: int, s: int) -> list[np.ndarray[Any, Any]]:
        rng = np.random.default_rng((n, t, s))
        mask = rng.random((n, 1, 1, s)) < 0.7 if kind == "bool" else rng.normal(size=(n, 2, t, s)).astype(np.float32)
        return [*draws(n, 2, 2, t, s, 16, 16), mask]

    serves_all(fn, [inputs(*sizes) for sizes in MIDDLE], alone=2e-6, digits=5e-6)


@pytest.mark.parametrize("sizes", [[(n, 20, 20) for n in (4, 3, 16, 2)], [(3, t, t) for t in (20, 17, 128, 255)]])
def test_one_axis_alone(serves_all: Any, sizes: Sequence[tuple[int, int, int]]) -> None:
    def fn(x: Tensor) -> list[Tensor]:
        y = F.attention(x, x, x, causal=True)
        return [y, *gradients(F.sum(y * y), [x])]

    serves_all(fn, [draws(n, 2, 2, t, s, 16, 16)[:1] for n, t, s in sizes], digits=5e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_an_encoder_block(serves_all: Any, causal: bool) -> None:
    """Gradients of weights add up as many terms as there are tokens, in blocks that a class of sizes may cut elsewhere.
    That of the keys' bias is left out: it shifts all scores of a query alike, so that its gradient is 0, and what is
    computed of it is rounding alone.
    """
    clnet.init.seed(0)
    block = L.TransformerEncoderBlock(num_heads=2, d_ff=48, dropout=0.0, causal=causal)
    parameters = clnet.Sequential([block]).build((3, 16)).parameters()
    weights = [p.tensor for p in parameters if p is not block.self_attn.b_k]
    assert len(weights) == len(parameters) - 1

    def fn(x: Tensor, *mask: Tensor) -> list[Tensor]:
        with no_tape():
            y = block(x, *mask)
        return [y, *gradients(F.sum(F.sin(y)), [x, *weights])]

    def inputs(n: int, t: int) -> list[np.ndarray[Any, Any]]:
        rng = np.random.default_rng((n, t))
        return [rng.normal(size=(n, t, 16)).astype(np.float32), *([] if causal else [rng.random((n, 1, t)) < 0.8])]

    sizes = [(4, 33), (3, 17), (2, 251), (13, 64)]
    serves_all(fn, [inputs(*size) for size in sizes], alone=1e-5, digits=2e-5)
