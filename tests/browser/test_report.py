"""The pages of `clnet report` for everybody: without faults that axe-core calls serious, in light and dark, on a
telephone, by keys, and on paper.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clnet.engine.device.devices import devices
from clnet.workbench import page, plots, report, runs, tables
from clnet.workbench.bench import plots as bench_plots
from clnet.workbench.bench.row import Row as BenchRow
from clnet.workbench.marks import Mark
from clnet.workbench.status.row import ASPECTS, TO_COME
from clnet.workbench.status.row import Row as StatusRow

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]
PICTURES = Path(__file__).parents[2] / "build" / "browser"
SERIOUS = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
    .filter(v => ['serious', 'critical'].includes(v.impact))
    .map(v => `${v.id}: ${v.nodes.length}, ${v.nodes[0].html}`)"""
# Tables that are wider than the box that they stand in.
CUT = """() => [...document.querySelectorAll('.wide')]
    .filter(w => w.querySelector('table').offsetWidth > w.clientWidth + 1)
    .map(w => w.querySelector('.scroll').ariaLabel)"""
SHOWN = "s => [...s.querySelectorAll('tr.row')].filter(r => r.offsetHeight).map(r => r.cells[0].textContent.trim())"
A4 = 700  # [pixels] between its margins


def status(day: int) -> list[StatusRow]:
    """A name that no longer passes on the second day, one that is partial, some that are to come."""
    fine = dict.fromkeys(ASPECTS, "yes")
    bad = {} if day == 1 else {"parity": "no", "note": "parity: 0.3 for 0.4"}
    return [*(StatusRow("layer", f"Layer{k}", f"Layer{k}", "dense", "numpy", **fine, kernels=3) for k in range(14)),
            StatusRow("layer", "GRU", "GRU", "recurrent", "numpy", **{**fine, **bad}),
            StatusRow("layer", "LSTM", "LSTM", "recurrent", "numpy", **{**fine, "update": "partial", "note": "slow"}),
            StatusRow("layer", "RBF", "RBF", "recurrent", "numpy", note=TO_COME)]


def bench(day: int) -> list[BenchRow]:
    names = ["matmul 64 NN", "conv 32→64 28×28 b64 forward and gradients", *(f"softmax {k}×1024" for k in range(12))]
    return [BenchRow("ops", name, "float32", "numpy", "torch cpu 2.13.0", 1.234 + k, 2.5 + k, 2.0 * day, 1.9 * day,
                     2.1 * day, rounds=3, gflops=100.0 + k, gbytes=10.0 + k, share=0.5 + k / 40, intensity=1.0 + k,
                     peak_gflops=500.0, peak_gbytes=50.0, tuning="shipped intel-cpu-8 matmul NT 64x1024x512",
                     machine="A machine")
            for k, name in enumerate(names)]


def sections(day: int) -> list[page.Section]:
    """The parts of a report, with every kind of table and picture."""
    curve = plots.curves({"mlp": [3.0, 2.0, 1.0]}, "Training on digits", log=True)
    networks = [{"network": n, "reached": Mark(n == "mlp"), "time": t} for n, t in (("mlp", "9 ms"), ("cnn", "2 min"))]
    book = {"notebook": tables.Link("00_tour", f"2026-11-0{day}-120000-numpy/00_tour.ipynb"), "ran": Mark(True)}
    rows = bench(day)
    return [page.Section("Training", ["`clnet` learns."], [page.Table("Networks", networks, ("time",))], [curve],
                         error="cnn reached 0.5", short="mlp 97.5 %"),
            page.status_section(status(day)), page.bench_section(rows, bench_plots.pictures(rows)),
            page.Section("Notebooks", tables=[page.Table("Executed notebooks", [book])])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of reports with two runs, written as the command does it."""
    place, device = tmp_path_factory.mktemp("reports"), devices()[-1]
    (place / runs.FOLDER).mkdir()
    for day in (1, 2):
        run = replace(runs.started(device, True, "clnet report --quick"), name=f"2026-11-0{day}-120000-numpy",
                      date=f"2026-11-0{day}T12:00:00+00:00")
        report.write(place, report.came_to(run, 60.0, sections(day)), sections(day),
                     ["On this machine: 13 of 14 pass.", "2.00 times as fast."], device, 20)
    return place


def pages(folder: Path) -> dict[str, Path]:
    return {"index": folder / "index.html", "run": folder / "runs" / "2026-11-02-120000-numpy.html"}


def opened(chromium: Any, path: Path, width: int = 1280, scheme: str = "light") -> Any:
    """The page; whatever it asks for elsewhere, or says on the console, is an error."""
    view = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    said: list[str] = []
    view.on("console", lambda m: said.append(m.text))
    view.on("pageerror", lambda e: said.append(str(e)))
    view.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else said.append(r.url))
    view.goto(path.as_uri())
    assert said == []
    return view


@pytest.mark.parametrize("name", ["index", "run"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_and_nothing_overflows(chromium: Any, folder: Path, name: str, scheme: str,
                                                         width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="no axe-core: pip install -e '.[browser]'")
    view = opened(chromium, pages(folder)[name], width, scheme)
    PICTURES.mkdir(parents=True, exist_ok=True)
    view.screenshot(path=str(PICTURES / f"report-{name}-{scheme}-{width}.png"), full_page=True)
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    view.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    assert view.evaluate(SERIOUS) == []
    dark = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).every(c => c < 60)"
    assert view.evaluate(dark) == (scheme == "dark")
    view.context.close()


@pytest.mark.parametrize("name", ["index", "run"])
def test_on_paper_there_are_no_controls_and_no_table_is_cut(chromium: Any, folder: Path, name: str) -> None:
    view = opened(chromium, pages(folder)[name], A4, "dark")
    PICTURES.mkdir(parents=True, exist_ok=True)
    assert view.pdf(path=str(PICTURES / f"report-{name}.pdf"), format="A4").startswith(b"%PDF")
    view.emulate_media(media="print")
    assert view.evaluate(CUT) == []
    shown = "[...document.querySelectorAll('nav, .search, .controls, .hint, .skip')].filter(e => e.offsetHeight).length"
    assert view.evaluate(shown) == 0
    assert view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    view.context.close()


def test_the_choice_of_colours_is_remembered(chromium: Any, folder: Path) -> None:
    view = opened(chromium, pages(folder)["index"])
    paper = "getComputedStyle(document.body).backgroundColor"
    light = view.evaluate(paper)
    view.get_by_label("Colours").select_option("dark")
    dark = view.evaluate(paper)
    assert dark != light
    view.reload()
    assert view.evaluate(paper) == dark and view.get_by_label("Colours").input_value() == "dark"
    view.get_by_label("Colours").select_option("")
    assert view.evaluate(paper) == light
    view.context.close()


def test_by_keys_one_sorts_filters_unfolds_and_follows(chromium: Any, folder: Path) -> None:
    view = opened(chromium, pages(folder)["run"])
    view.keyboard.press("Tab")
    assert view.evaluate("document.activeElement.textContent") == "To the content"
    networks = view.locator("table", has_text="cnn").first
    head = networks.get_by_role("button", name="network")
    head.focus()
    view.keyboard.press("Enter")
    assert networks.evaluate(SHOWN) == ["cnn", "mlp"]
    assert networks.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    view.keyboard.press("Space")
    assert networks.evaluate(SHOWN) == ["mlp", "cnn"]
    status_part = view.locator("section", has=view.locator("#status"))
    status_part.get_by_role("checkbox").focus()
    view.keyboard.press("Space")
    assert status_part.evaluate(SHOWN) == ["GRU", "LSTM"]
    assert status_part.get_by_role("status").inner_text() == "2 of 16 rows"
    view.get_by_role("link", name="All runs").press("Enter")
    assert view.locator("h1").inner_text() == "clnet reports"
    view.get_by_role("link", name="2026-11-01 12:00").press("Enter")
    assert "2026-11-01" in view.locator("h1").inner_text()
    view.context.close()


def test_rows_unfold_and_are_found_by_what_is_folded(chromium: Any, folder: Path) -> None:
    view = opened(chromium, pages(folder)["run"])
    status_part = view.locator("section", has=view.locator("#status"))
    details = "s => s.querySelector('tr.more').offsetHeight"
    assert status_part.evaluate(details) == 0
    status_part.locator("summary").first.click()
    assert status_part.evaluate(details) > 0
    status_part.get_by_role("searchbox").fill("0.3 for 0.4")
    assert status_part.evaluate(SHOWN) == ["GRU"]
    view.context.close()


def test_on_a_telephone_marks_are_seen_and_the_first_column_stays(chromium: Any, folder: Path) -> None:
    view = opened(chromium, pages(folder)["run"], 390)
    right = "Math.max(...[...document.querySelectorAll('table.marks .mark')].map(m => m.getBoundingClientRect().right))"
    assert view.evaluate(right) <= 390, "all marks are on the first screen"
    ops = view.locator(".over", has=view.get_by_role("group", name="Ops"))
    assert ops.locator(".hint").is_visible()
    left = "b => [...b.querySelectorAll('tbody tr.row th')].map(c => Math.round(c.getBoundingClientRect().left))"
    before = ops.evaluate(left)
    ops.locator(".scroll").evaluate("b => { b.scrollLeft = 40 }")
    assert ops.locator(".scroll").evaluate("b => b.scrollLeft") == 40
    assert ops.evaluate(left) == before
    view.context.close()


def test_amounts_are_sorted_by_what_they_are(chromium: Any, folder: Path) -> None:
    view = opened(chromium, pages(folder)["run"])
    texts = ["2 min 5 s", "950 ms", "1,234", "97.5 %", "1.5e-3 s", "12 KiB", "matmul 64", "", "1.80 to 3.04"]
    found = view.evaluate("texts => texts.map(amount)", texts)
    assert found[:6] == pytest.approx([125, 0.95, 1234, 97.5, 0.0015, 12288]) and found[6:] == [None] * 3
    view.context.close()
