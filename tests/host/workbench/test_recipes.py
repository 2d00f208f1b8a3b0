"""The recipes of docs/adding.md that add data or a file: each is followed here for something made up."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from clnet import cli
from clnet.engine import on
from clnet.engine.device import devices, known_runtimes
from clnet.engine.device.devices import HOST
from clnet.kernels import tuning
from clnet.model import Sequential, dialects
from clnet.workbench.bench import suites
from clnet.workbench.tables import device_words

SUITE = '''
"""A suite that a recipe added."""

from clnet import ops as F
from clnet.workbench.bench.call import function, size
from clnet.workbench.bench.compare import Work
from clnet.workbench.bench.suites import Suite


def works() -> list[Work]:
    return [Work("toy", f"square {n}", function(lambda x: x * x, (n,)), quick=n == 8, flops=n, nbytes=2 * size((n,)))
            for n in (8, 64)]


SUITE = Suite(works, legend="The columns of a made-up suite.")
'''


def test_a_bench_suite_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "toy.py").write_text(SUITE)
    monkeypatch.setattr(suites, "__path__", [*suites.__path__, str(tmp_path)])
    assert "toy" in suites.names() and "toy" not in suites.ALL
    file = tmp_path / "rows.json"
    assert cli.main(["bench", "--suite", "toy", "--quick", "--device", "numpy", "--json", str(file)]) == 0
    assert "The columns of a made-up suite." in capsys.readouterr().out
    (row,) = json.loads(file.read_text())
    assert (row["suite"], row["work"]) == ("toy", "square 8") and row["ours_ms"] > 0


def read(config: dialects.Values) -> dialects.Values:
    """{"stack": [[inputs, outputs], …]}: dense layers, one after the other."""
    return {"type": "Sequential", "layers": [{"type": "Dense", "in_features": m, "out_features": n}
                                             for m, n in config["stack"]]}


def test_a_dialect_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dialects.DIALECTS, "toy", dialects.Dialect(lambda config: "stack" in config, read))
    with on("numpy"):
        model = Sequential.from_json('{"stack": [[6, 4], [4, 3]]}')
        assert model(np.ones((2, 6), np.float32)).shape == (2, 3)
    assert [layer.out_features for layer in model] == [4, 3]


def test_a_tuning_table_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = replace(HOST, key="toy", name="Toy 9000", kind="gpu", runtime="other", handle=object())
    table = {"device": device.name, "driver": "1.0", "made": "by hand",
             "ops": {"matmul": {"": {"per_core": 3}, "NN 64x64x64": {"tile": [8, 2]}}}}
    assert tuning.tuned(device, "matmul") == {}
    (tmp_path / "toy-9000.json").write_text(json.dumps(table))
    for name, value in (("FOLDER", tmp_path), ("_shipped", {}), ("_own", {})):
        monkeypatch.setattr(tuning, name, value)
    assert tuning.tuned(device, "matmul") == {"per_core": 3}
    assert tuning.tuned(device, "matmul", "NN 64x64x64") == {"per_core": 3, "tile": (8, 2)}
    with tuning.serving() as served:
        numbers = tuning.numbers(device, "matmul cpu", "NN 64x64x64")
    assert (numbers["per_core"], numbers["tile"]) == (3, (8, 2))
    assert served == {"shipped toy-9000 matmul", "shipped toy-9000 matmul NN 64x64x64"}
    assert numbers.keys() >= tuning.meanings("matmul cpu").keys(), "what a table leaves out has its default"


def test_a_runtime_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = known_runtimes.Runtime("toy", ("toyland",), "Toyland's {} driver", cast_loads=True)
    monkeypatch.setattr(known_runtimes, "RUNTIMES", (row, *known_runtimes.RUNTIMES))
    monkeypatch.setitem(known_runtimes.BY_NAME, row.name, row)
    assert known_runtimes.runtime_of("OpenCL of Toyland") is row
    found = {f.name: getattr(HOST, f.name) for f in fields(HOST) if f.name != "key"}
    found |= {"name": "Toy 9000", "kind": "gpu", "runtime": "toy", "handle": object()}
    (device,) = devices._with_keys([found])
    assert (device.key, device.known.cast_loads) == ("toy", True)
    assert device_words(device) == "Toy 9000, Toyland's GPU driver"
