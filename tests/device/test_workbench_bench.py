"""The bench: what a training step launches and moves stays what it was, forecasts hold, peers that are not there are said, rows can be drawn."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.engine import peak
from clnet.errors import ConfigError, DataError
from clnet.workbench import (
    bench,
    bench_before,
    bench_compare,
    bench_memory,
    bench_profile,
    bench_row,
    bench_scaling,
    bench_startup,
    bench_steps,
    peers,
    registry,
)

PNG = b"\x89PNG"

# Upper bounds, a tenth above what was counted: a fusion that is lost, a gradient that is stored twice or an update that falls apart into a
# launch a tensor shows here. At least: mlp b64 moves seven vectors of 0.67 M parameters for Adam, reads the weights forward and again for
# the gradient of its inner activations, and writes the gradients: 25 MB.
# name: launches, [bytes] that kernels read and write
STEPS = {"mlp b64": (16, 30.2e6), "mlp b512": (16, 47.6e6), "cnn b64": (30, 95.8e6), "resnet20 b32": (260, 640e6), "lstm b32 t50": (21, 45.2e6),
         "gpt b16 t128": (179, 557e6)}


@pytest.fixture(scope="module", autouse=True)
def everything() -> None:
    registry.load_all()


def task(name: str) -> bench_steps.Task:
    return next(t for t in bench_steps.tasks() if t.name == name)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if "resnet" in n else n for n in STEPS])  # a minute of compiling
def test_launches_bytes_and_memory_of_a_step(name: str, quick: Any) -> None:
    if quick.device.kind != "cpu":
        pytest.skip("the bounds are those of CPUs, where kernels have other stages")
    _, facts = bench_compare.ours(bench_steps.as_work(task(name)), quick)
    launches, nbytes = STEPS[name]
    assert facts["launches"] <= launches
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
    # Adam's seven vectors, weights read twice and gradients written; of activations: written, read twice, and as much for their gradients.
    assert step.nbytes < 1.1 * (10 * weights + 12 * 8 * activations)


def test_every_task_is_there() -> None:
    assert [t.name for t in bench_steps.tasks()] == list(STEPS)
    assert not any(bench_steps.missing(t) for t in bench_steps.tasks())


def test_flops_are_those_of_the_products() -> None:
    assert task("mlp b64").flops == 2 * 64 * (3 * (784 * 512 + 512 * 512 + 512 * 10) - 784 * 512)
    by_hand = 2 * 32 * 3 * (40.8e6 - 1024 * 16 * 27 / 3)  # 40.8 M products a picture are the literature's count for this network
    assert task("resnet20 b32").flops == pytest.approx(by_hand, rel=0.02)


def test_the_peak_is_above_what_anything_reaches(device: Any) -> None:
    if not hasattr(device, "pool"):
        pytest.skip("the host has no kernels to measure")
    roof = peak.measure(device)
    assert roof.gflops > roof.gbytes > 0
    assert roof.attainable(1e9) == roof.gflops
    assert roof.attainable(0.25) == pytest.approx(min(roof.gflops, 0.25 * roof.gbytes))


def test_names_are_unique_and_quick_is_a_part() -> None:
    everything = bench.works()
    names = [(w.suite, w.name) for w in everything]
    assert len(set(names)) == len(names)
    assert {s for s, _ in names} == set(bench.SUITES)
    assert {w.name for w in bench.works(quick=True)} < {n for _, n in names}
    assert all(w.flops and w.nbytes for w in bench.works("ops"))


def test_a_peer_that_is_not_there_is_a_row_that_says_so(device: Any) -> None:
    work = bench_compare.Work("ops", "nothing", lambda engine: lambda: None, tinygrad=lambda peer: lambda: None, torch=_broken, numpy=False)
    torch = peers.torch_for(device.device)
    rows = work.rows(bench_compare.Setting(device, torch or "", "not installed", quick=True))
    assert [r.note for r in rows if r.peer == "tinygrad"] == ["not installed"]
    assert all("on purpose" in r.note for r in rows if r.peer.startswith("torch"))
    assert all(r.ours_ms is not None and r.peer_ms is None and not r.failed for r in rows)


def _broken(peer: Any) -> Any:
    raise RuntimeError("on purpose")


def test_a_work_that_fails_fails_the_command(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(engine: Any) -> Any:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(bench, "SUITES", {"ops": lambda: [bench_compare.Work("ops", "broken", breaks)]})
    assert bench.main(device, "ops") == 1
    with pytest.raises(ConfigError, match="did you mean 'broken'"):
        bench.main(device, "ops", only="brokn")


def test_files_of_a_run(device: Any, tmp_path: Path) -> None:
    if not hasattr(device, "pool"):
        pytest.skip("the host has no peers here")
    file, text = tmp_path / "rows.json", tmp_path / "report.md"
    assert bench.main(device, "ops", quick=True, only="matmul", json_file=file, plots=tmp_path / "plots", report_file=text) == 0
    rows = json.loads(file.read_text())
    needed = {"suite", "work", "dtype", "device", "peer", "ours_ms", "peer_ms", "ratio", "min", "max"}
    needed |= {"launches", "kernel_bytes", "peak_bytes", "share", "tuning"}
    assert all(needed <= r.keys() for r in rows)
    assert all(r["min"] <= r["ratio"] <= r["max"] and r["rounds"] >= 1 for r in rows if r["peer_ms"])
    assert all(0 < r["share"] <= 1 and r["peak_gflops"] >= r["gflops"] for r in rows if r["share"] and not r["counted"])
    pictures = sorted((tmp_path / "plots").glob("bench-*.png"))
    assert any("roofline" in p.name for p in pictures)
    written = text.read_text()
    assert "Measured peak" in written
    assert all(f'src="plots/{p.name}"' in written and p.read_bytes().startswith(PNG) for p in pictures)


def test_an_earlier_run_stands_beside_this_one(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench, "SUITES", {"ops": lambda: [bench_compare.Work("ops", "nap", lambda engine: lambda: time.sleep(0.002))]})
    monkeypatch.setattr(bench.peak, "measure", lambda engine: None)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert bench.main(device, "ops", json_file=first) == 0
    assert "Before and now" not in capsys.readouterr().out
    rows = json.loads(first.read_text())
    first.write_text(json.dumps([r | {"ours_ms": 100 * r["ours_ms"], "peer": "somebody"} for r in rows]))
    assert bench.main(device, "ops", json_file=second, report_file=tmp_path / "report.md", before=first) == 0
    assert "Before and now" in capsys.readouterr().out
    table = (tmp_path / "report.md").read_text().split("### Before and now")[1]
    ratio = float(next(line for line in table.splitlines() if line.startswith("| nap")).split("|")[5])
    assert ratio == pytest.approx(100 * rows[0]["ours_ms"] / json.loads(second.read_text())[0]["ours_ms"], rel=0.01)


def test_before_and_now_of_us_and_of_the_peers() -> None:
    now = [bench.Row("ops", "product", "float32", "pocl", peer, 2.0, 6.0, 3.0, share=0.9) for peer in ("numpy", "torch")]
    old = bench.as_dicts([bench.Row("ops", "product", "float32", "pocl", peer, 8.0, peer_ms) for peer, peer_ms in (("numpy", 6.0), ("torch", 9.0))])
    other = bench.as_dicts([bench.Row("ops", "product", "float32", "intel", "torch", 1.0, 9.0)])
    line = bench_before.markdown(now, [*other, *old]).splitlines()[-1]
    assert [cell.strip() for cell in line.split("|")[1:-1]] == ["product", "pocl", "8.000", "2.000", "4.00", "1.25", "0.90"]
    assert bench_before.markdown(now, other).endswith("(none)")


def test_the_command_of_a_report() -> None:
    options = {"--suite": "ops", "--quick": True, "--only": "matmul 256", "--precision": "", "--before": None, "--report": Path("reports") / "new.md"}
    assert bench_row.command(options) == "clnet bench --suite ops --quick --only 'matmul 256' --report reports/new.md"
    assert bench_row.command({"--suite": "ops", "--quick": False}) == "clnet bench --suite ops"


@pytest.mark.parametrize("text", [None, "{}", "[1]", '[{"work": "matmul"}]', "no JSON"])
def test_an_earlier_run_that_is_none_is_refused_before_anything_runs(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "rows.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=r"^bench: expected .*rows.json; got .*--json"):
        bench.main(None, "ops", before=path)


def test_pictures_of_every_suite() -> None:
    def row(suite: str, work: str, **facts: Any) -> bench.Row:
        return bench.Row(suite, work, "float32", "intel", "torch", 1.0, 2.0, 2.0, 1.9, 2.1, machine="AMD EPYC, Intel's CPU runtime", **facts)

    roof = {"gflops": 10.0, "intensity": 3.0, "share": 0.5, "peak_gflops": 200.0, "peak_gbytes": 40.0}
    rows = [row("ops", "matmul", **roof), *(row("steps", f"{net} b64", **roof) for net in ("mlp", "cnn")),
            row("startup", "import to first step"), *(row("scaling", f"mlp batch {n}", **roof) for n in (1, 16)),
            bench.Row("memory", "mlp", "float32", "intel", "forecast", peak_bytes=100, peer_bytes=90)]
    found = bench.pictures(rows)
    assert found.keys() == {"intel-torch", "intel-steps-roofline", "intel-scaling-roofline", "intel-mlp batch", "intel-memory"}, "one point, no roofline"
    assert found["intel-torch"].heading == "AMD EPYC, Intel's CPU runtime against torch"
    assert all(png.startswith(PNG) for png in found.values())
    assert [title.split(": ")[1] for title, _, _ in bench_row.sections(rows)] == ["ops", "steps", "startup", "scaling", "memory"]


def test_first_step_of_a_process(quick: Any) -> None:
    (row, *_) = bench_startup.FirstStep(processes=1).rows(bench_compare.Setting(quick))
    assert row.ours_ms is not None
    assert "cold" in row.note
    assert not row.failed


def test_a_profile_holds_all_launches(device: Any, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "profile.md"
    if not hasattr(device, "pool"):
        pytest.skip("the host has no launches")
    assert bench_profile.main(device, bench.works, "steps", "mlp b", file) == 0
    for found in json.loads(file.with_suffix(".json").read_text()):
        assert sum(p["calls"] for p in found["parts"]) <= found["launches"]
        assert sum(p["ms"] for p in found["parts"]) == pytest.approx(found["kernels_ms"])
        products = sum(p["flops"] for p in found["parts"] if "matmul" in p["ops"].split())
        batch = int(found["work"].removeprefix("mlp b"))
        assert products == pytest.approx(2 * batch * (3 * (784 * 512 + 512 * 512 + 5120) - 784 * 512), rel=0.02)


def test_the_works_of_gpus_are_tasks_too() -> None:
    names = [t.name for t in bench_steps.gpu_tasks()]
    assert [w.name for w in bench.works("steps", gpu=True)] == [*names, f"{names[-1]} fp32x3"]
    assert not any(bench_steps.missing(t) for t in bench_steps.gpu_tasks())
    assert {w.name for w in bench.works(gpu=True)} > set(names)


def test_the_launches_of_one_step_are_those_of_its_plan(device: Any) -> None:
    """Of a last, smaller batch, of metrics' reads and of copies of the state, there is none among them."""
    from clnet.engine import on

    if not hasattr(device, "pool"):
        pytest.skip("the host has no launches")
    x, y = np.random.default_rng(0).random((40, 6), np.float32), np.arange(40) % 3
    with on(device):
        trainer = clnet.Trainer(clnet.Sequential(clnet.layers.Dense(6, 3)), "cross_entropy", "adam")
        found = bench_profile.one_step(trainer, (x, y), 16)
    (replay,) = trainer.steps.train.replays.values()
    assert [(name, ops) for name, ops, _, _ in found] == [(s.name, s.ops) for s in replay.plan.steps]
    assert trainer.optimizer.t == 2 and all(ms > 0 for _, _, ms, _ in found)
