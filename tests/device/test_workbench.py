"""The workbench tells the truth: broken things show as broken, inflated tables are found out, divergence is named where it starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.engine.device import devices
from clnet.errors import DataError
from clnet.layers import Activation, Dense
from clnet.layers.base import Layer
from clnet.model import Sequential
from clnet.op import OPS, pointwise
from clnet.workbench import bench, catalog, page, parity, registry, report, status, status_command, status_steps, status_tables, status_workers

VERDICTS = {"yes", "partial", "no", "n/a"}


@pytest.fixture
def wrong_op() -> Iterator[Any]:
    """An op whose OpenCL is not its formula."""
    name = "test_wrong_double"
    yield pointwise(name, "x * (T)2.001f", lambda x: x * 2.0, lambda g, y, x: g * 2.0, doc="y = 2x")
    del OPS[name]


@pytest.fixture
def wrong_slope() -> Iterator[Any]:
    """An op whose derivative is not its formula's."""
    name = "test_wrong_slope"
    yield pointwise(name, "x * x", lambda x: x * x, lambda g, y, x: g * x, doc="y = x²")
    del OPS[name]


@pytest.fixture
def wrong_layer(wrong_op: Any) -> Iterator[type[Layer]]:
    class TestWrong(Layer):
        """y = 2x"""

        examples = [({}, [(3, 4)])]

        def forward(self, x: Any) -> Any:
            return wrong_op(x)

    yield TestWrong
    del Layer.registry["TestWrong"]


def row_of(name: str, device: Any, quick: bool = False) -> status.Row:
    subject = registry.find(name)
    assert subject is not None
    return status.check(subject, device, quick=True) if quick else status.measure(subject, device)


@pytest.mark.parametrize("name", ["matmul", "argmax", "Dense", "HuberLoss", "Adam"])
def test_rows_are_well_formed(name: str, device: Any) -> None:
    row = row_of(name, device)
    values = {a: getattr(row, a) for a in status.ASPECTS}
    assert set(values.values()) <= VERDICTS
    assert "no" not in values.values(), row
    assert (row.device, row.driver) == (device.device.key, device.device.driver)
    assert row.time_ms is not None
    assert row.time_ms > 0
    if hasattr(device, "transfers"):
        assert row.kernels is not None
        assert row.kernels >= 1


@pytest.mark.parametrize("name", ["matmul", "argmax", "Dense", "MaxPool2d", "Dropout", "HuberLoss", "Adam"])
def test_a_quick_row_says_what_the_whole_one_says(name: str, device: Any) -> None:
    """It compiles fewer programs and takes no time; the verdicts are the same."""
    assert row_of(name, device, quick=True) == replace(row_of(name, device), time_ms=None)


def test_what_is_not_asked_is_not_claimed(device: Any) -> None:
    subjects = [s for s in (registry.find("MSELoss"), registry.find("Momentum")) if s is not None]
    rows = status.run([device], subjects=subjects, quick=True, skip=("fp16",), progress=False)
    assert [(r.name, r.fp16, r.parity) for r in rows] == [("MSELoss", "n/a", "yes"), ("Momentum", "n/a", "yes")]


def test_a_wrong_gradient_of_a_weight_alone_is_no(device: Any) -> None:
    """A quick run, too, holds the gradients of parameters against the reference's, not only what an update makes of them."""
    subject = registry.find("Dense")
    assert subject is not None
    steps = status_steps.Steps(subject, device, gradients=True)
    example = subject.examples()[0]
    assert steps.backward(example)
    outputs = steps._ran[1][0][0]
    assert len(outputs) == 1 + len([x for x in example.inputs if x.dtype.kind == "f"])
    outputs[-1] = outputs[-1] + np.float32(1e-3)
    assert not steps.backward(example)


def test_what_does_not_apply_is_said(device: Any) -> None:
    assert row_of("argmax", device).backward == "n/a"
    assert row_of("HuberLoss", device).update == "n/a"
    assert row_of("Adam", device).forward == "n/a"


@pytest.mark.parametrize("quick", [False, True])
def test_a_wrong_kernel_is_no(wrong_op: Any, device: Any, quick: bool) -> None:
    row = row_of(wrong_op.name, device, quick)
    if hasattr(device, "transfers"):
        assert (row.forward, row.parity) == ("no", "no")
        assert "forward" in row.note


@pytest.mark.parametrize("quick", [False, True])
def test_a_wrong_derivative_is_no(wrong_slope: Any, device: Any, quick: bool) -> None:
    row = row_of(wrong_slope.name, device, quick)
    assert (row.forward, row.backward, row.parity) == ("yes", "no", "no")


def test_a_layer_that_raises_is_a_row_that_says_so(device: Any) -> None:
    class TestRaises(Layer):
        """y = ?"""

        examples = [({}, [(3, 4)])]

        def forward(self, x: Any) -> Any:
            raise RuntimeError("on purpose") if registry else x

    try:
        row = row_of("TestRaises", device)
    finally:
        del Layer.registry["TestRaises"]
    assert {getattr(row, a) for a in status.ASPECTS} <= {"no", "n/a"}
    assert "on purpose" in row.note


def test_rows_of_several_processes_are_those_of_one(wrong_op: Any, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_workers, "FEW", 0)
    found = [s for s in (registry.find("MSELoss"), registry.find(wrong_op.name), registry.find("Momentum")) if s is not None]
    rows = status.run([device], subjects=found, quick=True, progress=False)
    assert [r.name for r in rows] == ["MSELoss", wrong_op.name, "Momentum"]
    assert rows[1].forward == ("no" if hasattr(device, "transfers") else "yes")  # what only this process has registered
    for row, subject in zip(rows, found, strict=True):
        one = status.check(subject, device, quick=True)
        assert row == one


def test_the_quick_report_leaves_no_layer_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(status, "run", lambda *args, **more: asked.append((args, more)) or [])
    text = report.checked("engine", True).text
    assert asked == [((["engine"], ["layer", "loss", "optimizer"]), {"quick": True, "skip": ("fp16",)})]
    assert any("the first of its examples" in line for line in text)


def test_check_without_tables_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected rows in .*status\.json; got No such file or directory; run `clnet status` first\.$"):
        status_command.main(["numpy"], tmp_path, only="MSELoss", check=True)


def test_models_are_no_rows_of_the_table() -> None:
    assert {"Sequential", "Graph"} <= Layer.registry.keys(), "they are registered as layers, for JSON"
    assert not {"Sequential", "Graph", "Model"} & {s.name for s in registry.subjects(["layer"])}


def test_goals_are_in_the_table() -> None:
    rows = status.to_come(devices()[-1], {("layer", "Dense")}, ["layer"])
    assert {r.spec_name for r in rows} == {g.spec_name for g in catalog.goals("layer")} - {"DenseLayer", "FullyConnectedLayer"}
    assert all(r.note == "not there yet" and r.forward == "no" for r in rows)


def test_a_row_asked_for_by_its_whole_name_is_alone(tmp_path: Path) -> None:
    """What is registered under a longer name is not said to be missing, nor taken for gone by --check."""
    rows = status.as_dicts(status.run(["numpy"], ["loss"], only="MSELoss", quick=True, progress=False))
    assert {r["name"] for r in rows} == {"MSELoss"}
    status_tables.write([{**r, "name": name} for r in rows for name in ("MSELoss", "RMSELoss")], tmp_path, "clnet status")
    assert status_command.main(["numpy"], tmp_path, only="MSELoss", check=True, quick=True) == 0
    assert registry.selected(["Dense", "DenseBlock", "GRU"], "dense") == {"Dense"}
    assert registry.selected(["DenseUnit", "DenseBlock", "GRU"], "dense") == {"DenseUnit", "DenseBlock"}
    assert registry.selected(["Dense", "GRU"], "") == {"Dense", "GRU"}


def test_check_finds_an_inflated_table(device: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = device.device.key
    assert status_command.main([key], tmp_path, only="RMSELos") == 0
    assert status_command.main([key], tmp_path, only="RMSELos", check=True, quick=True) == 0
    rows = status_tables.read(tmp_path)
    rows.append({**rows[0], "name": "RMSELossOfDreams", "spec_name": "RMSELossOfDreams"})
    rows.append({**rows[0], "device": "device-of-dreams"})
    (tmp_path / "status.json").write_text(json.dumps(rows))
    capsys.readouterr()
    assert status_command.main([key], tmp_path, only="RMSELos", check=True) == 1
    out = capsys.readouterr().out
    assert "RMSELossOfDreams" in out
    assert "unchecked: 1 rows of device-of-dreams" in out


def test_inflated_names_the_aspect() -> None:
    row = {"kind": "op", "name": "add", "spec_name": "", "device": "intel", "note": "parity: off", "kernels": 2, **dict.fromkeys(status.ASPECTS, "yes")}
    assert status.inflated([row], [{**row, "kernels": 9}]) == []
    assert "parity is claimed 'yes'" in status.inflated([row], [{**row, "parity": "partial"}])[0]
    assert status.inflated([{**row, "fp16": "n/a"}], [{**row, "fp16": "no"}])
    assert status.inflated([{**row, "fp16": "wonderful"}], [row])
    assert not status.inflated([{**row, "fp16": "no"}], [row])


def test_tables_of_two_devices_live_together(tmp_path: Path) -> None:
    row = status.as_dicts([status.Row("op", "add", "add", "pointwise", "here", note="a|b <i>")])
    other = [{**row[0], "device": "there"}]
    status_tables.write(other, tmp_path, "clnet status")
    status_tables.write(status_tables.merged(row, tmp_path, False), tmp_path, "clnet status")
    assert {r["device"] for r in status_tables.read(tmp_path)} == {"here", "there"}
    text = (tmp_path / "ops.md").read_text()
    assert "a\\|b &lt;i&gt;" in text


def test_parity_names_the_first_divergence(wrong_layer: type[Layer], device: Any) -> None:
    model = Sequential([Dense(out_features=6, activation="relu"), wrong_layer(), Dense(out_features=3), Activation(name="tanh")]).build((5,))
    found = parity.compare(model, [np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)], device)
    if hasattr(device, "transfers"):
        assert found.first is not None
        assert (found.first.pass_, found.first.name) == ("forward", "layers.1 TestWrong")
        assert "first divergence: layers.1 TestWrong" in str(found)
    assert {p.pass_ for p in found.places} == {"forward", "backward"}


def test_parity_of_a_sound_model(device: Any) -> None:
    found = parity.compare(*parity.digits("cnn"), device, "digits-cnn")
    assert found.first is None, str(found)
    assert any(p.name.startswith("∂ layers.0") for p in found.places)
    html = page.render("parity", [str(found)], [page.parity_section(found)])
    assert html.count("data:image/png;base64,") == 2
    assert "http:" not in html
    assert "https:" not in html


def test_bench_rows_are_sane(device: Any) -> None:
    rows = bench.run(device, "ops", quick=True, only="matmul 64", progress=False)
    assert rows or not hasattr(device, "transfers")
    for r in rows:
        assert r.ours_ms is not None
        assert r.peer_ms is not None
        assert r.min <= r.ratio <= r.max
        assert r.min is not None
        assert 0 < r.min <= (r.max or 0)
        assert (r.suite, r.dtype, r.device) == ("ops", "float32", device.device.key)
    assert bench.markdown(rows).count("###") == (1 if rows else 0)


def test_a_report_survives_a_failing_part(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    why = "on purpose, and with as many words as it takes to be cut off where lines are kept short: " + "word " * 20

    def fails(engine: Any, quick: bool) -> page.Section:
        raise RuntimeError(why)

    for part in ("training", "checked", "timed"):
        monkeypatch.setattr(report, part, fails)
    assert report.main(device, tmp_path, quick=True) == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[0].endswith(f"written to {tmp_path}/"), "before anything is written"
    assert said.err.count(f"FAILED: RuntimeError: {why.strip()}\n") == 3, "each whole, on a line of its own"
    assert not set(said.out + said.err) & set("\r\x1b"), "no cursor is moved where there is none"
    assert "Status failed: RuntimeError: on purpose" in said.out
    html = (tmp_path / "index.html").read_text()
    assert "Failed: RuntimeError: on purpose" in html
    assert "no divergence" in html
    assert "Content-Security-Policy" in html
    assert (tmp_path / "parity.md").is_file()


def test_facts_of_a_traced_layer(device: Any) -> None:
    subject = registry.find("FullyConnectedLayer", ["layer"])
    assert subject is not None
    row = registry.traced(subject, device)
    assert row["name"] == "Dense"
    assert row["formula"].startswith("y = act(x")
    assert row["parameters"]["weight"] == {"role": "weight", "shape": [5, 7], "trainable": True}
    assert "out_features" in row["fields"]
    if hasattr(device, "transfers"):
        assert "matmul" in row["ops"]


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
