"""CPUs with other vectors than this one's: what the heuristics choose for eight lanes (AVX2), four (SSE, NEON),
two and one (processors without vectors) computes the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine.reference import NumpyEngine

rng = np.random.default_rng(5)


@pytest.fixture(params=[8, 4, 2, 1])
def narrow(engine: Any, request: pytest.FixtureRequest) -> Any:
    profile = engine.device
    if profile.kind != "cpu" or profile.runtime == "pocl" or profile.vector_width <= request.param:
        pytest.skip("needs a CPU of wider vectors that compiles fast")
    from clnet.engine.opencl import OpenCLEngine

    return OpenCLEngine(dataclasses.replace(profile, vector_width=request.param))


def normal(*shape: int) -> Any:
    return tensor(rng.standard_normal(shape, np.float32))


def convolved(stride: int, groups: int) -> Callable[..., Any]:
    return lambda x, w: F.conv(x, w, stride=stride, padding=1, groups=groups)


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "matmul": (lambda x, w: x @ w, [(37, 65), (65, 131)]),
    "matmul of transposes": (lambda x, w: x.mT @ w.mT, [(300, 70), (90, 300)]),
    "batched matmul": (lambda x, w: x @ w, [(3, 20, 30), (3, 30, 17)]),
    "conv": (convolved(1, 1), [(2, 5, 9, 11), (12, 5, 3, 3)]),
    "conv as Winograd": (convolved(1, 1), [(2, 20, 13, 14), (24, 20, 3, 3)]),
    "conv, stride 2": (convolved(2, 1), [(2, 16, 13, 14), (24, 16, 3, 3)]),
    "conv, depthwise": (convolved(1, 9), [(2, 9, 13, 14), (9, 1, 3, 3)]),
    "conv, depthwise, stride 2": (convolved(2, 9), [(2, 9, 13, 14), (9, 1, 3, 3)]),
    "max pool": (lambda x: F.max_pool(x, 2), [(2, 3, 10, 21)]),
    "softmax": (lambda x: F.softmax(x), [(9, 61)]),
    "layer norm": (lambda x, g, b: F.layer_norm(x, g, b), [(9, 61), (61,), (61,)]),
    "gelu": (lambda x: F.gelu(x), [(301,)]),
    "attention": (lambda q, k, v: F.attention(q, k, v, causal=True), [(2, 2, 21, 12)] * 3),
}


@pytest.mark.cheap
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(narrow: Any, name: str) -> None:
    f, shapes = CASES[name]
    xs = [normal(*s) for s in shapes]
    y = f(*xs)
    outputs = [y, *gradients(y, xs, normal(*y.shape))]
    for mine, oracle in zip(narrow.values(outputs), NumpyEngine().values(outputs), strict=True):
        np.testing.assert_allclose(mine, oracle, rtol=2e-5, atol=2e-5 * max(1.0, float(np.abs(oracle).max())))
