"""Attention of sequences one after another: PyTorch's values and gradients sequence by sequence, one plan for all
totals and numbers of sequences, the kernels of GPUs, what the work grows with.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import Tensor, realize, tensor
from clnet.engine.explain import explain
from clnet.engine.reference import NumpyEngine
from clnet.ops.attention import attention

Lengths = Sequence[int]
NEAR = 2e-5  # of float32, beside the largest result


def edges(lengths: Lengths) -> np.ndarray[Any, Any]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def draws(queries: Lengths, keys: Lengths, h: int, hk: int, d: int, e: int) -> list[np.ndarray[Any, Any]]:
    """q, k, v and the cotangent of the result."""
    rng = np.random.default_rng((len(queries), sum(queries), sum(keys)))
    t, s = sum(queries), sum(keys)
    return [rng.uniform(-2, 2, shape).astype(np.float32) for shape in ((t, h, d), (s, hk, d), (s, hk, e), (t, h, e))]


# lengths of queries, of keys, heads, key heads, features of keys, of values, causal
CASES = [((3, 0, 2), (3, 0, 2), 2, 2, 4, 3, False), ((5, 7, 1), (9, 7, 4), 4, 2, 8, 8, True),
         ((1,), (1,), 1, 1, 1, 1, False), ((300, 1, 70), (290, 30, 0), 2, 1, 64, 32, False),
         ((0, 300, 1, 0, 70, 512), (3, 310, 30, 2, 70, 512), 2, 1, 17, 33, True),
         ((2,) * 70, (3,) * 70, 1, 1, 5, 5, True), ((7, 0, 5), (4, 6, 5), 2, 2, 300, 4, True)]


def theirs(queries: Lengths, keys: Lengths, arrays: Sequence[Any], causal: bool) -> list[Any]:
    """PyTorch's attention of one sequence after the other, and its gradients, in float64."""
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch")
    q, k, v = (torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays[:3])
    found = []
    for own, walked in zip(itertools.pairwise(edges(queries)), itertools.pairwise(edges(keys)), strict=True):
        heads = [x[a:b].transpose(0, 1)[None] for x, (a, b) in ((q, own), (k, walked), (v, walked))]
        t, s = own[1] - own[0], walked[1] - walked[0]
        seen = torch.ones(t, s, dtype=torch.bool).tril(s - t) if causal else torch.ones(t, s, dtype=torch.bool)
        y = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=seen, enable_gqa=True)
        found.append(torch.where(seen.any(1)[:, None], y, 0.0)[0].transpose(0, 1))
    y = torch.cat(found)
    slopes = torch.autograd.grad((y * torch.tensor(arrays[3], dtype=torch.float64)).sum(), (q, k, v))
    return [y.detach().numpy(), *(g.numpy() for g in slopes)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_attention_of_each_sequence(engine: Any, case: Any) -> None:
    queries, keys, h, hk, d, e, causal = case
    arrays = draws(queries, keys, h, hk, d, e)
    q, k, v, g = map(tensor, arrays)
    y = F.packed_attention(q, k, v, edges(queries), edges(keys), causal=causal)
    found = [y, *gradients(F.sum(y * g), [q, k, v])]
    realize(*found)
    for mine, oracle in zip(found, theirs(queries, keys, arrays, causal), strict=True):
        assert np.abs(mine.numpy() - oracle).max(initial=0) <= NEAR * max(1.0, np.abs(oracle).max(initial=0))


@pytest.mark.parametrize("case", CASES[:6], ids=str)
def test_the_gpu_kernels(engine: Any, as_gpu: Any, case: Any) -> None:
    """Work-groups and local memory, on whatever device."""
    if not engine.compiles:
        pytest.skip("the NumPy engine has no kernels")
    queries, keys, h, hk, d, e, causal = case
    q, k, v, g = map(tensor, draws(queries, keys, h, hk, d, e))
    y = F.packed_attention(q, k, v, edges(queries), edges(keys), causal=causal)
    outputs = [y, *gradients(F.sum(y * g), [q, k, v])]
    gpu = engine if engine.device.is_gpu else as_gpu(engine, compute_units=4)
    for mine, oracle in zip(gpu.values(outputs), NumpyEngine().values(outputs), strict=True):
        assert np.abs(mine - oracle).max(initial=0) <= NEAR * max(1.0, np.abs(oracle).max(initial=0))


SELF: list[Lengths] = [(3, 9, 20), (17, 1, 2, 5, 40), (40, 2), (2,) * 14, (100, 30, 5, 0, 8)]
LONG: list[Lengths] = [(300, 20, 7), (290, 1, 1, 40), (257, 0, 300), (30,) * 14]


def attended(causal: bool) -> Any:
    def fn(x: Tensor, g: Tensor, offsets: Tensor) -> list[Tensor]:
        """Heads that are strided views of one projection."""
        q, k, v = F.split(x, 3, 2)
        y = F.packed_attention(q, k, v, offsets, causal=causal)
        return [y, *gradients(F.sum(y * g), [x])]

    return fn


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [SELF, LONG], ids=["short", "long"])
def test_every_total_and_number_of_sequences(serves_all: Any, lengths: list[Lengths], causal: bool) -> None:
    given = []
    for own in lengths:
        q, k, v, g = draws(own, own, 2, 2, 8, 8)
        given.append([np.concatenate([q, k, v], 2), g, edges(own)])
    serves_all(attended(causal), given, alone=NEAR, digits=NEAR)


def test_every_total_on_gpus(engine: Any, as_gpu: Any, serves_all: Any) -> None:
    if not engine.compiles or engine.device.runtime == "pocl":
        pytest.skip("kernels of GPUs are built where they build quickly")
    given = []
    for own in SELF:
        q, k, v, g = draws(own, own, 2, 2, 8, 8)
        given.append([np.concatenate([q, k, v], 2), g, edges(own)])
    with clnet.on(engine if engine.device.is_gpu else as_gpu(engine, max_work_group=256, compute_units=4)):
        serves_all(attended(True), given, alone=NEAR, digits=NEAR)


def test_sequences_of_one_length_are_a_batch(engine: Any) -> None:
    q, k, v, _ = draws((9,) * 4, (9,) * 4, 2, 2, 8, 8)
    padded = attention(*(F.permute(tensor(a.reshape(4, 9, 2, 8)), 0, 2, 1, 3) for a in (q, k, v)), causal=True)
    y = F.packed_attention(q, k, v, edges((9,) * 4), causal=True).numpy()
    assert np.abs(F.permute(padded, 0, 2, 1, 3).numpy().reshape(y.shape) - y).max() <= 1e-6


def test_a_sequence_sees_nothing_of_others(engine: Any) -> None:
    """To the last bit, whatever stands there."""
    q, k, v, _ = draws((40, 30, 50), (40, 30, 50), 2, 2, 8, 8)
    y = F.packed_attention(q, k, v, edges((40, 30, 50))).numpy()
    for a in (q, k, v):
        a[:40], a[70:] = np.nan, np.inf
    assert np.array_equal(F.packed_attention(q, k, v, edges((40, 30, 50))).numpy()[40:70], y[40:70])


def test_rows_behind_the_last_sequence_belong_to_none(engine: Any) -> None:
    """Where offsets come from the device, which nobody can refuse: they give zeros, and take no part in gradients."""
    q, k, v, g = map(tensor, draws((9, 6), (9, 6), 2, 2, 8, 8))
    offsets = F.cast(tensor(np.array([0, 4, 11], np.float32)), "int32")
    y = F.packed_attention(q, k, v, offsets)
    found = [y, *gradients(F.sum(y * g), [q, k, v])]
    realize(*found)
    assert all((a.numpy()[11:] == 0).all() and (a.numpy()[:11] != 0).any() for a in found)


def test_one_launch_forward_and_nothing_of_all_with_all(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("the NumPy engine has no launches")
    q, k, v, g = map(tensor, draws((700, 900), (700, 900), 2, 2, 8, 8))
    offsets = tensor(edges((700, 900)))
    y = F.packed_attention(q, k, v, offsets)
    read = F.matmul(F.reshape(y, (1600, 16)), tensor(np.ones((16, 5), np.float32)))  # where the result lies
    assert len(explain(read).launches) == 2
    found = explain(*gradients(F.sum(y * g), [q, k, v]))
    assert found.plan.arena < 1600 * 1600 * 4  # [bytes] of the scores of one head


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_are_computed_in_float32(engine: Any, dtype: str) -> None:
    q, k, v, _ = (F.cast(a, dtype) for a in draws((9, 20), (9, 20), 2, 2, 8, 8))
    y = F.packed_attention(q, k, v, edges((9, 20)))
    wide = F.packed_attention(*(F.cast(a, "float32") for a in (q, k, v)), edges((9, 20)))
    assert y.dtype == dtype
    assert np.array_equal(F.cast(y, "float32").numpy(), F.cast(F.cast(wide, dtype), "float32").numpy())
