"""Marks, tables and pages as people meet them: words in place of pictograms, nothing cut off, whole without a script,
safe from names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet import picture as style
from clnet.errors import DataError
from clnet.workbench import marks, page, plots, report, tables
from clnet.workbench.bench import command as bench
from clnet.workbench.evidence import catalog
from clnet.workbench.marks import Mark
from clnet.workbench.status import tables as status_tables
from clnet.workbench.status.row import ASPECTS, TO_COME, Row

NASTY = "<img src=x onerror=alert(1)> | `a` $x$ [b](javascript:c) *d*\n# e"


def row(kind: str, name: str, family: str, **more: Any) -> Row:
    given = {**dict.fromkeys(ASPECTS, "yes"), "kernels": 3, "time_ms": 0.07,
             "device_name": "AMD EPYC, Intel's CPU runtime", **more}
    return Row(kind, name, given.pop("spec_name", name), family, "intel", driver="1.0", date="2026-11-23", **given)


def rows() -> list[Row]:
    """A table with everything in it: a name that merges two, an n/a, a partial,
    a NO, what is to come, a family that is all to come.
    """
    gone = {"note": TO_COME, "kernels": None, "time_ms": None, **dict.fromkeys(ASPECTS, "no")}
    return [row("layer", "Dense", "dense", spec_name="DenseLayer"),
            row("layer", "Dense", "dense", spec_name="FullyConnectedLayer"),
            row("layer", "MaxPool2d", "pooling", update="n/a"),
            row("layer", "GRU", "recurrent", parity="partial", note="parity: no independent values yet"),
            row("layer", "LSTM", "recurrent", backward="no", parity="no", note="backward: 0.3 for 0.4"),
            row("layer", "Readout", "graph", **gone),
            row("layer", "RBF", "recurrent", **gone),
            *(row("loss", g.name, g.family, update="n/a") for g in catalog.goals("loss"))]


def whole_page() -> str:
    """A report of saved rows: every kind of section, with tables wider than a telephone."""
    found = page.status_section(rows())
    found.verdict = report.status_sentence(rows())
    wide = [{"work": f"conv 64→64 56×56 b16 forward and gradients {k}",
             **{f"column {n} [ms]": f"{n}.{k}" for n in range(9)}, "peer": "", "note": "said"} for k in range(14)]
    picture = plots.curves({"loss": [3.0, 2.0, 1.0]}, "training", log=True)
    sections = [page.Section("Training", ["`clnet` learns."],
                             [page.Table("", [{"network": "mlp", "accuracy": "97.5 %", "reached": Mark(True)}])],
                             [picture]),
                found, page.Section("Bench", tables=[page.Table("Ops", wide, ("note",))])]
    return page.render("clnet report", ["Made here."], sections, ["On this: all is well.", found.verdict])


def test_marks_are_words_and_no_stands_out() -> None:
    assert [Mark(w).text for w in ("yes", "partial", "no", "n/a")] == ["yes", "partial", "NO", "n/a"]
    assert (Mark(True), Mark(False)) == ("yes", "no")
    assert tables.cell(Mark("no")) == "**NO**"
    assert tables.cell(Mark("n/a")) == "n/a"
    assert Mark("no").__html__() == '<span class="mark no">NO</span>'
    with pytest.raises(ValueError, match="Mark: expected yes, partial, no, n/a; got 'perhaps'"):
        Mark("perhaps")


def letters(text: str) -> set[str]:
    """What plain fonts might not have: pictograms, and what asks for them."""
    return set(re.findall("[\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]", text))


def test_nothing_that_is_written_needs_a_font_of_pictograms(tmp_path: Path) -> None:
    status_tables.write(rows(), tmp_path, "clnet status")
    assert {p.name: letters(p.read_text()) for p in tmp_path.iterdir()} == {p.name: set() for p in tmp_path.iterdir()}
    assert letters(whole_page()) == set()


def test_status_pages_are_narrow_by_family_and_name_what_is_missing() -> None:
    text = status_tables.page("layer", rows(), "# Layers")
    assert "### Dense: 1 there, all green" in text
    assert "### Recurrent: 2 there, 0 green, 1 to come" in text
    assert "Not there yet: RBF." in text
    assert "- Graph: Readout." in text
    assert "GRU: parity: no independent values yet" in text
    assert "## AMD EPYC, Intel's CPU runtime (intel), driver 1.0, measured on 2026-11-23" in text
    assert len(re.findall(r"^\| Dense ", text, re.MULTILINE)) == 1, "one line, whatever the number of its names"
    assert "- **Dense** y = act(x · Wᵀ + b). 3 launches, 0.070 ms. Also called DenseLayer, FullyConnectedLayer." in text
    heads = [line.count("|") - 1 for line in text.splitlines() if line.startswith("| name") and "forward" in line]
    assert heads
    assert max(heads) <= 8
    losses = status_tables.page("loss", rows(), "# Losses")
    assert "update" not in next(line for line in losses.splitlines() if line.startswith("| name"))


def test_devices_show_what_does_not_apply() -> None:
    line = next(x for x in status_tables.devices_page(rows(), "# Devices", "").splitlines() if "losses" in x)
    cells = [c.strip() for c in line.strip("|").split("|")]
    assert cells == ["losses", "38 of 38", "38", "38", "n/a", "38", "38", "38", "38"]


def test_pages_can_be_made_again_of_their_rows(tmp_path: Path) -> None:
    status_tables.write(rows(), tmp_path, "clnet status --device intel")
    before = {p.name: p.read_text() for p in tmp_path.iterdir()}
    (tmp_path / "layers.md").write_text("\n".join(before["layers.md"].splitlines()[:3]) + "\n\nanother form of it")
    status_tables.again(tmp_path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == before
    with pytest.raises(DataError, match="run `clnet status` first"):
        status_tables.read(tmp_path / "elsewhere")


def test_tables_leave_empty_columns_out_and_put_numbers_at_the_right() -> None:
    text = tables.markdown([{"name": "a", "peer": "", "time": "1.5 ms"}, {"name": "b", "peer": None, "time": ""}])
    assert text.splitlines()[0].split() == ["|", "name", "|", "time", "|"]
    assert text.splitlines()[1].endswith("-:|")
    shown = page.Table("t", [{"work": str(k), "device": "intel", "peer": "", "ratio": f"{k}.5"} for k in range(3)])
    assert (shown.columns, shown.same, shown.numbers) == (["work", "ratio"], {"device": "intel"}, {"work", "ratio"})


def test_names_are_escaped_in_pages() -> None:
    bad = status_tables.kinds([row("layer", NASTY, NASTY, note=NASTY)])
    html = page.render(NASTY, [NASTY],
                       [page.Section(NASTY, [NASTY], [page.Table(NASTY, [{NASTY: NASTY, "x": "1"}], ("x",), NASTY)],
                                                     [plots.Picture(b"\x89PNG" + bytes(30), NASTY, NASTY)], NASTY,
                                     kinds=bad, terms={NASTY: NASTY})], [NASTY])
    assert "<img src=x" not in html
    assert "onerror=alert(1)&gt; | <code>a</code> $x$" in html
    assert html.count("<script") == 1
    assert re.search(r"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-[\w+/=]+'\"",
                     html)
    assert not re.search(r"https?://", html)


def test_names_of_lines_that_end_alike_stand_one_above_the_other_in_the_order_of_the_ends() -> None:
    from clnet.workbench.plots import _heights

    found = _heights(["lstm", "mlp", "cnn"], {"cnn": 101.0, "mlp": 100.0, "lstm": 99.0}, 20.0)
    assert found == [80.0, 100.0, 120.0]
    assert tables.listed(["a"]) == "a" and tables.listed(["a", "b", "c"]) == "a, b and c" and tables.listed([]) == ""


def test_code_in_prose_is_code_in_markdown_and_everything_else_is_text() -> None:
    text = "`clnet bench --only a_b` & <b> a_b: 3 * 4 | 5 `"
    assert tables.prose(text) == "`clnet bench --only a_b` &amp; &lt;b&gt; a\\_b: 3 \\* 4 \\| 5 \\`"
    assert page.Section("A", ["`f(x, *y) < 1`"]).markdown() == "## A\n\n`f(x, *y) < 1`\n"


def test_the_verdict_says_what_holds_what_was_reached_and_how_fast() -> None:
    assert report.status_sentence(rows()) == (
        "41 of the 43 layers and losses that are there pass every check, and 2 names not (GRU, LSTM); "
        "2 are not there yet.")
    good = [r for r in rows() if r.kind == "loss"]
    assert report.status_sentence(good) == "all 38 losses pass every check."
    rows_of = [bench.Row("ops", "matmul", "float32", "intel", p, ratio=r, doubt=d) for p, r, d in
               (("numpy", 2.0, ""), ("numpy", 0.5, ""), ("numpy", 4.0, ""), ("numpy", 900.0, "1 of 3 rounds"),
                ("torch", None, ""))]
    text = ("Against NumPy, 2 of 3 works are faster, in the median 2.00 times as fast, least 0.50 (matmul); PyTorch is "
            "not installed; 1 ratio left out as not to be trusted.")
    assert report.speed_sentence(rows_of) == text
    busy = [bench.Row("ops", "matmul", "float32", "intel", "torch", ratio=3.0, busy=0.5)]
    doubtful = "PyTorch is not installed; 1 ratio left out for the machine was busy."
    assert report.speed_sentence(busy) == doubtful


def test_a_page_reads_without_its_script() -> None:
    html = whole_page()
    assert re.search(r'<p class="search" hidden>', html), "a box that does nothing is not shown"
    assert "Not there yet: RBF" in html
    assert re.search(r"<details open><summary>LSTM</summary>", html), "what is not green says why without a click"
    assert html.index("On this: all is well.") < html.index("<nav") < html.index("<h2")
    assert html.count('<td class="number">') == 14 * 9 + 1
    assert 'alt="training"' in html


def test_pictures_are_fine_enough_and_say_what_they_show() -> None:
    rng = np.random.default_rng(0)
    drawn = [plots.histograms({f"layer {k}": 10.0 ** rng.normal(-8, 1, 50) for k in range(70)}, "errors", 1e-5),
             plots.ratios(["a", "b"], [2.0, 0.5], "ours against theirs", [(1.5, 2.5), None]),
             plots.curves({"a": [1.0, 2.0], "b": [1.0, 2.0]}, "lines"),
             plots.learning({"mlp": {"loss": [2.0, 1.0], "val_loss": [2.0, 1.5]}}, "loss", "learning"),
             plots.roofline({"a": plots.Point(1.0, 10.0, 0.5), "b": plots.Point(100.0, 90.0, 0.9, "counted")}, 100.0,
                            20.0, "roof"),
             plots.growth({"ours": {1: 1.0, 2: 3.0}}, "growth", "n", "ms"),
             plots.groups({"mlp": {"ours": 1.0, "theirs": 2.0}}, "memory", "MB")]
    for picture in drawn:
        width, height = picture.size
        assert 600 <= width <= 740, "shown whole beside another at 1280 pixels, by half on a telephone"
        assert height <= 950
        assert picture.heading
        assert int.from_bytes(picture[16:20], "big") == 2 * width
        assert picture._repr_png_()[1] == {"width": width, "height": height}
    assert "The 40 of 70 with the largest errors" in drawn[0].note
    assert min(style.TITLE, style.LABEL, style.SMALL) * style.DPI / 72 * 350 / (100 * (style.WIDTH + 0.8)) > 7


def test_every_sign_of_the_page_is_in_a_plain_font() -> None:
    from matplotlib import font_manager

    known = set(font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap())
    text = re.sub(r"<(style|script)>.*?</\1>|data:image[^\"]*", "", whole_page(), flags=re.DOTALL)
    assert {c for c in text if ord(c) > 126 and ord(c) not in known} == set()
    assert marks.LEGEND in text
