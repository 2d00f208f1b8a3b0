"""Tasks of the bench, and its report and pictures from times that are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clnet.errors import DataError
from clnet.workbench.bench import before as bench_before
from clnet.workbench.bench import columns, compare, suites
from clnet.workbench.bench import command as bench
from clnet.workbench.bench import row as bench_row
from clnet.workbench.bench.suites import steps as bench_steps
from clnet.workbench.evidence import registry

PNG = b"\x89PNG"


@pytest.fixture(scope="module", autouse=True)
def everything() -> None:
    registry.load_all()


def task(name: str) -> bench_steps.Task:
    return next(t for t in bench_steps.tasks() if t.name == name)


def test_before_and_now_of_us_and_of_the_peers() -> None:
    now = [bench.Row("ops", "product", "float32", "pocl", peer, 2.0, 6.0, 3.0, share=0.9)
           for peer in ("numpy", "torch")]
    old = bench.as_dicts([bench.Row("ops", "product", "float32", "pocl", peer, 8.0, peer_ms)
                          for peer, peer_ms in (("numpy", 6.0), ("torch", 9.0))])
    other = bench.as_dicts([bench.Row("ops", "product", "float32", "intel", "torch", 1.0, 9.0)])
    line = bench_before.markdown(now, [*other, *old]).splitlines()[-1]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells == ["product", "pocl", "8.000", "2.000", "4.00", "1.25", "0.90"]
    assert bench_before.markdown(now, other).endswith("(none)")


def test_the_command_of_a_report() -> None:
    options = {"--suite": "ops", "--quick": True, "--only": "matmul 256", "--precision": "", "--before": None,
               "--report": Path("reports") / "new.md"}
    assert bench_row.command(options) == "clnet bench --suite ops --quick --only 'matmul 256' --report reports/new.md"
    assert bench_row.command({"--suite": "ops", "--quick": False}) == "clnet bench --suite ops"
    several = {"--from": [Path("a") / "ops.json", Path("my steps.json")], "--plots": Path("a")}
    assert bench_row.command(several) == "clnet bench --from a/ops.json 'my steps.json' --plots a"


@pytest.mark.parametrize("text", [None, "{}", "[1]", '[{"work": "matmul"}]', "no JSON"])
def test_an_earlier_run_that_is_none_is_refused_before_anything_runs(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "rows.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=r"^bench: expected .*rows.json; got .*--json"):
        bench.main(None, "ops", before=path)


def test_the_works_of_gpus_are_tasks_too() -> None:
    names = [t.name for t in bench_steps.gpu_tasks()]
    assert [w.name for w in bench.works("steps", gpu=True)] == [*names, f"{names[-1]} fp32x3"]
    assert not any(bench_steps.missing(t) for t in bench_steps.gpu_tasks())
    assert {w.name for w in bench.works(gpu=True)} > set(names)


def test_cpus_and_gpus_have_convolutions_of_their_own() -> None:
    cpu, gpu = ([w.name for w in bench.works("conv", gpu=gpu)] for gpu in (False, True))
    assert not set(cpu) & set(gpu)
    assert all(any(word in name for name in cpu) for word in ("7×7 7² b16 depthwise", "stride 2 forward", "2 backward"))
    first = next(w for w in bench.works("conv") if w.name == "conv 512→512 7×7 7² b16 depthwise forward")
    assert isinstance(first, compare.Work) and first.flops == 2 * 16 * 512 * (4 + 5 + 6 + 7 + 6 + 5 + 4) ** 2


def test_flops_are_those_of_the_products() -> None:
    assert task("mlp b64").flops == 2 * 64 * (3 * (784 * 512 + 512 * 512 + 512 * 10) - 784 * 512)
    # 40.8 M products a picture are the literature's count for this network
    by_hand = 2 * 32 * 3 * (40.8e6 - 1024 * 16 * 27 / 3)
    assert task("resnet20 b32").flops == pytest.approx(by_hand, rel=0.02)


def test_names_are_unique_and_quick_is_a_part() -> None:
    everything = bench.works()
    names = [(w.suite, w.name) for w in everything]
    assert len(set(names)) == len(names)
    assert {s for s, _ in names} == set(suites.ALL)
    assert {w.name for w in bench.works(quick=True)} < {n for _, n in names}
    assert all(w.flops and w.nbytes for w in bench.works("ops"))


def test_pictures_of_every_suite() -> None:
    def row(suite: str, work: str, **facts: Any) -> bench.Row:
        return bench.Row(suite, work, "float32", "intel", "torch", 1.0, 2.0, 2.0, 1.9, 2.1,
                         machine="AMD EPYC, Intel's CPU runtime", **facts)

    roof = {"gflops": 10.0, "intensity": 3.0, "share": 0.5, "peak_gflops": 200.0, "peak_gbytes": 40.0}
    rows = [row("ops", "matmul", **roof), *(row("steps", f"{net} b64", **roof) for net in ("mlp", "cnn")),
            row("startup", "import to first step"), *(row("scaling", f"mlp batch {n}", **roof) for n in (1, 16)),
            bench.Row("memory", "mlp", "float32", "intel", "forecast", peak_bytes=100, peer_bytes=90)]
    found = bench.pictures(rows)
    assert found.keys() == {"intel-torch", "intel-steps-roofline", "intel-scaling-roofline", "intel-mlp batch",
                            "intel-memory"}, "one point, no roofline"
    assert found["intel-torch"].heading == "AMD EPYC, Intel's CPU runtime against torch"
    assert all(png.startswith(PNG) for png in found.values())
    assert [title.split(": ")[1] for title, _, _ in columns.sections(rows)] == [
        "ops", "steps", "startup", "scaling", "memory"]
