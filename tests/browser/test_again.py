"""A training cell that is run again and again takes no more of the machine than it took the first time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
RUNS = 20
CELLS = """
import clnet, gc, os, threading, numpy as np
from clnet.layers import Activation, Dense
from ipywidgets.widgets import widget
draws = np.random.default_rng(0)
x = draws.normal(size=(512, 16)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int32")
# cell
model = clnet.Sequential(Dense(out_features=32), Activation("relu"), Dense(out_features=2))
trainer = clnet.Trainer(model, "cross_entropy", "adam")
history = trainer.fit(x, y, epochs=3, validation=0.2)
# cell
gc.collect()
print("taken:", clnet.memory()["active"], sorted(t.name for t in threading.enumerate()),
      len(widget._instances), len(get_ipython().kernel.comm_manager.comms), "files:", len(os.listdir("/proc/self/fd")))
"""
TRAINING, TAKEN = 1, 2


def test_twenty_runs_of_the_training_cell(opened: Callable[[str, Any], Any]) -> None:
    book = opened("again", CELLS)
    book.run_all()
    book.ended()
    assert book.problems() == []
    first, files = settled(book)
    for _ in range(RUNS - 1):
        book.run(TRAINING)
    last, more = settled(book)
    assert last == first
    assert re.fullmatch(r"\d+ \[.*\] 0 0", first), first
    assert abs(more - files) < RUNS // 5, "the kernel opens one now and then; a run that kept one would have kept 19"
    assert book.cell(TRAINING).locator(".jp-RenderedSVG").count() == 1, "the curves of the last run alone"
    assert book.problems() == []


def settled(book: Any) -> tuple[str, int]:
    """What is taken, with the least of five counts of open files: the kernel's history opens some for moments."""
    said, files = zip(*(taken(book) for _ in range(5)), strict=True)
    assert len(set(said)) == 1, said
    return said[0], min(files)


def taken(book: Any) -> tuple[str, int]:
    """(bytes, threads, widgets and their channels; open files) once the front end has closed its thread for widgets."""
    for _ in range(60):
        book.run(TAKEN)
        said = str(book.cell(TAKEN).locator(".jp-OutputArea").inner_text())
        if (found := re.search(r"taken: (.*) files: (\d+)", said)) and "subshell" not in said:
            return found[1], int(found[2])
        book.page.wait_for_timeout(250)
    raise AssertionError(said)
