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
      len(os.listdir("/proc/self/fd")), len(widget._instances), len(get_ipython().kernel.comm_manager.comms))
"""
TRAINING, TAKEN = 1, 2


def test_twenty_runs_of_the_training_cell(opened: Callable[[str, Any], Any]) -> None:
    book = opened("again", CELLS)
    book.run_all()
    book.ended()
    assert book.problems() == []
    first = taken(book)
    for _ in range(RUNS - 1):
        book.run(TRAINING)
    book.run(TAKEN)
    assert taken(book) == first
    assert re.fullmatch(r"taken: [1-9]\d* \[.*\] \d+ 0 0", first), first
    assert book.cell(TRAINING).locator(".jp-RenderedSVG").count() == 1, "the curves of the last run alone"
    assert book.problems() == []


def taken(book: Any) -> str:
    return str(book.cell(TAKEN).locator(".jp-OutputArea").inner_text().strip())
