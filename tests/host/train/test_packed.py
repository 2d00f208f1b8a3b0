"""Packed sequences as data: what a batch holds, budgets of tokens, what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet.errors import ConfigError, DataError, ShapeError
from clnet.layers import LSTM, SelfAttention
from clnet.ops import pack_padded, packed_steps, pad_packed
from clnet.train import Batches, PackedSequences

X = [np.arange(10 * n, 10 * n + n, dtype=np.float32) for n in (3, 1, 0, 4)]
TAGS = [np.arange(len(a)) for a in X]


def test_a_batch_holds_nothing_but_the_sequences() -> None:
    (x, steps), y = PackedSequences(X, TAGS, multiple_of=1).rows(np.array([3, 0]))
    assert x.tolist() == [40, 41, 42, 43, 30, 31, 32] and y.tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert steps.tolist() == [[0, 1, 2, 3], [4, 5, 6, -1]] and steps.dtype == np.int32
    (x, offsets), y = PackedSequences(X, np.arange(4), beside="offsets").rows(slice(0, 3))
    assert x.tolist() == [30, 31, 32, 10] and offsets.tolist() == [0, 3, 4, 4] and y.tolist() == [0, 1, 2]
    assert offsets.dtype == np.int32
    assert len(PackedSequences(X, TAGS, beside=None).rows(slice(0, 3))[0]) == 1


def test_the_longest_is_rounded() -> None:
    """So that loops over time are of few lengths: a quarter of the longest unless said otherwise."""
    data = PackedSequences([np.zeros(n) for n in (1, 11, 40)])
    assert [data.rows([k])[0][1].shape for k in range(3)] == [(1, 10), (1, 20), (1, 40)]
    assert PackedSequences([np.zeros(3)], multiple_of=8).rows([0])[0][1].shape == (1, 8)


@pytest.mark.parametrize("bucket", [True, False])
def test_tokens_are_steps_that_are_there(bucket: bool) -> None:
    lengths = np.random.default_rng(0).integers(0, 50, 200)
    data = PackedSequences([np.zeros((n, 2)) for n in lengths])
    batches = Batches(data, tokens=128, bucket=bucket)
    cuts = batches.cuts(0)
    assert sorted(np.concatenate(cuts)) == list(range(200))
    sums = [int(lengths[part].sum()) for part in cuts]
    assert max(sums) <= 128
    assert len(cuts) <= lengths.sum() / 128 * 1.5  # padded to their longest, unsorted ones would take twice as many
    assert [x[0].shape for x, _ in batches] == [(n, 2) for n in sums]
    assert {shape[2] for shape in batches.shapes()} == set(sums)


def test_pieces_are_packed_as_well() -> None:
    data = PackedSequences(X, TAGS)
    train, test = data.split(1)
    assert type(train) is type(test) is type(data[:2]) is PackedSequences
    assert len(train) + len(test) == 4 and data[3][1].tolist() == [0, 1, 2, 3]
    assert repr(data) == "<PackedSequences data: 4 of 0 to 4 steps, x float32[T], y int32[] a step>"
    assert [len(a) for a in data.y] == [3, 1, 0, 4] and data.total == 8 and data.weight(data.rows([0])[1]) == 3
    assert data.place(4, targets=True) == "sequence 3, step 0"


def test_what_cannot_be() -> None:
    wrong: Any = "lengths"
    with pytest.raises(ConfigError, match=r"PackedSequences\(beside='lengths'\): expected 'steps', 'offsets' or None"):
        PackedSequences(X, beside=wrong)
    with pytest.raises(DataError, match="expected 3 targets for the 3 steps of sequence 0"):
        PackedSequences(X, [np.arange(2), *TAGS[1:]])
    with pytest.raises(DataError, match="allow tokens=4"):
        Batches(PackedSequences(X), tokens=3)


def test_layers_and_ops_say_what_they_take() -> None:
    x, steps = np.zeros((5, 3), np.float32), np.array([[0, 1, -1], [2, 3, 4]])
    with pytest.raises(ShapeError, match=r"LSTM: expected steps, integers \(N, T\), beside packed values \(5, 3\)"):
        LSTM(hidden_size=2)(x, np.ones((2, 3), bool))
    with pytest.raises(ShapeError, match=r"rise from 0 to 5.*got 0 to 4"):
        LSTM(hidden_size=2)(x, np.array([0, 2, 4]))
    for wrong, got in (([[0, 1, -1], [2, 3, -1]], "4 of them"), ([[1, 0, -1], [2, 3, 4]], "another order"),
                       ([[0, -1, 1], [2, 3, 4]], "others behind a -1"), ([[0, 1, -2], [2, 3, 4]], "others behind")):
        with pytest.raises(ShapeError, match=f"LSTM: expected steps.* the 5 rows in their order.*got {got}"):
            LSTM(hidden_size=2)(x, np.array(wrong))
    with pytest.raises(ShapeError, match=r"SelfAttention: expected integer offsets \(N \+ 1\), or steps"):
        SelfAttention(num_heads=1)(x, np.ones((5, 5), bool))
    with pytest.raises(ShapeError, match=r"pad_packed: expected steps \(N, T\).*PackedSequences"):
        pad_packed(x, steps[None])
    with pytest.raises(ShapeError, match=r"pack_padded: expected x \(N, T, ...\) and steps"):
        pack_padded(x, steps, 5)
    with pytest.raises(ShapeError, match="got 3 before 2"):
        packed_steps(np.array([0, 3, 2]))
