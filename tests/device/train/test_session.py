"""What was taken is given back: at the end of a session, and where a cell runs again."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.engine import current
from clnet.errors import ConfigError
from clnet.layers import Activation, Dense

RNG = np.random.default_rng(0)
X = RNG.normal(size=(96, 8)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)


def cell() -> clnet.Trainer:
    """As a notebook has it."""
    clnet.seed(0)
    model = clnet.Sequential(Dense(out_features=16), Activation("relu"), Dense(out_features=2))
    trainer = clnet.Trainer(model, "cross_entropy", "adam")
    trainer.fit(X, Y, epochs=2, batch_size=48, validation=(X, Y), verbose=False)
    return trainer


def taken() -> tuple[int, int, list[str], int]:
    """(bytes held by values, bytes of the pool in all, threads, open files) of this process"""
    s = current().pool.statistics()
    files = Path("/proc/self/fd")
    return (s.active, s.active + s.cached, sorted(t.name for t in threading.enumerate()),
            len(os.listdir(files)) if files.is_dir() else 0)


def test_a_cell_that_runs_again_takes_no_more(engine: Any) -> None:
    kept = cell()
    held, _, threads, files = taken()
    kept = cell()  # while it is made, the one before is still there
    pool = taken()[1]
    for _ in range(18):
        kept = cell()
    assert taken() == (held, pool, threads, files)
    assert np.isfinite(kept.evaluate(X, Y)["loss"])


def test_a_session_gives_everything_back_and_what_was_made_stays_right(engine: Any) -> None:
    older = clnet.tensor(X) @ clnet.tensor(X.T)
    older.numpy()
    weight = clnet.Variable(X)  # comes to the device inside
    cell()  # what is taken once for all: programs, plans, the driver's own
    gc.collect()  # what other tests left goes before, and no free block of theirs is taken inside
    if not engine.device.is_host:
        engine.pool.trim(0)
    before, values = taken(), older.numpy()
    with clnet.session() as session:
        trainer = cell()
        product = weight.tensor.T @ clnet.tensor(X)
        numbers, outputs = product.numpy(), trainer.predict(X)
        assert engine.device.is_host or taken()[0] > before[0]
        assert "taken so far" in repr(session)
    after = taken()
    assert (after[0], *after[2:]) == (before[0], *before[2:]) and after[1] <= before[1]
    assert engine.device.is_host or session.freed > 0 and "given back" in repr(session)
    session.close()  # nothing is left to do
    assert np.array_equal(trainer.predict(X), outputs) and np.array_equal(product.numpy(), numbers)
    assert np.array_equal(older.numpy(), values) and np.array_equal(weight.numpy(), X)
    again = trainer.fit(X, Y, epochs=1, batch_size=32, verbose=False)
    assert np.isfinite(again["loss"]).all()


def test_what_goes_on_after_a_session_is_what_would_have_been(engine: Any) -> None:
    def losses(apart: bool) -> list[float]:
        session = clnet.session()
        trainer = cell()
        if apart:
            session.close()
        return trainer.fit(X, Y, epochs=2, batch_size=48, verbose=False).steps

    assert losses(True) == losses(False)


def test_programs_go_when_asked(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("the host compiles nothing")
    with clnet.session(programs=True):
        cell()
        assert engine.plans
    assert not engine.plans
    with pytest.raises(ConfigError, match=r"session\(programs='yes'\): expected True or False"):
        clnet.session(programs="yes")  # type: ignore[arg-type]
