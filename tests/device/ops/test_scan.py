"""Scans and recurrent cells: PyTorch's values and gradients, lengths, launches, a thousand steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import realize, tensor
from clnet.engine.explain import explain
from clnet.errors import ShapeError
from clnet.ops import gru_cell, lstm_cell, recur, rnn_cell, scan
from clnet.ops.scan import zero_state

rng = np.random.default_rng(11)


def near(a: Any, b: Any, tol: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrent_layers_are_pytorchs(engine: Any, name: str, reverse: bool) -> None:
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


def test_lengths_hold_the_state(engine: Any) -> None:
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


def test_a_step_is_a_product_and_a_map(engine: Any) -> None:
    if not engine.compiles or engine.device.kind == "gpu":
        pytest.skip("the NumPy engine has no launches; a GPU may add the parts of a product in a second one")
    t, b, h = 8, 16, 24
    x = tensor(normal(t, b, h))
    for cell, gates, each in ((rnn_cell, 1, 1), (lstm_cell, 4, 2), (gru_cell, 3, 2)):
        y, _ = recur(cell, x, zero_state(cell, b, h), normal(gates * h, h), normal(gates * h, h))
        assert len(explain(y).launches) <= each * t + 4


def test_a_thousand_steps(engine: Any) -> None:
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


def test_scan_over_several_series(engine: Any) -> None:
    a, b = tensor(normal(4, 3)), tensor(normal(4, 3))
    (p, q), ys = scan(lambda s, x: ((s[0] + x[0], s[1] * x[1]), s[0] * s[1]),
                      (tensor(np.zeros(3, "f4")), tensor(np.ones(3, "f4"))), (a, b))
    near(p.numpy(), a.numpy().sum(0))
    near(q.numpy(), b.numpy().prod(0))
    assert ys.shape == (4, 3)
    with pytest.raises(ShapeError, match="one length"):
        scan(lambda s, x: (s, s), a[0], (a, b[:2]))
