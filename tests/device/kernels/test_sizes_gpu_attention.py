"""Attention on GPUs whose batch and lengths vary: one set of programs for a class of sizes, on GPUs, and on CPUs that
play one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clnet
import clnet.ops as F
from clnet.core.autodiff import gradients
from clnet.ops.attention import attention

NEAR = 2e-5  # of float32, beside the largest result
NARROW = 4e-2  # of operands, weights and their gradients in 16 bits


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def heads(x: Any, h: int) -> Any:
    """(batch, time, h · d) as (batch, h, time, d): a view."""
    b, t, width = x.shape
    return F.permute(F.reshape(x, (b, t, h, width // h)), 0, 2, 1, 3)


def attended(h: int, hk: int, causal: bool) -> Callable[..., tuple[Any, ...]]:
    """(queries, keys, values, mask or none) -> results and gradients of all operands."""
    def fn(q: Any, k: Any, v: Any, *mask: Any) -> tuple[Any, ...]:
        operands = heads(q, h), heads(k, hk), heads(v, hk)
        y = attention(*operands, mask=mask[0] if mask else None, causal=causal)
        return y, *gradients(F.sum(y * y), [q, k, v])

    return fn


def operands(b: int, t: int, s: int, h: int, hk: int, d: int, e: int) -> tuple[np.ndarray[Any, Any], ...]:
    return normal(b, t, h * d), normal(b, s, hk * d, seed=1), normal(b, s, hk * e, seed=2)


@pytest.fixture
def gpu(engine: Any, as_gpu: Callable[..., Any]) -> Any:
    if not engine.compiles or engine.device.runtime == "pocl":
        pytest.skip("kernels of GPUs are built where they build quickly")
    return engine if engine.device.is_gpu else as_gpu(engine, max_work_group=256, compute_units=4)


def kernels(recorded: Any, given: Any) -> set[str]:
    return {launch.name for launch in recorded.prepare(*given).plan.launches}


# (batch, queries, keys) in turn; every one is another shape of the class of the first
SELF = [(3, 40, 40), (2, 33, 33), (5, 64, 64), (4, 17, 17), (16, 70, 70), (7, 128, 128)]
CROSS = [(3, 20, 40), (2, 33, 21), (5, 64, 65), (4, 100, 17), (3, 19, 256)]
SHORT = [(20, 3, 5), (17, 2, 7), (33, 16, 4), (100, 7, 13), (18, 15, 16)]


@pytest.mark.parametrize(("shapes", "h", "hk", "d", "e", "causal"), [
    (SELF, 2, 2, 8, 8, True), (SELF, 4, 2, 5, 7, False), (CROSS, 2, 1, 8, 12, True), (CROSS, 2, 2, 32, 32, False),
    (SHORT, 2, 2, 4, 4, True), (SHORT, 3, 1, 9, 6, False)])
def test_every_batch_and_length(gpu: Any, serves_all: Any, shapes: Any, h: int, hk: int, d: int, e: int,
                                causal: bool) -> None:
    """Features in whole vectors and not, heads that share keys, more queries than keys and fewer."""
    if shapes is SELF:  # queries and keys are of one length, and one axis that varies
        shapes = [(b, t, t) for b, t, _ in shapes]
    given = [operands(b, t, s, h, hk, d, e) for b, t, s in shapes]
    with clnet.on(gpu):
        recorded = serves_all(attended(h, hk, causal), given, NEAR, NEAR)
        assert kernels(recorded, given[-1]) >= {"forward", "backward"}


@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_masks_of_every_length(gpu: Any, serves_all: Any, kind: str) -> None:
    def masked(b: int, t: int, s: int) -> tuple[np.ndarray[Any, Any], ...]:
        m = normal(t, s, seed=3)
        m[:, 0] = 1
        return *operands(b, t, s, 2, 2, 8, 8), m if kind == "float32" else m > 0

    given = [masked(b, t, s) for b, t, s in CROSS]
    with clnet.on(gpu):
        serves_all(attended(2, 2, False), given, NEAR, NEAR)


def narrow(dtype: str, h: int) -> Callable[..., tuple[Any, ...]]:
    """Operands that are 16-bit numbers, and a result that is."""
    def fn(q: Any, k: Any, v: Any) -> tuple[Any, ...]:
        y = attention(*(heads(F.cast(x, dtype), h) for x in (q, k, v)), causal=True)
        return tuple(F.cast(a, "float32") for a in (y, *gradients(F.sum(F.cast(y, "float32") * 0.1), [q, k, v])))

    return fn


@pytest.mark.parametrize("d", [32, 64, 128])
@pytest.mark.parametrize("kind", ["bf16", "bfloat16", "float16"])
def test_tensor_cores(engine: Any, serves_all: Any, kind: str, d: int) -> None:
    """Operands as they lie, and rounded first; 64 features and fewer take Hopper's instructions there."""
    if not engine.device.ampere:
        pytest.skip("no tensor cores that clnet can use")
    given = [operands(b, t, s, 2, 2, d, d) for b, t, s in SELF + [(3, 256, 256)]]
    if kind == "bf16":
        with clnet.precision(kind):
            serves_all(attended(2, 2, True), given, NARROW, NARROW)
    else:
        serves_all(narrow(kind, 2), given, NARROW, NARROW)


@pytest.mark.parametrize("kind", ["bf16", "float16"])
def test_a_cpu_plays_tensor_cores(tensor_cores: Any, serves_all: Any, kind: str) -> None:
    engine = tensor_cores(True, compute_units=4)
    given = [operands(b, t, t, 2, 2, 32, 32) for b, t in ((3, 40), (2, 33), (5, 17), (4, 70))]
    with clnet.on(engine):
        if kind == "bf16":
            with clnet.precision(kind):
                recorded = serves_all(attended(2, 2, True), given, NARROW, NARROW)
                assert "attention_pack" in kernels(recorded, given[-1])
        else:
            serves_all(narrow(kind, 2), given, NARROW, NARROW)
