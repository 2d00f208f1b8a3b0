"""Tuned numbers: data that geometries read, and the search that makes them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.tensor import tensor
from clnet.engine.explain import explain
from clnet.kernels import tuning as tune
from clnet.kernels.matmul.problem import shape_class
from clnet.workbench.tune import command as search
from clnet.workbench.tune import tasks as tune_tasks

SHAPE = (96, 96)


def product(engine: Any) -> tuple[str, np.ndarray[Any, Any]]:
    x, w = (tensor(np.random.default_rng(k).standard_normal(SHAPE, np.float32)) for k in range(2))
    y = F.matmul(x, w)
    return explain(y).sources[0], engine.values([y])[0]


ENTRY = ("matmul", shape_class(1, *SHAPE, 96, (96, 1), (96, 1)))


def test_own_numbers_serve_and_give_the_same_product(cpu: Any) -> None:
    before, value = product(cpu)
    tune.keep(cpu.device, ENTRY, {"tile": [2, 1], "swap": 0}, "a test")
    cpu.plans.clear()
    with tune.serving() as served:
        after, again = product(cpu)
    assert "#define MR 2\n" in after and after != before
    assert served == {f"own {tune.own_file(cpu.device).stem} matmul {ENTRY[1]}"}
    np.testing.assert_allclose(again, value, rtol=0, atol=2e-5)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"ops": {"matmul": 3}}', '{"ops": {"matmul": {"": 3}}}'])
def test_a_damaged_table_costs_only_speed(cpu: Any, text: str) -> None:
    before, _ = product(cpu)
    tune.own_file(cpu.device).write_text(text)
    tune._own.clear()
    cpu.plans.clear()
    assert product(cpu)[0] == before


def test_the_child_measures_and_survives_a_bad_candidate(cpu: Any) -> None:
    task = next(t for t in tune_tasks.tasks("matmul") if t.label == "NN 64x64x64")
    child = search.Child(search.TRIES, search.PATIENCE)
    try:
        found = search.Search(child, cpu.device, "matmul", task)
        assert found.start["seconds"] > 0 and found.start["error"] < 1e-5
        assert "failed" in found._try({"tile": ["x", 1]}, 1.0)
        child.stop()  # as a crash would
        assert found._try({"tile": [4, 1]}, 1e9)["seconds"] > 0
    finally:
        child.stop()


def test_the_search_takes_what_is_faster_and_no_less_exact(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        def ask(self, question: dict[str, Any]) -> dict[str, Any]:
            v = question["values"]
            fast = 0.5 if v.get("a") == 2 else 0.99 if v.get("a") == 1 else 0.1 if v.get("a") == 3 else 1.0
            return {"seconds": fast * (0.8 if v.get("b") else 1.0), "error": 9.0 if v.get("a") == 3 else 1.0}

    monkeypatch.setattr(search, "space", lambda op, device: {"a": (0, 1, 2, 3), "b": (False, True)})
    task = tune_tasks.tasks("matmul")[0]
    found = search.Search(Fake(), cpu.device, "matmul", task)  # type: ignore[arg-type]
    tried = list(found.run(float("inf")))
    assert found.best == {"a": 2, "b": True} and found.answer["seconds"] == pytest.approx(0.4)
    assert tried[0] == "a=0"
    found.confirm()
    assert found.best == {"a": 2, "b": True} and found.gain == pytest.approx(2.5)
    times = itertools.cycle([1.0, 0.8, 3.0, 2.4, 3.0, 2.4, 1.0, 0.8, 1.0, 2.4])  # a machine that is slow for a while
    monkeypatch.setattr(Fake, "ask", lambda self, question: {"seconds": next(times), "error": 1.0})
    found.confirm()
    assert found.gain == pytest.approx(1.25), "of numbers that were timed one after the other"
    monkeypatch.setattr(Fake, "ask", lambda self, question: {"seconds": 1.0, "error": 1.0})
    found.confirm()
    assert found.best == {}, "what does not win again is not kept"


def test_the_command_writes_a_table(cpu: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search.kernels(cpu, "matmul", 2.0, "NN 64x64x64", tmp_path / "made") == 0
    assert " ms" in (shown := capsys.readouterr().out) and "1 call" in shown
    for file in (tmp_path / "made").glob("*.json"):
        assert json.loads(file.read_text())["made"].startswith("clnet tune --op matmul")
    with pytest.raises(clnet.ConfigError, match="got 'nothing like this'"):
        search.kernels(cpu, "matmul", 2.0, "nothing like this")


def test_gpus_search_products_alone(cpu: Any) -> None:
    gpu = replace(cpu.device, kind="gpu")
    found = tune_tasks.space("matmul", gpu)
    assert all(len(tiles) == 1 for tiles in found["tiles"]) and ((1,) in found["split"])
    with pytest.raises(clnet.ConfigError, match="expected a CPU"):
        tune_tasks.space("conv", gpu)
