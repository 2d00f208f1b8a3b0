"""The live view of a training, as a person uses it: it moves, its buttons act, and a picture stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

# On NumPy: nothing is compiled. Without the Stop button it would go on for days.
CELLS = """
import clnet, numpy as np
from clnet.layers import Activation, Dense
clnet.use("numpy")
draws = np.random.default_rng(0)
x = draws.normal(size=(2000, 16)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int32")
model = clnet.Sequential(Dense(out_features=32), Activation("relu"), Dense(out_features=2))
trainer = clnet.Trainer(model, "cross_entropy", "adam")
# cell
history = trainer.fit(x, y, epochs=3000, validation=0.2)
# cell
from ipywidgets.widgets import widget
print("left:", len(widget._instances), len(get_ipython().kernel.comm_manager.comms))
print("why:", history.stopped, history.interrupted, len(history.steps) > 50)
"""
BAR = "() => parseFloat(document.querySelector('.clnet-bar .progress-bar').style.width)"
CURVE = "() => document.querySelector('.clnet-curves svg').outerHTML"


def changes(page: Any, what: str) -> None:
    """Waits until it does."""
    before = page.evaluate(what)
    page.wait_for_function(f"before => ({what})() !== before", arg=before)


def test_it_moves_and_its_buttons_act(opened: Callable[[str, Any], Any]) -> None:
    book = opened("live", CELLS)
    page = book.page
    book.run_all()
    page.wait_for_selector(".clnet-curves svg", state="attached")
    changes(page, CURVE)
    changes(page, CURVE)
    changes(page, BAR)
    book.look("live")
    page.wait_for_function("() => document.querySelector('.clnet-text').innerText.includes('val_accuracy')")
    text = page.locator(".clnet-text").inner_text()
    missing = [word for word in ("epoch ", "loss ", "samples/s", "left", "learning rate 0.001") if word not in text]
    assert missing == []

    page.locator(".clnet-save").click()
    page.wait_for_function("() => document.querySelector('.clnet-text').innerText.includes('saved sequential-step')")
    page.locator(".clnet-pause").click()
    page.get_by_role("button", name="Resume").wait_for()
    book.look("live-paused", 390)
    at = page.evaluate(BAR)
    page.wait_for_timeout(700)
    assert page.evaluate(BAR) == at, "it goes on while paused"
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator(".clnet-pause").click()
    changes(page, BAR)
    page.locator(".clnet-stop").click()
    book.ended()
    page.get_by_text("left: 0 0").wait_for()
    page.get_by_text("why: Stop was pressed").wait_for()
    book.look("live-ended")
    assert book.problems() == []
    assert len(list(book.path.parent.glob("sequential-step*.safetensors"))) == 1

    outputs = book.save().cells[1].outputs
    (picture,) = (o for o in outputs if o.output_type == "display_data")
    assert picture.data["image/svg+xml"].startswith("<svg") and "History of" in picture.data["text/plain"]
    assert not any("widget" in kind for o in outputs for kind in o.get("data", {}))
