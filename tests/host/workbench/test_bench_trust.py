"""What the bench says of its own figures: medians inside their spread, doubts, roofs that nothing breaks, reports from
rows. No device, no time.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clnet.commands import COMMANDS
from clnet.engine import current
from clnet.engine.device.roof import Peak
from clnet.engine.reference import NumpyEngine
from clnet.errors import DataError
from clnet.workbench import plots
from clnet.workbench.bench import columns, standing, suites
from clnet.workbench.bench import command as bench
from clnet.workbench.bench import compare as bench_compare
from clnet.workbench.bench import plots as bench_plots
from clnet.workbench.bench import report as bench_report
from clnet.workbench.bench import trust as bench_trust
from clnet.workbench.bench.compare import Contender, Setting, Work
from clnet.workbench.evidence import registry

ROOF = Peak(100.0, 10.0, ((1e6, 40.0),))


def row(work: str = "product", peer: str = "torch", **facts: Any) -> bench.Row:
    return bench.Row(**{"suite": "ops", "work": work, "dtype": "float32", "device": "intel", "peer": peer,
                        "ours_ms": 1.0, "peer_ms": 2.0, "ratio": 2.0, "min": 1.5, "max": 2.5, "rounds": 7, **facts})


def rated(gflops: float, intensity: float, **facts: Any) -> bench.Row:
    """A row of a millisecond; its bytes follow from both."""
    gbytes = gflops / intensity
    share = gflops / min(100.0, intensity * 10.0)
    return row(**{"gflops": gflops, "gbytes": gbytes, "intensity": intensity, "share": share, "peak_gflops": 100.0,
                  "peak_gbytes": 10.0, **facts})


# --- ratios
def compared(monkeypatch: pytest.MonkeyPatch, mine: list[float], theirs: list[float], quick: bool = False) -> bench.Row:
    """The row of two contenders that take these seconds, again and again, in turn."""
    made = []
    for name, times in (("clnet", mine), ("peer", theirs)):
        made.append(Contender(name, lambda: None, lambda: None))
        again = itertools.cycle(times)
        monkeypatch.setattr(made[-1], "sample", lambda repeats, again=again: next(again), raising=False)
    monkeypatch.setattr(bench_compare, "ours", lambda work, engine: (made[0], {}))
    monkeypatch.setattr(bench_compare, "peers_of", lambda work, setting: made[1:])
    work, setting = Work("ops", "nap", lambda engine: lambda: None), Setting(NumpyEngine("float32"), quick=quick)
    (found,) = bench_compare.compare(work, setting)
    return found


def test_a_ratio_is_the_median_of_the_rounds_and_so_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rounds' 1.2, 1.1 and 1.8; the medians of both sides have a ratio of 1.8."""
    found = compared(monkeypatch, [1e-3, 2e-3, 1e-3], [1.2e-3, 2.2e-3, 1.8e-3])
    assert (found.ours_ms, found.peer_ms, found.ratio, found.min, found.max) == (1.0, 1.8, 1.2, 1.1, 1.8)


def test_a_slow_peer_runs_until_there_are_rounds_enough_or_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = bench_compare.QUICK_PATIENCE * 1.5
    found = compared(monkeypatch, [0.1], [slow], quick=True)
    assert (found.rounds, found.doubt) == (3, "")
    slower = compared(monkeypatch, [0.1], [slow * bench_compare.PATIENT], quick=True)
    assert (slower.rounds, slower.doubt) == (1, "1 of 3 rounds")
    assert "not to be trusted: 1 of 3 rounds" in columns.shown(slower)["note"]


def test_rounds_that_differ_are_measured_again_and_doubted_if_they_still_do(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = compared(monkeypatch, [1e-3], [2e-3, 2.1e-3])
    assert (calm.rounds, calm.doubt) == (bench_compare.ROUNDS, "")
    once = compared(monkeypatch, [1e-3], [2e-3] * 13 + [9e-3])
    wild = compared(monkeypatch, [1e-3], [1e-3, 3e-3, 9e-3])
    assert once.rounds == bench_compare.ROUNDS and not once.doubt
    assert wild.rounds == 2 * bench_compare.ROUNDS and "outside" in wild.doubt


def test_doubted_ratios_are_reported_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("a", ratio=2.0), row("b", ratio=8.0), row("c", ratio=1000.0, doubt="1 of 7 rounds")]
    first, second, *_ = bench_report.summary(rows)
    assert first == ("ops against torch: 4.00 times as fast in the geometric mean of 2 works, 2 of them faster; "
                     "most 8.00 (b), least 2.00 (a).")
    assert second == "Not to be trusted and left out: c against torch (1 of 7 rounds)."
    assert not bench_report.slower([row("c", ratio=0.1, doubt="1 of 7 rounds"), row("d", ratio=0.1, busy=0.5)])
    drawn: list[str] = []
    monkeypatch.setattr(plots, "ratios", lambda names, *more: drawn.extend(names))
    bench_plots.pictures(rows)
    assert drawn == ["a", "b"]
    text = bench_report.block(rows, {})
    assert "1000" not in text and text.count("doubted |") == 3, "the first table, the wide one, that of the rounds"


def test_ratios_of_a_busy_machine_are_reported_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("a", ratio=77.0, min=76.0, max=78.0, busy=0.5), row("b", busy=0.1)]
    busy, calm = (columns.shown(r) for r in rows)
    assert "others took 50% of the CPU time" in busy["note"] and not calm["note"]
    assert (busy["ratio"], busy["spread"], calm["ratio"]) == ("busy", "", "2.00")
    first, *_, last = bench_report.summary(rows)
    assert first == "ops against torch: 2.00 times as fast." and "1 row of 2 (up to 50% of its CPU time)" in last
    drawn: list[str] = []
    monkeypatch.setattr(plots, "ratios", lambda names, *more: drawn.extend(names))
    bench_plots.pictures(rows)
    assert drawn == ["b"]
    text = bench_report.block(rows, {})
    assert not any(f"{k}" in text for k in (76, 77, 78)) and bench.frame(rows)["ratio"].isna().tolist() == [True, False]
    assert "not reported" in bench_report.busy(rows) and not bench_report.busy(rows[1:])


# --- ahead and behind
def test_the_first_table_says_where_we_are_ahead_and_where_behind() -> None:
    """Each work counts once, against the mode that is best at it; what is not reported counts nowhere."""
    rows = [row("matmul 64 NN", "torch cpu", ratio=0.5), row("matmul 128 NN", "torch cpu", ratio=0.9),
            row("matmul 256 NN", "torch cpu", ratio=1.0), row("matmul 256 NN", "numpy", ratio=0.1),
            row("matmul 512 NN", "torch cpu", ratio=3.0),
            row("conv 3→3 8×8 b1 forward", "torch cpu", ratio=2.0),
            row("conv 3→3 8×8 b1 forward and gradients", "torch cpu", ratio=7.0, busy=0.9),
            row("mlp", "torch cpu", suite="steps", ratio=4.0),
            row("mlp", "torch cpu (compiled)", suite="steps", ratio=2.0),
            row("cnn", "torch cpu", suite="steps", ratio=1.5),
            row("cnn", "torch cpu (fused)", suite="steps", ratio=1.9, doubt="1 of 7 rounds"),
            row("Adam 10M", "torch cpu", ratio=8.0), row("Adam 10M", "torch cpu (fused)", ratio=1.3, doubt="wide")]
    found = {line["works"]: line for line in standing.lines(rows)}
    small = found["products up to 256, 64 rows"]
    assert (small[""], small["ratio, median"], small["least"]) == ("behind", "0.90", "0.50 (matmul 64 NN)")
    assert (small["ahead"], small["behind"]) == ("0 of 3", "2 of 3")
    assert found["larger products"][""] == found["convolutions forward"][""] == "ahead"
    busy = found["convolutions with gradients"]
    assert (busy[""], busy["ratio, median"], busy["ahead"], busy["busy"]) == ("not known", "", "", 1)
    assert (found["training steps"]["ratio, median"], found["training steps"]["least"]) == ("1.75", "1.50 (cnn)")
    adam = found["optimizer updates"]
    assert (adam[""], adam["doubted"]) == ("not known", 1), "PyTorch's second best mode is not the one to beat"
    text = bench_report.block(rows, {})
    assert text.index("where behind:") < text.index("In short:") and "7.00" not in text


def test_every_work_of_the_suites_is_in_one_group() -> None:
    registry.load_all()
    works = [(w.suite, w.name) for suite in (*suites.ALL, "sort", "searches") for w in bench.works(suite)]
    groups = [[g.title for g in standing.GROUPS if g.holds(row(name, suite=suite))] for suite, name in works]
    assert all(groups) and {g[0] for g in groups} == {g.title for g in standing.GROUPS} - {"layers over graphs"}


def test_a_report_has_a_part_for_each_device() -> None:
    rows = [row("a", machine="Xeon, Intel's runtime"), row("a", device="pocl", machine="Xeon, PoCL", ratio=0.5)]
    text = bench_report.block(rows, {"intel-torch": "i.png", "pocl-torch": "p.png"}, "Made by this.")
    assert "## PoCL" in bench_report.block([row("a", device="pocl"), row("a")], {}), "of runs that do not say it"
    order = ["## Xeon, Intel's runtime", "Nothing is below 1.", "i.png", "## Xeon, PoCL", "a 0.50", "p.png",
             "Made by this."]
    assert sorted(order, key=text.index) == order and all(text.count(part) == 1 for part in order)


def test_what_this_process_does_is_not_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([(0.0, 0.0, 0.0), (200.0, 160.0, 100.0)])
    monkeypatch.setattr(bench_trust, "_times", lambda: next(times))
    assert bench_trust.Watch().others() == pytest.approx(0.3)
    monkeypatch.setattr(bench_trust, "_times", lambda: None)
    assert bench_trust.Watch().others() is None


@pytest.mark.skipif(not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="Linux tells of children")
def test_nor_is_what_its_children_do_that_still_live() -> None:
    """Processes that compile for this one made whole tables "busy": they are waited for at its end."""
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True)\ninput()"
    before = bench_trust._of_the_living()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        assert bench_trust._of_the_living() - before >= 0.25 * os.sysconf("SC_CLK_TCK")
        child.communicate(b"\n")
    assert bench_trust._of_the_living() <= before + 1


# --- roofs
def test_a_roof_is_never_below_what_was_reached() -> None:
    rows = [rated(137.0, 50.0), rated(50.0, 50.0, work="slower"),
            rated(90.0, 100.0, work="bf16", arithmetic="bfloat16", share=None)]
    fast, slow, other = bench_trust.settled(rows, ROOF)
    assert (fast.share, fast.peak_gflops) == (1.0, 137.0) and fast.note == "raised the roof from 100 GFLOP/s"
    assert slow.share == pytest.approx(50 / 137, abs=1e-4) and slow.peak_gflops == 137.0 and not slow.note
    assert other.share is None and other.peak_gflops == 137.0
    (by_a_little,) = bench_trust.settled([rated(203.04, 50.0)], ROOF)
    assert by_a_little.peak_gflops == 203.1, "rounded, it is no lower"
    (again,) = bench_trust.settled([by_a_little], Peak(226.3, 10.0))
    assert again.peak_gflops == 226.3


def test_products_that_nobody_makes_raise_no_roof_and_are_said() -> None:
    counted = "as direct: Winograd's kernels make 1 of 1 convolutions"
    (found,) = bench_trust.settled([rated(180.0, 50.0, work="conv", counted=counted, made=0.444)], ROOF)
    assert (found.share, found.peak_gflops) == (1.8, 100.0)
    assert f"counted {counted}" in columns.shown(found)["note"]
    (earlier,) = bench_trust.settled_before([rated(180.0, 50.0, work="conv 3→3 forward")])
    assert earlier.counted and earlier.share == pytest.approx(1.8)


def test_what_a_cache_holds_stands_under_the_cache_s_roof() -> None:
    """30 GB/s over 0.03 MB of a device with 10 GB/s of memory and 40 GB/s of a megabyte of cache."""
    small, large = bench_trust.settled([rated(3.0, 0.1, ours_ms=1e-3), rated(0.9, 0.1, ours_ms=1.0)], ROOF)
    assert (small.share, small.roof_gbytes) == (0.75, 40.0)
    assert (large.share, large.roof_gbytes, large.peak_gbytes) == (0.9, 10.0, 10.0)
    (beyond,) = bench_trust.settled([rated(1.2, 0.1, ours_ms=1.0)], ROOF)
    assert (beyond.share, beyond.peak_gbytes) == (1.0, 12.0) and "raised the roof" in beyond.note


def test_peaks_of_two_measurements() -> None:
    both = ROOF.raised(Peak(90.0, 12.0, ((2e6, 30.0),)))
    assert (both.gflops, both.gbytes) == (100.0, 12.0)
    assert [both.bandwidth(n) for n in (1e5, 1.5e6, 1e7)] == [40.0, 30.0, 12.0]
    assert both.attainable(1.0, 1e5) == 40.0 and both.attainable(100.0) == 100.0


# --- reports
def test_pictures_hold_fifteen_bars() -> None:
    found = bench_plots.pictures([row(f"work {k}") for k in range(31)])
    assert list(found) == [f"intel-torch ({k} of 3)" for k in (1, 2, 3)]


def test_a_report_of_earlier_rows_keeps_what_people_wrote(tmp_path: Path) -> None:
    rows = [rated(50.0, 50.0, work="product 1"), rated(90.0, 50.0, work="product 2", peer="numpy", note="")]
    old = [{k: v for k, v in dataclasses.asdict(r).items()
            if k not in ("rounds", "doubt", "busy", "counted", "made", "machine")} for r in rows]
    source, report = tmp_path / "rows.json", tmp_path / "report.md"
    source.write_text(json.dumps(old))
    assert any("--from" in names for c in COMMANDS if c.name == "bench" for names, _ in c.options)
    assert bench.again([source], None, report) == 0
    text = report.read_text()
    assert text.index("In short:") < text.index("### CPU: ops") < text.index("<img") and "ratio of the medians" in text
    assert text.count("<!-- rows of rows -->") == 1
    changed = text.replace("# Benchmarks", "# Benchmarks\n\nSomebody wrote this.").replace("In short:", "Gone.")
    report.write_text(changed)
    bench.again([source], None, report)
    again = report.read_text()
    assert "Somebody wrote this." in again and "Gone." not in again and "In short:" in again


def test_a_report_names_what_is_below_one_and_explains_its_columns_once() -> None:
    rows = [row("a", ratio=0.9), row("b", ratio=0.5), row("c", ratio=3.0),
            row("d", ratio=0.1, doubt="1 of 7 rounds"), row("e", ratio=0.999),
            row("f", suite="memory", ratio=0.8), row("g", suite="steps", ratio=2.0),
            row("f", "optimum", suite="memory", ratio=0.9)]
    assert bench_report.slower(rows) == ["ops against torch: b 0.50, a 0.90.",
                                         "memory against torch, which takes less: f 0.80."]
    text = bench_report.block(rows, {}, "How it came to be.")
    order = ["where behind:", "In short:", "What is below 1, the lowest first:", "Against torch",
             "How to read the tables:", "### CPU: ops", "How it came to be."]
    assert sorted(order, key=text.index) == order
    assert text.count(columns.RATIO) == text.count(columns.SHARE) == 1
    assert f"- Ops, steps. {columns.RATIO}" in text
    assert "Nothing is below 1." in bench_report.block(rows[2:3], {})


def test_a_frame_says_its_units() -> None:
    found = bench.frame([rated(50.0, 50.0), rated(50.0, 50.0, doubt="1 of 7 rounds")])
    assert list(found) == ["work", "peer", "ours [ms]", "peer [ms]", "ratio", "least ratio", "largest ratio", "rounds",
                           "GFLOP/s", "GB/s", "note"]
    assert found["ratio"].dtype == float and found["note"][1] == "not to be trusted: 1 of 7 rounds"


def test_tables_of_a_report_are_narrow() -> None:
    """A row a work, a column a peer; no row of either table is wider than a forge's page shows."""
    peers = ["numpy", "torch", "torch (compiled)"]
    text = bench_report.markdown([rated(50.0, 50.0, work=f"work {k}", peer=p) for k in range(3) for p in peers])
    wide = text.split("<details>")[0]
    assert sum(line.startswith("| work ") for line in wide.splitlines()) == 4
    assert all(len(line) < 130 for line in text.splitlines() if line.startswith("|"))


@pytest.mark.parametrize("text", [
    '[{"suite": "ops", "work": "a", "device": "intel", "peer": "", "dtype": "float32", "speed": 9}]', "[1]"])
def test_rows_of_something_else_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"^bench: expected .*rows.json"):
        bench_report.read([path])


def test_a_sample_chooses_its_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, chosen, seen = NumpyEngine(), [], []
    on = bench_compare.on

    def counted(which: Any) -> Any:
        chosen.append(which)
        return on(which)

    monkeypatch.setattr(bench_compare, "on", counted)
    monkeypatch.setattr(bench_compare, "SAMPLE", 0.0)
    who = Contender("clnet", bench_compare.Within(engine, lambda: seen.append(current())), lambda: None, pause=0.0)
    who.sample(5)
    assert chosen == [engine]
    assert len(seen) >= 5 and all(one is engine for one in seen)
    who.call()
    assert seen[-1] is engine and chosen == [engine, engine]
