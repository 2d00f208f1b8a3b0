"""The bench: what a training step launches and moves stays what it was, forecasts hold, peers that are not there are
said, rows can be drawn.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.engine import on
from clnet.engine.device import roof as peak
from clnet.errors import ConfigError
from clnet.workbench.bench import command as bench
from clnet.workbench.bench import compare as bench_compare
from clnet.workbench.bench import launches as bench_profile
from clnet.workbench.bench import peers, suites
from clnet.workbench.bench.call import function
from clnet.workbench.bench.suites import memory as bench_memory
from clnet.workbench.bench.suites import ops as bench_ops
from clnet.workbench.bench.suites import scaling as bench_scaling
from clnet.workbench.bench.suites import startup as bench_startup
from clnet.workbench.bench.suites import steps as bench_steps
from clnet.workbench.bench.suites import storage as bench_storage
from clnet.workbench.evidence import registry

PNG = b"\x89PNG"

# Upper bounds, a tenth above what was counted: a fusion that is lost, a gradient that is stored twice or an update that
# falls apart into a launch a tensor shows here. At least: mlp b64 moves seven vectors of 0.67 M parameters for Adam,
# reads the weights forward and again for the gradient of its inner activations, and writes the gradients: 25 MB.
# name: launches, [bytes] that kernels read and write
# Of mlp b512 without transposed operands that are copied first: how many of them pay is each processor's own.
STEPS = {"mlp b64": (16, 30.2e6), "mlp b512": (15, 47.6e6), "cnn b64": (30, 95.8e6), "resnet20 b32": (260, 640e6),
         "lstm b32 t50": (21, 45.2e6), "gpt b16 t128": (179, 557e6)}


@pytest.fixture(scope="module", autouse=True)
def everything() -> None:
    registry.load_all()


def copies(work: Any, engine: Any) -> int:
    """Launches of a step that copy a transposed operand."""
    step = work.ours(engine)
    with on(engine):
        step()
    return sum(launch.name == "matmul_turn" for launch in step.plan.launches)


def task(name: str) -> bench_steps.Task:
    return next(t for t in bench_steps.tasks() if t.name == name)


# a minute of compiling
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if "resnet" in n else n for n in STEPS])
def test_launches_bytes_and_memory_of_a_step(name: str, quick: Any) -> None:
    if quick.device.kind != "cpu":
        pytest.skip("the bounds are those of CPUs, where kernels have other stages")
    work = bench_steps.as_work(task(name))
    _, facts = bench_compare.ours(work, quick)
    launches, nbytes = STEPS[name]
    assert facts["launches"] - (copies(work, quick) if name == "mlp b512" else 0) <= launches
    assert facts["kernel_bytes"] <= nbytes
    assert facts["tuning"]
    assert bench_memory.forecast(task(name), quick) == pytest.approx(facts["peak_bytes"], rel=0.1)


def test_memory_of_checkpointed_blocks_is_forecast(quick: Any) -> None:
    plain = task("gpt b16 t128")
    again = bench_memory.checkpointed(plain)
    measured = bench_memory.measure(again, quick)
    assert measured < bench_memory.forecast(plain, quick) / 2
    assert bench_memory.forecast(again, quick) == pytest.approx(measured, rel=0.1)


def test_bytes_of_a_deep_network_are_of_what_its_layers_read(quick: Any) -> None:
    """Weights lie in one arena; a layer reads its own and not the arena."""
    step = bench_steps.ours(bench_scaling.task("mlp depth 12", 64, 12))(quick)
    step()
    weights, activations = 4 * (12 * 256 * 257 + 257 * 10), 4 * 64 * 256
    # Adam's seven vectors, weights read twice and gradients written; of activations: written, read twice, and as much
    # for their gradients.
    assert step.nbytes < 1.1 * (10 * weights + 12 * 8 * activations)


def test_every_task_is_there() -> None:
    assert [t.name for t in bench_steps.tasks()] == list(STEPS)
    assert not any(bench_steps.missing(t) for t in bench_steps.tasks())


def test_the_peak_is_above_what_anything_reaches(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("the host has no kernels to measure")
    roof = peak.measure(engine)
    assert roof.gflops > roof.gbytes > 0
    assert roof.attainable(1e9) == roof.gflops
    assert roof.attainable(0.25) == pytest.approx(min(roof.gflops, 0.25 * roof.gbytes))


def test_a_peer_that_is_not_there_is_a_row_that_says_so(engine: Any) -> None:
    work = bench_compare.Work("ops", "nothing", lambda engine: lambda: None, tinygrad=lambda peer: lambda: None,
                              torch=_broken, numpy=False)
    torch = peers.torch_for(engine.device)
    rows = work.rows(bench_compare.Setting(engine, torch or "", "not installed", quick=True))
    assert [r.note for r in rows if r.peer == "tinygrad"] == ["not installed"]
    assert all("on purpose" in r.note for r in rows if r.peer.startswith("torch"))
    assert all(r.ours_ms is not None and r.peer_ms is None and not r.failed for r in rows)


def test_another_way_of_ours_is_a_peer(engine: Any) -> None:
    one, other = (function(lambda x, k=k: x + k, (64,)) for k in (1, 2))
    work = bench_compare.Work("storage", "add", one, numpy=False, ourselves={"float32": other})
    (row,) = work.rows(bench_compare.Setting(engine, quick=True))
    assert row.peer == "clnet (float32)" and row.peer_ms is not None and row.peer_ms > 0


def test_16_bit_storage_is_timed_on_equal_values(engine: Any) -> None:
    works = bench_storage.works()
    names = [w.name for w in works]
    assert len(set(names)) == len(names) and all(any(d in n for d in bench_storage.DTYPES) for n in names)
    assert {tuple(w.ourselves) for w in works} == {("float32",)}
    narrow = bench_storage._product(3, 40, 50, "bfloat16")
    found = [np.asarray(prepare(engine)().numpy()) for prepare in (narrow.ours, narrow.ourselves["float32"])]
    assert found[0].dtype == np.float32 and 0 < np.abs(found[0] - found[1]).max() < 2**-8 * 40


def _broken(peer: Any) -> Any:
    raise RuntimeError("on purpose")


def test_a_work_that_fails_fails_the_command(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(engine: Any) -> Any:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(bench_ops, "SUITE", suites.Suite(lambda: [bench_compare.Work("ops", "broken", breaks)]))
    assert bench.main(engine, "ops") == 1
    with pytest.raises(ConfigError, match="did you mean 'broken'"):
        bench.main(engine, "ops", only="brokn")


def test_files_of_a_run(engine: Any, tmp_path: Path) -> None:
    if not engine.compiles:
        pytest.skip("the host has no peers here")
    file, text = tmp_path / "rows.json", tmp_path / "report.md"
    assert bench.main(engine, "ops", quick=True, only="matmul", json_file=file, plots=tmp_path / "plots",
                      report_file=text) == 0
    rows = json.loads(file.read_text())
    needed = {"suite", "work", "dtype", "device", "peer", "ours_ms", "peer_ms", "ratio", "min", "max"}
    needed |= {"launches", "kernel_bytes", "peak_bytes", "share", "tuning"}
    assert rows and all(needed <= r.keys() for r in rows)
    assert all(r["min"] <= r["ratio"] <= r["max"] and r["rounds"] >= 1 for r in rows if r["peer_ms"])
    assert all(0 < r["share"] <= 1 and r["peak_gflops"] >= r["gflops"] for r in rows if r["share"] and not r["counted"])
    pictures = sorted((tmp_path / "plots").glob("bench-*.png"))
    assert any("roofline" in p.name for p in pictures)
    written = text.read_text()
    assert "Measured peak" in written
    assert all(f'src="plots/{p.name}"' in written and p.read_bytes().startswith(PNG) for p in pictures)


def test_an_earlier_run_stands_beside_this_one(engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    nap = bench_compare.Work("ops", "nap", lambda engine: lambda: time.sleep(0.002))
    monkeypatch.setattr(bench_ops, "SUITE", suites.Suite(lambda: [nap]))
    monkeypatch.setattr(bench.peak, "measure", lambda engine: None)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert bench.main(engine, "ops", json_file=first) == 0
    assert "Before and now" not in capsys.readouterr().out
    rows = json.loads(first.read_text())
    first.write_text(json.dumps([r | {"ours_ms": 100 * r["ours_ms"], "peer": "somebody"} for r in rows]))
    assert bench.main(engine, "ops", json_file=second, report_file=tmp_path / "report.md", before=first) == 0
    assert "Before and now" in capsys.readouterr().out
    table = (tmp_path / "report.md").read_text().split("### Before and now")[1]
    ratio = float(next(line for line in table.splitlines() if line.startswith("| nap")).split("|")[5])
    assert ratio == pytest.approx(100 * rows[0]["ours_ms"] / json.loads(second.read_text())[0]["ours_ms"], rel=0.01)


def test_first_step_of_a_process(quick: Any) -> None:
    (row, *_) = bench_startup.FirstStep(processes=1).rows(bench_compare.Setting(quick))
    assert row.ours_ms is not None
    assert "cold" in row.note
    assert not row.failed


def test_a_profile_holds_all_launches(engine: Any, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "profile.md"
    if not engine.compiles:
        pytest.skip("the host has no launches")
    assert bench_profile.main(engine, bench.works, "steps", "mlp b", file) == 0
    works = json.loads(file.with_suffix(".json").read_text())
    assert works
    for found in works:
        assert sum(p["calls"] for p in found["parts"]) <= found["launches"]
        assert sum(p["ms"] for p in found["parts"]) == pytest.approx(found["kernels_ms"])
        products = sum(p["flops"] for p in found["parts"] if "matmul" in p["ops"].split())
        batch = int(found["work"].removeprefix("mlp b"))
        assert products == pytest.approx(2 * batch * (3 * (784 * 512 + 512 * 512 + 5120) - 784 * 512), rel=0.02)


def test_the_launches_of_one_step_are_those_of_its_plan(engine: Any) -> None:
    """Of a last, smaller batch, of metrics' reads and of copies of the state, there is none among them."""
    from clnet.engine import on

    if not engine.compiles:
        pytest.skip("the host has no launches")
    x, y = np.random.default_rng(0).random((40, 6), np.float32), np.arange(40) % 3
    with on(engine):
        trainer = clnet.Trainer(clnet.Sequential(clnet.layers.Dense(6, 3)), "cross_entropy", "adam")
        found = bench_profile.one_step(trainer, (x, y), 16)
    (replay,) = trainer.steps.train.replays.values()
    assert [(name, ops) for name, ops, _, _ in found] == [(s.name, s.ops) for s in replay.plan.launches]
    assert trainer.optimizer.t == 2 and all(ms > 0 for _, _, ms, _ in found)
