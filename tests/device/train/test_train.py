"""Training on every device: what it learns, that it repeats to the last bit,
what it moves, and how it ends when it is ended.
"""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet import ops as F
from clnet.engine import on
from clnet.errors import CheckpointError, ConfigError, DataError, NonFiniteError, ShapeError
from clnet.layers import BatchNorm, Dense, Dropout, Flatten
from clnet.layers.base import Layer
from clnet.losses import CrossEntropyLoss, MSELoss
from clnet.model import Sequential
from clnet.model import files as model_io
from clnet.optimizers import SGD, Adam, AdamW, CosineAnnealingLR
from clnet.train import Callback, Checkpoint, CSVLog, Dataset, EarlyStopping, JSONLog, ModelCheckpoint, Trainer


# --- a small run that everything else is tried on
def toy(n: int = 90, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6)).astype(np.float32)
    return Dataset(x, (x[:, 0] + x[:, 1] > 0).astype(np.int32) + (x[:, 2] > 0))


def net(seed: int = 0) -> Sequential:
    init.seed(seed)
    return Sequential(Dense(out_features=8, activation="relu"), BatchNorm(), Dropout(p=0.25),
                      Dense(out_features=3)).build((6,))


def make(seed: int = 0, **more: Any) -> Trainer:
    return Trainer(net(seed), CrossEntropyLoss(), AdamW(lr=CosineAnnealingLR(40, lr=1e-2)), **more)


def everything(trainer: Trainer) -> dict[str, np.ndarray]:
    return {**model_io.values(trainer.model), **{k: np.asarray(v) for k, v in trainer.optimizer.state_dict().items()}}


def assert_same(a: Trainer, b: Trainer) -> None:
    x, y = everything(a), everything(b)
    assert x.keys() == y.keys()
    for name in x:
        assert np.array_equal(x[name], y[name]), name


TIMES = ["seconds", "samples/s"]  # columns of a history that differ from run to run


def test_history(engine: Any) -> None:
    trainer = make()
    history = trainer.fit(toy(), 3, 32, validation=toy(seed=1), verbose=False)
    assert list(history.frame.columns) == ["loss", "accuracy", "val_loss", "val_accuracy", "lr", "seconds", "samples/s"]
    assert list(history.frame.index) == [1, 2, 3]
    assert len(history.steps) == 9
    found = trainer.evaluate(toy(seed=1))
    assert found == {"loss": history["val_loss"][-1], "accuracy": history["val_accuracy"][-1]}
    means = [np.average(history.steps[3 * k : 3 * k + 3], weights=[32, 32, 26]) for k in range(3)]
    np.testing.assert_allclose(history["loss"], means, rtol=1e-12)
    assert "<table" in history._repr_html_()
    assert len(history.plot().axes) == 2


def test_evaluate_and_predict_agree(engine: Any) -> None:
    trainer, found = make(), toy(301)
    trainer.fit(found, 1, 32, verbose=False)
    logits = trainer.predict(found.x)
    assert logits.shape == (301, 3)
    result = trainer.evaluate(found)
    assert result["accuracy"] == pytest.approx((logits.argmax(-1) == found.y).mean())
    shifted = logits - logits.max(-1, keepdims=True)
    loss = np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(301), found.y]
    assert result["loss"] == pytest.approx(loss.mean(), rel=1e-5)


def test_loaded_weights_are_seen_by_recorded_steps(engine: Any) -> None:
    trainer, found = make(), toy()
    trainer.fit(found, 1, 32, verbose=False)
    before, values = trainer.evaluate(found), model_io.values(trainer.model)
    trainer.fit(found, 2, 32, verbose=False)
    assert trainer.evaluate(found) != before
    model_io.set_values(trainer.model, values)
    assert trainer.evaluate(found) == before


@pytest.mark.parametrize("batch", [1, 2])
def test_resume_is_the_same_run(engine: Any, tmp_path: Path, batch: int) -> None:
    """Broken off in the middle of epoch 2 or 3 and taken up by another Trainer: numbers equal to the last bit."""
    whole = make()
    expected = whole.fit(toy(), 4, 32, validation=toy(seed=1), verbose=False)

    class Break(Callback):
        def on_batch_end(self, trainer: Trainer) -> None:
            if trainer.optimizer.t == 3 + batch:
                trainer.save_checkpoint(tmp_path / "c")
            if trainer.optimizer.t == 7:
                raise KeyboardInterrupt

    broken = make()
    assert broken.fit(toy(), 4, 32, validation=toy(seed=1), callbacks=[Break()], verbose=False).interrupted
    other = make(seed=5)
    history = other.fit(toy(), 4, 32, validation=toy(seed=1), verbose=False, resume=tmp_path / "c")
    assert history.steps == expected.steps
    assert history.frame.drop(columns=TIMES).equals(expected.frame.drop(columns=TIMES))
    assert_same(other, whole)


def test_resume_on_the_numpy_engine(tmp_path: Path) -> None:
    with on("numpy") as engine:
        test_resume_is_the_same_run(engine, tmp_path, 1)


def test_resume_at_the_end_of_an_epoch(engine: Any, tmp_path: Path) -> None:
    whole = make()
    expected = whole.fit(toy(), 3, 32, callbacks=[EarlyStopping("loss", patience=9)], verbose=False)
    make().fit(toy(), 2, 32, callbacks=[EarlyStopping("loss", patience=9), Checkpoint(tmp_path / "c", every=2)],
               verbose=False)
    other = make(seed=3)
    stopping = EarlyStopping("loss", patience=9)
    history = other.fit(toy(), 3, 32, callbacks=[stopping], verbose=False, resume=tmp_path / "c")
    assert history.steps == expected.steps
    assert stopping.best == min(history["loss"])
    assert_same(other, whole)


def test_resume_refuses_another_run(engine: Any, tmp_path: Path) -> None:
    make().fit(toy(), 1, 32, callbacks=[Checkpoint(tmp_path / "c")], verbose=False)
    for arguments in (dict(batch_size=16), dict(batch_size=32, seed=1)):
        with pytest.raises(CheckpointError, match=r"expected (seed|batch_size)"):
            make().fit(toy(), 2, **arguments, verbose=False, resume=tmp_path / "c")
    with pytest.raises(CheckpointError, match="optimizer"):
        Trainer(net(), CrossEntropyLoss(), SGD()).fit(toy(), 2, 32, verbose=False, resume=tmp_path / "c")
    make().model.save(tmp_path / "m")
    with pytest.raises(CheckpointError, match="saved model"):
        make().fit(toy(), 2, 32, verbose=False, resume=tmp_path / "m")


def test_nothing_but_numbers_leaves_the_device(engine: Any) -> None:
    """After the second batch of a shape: no program built, no buffer made,
    no byte to the host until losses are asked for.
    """
    if not engine.compiles:
        pytest.skip("the host has no device memory")
    seen: list[tuple[int, int, int]] = []

    class Watch(Callback):
        def on_batch_end(self, trainer: Trainer) -> None:
            made = engine.programs.counters()
            seen.append((made.builds + made.disk_hits, engine.pool.statistics().allocations,
                         engine.transfers.snapshot().bytes_to_host))

    init.seed(0)
    model = Sequential(Dense(out_features=16, activation="relu"), Dense(out_features=16, activation="relu"),
                       Dense(out_features=3)).build((6,))
    trainer = Trainer(model, CrossEntropyLoss(), Adam())
    history = trainer.fit(toy(32 * 40), 3, 32, verbose=False, callbacks=[Watch()])
    assert len(set(seen[2:40])) == 1, seen
    assert len({made[:2] for made in seen[40:]}) == 1, seen[40:]
    table = 4 * trainer.steps.meter.table.size
    assert history.transfers.bytes_to_host == 3 * (table + 4)
    plan = next(iter(trainer.steps.train.replays.values())).plan
    assert len(plan.launches) <= 18, str(plan)
    assert not plan.copies


def test_memory_forecast_is_what_training_takes(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("the host has no pool")
    init.seed(0)
    model = Sequential(Dense(out_features=256, activation="relu"), Dense(out_features=256, activation="relu"),
                       Dense(out_features=10))
    forecast = model.summary((64,), batch=128, optimizer=Adam()).memory["total"]
    gc.collect()
    before = engine.pool.statistics().active
    trainer = Trainer(model, CrossEntropyLoss(), Adam())
    trainer.fit((np.zeros((128, 64), np.float32), np.zeros(128, np.int32)), 1, 128, verbose=False, on_nan="ignore")
    taken = engine.pool.statistics().active - before
    assert 0.7 < taken / forecast < 1.4, (taken, forecast)


# --- how it ends
@pytest.mark.parametrize("step", [1, 4, 8])
def test_interrupt_from_a_callback(engine: Any, step: int) -> None:
    class Stop(Callback):
        def on_batch_end(self, trainer: Trainer) -> None:
            if trainer.optimizer.t == step:
                raise KeyboardInterrupt

    trainer = make()
    history = trainer.fit(toy(), 9, 32, callbacks=[Stop()], verbose=False)
    assert history.interrupted
    assert len(history.steps) == step == trainer.optimizer.t
    whole = make()
    expected = whole.fit(toy(), 9, 32, verbose=False)
    assert history.steps == expected.steps[:step]
    trainer.fit(toy(), 1, 32, verbose=False)  # and it can go on


class Root(Layer):
    """y = √x"""

    def forward(self, x: Any) -> Any:
        return F.sqrt(x)


class Power(Layer):
    """y = x^½"""

    def forward(self, x: Any) -> Any:
        return F.pow(x, 0.5)


def bad_batch() -> Dataset:
    found = toy(96)
    found.x[50, 3] = np.nan
    return found


def test_nan_in_the_data_is_named_and_undone(engine: Any) -> None:
    trainer = make()
    before: dict[str, Any] = {}

    class Keep(Callback):
        def on_batch_end(self, trainer: Trainer) -> None:
            before[trainer.optimizer.t] = everything(trainer)

    reference = make()
    reference.fit(bad_batch(), 1, 32, callbacks=[Keep()], verbose=False, on_nan="ignore")
    with pytest.raises(NonFiniteError, match="input 0 holds nan") as caught:
        trainer.fit(bad_batch(), 1, 32, verbose=False)
    step = trainer.optimizer.t + 1
    assert f"step {step} " in str(caught.value)
    expected = before[step - 1] if step > 1 else everything(make_attached())
    for name, value in everything(trainer).items():
        assert np.array_equal(value, expected[name]), name
    assert len(trainer.history.steps) == step - 1


def make_attached() -> Trainer:
    trainer = make()
    trainer.optimizer.attach(trainer.model.parameters())
    return trainer


def test_nan_is_traced_to_its_layer(engine: Any) -> None:
    init.seed(0)
    model = Sequential(Dense(in_features=6, out_features=4), Root(), Dense(in_features=4, out_features=3))
    with pytest.raises(NonFiniteError, match=r"layers\.1 \(Root\) gives nan in a tensor of shape \(32, 4\), by sqrt"):
        Trainer(model, CrossEntropyLoss(), SGD()).fit(toy(), 1, 32, verbose=False)


def test_infinite_gradient_of_a_finite_loss(engine: Any) -> None:
    """0^½ is finite, its slope is not: the step before is what is left."""
    init.seed(0)
    model = Sequential(Dense(in_features=2, out_features=2, bias=False), Power())
    model[0].weight.assign(np.eye(2, dtype=np.float32))
    x = np.ones((64, 2), np.float32)
    x[40] = 0
    trainer = Trainer(model, MSELoss(), SGD(lr=0.01), metrics=())
    with pytest.raises(NonFiniteError, match=r"the gradient gives (nan|inf)"):
        trainer.fit((x, np.ones((64, 2), np.float32)), 3, 16, verbose=False)
    assert np.isfinite(model[0].weight.numpy()).all()


def test_skip_leaves_the_batch_out(engine: Any) -> None:
    trainer = make()
    with pytest.warns(RuntimeWarning, match="left out"):
        history = trainer.fit(bad_batch(), 2, 32, verbose=False, on_nan="skip")
    assert len(history.steps) == 4
    assert np.isfinite(history.steps).all()
    assert all(np.isfinite(v).all() for v in everything(trainer).values())


# --- callbacks
def test_early_stopping_restores_the_best(engine: Any) -> None:
    kept: list[dict[str, np.ndarray]] = []

    class Keep(Callback):
        def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            kept.append(model_io.values(trainer.model))

    trainer = Trainer(net(), CrossEntropyLoss(), SGD(lr=30.0))
    history = trainer.fit(toy(), 50, 32, validation=toy(seed=1), verbose=False,
                          callbacks=[Keep(), EarlyStopping(patience=2, restore_best=True)], on_nan="ignore")
    assert "val_loss did not improve" in history.stopped
    best = int(np.argmin(history["val_loss"]))
    assert len(history) == best + 3
    for name, value in model_io.values(trainer.model).items():
        assert np.array_equal(value, kept[best][name]), name


def test_logs_and_best_model(engine: Any, tmp_path: Path) -> None:
    trainer = make()
    best = ModelCheckpoint(tmp_path / "best", monitor="val_accuracy")
    history = trainer.fit(toy(), 3, 32, validation=toy(seed=1), verbose=False,
                          callbacks=[best, CSVLog(tmp_path / "a.csv"), JSONLog(tmp_path / "a.jsonl")])
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 4
    assert [json.loads(line)["epoch"] for line in (tmp_path / "a.jsonl").read_text().splitlines()] == [1, 2, 3]
    again = Trainer(model_io.load(tmp_path / "best"), CrossEntropyLoss(), SGD())
    assert again.evaluate(toy(seed=1))["accuracy"] == pytest.approx(max(history["val_accuracy"]))


def test_a_display_that_fails_is_switched_off(engine: Any) -> None:
    class Broken(Callback):
        display = True
        calls = 0

        def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            self.calls += 1
            raise ValueError("no screen")

    broken = Broken()
    with pytest.warns(RuntimeWarning, match="no screen") as caught:
        assert len(make().fit(toy(), 3, 32, callbacks=[broken], verbose=False)) == 3
    assert broken.calls == len(caught) == 1


def test_other_callbacks_that_fail_stop_training(engine: Any) -> None:
    class Broken(Callback):
        def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            raise ValueError("disk")

    with pytest.raises(ValueError, match="disk"):
        make().fit(toy(), 3, 32, callbacks=[Broken()], verbose=False)


# --- what is refused before anything runs
def test_wrong_labels_and_shapes(engine: Any) -> None:
    found = toy()
    with pytest.raises(DataError, match=r"expected labels in \[0, 3\)"):
        make().fit((found.x, found.y + 1), 1, verbose=False)
    with pytest.raises(ShapeError, match=r"layers\.0"):
        make().fit((found.x[:, :4], found.y), 1, verbose=False)
    with pytest.raises(DataError):
        make().fit((found.x[:0], found.y[:0]), 1, verbose=False)
    with pytest.raises(ConfigError, match="did you mean 'accuracy'"):
        make(metrics=("acuracy",))
    with pytest.raises(ConfigError):
        Trainer(3, CrossEntropyLoss(), SGD())


def test_unbuilt_models_are_built_by_their_data(engine: Any) -> None:
    init.seed(0)
    model = Sequential(Flatten(), Dense(out_features=3))
    found = Dataset(toy().x.reshape(-1, 2, 3), toy().y)
    assert Trainer(model, CrossEntropyLoss(), SGD()).fit(found, 1, verbose=False, fast_dev_run=True).frame.shape[0] == 1
    assert model[1].in_features == 6
    Trainer(Sequential(Flatten(), Dense(out_features=3)), CrossEntropyLoss(), SGD()).evaluate(found)
