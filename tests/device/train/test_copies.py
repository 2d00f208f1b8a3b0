"""Copies of trainers: what they have learnt and where they are goes along; a trainer does one run at a time."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.errors import UseError
from clnet.layers import BatchNorm, Dense, Dropout
from clnet.train import Callback, Trainer

DRAWS = np.random.default_rng(3)
X, Y = DRAWS.normal(size=(48, 3)).astype(np.float32), DRAWS.integers(0, 2, 48)


def made(optimizer: Any = "adam", **more: Any) -> Trainer:
    clnet.seed(0)
    model = clnet.Sequential(Dense(out_features=4), Dropout(0.2), BatchNorm(), Dense(out_features=2))
    return Trainer(model, "cross_entropy", optimizer, **more)


@pytest.mark.cheap
@pytest.mark.parametrize("copied", (copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))))  # noqa: S301
@pytest.mark.parametrize("more", ({}, {"precision": "fp16"}))
def test_a_copy_of_a_trainer_goes_on_as_the_trainer_would(engine: Any, copied: Any, more: dict[str, Any]) -> None:
    trainer = made(**more)
    trainer.fit(X, Y, epochs=2, batch_size=16, verbose=False)
    before = trainer.predict(X)
    again = copied(trainer)
    theirs = again.fit(X, Y, epochs=2, batch_size=16, verbose=False)["loss"]
    assert (trainer.predict(X) == before).all()  # it is one of its own
    assert theirs == trainer.fit(X, Y, epochs=2, batch_size=16, verbose=False)["loss"]
    assert (again.predict(X) == trainer.predict(X)).all() and again.optimizer.t == trainer.optimizer.t


def test_a_network_is_copied_after_steps_over_batches_of_many_sizes(engine: Any) -> None:
    model = clnet.Sequential(Dense(out_features=4), Dense(out_features=2))
    step = clnet.Recorded(lambda x: model(x))
    for n in (5, 7, 11):
        step(X[:n])
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert (again(X).numpy() == model(X).numpy()).all()


def test_a_trainer_that_was_not_trained_is_copied_too(engine: Any) -> None:
    again = copy.deepcopy(made(clnet.optimizers.SGD(lr=0.1, momentum=0.9)))
    assert len(again.fit(X, Y, verbose=False)) == 1 and again.optimizer.momentum == 0.9


def test_a_copy_of_an_optimizer_alone_has_its_settings(engine: Any) -> None:
    trainer = made(clnet.optimizers.Adam(lr=clnet.optimizers.StepLR(lr=0.1, step_size=2), clip_norm=1.0))
    trainer.fit(X, Y, verbose=False)
    for again in (copy.deepcopy(trainer.optimizer), pickle.loads(pickle.dumps(trainer.optimizer))):  # noqa: S301
        assert repr(again) == repr(trainer.optimizer) and not again.sections and again.lr is not trainer.optimizer.lr
        assert len(made(again).fit(X, Y, verbose=False)) == 1


def test_a_second_run_while_the_first_goes_on_is_refused_and_takes_nothing_from_it(engine: Any) -> None:
    trainer, found = made(), list[BaseException]()

    def second() -> None:
        try:
            trainer.fit(X, Y, verbose=False)
        except UseError as error:
            found.append(error)

    class Meanwhile(Callback):
        def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            other = threading.Thread(target=second)
            other.start()
            other.join()

    assert len(trainer.fit(X, Y, epochs=2, verbose=False, callbacks=Meanwhile())) == 2
    assert len(found) == 2 and "copy.deepcopy(trainer)" in str(found[0])
    assert len(trainer.fit(X, Y, verbose=False)) == 1  # and it is free again
