"""Tables of tuning that are shipped, classes of shapes, and the command's errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clnet import cli
from clnet.kernels import tuning as tune
from clnet.kernels.matmul.problem import shape_class
from clnet.workbench import played
from clnet.workbench.tune import tasks as tune_tasks

SHAPE = (96, 96)
ENTRY = ("matmul", shape_class(1, *SHAPE, 96, (96, 1), (96, 1)))


def test_every_shipped_table_can_be_read() -> None:
    files = [f for f in tune.FOLDER.iterdir() if f.name.endswith(".json")]
    assert "nvidia-h200.json" in [f.name for f in files]
    for file in files:
        table = tune.read(file)
        assert table["ops"] and table["made"] and table["device"]


@pytest.mark.parametrize(("line", "message"), [("tune", "neither"), ("tune --op matmul --placement", "both"),
                                               ("tune --op matmul --budget -1", "above 0")])
def test_bad_calls_are_refused(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line.split()) != 0
    assert message in capsys.readouterr().err


def test_a_product_can_be_spelled() -> None:
    (task,) = tune_tasks.wanted("matmul", "TN 96x200x48")
    assert task.shapes == ((200, 96), (200, 48)) and task.entry == ("matmul", "TN 128x256x64")
    assert [t.label for t in tune_tasks.wanted("matmul", "TN 64x64x64")] == ["TN 64x64x64"]
    assert not tune_tasks.wanted("conv", "TN 96x200x48")


def test_shape_classes_say_layout_and_size() -> None:
    assert ENTRY[1] == "NN 128x128x128"
    assert shape_class(8, 64, 512, 784, (1, 64), (1, 784)) == "TT 64x1024x512 b8"


def test_a_table_of_the_processors_maker_comes_before_that_of_all_makers() -> None:
    device = replace(played.device("avx512"), name="Intel(R) Xeon(R) Processor")
    assert tune.shipped(device).name == "intel-cpu-16-intel.json"
    with tune.serving() as served:
        tune.tuned(device, "matmul")
    assert served == {"shipped intel-cpu-16-intel matmul"}
    assert tune.shipped(replace(device, name="AMD EPYC")).name == "intel-cpu-16.json"
    assert tune.shipped(replace(device, name="")).name == "intel-cpu-16.json"
