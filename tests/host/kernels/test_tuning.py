"""The user's table of numbers: what is kept, what it gained, and how it is taken back."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from clnet.core.spec import Spec
from clnet.kernels import tuning
from clnet.kernels.choosers import MATMUL
from clnet.kernels.operand import Operand, row_major
from clnet.workbench import played

DEVICE = SimpleNamespace(name="Some CPU", driver="1.0")
ENTRY = ("matmul", "NN 64x64x64")


def test_what_is_kept_goes_over_what_was_there_and_can_be_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    tuning.keep(DEVICE, ENTRY, {"tile": (4, 4)}, "first", path, {"call": "a call", "before_ms": 2.0, "after_ms": 1.0})
    tuning.keep(DEVICE, ENTRY, {"per_core": 8}, "second", path)
    tuning.keep(DEVICE, ("conv", ""), {"per_core": 2}, "third", path)
    table = tuning.read(path)
    assert table["ops"]["matmul"][ENTRY[1]] == {"tile": (4, 4), "per_core": 8}, "the search began from the tile"
    assert table["made"] == "third" and table["device"] == "Some CPU"
    tuning.undo(DEVICE, ENTRY, path)
    table = tuning.read(path)
    assert table["ops"] == {"matmul": {ENTRY[1]: {"tile": (4, 4)}}, "conv": {"": {"per_core": 2}}}
    tuning.undo(DEVICE, ("conv", ""), path)
    assert "conv" not in json.loads(path.read_text())["ops"]
    with pytest.raises(KeyError):
        tuning.undo(DEVICE, ("conv", ""), path)


def test_a_table_of_before_there_were_gains_is_kept_to(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text('{"device": "d", "driver": "1", "made": "m", "ops": {"matmul": {"": {"thin": 4}}}}')
    tuning.keep(DEVICE, ENTRY, {"tile": (4, 4)}, "now", path)
    assert tuning.read(path)["ops"]["matmul"][""] == {"thin": 4}
    tuning.undo(DEVICE, ("matmul", ""), path)
    assert list(tuning.read(path)["ops"]["matmul"]) == [ENTRY[1]]


def test_which_numbers_a_kernel_reads_can_be_asked() -> None:
    operands = [Operand(Spec(shape, "float32"), row_major(shape)) for shape in ((64, 784), (784, 512))]
    with tuning.reading() as read:
        MATMUL.choice(played.device("avx512"), operands)
    assert ("matmul cpu", "NN 64x1024x512") in read
    with tuning.reading() as none:
        pass
    assert none == []
