"""Layers with rules of their own: against loops in NumPy, in calls and in recorded steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import init
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine.record import Recorded
from clnet.errors import ClnetError
from clnet.layers import (
    RBM,
    AnomalyDetector,
    ContinuumMemory,
    SpatialPooler,
    SynapticPlasticity,
    TemporalMemory,
    no_tape,
)
from clnet.model import Sequential
from clnet.optimizers import LBFGS, Adam, Group, Momentum
from clnet.train import Trainer
from clnet.train.callbacks import Checkpoint
from clnet.workbench.evidence.properties.memory import chain, slopes

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def recorded(layer: Any) -> Any:
    def body(x: Any) -> Any:
        with no_tape():
            return layer(x)

    return Recorded(body, "rule")


def test_contrastive_divergence_descends_its_loss(engine: Any) -> None:
    """local_update is a step down cd_loss by the same draws, and so is a recorded call with cd_rate."""
    v = (RNG.uniform(size=(6, 5)) > 0.5).astype(np.float32)
    init.seed(0)
    layer = RBM(5, 3, k=2)
    layer.weight.assign(RNG.normal(size=(3, 5)).astype(np.float32))
    before = [p.numpy() for p in layer.parameters()]
    layer.random.seed(1)
    slopes = [g.numpy() for g in gradients(layer.cd_loss(tensor(v)), [p.tensor for p in layer.parameters()])]
    layer.random.seed(1)
    layer(v)
    layer.local_update(0.1)
    for p, old, g in zip(layer.parameters(), before, slopes, strict=True):
        assert np.abs(p.numpy() - (old - 0.1 * g)).max() < 2e-6 and np.abs(g).max() > 1e-3
    other = RBM(5, 3, k=2, cd_rate=0.1)
    other.weight.assign(before[0])
    other.random.seed(1)
    recorded(other)(v)
    assert not other.parameters() and np.abs(other.weight.numpy() - layer.weight.numpy()).max() < 2e-6


def test_free_energy_is_minus_the_log_of_a_sum_over_all_hidden_states(engine: Any) -> None:
    layer, v = RBM(4, 3), RNG.uniform(size=(5, 4)).astype(np.float32)
    parts = [RNG.normal(size=p.shape).astype(np.float32) for p in (layer.weight, layer.b_visible, layer.b_hidden)]
    for p, value in zip((layer.weight, layer.b_visible, layer.b_hidden), parts, strict=True):
        p.assign(value)
    w, b, c = (a.astype(np.float64) for a in parts)
    states = np.array([[k >> j & 1 for j in range(3)] for k in range(8)])
    energy = -(v @ b)[:, None] - states @ c - v @ w.T @ states.T
    assert np.abs(layer.free_energy(tensor(v)).numpy() + np.log(np.exp(-energy).sum(1))).max() < 1e-5


def _plastic(w: Array, x: Array, lr: float) -> Array:
    """The rule sample by sample, steps one after another."""
    pre, post = np.zeros(w.shape[1]), np.zeros(w.shape[0])
    y = x @ w.T
    for t in range(x.shape[1]):
        change, new = np.zeros_like(w), [np.zeros_like(pre), np.zeros_like(post)]
        for n in range(len(x)):
            p, q = x[n, t] > 0.5, y[n, t] > 0.5
            change += (0.05 * np.outer(q, pre) * (1 - w) - 0.025 * np.outer(post, p) * w - 1e-4 * (w - 0.5)) / len(x)
            for total, s, trace in ((new[0], p, pre), (new[1], q, post)):
                total += np.where(s, 1, 0.95 * trace) / len(x)
        w, (pre, post) = np.clip(w + lr * change, 0, 1), new
    return w


def test_synapses_learn_as_a_loop_says(engine: Any) -> None:
    x = (RNG.uniform(size=(3, 4, 5)) > 0.5).astype(np.float32)
    init.seed(2)
    layer = SynapticPlasticity(5, 2, a_plus=0.05, a_minus=0.025, rate=2.0)
    start = layer.weight.numpy().astype(np.float64)
    recorded(layer)(x)
    want = _plastic(start, x, 2.0)
    assert np.abs(layer.weight.numpy() - want).max() < 1e-6 and np.abs(want - start).max() > 0.01
    layer.eval()(x)
    assert np.abs(layer.weight.numpy() - want).max() < 1e-6, "evaluation learns nothing"


def test_columns_settle_on_what_they_have_seen(engine: Any) -> None:
    """Recorded steps of the same codes: overlaps grow, and codes stay what they are; evaluation moves nothing."""
    x = (RNG.uniform(size=(2, 30)) > 0.6).astype(np.float32)
    init.seed(3)
    layer = SpatialPooler(30, 20, sparsity=0.1)
    step, before = recorded(layer), layer.permanence.numpy()
    codes = [step(x).numpy() for _ in range(12)]
    assert np.array_equal(codes[-1], codes[-2]) and (codes[-1].sum(1) == 2).all() and int(layer.samples.numpy()) == 24
    after = layer.permanence.numpy()
    assert np.array_equal(layer.eval()(x).numpy(), codes[-1]) and np.array_equal(layer.permanence.numpy(), after)
    idle = layer.active_duty.numpy() == 0
    assert np.array_equal(after[idle], before[idle]) and not np.array_equal(after, before)


def test_columns_pass_a_gradient_straight_through(engine: Any) -> None:
    init.seed(3)
    layer = SpatialPooler(6, 4, sparsity=0.5, potential_fraction=1.0, straight_through=True).eval()
    y = layer(np.ones((1, 6), np.float32))
    linked = (layer.permanence.numpy() >= 0.5).astype(np.float32)
    slope = layer.backward(np.ones((1, 4), np.float32)).numpy()
    assert np.array_equal(slope, y.numpy() @ linked) and y.numpy().sum() == 2


def test_a_detector_keeps_its_last_scores(engine: Any) -> None:
    layer, scores = AnomalyDetector(4, history_capacity=2, smoothing=0.5), []
    assert layer.statistics() == {}
    for x in ([1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]):
        scores.append(float(layer(np.array([x], np.float32)).numpy()[0, 0]))
    assert scores == [0.0, 0.5, 1.0, 0.0] and float(layer.smoothed.numpy()) == 0.3125 and not layer.is_anomaly
    assert layer.statistics() == {"mean": 0.5, "std": 0.5, "min": 0.0, "max": 1.0}


def test_a_temporal_memory_goes_on_from_a_file(tmp_path: Any) -> None:
    """Synapses and activity are saved; a step alone is one of a sequence; growth draws among winners and keeps to its
    bounds.
    """
    with clnet.on("numpy"):
        init.seed(5)
        x = np.eye(8, dtype=np.float32)[np.random.default_rng(0).integers(0, 8, 9)].repeat(3, 1)
        layer = TemporalMemory(24, 2, activation_threshold=2, min_threshold=1, max_segments=2, max_synapses=3,
                               max_new_synapses=2, initial_permanence=0.6)
        model = Sequential(layer)
        model(x[:5])
        model.save(tmp_path / "m.safetensors")
        again = clnet.load(tmp_path / "m.safetensors")
        other = again.layers[0]
        other.random.key = layer.random.key  # random counters belong to a run
        other.random.counter.assign(layer.random.counter.numpy())
        whole, steps = model(x[5:]).numpy(), np.stack([other(row).numpy() for row in x[5:]])
        cells = other.presynaptic.numpy().reshape(-1, 3)
        assert np.array_equal(steps, whole) and np.array_equal(cells, layer.presynaptic.numpy().reshape(-1, 3))
        assert whole.sum(1).min() < 6 and (cells >= 0).sum(1).max() > 1
        assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in cells), "a cell twice"


def levels(optimizer: Any) -> Trainer:
    """Three levels that move in every fourth, every second and every step."""
    init.seed(4)
    memory = ContinuumMemory(3, 3, num_levels=3, update_frequencies=(1, 2, 4), activation=None)
    return Trainer(Sequential(memory).build((3,)), "mse", optimizer, ())


def test_slow_levels_move_by_sums_of_gradients(engine: Any) -> None:
    """Recorded steps of a Trainer against a loop: a level and its momentum stand still between its steps; the rate of
    a group is its own. A run that is resumed between two of them goes on to the same bits.
    """
    x, y = RNG.normal(size=(6, 3)).astype(np.float32), RNG.normal(size=(6, 3)).astype(np.float32)
    values = [v.numpy().astype(np.float64) for v in levels(Momentum()).model.variables().values()]
    total, speed = [np.zeros_like(v) for v in values], [np.zeros_like(v) for v in values]
    for step in range(1, 7):
        error = 2 * (chain(values, x)[-1] - y) / y.size
        total = [s + g for s, g in zip(total, slopes(values, x, error), strict=True)]
        for k in range(6):
            if step % (4, 4, 2, 2, 1, 1)[k] == 0:
                speed[k] = 0.9 * speed[k] + total[k]
                values[k], total[k] = values[k] - (0.02 if k < 2 else 0.1) * speed[k], np.zeros_like(total[k])
    made = levels(Momentum(lr=0.1, momentum=0.9, groups=(Group(names=("*levels.0.*",), lr=0.02),)))
    made.fit(x, y, epochs=6, batch_size=6, verbose=False)
    for v, want in zip(made.model.variables().values(), values, strict=True):
        assert np.abs(v.numpy() - want).max() < 2e-6


def test_a_run_resumes_between_two_steps_of_a_slow_level(tmp_path: Any) -> None:
    with clnet.on("numpy"):
        x, y = RNG.normal(size=(6, 3)).astype(np.float32), RNG.normal(size=(6, 3)).astype(np.float32)
        whole, first, again = (levels(Adam(lr=0.05)) for _ in range(3))
        whole.fit(x, y, epochs=6, batch_size=6, verbose=False)
        first.fit(x, y, epochs=3, batch_size=6, verbose=False, callbacks=Checkpoint(tmp_path / "run", every=9, steps=3))
        again.fit(x, y, epochs=6, batch_size=6, verbose=False, resume=tmp_path / "run")
        for a, b in zip(whole.model.variables().values(), again.model.variables().values(), strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()
        with pytest.raises(ClnetError, match=r"LBFGS: expected parameters that move in every step.*levels.0.weight"):
            levels(LBFGS()).fit(x, y, epochs=1, verbose=False)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: ContinuumMemory(2, 3, num_levels=2, update_frequencies=(1, 2, 3)), "2 numbers above 0"),
    (lambda: ContinuumMemory(2, 3, level_lrs=(0.1, 0.0, 0.1)), "3 numbers above 0"),
    (lambda: ContinuumMemory(2, 3).local_update(), "expected gradients; got none"),
    (lambda: ContinuumMemory(2, 3).consolidate(2.0), "a rate from 0 to 1"),
    (lambda: TemporalMemory(2, 3)(np.zeros((2, 2, 2), np.float32)), "one step"),
    (lambda: TemporalMemory(2, 3)(np.zeros((0, 2), np.float32)), "at least one"),
    (lambda: TemporalMemory(2, 3)(np.zeros((1, 3), np.float32)), "column_count is 2; got 3"),
    (lambda: TemporalMemory(2, initial_permanence=2.0), "initial_permanence"),
    (lambda: RBM(3, 2).local_update(), "a call of the layer first"),
    (lambda: RBM(3, 2, cd_rate=-1.0), "cd_rate"),
    (lambda: SynapticPlasticity(3, 2).update(), "a call of the layer first"),
    (lambda: SynapticPlasticity(3, 2, mode="identity"), "out_features = in_features"),
    (lambda: AnomalyDetector(3), "an even input_size"),
    (lambda: SpatialPooler(3, 2, sparsity=0.0), "sparsity"),
    (lambda: SynapticPlasticity(3, 2, w_min=1.0), "w_min below w_max")])
def test_what_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ClnetError, match=words):
        make()
