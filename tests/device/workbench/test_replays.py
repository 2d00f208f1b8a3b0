"""A recorded step run again to be looked at: nothing changes, and what is shown is what ran."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.engine import on
from clnet.engine.device.roof import Peak
from clnet.errors import ConfigError, DataError, NoDeviceError
from clnet.layers import Activation, Dense, Flatten, MaxPool2d
from clnet.workbench import replays, step_plots
from clnet.workbench.explore import graph
from clnet.workbench.explore.explorer import Panel
from clnet.workbench.replays import Times, replayed
from clnet.workbench.train_command import Saving

X, Y = np.random.default_rng(0).random((40, 6), np.float32), np.arange(40) % 3


@pytest.fixture
def trainer(quick: Any) -> Iterator[Any]:
    """One that has made steps, of 16, 16 and 8 samples."""
    with on(quick):
        made = clnet.Trainer(clnet.Sequential(Dense(6, 5), Activation("relu"), Dense(5, 3)), "cross_entropy", "adam")
        made.fit(X, Y, epochs=1, batch_size=16, verbose=False)
        yield made


def test_a_step_is_measured_and_changes_nothing(trainer: Any) -> None:
    variables = [*trainer.model.variables().values(), *(v for m in trainer.optimizer.memories for v in m.values())]
    before = [v.numpy().copy() for v in variables]
    step = replayed(trainer)
    times = step.measure(2)
    assert len(before) > 4 and all(np.array_equal(a, v.numpy()) for a, v in zip(before, variables, strict=True))
    assert len(times.ms) == len(step.launches) and all(ms is not None and ms > 0 for ms in times.ms)
    launched = [s for s in times.spans if s.launch is not None]
    assert [s.launch for s in launched] == list(step.launches), "in order, and of this plan"
    assert all(a.end <= b.start for a, b in itertools.pairwise(launched)), "a queue runs one at a time"
    assert {s.shape[0] for s in next(r for r in trainer.steps.train.replays.values()).specs if s.shape} >= {16}


def test_shares_of_the_roof_are_of_whole_fusions(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes and flops are those of a fusion, and its stages share its time."""
    monkeypatch.setattr(replays.roof, "known", lambda engine: Peak(1000.0, 10.0))
    step = replayed(trainer)
    stages, last = step.stages.stages[0], step.launches[step.stages.stages[0][-1]]
    shares = step.shares(Times([2.0] * len(step.launches), []))
    allowed = max(last.flops / 1000.0, last.nbytes / 10.0) * 1e-6
    assert shares[stages[-1]] == pytest.approx(allowed / (2.0 * len(stages)))
    assert [k for k, share in enumerate(shares) if share is not None] == [s[-1] for s in step.stages.stages]


def test_launches_name_their_layers(trainer: Any) -> None:
    step = replayed(trainer)
    layers = list(dict.fromkeys(name for names in step.layers for name in names))
    assert layers[:2] == ["layers.0", "layers.2"] and {"∂ layers.0", "∂ layers.2"} <= set(layers)
    products = [names for launch, names in zip(step.launches, step.layers, strict=True) if "matmul" in launch.ops]
    assert products[0] == ["layers.0"]
    step.works = ()
    del step.layers
    assert {"layers.0", "layers.2", "∂ layers.0"} <= {name for names in step.layers for name in names}, "by parameters"


def test_launches_without_parameters_have_layers_too(quick: Any) -> None:
    with on(quick):
        model = clnet.Sequential(MaxPool2d(2), Flatten(), Dense(8, 3))
        step = replayed(model, np.ones((4, 2, 4, 4), np.float32))
    pool = next(k for k, launch in enumerate(step.launches) if "max_pool" in launch.ops)
    assert step.layers[pool] == ["layers.0"]


def test_values_that_live_together_lie_apart(trainer: Any) -> None:
    step = replayed(trainer)
    lives = step.stages.lives
    assert lives and max(life.start + life.nbytes for life in lives) <= step.stages.plan.arena
    for a, b in itertools.combinations(lives, 2):
        if a.first <= b.last and b.first <= a.last:
            assert a.start + a.nbytes <= b.start or b.start + b.nbytes <= a.start, (a, b)
    assert "launch" in step_plots.memory(lives, step.stages.plan.arena, len(step.launches)).note


def test_the_explorer_measures_draws_and_writes(trainer: Any, tmp_path: Path) -> None:
    found = graph(trainer)
    panel = Panel(found)
    assert all(row.ms is None for row in found.rows) and "data:image/png" in panel.over.value
    panel.list.index = 0
    assert "What it computes, in one pass" in panel.page.value and "__kernel" in panel.page.value
    panel.buttons["measure a replay"].click()
    assert panel.said.value.startswith(f"measure a replay: {len(found.rows)} launches"), panel.said.value
    assert "of it in kernels" in panel.title.value and panel.list.index == 0 and panel.over.value.count("<img") == 2
    assert sum(row.share or 0 for row in found.rows) == pytest.approx(1.0)
    events = json.loads(found.trace(tmp_path / "step.json").read_text())["traceEvents"]
    kernels = [e for e in events if e["ph"] == "X" and e["cat"] == "kernel"]
    assert [e["args"]["launch"] for e in kernels] == list(range(len(found.rows)))
    assert "layers.0" in kernels[0]["args"]["layers"] and kernels[0]["args"]["share of roof"] > 0
    assert "ms" in repr(found) or "µs" in repr(found)


def test_training_leaves_a_trace(quick: Any, tmp_path: Path) -> None:
    with on(quick):
        made = clnet.Trainer(Dense(6, 3), "cross_entropy", "adam")
        made.fit(X, Y, epochs=1, batch_size=16, verbose=False, callbacks=[Saving(None, trace=tmp_path / "step.json")])
        launches = graph(made).rows
    events = json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e.get("cat") == "kernel"] == [row.launch.name for row in launches]


def test_models_functions_and_tensors_are_steps_too(quick: Any) -> None:
    with on(quick):
        model, x = Dense(6, 3), clnet.tensor(X)
        assert any("matmul" in row.launch.ops for row in graph(model, x).rows)
        assert len(graph(lambda a: a * 2.0 + 1.0, x).rows) == 1
        plan = graph(clnet.ops.tanh(x) * 2.0)
        assert plan.measure(1).ms[0], "what tensors need runs, and they stay as they are"


def test_what_cannot_be_shown_is_said(quick: Any) -> None:
    with on(quick):
        fresh = clnet.Trainer(Dense(6, 3), "cross_entropy", "adam")
        with pytest.raises(DataError, match="expected a training step that ran"):
            graph(fresh)
        with pytest.raises(ConfigError, match="expected a trainer alone"):
            graph(fresh, X)
        with pytest.raises(ConfigError, match=r"expected a trainer, a recorded .* got 'Dense'"):
            replayed("Dense")
        with pytest.raises(ConfigError, match="expected Dense with inputs"):
            graph(Dense(6, 3))
    with on("numpy"), pytest.raises(NoDeviceError, match="expected an OpenCL device"):
        graph(Dense(6, 3), X)
