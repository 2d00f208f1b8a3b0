"""Layers over sequences one after another: what the same sequences give padded, and PyTorch's packed sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import layers as L
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import Tensor, realize, tensor
from clnet.layers.base import no_tape

LENGTHS = np.array([3, 20, 1, 33, 6], np.int32)
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int32)
STEPS = np.where(np.arange(36) < LENGTHS[:, None], OFFSETS[:-1, None] + np.arange(36), -1).astype(np.int32)
THERE = STEPS >= 0
X = np.random.default_rng(0).normal(size=(OFFSETS[-1], 8)).astype(np.float32)
NEAR = 2e-6  # forward, of numbers about 1


def padded() -> np.ndarray[Any, Any]:
    found = np.zeros((*STEPS.shape, X.shape[1]), np.float32)
    found[THERE] = X
    return found


def alike(layer: Any, beside: Any, other: Any, steps: bool = True) -> None:
    """Packed x beside `beside` and padded x beside `other` give the same, and the same gradients of it and of all
    parameters. That of a bias of keys is 0 but for rounding: it shifts all scores of a query alike.
    """
    x, z = tensor(X), tensor(padded())
    with no_tape():
        mine, want = layer(x, beside), layer(z, other)
    counts = THERE[..., None].astype(np.float32) if steps else np.float32(1)
    keys = getattr(getattr(layer, "self_attn", layer), "b_k", None)
    weights = [p.tensor for p in layer.parameters() if p is not keys]
    a = gradients(F.sum(F.sin(mine)), [x, *weights])
    b = gradients(F.sum(F.sin(want) * counts), [z, *weights])
    realize(mine, want, *a, *b)
    assert mine.shape == (len(X) if steps else len(LENGTHS), want.shape[-1])
    assert np.abs(mine.numpy() - (want.numpy()[THERE] if steps else want.numpy())).max() <= NEAR
    assert np.abs(a[0].numpy() - b[0].numpy()[THERE]).max() <= 5 * NEAR * max(1, np.abs(b[0].numpy()).max())
    for p, q in zip(a[1:], b[1:], strict=True):
        assert np.abs(p.numpy() - q.numpy()).max() <= 5 * NEAR * max(1, np.abs(q.numpy()).max())


RECURRENT: dict[str, Callable[..., Any]] = {
    "lstm": lambda **k: L.LSTM(hidden_size=16, num_layers=2, **k), "gru": lambda **k: L.GRU(hidden_size=17, **k),
    "tanh": lambda **k: L.RNN(hidden_size=16, **k),
    "relu": lambda **k: L.RNN(hidden_size=5, nonlinearity="relu", **k),
    "both": lambda **k: L.Bidirectional(layer=L.LSTM(hidden_size=16, **k))}


@pytest.mark.parametrize("sequences", [True, False], ids=["steps", "last"])
@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_layers(engine: Any, kind: str, sequences: bool) -> None:
    clnet.init.seed(0)
    alike(RECURRENT[kind](return_sequences=sequences), STEPS, LENGTHS, sequences)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beside", [OFFSETS, STEPS], ids=["offsets", "steps"])
def test_an_encoder_block(engine: Any, beside: Any, causal: bool) -> None:
    clnet.init.seed(0)
    mask = np.broadcast_to(THERE[:, None], (5, 36, 36))
    block = L.TransformerEncoderBlock(num_heads=2, d_ff=24, dropout=0.0, causal=causal)
    alike(block, beside, mask & np.tril(np.ones((36, 36), bool)) if causal else mask)


def test_an_lstm_is_pytorchs(engine: Any) -> None:
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch")
    clnet.init.seed(0)
    layer = L.LSTM(hidden_size=16, return_state=True)
    mine = layer(X, STEPS)
    theirs = torch.nn.LSTM(8, 16, batch_first=True).double()
    with torch.no_grad():
        for name, p in zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), (
                layer.layers[0].w_ih, layer.layers[0].w_hh, layer.layers[0].b_ih, layer.layers[0].b_hh), strict=True):
            getattr(theirs, name).copy_(torch.tensor(p.numpy()))
        packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(padded()).double(), torch.tensor(LENGTHS),
                                                         batch_first=True, enforce_sorted=False)
        y, (h, c) = theirs(packed)
        y = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=36)[0].numpy()[THERE]
    for a, b in zip(mine, (y, h.numpy(), c.numpy()), strict=True):
        assert np.abs(a.numpy() - b).max() <= NEAR


def test_an_initial_state(engine: Any) -> None:
    clnet.init.seed(0)
    layer, h = L.GRU(hidden_size=7, return_sequences=False), np.full((1, 5, 7), 0.25, np.float32)
    assert np.abs(layer(X, STEPS, h).numpy() - layer(padded(), h, LENGTHS).numpy()).max() <= NEAR


def test_empty_sequences(engine: Any) -> None:
    """They have no rows, and the last state of one is its first."""
    clnet.init.seed(0)
    offsets = np.array([0, 0, 4, 4, 9, 9], np.int32)
    layer = L.LSTM(hidden_size=7, return_sequences=False)
    y, want = layer(X[:9], F.packed_steps(offsets)), layer(np.stack([X[:4], X[4:8]]), np.array([4, 4]))
    assert (y.numpy()[[0, 2, 4]] == 0).all() and np.abs(y.numpy()[1] - want.numpy()[0]).max() <= NEAR
    block = L.SelfAttention(num_heads=2)
    assert np.abs(block(X[:9], offsets).numpy()[:4] - block(X[None, :4]).numpy()[0]).max() <= NEAR


def test_a_decoder_block(engine: Any) -> None:
    """Memory has lengths of its own: each sequence by itself gives the same."""
    clnet.init.seed(0)
    block = L.TransformerDecoderBlock(num_heads=2, d_ff=24, dropout=0.0)
    ends, memory = np.array([0, 5, 6, 15, 15, 20]), np.random.default_rng(1).normal(size=(20, 8)).astype(np.float32)
    y = block(X, memory, OFFSETS, ends).numpy()
    for k in (0, 1, 2, 4):  # the fourth has nothing to attend to
        a, b = slice(OFFSETS[k], OFFSETS[k + 1]), slice(ends[k], ends[k + 1])
        assert np.abs(block(X[None, a], memory[None, b]).numpy()[0] - y[a]).max() <= NEAR


def test_dropout_of_weights_is_of_each_sequence(engine: Any) -> None:
    """With p so small that nothing is dropped, what is padded by the steps is what the kernel gives."""
    for causal in (False, True):
        clnet.init.seed(0)
        kept = L.MultiHeadAttention(num_heads=2, causal=causal)
        want = kept(X, None, None, STEPS).numpy()
        clnet.init.seed(0)
        dropped = L.MultiHeadAttention(num_heads=2, causal=causal, dropout=1e-7)
        assert np.abs(dropped(X, None, None, STEPS).numpy() - want).max() <= NEAR


def test_there_and_back(engine: Any) -> None:
    y = F.pad_packed(X, STEPS)
    assert np.array_equal(y.numpy(), padded())
    assert np.array_equal(F.pack_padded(y, STEPS, len(X)).numpy(), X)
    assert np.array_equal(F.packed_steps(OFFSETS, longest=36).numpy(), STEPS)
    assert np.array_equal(F.packed_steps(OFFSETS).numpy(), STEPS[:, :33])


def test_one_plan_for_all_totals(serves_all: Any) -> None:
    """The sequences and their total vary; the longest is as many steps, as PackedSequences rounds it."""
    clnet.init.seed(0)
    layer = L.LSTM(hidden_size=6)
    layer(X, STEPS)
    weights = [p.tensor for p in layer.parameters()]

    def fn(x: Tensor, steps: Tensor) -> list[Tensor]:
        with no_tape():
            y = layer(x, steps)
        return [y, *gradients(F.sum(F.sin(y)), [x, *weights])]

    given = []
    for lengths in ((3, 9, 12, 1), (12, 12), (5,) * 9, (7, 0, 11), (2, 9, 8, 1, 3)):
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        t = np.arange(12)
        steps = np.where(t < np.array(lengths)[:, None], ends[:-1, None] + t, -1).astype(np.int32)
        given.append([np.resize(X, (ends[-1], 8)), steps])
    serves_all(fn, given, alone=1e-5, digits=1e-5)
