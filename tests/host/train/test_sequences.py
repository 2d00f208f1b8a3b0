"""Samples of several lengths: what a batch of them is, which share one, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from clnet.errors import ConfigError, DataError
from clnet.train import Batches, Dataset, Sequences, data

X = [[1, 2, 3], [4, 5], [6], [], [7, 8, 9, 10, 11]]
Y = [0, 1, 0, 1, 1]


def drawn(count: int = 90, most: int = 40, seed: int = 0, **more: Any) -> Sequences:
    rng = np.random.default_rng(seed)
    x = [rng.integers(1, 50, n) for n in rng.integers(0, most, count)]
    return Sequences(x, [len(s) % 2 for s in x], **more)


def test_a_batch_is_padded_to_its_longest() -> None:
    (x, lengths), y = Sequences(X, Y, padding=-1, multiple_of=2).rows([0, 2, 3])
    assert x.tolist() == [[1, 2, 3, -1], [6, -1, -1, -1], [-1, -1, -1, -1]]
    assert (lengths.tolist(), lengths.dtype, y.tolist()) == ([3, 1, 0], np.int32, [0, 0, 1])
    (x, mask), _ = Sequences(X, Y, beside="mask", multiple_of=1).rows([1, 0])
    assert mask.tolist() == [[True, True, False], [True, True, True]]
    (x,), _ = Sequences(X, Y, beside=None, multiple_of=1).rows(slice(3, 4))
    assert x.tolist() == [[0]]  # a batch of empty ones has a step, which is filled up


def test_targets_of_steps_are_filled_up_with_what_losses_ignore() -> None:
    tags = [[1, 0, 1], [0, 0], [1], [], [0] * 5]
    found = Sequences(X, tags, multiple_of=1)
    assert found.rows([1, 0])[1].tolist() == [[0, 0, -100], [1, 0, 1]]
    assert (found.total, found.weight(found.rows([1, 0])[1])) == (11, 5)
    assert Sequences(X, [np.array(t, bool) for t in tags], ignore=7).rows([2, 1])[1].tolist() == [[1, 7], [0, 0]]
    real = Sequences(X, [np.array(t, float)[:, None] for t in tags], multiple_of=1).rows([2, 1])[1]
    assert np.array_equal(real, [[[1], [np.nan]], [[0], [0]]], equal_nan=True)
    assert real.dtype == np.float32
    assert Sequences(X, [[1, -100, 1], [0, 0], [1], [], [0] * 5]).total == 10


def test_dtypes_are_those_of_the_steps_there_are() -> None:
    assert Sequences([[], [1, 2]], [0, 1]).rows([0, 1])[0][0].dtype == np.int32
    assert Sequences([[1], [0.5, 2]], [0, 1]).rows([0])[0][0].dtype == np.float32
    assert Sequences([np.ones((2, 3), np.float16), []], [0, 1]).rows([1])[0][0].dtype == np.float16
    assert Sequences(pd.Series([[1, 2], [3]]), pd.Series([0, 1])).lengths.tolist() == [2, 1]
    assert Sequences(np.zeros((4, 3, 2)), Y[:4]).rows([0])[0][0].shape == (1, 3, 2)


def test_several_inputs_share_their_lengths() -> None:
    a, b = [[1, 2], [3]], [np.ones((2, 4)), np.zeros((1, 4))]
    (x, z, lengths), _ = Sequences((a, b), [0, 1]).rows([0, 1])
    assert (x.shape, z.shape, lengths.tolist()) == ((2, 2), (2, 2, 4), [2, 1])
    assert [len(p) for p in Sequences((a, b), [0, 1]).x] == [2, 2]


def test_it_is_a_data_set() -> None:
    found = Sequences(X, Y)
    assert [len(found), found[4][0].tolist(), found[-1][1]] == [5, [7, 8, 9, 10, 11], 1]
    assert [s.tolist() for s in found[[4, 1]].x] == [X[4], X[1]]
    assert [s.tolist() for s in found.x] == X
    train, test = found.split(2, seed=1)
    assert sorted(train.lengths.tolist() + test.lengths.tolist()) == [0, 1, 2, 3, 5]
    assert test.multiple_of == found.multiple_of == 2  # parts are padded to the same few lengths
    steps = Sequences(X, X)
    assert [s.tolist() for s in steps[1:3].y] == X[1:3]
    assert repr(steps) == "<Sequences data: 5 of 0 to 5 steps, x int32[T], y int32[] a step>"
    for wrong in (5, "a", [9], slice(5, 9)):
        with pytest.raises(DataError):
            found[wrong]
    assert data.Sequences is Sequences


# --- batches
@pytest.mark.parametrize("how", [dict(size=8), dict(tokens=160), dict(size=8, bucket=False),
                                 dict(tokens=160, bucket=False), dict(size=8, shuffle=False)])
def test_batches_cover_everything_once_and_repeat(how: dict[str, Any]) -> None:
    found = Batches(drawn(), **how, seed=3)
    for epoch in (0, 5):
        assert sorted(found.order(epoch).tolist()) == list(range(90))
        again = Batches(drawn(), **how, seed=3)
        parts = list(found.epoch(epoch))
        for (x, y), (a, b) in zip(parts[2:], again.epoch(epoch, start=2), strict=True):
            assert np.array_equal(x[0], a[0])
            assert y.tolist() == b.tolist()
    assert how.get("shuffle") is False or found.order(0).tolist() != found.order(1).tolist()


def test_buckets_fill_up_little_and_have_few_shapes() -> None:
    found, mixed = Batches(drawn(), 8), Batches(drawn(), 8, bucket=False)
    sizes = [sum(x.size for (x, _), _ in b) for b in (found, mixed)]
    assert sizes[0] < 0.75 * sizes[1]
    shapes = [{x[0].shape for e in range(4) for x, _ in b.epoch(e)} for b in (found, Batches(drawn(), tokens=160))]
    assert len(shapes[0]) <= 4 + 1  # a length each, and the short last batch
    assert len(shapes[1]) <= 2 * 4
    assert len({int(x[0].shape[1]) for x, _ in found}) == 4


@pytest.mark.parametrize("bucket", [True, False])
def test_a_token_budget_is_kept_and_used(bucket: bool) -> None:
    parts = [x.shape for (x, _), _ in Batches(drawn(), tokens=160, bucket=bucket, seed=2)]
    assert all(n * t <= 160 for n, t in parts)
    assert sum(n * t for n, t in parts[:-1]) > 0.75 * 160 * (len(parts) - 1)


def test_a_last_batch_is_short_or_left_out() -> None:
    assert [len(y) for _, y in Batches(drawn(), 8)] == [8] * 11 + [2]
    assert [len(y) for _, y in Batches(drawn(), 8, drop_last=True)] == [8] * 11
    assert [len(y) for _, y in Batches((np.zeros(10), np.zeros(10)), 4, drop_last=True)] == [4, 4]
    assert [len(y) for _, y in Batches((np.zeros(8), np.zeros(8)), 4, drop_last=True)] == [4, 4]


@pytest.mark.parametrize(("samples", "size", "drop_last", "counts"), [
    (10, 4, False, [4, 2]), (10, 4, True, [4]), (8, 4, False, [4]), (3, 4, False, [3])])
def test_how_many_samples_batches_have_is_known_before(samples: int, size: int, drop_last: bool,
                                                       counts: list[int]) -> None:
    found = Batches((np.zeros(samples), np.zeros(samples)), size, drop_last=drop_last)
    assert found.counts() == counts == list(dict.fromkeys(len(y) for _, y in found))


def test_what_a_batch_of_one_shape_is_stays() -> None:
    found = Dataset(np.arange(10), np.arange(10))
    order = np.random.Generator(np.random.Philox(key=[3, 2])).permutation(10)
    assert Batches(found, 4, seed=3).order(2).tolist() == order.tolist()


# --- what is refused
REFUSED: dict[str, tuple[Any, str]] = {
    "text": (lambda: Sequences(["the cat"], [0]), r"x\[0\]: expected numbers; got text, 'the cat'; give every word"),
    "words": (lambda: Sequences([[1], ["the"]], [0, 1]), r"x\[1\]: expected numbers; got text"),
    "numbers": (lambda: Sequences([1, 2], [0, 1]), r"got the number 1; one sequence is a list of one"),
    "no list": (lambda: Sequences(3, [0]), "a list of sequences as x; got 3"),
    "nothing": (lambda: Sequences([], []), "at least one sequence"),
    "no steps": (lambda: Sequences([[], []], [0, 1]), "got 2 empty ones"),
    "too few targets": (lambda: Sequences(X, Y[:4]), r"one target a sequence, 5; got shape \(4,\)"),
    "too few lists": (lambda: Sequences(X, X[:4]), "targets of 5 sequences; got 4"),
    "a step missing": (lambda: Sequences(X, [[1, 2, 3], [1], [1], [], [0] * 5]), "the 2 steps of sequence 1"),
    "nothing counts": (lambda: Sequences([[1]], [[-100]]), "targets that count; got none but -100"),
    "features": (lambda: Sequences([np.ones((2, 3)), np.ones((2, 4))], [0, 1]), r"sequence 1 has \(4,\)"),
    "lengths of inputs": (lambda: Sequences((X, [[1]] * 5), Y), r"expected 3 steps of sequence 0 in x\[1\]"),
    "sequences of inputs": (lambda: Sequences((X, X[:4]), Y), r"expected 5 sequences in x\[1\]"),
    "multiple": (lambda: Sequences(X, Y, multiple_of=0), "multiple_of to be an integer of at least 1"),
    "padding": (lambda: Sequences(X, Y, padding=0.5), "a number that int32 holds"),
    "padding of bytes": (lambda: Sequences([np.array([1], np.uint8)], [0], padding=-1), "a number that uint8 holds"),
    "a long one": (lambda: Batches(Sequences(X, Y, multiple_of=1), tokens=4), "sequence 4 takes 5 steps.*tokens=5"),
    "tokens and size": (lambda: Batches(Sequences(X, Y), 4, tokens=64), "expected one of them"),
    "tokens of one shape": (lambda: Batches((np.zeros((4, 2)), np.zeros(4)), tokens=8), "expected Sequences"),
    "no tokens": (lambda: Batches(Sequences(X, Y), tokens=0), "a whole number of steps"),
    "no full batch": (lambda: Batches(Sequences(X, Y), 64, drop_last=True), "at least one full batch; got 5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(DataError, match=words):
        make()


def test_what_goes_beside() -> None:
    with pytest.raises(ConfigError, match="'lengths', 'mask' or None"):
        Sequences(X, Y, beside="length")  # type: ignore[arg-type]
