"""Sizes, counts and times in words; tables that align, fit and escape."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from clnet import show
from clnet.show import Table


@pytest.mark.parametrize(("nbytes", "text"), [(0, "0 B"), (1, "1 B"), (1023, "1,023 B"), (1024, "1.0 KiB"),
                                              (1536, "1.5 KiB"), (12_897_485, "12.3 MiB"),
                                             (1024**2 - 1, "1.0 MiB"), (3 * 1024**3 // 2, "1.5 GiB"),
                                              (5 * 1024**5, "5,120.0 TiB"), (-2048, "-2.0 KiB")])
def test_sizes(nbytes, text):
    assert show.size(nbytes) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 µs"), (8.5e-5, "85.0 µs"), (0.0123, "12.3 ms"),
                                               (0.00099996, "1.00 ms"), (4.56, "4.56 s"),
                                              (59.96, "1 min 0 s"), (125, "2 min 5 s"), (5400, "1 h 30 min"),
                                               (float("nan"), "nan s")])
def test_durations(seconds, text):
    assert show.duration(seconds) == text


@pytest.mark.parametrize(("n", "noun", "text"), [(1, "launch", "1 launch"), (0, "launch", "0 launches"),
                                                 (3, "launch", "3 launches"), (2, "copy", "2 copies"),
                                                (2, "key", "2 keys"), (1234, "buffer", "1,234 buffers"),
                                                 (2, "axis", "2 axes")])
def test_plurals(n, noun, text):
    assert show.plural(n, noun, "axes" if noun == "axis" else "") == text


def test_numbers_go_right_with_equal_decimals_and_text_left():
    table = Table(("name", "n", "loss", "memory"), [("a", 1234, 0.55, "1.5 MiB"),
                                                    ("longer", 7, np.float32(0.83056), "12 B"), ("c", None, 10.0, "")])
    assert str(table) == "\n".join([
        "name        n    loss   memory",
        "------------------------------",
        "a       1,234   0.550  1.5 MiB",
        "longer      7   0.831     12 B",
        "c              10.000",
    ])
    assert table.align == "lrrr"


def test_small_numbers_beside_large_ones_are_not_shown_as_nothing():
    assert show.cells([1e-9, 1.0]) == ["1.000e-09", "1.000e+00"]
    assert show.cells([2.30312, 0.0123, 0.0]) == ["2.3031", "0.0123", "0.0000"]


def test_no_digits_that_say_nothing():
    assert show.cells([0.55, 0.83056, 0.9]) == ["0.5500", "0.8306", "0.9000"]
    assert show.cells([0.001, 0.001]) == ["0.001", "0.001"]
    assert show.cells([28618.4, 96.8]) == ["28,618.4", "96.8"]
    assert show.cells([0.0, float("nan"), 2.5]) == ["0.0", "nan", "2.5"]


def test_title_foot_marks_and_notes():
    text = str(Table(("op", "ms"), [("add", 1.0), ("mul", 2.0)], title="Launches", foot=("total", 3.0), marked=[1],
                     notes=["* the slowest"]))
    assert text.splitlines() == [
        "Launches", "  op      ms", "  ----------", "  add    1.0", "* mul    2.0", "  ----------", "  total  3.0",
        "* the slowest"]


def test_a_wide_table_shortens_text_in_the_middle_and_never_a_number():
    table = Table(("kernel", "what", "n"), [("k" * 60, "w" * 40 + "END", 123456789)])
    text = table.text(60)
    assert max(map(len, text.splitlines())) == 60
    assert "…" in text and "END" in text and "123,456,789" in text
    assert "…" not in table.text(200)


def test_the_terminal_width_is_the_default(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, str(Table(("a", "b"), [("x" * 50, "y" * 50)])).splitlines())) == 40


def test_a_long_table_shows_both_ends():
    text = str(Table(("n",), [(k,) for k in range(1000, 1300)], limit=10))
    assert "1,004" in text and "1,295" in text and "1,005" not in text and "… 290 more rows" in text


def test_wide_letters_take_two_columns():
    lines = str(Table(("name", "n"), [("数据", 1), ("ab", 2)])).splitlines()
    assert show.columns(lines[2]) == show.columns(lines[3])


def test_html_is_escaped_and_self_contained():
    page = Table(("<b>", "n"), [("a & <script>", 1)], title="x < y", foot=("total", 1), notes=["<i>"])._repr_html_()
    assert "&lt;b&gt;" in page and "a &amp; &lt;script&gt;" in page and "x &lt; y" in page and "&lt;i&gt;" in page
    assert "<script" not in page and "http" not in page and "url(" not in page
    assert '<td style="text-align:right;padding:0.2em 0.7em">1</td>' in page and "<tfoot>" in page
    assert "color:#" not in page and "background" not in page  # a page's own colours, light or dark


def test_rows_have_a_cell_a_head():
    with pytest.raises(ValueError, match="expected 2 cells in every row; got 1"):
        Table(("a", "b"), [(1,)])


def test_what_derives_from_shown_is_its_table():
    class Thing(show.Shown):
        def table(self):
            return Table((), [("colour", "red"), ("weight", 3)])

    assert repr(Thing()) == "colour  red\nweight  3"
    assert Thing()._repr_html_().count("<tr>") == 2


def test_nothing_heavy_is_imported():
    code = ("import sys; before = set(sys.modules); import clnet.show; "
            "print(sorted(m for m in ('pandas', 'matplotlib', 'rich', 'IPython') if m in sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
