"""A recorded function called from several threads: one plan for all, kernels and buffers for each, none left behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.state import Variable
from clnet.core.tensor import tensor
from clnet.engine import current, record
from clnet.engine.compile import pipeline
from clnet.engine.device import commands
from clnet.engine.record import Recorded

PATIENCE = 120  # [s] for what has to come


@pytest.fixture
def engine(engine: Any) -> Any:
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")
    return engine


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def run(engine: Any, *work: Callable[[], Any]) -> None:
    """Each in a thread of its own, all at one time; raises what one of them raised."""
    failed: list[BaseException] = []

    def one(call: Callable[[], Any]) -> None:
        try:
            with clnet.on(engine):
                call()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(w,)) for w in work]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]


def products(features: int = 24) -> Recorded:
    w, v = tensor(normal(features, 32)), tensor(normal(32, 8, seed=1))
    return Recorded(lambda x: F.tanh(F.softmax(x @ w) @ v))


def test_values_are_those_of_a_call(engine: Any) -> None:
    """From one shape to another and back, beside results that stay on the device."""
    recorded, kept = products(), []
    for n in (5, 9, 30, 12, 9, 5, 60, 1):
        x = normal(n, 24)
        (before,), stays = recorded.values(x), recorded(x)
        (after,) = recorded.values(x)
        assert np.array_equal(before, after) and before.shape == (n, 8)
        kept.append((stays, after))
    for stays, value in kept:  # what a later call gave did not go over what an earlier one left on the device
        assert np.array_equal(stays.numpy(), value)


def test_values_of_several_outputs_and_of_inputs_that_pass_through(engine: Any) -> None:
    recorded = Recorded(lambda x: (x, x + 1, F.sum(x, axes=1)))
    for n in (4, 7, 3):
        x = normal(n, 6)
        a, b, c = recorded.values(x)
        assert np.array_equal(a, x) and np.array_equal(b, x + 1) and np.allclose(c, x.sum(1), atol=1e-5)
        a[:] = 0  # a copy: the caller's array stays
        assert x.any()


def test_values_of_a_function_that_changes_a_variable(engine: Any) -> None:
    total = Variable(np.zeros(3, np.float32))

    def fn(x: Any) -> Any:
        total.assign(total + F.sum(x, axes=0))
        return total.tensor * 2

    recorded, want = Recorded(fn), np.zeros(3, np.float32)
    for n in (4, 4, 6, 9):
        x = np.full((n, 3), 0.5, np.float32)
        want += n / 2
        assert np.array_equal(recorded.values(x)[0], want * 2) and np.array_equal(total.numpy(), want)


def test_threads_give_the_same_bits_as_one_alone(engine: Any) -> None:
    recorded, xs = products(), {n: normal(n, 24) for n in (1, 2, 5, 16, 17, 40, 64)}
    for n in (40, 33):  # one has a plan of its own
        recorded.values(normal(n, 24))
    want = {n: recorded.values(x)[0] for n, x in xs.items()}
    meeting = threading.Barrier(6)

    def serve(seed: int) -> None:
        meeting.wait(PATIENCE)
        for n in np.random.default_rng(seed).choice(list(xs), 30):
            assert np.array_equal(recorded.values(xs[n])[0], want[n]), n

    run(engine, *(lambda k=k: serve(k) for k in range(6)))


def test_what_one_thread_prepared_no_other_records_or_builds(engine: Any, builds: Callable[[Any], int]) -> None:
    recorded = products()
    for n in (32, 40, 8, 1):  # every class of sizes
        recorded.values(normal(n, 24))
    before = recorded.recorded, builds(engine)
    meeting = threading.Barrier(4)

    def serve(sizes: Sequence[int]) -> None:
        meeting.wait(PATIENCE)
        for n in sizes:
            recorded.values(normal(n, 24))

    run(engine, *(lambda k=k: serve((1, 3 + k, 20 + k, 60 - k)) for k in range(4)))
    assert (recorded.recorded, builds(engine)) == before


def test_a_thread_that_ended_leaves_its_kernels_and_memory_to_the_next(engine: Any) -> None:
    """A server may start a thread for every request."""
    recorded, sizes = products(), np.random.default_rng(0).integers(2, 60, 40)
    for n in (59, 60, 16, 1) * 3:  # GPUs have buffers for three batches on their way
        run(engine, lambda n=n: recorded.values(normal(n, 24)))
    gc.collect()
    before, hits = engine.pool.statistics(), engine.programs.counters().memory_hits
    for n in sizes:
        x = normal(int(n), 24)
        run(engine, lambda x=x: recorded.values(x))
    gc.collect()
    after = engine.pool.statistics()
    assert after.active <= before.active and after.allocations <= before.allocations
    assert engine.programs.counters().memory_hits == hits, "kernels were made anew"


def test_few_of_many_threads_that_ended_are_kept_for(engine: Any) -> None:
    recorded, count = products(), record.SPARE + 6
    meeting = threading.Barrier(count)

    def serve() -> None:
        for n in (20, 30):
            recorded.values(normal(n, 24))
        meeting.wait(PATIENCE)  # so that all are alive at one time

    run(engine, *[serve] * count)
    assert len(recorded._arenas) == count
    gc.collect()
    before = engine.pool.statistics().active
    recorded.values(normal(25, 24))
    gc.collect()
    assert len(recorded._arenas) <= record.SPARE + 1
    assert all(len(r.bound) <= record.SPARE + 1 for r in recorded.recordings.values())
    assert engine.pool.statistics().active < before


def test_what_is_known_runs_while_another_shape_is_planned(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, over, build, planner = threading.Event(), threading.Event(), pipeline.build, "who plans"

    def slowly(*arguments: Any) -> Any:
        if threading.current_thread().name == planner:
            inside.set()
            assert over.wait(PATIENCE)
        return build(*arguments)

    monkeypatch.setattr(pipeline, "build", slowly)
    recorded, x, found = products(23), normal(9, 23), []  # of which no plan is known
    for n in (4, 6):
        recorded.values(normal(n, 23))

    def other() -> None:
        with clnet.on(engine):
            found.extend(recorded.values(normal(40, 23)))

    slow = threading.Thread(target=other, name=planner)
    slow.start()
    try:
        assert inside.wait(PATIENCE)
        run(engine, lambda: recorded.values(x))  # in a thread that has run nothing
        assert recorded.values(x)[0].shape == (9, 8) and not found
    finally:
        over.set()
        slow.join()
    assert found[0].shape == (40, 8)


def test_threads_that_wait_need_no_others_to_wait_for_them(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the main thread is told of Ctrl-C."""
    aside: list[str] = []

    def noted(wait: Callable[[], Any]) -> None:
        aside.append(threading.current_thread().name)
        wait()

    monkeypatch.setattr(commands, "_aside", noted)
    recorded = products()
    run(engine, *[lambda: [recorded.values(normal(n, 24)) for n in (3, 4, 5)]] * 4)
    engine.queue._lane().short_waits = 0
    recorded.values(normal(3, 24))
    assert set(aside) == {threading.current_thread().name}


def test_one_device_entered_within_itself_leaves_what_was_before(engine: Any) -> None:
    outer, host = clnet.on(engine), clnet.on("numpy")
    with host as before, outer, host, outer:
        pass
    with host:
        with outer, outer:
            assert current() is engine
        assert current() is before


def test_one_device_serves_threads_whose_blocks_overlap(engine: Any) -> None:
    shared, inside, found = clnet.on(engine), threading.Barrier(2), list[Any]()

    def other() -> None:
        with clnet.on("numpy") as host:
            with shared:
                inside.wait(10)  # the first enters before, and leaves after
            found.append(current() is host)

    thread = threading.Thread(target=other)
    with shared:
        thread.start()
        inside.wait(10)
        thread.join(10)
        found.append(current() is engine)
    assert found == [True, True]
