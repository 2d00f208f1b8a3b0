"""What model.summary() forecasts of a training step, and what it measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import placeholder
from clnet.engine.device import roof
from clnet.engine.work import REACHED, Blocks, Part, Work
from clnet.layers import BatchNorm, Checkpoint, Conv2d, Dense, Flatten
from clnet.model import Sequential
from clnet.optimizers import SGD

PEAK = roof.Peak(100.0, 10.0, ((1e6, 50.0),), 1e-5)


def network() -> Any:
    clnet.seed(0)
    return Sequential(Conv2d(in_channels=1, out_channels=4, kernel_size=3, padding=1), BatchNorm(), Flatten(),
                      Dense(out_features=256, activation="relu"), Dense(out_features=3)).build((1, 8, 8))


@pytest.fixture
def peak(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The engine, of which it is known what it reaches."""
    if not engine.compiles:
        pytest.skip("NumPy plans nothing")
    monkeypatch.setitem(roof._known, engine.device.key, PEAK)
    return engine


def test_a_forecast_compiles_and_allocates_nothing(peak: Any, builds: Any) -> None:
    model = network()
    before = builds(peak), peak.pool.statistics().active
    summary = model.summary((1, 8, 8), batch=32)
    assert (builds(peak), peak.pool.statistics().active) == before
    assert "forward" not in vars(model[0]), "layers are as they were"
    times = summary.times
    assert times and times.total == pytest.approx(sum(times.parts.values()))
    assert times.total >= times.launches * PEAK.launch
    rows = {r.layer: r for r in summary.rows}
    assert sum(r.step for r in summary.rows) <= times.total
    for name in ("layers.0", "layers.3", "layers.4"):
        assert 0 < rows[name].forward < rows[name].step, name
    for text in (repr(summary), summary._repr_html_()):
        assert all(word in text for word in ("forward", "step", "update", "samples/s", "launches on"))


def test_the_forecast_is_the_roof_of_what_is_launched(peak: Any) -> None:
    """A product of 2 N · 512 · 512 operations forward; backward one for the weights and, not for the first layer, one
    for what it reads.
    """
    model = Sequential(Dense(512, 512), Dense(512, 512))
    summary = model.summary((512,), batch=256, optimizer=SGD(lr=0.1))
    flops = 2 * 256 * 512 * 512 / (PEAK.gflops * 1e9) / REACHED
    first, second = summary.rows
    assert first.forward == pytest.approx(flops, rel=0.02) and second.forward == pytest.approx(flops, rel=0.02)
    assert first.step == pytest.approx(2 * flops, rel=0.1) and second.step == pytest.approx(3 * flops, rel=0.1)
    update = 3 * 4 * summary.parameters / (PEAK.gbytes * 1e9) / REACHED + PEAK.launch
    assert summary.times and summary.times.parts[Part("update", True)] == pytest.approx(update, rel=1e-6)


def test_a_measured_step_leaves_the_model_as_it_is(peak: Any) -> None:
    model, x = network(), np.random.default_rng(0).normal(size=(20, 1, 8, 8)).astype(np.float32)
    before = {n: v.numpy().copy() for n, v in model.variables().items()}
    counters = [g.counter.numpy().tolist() for g in model.generators()]
    summary = model.summary(x, batch=32, measure=True)
    assert all(np.array_equal(v.numpy(), before[n]) for n, v in model.variables().items())
    assert [g.counter.numpy().tolist() for g in model.generators()] == counters
    clock = summary.measured
    assert clock and clock.total > 0 and clock.launches > 8
    assert sum(clock.parts.values()) == pytest.approx(clock.total) and clock.parts[Part("update", True)] > 0
    assert {r.layer for r in summary.rows if r.measured} >= {"layers.0", "layers.3", "layers.4"}
    assert "forecast / measured" in repr(summary)


def test_numpy_measures_the_whole_step(engine: Any) -> None:
    if engine.compiles:
        pytest.skip("another test's")
    summary = network().summary((1, 8, 8), batch=4, measure=True)
    assert summary.times is None and summary.measured and summary.measured.total > 0
    assert "measured" in repr(summary) and "forecast" not in repr(summary)


def test_layers_that_are_computed_again_count_to_what_is_around_them(peak: Any) -> None:
    model = Sequential(Checkpoint(layer=[Dense(32, 64, activation="tanh"), Dense(64, 32)]), Dense(32, 4))
    summary = model.summary((32,), batch=16)
    assert summary.times and {p.name for p in summary.times.parts} <= {r.layer for r in summary.rows} | {"", "update"}
    assert sum(r.step or 0 for r in summary.rows) > 0.5 * summary.times.total


def test_blocks_name_what_is_recorded_in_them_and_its_gradient() -> None:
    blocks, x = Blocks(), placeholder((3, 4))
    with blocks.watching():
        with blocks.block("outer"):
            a = F.exp(x)
            with blocks.block("inner"):
                b = F.sin(a)
            c = F.tanh(b)
        y = F.sum(c)
        (g,) = gradients(y, [x])
        after = F.exp(g)
    parts = blocks.parts()
    assert [parts[id(t)] for t in (a, b, c, y)] == [
        ("outer", False), ("inner", False), ("outer", False), ("", False)]
    assert parts[id(g)] == Part("outer", True) and parts[id(after)] == Part("", True)
    assert any(p == Part("inner", True) for p in parts.values())


def test_the_time_of_a_launch() -> None:
    """max(flops / peak, bytes / bandwidth) / 0.6, and 10 µs a launch; small arrays are in caches."""
    part = Part("layer", False)
    assert Work(part, 1, 1e9, 1e3).seconds(PEAK) == pytest.approx(0.01 / REACHED + 1e-5)
    assert Work(part, 2, 0.0, 1e9).seconds(PEAK) == pytest.approx(0.1 / REACHED + 2e-5)
    assert Work(part, 1, 0.0, 1e6).seconds(PEAK) == pytest.approx(2e-5 / REACHED + 1e-5)


def test_what_was_measured_of_a_device_is_kept(engine: Any, builds: Any, monkeypatch: pytest.MonkeyPatch,
                                               tmp_path: Any) -> None:
    if not engine.compiles:
        pytest.skip("NumPy has no roof")
    monkeypatch.setenv("CLNET_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(roof, "_known", {})
    monkeypatch.setattr(roof, "_multiply_adds", lambda e: 100.0)
    monkeypatch.setattr(roof, "_triad", lambda e, n=0: 10.0)
    monkeypatch.setattr(roof, "_launch", lambda e: 1e-5)
    found = roof.known(engine)
    roof._known.clear()
    monkeypatch.setattr(roof, "_multiply_adds", lambda e: 1.0)
    assert roof.known(engine) == found and found.gflops == 100.0 and found.launch == 1e-5
    roof._known.clear()
    assert roof.measure(engine).gflops == 1.0 and roof.known(engine) == found, "a busy moment takes nothing away"
    monkeypatch.setattr(roof, "_multiply_adds", lambda e: 200.0)
    assert roof.measure(engine).gflops == 200.0 and roof.known(engine).gflops == 200.0
    assert len(roof.known(engine).streams) == len(roof.CACHED)
