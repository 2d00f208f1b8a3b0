"""The README's picture: a training in JupyterLab, its view while it goes on. `make picture` keeps it in docs/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from PIL import Image

from clnet.workbench import notebooks

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]
LARGEST = 250_000  # [bytes]
HIGH = 770  # [pixels] down to the axes' names
PROSE = "# Digits\n\n1797 pictures of 8 × 8 pixels. `fit` draws while it trains; the buttons act between two steps."
CODE = """
import clnet
from clnet.layers import Activation, Conv2d, Dense, Flatten, MaxPool2d

train, test = clnet.data.load("digits").split(test=0.2, seed=0)
model = clnet.Sequential(Conv2d(1, 16, 3, padding=1), Activation("relu"), MaxPool2d(2),
                         Flatten(), Dense(out_features=64), Activation("relu"), Dense(out_features=10))
trainer = clnet.Trainer(model, "cross_entropy", clnet.optimizers.Adam(lr=5e-4))
history = trainer.fit(train, epochs=60, validation=test)
"""
FAR = "() => parseFloat(document.querySelector('.clnet-bar .progress-bar')?.style.width || '0') > 55"


def test_the_picture_of_the_readme(opened: Callable[[str, Any], Any], pictures: Any) -> None:
    cells = [nbformat.v4.new_markdown_cell(PROSE), nbformat.v4.new_code_cell(CODE.strip())]
    book = opened("digits", nbformat.v4.new_notebook(cells=cells, metadata=notebooks.KERNEL))
    book.page.set_viewport_size({"width": 1280, "height": HIGH})
    book.run_all()
    book.page.wait_for_function(FAR)
    book.picture("workbench")
    book.ended()
    assert book.problems() == []
    path = pictures / "workbench.png"
    with Image.open(path) as seen:
        few = seen.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    assert few.size == (1280, HIGH) and 20_000 < path.stat().st_size < LARGEST
