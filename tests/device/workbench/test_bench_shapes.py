"""The suite shapes on devices: runners run what they say, in processes of their own with caches of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.errors import ConfigError
from clnet.workbench.bench import command, compare, peers
from clnet.workbench.bench.row import Row, as_dicts
from clnet.workbench.bench.shapes import apart, argument, cold, lengths, new, runners
from clnet.workbench.bench.shapes.apart import asked
from clnet.workbench.bench.shapes.networks import ragged, tasks
from clnet.workbench.bench.shapes.planning import Planning
from clnet.workbench.bench.suites import scaling
from clnet.workbench.bench.suites import steps as bench_steps


def test_a_runner_takes_any_batch(quick: Any) -> None:
    task = scaling.task("mlp small", 8, 1)
    predict, training = (runners.ours(task, kind, quick) for kind in ("predict", "training"))
    for batch in (8, 5, 3):
        out = predict.prepare(runners.shaped(task, batch=batch))()
        assert out.shape == (batch, scaling.CLASSES) and np.isfinite(out).all()
        assert np.isfinite(training.prepare(runners.shaped(task, batch=batch))().numpy())
    losses = [float(training.prepare(task)().numpy()) for _ in range(20)]
    assert losses[-1] < losses[0], "it trains"


def test_sequences_take_any_length_and_ours_have_the_peers_parameters(quick: Any) -> None:
    torch = peers.torch_for(quick.device)
    for task in ragged():
        small = runners.shaped(replace(task, x=(2, *task.x[1:]), y=(2, *task.y[1:])), length=9)
        out = runners.ours(task, "predict", quick).prepare(small)()
        assert out.shape == (*small.y, task.classes)
        if torch is not None:
            assert runners.theirs(task, "predict", torch).prepare(small)().shape == out.shape
            its = sum(p.numel() for p in task.torch(torch.torch).parameters())
            assert its == sum(v.size for v in bench_steps.network(task).parameters())


def test_a_new_shape_on_a_device(quick: Any) -> None:
    work = new.NewShape(scaling.task("mlp small", 16, 1), "predict", "batch")
    rows = work.measure(compare.Setting(quick, peers.torch_for(quick.device) or "", quick=True))
    for row in rows:
        assert row.ours_ms and row.steady_ms and row.built is not None and row.built >= 0
        assert not row.peer or (row.ratio and row.peer_steady_ms)


def test_a_batch_as_an_argument_beside_the_same_compiled_in(quick: Any) -> None:
    task = scaling.task("mlp small", 16, 1)
    (row,) = argument.BatchAsArgument(task).measure(compare.Setting(quick, quick=True))
    assert (row.work, row.peer) == ("mlp small, batch as an argument", "its batch compiled in")
    assert row.ours_ms and row.peer_ms and row.ratio and row.rounds == argument.QUICK_ROUNDS
    assert argument.BatchAsArgument(task, gpus=(not quick.device.is_gpu,)).rows(compare.Setting(quick)) == []


def test_a_work_for_other_devices_is_no_slip_of_its_name(quick: Any) -> None:
    other = "mlp b64" if quick.device.is_gpu else "resnet20 b256"
    with pytest.raises(ConfigError, match=f"got '{other}, batch as an argument', which is for other devices"):
        command.main(quick, "shapes", only=f"{other}, batch as")
    with pytest.raises(ConfigError, match=r"expected --only with a part of the name.*did you mean 'mlp b64, batch"):
        command.main(quick, "shapes", only="mlp b65, batch as an argument")


def test_planning_is_measured_in_a_process_with_empty_caches(quick: Any) -> None:
    (row,) = Planning(1).rows(compare.Setting(quick, quick=True))
    assert (row.work, row.device, row.built) == ("planning, residual blocks 1", quick.device.key, 0)
    assert row.ours_ms and (row.launches or 0) > 20 and "ms a launch" in row.note
    assert row.busy is None or 0 <= row.busy <= 1


def test_a_process_that_cannot_says_why(quick: Any, tmp_path: Any) -> None:
    question = {"suite": "shapes", "work": "nothing", "device": quick.device.key, "quick": True, "torch": False}
    with pytest.raises(RuntimeError, match=r"ConfigError: bench: expected a work of the suite shapes; got 'nothing'"):
        asked("apart", question, str(tmp_path))


def test_a_work_measured_again_finds_what_the_first_process_kept(quick: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(module: str, question: dict[str, Any], caches: str) -> dict[str, Any]:
        kept = len(list(Path(caches).iterdir()))
        Path(caches, str(kept)).touch()
        row = Row("shapes", question["work"], "float32", question["device"], "torch", float(kept))
        return {"rows": as_dicts([row])}

    monkeypatch.setattr(apart, "asked", asked)
    work = lengths.RandomLengths(ragged()[0], "predict")
    assert [(r.work, r.ours_ms) for r in work.rows(compare.Setting(quick))] == [
        (work.name, 0.0), (f"{work.name}, warm cache", 1.0)]
    assert [r.ours_ms for r in Planning(1).rows(compare.Setting(quick))] == [0.0], "only where it is asked for"


@pytest.mark.slow  # three processes, one of which compiles
def test_a_cold_start_compiles_and_a_warm_one_does_not(quick: Any) -> None:
    task = next(t for t in tasks() if t.name.startswith("lstm"))
    rows = cold.ColdStart(task).rows(compare.Setting(quick, quick=True))
    found = {r.work: r.ours_ms for r in rows}
    assert list(found) == [f"lstm {shape}, {cache} cache" for shape in cold.SHAPES for cache in cold.CACHES]
    assert found["lstm first shape, warm cache"] < found["lstm first shape, empty cache"]  # type: ignore[operator]
