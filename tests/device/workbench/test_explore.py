"""Explorers: what is filtered, shown and measured, and the widgets over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.engine import on
from clnet.errors import ConfigError, DataError
from clnet.layers import Dense, Layer
from clnet.workbench.explore import devices, graph, parity, status
from clnet.workbench.explore.explorer import Panel
from clnet.workbench.explore.status import UNKNOWN


@pytest.fixture
def shifted() -> Iterator[None]:
    """A layer that is defined as in a cell, and gone with the test."""

    class Shifted(Layer):
        """y = x + 1"""

        examples = [({}, [(2, 3)])]

        def forward(self, x: Any) -> Any:
            return x + 1.0

    yield
    Layer.registry.pop("Shifted")


def test_a_row_is_found_opened_and_measured(engine: Any, shifted: None, tmp_path: Path) -> None:
    with on(engine):
        found = status("Shifted", tmp_path)
        panel = Panel(found)
        assert [r.note for r in found.rows] == [UNKNOWN] and panel.filters["state"].options == ("all", UNKNOWN)
        panel.list.index = 0
        assert "y = x + 1" in panel.page.value and "holds" not in panel.page.value
        panel.buttons["measure now"].click()
        assert panel.said.value == "measure now: done" and found.rows[0].forward == "yes"
        assert "holds" in panel.page.value and "data:image/png" in panel.page.value
        assert ("add" in panel.page.value) == engine.compiles, "the kernel is shown where there is one"


def test_text_and_filters_choose_rows(tmp_path: Path) -> None:
    with on("numpy"):
        found = status(folder=tmp_path)
        assert {r.name for r in found.chosen("dense", kind="layer", family="dense")} >= {"Dense"}
        assert not found.chosen("no such name")
        text = found.table().text(80)
        assert UNKNOWN in text and "forward" not in text, "columns without a value leave the room to the others"
        with pytest.raises(ConfigError, match="expected filters among kind, family, state; got 'colour'"):
            found.chosen(colour="red")
        panel = Panel(found)
        panel.text.value = "no such name"
        assert panel.said.value == f"0 of {len(found.rows)} rows" and panel.list.options == ()


def test_a_slip_in_a_name_or_an_input(tmp_path: Path) -> None:
    with on("numpy"):
        with pytest.raises(DataError, match=r"got 'Densee'; did you mean 'Dense'\?"):
            status("Densee", tmp_path)
        assert parity(Dense(3, 2), np.ones((4, 3), np.float32)).rows, "one array is one input"


def test_an_error_stands_beside_the_buttons() -> None:
    panel = Panel(devices())
    panel.list.index = next(k for k, d in enumerate(panel.some) if d.is_host)
    panel.buttons["measure now"].click()
    assert "DataError: explore.devices: expected an OpenCL device to measure" in panel.said.value


def test_values_of_both_engines_stand_side_by_side(engine: Any) -> None:
    with on(engine):
        found = parity(Dense(3, 2), [np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)], "Dense")
    assert "no divergence" in found.title and {p.pass_ for p in found.rows} == {"forward", "backward"}
    page = found.page(found.rows[0])
    assert "The worst elements" in page and "data:image/png" in page
    assert "data:image/png" not in repr(found) and found.rows[0].name in repr(found)


def test_a_plan_shows_its_kernels(quick: Any) -> None:
    with on(quick):
        found = graph(clnet.ops.relu(clnet.tensor(np.ones((4, 4), np.float32)) * 2.0))
    assert len(found.rows) == 1 and "relu" in repr(found)
    assert "__kernel" in found.page(found.rows[0]) and "color" in found.page(found.rows[0])
