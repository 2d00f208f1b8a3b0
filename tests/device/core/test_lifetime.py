"""Device memory goes with the last name of what holds it, at once: Python's collector of cycles is off in all of these.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.layers import Activation, BatchNorm, Checkpoint, Dense, Dropout
from clnet.losses import CrossEntropyLoss
from clnet.model import Graph, Input, Model, Sequential
from clnet.optimizers import Adam, Group
from clnet.train import callbacks

RNG = np.random.default_rng(0)
X = RNG.standard_normal((32, 8)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)


def net() -> Sequential:
    return Sequential(Dense(8, 12), Activation("relu"), Dense(12, 2))


def fit(model: Any = None, optimizer: Any = None, trainer: dict[str, Any] | None = None, **options: Any) -> Any:
    made = clnet.Trainer(model or net(), CrossEntropyLoss(), optimizer or Adam(lr=1e-3), **(trainer or {}))
    return made, made.fit((X, Y), epochs=2, batch_size=16, **{"verbose": False, **options})


class At(callbacks.Callback):
    """Raises when the third batch was put to the device."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error, self.left = error, 3

    def on_batch_end(self, trainer: Any) -> None:
        self.left -= 1
        if not self.left:
            raise self.error


def called(model: Any) -> None:
    model(X).numpy()


def sequential() -> None:
    called(net())


def wired() -> None:
    x = Input((8,))
    called(Model(x, Dense(12, 2)(Dense(8, 12)(x))))


def graph() -> None:
    called(Graph({"x": (8,)}, [("a", Dense(8, 12), "x"), ("b", Dense(12, 2), "a")], ["b"]))


def gradient() -> None:
    x = clnet.tensor(X)
    (slope,) = clnet.gradients((x * x).sum(), [x])
    slope.numpy()


def trio() -> None:
    model = net()
    called(model)
    model.backward(np.ones((32, 2), np.float32))
    model.update(0.1)
    called(model)


def explicit_steps() -> None:
    model, optimizer = net(), Adam(lr=1e-3)
    for _ in range(2):
        params = model.parameters()
        for p, g in zip(params, clnet.gradients(CrossEntropyLoss()(model(X), Y), params), strict=True):
            p.grad = g
        optimizer.update(params)
    called(model)


def recorded() -> None:
    model = net()
    step = clnet.Recorded(lambda x: model(x))
    step(X).numpy()
    step(X).numpy()


def trained() -> None:
    fit()


def shown() -> None:
    fit(verbose=True)


def validated_and_kept(folder: Path) -> None:
    fit(validation=(X, Y), callbacks=[callbacks.EarlyStopping(), callbacks.Checkpoint(folder / "run.ckpt")])


def resumed(folder: Path) -> None:
    trainer, _ = fit()
    trainer.save_checkpoint(folder / "kept.ckpt")
    fit(resume=folder / "kept.ckpt")


def interrupted() -> None:
    assert fit(callbacks=[At(KeyboardInterrupt)])[1].interrupted


def failed() -> None:
    with contextlib.suppress(RuntimeError):
        fit(callbacks=[At(RuntimeError)])


def not_finite() -> None:
    with contextlib.suppress(clnet.NonFiniteError):
        clnet.Trainer(net(), CrossEntropyLoss(), Adam()).fit((np.where(X > 1, np.nan, X), Y), verbose=False)


def wrong_shape() -> None:
    with contextlib.suppress(clnet.ShapeError):
        clnet.Trainer(net(), CrossEntropyLoss(), Adam()).fit((X[:, :3], Y), verbose=False)


def used_after() -> None:
    trainer, _ = fit()
    trainer.predict(X)
    trainer.evaluate((X, Y))
    trainer.fit((X, Y), verbose=False)


def elsewhere_and_back() -> None:
    here = clnet.current().device
    trainer, _ = fit()
    called(trainer.model.use("numpy"))
    called(trainer.model.use(here))


def groups_and_half_precision() -> None:
    model = Sequential(Dense(8, 12), BatchNorm(12), Dropout(0.5), Dense(12, 2))
    fit(model, Adam(groups=[Group(roles=("bias",), lr=0.1)]), {"precision": "fp16"})


def checkpointed() -> None:
    fit(Sequential(Checkpoint(layer=Dense(8, 8)), Dense(8, 2)))


def checkpointed_by_hand() -> None:
    x, w = clnet.tensor(X), clnet.tensor(X[:8, :8])
    y = clnet.ops.checkpoint(lambda a: clnet.ops.tanh(a @ w), x)
    clnet.gradients((y * y).sum(), [x])[0].numpy()
    y.numpy()


def saved_and_loaded(folder: Path) -> None:
    net().build((8,)).save(folder / "net.safetensors")
    called(clnet.load(folder / "net.safetensors"))


SCENARIOS: list[Callable[..., None]] = [
    sequential, wired, graph, gradient, trio, explicit_steps, recorded, trained, shown, validated_and_kept, resumed,
    interrupted, failed, not_finite, wrong_shape, used_after, elsewhere_and_back, groups_and_half_precision,
    checkpointed, checkpointed_by_hand, saved_and_loaded]


@pytest.fixture
def pool(quick: Any) -> Iterator[Any]:
    """The engine's pool, with no collector of cycles to help it."""
    gc.collect()
    gc.disable()
    try:
        with clnet.on(quick):
            yield quick.pool
    finally:
        gc.enable()


@pytest.mark.cheap
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_memory_goes_with_the_last_name(pool: Any, tmp_path: Path, scenario: Callable[..., None]) -> None:
    arguments = (tmp_path,) if scenario.__code__.co_argcount else ()
    before = pool.statistics()
    scenario(*arguments)
    after = pool.statistics()
    assert after.requests > before.requests or scenario is wrong_shape, "nothing was put on the device"
    assert after.active == before.active, pool.holders()


def test_running_a_cell_again_takes_no_more_than_the_first_time(pool: Any) -> None:
    peaks = []
    pool.reset_peak()
    for _ in range(8):
        trainer, history = fit(validation=(X, Y))  # the names of the run before hold it until here, as in a notebook
        peaks.append(pool.statistics().peak)
    assert peaks[0] > 0
    assert len(set(peaks[1:])) == 1, peaks
    before = pool.statistics().active
    del trainer, history
    assert pool.statistics().active < before


def test_an_arena_lives_as_long_as_a_parameter_or_the_optimizer(pool: Any) -> None:
    before = pool.statistics().active
    trainer, _ = fit()
    optimizer, bias = trainer.optimizer, trainer.model.parameters()[1]
    value = bias.numpy()
    del trainer
    assert np.array_equal(bias.numpy(), value)
    assert sorted(p.shape for p in optimizer.parameters) == [(2,), (2, 12), (12,), (12, 8)]
    del optimizer
    assert np.array_equal(bias.numpy(), value)
    del bias
    assert pool.statistics().active == before
