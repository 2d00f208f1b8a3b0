"""Attention: PyTorch's values and gradients, masks, rows with nothing to attend, the kernels of GPUs, launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.op import OPS
from clnet.core.tensor import realize, tensor
from clnet.engine.explain import explain
from clnet.engine.reference import NumpyEngine
from clnet.ops.attention import attention
from clnet.workbench.evidence import checks

rng = np.random.default_rng(11)


def near(a: Any, b: Any, tol: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(np.float32)


# batch, query heads, key heads, queries, keys, features, causal, masked
CASES = [(2, 3, 3, 5, 5, 8, False, False), (2, 4, 4, 7, 7, 16, True, False), (1, 4, 2, 5, 9, 8, True, True),
         (2, 4, 1, 3, 6, 4, False, True), (1, 2, 2, 40, 70, 32, True, False), (1, 1, 1, 1, 1, 1, False, False),
         (1, 2, 1, 150, 300, 24, True, True), (1, 1, 1, 290, 140, 5, False, True),
         (2, 4, 2, 3, 40, 8, True, True), (1, 2, 2, 1, 9, 4, False, False)]  # few queries: products


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_is_pytorchs(engine: Any, case: Any) -> None:
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch")
    n, h, hk, t, s, d, causal, masked = case
    arrays = [normal(n, h, t, d), normal(n, hk, s, d), normal(n, hk, s, d)]
    allowed = np.ones((n, h, t, s), bool)
    if masked:
        allowed &= rng.random((n, 1, t, s)) > 0.3
        allowed[..., 0] = True
    mask = tensor(allowed.copy()) if masked else None
    if causal:
        allowed &= np.arange(s)[None] <= np.arange(t)[:, None] + s - t
    xs = [tensor(a) for a in arrays]
    ts = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]
    y = attention(*xs, mask=mask, causal=causal)
    theirs = torch.nn.functional.scaled_dot_product_attention(*ts, attn_mask=torch.tensor(allowed), enable_gqa=True)
    g = normal(*y.shape)
    (theirs * torch.tensor(g)).sum().backward()
    found = gradients(F.sum(y * tensor(g)), xs)
    realize(y, *found)
    near(y.numpy(), theirs.detach().numpy())
    for mine, leaf in zip(found, ts, strict=True):
        near(mine.numpy(), leaf.grad.numpy(), 1e-4)


def gpu_kernels(engine: Any, case: Any, more: int = 3) -> None:
    """The reference's values and gradients; values have so many features more than keys."""
    n, h, hk, t, s, d, causal, masked = case
    shapes = (n, h, t, d), (n, hk, s, d), (n, hk, s, d + more), (n, h, t, d + more)
    q, k, v, g = (tensor(normal(*shape)) for shape in shapes)
    y = attention(q, k, v, mask=tensor(rng.random((t, s)) > 0.3) if masked else None, causal=causal)
    outputs = [y, *gradients(y, [q, k, v], g)]
    for mine, oracle in zip(engine.values(outputs), NumpyEngine().values(outputs), strict=True):
        near(mine, oracle, 1e-4)


@pytest.mark.parametrize("case", CASES[1:5], ids=str)
def test_the_gpu_kernels(engine: Any, as_gpu: Any, case: Any) -> None:
    """Work-groups and local memory, on whatever device."""
    if not engine.compiles:
        pytest.skip("the NumPy engine has no kernels")
    gpu_kernels(as_gpu(engine), case)


@pytest.mark.parametrize("case", [(1, 4, 2, 150, 200, 8, True, False), (1, 2, 1, 200, 130, 12, True, False),
                                  (2, 2, 2, 70, 140, 8, False, False)], ids=str)
@pytest.mark.parametrize("played", [False, True])
def test_the_gpu_kernels_copy_ahead(tensor_cores: Any, played: bool, case: Any) -> None:
    """Copies past the registers into rows that the items before no longer read:
    several tiles, several heads of a group.
    """
    gpu_kernels(tensor_cores(played), case, more=4)


def test_a_bias_of_the_scores_has_a_gradient(engine: Any) -> None:
    """A float mask that broadcasts, and heads that are strided views of one projection."""
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch")
    bias, x, g = normal(3, 1, 6), normal(2, 6, 3 * 24), normal(2, 3, 6, 8)

    def ours(x: Any) -> Any:
        return [F.permute(F.reshape(part, (2, 6, 3, 8)), 0, 2, 1, 3) for part in F.split(x, 3, 2)]

    mine, mask = tensor(x), tensor(bias)
    y = attention(*ours(mine), mask=mask, scale=0.3)
    found = gradients(F.sum(y * tensor(g)), [mine, mask])
    theirs, their_mask = (torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, bias))
    q, k, v = (part.reshape(2, 6, 3, 8).transpose(1, 2) for part in theirs.split(24, 2))
    z = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=their_mask, scale=0.3)
    (z * torch.tensor(g)).sum().backward()
    near(y.numpy(), z.detach().numpy())
    for a, leaf in zip(found, (theirs, their_mask), strict=True):
        near(a.numpy(), leaf.grad.numpy(), 1e-4)


@pytest.mark.parametrize("keys", [4, 32])
def test_rows_with_nothing_to_attend_give_zero(engine: Any, keys: int) -> None:
    q, k, v = (tensor(normal(1, 2, n, 8)) for n in (4, keys, keys))
    mask = np.ones((4, keys), bool)
    mask[1] = False
    y = attention(q, k, v, mask=tensor(mask))
    assert (y.numpy()[:, :, 1] == 0).all() and (y.numpy()[:, :, 0] != 0).all()
    for g in gradients(F.sum(y * y), [q, k, v]):
        assert np.isfinite(g.numpy()).all()
    added = np.where(mask, 0, -np.inf).astype(np.float32)
    near(attention(q, k, v, mask=tensor(added)).numpy(), y.numpy())


@pytest.mark.parametrize("queries", [1, 4, 5])
def test_few_queries_agree_with_many(engine: Any, queries: int) -> None:
    """Those of a longer sequence's end, with a mask that learns, as far as products serve them and beyond."""
    q, k, v = tensor(normal(2, 4, 40, 8)), tensor(normal(2, 2, 40, 8)), tensor(normal(2, 2, 40, 6))
    bias = tensor(normal(40, 40))
    for mask in (None, bias):
        leaves = [k, v] if mask is None else [k, v, mask]
        some = attention(q[:, :, -queries:], k, v, mask=None if mask is None else mask[-queries:], causal=True)
        whole = attention(q, k, v, mask=mask, causal=True)[:, :, -queries:]
        values = [engine.values([y, *gradients(F.sum(y * y), leaves)]) for y in (some, whole)]
        for a, b in zip(*values, strict=True):
            near(a, b, 1e-4)


def test_attention_of_large_scores(engine: Any) -> None:
    q, k, v = (tensor(a) for a in (1e4 * normal(1, 1, 4, 8), normal(1, 1, 6, 8), normal(1, 1, 6, 8)))
    y = attention(q, k, v)
    best = np.argmax(q.numpy() @ k.numpy().swapaxes(-1, -2), -1)[0, 0]
    near(y.numpy()[0, 0], v.numpy()[0, 0][best], 1e-4)


def test_attention_launches(engine: Any) -> None:
    """One kernel forward; scale, mask and causal rule cost no launch,
    and a product that follows reads the result where it lies.
    """
    if not engine.compiles:
        pytest.skip("the NumPy engine has no launches")
    q, k, v = (tensor(normal(2, 4, 16, 8)) for _ in range(3))
    w, mask = tensor(normal(32, 5)), tensor(np.ones((16, 16), bool))
    for y in (attention(q, k, v), attention(q, k, v, mask=mask, causal=True)):
        joined = F.reshape(F.permute(y, 0, 2, 1, 3), (2, 16, 32))
        assert len(explain(F.matmul(joined, w)).launches) == 2


def test_attention_keeps_no_scores(engine: Any) -> None:
    """The memory of a forward and backward pass is that of operands and gradients: (T × S) is in no buffer."""
    if not engine.compiles:
        pytest.skip("the NumPy engine has no plans")
    t, s = 96, 160
    q, k, v = (tensor(normal(1, 2, n, 8)) for n in (t, s, s))
    y = attention(q, k, v, causal=True)
    plan = explain(y, *gradients(F.sum(y), [q, k, v])).plan
    operands = sum(x.size * 4 for x in (q, k, v))
    assert plan.arena + sum(plan.blocks.values()) < 3 * operands + 8192 < 2 * t * s * 4


@pytest.mark.parametrize("name", ["attention", "masked_attention", "attention_gradient", "masked_attention_gradient"])
def test_the_kernel_of_gpus_keeps_nan_and_infinity(name: str, engine: Any, as_gpu: Any) -> None:
    if engine.device.is_host:
        pytest.skip("the host engine has no kernels")
    engine = engine if engine.device.kind == "gpu" else as_gpu(engine)
    result = checks.extremes(OPS[name], engine)
    assert result, str(result)
