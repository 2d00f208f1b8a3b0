"""Tables of tuning that are shipped, classes of shapes, and the command's errors."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from clnet import cli
from clnet.errors import ConfigError
from clnet.kernels import tuning as tune
from clnet.kernels.matmul.problem import shape_class
from clnet.workbench import played
from clnet.workbench.tune import command, rules
from clnet.workbench.tune import tasks as tune_tasks

SHAPE = (96, 96)
ENTRY = ("matmul", shape_class(1, *SHAPE, 96, (96, 1), (96, 1)))


def test_every_shipped_table_can_be_read() -> None:
    files = [f for f in tune.FOLDER.iterdir() if f.name.endswith(".json")]
    assert "nvidia-h200.json" in [f.name for f in files]
    for file in files:
        table = tune.read(file)
        assert table["ops"] and table["made"] and table["device"]


@pytest.mark.parametrize(("line", "message"), [("tune --op matmul --placement", "both"),
                                               ("tune --op matmul --budget -1", "above 0"),
                                               ("tune --placement --rules", "--op NAME")])
def test_bad_calls_are_refused(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line.split()) != 0
    assert message in capsys.readouterr().err


def test_a_product_can_be_spelled() -> None:
    (task,) = tune_tasks.wanted("matmul", "TN 96x200x48")
    assert task.shapes == ((200, 96), (200, 48)) and task.entry == ("matmul", "TN 128x256x64")
    assert [t.label for t in tune_tasks.wanted("matmul", "TN 64x64x64")] == ["TN 64x64x64"]
    assert not tune_tasks.wanted("conv", "TN 96x200x48")


def test_rules_are_held_against_sixty_products_and_forty_convolutions() -> None:
    calls = {op: [t.label for t in tune_tasks.held(op)] for op in ("matmul", "conv", "winograd")}
    assert {op: len(set(labels)) for op, labels in calls.items()} == {"matmul": 60, "conv": 20, "winograd": 20}


@pytest.mark.parametrize(("gain", "status"), [(1.005, 0), (1.05, 1)])
def test_rules_that_lose_too_much_fail(gain: float, status: int, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    class Fake:
        def __init__(self, module: str, patience: float) -> None:
            pass

        def ask(self, question: dict[str, Any]) -> dict[str, Any]:
            assert question["alone"]
            return {"seconds": 1 / gain if question["values"] else 1.0, "error": 1.0}

        def stop(self) -> None:
            pass

    monkeypatch.setattr(rules, "Child", Fake)
    monkeypatch.setattr(rules, "MARGIN", 1.0)
    monkeypatch.setattr(command, "space", lambda op, device: {"a": (1,)})
    engine: Any = SimpleNamespace(device=played.device("avx2"))
    assert rules.hold(engine, "matmul", 60.0, "NN 64x64x64") == status
    assert f"1 calls: loss {gain - 1:.1%} in the median" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="got 'nothing like this'"):
        rules.hold(engine, "matmul", 1.0, "nothing like this")


def test_rules_alone_take_no_table() -> None:
    device = replace(played.device("avx512"), name="Intel(R) Xeon(R) Processor")
    with tune.serving() as served, tune.rules_alone():
        of_rules = {**tune.defaults("matmul cpu"), **tune.defaults("matmul cpu avx512 intel")}
        assert tune.numbers(device, "matmul cpu") == {n: of_rules[n] for n in tune.meanings("matmul cpu")}
    shape = "NN 1024x1024x1024"
    assert not served and tune.numbers(device, "matmul cpu", shape)["per_core"] == 8 != of_rules["per_core"]


def test_shape_classes_say_layout_and_size() -> None:
    assert ENTRY[1] == "NN 128x128x128"
    assert shape_class(8, 64, 512, 784, (1, 64), (1, 784)) == "TT 64x1024x512 b8"


def test_a_table_of_the_processors_maker_comes_before_that_of_all_makers() -> None:
    device = replace(played.device("avx512"), name="Intel(R) Xeon(R) Processor")
    assert tune.shipped(device).name == "intel-cpu-16-intel.json"
    with tune.serving() as served:
        tune.tuned(device, "matmul", "NN 1024x1024x1024")
    assert served == {"shipped intel-cpu-16-intel matmul NN 1024x1024x1024"}
    assert tune.shipped(replace(device, name="AMD EPYC")).name == "intel-cpu-16.json"
    assert tune.shipped(replace(device, name="")).name == "intel-cpu-16.json"


@pytest.mark.parametrize(("name", "broadcast"), [
    ("Intel(R) Xeon(R) Processor", 0.2), ("11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz", 0.2),
    ("AMD EPYC", 0), ("AMD Ryzen 7 7700 8-Core Processor", 0), ("Hygon C86", 0), ("", 0)])
def test_numbers_of_a_maker_are_found_by_its_name(name: str, broadcast: float) -> None:
    """It does not stand first in every name."""
    assert tune.numbers(replace(played.device("avx512"), name=name), "matmul cpu")["broadcast"] == broadcast
