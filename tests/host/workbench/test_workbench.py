"""Tables of status and of parity: what they hold and how they are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.engine.device.devices import devices
from clnet.errors import DataError
from clnet.layers.base import Layer
from clnet.workbench import parity, report
from clnet.workbench.evidence import catalog, registry
from clnet.workbench.status import command as status_command
from clnet.workbench.status import run as status
from clnet.workbench.status import tables as status_tables
from clnet.workbench.status.row import ASPECTS, Row, inflated


def test_the_quick_report_leaves_no_layer_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(status, "run", lambda *args, **more: asked.append((args, more)) or [])
    text = report.checked("engine", True).text
    assert asked == [((["engine"], ["layer", "loss", "optimizer"]), {"quick": True, "skip": ("fp16",)})]
    assert any("the first of its examples" in line for line in text)


def test_check_without_tables_says_what_to_do(tmp_path: Path) -> None:
    words = r"expected rows in .*status\.json; got No such file or directory; run `clnet status` first\.$"
    with pytest.raises(DataError, match=words):
        status_command.main(["numpy"], tmp_path, only="MSELoss", check=True)


def test_models_are_no_rows_of_the_table() -> None:
    assert {"Sequential", "Graph"} <= Layer.registry.keys(), "they are registered as layers, for JSON"
    assert not {"Sequential", "Graph", "Model"} & {s.name for s in registry.subjects(["layer"])}


def test_goals_are_in_the_table() -> None:
    rows = status.to_come(devices()[-1], {("layer", "Dense")}, ["layer"])
    goals = {g.spec_name for g in catalog.goals("layer")}
    assert {r.spec_name for r in rows} == goals - {"DenseLayer", "FullyConnectedLayer"}
    assert all(r.note == "not there yet" and r.forward == "no" for r in rows)


def test_a_row_asked_for_by_its_whole_name_is_alone(tmp_path: Path) -> None:
    """What is registered under a longer name is not said to be missing, nor taken for gone by --check."""
    rows = status.run(["numpy"], ["loss"], only="MSELoss", quick=True, progress=False)
    assert {r.name for r in rows} == {"MSELoss"}
    status_tables.write([replace(r, name=name) for r in rows for name in ("MSELoss", "RMSELoss")], tmp_path,
                        "clnet status")
    assert status_command.main(["numpy"], tmp_path, only="MSELoss", check=True, quick=True) == 0
    assert registry.selected(["Dense", "DenseBlock", "GRU"], "dense") == {"Dense"}
    assert registry.selected(["DenseUnit", "DenseBlock", "GRU"], "dense") == {"DenseUnit", "DenseBlock"}
    assert registry.selected(["Dense", "GRU"], "") == {"Dense", "GRU"}


def test_inflated_names_the_aspect() -> None:
    row = Row("op", "add", "", "pointwise", "intel", *["yes"] * len(ASPECTS), kernels=2, note="parity: off")
    assert inflated([row], [replace(row, kernels=9)]) == []
    assert "parity is claimed 'yes'" in inflated([row], [replace(row, parity="partial")])[0]
    assert inflated([replace(row, fp16="n/a")], [replace(row, fp16="no")])
    assert inflated([replace(row, fp16="wonderful")], [row])
    assert not inflated([replace(row, fp16="no")], [row])


def test_tables_of_two_devices_live_together(tmp_path: Path) -> None:
    row = Row("op", "add", "add", "pointwise", "here", note="a|b <i>")
    status_tables.write([replace(row, device="there")], tmp_path, "clnet status")
    status_tables.write(status_tables.merged([row], tmp_path, False), tmp_path, "clnet status")
    assert {r.device for r in status_tables.read(tmp_path)} == {"here", "there"}
    text = (tmp_path / "ops.md").read_text()
    assert "a\\|b &lt;i&gt;" in text


def test_parity_shows_the_worst_first_and_the_rest_folded() -> None:
    def place(name: str, error: float) -> parity.Place:
        return parity.Place("forward", name, (2,), np.array([0.0, error]), np.array([0.0, 1.0]), 1e-6)

    few, many = (parity.Parity("<net>", "here", [place(f"layers.{k}", k * 1e-8) for k in range(n)]) for n in (3, 12))
    assert repr(many) == str(many) == "<net> on here: 12 values compared, no divergence"
    assert [row[1] for row in many.table(2).cells] == ["layers.11", "layers.10"]
    html = many._repr_html_()
    assert html.index("layers.11") < html.index("layers.10") < html.index("<details>") < html.index("layers.0")
    assert "&lt;net&gt;" in html and "median ulp" in html and "<details>" not in few._repr_html_()
    wrong = parity.Parity("net", "here", [place("layers.0", 0.0), place("layers.1", 1e-3)])
    assert wrong.table(1).marked == {0} and wrong.table().marked == {1}
