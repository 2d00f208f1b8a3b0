"""Training on sequences of several lengths: what fills them up changes nothing, results come back as they went in."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet import ops as F
from clnet.errors import CheckpointError, ClnetError, DataError, ShapeError
from clnet.layers import GRU, LSTM, Bidirectional, Dense, Embedding, Flatten, Lambda
from clnet.layers.base import Layer
from clnet.losses import BCELoss, CrossEntropyLoss, MSELoss
from clnet.model import Graph, Input, Model, Sequential
from clnet.model import files as model_io
from clnet.optimizers import SGD, Adam
from clnet.train import Callback, Sequences, Trainer

RNG = np.random.default_rng(0)
X = [RNG.integers(1, 12, n) for n in (3, 7, 0, 1, 6, 2, 7, 5, 4)]
CLASSES = np.array([len(s) % 3 for s in X])
TAGS = [s % 3 for s in X]
YES = [(s > 6).astype(np.float32) for s in X]
NUMBERS = [np.stack([s / 5, s % 4], 1) for s in X]


def net(out: int, steps: bool = True, turned: bool = False) -> Graph:
    """An LSTM over symbols with their lengths, or a mask, behind them."""
    init.seed(0)
    x, n = Input(), Input()
    h = Embedding(num_embeddings=12, embedding_dim=4)(x)
    h = Bidirectional(layer=LSTM(hidden_size=5))(h, n) if steps else GRU(hidden_size=5, return_sequences=False)(h, n)
    h = Dense(out_features=out)(h)
    return Model([x, n], [Lambda(lambda v: v.permute(0, 2, 1))(h) if turned else h])


def flat(out: int) -> Graph:
    """A model of one number a step, (N, T)."""
    model = net(out)
    x, n = Input(), Input()
    return Model([x, n], [Lambda(lambda v: v.reshape(v.shape[0], -1))(model(x, n))])


def log_softmax(z: np.ndarray) -> np.ndarray:
    z = z.astype(np.float64)
    return z - z.max(0) - np.log(np.exp(z - z.max(0)).sum(0))


def tagged(z: list[np.ndarray], ignore: int = -1) -> float:
    each = [-log_softmax(a)[t, np.arange(len(t))][t != ignore] for a, t in zip(z, TAGS, strict=True)]
    return float(np.concatenate(each).mean())


def squares(z: list[np.ndarray]) -> float:
    each = [np.square(a.astype(np.float64) - t) for a, t in zip(z, NUMBERS, strict=True)]
    return float(np.concatenate(each).mean())


def entropies(z: list[np.ndarray]) -> float:
    each = [np.logaddexp(0, a.astype(np.float64)) - a * t for a, t in zip(z, YES, strict=True)]
    return float(np.concatenate(each).mean())


CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "labels that the loss ignores": (lambda: net(3, turned=True), CrossEntropyLoss, TAGS, tagged),
    "labels that count as nothing": (lambda: net(3, turned=True), lambda: CrossEntropyLoss(ignore_index=2), TAGS,
                                     lambda z: tagged(z, 2)),
    "yes and no": (lambda: flat(1), lambda: BCELoss(from_logits=True), YES, entropies),
    "whole numbers of yes and no": (lambda: flat(1), lambda: BCELoss(from_logits=True),
                                    [y.astype(int) for y in YES], entropies),
    "numbers": (lambda: net(2), MSELoss, NUMBERS, squares),
}


def alone(model: Layer, k: int, beside: str) -> np.ndarray:
    """The output for one sequence by itself, as long as it is."""
    x = X[k][None].astype(np.int32) if len(X[k]) else np.zeros((1, 1), np.int32)
    n: Any = np.array([len(X[k])], np.int32) if beside == "lengths" else np.ones(x.shape, bool) & bool(len(X[k]))
    return np.asarray(model(x, n).numpy())[0]


def cut(z: np.ndarray, k: int, last: bool) -> np.ndarray:
    return z[..., : len(X[k])] if last else z[: len(X[k])]


@pytest.mark.parametrize(("case", "beside"), [*((c, "lengths") for c in CASES), ("numbers", "mask")])
def test_the_loss_is_that_of_the_steps_there_are(engine: Any, case: str, beside: str) -> None:
    """Against the formula in float64 on the outputs of each sequence alone."""
    make, loss, targets, wanted = CASES[case]
    data = Sequences(X, targets, beside=beside, multiple_of=4)  # type: ignore[arg-type]
    trainer = Trainer(make(), loss(), Adam())
    found = trainer.predict(data, batch_size=4)
    single = [cut(alone(trainer.model, k, beside), k, found[1].shape[0] == 3) for k in range(len(X))]
    for a, b in zip(found, single, strict=True):
        assert a.shape == b.shape
        assert np.allclose(a, b, rtol=1e-4, atol=1e-5)
    # batches count by the data's own label to ignore, so that with another in the loss one batch it has to be
    for how in (dict(batch_size=64), *([] if "count as nothing" in case else [dict(tokens=16)])):
        assert trainer.evaluate(data, **how)["loss"] == pytest.approx(wanted(single), rel=1e-4)


def test_metrics_leave_out_what_fills_up(engine: Any) -> None:
    tagger = Trainer(net(3, turned=True), CrossEntropyLoss(), Adam())
    right = [a.argmax(0) == t for a, t in zip(tagger.predict(Sequences(X)), TAGS, strict=True)]
    found = tagger.evaluate(Sequences(X, TAGS), batch_size=4)["accuracy"]
    assert found == pytest.approx(np.concatenate(right).mean())
    assert tagger.evaluate(Sequences(X, TAGS, ignore=9), batch_size=4)["accuracy"] == pytest.approx(found)
    yes = Trainer(flat(1), BCELoss(from_logits=True), Adam())
    right = [(a > 0) == (t > 0.5) for a, t in zip(yes.predict(Sequences(X)), YES, strict=True)]
    assert yes.evaluate(Sequences(X, YES), tokens=16)["label_accuracy"] == pytest.approx(np.concatenate(right).mean())
    numbers = Trainer(net(2), MSELoss(), Adam(), metrics=["mae", "rmse"])
    off = np.concatenate([a - t for a, t in zip(numbers.predict(Sequences(X)), NUMBERS, strict=True)])
    found = numbers.evaluate(Sequences(X, NUMBERS), batch_size=4)
    assert found["mae"] == pytest.approx(np.abs(off).mean(), rel=1e-4)
    assert found["rmse"] == pytest.approx(np.sqrt(np.square(off).mean()), rel=1e-4)


def trained(targets: Any, make: Any, loss: Any, **how: Any) -> dict[str, np.ndarray]:
    trainer = Trainer(make(), loss(), SGD(lr=0.1))
    trainer.fit(Sequences(X, targets, **how), epochs=3, batch_size=len(X), verbose=False)
    return model_io.values(trainer.model)


@pytest.mark.parametrize("case", CASES)
def test_what_fills_up_trains_nothing(engine: Any, case: str) -> None:
    """Steps beyond the lengths have no part in the gradient: however many there are, and whatever they hold."""
    make, loss, targets, _ = CASES[case]
    a = trained(targets, make, loss, multiple_of=1)
    b = trained(targets, make, loss, multiple_of=16, padding=11)
    before = model_io.values(make())
    for name in a:
        assert np.allclose(a[name], b[name], rtol=1e-4, atol=2e-6), name
    assert any(not np.array_equal(a[n], before[n]) for n in before if n in a) or not before


def test_a_classifier_learns_and_gives_results_in_their_order(engine: Any) -> None:
    rng = np.random.default_rng(1)
    x = [rng.integers(1, 12, n) for n in rng.integers(1, 20, 120)]
    y = np.array([int(s[-1] > 6) for s in x])
    trainer = Trainer(net(2, steps=False), CrossEntropyLoss(), Adam(lr=0.03))
    history = trainer.fit(Sequences(x, y), epochs=12, tokens=200, validation=0.2, verbose=False)
    assert history["val_accuracy"][-1] > 0.9
    found = trainer.predict_proba(Sequences(x))
    assert found.shape == (120, 2)
    assert (found.argmax(1) == y).mean() > 0.9
    assert np.allclose(found, trainer.predict_proba(Sequences(x), tokens=100), atol=1e-5)


def test_probabilities_of_steps(engine: Any) -> None:
    trainer = Trainer(net(3, turned=True), CrossEntropyLoss(), Adam())
    found, z = trainer.predict_proba(Sequences(X)), trainer.predict(Sequences(X))
    for p, a in zip(found, z, strict=True):
        assert np.allclose(p, np.exp(log_softmax(a)) if a.size else a, atol=1e-6)


class Stop(Callback):
    """Ends a run as a failure would, behind some batches."""

    def __init__(self, batches: int, path: Path) -> None:
        self.left, self.path = batches, path

    def on_batch_end(self, trainer: Trainer) -> None:
        self.left -= 1
        if not self.left:
            trainer.save_checkpoint(self.path)
            raise KeyboardInterrupt


@pytest.mark.parametrize("how", [dict(batch_size=2), dict(tokens=14, drop_last=True, bucket=False)])
def test_a_run_is_taken_up_again(engine: Any, tmp_path: Path, how: dict[str, Any]) -> None:
    def make() -> Trainer:
        return Trainer(net(3, turned=True), CrossEntropyLoss(), Adam(lr=0.01))

    whole = make()
    whole.fit(Sequences(X, TAGS), epochs=3, verbose=False, **how)
    first = make()
    first.fit(Sequences(X, TAGS), epochs=3, verbose=False, callbacks=Stop(5, tmp_path / "c"), **how)
    assert first.history.interrupted
    rest = make()
    rest.fit(Sequences(X, TAGS), epochs=3, verbose=False, resume=tmp_path / "c", **how)
    a, b = model_io.values(whole.model), model_io.values(rest.model)
    assert all(np.array_equal(a[n], b[n]) for n in a)
    assert whole.history["loss"] == rest.history["loss"]
    with pytest.raises(CheckpointError, match=r"expected (tokens|batch_size|bucket|drop_last)"):
        make().fit(Sequences(X, TAGS), epochs=3, verbose=False, resume=tmp_path / "c", tokens=28)


def test_functions_see_what_fills_up(engine: Any) -> None:
    def loss(output: Any, target: Any) -> Any:
        there = F.logical_not(F.isnan(target))
        return F.sum(F.where(there, F.square(output - F.where(there, target, 0.0)), 0.0)) / 100.0

    trainer = Trainer(net(2), loss, SGD(lr=0.1))
    assert np.isfinite(trainer.fit(Sequences(X, NUMBERS), epochs=1, verbose=False)["loss"][0])


def sized(data: Sequences, layer: Layer, loss: str = "mse") -> Any:
    x, n = Input(), Input()
    h = LSTM(hidden_size=3)(Embedding(num_embeddings=12, embedding_dim=2)(x), n)
    return Trainer(Model([x, n], [layer(h)]), loss, "adam").fit(data, verbose=False)


REFUSED: dict[str, tuple[Any, type[ClnetError], str]] = {
    "a model of one input": (
        lambda: Trainer(Sequential(Embedding(num_embeddings=12, embedding_dim=2), LSTM(hidden_size=2)), "mse",
                        "adam").fit(Sequences(X, CLASSES), verbose=False),
        ShapeError, "expected a model of 2 inputs.*their lengths behind x.*beside=None"),
    "no targets": (lambda: Trainer(net(2), "mse", "adam").evaluate(Sequences(X)), DataError, "expected targets too"),
    "a label too many": (
        lambda: Trainer(net(2, turned=True), "cross_entropy", "adam").fit(Sequences(X, TAGS), verbose=False),
        DataError, r"labels in \[0, 2\); got 2 at index \(0, "),
    "a target that is not a number": (
        lambda: Trainer(net(2), "mse", "adam").fit(
            Sequences(X, [n if len(n) != 1 else n * np.nan for n in NUMBERS]), verbose=False),
        DataError, "the target of sequence 3, step 0"),
    "a loss of whole samples": (
        lambda: Trainer(net(1), "dice", "adam").fit(Sequences(X, [y[:, None] for y in YES]), verbose=False),
        ShapeError, "DiceLoss: expected a loss with a value for every step"),
    "a model of one length": (
        lambda: sized(Sequences(X, np.zeros((9, 1))), Sequential(Flatten(), Dense(out_features=1))), ShapeError,
        "in_features is 24; got 6"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_before_anything_runs(engine: Any, case: str) -> None:
    run, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        run()


def test_an_input_that_is_not_finite_has_its_place(engine: Any) -> None:
    x = [[[1.0], [2.0]], [[0.5], [np.nan], [1.0]]]
    a, n = Input(), Input()
    model = Model([a, n], [LSTM(hidden_size=2, return_sequences=False)(a, n)])
    with pytest.raises(ClnetError, match="input 0 holds nan at sequence 1, step 1, column 0"):
        Trainer(model, "mse", "adam").fit(Sequences(x, np.zeros((2, 2))), verbose=False)


def test_outputs_of_other_steps_are_refused(engine: Any) -> None:
    x, n = Input(), Input()
    h = LSTM(hidden_size=3)(Embedding(num_embeddings=12, embedding_dim=2)(x), n)
    halves = Model([x, n], [Lambda(lambda v: v[:, ::2])(h)])
    with pytest.raises(ShapeError, match="outputs of whole sequences, or of each step"):
        Trainer(halves, "mse", "adam").predict(Sequences(X, multiple_of=2))


def test_steps_are_found_by_trying_other_lengths(engine: Any) -> None:
    """Also where the steps are as many as the features, and sequences have one length."""
    x = [np.ones((4, 4), np.float32) * k for k in range(3)]
    a, n = Input(), Input()
    found = Trainer(Model([a, n], [LSTM(hidden_size=4)(a, n)]), "mse", "adam").predict(Sequences(x, multiple_of=4))
    assert [f.shape for f in found] == [(4, 4)] * 3
    for p, q in itertools.pairwise(found):
        assert not np.allclose(p, q)


def test_no_length_is_compiled_in(engine: Any) -> None:
    """A step for the very first batch would be compiled for that one alone."""
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")
    trainer = Trainer(net(3, turned=True), "cross_entropy", Adam())
    data = Sequences(X, TAGS, multiple_of=1)
    trainer.fit(data, epochs=1, batch_size=3, verbose=False)
    trainer.evaluate(data, batch_size=3)
    trainer.predict(Sequences(X, multiple_of=1), batch_size=3)
    for step in (trainer.steps.train, trainer.steps.test, trainer.steps.forward):
        assert step.recordings, step.name
        for recording in step.recordings.values():
            assert recording.varies or min(recording.specs[0].shape) == 1, step  # an axis of 1 is another structure
