"""Every notebook runs front to back in a kernel of its own,
and is committed with the outputs of its sources, fit to be read.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from clnet.workbench import notebooks

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
WIDEST = 104  # characters of a line of code that a page shows whole

# What a reader must see in the output of the cell that holds the text: a picture, or words.
SHOWN = {"00_tour": {"draw.graph(y)": "image/png", "stages.kernel()": "void matmul("},
         "01_training": {"show(train.x": "image/png", "history.plot()": "image/png", "trainer.evaluate": "accuracy",
                         "model.save": "equal bits: True"},
         "02_parity": {"NaiveNorm(), Dense": "first divergence: layers.1 NaiveNorm, forward",
                       "result.plots()": "image/png", "parity.resolve": "no divergence"},
         "03_benchmarks": {"bench.pictures": "image/png", "plt.loglog": "image/png", "axis.barh": "image/png"},
         "04_layer_status": {"status.run": "deterministic", "Counter(": "image/png",
                             "explore.status": "MaxPool2d",
                             "to_come.items()": "names are to come"},
         "05_your_own_op": {"axes[1].plot": "image/png", "found = clnet.check(swish)\nfound": "extremes",
                            "slip = F.custom": "line 3: use of undeclared identifier", "%%opencl heat": "parity",
                            "%%clprofile": "each timed alone", "%clbench -r 3": "times the first",
                            "model.save": "equal bits after loading: True"},
         "06_bring_your_model": {"imshow(digits": "image/png", "model.save": "equal bits: True",
                                 "plt.plot(": "image/png", "report = other": "shape (2,), theirs (20,)",
                                 "resnet20()": "272,474 parameters"},
         "08_your_data": {"plt.scatter": "image/png", "sample(5": "predicted", "from_frame": "something",
                          "read_images": "data:image/png", "history.plot()": "image/png", "read_text": "next_letter",
                          "changes.preview": "image/png", "few, rest =": "changed at random",
                          "stream = ": "History of 3 epochs"},
         "07_memory_and_speed": {"axis.barh": "image/png", "trainer.steps.train": "arena", "again = [": "image/png",
                                 "step.timeline()": "image/png", "step.memory()": "image/png",
                                 "with clnet.session()": "bytes more than before: 0"},
         "09_text": {"def write(": r"abcd>dcba\\nhead>daeh", "axis.axhline": "image/png", "again = clnet.load": "True"},
         "10_graphs": {"leaders, others =": "93.8% of the 32 others", ".plot();": "image/png",
                       "clnet.explain(": "segments"}}
LONG = {"05_your_own_op", "06_bring_your_model", "07_memory_and_speed", "08_your_data", "10_graphs"}  # of full runs


def seen(notebook: Any, stem: str) -> None:
    for text, shown in SHOWN[stem].items():
        (cell,) = (c for c in notebook.cells if c.cell_type == "code" and text in c.source)
        assert shown in str(cell.outputs), f"{text}: no {shown} in {str(cell.outputs)[:500]}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", [pytest.param(p, marks=pytest.mark.full, id=p.stem) if p.stem in LONG else p
                                  for p in NOTEBOOKS], ids=lambda p: p.stem)
def test_runs(path: Path) -> None:
    notebook = notebooks.executed(path)
    assert notebooks.problems(notebook) == []
    seen(notebook, path.stem)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_is_committed_with_the_outputs_of_its_sources(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert notebooks.problems(notebook) == [], "make notebooks"
    seen(notebook, path.stem)
    assert path.stat().st_size <= notebooks.LARGEST
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.source.count("\n") < 25, "cells are short"
            assert max(map(len, cell.source.splitlines())) <= WIDEST, "lines of code fit a page"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_has_parameters_that_its_cells_read(path: Path) -> None:
    """`clnet report --set epochs=2` gives them: numbers and names that somebody may want others of."""
    notebook = nbformat.read(path, as_version=4)
    others = "\n".join(c.source for c in notebook.cells if c.cell_type == "code" and not c.metadata.get("tags"))
    found = notebooks.parameters(notebook)
    assert found and all(re.search(rf"\b{name}\b(?! ?=[^=])", others) for name in found), found


def test_there_are_notebooks() -> None:
    assert [p.stem for p in NOTEBOOKS] == sorted(SHOWN)


# --- what the command refuses
def made(*outputs: Any, source: str = "1") -> Any:
    """A notebook that can be kept, with more outputs."""
    picture = nbformat.v4.new_output("display_data", {"image/png": "aGk=", "text/plain": "<Figure>"})
    cell = nbformat.v4.new_code_cell(source, outputs=[picture, *outputs], execution_count=1,
                                     metadata={"execution": {"shell": "now"}})
    metadata = {"widgets": {"state": {}}, "language_info": {"name": "python", "version": "3"}}
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Words"), cell], metadata=metadata)


def text(words: str, kind: str = "text/plain") -> Any:
    return nbformat.v4.new_output("execute_result", {kind: words}, execution_count=1)


def test_what_a_run_leaves_beside_outputs_is_taken_away() -> None:
    bar = nbformat.v4.new_output("display_data", {notebooks.WIDGET: {"model_id": "1"}, "text/plain": "  0%|  | 0/9"})
    notebook = notebooks.cleaned(made(bar, text("0.5")))
    assert notebooks.problems(notebook) == []
    assert [list(o.data) for o in notebook.cells[1].outputs] == [["image/png", "text/plain"], ["text/plain"]]
    assert "widgets" not in notebook.metadata and "version" not in notebook.metadata.language_info
    assert not notebook.cells[1].metadata
    once = copy.deepcopy(notebook)
    assert notebooks.cleaned(notebook) == once


@pytest.mark.parametrize(("output", "wrong"), [
    (text("kept in /home/someone/models"), "a path of a machine: '/home/someone"),
    (text("<b>C:\\\\Users\\\\me</b>", "text/html"), "a path of a machine"),
    (text("x/site-packages/clnet"), "a path of a machine"),
    (text("fine ✅"), "needs an emoji font"),
    (nbformat.v4.new_output("stream", name="stderr", text="Warning: old"), "standard error: Warning: old"),
    (nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[]), "ValueError: no"),
])
def test_outputs_that_cannot_be_shown(output: Any, wrong: str) -> None:
    (problem,) = notebooks.problems(notebooks.cleaned(made(output)))
    assert problem.startswith("cell 1: ") and wrong in problem


def test_other_sources_than_those_that_ran_are_noticed() -> None:
    notebook = notebooks.cleaned(made())
    assert notebooks.problems(notebook) == []
    notebook.cells[0].source += "!"
    assert notebooks.problems(notebook) == ["the outputs are not of these sources"]
    bare = notebooks.cleaned(made())
    bare.cells[1].outputs, bare.cells[1].execution_count = [], None
    assert notebooks.problems(bare) == ["cell 1: was run as number None", "no picture in the first two cells"]


def test_a_notebook_that_fails_stays_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.ipynb"
    for source, why in (("1 / 0", "ZeroDivisionError: division by zero in: 1 / 0"),
                        ("import sys; print('old', file=sys.stderr)", "standard error: old")):
        nbformat.write(made(source=source), path)
        before = path.read_bytes()
        assert notebooks.main([str(path)]) == 1 and why in capsys.readouterr().err
        assert path.read_bytes() == before


def test_where_there_is_no_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert notebooks.main([]) == 1
    assert "expected *.ipynb in notebooks/; got none" in capsys.readouterr().err
