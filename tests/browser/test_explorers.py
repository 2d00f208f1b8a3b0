"""Explorers and magics, as a person uses them: lists filter, a row opens, a button measures; what is shown fits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from clnet.workbench.bench import row as bench_row

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300),
              pytest.mark.skipif(os.environ.get("CLNET_DEVICE") == "numpy", reason="NumPy has no kernels to show")]

CELLS = """
import clnet, numpy as np
from clnet.layers import Dense, Layer
%load_ext clnet

class Shifted(Layer):
    \"\"\"y = x + 1\"\"\"

    examples = [({}, [(2, 3)])]

    def forward(self, x):
        return x + 1.0
# cell
clnet.explore.status()
# cell
%%opencl my_swish --gradient True --reference "lambda x: x / (1 + np.exp(-x))"
x / (1 + exp(-x))
# cell
clnet.explore.devices()
# cell
x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
clnet.explore.parity(clnet.Sequential(Dense(3, 4), Shifted()), x)
# cell
clnet.explore.graph(clnet.ops.softmax(clnet.tensor(x) * 2.0))
# cell
clnet.explore.benchmarks("bench.json")
# cell
clnet.explore.kernels("NN 64x64x64")
"""
STATUS, OPENCL, DEVICES, PARITY, GRAPH, BENCHMARKS, KERNELS = range(1, 8)
SHOWS = {DEVICES: "compute units", PARITY: "The worst elements", GRAPH: "__kernel", BENCHMARKS: "matmul 256",
         KERNELS: "Numbers of matmul"}


def says(cell: Any, part: str, text: str) -> None:
    """Waits until a part of the explorer in a cell says it."""
    cell.locator(f".clnet-{part}").filter(has_text=text).wait_for()


def test_lists_filter_open_and_measure_and_opencl_shows_what_it_is(opened: Callable[[str, Any], Any]) -> None:
    book = opened("explorers", CELLS)
    rows = [bench_row.Row("ops", "matmul 256", "float32", "intel", peer, 2.0, ratio * 2, ratio, gflops=300.0)
            for peer, ratio in (("numpy", 3.0), ("torch", 0.9))]
    (book.path.parent / "bench.json").write_text(json.dumps(bench_row.as_dicts(rows)))
    book.run_all()
    book.ended()
    assert book.problems() == []
    a_layer_of_a_cell_is_a_row_that_is_measured(book)
    what_opencl_shows(book)
    book.cell(GRAPH).get_by_role("button", name="measure a replay").click()
    says(book.cell(GRAPH), "said", "of it in kernels")
    for number, text in SHOWS.items():
        cell = book.cell(number)
        cell.locator(".clnet-rows select").select_option(index=0)
        says(cell, "page", text)
        for width in (1280, 390):
            book.look(f"explorer-{number}", width, cell)
    a_number_of_a_kernel_that_is_wrong_is_named(book)
    assert book.problems() == []


def a_layer_of_a_cell_is_a_row_that_is_measured(book: Any) -> None:
    cell = book.cell(STATUS)
    rows = cell.locator(".clnet-rows select option")
    every = rows.count()
    assert every > 500
    cell.get_by_label("kind").select_option("layer")
    says(cell, "said", f"of {every} rows")
    cell.get_by_placeholder("search").fill("shifted")
    says(cell, "said", f"1 of {every} rows")
    assert "not measured here" in shown(rows)
    cell.locator(".clnet-rows select").select_option(index=0)
    says(cell, "page", "y = x + 1")
    cell.get_by_role("button", name="measure now").click()
    says(cell, "said", "measure now: done")
    says(cell, "page", "Checked on this device")
    assert "not measured here" not in shown(rows) and "yes" in shown(rows)
    for width in (1280, 390):
        book.look("status", width, cell)


def a_number_of_a_kernel_that_is_wrong_is_named(book: Any) -> None:
    from playwright.sync_api import expect

    cell = book.cell(KERNELS)
    cell.get_by_label("number", exact=True).select_option("tile")
    assert "(MR, NV)" in cell.locator(".clnet-page").inner_text()
    # The kernel answers with the present value, which would go over what is typed before.
    expect(cell.locator(".clnet-value input")).to_have_value("()", timeout=90000)
    cell.locator(".clnet-value input").fill("(1, 2, 3)")
    cell.locator(".clnet-value input").press("Tab")
    cell.get_by_role("button", name="time it").click()
    says(cell, "said", "expected tile of matmul cpu as in")


def what_opencl_shows(book: Any) -> None:
    cell = book.cell(OPENCL)
    shown = cell.locator(".jp-OutputArea").inner_text()
    assert [word for word in ("parity", "gradient", "time") if word not in shown] == []
    for width in (1280, 390):
        book.look("opencl", width, cell)


def shown(rows: Any) -> str:
    """The first of a list's lines, whose columns spaces that do not break keep apart."""
    return str(rows.first.text_content()).replace("\u00a0", " ")
