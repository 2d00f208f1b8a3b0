"""Training on packed sequences: the same losses and results as on padded ones, with nothing filled up."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import numpy as np
import pytest

from clnet import init
from clnet.errors import ShapeError
from clnet.layers import GRU, LSTM, Bidirectional, Dense, Embedding, TransformerEncoderBlock
from clnet.losses import CrossEntropyLoss
from clnet.model import Graph, Input, Model, Sequential
from clnet.optimizers import SGD
from clnet.train import PackedSequences, Sequences, Trainer

RNG = np.random.default_rng(0)
X = [RNG.integers(1, 12, n) for n in (3, 7, 9, 1, 6, 2, 17, 5, 4, 30)]
CLASSES = np.array([len(s) % 3 for s in X])
TAGS = [s % 3 for s in X]
NEAR = 2e-6


def net(steps: bool) -> Graph:
    init.seed(0)
    x, n = Input(), Input()
    h = Embedding(num_embeddings=12, embedding_dim=4)(x)
    h = Bidirectional(layer=LSTM(hidden_size=5))(h, n) if steps else GRU(hidden_size=5, return_sequences=False)(h, n)
    return Model([x, n], Dense(out_features=3)(h))


def attending(dropout: float = 0.0) -> Graph:
    init.seed(0)
    x, n = Input(), Input()
    h = Embedding(num_embeddings=12, embedding_dim=8)(x)
    h = TransformerEncoderBlock(num_heads=2, d_ff=12, dropout=dropout)(h, n)
    return Model([x, n], Dense(out_features=3)(h))


def test_a_target_a_sequence(engine: Any) -> None:
    """Losses, accuracies and predictions are those of padded sequences."""
    found = []
    for kind in (Sequences, PackedSequences):
        trainer = Trainer(net(steps=False), "cross_entropy", SGD(lr=0.1))
        history = trainer.fit(kind(X, CLASSES, multiple_of=1), epochs=2, batch_size=4, verbose=False)
        found.append((history["loss"], trainer.evaluate(kind(X, CLASSES)), trainer.predict(kind(X))))
    (losses, numbers, out), (mine, my_numbers, my_out) = found
    assert np.abs(np.array(losses) - mine).max() <= NEAR * 10
    assert numbers["accuracy"] == my_numbers["accuracy"] and abs(numbers["loss"] - my_numbers["loss"]) <= NEAR * 10
    assert out.shape == my_out.shape == (10, 3) and np.abs(out - my_out).max() <= NEAR * 10


@pytest.mark.parametrize("beside", ["steps", "offsets"])
def test_a_target_a_step(engine: Any, beside: Literal["steps", "offsets"]) -> None:
    """(S, classes) and targets (S): what each step gives, by the loss of float64, in lists of arrays."""
    trainer = Trainer(net(steps=True) if beside == "steps" else attending(), "cross_entropy", SGD(lr=0.1))
    data = PackedSequences(X, TAGS, beside=beside)
    first = trainer.fit(data, epochs=1, tokens=40, verbose=False)["loss"][0]
    assert trainer.fit(data, epochs=8, tokens=40, verbose=False)["loss"][-1] < first
    z = trainer.predict(data)
    assert [a.shape for a in z] == [(len(s), 3) for s in X]
    wide = [a.astype(np.float64) for a in z]
    each = [np.log(np.exp(a).sum(1)) - a[np.arange(len(t)), t] for a, t in zip(wide, TAGS, strict=True)]
    numbers = trainer.evaluate(data, tokens=50)
    assert abs(numbers["loss"] - np.concatenate(each).mean()) <= 1e-5
    hits = np.concatenate([a.argmax(1) == t for a, t in zip(z, TAGS, strict=True)])
    assert abs(numbers["accuracy"] - hits.mean()) <= 1e-6
    for p, a in zip(trainer.predict_proba(data, tokens=35), wide, strict=True):
        assert np.abs(p - np.exp(a) / np.exp(a).sum(1, keepdims=True)).max() <= 1e-6


def test_one_step_serves_all_batches(engine: Any) -> None:
    """Batches of as many tokens as fit differ in sequences and in steps."""
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")
    data = PackedSequences([np.arange(n) % 12 for n in range(20, 60)], [np.arange(n) % 3 for n in range(20, 60)],
                           beside="offsets")
    trainer = Trainer(attending(), "cross_entropy", SGD(lr=0.1))
    trainer.fit(data, epochs=2, tokens=256, verbose=False)
    batches = [tuple(a.shape for a in x) for x, _ in trainer.loop.batches.epoch(0)]
    assert len(set(batches)) > 4 and trainer.steps.train.recorded <= 2


def test_each_by_itself(engine: Any) -> None:
    trainer = Trainer(attending(), "cross_entropy", SGD(lr=0.1))
    whole = trainer.predict(PackedSequences(X, beside="offsets"))
    for s, z in zip(X, whole, strict=True):
        alone = trainer.predict(PackedSequences([s], beside="offsets"))
        assert np.abs(alone[0] - z).max() <= NEAR


def test_labels_that_the_loss_ignores(engine: Any) -> None:
    tags = [np.where(np.arange(len(t)) % 2, -100, t) for t in TAGS]
    trainer = Trainer(net(steps=True), CrossEntropyLoss(ignore_index=-100), SGD(lr=0.1))
    numbers = trainer.evaluate(PackedSequences(X, tags), batch_size=10)
    z = [a.astype(np.float64) for a in trainer.predict(PackedSequences(X))]
    each = [(np.log(np.exp(a).sum(1)) - a[np.arange(len(t)), t])[::2] for a, t in zip(z, TAGS, strict=True)]
    assert abs(numbers["loss"] - np.concatenate(each).mean()) <= 1e-5


def test_dropout_takes_steps(engine: Any) -> None:
    trainer = Trainer(attending(dropout=0.1), "cross_entropy", SGD(lr=0.1))
    assert np.isfinite(trainer.fit(PackedSequences(X, TAGS), epochs=1, verbose=False)["loss"]).all()
    with pytest.raises(ShapeError, match=r"expected steps.*for dropout on attention weights"):
        trainer.fit(PackedSequences(X, TAGS, beside="offsets"), epochs=1, verbose=False)


def test_a_model_without_steps(engine: Any) -> None:
    """Layers that look at each step take packed values as rows."""
    init.seed(0)
    model = Sequential([Embedding(num_embeddings=12, embedding_dim=4), Dense(out_features=3)])
    trainer = Trainer(model, "cross_entropy", SGD(lr=0.1))
    trainer.fit(PackedSequences(X, TAGS, beside=None), epochs=1, verbose=False)
    z = trainer.predict(PackedSequences(X, beside=None))
    assert [len(a) for a in z] == [len(s) for s in X]
    with pytest.raises(ShapeError, match=r"a model of 2 inputs.*steps behind x.*PackedSequences\(x, y, beside=None\)"):
        trainer.fit(PackedSequences(X, TAGS), epochs=1, verbose=False)


def test_validation_and_resumption(engine: Any, tmp_path: Any) -> None:
    """Parts of it are packed as well, and a run goes on to the last bit."""
    from clnet.train import Checkpoint

    def run(epochs: int, **more: Any) -> tuple[list[float], list[np.ndarray[Any, Any]]]:
        trainer = Trainer(net(steps=True), "cross_entropy", SGD(lr=0.1))
        history = trainer.fit(PackedSequences(X, TAGS), epochs=epochs, tokens=40, validation=0.3, verbose=False, **more)
        return history["val_loss"], [p.numpy() for p in trainer.model.parameters()]

    losses, weights = run(3)
    run(2, callbacks=Checkpoint(tmp_path / "run.npz"))
    again, found = run(3, resume=tmp_path / "run.npz")
    assert losses[-1] == again[-1]
    assert all(np.array_equal(a, b) for a, b in itertools.zip_longest(weights, found))
