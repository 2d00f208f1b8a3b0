"""Shapes that change: a function is recorded with sizes in the place of numbers, and its plan serves them all."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import clnet
from clnet import layers as L
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine import bound
from clnet.engine.record import Recorded
from clnet.errors import ShapeError


@pytest.fixture
def engine(engine):
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")
    return engine


def normal(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def test_a_map_and_folds_serve_every_size(serves_all):
    def fn(x, b):
        y = F.relu(F.transpose(x)[::-1] * 2 + 1) + F.exp(-b)
        return y, F.sum(y, axes=0), F.mean(y), F.max(y, axes=1)

    sizes = [(5, 33), (7, 40), (16, 24), (9, 100), (12, 17), (13, 64)]
    serves_all(fn, [(normal(n, m), normal(n)) for n, m in sizes], alone=4e-6, digits=4e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_places_of_every_number_of_rows(serves_all, axis):
    """Each element's own index, few columns and many of them, sums by number, their gradients, turned and across."""
    def fn(x, i):
        taken = F.take_along_axis(x, i, axis)
        rows = F.scatter_add(x[:, :3], i[:, 0] * 0 + F.argmax(x, 1).astype("int32") % 7, 7)
        top = F.topk(x, 3)[0]
        y = F.sum(taken * taken) + F.sum(top * top) + F.sum(x[i[:, 0] % 5, i[:, 1]] ** 2)
        return taken, rows, F.argmin(x, 0), F.flip(x, 1).mT * 2, *gradients(y, [x])

    sizes = [(5, 33), (7, 40), (16, 34), (12, 50), (9, 60), (6, 35)]
    serves_all(fn, [(normal(n, m), (np.arange(n * m).reshape(n, m) * 7 % 5).astype(np.int32)) for n, m in sizes],
               alone=4e-6, digits=4e-6)


def test_points_between_the_pixels_of_every_image(serves_all):
    def fn(x, grid):
        y = F.grid_sample(x, grid, padding="border")
        return y, *gradients(F.sum(y * y), [x, grid])

    sizes = [(2, 3, 9, 12, 5, 4), (3, 3, 16, 10, 7, 9), (4, 3, 12, 13, 14, 11), (5, 3, 10, 15, 6, 6)]
    serves_all(fn, [(normal(n, c, h, w), np.tanh(normal(n, a, b, 2))) for n, c, h, w, a, b in sizes],
               alone=4e-6, digits=2e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_long_rows_of_every_batch(serves_all, stride):
    w = tensor(normal(18, 3, 5))

    def fn(x):
        y = F.conv(x, w, stride=stride, padding=2)
        return y, *gradients(F.sum(y * y), [x, w])

    serves_all(fn, [(normal(n, 3, 20011),) for n in (2, 3, 5, 4)], alone=2e-5, digits=2e-5)


def test_few_queries_of_every_number_of_keys(serves_all):
    def fn(q, k):
        y = F.attention(q, k, k, causal=True)
        return y, *gradients(F.sum(y * y), [q, k])

    sizes = [(5, 5, 140), (6, 7, 150), (9, 8, 133), (7, 6, 160)]
    serves_all(fn, [(normal(n, 2, t, 32), normal(n, 2, s, 32)) for n, t, s in sizes], alone=1e-5, digits=1e-5)


def test_products_of_no_rows_among_others(engine):
    w = tensor(normal(5, 40))
    step = Recorded(lambda x: (x[2:] @ w, F.transpose(w) @ F.transpose(x[2:])))
    for n in (12, 9, 2, 3, 2, 40, 300):
        x = normal(n, 5)
        want = x[2:].astype(np.float64) @ w.numpy()
        for found, whole in zip(step(x), (want, want.T), strict=True):
            assert found.shape == whole.shape and np.abs(found.numpy() - whole).max(initial=0) <= 1e-5


@pytest.mark.parametrize("m", [3, 40, 300])
def test_products_serve_every_number_of_rows(engine, m, serves_all):
    """Rows one by one are the same sums on CPUs, whatever tile they fall into; GPUs cut sums of few results in parts,
    of which a class of sizes may have others.
    """
    w, v = tensor(normal(65, 24)), tensor(normal(65, 24, seed=1))
    sizes = [m, m + 2, m + 1, m + 7, m + 4]
    serves_all(lambda x: (x @ w + 1, x @ v), [(normal(n, 65),) for n in sizes],
               alone=0 if engine.device.is_cpu else 2e-6, digits=4e-6)


def test_products_along_an_axis_that_varies(serves_all):
    """Of a weight's gradient: as many terms as there are rows, in blocks that a class of sizes may cut elsewhere."""
    def fn(x, g):
        return F.transpose(x) @ g

    for sizes in ((3, 5, 16, 7), (20, 40, 256, 129), (300, 1000, 5000, 700)):
        serves_all(fn, [(normal(n, 30), normal(n, 20, seed=1)) for n in sizes], alone=4e-6, digits=1e-5)


def net(seed=0):
    clnet.init.seed(seed)
    return clnet.Sequential([L.Conv2d(out_channels=8, kernel_size=3, padding=1, activation="relu"),
                             L.MaxPool2d(kernel_size=2), L.Flatten(),
                             L.Dense(out_features=32, activation="relu"), L.Dense(out_features=10)])


def test_training_takes_batches_of_every_size(quick):
    """Forty steps on batches of ten sizes, beside a trainer that plans each of them anew."""
    rng = np.random.default_rng(0)
    batches = [(rng.normal(size=(n, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, n))
               for n in rng.integers(17, 60, 10)] * 4
    losses = []
    for forget in (False, True):
        trainer = clnet.Trainer(net(), "cross_entropy", clnet.optimizers.Adam(lr=1e-3))
        seen = []
        for x, y in batches:
            if forget and trainer.steps is not None:
                trainer.steps.train.replays.clear()
                trainer.steps.train.recordings.clear()
            seen.append(trainer.fit((x, y), epochs=1, batch_size=len(x), verbose=0)["loss"][-1])
        losses.append(seen)
    assert np.abs(np.subtract(*losses)).max() < 1e-5


def test_a_new_size_builds_nothing_and_records_nothing(quick, builds):
    trainer = clnet.Trainer(net(), "cross_entropy", clnet.optimizers.Adam(lr=1e-3))
    rng = np.random.default_rng(0)
    counts = []
    for n in (32, 40, 24, 57, 33, 120):
        x, y = rng.normal(size=(n, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, n)
        trainer.fit((x, y), epochs=1, batch_size=n, verbose=0)
        trainer.predict(x)
        counts.append((trainer.steps.train.recorded, builds(quick)))
    assert len(set(counts[1:])) == 1 and counts[-1][0] == 2


def test_memory_stays_flat(engine):
    """One arena, as large as the largest shape wants, whatever shapes come."""
    recorded = Recorded(lambda x: F.softmax(F.sum(F.softmax(x * 2)[:, ::-1] @ F.transpose(x), axes=0)))
    sizes = np.random.default_rng(0).integers(20, 200, 60)
    for n in (200, 199, 199, 199, 199):  # GPUs have buffers for three batches on their way
        recorded(normal(n, 30)).numpy()
    gc.collect()
    before = engine.pool.statistics()
    for n in sizes:
        recorded(normal(int(n), 30)).numpy()
    gc.collect()
    after = engine.pool.statistics()
    assert after.active <= before.active and recorded.recorded == 2
    assert after.active + after.cached <= before.active + before.cached + (1 << 20)


def test_a_size_that_happens_to_be_the_whole_of_a_table_is_one_like_others(serves_all):
    """Positions of a sequence as long as the longest that the table has."""
    table = tensor(normal(90, 8))
    serves_all(lambda x: F.tanh(x + table[: x.shape[1]]), [(normal(3, n, 8),) for n in (40, 33, 90, 17, 89)])


def test_the_gradient_of_a_table_is_right_where_a_size_is_the_whole_of_it(engine):
    """Nothing is left to fill up with zeros then: the plan that fills up serves it too."""
    table = tensor(normal(90, 8))
    recorded = Recorded(lambda x: gradients(F.sum(F.square(x + table[: x.shape[1]])), [table])[0])
    for n in (40, 33, 90, 17, 89, 90):
        x, want = normal(3, n, 8), np.zeros((90, 8))
        want[:n] = 2 * (x + table.numpy()[:n].astype(np.float64)).sum(0)
        assert np.abs(recorded(x).numpy() - want).max() < 2e-5
    assert recorded.recorded == 2 and not recorded.fixed and not recorded.refused


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_interrupt_while_kernels_take_another_size_loses_none(engine, monkeypatch, at):
    w, real, given = tensor(normal(5, 40)), bound.give, []
    step = Recorded(lambda x: F.softmax(F.tanh(x @ w)[::-1], axis=0))

    def give(*args):
        given.append(args)
        if len(given) == at:
            raise KeyboardInterrupt
        real(*args)

    def right(n):
        x = normal(n, 5)
        e = np.exp(np.tanh(x.astype(np.float64) @ w.numpy())[::-1])
        assert np.abs(step(x).numpy() - e / e.sum(0)).max() < 1e-5

    for n in (40, 33, 37):
        right(n)
    monkeypatch.setattr(bound, "give", give)
    with pytest.raises(KeyboardInterrupt):
        step(normal(50, 5))
    for n in (50, 33, 50, 37):
        right(n)


def test_a_larger_shape_moves_the_arena_and_nothing_is_lost(engine):
    recorded, w = Recorded(lambda x: F.tanh(x @ w) @ F.transpose(w)), tensor(normal(8, 24))
    kept = []
    for n in (20, 30, 100, 25, 250, 20, 60):
        x = normal(n, 8)
        kept.append((recorded(x), np.tanh(x @ w.numpy()) @ w.numpy().T))
    for got, want in kept:  # earlier results stay valid
        assert np.abs(got.numpy() - want).max() < 1e-5 * (1 + np.abs(want).max())


def test_a_function_that_needs_the_number_is_recorded_for_each(engine):
    def fn(x):
        total = x[0]
        for k in range(1, x.shape[0]):
            total = total + k * x[k]
        return total

    recorded = Recorded(fn)
    for n in (3, 5, 4, 5, 7):
        x = normal(n, 6)
        want = x[0] + sum(k * x[k] for k in range(1, n))
        assert np.abs(recorded(x).numpy() - want).max() < 1e-5
    assert list(recorded.fixed) == [(0, 0)] and recorded.fixed[0, 0]


def test_only_the_axis_that_must_be_known_is_compiled_in(engine):
    """Rows are unrolled in Python, columns vary."""
    def fn(x):
        return sum((x[k] for k in range(1, x.shape[0])), x[0])

    recorded = Recorded(fn)
    for n, m in ((3, 30), (4, 40), (4, 50), (4, 33), (3, 64), (3, 65)):
        x = normal(n, m)
        assert np.abs(recorded(x).numpy() - x.sum(0)).max() < 1e-5
    assert list(recorded.fixed) == [(0, 0)]
    assert recorded.recorded == 3  # (3, 30) alone, then all columns of 4 rows, then of 3


def test_numbers_of_the_shape_are_those_of_the_shape(serves_all):
    """What is computed from sizes: a mean's divisor, a range, fractions of them."""
    def fn(x):
        n = x.shape[0]
        return x.sum(axes=0) / n + 1 / n, F.arange(n) * (n // 2) + n % 3, F.full((n,), n * 0.5)

    serves_all(fn, [(normal(n, 4),) for n in (6, 9, 12, 7, 16)], alone=2e-6, digits=None)


def test_conditions_on_sizes_are_kept(engine):
    """A function may decide by the size, and what it decides is not taken for another."""
    recorded = Recorded(lambda x: x * 2 if x.shape[0] > 40 else x * 3)
    for n in (30, 35, 41, 38, 60, 20, 200):
        x = normal(n, 3)
        assert np.array_equal(recorded(x).numpy(), x * (2 if n > 40 else 3))
    assert recorded.recorded == 3


def test_one_row_and_none_have_plans_of_their_own(engine):
    recorded = Recorded(lambda x: F.sum(x * 2, axes=0))
    for n in (5, 7, 1, 9, 0, 1, 6):
        x = normal(n, 3)
        assert np.abs(recorded(x).numpy() - 2 * x.sum(0)).max(initial=0) < 1e-5


def test_an_error_of_the_function_is_the_users(engine):
    recorded = Recorded(lambda x, y: x + y)
    recorded(normal(4, 3), normal(4, 3))
    with pytest.raises(ShapeError, match=r"add: shapes \(5, 3\) and \(6, 3\)"):
        recorded(normal(5, 3), normal(6, 3))
    assert np.array_equal(recorded(normal(7, 3), normal(7, 3)).numpy(), 2 * normal(7, 3))


def test_inputs_on_the_device_and_from_the_host(engine):
    recorded = Recorded(lambda x: x * 2 + 1)
    for n in (4, 6, 9, 5):
        x = normal(n, 3)
        assert np.array_equal(recorded(tensor(x)).numpy(), recorded(x).numpy())
        assert np.array_equal(recorded(x).numpy(), x * 2 + 1)


def test_threads_have_replays_of_their_own(engine):
    w = tensor(normal(16, 8))
    engine.run([w])
    recorded, wrong = Recorded(lambda x: F.relu(x @ w)), []

    def serve(seed):
        rng = np.random.default_rng(seed)
        with clnet.on(engine):
            for n in rng.integers(2, 40, 12):
                x = normal(int(n), 16, seed=seed)
                if np.abs(recorded(x).numpy() - np.maximum(x @ w.numpy(), 0)).max() > 1e-4:
                    wrong.append(n)

    threads = [threading.Thread(target=serve, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_gradients_at_every_size(serves_all):
    w = tensor(normal(12, 5))

    def fn(x):
        y = F.softmax(F.tanh(x) @ w, axis=-1)
        return gradients(F.mean(y * y), [x, w])

    serves_all(fn, [(normal(n, 12),) for n in (20, 31, 64, 18, 100)], alone=2e-6, digits=None)


def test_weights_that_were_read_are_not_kept_for_later_steps(engine):
    """Reading parameters between steps computes views of them; what is recorded after that reads them anew."""
    clnet.init.seed(0)
    layer = L.Dense(in_features=4, out_features=3)
    optimizer = clnet.optimizers.SGD(lr=0.5)
    optimizer.attach(layer.parameters())

    def fn(x, hyper):
        y = layer(x)
        optimizer.apply(gradients(F.sum(y * y), [p.tensor for p in optimizer.parameters]), hyper)
        return y

    recorded = Recorded(fn)
    for k, n in enumerate((5, 6, 6, 7, 6, 9)):
        x = normal(n, 4) * 0.1
        want = layer(x).numpy()
        got = recorded(x, optimizer.hyper(k + 1)).numpy()
        assert np.abs(got - want).max() < 1e-5
        [p.numpy() for p in layer.parameters()]
