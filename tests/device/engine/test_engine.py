"""Fusion, planning, replay: what the engine promises beyond single ops."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.state import Arena, Parameter, Variable
from clnet.core.tensor import tensor, walk
from clnet.engine.device.devices import devices
from clnet.engine.record import Recorded

OPENCL = [d for d in devices() if not d.is_host]
REFERENCE = clnet.NumpyEngine()


@pytest.fixture(params=OPENCL, ids=lambda d: d.key)
def engine(request):
    with clnet.on(request.param) as e:
        yield e


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def launches(*tensors):
    return len(clnet.explain(*tensors).plan.launches)


def agree(*tensors, tol=2e-6):
    clnet.realize(*tensors)
    for t, want in zip(tensors, REFERENCE.values(tensors), strict=True):
        got = t.numpy()
        assert got.shape == want.shape
        assert np.abs(got - want).max(initial=0) <= tol * (1 + np.abs(want).max(initial=0)), t


# --- fusion
def test_a_pointwise_chain_with_views_is_one_launch(engine):
    x, b = tensor(normal(4, 6)), tensor(normal(4))
    y = F.relu(F.transpose(x)[::-1] * 2 + b) - 1
    assert launches(y) == 1
    agree(y)


def test_bias_and_activation_melt_into_the_product(engine):
    x, w, b = tensor(normal(5, 7)), tensor(normal(3, 7)), tensor(normal(3))
    y = F.tanh(F.linear(x, w, b)) + 1
    assert launches(y) == 1
    agree(y)


def test_a_reduction_absorbs_its_producer_and_its_consumer(engine):
    x = tensor(normal(6, 33))
    y = F.sqrt(F.sum(F.exp(x) * 2, axes=1) + 1)
    assert launches(y) == 1
    agree(y)


def test_reductions_over_one_domain_share_a_launch(engine):
    x = tensor(normal(6, 33))
    a, b, c = F.sum(x, 1), F.max(x * 2, 1), F.sum(x * x, 1)
    assert launches(a, b, c) == 1
    agree(a, b, c)


def test_several_outputs_are_one_launch(engine):
    x, y = tensor(normal(100)), tensor(normal(100, seed=1))
    outs = [x + y, x * y, F.exp(x + y)]
    assert launches(*outs) == 1
    agree(*outs)


def test_expensive_values_with_two_readers_are_stored_not_recomputed(engine):
    x = tensor(normal(8, 40))
    e = F.exp(F.sin(x))
    y = e / F.sum(e, 1, keepdims=True)
    plan = clnet.explain(y).plan
    assert sum("exp" in s.ops for s in plan.launches) == 1
    agree(y)


def test_equal_subexpressions_are_computed_once(engine):
    x = tensor(normal(10))
    twice, squared = (clnet.explain(y).graph.nodes for y in ((x * 3 + 1) * (x * 3 + 1), F.square(x * 3 + 1) * 1.0))
    assert len(twice) == len(squared) - 1
    agree((x * 3 + 1) * (x * 3 + 1))


def test_parts_of_a_concatenation_are_computed_in_place(engine):
    parts = [F.exp(tensor(normal(5, 3, seed=k))) for k in range(4)]
    y = F.concat(parts, 0)
    assert launches(y) == 4
    agree(y)


def test_two_results_are_computed_where_they_belong_in_a_variable(engine):
    """A product and a sum, as the gradients of a layer: two launches, and no copy of what they wrote."""
    flat, w = Variable(np.zeros(15, np.float32)), tensor(normal(4, 3))

    def step(x, g):
        flat.assign(F.concat([(g.T @ x).reshape(-1), F.sum(g, 0)], 0))
        return ()

    recorded, x, g = Recorded(step), normal(5, 4), normal(5, 3, seed=1)
    recorded(x, g)
    (replay,) = recorded.replays.values()
    assert len(replay.plan.launches) == 2 and not replay.plan.copies
    np.testing.assert_allclose(flat.numpy(), np.concatenate([(g.T @ x).ravel(), g.sum(0)]), rtol=1e-5, atol=1e-6)
    # one that is read in the same step keeps its old value until then
    again = Recorded(lambda x: (flat.assign(F.concat([(x @ w).reshape(-1) * F.sum(flat), F.sum(flat.tensor[:12])
                                                      .reshape(1).expand(3)], 0)), F.sum(flat.tensor))[1])
    before = flat.numpy()
    again(np.ones((4, 4), np.float32))
    product = np.ones((4, 4), np.float32) @ w.numpy() * before.sum()
    want = np.concatenate([product.ravel(), np.full(3, before[:12].sum())])
    np.testing.assert_allclose(flat.numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(k, marks=pytest.mark.slow) for k in range(5, 12))])
def test_random_graphs_agree_with_the_reference(engine, seed):
    """Whatever is fused with whatever: random expressions with views, folds, products and several outputs."""
    rng = np.random.default_rng(seed)
    pool = [tensor(rng.uniform(-1, 1, (4, 6)).astype(np.float32)) for _ in range(3)]
    for _ in range(14):
        a, b = (pool[i] for i in rng.integers(len(pool), size=2))
        kind = rng.integers(8)
        new = [
            lambda a=a, b=b: a * b + 0.5, lambda a=a: F.tanh(a) - a, lambda a=a: F.transpose(a)[::-1].reshape(4, 6),
            lambda a=a: F.expand(F.sum(a, 1, keepdims=True), 4, 6) * 0.2,
            lambda a=a, b=b: F.matmul(a, F.transpose(b)) @ a * 0.1,
            lambda a=a, b=b: F.concat([a[:2], b[2:]], 0), lambda a=a: F.pad(a[1:, :-1], (0, 1), (1, 0)),
            lambda a=a, b=b: F.maximum(a, b) - F.max(a),
        ][kind]()
        pool.append(new)
    outs = [pool[-1], pool[-2], pool[len(pool) // 2], F.sum(pool[-1] * pool[-3])]
    agree(*outs, *gradients(outs[-1], pool[:3]), tol=1e-5)


def test_a_chain_of_thousands_of_ops_does_not_recurse(engine):
    x = y = tensor(normal(4))
    for _ in range(3000):
        y = y + 1.0
    assert len(walk([y])) > 3000
    assert gradients(F.sum(y), [x])[0].shape == (4,)


def test_the_pieces_of_one_result_are_one_part(engine):
    """A result whose pieces lie side by side in a concatenation is computed there; pieces that are missing, turned
    round or doubled are copied.
    """
    x, g, gamma, beta = (tensor(normal(*s, seed=k)) for k, s in enumerate([(6, 32), (6, 32), (32,), (32,)]))
    other = F.square(x)

    def both():
        return gradients(F.layer_norm(x, gamma, beta), [gamma, beta], g)  # slices of one array

    alone = launches(*both())
    a, b = both()
    agree(whole := F.concat([a, b, F.reshape(other, (-1,))], 0))
    assert launches(F.concat([*both(), F.reshape(F.square(x), (-1,))], 0)) <= alone + 1
    for parts in ([b, a], [a], [b, other[0]], [a, a, b], [a, b, a, b], [a, b[:5]], [whole, a, b]):
        agree(F.concat(parts, 0))


def test_concatenations_of_many_gradients_stay_linear(engine):
    x = tensor(normal(40, 3))
    y = F.sum(F.concat([F.square(x[i : i + 1]) for i in range(40)], 0))
    (g,) = gradients(y, [x])
    assert any(t.op is not None and t.op.name == "concat" for t in walk([g]))
    agree(g)


# --- replay
def test_a_recorded_step_equals_the_flushed_one_and_settles(engine):
    w, count = Variable(normal(16)), Variable(np.zeros((), np.float32))

    def step(x):
        count.assign(count + 1)
        w.assign(w * 0.9 + x)
        return F.sum(w * w)

    before = w.numpy().copy()
    recorded = Recorded(step)
    x = normal(16, seed=3)
    results = [recorded(x) for _ in range(3)]
    for _ in range(3):
        before = before * np.float32(0.9) + x
    np.testing.assert_allclose(w.numpy(), before, rtol=1e-6)
    assert float(count) == 3
    assert results[0].numpy() != results[2].numpy()
    results.clear()  # its blocks serve the next outputs, whatever other tests left in the pool
    stats, programs = engine.pool.statistics().allocations, engine.programs.counters().builds
    recorded(x)
    assert engine.pool.statistics().allocations == stats
    assert engine.programs.counters().builds == programs


def test_an_update_whose_old_value_is_read_later_does_not_overwrite_it(engine):
    w = Variable(normal(8, 8))
    start = w.numpy().copy()

    def step(x):
        old = w.tensor
        w.assign(F.transpose(w) + x)
        return F.matmul(old, w)

    y = Recorded(step)(np.ones((8, 8), np.float32))
    np.testing.assert_allclose(w.numpy(), start.T + 1, rtol=1e-6)
    np.testing.assert_allclose(y.numpy(), start @ (start.T + 1), rtol=2e-5)


def test_a_recorded_step_sees_values_assigned_from_outside(engine):
    w = Variable(np.zeros(4, np.float32))
    recorded = Recorded(lambda x: w.assign(w + x) or w * 1.0)
    recorded(np.ones(4, np.float32))
    w.assign(np.full(4, 10, np.float32))
    assert recorded(np.ones(4, np.float32)).numpy().tolist() == [11] * 4
    assert w.numpy().tolist() == [11] * 4


def test_a_tensor_on_the_device_is_fed_without_a_copy(engine):
    recorded = Recorded(lambda x: x * 2)
    x = (tensor(normal(64)) + 1).realize()
    recorded(x)
    moved = engine.transfers.snapshot()
    y = recorded(x)
    assert (engine.transfers.snapshot() - moved).bytes_to_device == 0
    np.testing.assert_allclose(y.numpy(), x.numpy() * 2)


def test_pending_updates_run_with_the_next_flush(engine):
    v = Variable(np.zeros(3, np.float32))
    for _ in range(5):
        v.assign(v + 1)
    (tensor(normal(3)) * 2).numpy()
    assert v.tensor.op is None
    assert v.numpy().tolist() == [5, 5, 5]


def test_an_arena_holds_parameters_and_takes_gradients_in_place(engine):
    shapes = [(16, 8), (3,), (128,), (5, 5)]
    params = [Parameter(normal(*s, seed=k)) for k, s in enumerate(shapes)]
    values = [p.numpy().copy() for p in params]
    arena = Arena(params)
    assert arena.flat.size == sum(v.size for v in values)
    for p, v in zip(params, values, strict=True):
        np.testing.assert_array_equal(p.numpy(), v)
    loss = sum((F.sum(F.square(p.tensor)) for p in arena.params), F.zeros(()))
    arena.flat.assign(arena.flat - 0.5 * arena.pack(gradients(loss, [p.tensor for p in arena.params])))
    for p in params:
        np.testing.assert_allclose(p.numpy(), 0, atol=1e-7)
    params[1].assign(np.ones(3, np.float32))
    assert params[1].numpy().tolist() == [1, 1, 1]
    arena.release()
    assert params[1].numpy().tolist() == [1, 1, 1]


def test_parameters_read_before_a_step_are_not_read_again(engine):
    p = Parameter(np.ones(8, np.float32))
    arena = Arena([p])
    step = Recorded(lambda x: arena.flat.assign(arena.flat + x) or F.sum(arena.flat))
    for k in range(3):
        assert p.numpy().tolist() == [1 + k] * 8
        assert (p * 2).numpy().tolist() == [2 + 2 * k] * 8
        step(np.ones(8, np.float32))
    assert p.numpy().tolist() == [4] * 8


def test_weight_and_input_gradients_asked_for_together_are_right(engine):
    x, w = tensor(normal(2, 5, 6)), tensor(normal(4, 6, seed=1))
    y = F.linear(F.permute(x, 1, 0, 2), w).reshape(10, 4)
    z = F.sum(F.tanh(y) @ tensor(normal(4, 3, seed=2)))
    agree(z, *gradients(z, [x, w]))


# --- behaviour
def test_the_second_identical_flush_plans_and_builds_nothing(engine):
    def run():
        return F.sum(F.exp(tensor(normal(9, 9))) @ tensor(normal(9, 9))).numpy()

    first = run()
    plans, builds = len(engine.plans), engine.programs.counters().builds
    assert run() == first
    assert (len(engine.plans), engine.programs.counters().builds) == (plans, builds)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_the_sign_of_a_zero_is_part_of_a_number(engine, dtype):
    """0.0 and −0.0 are equal to Python, so that one must not stand for the other in a plan."""
    if dtype == "float64" and not engine.device.fp64:
        pytest.skip("no float64")
    x = tensor(np.ones(3, dtype))
    zeros = (0.0, -0.0, 0.0)
    assert [bool(np.signbit((x * zero).numpy()).any()) for zero in zeros] == [False, True, False]
    assert np.isneginf((1 / (x * -0.0)).numpy()).all() and np.isposinf((1 / (x * 0.0)).numpy()).all()
    assert np.signbit(F.stack([x * 0.0, x * -0.0]).numpy()).tolist() == [[False] * 3, [True] * 3]
    assert np.signbit(F.concat([x * -0.0, x], axis=0).numpy()).tolist() == [True] * 3 + [False] * 3


def test_nothing_leaks(engine):
    x = tensor(normal(256, 256)).realize()
    (F.relu(x) @ x).numpy()
    active = engine.pool.statistics().active
    for _ in range(20):
        (F.relu(x) @ x).numpy()
    assert engine.pool.statistics().active == active


def test_many_threads_get_right_answers(engine):
    x = tensor(normal(64, 64)).realize()
    want = [(F.relu(x * k) @ x).numpy() for k in (1.5, 2.5, 3.5, 4.5)]
    wrong: list[int] = []

    def work(k):
        with clnet.on(engine):
            for _ in range(10):
                if not np.array_equal((F.relu(x * (k + 1.5)) @ x).numpy(), want[k]):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(k % 4,)) for k in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_empty_tensors_need_no_kernel(engine):
    x = tensor(np.zeros((0, 4), np.float32))
    assert (F.relu(x) + 1).numpy().shape == (0, 4)
    assert F.sum(x, 0).numpy().tolist() == [0] * 4
    assert F.matmul(x, tensor(normal(4, 3))).numpy().shape == (0, 3)
    nothing = F.matmul(tensor(np.zeros((2, 0), np.float32)), tensor(np.zeros((0, 3), np.float32)))
    assert nothing.numpy().tolist() == [[0] * 3] * 2


def test_input_arrays_of_any_layout_arrive_as_they_are(engine):
    a = normal(6, 8)
    for view in (a.T, a[::-1], a[:, ::2], np.asfortranarray(a), np.broadcast_to(a[0], (3, 8)), a.astype(">f4"), a[:0]):
        np.testing.assert_array_equal((tensor(view) * 1.0).numpy(), view)


def test_eager_mode_flushes_every_op(engine):
    with clnet.eager():
        y = tensor(normal(4)) * 2
        assert y.storage is not None


def test_a_second_engine_takes_over_values(engine):
    x = (tensor(normal(5)) * 2).realize()
    with clnet.on("numpy"):
        y = (x + 1).numpy()
    np.testing.assert_allclose(y, x.numpy() + 1)


# --- errors
def test_an_op_without_a_kernel_falls_back_and_says_so(engine):
    from clnet.core.op import OPS, Kernel
    from clnet.core.spec import Spec

    op = Kernel("host_only_example", lambda x: Spec(x.shape, x.dtype), lambda x: np.sort(x), ("x",))
    try:
        with pytest.warns(RuntimeWarning, match="host_only_example"):
            y = op(tensor(normal(5)) * 1.0) + 1
            np.testing.assert_allclose(y.numpy(), np.sort(normal(5)) + 1)
        assert engine.fallbacks["host_only_example"] == 1
    finally:
        del OPS["host_only_example"]
        engine.fallbacks.pop("host_only_example", None)


@pytest.mark.parametrize("rows, n", [(2100, 1024), (2099, 1023), (300, 7000)])
def test_results_larger_than_a_cache_are_written_past_it(engine, rows, n):
    """Whole vectors only: rows of odd length, and slices that begin between two vectors, are stored as ever."""
    x = tensor(normal(rows, n))
    soft, line = F.softmax(x), F.concat([x[:, :5], x * 2.0], 1)
    agree(soft, line, F.exp(x) + 1.0, tol=1e-5)
    past = "__builtin_nontemporal_store" in repr(clnet.explain(soft).plan.launches)
    assert past == (engine.device.runtime == "intel" and n % engine.device.vector_width == 0)
    assert "__builtin_nontemporal_store" not in repr(clnet.explain(F.softmax(tensor(normal(30, 1024)))).plan.launches)


def test_large_operands_are_asked_for_a_page_ahead(engine):
    """Views that begin and end within the array, and rows narrower than a page;
    what is asked for behind the end is never read.
    """
    x = tensor(normal(1025, 300))
    y = F.relu(x[1:, 3:299]) + tensor(normal(296))
    asked = "__builtin_prefetch" in repr(clnet.explain(y).plan.launches)
    assert asked == (engine.device.runtime == "intel")
    agree(y, tol=1e-6)
    assert "__builtin_prefetch" not in repr(clnet.explain(F.relu(tensor(normal(30, 300)))).plan.launches)
