"""Attention, recurrent cells and scan: PyTorch's values and gradients, masks, long """

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.autodiff import gradients
from clnet.engine.inspect import explain
from clnet.engine.reference import NumpyEngine
from clnet.errors import ShapeError
from clnet.op import OPS
from clnet.ops.attention import attention
from clnet.ops.scan import gru_cell, lstm_cell, recur, rnn_cell, scan, zero_state
from clnet.tensor import realize, tensor
from clnet.workbench import checks

rng = np.random.default_rng(11)


def near(a: Any, b: Any, tol: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(np.float32)


# batch, query heads, key heads, queries, keys, features, causal, masked
CASES = [(2, 3, 3, 5, 5, 8, False, False), (2, 4, 4, 7, 7, 16, True, False), (1, 4, 2, 5, 9, 8, True, True), (2, 4, 1, 3, 6, 4, False, True),
         (1, 2, 2, 40, 70, 32, True, False), (1, 1, 1, 1, 1, 1, False, False), (1, 2, 1, 150, 300, 24, True, True), (1, 1, 1, 290, 140, 5, False, True)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_is_pytorchs(device: Any, case: Any) -> None:
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
    q, k, v, g = (tensor(normal(*shape)) for shape in ((n, h, t, d), (n, hk, s, d), (n, hk, s, d + more), (n, h, t, d + more)))
    y = attention(q, k, v, mask=tensor(rng.random((t, s)) > 0.3) if masked else None, causal=causal)
    outputs = [y, *gradients(y, [q, k, v], g)]
    for mine, oracle in zip(engine.values(outputs), NumpyEngine().values(outputs), strict=True):
        near(mine, oracle, 1e-4)


@pytest.mark.parametrize("case", CASES[1:5], ids=str)
def test_the_gpu_kernels(device: Any, as_gpu: Any, case: Any) -> None:
    """Work-groups and local memory, on whatever device."""
    if not hasattr(device, "plans"):
        pytest.skip("the NumPy engine has no kernels")
    gpu_kernels(as_gpu(device), case)


@pytest.mark.parametrize("case", [(1, 4, 2, 150, 200, 8, True, False), (1, 2, 1, 200, 130, 12, True, False), (2, 2, 2, 70, 140, 8, False, False)], ids=str)
@pytest.mark.parametrize("played", [False, True])
def test_the_gpu_kernels_copy_ahead(tensor_cores: Any, played: bool, case: Any) -> None:
    """Copies past the registers into rows that the items before no longer read: several tiles, several heads of a group."""
    gpu_kernels(tensor_cores(played), case, more=4)


def test_a_bias_of_the_scores_has_a_gradient(device: Any) -> None:
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


def test_rows_with_nothing_to_attend_give_zero(device: Any) -> None:
    q, k, v = (tensor(normal(1, 2, 4, 8)) for _ in range(3))
    mask = np.ones((4, 4), bool)
    mask[1] = False
    y = attention(q, k, v, mask=tensor(mask))
    assert (y.numpy()[:, :, 1] == 0).all() and (y.numpy()[:, :, 0] != 0).all()
    for g in gradients(F.sum(y * y), [q, k, v]):
        assert np.isfinite(g.numpy()).all()
    added = np.where(mask, 0, -np.inf).astype(np.float32)
    near(attention(q, k, v, mask=tensor(added)).numpy(), y.numpy())


def test_attention_of_large_scores(device: Any) -> None:
    q, k, v = (tensor(a) for a in (1e4 * normal(1, 1, 4, 8), normal(1, 1, 6, 8), normal(1, 1, 6, 8)))
    y = attention(q, k, v)
    best = np.argmax(q.numpy() @ k.numpy().swapaxes(-1, -2), -1)[0, 0]
    near(y.numpy()[0, 0], v.numpy()[0, 0][best], 1e-4)


def test_attention_launches(device: Any) -> None:
    """One kernel forward; scale, mask and causal rule cost no launch, and a product that follows reads the result where it lies."""
    if not hasattr(device, "plans"):
        pytest.skip("the NumPy engine has no launches")
    q, k, v = (tensor(normal(2, 4, 16, 8)) for _ in range(3))
    w, mask = tensor(normal(32, 5)), tensor(np.ones((16, 16), bool))
    for y in (attention(q, k, v), attention(q, k, v, mask=mask, causal=True)):
        joined = F.reshape(F.permute(y, 0, 2, 1, 3), (2, 16, 32))
        assert len(explain(F.matmul(joined, w)).launches) == 2


def test_attention_keeps_no_scores(device: Any) -> None:
    """The memory of a forward and backward pass is that of operands and gradients: (T × S) is in no buffer."""
    if not hasattr(device, "plans"):
        pytest.skip("the NumPy engine has no plans")
    t, s = 96, 160
    q, k, v = (tensor(normal(1, 2, n, 8)) for n in (t, s, s))
    y = attention(q, k, v, causal=True)
    plan = explain(y, *gradients(F.sum(y), [q, k, v])).plan
    operands = sum(x.size * 4 for x in (q, k, v))
    assert plan.arena + sum(plan.blocks.values()) < 3 * operands + 8192 < 2 * t * s * 4


def test_attention_refuses() -> None:
    q = tensor(normal(1, 3, 4, 8))
    with pytest.raises(ShapeError, match="multiple of key heads"):
        attention(q, normal(1, 2, 4, 8), normal(1, 2, 4, 8))
    with pytest.raises(ShapeError, match="broadcasts to"):
        attention(q, q, q, mask=np.ones((5, 5), bool))
    with pytest.raises(ShapeError, match="4 axes"):
        attention(normal(4, 8), normal(4, 8), normal(4, 8))


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrent_layers_are_pytorchs(device: Any, name: str, reverse: bool) -> None:
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch")
    t, b, i, h = 5, 3, 4, 6
    module = getattr(torch.nn, name)(i, h).double()
    cell = {"RNN": rnn_cell, "LSTM": lstm_cell, "GRU": gru_cell}[name]
    x, g = normal(t, b, i), normal(t, b, h)
    theirs_x = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    theirs = module(theirs_x.flip(0) if reverse else theirs_x)[0]
    theirs = theirs.flip(0) if reverse else theirs
    (theirs * torch.tensor(g)).sum().backward()
    weights = [tensor(p.detach().numpy().astype(np.float32)) for p in module.parameters()]
    mine = tensor(x)
    y, _ = recur(cell, mine, zero_state(cell, b, h), *weights, reverse=reverse)
    found = gradients(F.sum(y * tensor(g)), [mine, *weights])
    realize(y, *found)
    near(y.numpy(), theirs.detach().numpy())
    for ours, leaf in zip(found, [theirs_x, *module.parameters()], strict=True):
        near(ours.numpy(), leaf.grad.numpy(), 1e-4)


def test_lengths_hold_the_state(device: Any) -> None:
    """Padding changes nothing: outputs after the end are 0, and the last state is that of the end."""
    t, b, h, lengths = 6, 3, 5, np.array([6, 2, 4])
    x, w_ih, w_hh = normal(t, b, h), normal(h, h), normal(h, h)
    for reverse in (False, True):
        y, last = recur(rnn_cell, x, zero_state(rnn_cell, b, h), w_ih, w_hh, reverse=reverse, lengths=lengths)
        for k, n in enumerate(lengths):
            alone, end = recur(rnn_cell, x[:n, k : k + 1], zero_state(rnn_cell, 1, h), w_ih, w_hh, reverse=reverse)
            near(y.numpy()[:n, k], alone.numpy()[:, 0])
            near(last.numpy()[k], end.numpy()[0])
            assert (y.numpy()[n:, k] == 0).all()


def test_a_step_is_a_product_and_a_map(device: Any) -> None:
    if not hasattr(device, "plans") or device.device.kind == "gpu":
        pytest.skip("the NumPy engine has no launches; a GPU may add the parts of a product in a second one")
    t, b, h = 8, 16, 24
    x = tensor(normal(t, b, h))
    for cell, gates, each in ((rnn_cell, 1, 1), (lstm_cell, 4, 2), (gru_cell, 3, 2)):
        y, _ = recur(cell, x, zero_state(cell, b, h), normal(gates * h, h), normal(gates * h, h))
        assert len(explain(y).launches) <= each * t + 4


def test_a_thousand_steps(device: Any) -> None:
    """No recursion anywhere: recording, differentiating, planning."""
    x = tensor(normal(1000, 2))
    last, ys = scan(lambda s, x: (0.9 * s + x, s), tensor(np.zeros(2, np.float32)), x)
    (g,) = gradients(F.sum(last), [x])
    want, s = [], np.zeros(2)
    for row in x.numpy():
        want.append(s)
        s = 0.9 * s + row
    near(last.numpy(), s, 1e-4)
    near(ys.numpy(), want, 1e-4)
    near(g.numpy()[:, 0], 0.9 ** np.arange(999, -1, -1.0), 1e-4)


def test_scan_over_several_series(device: Any) -> None:
    a, b = tensor(normal(4, 3)), tensor(normal(4, 3))
    (p, q), ys = scan(lambda s, x: ((s[0] + x[0], s[1] * x[1]), s[0] * s[1]), (tensor(np.zeros(3, "f4")), tensor(np.ones(3, "f4"))), (a, b))
    near(p.numpy(), a.numpy().sum(0))
    near(q.numpy(), b.numpy().prod(0))
    assert ys.shape == (4, 3)
    with pytest.raises(ShapeError, match="one length"):
        scan(lambda s, x: (s, s), a[0], (a, b[:2]))


@pytest.mark.parametrize("name", ["attention", "masked_attention", "attention_gradient", "masked_attention_gradient"])
def test_the_kernel_of_gpus_keeps_nan_and_infinity(name: str, device: Any, as_gpu: Any) -> None:
    if device.device.is_host:
        pytest.skip("the host engine has no kernels")
    engine = device if device.device.kind == "gpu" else as_gpu(device)
    result = checks.extremes(OPS[name], engine)
    assert result, str(result)
