"""Samples that come one after another: as good as those in memory, and no thread is left, however a run ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.errors import DataError
from clnet.layers import Dense
from clnet.train.ahead import ahead

X = np.random.default_rng(0).normal(size=(150, 3)).astype(np.float32)
Y = (X.sum(1) > 0).astype(np.int64)


def samples() -> Iterator[Any]:
    yield from zip(X, Y, strict=True)


def forever() -> Iterator[Any]:
    while True:
        yield from samples()


def trainer() -> Any:
    clnet.seed(0)
    return clnet.Trainer(clnet.Sequential(Dense(3, 2)), "cross_entropy", clnet.optimizers.Adam(lr=0.05))


def readers() -> list[str]:
    return [t.name for t in threading.enumerate() if "reads ahead" in t.name]


@pytest.fixture(autouse=True)
def no_reader_is_left() -> Iterator[None]:
    with clnet.on("numpy"):
        yield
    assert readers() == []


def test_a_stream_trains_as_its_samples_in_memory() -> None:
    streamed, whole = trainer(), trainer()
    held = clnet.data.Stream(samples)
    history = streamed.fit(clnet.data.Stream(samples), epochs=2, validation=held, verbose=False)
    for k in range(2):
        for part in (slice(0, 64), slice(64, 128), slice(128, 150)):
            whole.fit(X[part], Y[part], epochs=1, batch_size=64, seed=k, verbose=False)
    np.testing.assert_allclose(streamed.predict(X), whole.predict(X), rtol=2e-4, atol=1e-5)
    assert streamed.evaluate(held) == pytest.approx(streamed.evaluate(X, Y), rel=1e-5)
    np.testing.assert_allclose(streamed.predict(clnet.data.Stream(lambda: iter(X))), streamed.predict(X), rtol=1e-5)
    assert history["val_loss"][-1] == pytest.approx(streamed.evaluate(X, Y)["loss"], rel=1e-5)


def test_a_buffer_draws_by_the_seed_and_the_epoch() -> None:
    from clnet.train.stream import batches_of
    stream = clnet.data.Stream(forever, length=100, shuffle_buffer=40)
    orders = [np.concatenate([x[0] for x, _ in batches_of(stream, 32, seed=s).epoch(e)])
              for s, e in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert all(sorted(map(tuple, o)) == sorted(map(tuple, X[:100])) for o in orders)
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2]) and not np.array_equal(orders[0], orders[3])
    assert len(stream) == 100 and len(batches_of(stream, 32)) == 4
    assert len(list(batches_of(stream, 32, drop_last=True).epoch())) == 3


def test_batches_of_a_loader_are_cut_anew() -> None:
    loader = [(X[k : k + 70], Y[k : k + 70]) for k in range(0, 150, 70)]
    stream = clnet.data.Stream(loader, batched=True)
    assert repr(stream).startswith("<Stream stream: samples that come one after another, x float32[3], y int32[]")
    np.testing.assert_array_equal(np.concatenate([x[0] for x, _ in
                                                  clnet.train.stream.StreamBatches(stream, 50, False)]), X)
    assert len(stream) == 150 and stream[:5].y.tolist() == Y[:5].tolist()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_no_thread_is_left_where_a_run_breaks_off(error: type[BaseException]) -> None:
    class Stops(clnet.train.Callback):
        def on_batch_end(self, trainer: Any, logs: Any = None) -> None:
            raise error

    run = trainer()
    try:
        history = run.fit(clnet.data.Stream(forever, length=10**6), verbose=False, callbacks=Stops())
        assert history.interrupted and error is KeyboardInterrupt
    except ValueError:
        assert error is ValueError
    assert readers() == []


def test_errors_of_the_source_arrive_and_a_reader_that_waits_ends() -> None:
    closed: list[bool] = []

    def broken() -> Iterator[Any]:
        try:
            yield from zip(X[:90], Y, strict=False)
            raise OSError("the disk is gone")
        finally:
            closed.append(True)

    with pytest.raises(OSError, match="the disk is gone"):
        trainer().fit(clnet.data.Stream(broken), verbose=False)
    assert closed
    numbers = ahead(iter(range(10**9)))
    assert [next(numbers) for _ in range(3)] == [0, 1, 2]
    numbers.close()


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda: clnet.data.Stream(samples()), "pass the function itself: Stream"),
    (lambda: clnet.data.Stream(lambda: iter(())), "at least one sample"),
    (lambda: clnet.data.Stream(lambda: [(X[0], 1), (X[0][:2], 1)]), "one shape in x"),
    (lambda: trainer().fit(clnet.data.Stream(samples), validation=0.2, verbose=False), "a share to hold out"),
    (lambda: trainer().fit(clnet.data.Stream(samples), class_weight="balanced", verbose=False), "not counted before"),
    (lambda: trainer().fit(clnet.data.Stream(lambda: (*samples(), (X[0][:2], 1))), verbose=False), "one shape in x"),
    (lambda: len(clnet.data.Stream(samples)), "length="),
    (lambda: trainer().fit(samples(), verbose=False), "data.Stream"),
])
def test_slips_are_named(wrong: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        wrong()
