"""The workbench tells the truth: broken things show as broken,
inflated tables are found out, divergence is named where it starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.core.op import OPS, pointwise
from clnet.layers import Activation, Dense
from clnet.layers.base import Layer
from clnet.model import Sequential
from clnet.workbench import page, parity, report
from clnet.workbench.bench import command as bench
from clnet.workbench.bench import report as bench_report
from clnet.workbench.evidence import facts, registry
from clnet.workbench.status import command as status_command
from clnet.workbench.status import run as status
from clnet.workbench.status import steps as status_steps
from clnet.workbench.status import tables as status_tables
from clnet.workbench.status import workers as status_workers
from clnet.workbench.status.row import Row, as_dicts
from clnet.workbench.status.verdict import check, measure

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


def row_of(name: str, engine: Any, quick: bool = False) -> Row:
    subject = registry.find(name)
    assert subject is not None
    return check(subject, engine, quick=True) if quick else measure(subject, engine)


@pytest.mark.parametrize("name", ["matmul", "argmax", "Dense", "HuberLoss", "Adam"])
def test_rows_are_well_formed(name: str, engine: Any) -> None:
    row = row_of(name, engine)
    assert set(row.verdicts.values()) <= VERDICTS
    assert "no" not in row.verdicts.values(), row
    assert (row.device, row.driver) == (engine.device.key, engine.device.driver)
    assert row.time_ms is not None
    assert row.time_ms > 0
    if engine.compiles:
        assert row.kernels is not None
        assert row.kernels >= 1


@pytest.mark.parametrize("name", ["matmul", "argmax", "Dense", "MaxPool2d", "Dropout", "HuberLoss", "Adam"])
def test_a_quick_row_says_what_the_whole_one_says(name: str, engine: Any) -> None:
    """It compiles fewer programs and takes no time; the verdicts are the same."""
    assert row_of(name, engine, quick=True) == replace(row_of(name, engine), time_ms=None)


def test_what_is_not_asked_is_not_claimed(engine: Any) -> None:
    subjects = [s for s in (registry.find("MSELoss"), registry.find("Momentum")) if s is not None]
    rows = status.run([engine], subjects=subjects, quick=True, skip=("fp16",), progress=False)
    assert [(r.name, r.fp16, r.parity) for r in rows] == [("MSELoss", "n/a", "yes"), ("Momentum", "n/a", "yes")]


def test_a_wrong_gradient_of_a_weight_alone_is_no(engine: Any) -> None:
    """A quick run, too, holds the gradients of parameters against the reference's,
    not only what an update makes of them.
    """
    subject = registry.find("Dense")
    assert subject is not None
    steps = status_steps.Steps(subject, engine, gradients=True)
    example = subject.examples()[0]
    assert steps.backward(example)
    outputs = steps._ran[1][0][0]
    assert len(outputs) == 1 + len([x for x in example.inputs if x.dtype.kind == "f"])
    outputs[-1] = outputs[-1] + np.float32(1e-3)
    assert not steps.backward(example)


def test_what_does_not_apply_is_said(engine: Any) -> None:
    assert row_of("argmax", engine).backward == "n/a"
    assert row_of("HuberLoss", engine).update == "n/a"
    assert row_of("Adam", engine).forward == "n/a"


@pytest.mark.parametrize("quick", [False, True])
def test_a_wrong_kernel_is_no(wrong_op: Any, engine: Any, quick: bool) -> None:
    if not engine.compiles:
        pytest.skip("the host computes the formula, not the OpenCL")
    row = row_of(wrong_op.name, engine, quick)
    assert (row.forward, row.parity) == ("no", "no")
    assert "forward" in row.note


@pytest.mark.parametrize("quick", [False, True])
def test_a_wrong_derivative_is_no(wrong_slope: Any, engine: Any, quick: bool) -> None:
    row = row_of(wrong_slope.name, engine, quick)
    assert (row.forward, row.backward, row.parity) == ("yes", "no", "no")


def test_a_layer_that_raises_is_a_row_that_says_so(engine: Any) -> None:
    class TestRaises(Layer):
        """y = ?"""

        examples = [({}, [(3, 4)])]

        def forward(self, x: Any) -> Any:
            raise RuntimeError("on purpose") if registry else x

    try:
        row = row_of("TestRaises", engine)
    finally:
        del Layer.registry["TestRaises"]
    assert set(row.verdicts.values()) <= {"no", "n/a"}
    assert "on purpose" in row.note


def test_rows_of_several_processes_are_those_of_one(wrong_op: Any, engine: Any,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_workers, "FEW", 0)
    found = [s for s in (registry.find("MSELoss"), registry.find(wrong_op.name), registry.find("Momentum"))
             if s is not None]
    rows = status.run([engine], subjects=found, quick=True, progress=False)
    assert [r.name for r in rows] == ["MSELoss", wrong_op.name, "Momentum"]
    assert rows[1].forward == ("no" if engine.compiles else "yes")  # what only this process has registered
    for row, subject in zip(rows, found, strict=True):
        assert row == check(subject, engine, quick=True)


def test_check_finds_an_inflated_table(engine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = engine.device.key
    assert status_command.main([key], tmp_path, only="RMSELos") == 0
    assert status_command.main([key], tmp_path, only="RMSELos", check=True, quick=True) == 0
    rows = as_dicts(status_tables.read(tmp_path))
    rows.append({**rows[0], "name": "RMSELossOfDreams", "spec_name": "RMSELossOfDreams"})
    rows.append({**rows[0], "device": "device-of-dreams"})
    (tmp_path / "status.json").write_text(json.dumps(rows))
    capsys.readouterr()
    assert status_command.main([key], tmp_path, only="RMSELos", check=True) == 1
    out = capsys.readouterr().out
    assert "RMSELossOfDreams" in out
    assert "unchecked: 1 rows of device-of-dreams" in out


def test_parity_names_the_first_divergence(wrong_layer: type[Layer], engine: Any) -> None:
    model = Sequential([Dense(out_features=6, activation="relu"), wrong_layer(), Dense(out_features=3),
                        Activation(name="tanh")]).build((5,))
    found = parity.compare(model, [np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)], engine)
    if engine.compiles:
        assert found.first is not None
        assert (found.first.pass_, found.first.name) == ("forward", "layers.1 TestWrong")
        assert "first divergence: layers.1 TestWrong" in str(found)
    assert {p.pass_ for p in found.places} == {"forward", "backward"}


def test_parity_of_a_sound_model(engine: Any) -> None:
    found = parity.compare(*parity.digits("cnn"), engine, "digits-cnn")
    assert found.first is None, str(found)
    assert any(p.name.startswith("∂ layers.0") for p in found.places)
    html = page.render("parity", [str(found)], [page.parity_section(found)])
    assert html.count("data:image/png;base64,") == 2
    assert "http:" not in html
    assert "https:" not in html


def test_bench_rows_are_sane(engine: Any) -> None:
    rows = bench.run(engine, "ops", quick=True, only="matmul 64", progress=False)
    assert rows or not engine.compiles
    for r in rows:
        assert r.ours_ms is not None
        assert r.peer_ms is not None
        assert r.min <= r.ratio <= r.max
        assert r.min is not None
        assert 0 < r.min <= (r.max or 0)
        assert (r.suite, r.dtype, r.device) == ("ops", "float32", engine.device.key)
    assert bench_report.markdown(rows).count("###") == (1 if rows else 0)


def test_a_report_survives_a_failing_part(engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    why = "on purpose, and with as many words as it takes to be cut off where lines are kept short: " + "word " * 20

    def fails(engine: Any, quick: bool) -> page.Section:
        raise RuntimeError(why)

    for part in ("training", "checked", "timed"):
        monkeypatch.setattr(report, part, fails)
    assert report.main(engine, tmp_path, quick=True, only="none") == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[0].endswith(f"written to {tmp_path}/"), "before anything is written"
    assert said.err.count(f"FAILED: RuntimeError: {why.strip()}\n") == 3, "each whole, on a line of its own"
    assert not set(said.out + said.err) & set("\r\x1b"), "no cursor is moved where there is none"
    assert "Status failed: RuntimeError: on purpose" in said.out
    (path,) = (tmp_path / "runs").glob("*.html")
    html = path.read_text()
    assert "Failed: RuntimeError: on purpose" in html
    assert "Status failed: RuntimeError: on purpose" in (tmp_path / "index.html").read_text()
    assert "no divergence" in html
    assert "Content-Security-Policy" in html
    assert (tmp_path / "parity.md").is_file()


def test_facts_of_a_traced_layer(engine: Any) -> None:
    subject = registry.find("FullyConnectedLayer", ["layer"])
    assert subject is not None
    row = facts.traced(subject, engine)
    assert row["name"] == "Dense"
    assert row["formula"].startswith("y = act(x")
    assert row["parameters"]["weight"] == {"role": "weight", "shape": [5, 7], "trainable": True}
    assert "out_features" in row["fields"]
    if engine.compiles:
        assert "matmul" in row["ops"]
