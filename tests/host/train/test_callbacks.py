"""What happens beside training: rates that are looked for, averages of weights, ends by the clock, events on disk."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.errors import ConfigError
from clnet.layers import Activation, Dense, Dropout, Flatten, LayerNorm
from clnet.model import Sequential
from clnet.optimizers import LBFGS, SGD, Adam, Group
from clnet.train import (
    EMA,
    Callback,
    Checkpoint,
    EarlyStopping,
    GradualUnfreezing,
    LambdaCallback,
    ModelCheckpoint,
    TensorBoard,
    TimeLimit,
    Trainer,
    find_lr,
)

DRAWS = np.random.default_rng(0)
X = DRAWS.normal(size=(90, 4)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(np.int32)


@pytest.fixture(autouse=True)
def on_host() -> Iterator[None]:
    with clnet.on("numpy"):
        yield


def made(optimizer: Any = None) -> Trainer:
    clnet.seed(0)
    model = Sequential(Dense(in_features=4, out_features=16), Activation("relu"), Dropout(0.1),
                       Dense(in_features=16, out_features=2))
    return Trainer(model, "cross_entropy", optimizer or Adam(lr=0.01))


def weights(trainer: Trainer) -> np.ndarray[Any, Any]:
    return np.concatenate([v.numpy().ravel() for v in trainer.model.variables().values()])


def test_looking_for_a_rate_leaves_everything_as_it_was() -> None:
    """Weights, the optimizer's state, random numbers, history: the next run is that of a trainer that never looked."""
    plain, looked = made(), made()
    for trainer in (plain, looked):
        trainer.fit(X, Y, epochs=1, batch_size=16, verbose=False)
    found = looked.find_lr(X, Y, steps=60, batch_size=16)
    assert 1e-4 < (found.suggestion or 0) < 1 and len(found.rates) <= 60
    assert found.rates[1] / found.rates[0] == pytest.approx(1e8 ** (1 / 59))
    assert "suggestion: lr=" in str(found) and found.plot().size[0] > 300
    assert looked.optimizer.lr == 0.01 and np.array_equal(weights(plain), weights(looked))
    ours, theirs = (t.fit(X, Y, epochs=2, batch_size=16, verbose=False)["loss"] for t in (looked, plain))
    assert ours == theirs
    with pytest.raises(ConfigError, match="0 < low < high"):
        find_lr(plain, clnet.data.Dataset(X, Y), low=1.0, high=0.1)
    with pytest.raises(ConfigError, match="one rate for all"):
        made(Adam(groups=(Group(roles=("bias",), lr=0.1),))).find_lr(X, Y)


def test_a_rate_is_looked_for_in_the_training_that_comes() -> None:
    """Weights of classes and changes of images are those of fit; what fit alone takes is refused."""
    plain, weighed = (made().find_lr(X, Y, steps=8, class_weight=w).losses for w in (None, {0: 10.0, 1: 0.1}))
    assert plain != weighed
    images = DRAWS.uniform(size=(40, 1, 4, 4)).astype(np.float32)
    model = Sequential(Flatten(), Dense(in_features=16, out_features=2))
    trainer = Trainer(model, "cross_entropy", Adam(lr=0.01))
    same, flipped = (trainer.find_lr(images, Y[:40], steps=8, augment=a).losses for a in (None, "flip"))
    assert same != flipped
    with pytest.raises(ConfigError, match=r"find_lr: expected arguments data, y, low, .*augment.*got 'epochs'"):
        made().find_lr(X, Y, epochs=3)


def test_one_cycle_in_one_call() -> None:
    rates: list[float] = []
    trainer = made(SGD(lr=0.5))
    watch = LambdaCallback(on_batch_end=lambda t: rates.append(t.optimizer.rate(t.optimizer.t)))
    for _ in range(2):  # a second cycle begins where the first ended
        rates.clear()
        history = trainer.fit_one_cycle(X, Y, epochs=4, batch_size=18, validation=0.2, verbose=False, callbacks=watch)
        assert len(history) == 4 and len(rates) == 16 and trainer.optimizer.lr == 0.5
        assert rates[0] <= 0.5 / 25 * 1.5 or rates[0] == pytest.approx(0.5 / 25)
        assert max(rates) == pytest.approx(0.5, rel=0.1) and rates[-1] < 1e-4 and 3 <= int(np.argmax(rates)) <= 5
    with pytest.raises(ConfigError, match="a rate above 0"):
        trainer.fit_one_cycle(X, Y, max_lr=-1)


def test_averages_are_validated_saved_and_left_in_the_model(tmp_path: Path) -> None:
    """a ← d a + (1 − d) w, computed again from the weights of every step."""
    path, seen = tmp_path / "best.safetensors", []
    trainer = made()
    watch = LambdaCallback(on_train_begin=lambda t: seen.append(np.array(t.optimizer.arenas[0].flat.numpy())),
                           on_batch_end=lambda t: seen.append(np.array(t.optimizer.arenas[0].flat.numpy())))
    history = trainer.fit(X, Y, epochs=3, batch_size=30, validation=(X, Y), verbose=False,
                          callbacks=[EMA(0.8), watch, ModelCheckpoint(path, best_only=False)])
    expected = seen[0].astype(np.float64)
    for t, w in enumerate(seen[1:], 1):
        d = min(0.8, (1 + t) / (10 + t))
        expected = d * expected + (1 - d) * w
    np.testing.assert_allclose(trainer.optimizer.arenas[0].flat.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(expected, seen[-1], atol=1e-4)
    assert trainer.evaluate(X, Y)["loss"] == pytest.approx(history["val_loss"][-1], abs=1e-6)
    saved = clnet.load(path).variables()
    assert all(np.array_equal(saved[n].numpy(), v.numpy()) for n, v in trainer.model.variables().items())
    with pytest.raises(ConfigError, match="below 1"):
        EMA(1.0)


def test_averages_go_on_where_a_run_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    kept = {"batch_size": 30, "verbose": False}
    whole, first, again = made(), made(), made()
    whole.fit(X, Y, epochs=4, callbacks=EMA(0.9), **kept)
    first.fit(X, Y, epochs=2, callbacks=[EMA(0.9), Checkpoint(path)], **kept)
    again.fit(X, Y, epochs=4, callbacks=[EMA(0.9)], resume=path, **kept)
    np.testing.assert_array_equal(weights(again), weights(whole))


def test_an_end_by_the_clock_and_functions_at_events() -> None:
    trainer = made()
    history = trainer.fit(X, Y, epochs=10**6, batch_size=30, verbose=False, callbacks=TimeLimit(0.2))
    assert history.stopped == "0.2 seconds are up" and 0 < len(history.steps) < 10**5
    seen: list[int] = []
    made().fit(X, Y, epochs=2, verbose=False, callbacks=LambdaCallback(
        on_epoch_end=lambda t, logs: seen.append(int(logs["epoch"])), on_train_end=lambda t: seen.append(0)))
    assert seen == [1, 2, 0]
    with pytest.raises(ConfigError, match=r"did you mean 'on_epoch_end'\?"):
        LambdaCallback(on_epoch_ends=print)
    with pytest.raises(ConfigError, match="above 0"):
        TimeLimit(0)


@pytest.mark.full
def test_events_of_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    history = made().fit(X, Y, epochs=2, batch_size=30, validation=(X, Y), verbose=False,
                         callbacks=TensorBoard(tmp_path))
    data, at, found = next(tmp_path.glob("events*")).read_bytes(), 0, dict[str, list[float]]()
    while at < len(data):  # a record: its length, 4 bytes of checksum, the event, 4 more
        size = int.from_bytes(data[at : at + 8], "little")
        event = Event.FromString(data[at + 12 : at + 12 + size])
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(value.simple_value)
        at += size + 16
    assert found["validation/loss"] == pytest.approx(history["val_loss"])
    assert found["step/loss"] == pytest.approx(history.steps) and len(found["training/accuracy"]) == 2
    known = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("tensorboardX"):
            raise ImportError(name)
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match="pip install tensorboardX"):
        TensorBoard(tmp_path)


def test_accumulated_gradients_are_those_of_the_large_batch() -> None:
    """Three batches of 10 make an update, as one of 30 does; metrics are of all. The last batch is short."""
    def run(size: int, accumulate: int) -> tuple[Any, Any, dict[str, Any]]:
        clnet.seed(0)
        model = Sequential(Dense(in_features=4, out_features=6), Activation("tanh"),
                           Dense(in_features=6, out_features=2))
        trainer = Trainer(model, "cross_entropy", SGD(lr=0.1), metrics=["f1", "roc_auc"])
        history = trainer.fit(X[:83], Y[:83], epochs=3, batch_size=size, accumulate=accumulate, verbose=False)
        return weights(trainer), history, trainer.evaluate(X, Y)

    (large, whole, _), (pieces, parts, found) = run(30, 1), run(10, 3)
    np.testing.assert_allclose(pieces, large, rtol=1e-5, atol=1e-6)
    assert len(parts.steps) == 9 and parts.steps == pytest.approx(whole.steps, rel=1e-6)
    assert parts["f1"] == whole["f1"] and 0 < found["roc_auc"] <= 1
    with pytest.raises(ConfigError, match="a whole number of at least 1"):
        made().fit(X, Y, accumulate=0)
    with pytest.raises(ConfigError, match="one gradient a step; got LBFGS"):
        made(LBFGS()).fit(X, Y, accumulate=2)


def test_phases_by_freezing() -> None:
    """First the last layer alone, then all."""
    trainer = made()
    before = trainer.model[0].weight.numpy().copy()
    trainer.model.freeze("layers.0")
    trainer.fit(X, Y, epochs=1, verbose=False)
    assert np.array_equal(trainer.model[0].weight.numpy(), before)
    trainer.model.unfreeze("*")
    trainer.fit(X, Y, epochs=1, verbose=False, callbacks=[EarlyStopping("loss"), Callback()])
    assert not np.array_equal(trainer.model[0].weight.numpy(), before)


def deep(optimizer: Any = None) -> Trainer:
    """Three groups: a map with its normalisation, a map, a map."""
    clnet.seed(0)
    model = Sequential(Dense(in_features=4, out_features=8), LayerNorm(), Activation("relu"),
                       Dense(in_features=8, out_features=8, activation="relu"), Dense(in_features=8, out_features=2))
    return Trainer(model, "cross_entropy", optimizer or Adam(lr=0.01))


class Watch(Callback):
    """Which layers have moved in each epoch."""

    def __init__(self) -> None:
        self.moved: list[list[int]] = []

    def on_train_begin(self, trainer: Any) -> None:
        self.before = self.now(trainer)

    def on_epoch_end(self, trainer: Any, logs: dict[str, float]) -> None:
        before, self.before = self.before, self.now(trainer)
        pairs = zip(before, self.before, strict=True)
        self.moved.append([k for k, (a, b) in enumerate(pairs) if not np.array_equal(a, b)])

    @staticmethod
    def now(trainer: Any) -> list[np.ndarray[Any, Any]]:
        layers = (trainer.model[k] for k in (0, 1, 3, 4))
        return [np.concatenate([v.numpy().ravel() for v in layer.variables().values()]) for layer in layers]


def test_layers_are_unfrozen_from_the_last_to_the_first() -> None:
    """What is frozen keeps every bit; what is not moves, and Adam's state of it goes on when others join."""
    trainer, watch = deep(), Watch()
    trainer.fit(X, Y, epochs=4, batch_size=16, verbose=False, callbacks=[watch, GradualUnfreezing()])
    assert watch.moved == [[3], [2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert [s.since for s in trainer.optimizer.sections] == [0, 6, 12] and trainer.optimizer.t == 24
    head = deep()
    head.model.freeze("*").unfreeze("layers.4")
    head.fit(X, Y, epochs=1, batch_size=16, verbose=False)
    again, only = deep(), GradualUnfreezing(["layers.4", "layers.3"], epochs=2)
    again.fit(X, Y, epochs=1, batch_size=16, verbose=False, callbacks=only)
    trained = [t.model[4].weight.numpy() for t in (head, again)]
    assert not np.array_equal(*[t.model[0].weight.numpy() for t in (head, again)]), "of no group: trained all the time"
    assert not np.array_equal(*trained), "since what is below moves"


@pytest.mark.parametrize(("groups", "epochs", "moved"), [
    ([("layers.4", "layers.3.weight"), "*"], 2, [[2, 3], [2, 3], [0, 1, 2, 3]]),
    (None, [2, 1], [[3], [3], [2, 3], [0, 1, 2, 3]]),
])
def test_groups_and_their_turns(groups: Any, epochs: Any, moved: list[list[int]]) -> None:
    trainer, watch = deep(), Watch()
    trainer.fit(X, Y, epochs=len(moved), verbose=False, callbacks=[watch, GradualUnfreezing(groups, epochs), EMA(0.5)])
    assert watch.moved == moved


def test_new_parameters_count_their_own_steps() -> None:
    """Adam's correction of what is new is that of its first step: the update is lr · sign(g), not three times that."""
    trainer = deep(Adam(lr=0.01))
    before = trainer.model[3].weight.numpy().copy()
    trainer.fit(X, Y, epochs=2, batch_size=90, verbose=False, callbacks=GradualUnfreezing())
    moved = np.abs(trainer.model[3].weight.numpy() - before)
    assert 0.009 < moved.max() <= 0.01001


@pytest.mark.parametrize("first", [True, False])
def test_a_run_that_unfreezes_is_resumed_to_the_last_bit(first: bool, tmp_path: Path) -> None:
    """Whether the checkpoint is written before the next group begins or after."""
    def run(epochs: int, **more: Any) -> Trainer:
        trainer = deep()
        kept = Checkpoint(tmp_path / f"{epochs}.safetensors")
        callbacks = [kept, GradualUnfreezing()] if first else [GradualUnfreezing(), kept]
        trainer.fit(X, Y, epochs=epochs, batch_size=16, verbose=False, callbacks=callbacks, **more)
        return trainer

    whole = run(4)
    for epochs in (1, 2, 3):
        run(epochs)
        rest = run(4, resume=tmp_path / f"{epochs}.safetensors")
        np.testing.assert_array_equal(weights(rest), weights(whole))


@pytest.mark.parametrize(("make", "text"), [
    (lambda: GradualUnfreezing([]), r"groups=\[\]\): expected a list of names of layers"),
    (lambda: GradualUnfreezing("layers.4"), "expected a list of names of layers"),
    (lambda: GradualUnfreezing(epochs=0), r"epochs=0\): expected a whole number of at least 1"),
    (lambda: deep().fit(X, Y, verbose=False, callbacks=GradualUnfreezing(epochs=[1])), "expected 2 numbers"),
    (lambda: deep().fit(X, Y, verbose=False, callbacks=GradualUnfreezing(["layers.9"])), "did you mean 'layers"),
    (lambda: deep(LBFGS()).fit(X, Y, epochs=2, verbose=False, callbacks=GradualUnfreezing()), "LBFGS.extend: expected"),
    (lambda: Trainer(Dense(4, 2), "cross_entropy", "adam").fit(X, Y, verbose=False, callbacks=GradualUnfreezing()),
     "expected a model that freezes by name"),
])
def test_slips_of_unfreezing_are_told(make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make()
