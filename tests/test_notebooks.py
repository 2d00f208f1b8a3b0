"""Every notebook runs front to back in a kernel of its own, and is committed without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


# What a reader must see in the output of the cell that holds the text: a picture, or words.
SHOWN = {"01_training": {"history.plot()": "image/png", "plt.subplots": "image/png", "trainer.evaluate": "accuracy"},
         "02_parity": {"NaiveNorm(), Dense": "first divergence: layers.1 NaiveNorm, forward", "result.plots()": "image/png"},
         "03_benchmarks": {"bench.pictures": "image/png", "plot.barh": "image/png"}}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    assert any(o.output_type in ("stream", "display_data", "execute_result") for c in cells for o in c.outputs)
    for text, shown in SHOWN.get(path.stem, {}).items():
        (cell,) = (c for c in cells if text in c.source)
        assert shown in str(cell.outputs), f"{text}: no {shown} in {str(cell.outputs)[:500]}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_is_committed_clean_and_short(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, "strip the outputs"
            assert cell.source.count("\n") < 25, "cells are short"


def test_there_are_notebooks():
    assert [p.stem[:2] for p in NOTEBOOKS] == [f"{k:02}" for k in range(len(NOTEBOOKS))]
    assert len(NOTEBOOKS) >= 5
