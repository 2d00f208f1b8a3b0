"""Runs of the report: what is kept, listed and deleted, and what a run says of the one before it."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from clnet.engine import engine_for
from clnet.engine.device.devices import devices
from clnet.errors import ConfigError
from clnet.options import assignment
from clnet.workbench import filed, notebooks, page, plots, report, runs, since, tables
from clnet.workbench.bench import before
from clnet.workbench.bench.row import Row as BenchRow
from clnet.workbench.runs import Run
from clnet.workbench.status.row import ASPECTS, TO_COME
from clnet.workbench.status.row import Row as StatusRow

ALONE = BenchRow("steps", "mlp", "float32", "numpy", "", 4.0, ours_min=3.9, ours_max=4.1)  # without a peer


def status_row(name: str, **more: Any) -> StatusRow:
    return StatusRow("layer", name, name, "dense", "numpy", **{**dict.fromkeys(ASPECTS, "yes"), **more})


def bench_row(work: str, ratio: float, low: float, high: float, **more: Any) -> BenchRow:
    peer = more.pop("peer", "torch cpu")
    return BenchRow("ops", work, "float32", "numpy", peer, 1.0, ratio, ratio, low, high, **more)


def sections() -> list[page.Section]:
    """The parts of a small report."""
    status, bench = [status_row("Dense"), status_row("GRU")], [bench_row("matmul 64", 2.0, 1.9, 2.1), ALONE]
    training = page.Section("Training", short="mlp 97.5 %", verdict="It learns.",
                            pictures=[plots.curves({"loss": [2.0, 1.0]}, "training on some device")])
    book = tables.Link("00_tour", "2026-11-24-120000-numpy/00_tour.ipynb")
    return [training, page.status_section(status), page.bench_section(bench, {}),
            page.Section("Notebooks", tables=[page.Table("Executed notebooks", [{"notebook": book}])])]


def made(folder: Path, name: str = "2026-11-24-120000-numpy", keep: int = 20, parts: Any = None) -> Run:
    """A run in a folder, written as the command does it."""
    device = devices()[-1]
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    run = replace(runs.started(device, True, "clnet report --quick"), name=name, date=f"{name[:10]}T12:00:00+00:00")
    done = report.came_to(run, 3.0, parts or sections())
    report.write(folder, done, parts or sections(), ["On this: all is well."], device, keep)
    return runs.read(folder)[0]


def test_a_run_has_a_page_and_figures_and_the_list_leads_to_it(tmp_path: Path) -> None:
    run = made(tmp_path)
    assert (run.short, run.failed, run.since) == ({"Training": "mlp 97.5 %"}, [], "the first")
    assert run.status == [status_row("Dense"), status_row("GRU")], "what is not said is as by default"
    assert run.bench == [bench_row("matmul 64", 2.0, 1.9, 2.1), ALONE]
    own = (tmp_path / "runs" / f"{run.name}.html").read_text(encoding="utf-8")
    assert 'href="../index.html">All runs' in own and "nothing to hold it against" in own
    assert "<td class=\"long\">" in own and "clnet report --quick" in own, "the environment and the command"
    assert f'href="{run.name}/00_tour.ipynb"' in own
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert f'<a href="runs/{run.name}.html">2026-11-24 12:00</a>' in index and "mlp 97.5 %" in index
    assert f"[2026-11-24 12:00](runs/{run.name}.html)" in (tmp_path / "index.md").read_text(encoding="utf-8")
    assert f"](runs/{run.name}/00_tour.ipynb)" in (tmp_path / "notebooks.md").read_text(encoding="utf-8")
    assert "![training on some device](training-on-some-device.png)" in (tmp_path / "training.md").read_text()
    assert not list(tmp_path.rglob("*.part"))


def test_older_runs_stay_up_to_a_number_and_nothing_else_is_touched(tmp_path: Path) -> None:
    for day in range(1, 5):
        run = made(tmp_path, f"2026-11-0{day}-120000-numpy", keep=3)
        (tmp_path / "runs" / run.name).mkdir()
        (tmp_path / "runs" / f"mine-{day}.html").write_text("a person's own")
    assert [r.name[:10] for r in runs.read(tmp_path)] == ["2026-11-04", "2026-11-03", "2026-11-02"]
    kept = {p.name for p in (tmp_path / "runs").iterdir()}
    assert not [name for name in kept if name.startswith("2026-11-01")]
    assert {f"mine-{day}.html" for day in range(1, 5)} <= kept
    assert (tmp_path / "index.html").read_text().count('<a href="runs/') == 3


def test_a_picture_that_the_newest_run_does_not_show_goes(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "mine.png").write_bytes(b"x")
    other = sections()
    other[0].pictures = [plots.curves({"loss": [2.0, 1.0]}, "training on another device")]
    made(tmp_path, "2026-11-25-120000-numpy", parts=other)
    assert {p.name for p in tmp_path.glob("*.png")} == {"mine.png", "training-on-another-device.png"}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"name": "x", "status": [], "bench": []}'])
def test_a_damaged_file_is_said_and_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    made(tmp_path)
    (tmp_path / "runs" / "2026-11-25-120000-numpy.json").write_text(text)
    (tmp_path / "runs" / "notes.json").write_text("{")
    assert [r.name for r in runs.read(tmp_path)] == ["2026-11-24-120000-numpy"]
    said = capsys.readouterr().err
    assert said.count("cannot be read and is not listed") == 1 and "notes" not in said


def test_what_a_later_version_says_beyond_is_left_out(tmp_path: Path) -> None:
    name = made(tmp_path).name
    path = tmp_path / "runs" / f"{name}.json"
    facts = json.loads(path.read_text())
    facts["mood"] = facts["status"][0]["mood"] = facts["bench"][0]["mood"] = "fine"
    path.write_text(json.dumps(facts))
    assert runs.read(tmp_path)[0].bench[0].work == "matmul 64"


def test_a_run_is_held_against_one_of_its_form_and_device() -> None:
    base = runs.started(devices()[-1], True, "clnet report --quick")
    kept = [replace(base, name="c", quick=False), replace(base, name="b", machine="another"), replace(base, name="a")]
    assert runs.before(base, [base, *kept]) is kept[2]
    assert runs.before(base, kept[:2]) is None


def test_what_changed_since_the_last_run() -> None:
    base = runs.started(devices()[-1], True, "clnet report --quick")
    then = replace(base, name="then", status=[status_row("Dense"), status_row("GRU"), status_row("Old")],
                   bench=[bench_row("matmul", 2.0, 1.9, 2.1), bench_row("conv", 2.0, 1.8, 2.2)])
    now = replace(base, status=[status_row("Dense"), status_row("GRU", parity="no", note="0.3 for 0.4"),
                                status_row("New"), status_row("RBF", note=TO_COME, forward="no")],
                  bench=[bench_row("matmul", 3.0, 2.9, 3.1), bench_row("conv", 2.3, 2.1, 2.5)])
    found = since.changes(now, then)
    assert found.short == "1 verdict changed, 1 new, 1 gone, 1 faster"
    text = found.markdown()
    assert "1 verdict changed (0 to yes, 1 to something else); there now: New; gone: Old." in text
    assert "1 faster, 1 unchanged, of 2 works" in text
    assert [t.rows[0] for t in found.tables] == [
        {"name": "GRU", "kind": "layer", "column": "parity", "before": "yes", "now": "no", "note": "0.3 for 0.4"},
        {"work": "matmul", "suite": "ops", "is": "faster", "times": "1.50", "ratio of": "torch cpu",
         "before": "2.00 (1.90 to 2.10)", "now": "3.00 (2.90 to 3.10)"}]
    assert since.changes(then, then).short == "unchanged"


def test_only_what_is_beyond_chance_moved() -> None:
    def moved(then: list[BenchRow], now: list[BenchRow]) -> list[tuple[str, str]]:
        found, _ = before.moved(now, then)
        return [(row["is"], row["times"]) for row in found]

    row, numpy = bench_row("w", 2.0, 1.9, 2.1), bench_row("w", 8.0, 7.0, 9.0, peer="numpy")
    assert moved([row], [bench_row("w", 1.0, 0.9, 1.1)]) == [("slower", "0.50")]
    assert moved([row], [bench_row("w", 2.3, 2.05, 2.5)]) == [], "rounds overlap"
    assert moved([row], [bench_row("w", 2.15, 2.11, 2.2)]) == [], "apart, but by less than a tenth"
    assert moved([row, numpy], [bench_row("w", 4.0, 3.9, 4.1), numpy]) == [], "one peer became slower"
    assert moved([row], [replace(row, ratio=9.0, min=8.0, max=10.0, doubt="1 of 3 rounds")]) == []
    assert moved([row], [replace(row, device="other", ratio=9.0, min=8.0, max=10.0)]) == []
    assert moved([ALONE], [replace(ALONE, ours_ms=2.0, ours_min=1.9, ours_max=2.1)]) == [("faster", "2.00")]
    assert before.moved([ALONE], [replace(ALONE, ours_min=None, ours_max=None)]) == ([], 0)


def test_the_command_is_said_as_it_was_typed() -> None:
    assert report.command(True, 20, None, {}) == "clnet report --quick"
    assert report.command(False, 3, "tour", {"epochs": 2, "name": "a b"}) == (
        "clnet report --keep 3 --notebooks tour --set epochs=2 --set 'name=a b'")


def test_values_of_the_command_line_are_literals_or_text() -> None:
    assert [assignment(t) for t in ("epochs=2", "lr = 1e-3", "kind=cnn")] == [
        ("epochs", 2), ("lr", 1e-3), ("kind", "cnn")]
    with pytest.raises(Exception, match="expected NAME=VALUE, as in epochs=2; got 'epochs'"):
        assignment("epochs")


def test_links_are_escaped() -> None:
    link = tables.Link("a<b", 'x"y')
    assert link.__html__() == '<a href="x&quot;y">a&lt;b</a>'
    for copied in (pickle.loads(pickle.dumps(link)),  # noqa: S301 (our own)
                   copy.copy(link)):
        assert (copied, copied.to) == (link, link.to)
    assert tables.cell(tables.Link("a_b", "runs/a_b.html")) == r"[a\_b](runs/a_b.html)"


# --- notebooks
def book(folder: Path, name: str, *sources: str) -> Path:
    """A notebook whose first cell is that of its parameters."""
    cells = [nbformat.v4.new_code_cell(text) for text in sources]
    cells[0].metadata["tags"] = ["parameters"]
    path = folder / f"{name}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_notebooks_are_filed_with_values_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book(tmp_path, "00_good", "rate = 0.1", "import os; print(rate, os.environ['CLNET_DEVICE'])")
    book(tmp_path, "01_bad", "rate = 0.1", "1 / 0", "print('not reached')")
    monkeypatch.setattr("clnet.workbench.lab.sources", lambda who: tmp_path)
    found = filed.filed(tmp_path / "run", filed.chosen("", {"rate": 0.5}), {"rate": 0.5}, "numpy")
    assert (found.short, found.error) == ("1 of 2", "01_bad did not run whole")
    good, bad = (nbformat.read(tmp_path / "run" / f"{n}.ipynb", 4) for n in ("00_good", "01_bad"))
    assert good.cells[2].outputs[0].text == "0.5 numpy\n" and good.cells[1].source == "rate = 0.5"
    assert bad.cells[2].outputs[0].ename == "ZeroDivisionError" and not bad.cells[3].outputs
    assert [(r["ran"], r["parameters"]) for r in found.tables[0].rows] == [("yes", "rate = 0.5"), ("no", "rate = 0.5")]
    assert found.tables[0].rows[1]["note"] == "ZeroDivisionError: division by zero in: 1 / 0"


def test_slips_are_named_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book(tmp_path, "00_good", "rate = 0.1"), book(tmp_path, "01_other", "epochs = 2")
    monkeypatch.setattr("clnet.workbench.lab.sources", lambda who: tmp_path)
    assert filed.chosen("none", {}) == []
    for only, values, why in (
            ("00_god", {}, r"--notebooks with a part of a notebook's name; got '00_god'; did you mean '00_good'"),
            ("good", {"rates": 1}, r"parameter of a notebook that runs \(rate\); got 'rates'; did you mean 'rate'\?"),
            ("good", {"epochs": 1}, r"\(rate\); got 'epochs'; --notebooks 01_other has it\."),
            ("none", {"epochs": 1}, r"\(there is none\); got 'epochs'; --notebooks 01_other has it\.")):
        with pytest.raises(ConfigError, match=why):
            filed.chosen(only, values)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"--folder with a folder to write into; got .*file: Not a directory; take"):
        report.main(engine_for(devices()[-1]), tmp_path / "file", only="none")


def test_parameters_are_the_literals_of_the_tagged_cell(tmp_path: Path) -> None:
    path = book(tmp_path, "some", "epochs = 8\nrates = [0.1, 0.2]\nfolder = open", "later = 1")
    assert notebooks.parameters(nbformat.read(path, 4)) == {"epochs": 8, "rates": [0.1, 0.2]}
