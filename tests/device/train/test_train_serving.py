"""`predict` as a server calls it: often, from several threads, with batches of any size."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import init, on
from clnet.errors import ShapeError
from clnet.layers import Activation, BatchNorm, Dense, Dropout, Flatten
from clnet.layers.base import Layer
from clnet.model import Sequential
from clnet.optimizers import SGD
from clnet.train import Trainer

SIZES = (1, 2, 7, 16, 17, 33, 64)
THREADS = 6
PATIENCE = 120  # [s] for what has to come


class Counting(Layer):
    """As it is. Counts how often it is recorded."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x


def trainer(*layers: Layer, built: bool = True) -> Trainer:
    """Of a network with all that is another thing in training, in which it is left."""
    init.seed(0)
    model = Sequential(*(layers or (Dense(out_features=16, activation="relu"), BatchNorm(), Dropout(p=0.5),
                                    Dense(out_features=3))))
    return Trainer(model.build((6,)) if built else model, "cross_entropy", SGD(lr=0.01))


def samples(n: int, *shape: int) -> Any:
    return np.random.default_rng(n).normal(size=(n, *(shape or (6,)))).astype(np.float32)


def run(engine: Any, work: Callable[[int], None], count: int = THREADS) -> None:
    """work(0), work(1), ..., each in a thread of its own, which lives until all are done; raises what one raised."""
    failed: list[BaseException] = []
    meeting = threading.Barrier(count)

    def one(k: int) -> None:
        try:
            with on(engine):
                meeting.wait(PATIENCE)
                work(k)
        except BaseException as error:
            failed.append(error)
        meeting.wait(PATIENCE)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]


def test_threads_give_the_same_bits_as_one_alone(engine: Any) -> None:
    made = trainer()
    for n in (33, 20):  # the first shape has a plan of its own
        made.predict(samples(n))
    want = {n: made.predict(samples(n)) for n in SIZES}

    def serve(k: int) -> None:
        for n in np.random.default_rng(k).choice(SIZES, 15):
            assert np.array_equal(made.predict(samples(n)), want[n]), n

    run(engine, serve)


def test_after_a_warm_up_in_one_thread_nothing_is_built_recorded_or_tried(
        engine: Any, builds: Callable[[Any], int]) -> None:
    made = trainer(Counting(), Dense(out_features=3))
    for n in (32, 40, 8, 1):
        made.predict(samples(n))
    layer, forward = made.model.layers[0], made.steps.forward
    before = layer.calls, forward.recorded, builds(engine) if engine.compiles else 0

    def serve(k: int) -> None:
        for n in (1, 2 + k, 9 + k, 18 + 5 * k, 64 - k):
            assert made.predict(samples(n)).shape == (n, 3)

    run(engine, serve)
    after = layer.calls, forward.recorded, builds(engine) if engine.compiles else 0
    assert after == before or not engine.compiles  # NumPy evaluates what is recorded at every call


def test_a_single_sample_may_come_first(engine: Any) -> None:
    """In training, which the model is left in, a batch normalisation takes no single sample."""
    one, made = trainer(), trainer()
    x = samples(1)
    assert made.predict(samples(4)).shape == (4, 3)
    assert np.allclose(one.predict(x), made.predict(x), atol=1e-5)
    assert one.model.training and all(layer.training for layer in one.model.layers)


def test_a_model_is_built_once_by_threads_that_meet(engine: Any) -> None:
    made, found = trainer(built=False), {}

    def serve(k: int) -> None:
        found[k] = made.predict(samples(4))

    run(engine, serve)
    want = made.predict(samples(4))
    assert all(np.array_equal(a, want) for a in found.values())


def test_memory_stays_flat_whatever_sizes_come(engine: Any) -> None:
    made = trainer()

    def serve(k: int) -> None:
        for n in np.random.default_rng(k).integers(1, 65, 20):
            made.predict(samples(int(n)))

    for n in (64, 63, 16, 1) * 3:  # GPUs have buffers for three batches on their way
        run(engine, lambda _, n=n: made.predict(samples(n)))
    gc.collect()
    before = engine.pool.statistics()
    for _ in range(4):
        run(engine, serve)
    gc.collect()
    after = engine.pool.statistics()
    assert after.active <= before.active and after.active + after.cached <= before.active + before.cached + (1 << 16)


def test_what_is_wrong_is_said_at_every_call(engine: Any) -> None:
    """Also where others that were right came before, and by all threads."""
    made = trainer()
    made.predict(samples(8))

    def serve(k: int) -> None:
        for n in (3, 8):
            with pytest.raises(ShapeError, match=r"Dense: in_features is 6; got 7 in an input of shape \(\d, 7\)"):
                made.predict(samples(n, 7))
            with pytest.raises(ShapeError, match=r"expected x with a batch axis and features, \(N, ...\)"):
                made.predict(samples(n)[:, 0])
        assert made.predict(samples(5)).shape == (5, 3)

    run(engine, serve)


def test_a_number_of_samples_that_a_model_does_not_take(engine: Any) -> None:
    """Where another number of them was right before."""
    class Eight(Layer):
        signature = "n d -> n d"

        def forward(self, x: Any) -> Any:
            return x.reshape(8, -1)

    made = trainer(Eight(), built=False)
    for _ in range(2):
        assert made.predict(samples(8)).shape == (8, 6)
        for n in (16, 24):
            with pytest.raises(ShapeError, match=f"expected an output with the batch axis first, {n} samples; got"):
                made.predict(samples(n))
        with pytest.raises(ShapeError, match="reshape"):
            made.predict(samples(7))


def test_a_changed_field_is_seen(engine: Any) -> None:
    made = trainer(Dense(out_features=4), Activation(name="relu"))
    before = made.predict(samples(5))
    made.model.layers[1].name = "tanh"
    after = made.predict(samples(5))
    assert after.min() < 0 and np.allclose(np.maximum(after, 0), np.tanh(before), atol=1e-6)


def test_results_are_the_callers_own(engine: Any) -> None:
    made, x = trainer(Flatten(), built=False), samples(4, 2, 3)
    kept = x.copy()
    first = made.predict(x)
    first[:] = 0
    assert np.array_equal(x, kept) and np.array_equal(made.predict(x), kept.reshape(4, 6)) and first.flags.writeable
    second = made.predict(x)
    made.predict(x + 1)
    assert np.array_equal(second, kept.reshape(4, 6))


def test_other_dtypes_and_orders_are_what_they_were(engine: Any) -> None:
    made, x = trainer(), samples(6)
    want = made.predict(x)
    for same in (x.astype(np.float64), np.asfortranarray(x), np.repeat(x, 2, 0)[::2], x.tolist()):
        assert np.array_equal(made.predict(same), want)
