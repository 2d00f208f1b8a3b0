"""What `clnet tune` found, as a file for other machines: nothing of who or where in it, nothing taken from it that a
search would not try. No device, no time.
"""

from __future__ import annotations

import getpass
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clnet import cli
from clnet.errors import ConfigError, DataError
from clnet.kernels import tuning as tune
from clnet.workbench import played
from clnet.workbench.tune import command, share
from clnet.workbench.tune import tasks as tune_tasks

DEVICE = played.device("avx2")
CALLS = [{"op": "matmul", "shapes": "NN 64x64x64", "call": "NN 64x64x64", "before_ms": 2.0, "after_ms": 1.0,
          "numbers": {"tile": (6, 2)}},
         {"op": "winograd", "shapes": "64 64", "call": "64->64 56x56 b16", "before_ms": 3.0, "after_ms": 3.0,
          "numbers": {}}]


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's table, which is empty."""
    monkeypatch.setattr(tune, "own_file", lambda device: tmp_path / "own.json")
    tune._own.clear()
    yield tmp_path / "own.json"
    tune._own.clear()


def written(folder: Path, **changes: Any) -> Path:
    """A file that was shared, with these of its values changed; None: taken out."""
    file = folder / "mine.json"
    share.write(file, DEVICE, CALLS, "clnet tune --budget 60", 0.05)
    whole = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({k: v for k, v in whole.items() if v is not None}))
    return file


def test_a_file_says_what_the_device_is_and_nothing_of_who_or_where(tmp_path: Path) -> None:
    file = written(tmp_path)
    found = json.loads(file.read_text())
    assert found.keys() == {"form", "clnet", "day", "made", "table", "device", "busy", "gain", "calls"}
    assert found["device"].keys() == set(share.FACTS) and found["device"]["l2_cache"] == 512 << 10
    assert found["gain"] == pytest.approx(2**0.5, abs=1e-4) and found["table"] == "intel-cpu-8"
    for secret in (str(Path.home()), str(tmp_path), platform.node(), getpass.getuser()):
        assert f'"{secret}' not in file.read_text()


def test_what_was_shared_serves_elsewhere(tmp_path: Path, own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert share.take(written(tmp_path), DEVICE) == 0
    assert tune.tuned(DEVICE, "matmul", "NN 64x64x64")["tile"] == (6, 2)
    assert not tune.tuned(DEVICE, "winograd", "64 64"), "what gained nothing stays as it is"
    made = json.loads(own.read_text())["made"]
    assert made.startswith("clnet tune --budget 60 of clnet ") and made.endswith("taken from mine.json")
    said = capsys.readouterr().out
    assert "2.00" in said and "1 call of 2 with other numbers, kept in" in said and "measured there, not here" in said


@pytest.mark.parametrize(("busy", "said"), [(0.6, "busy with other work (60% of its CPU time)"), (0.1, ""), (None, "")])
def test_a_search_that_was_disturbed_says_so(busy: float | None, said: str, tmp_path: Path,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.json"
    share.write(file, DEVICE, CALLS, "clnet tune", busy)
    assert share.take(file, DEVICE) == 0
    out = capsys.readouterr().out
    assert (said in out) and ("busy" in out) == bool(said)


@pytest.mark.parametrize("changes", [
    {"form": "something else"}, {"calls": None}, {"calls": [1]}, {"device": "a laptop"}, {"day": 3},
    {"calls": [{**CALLS[0], "before_ms": -1}]}, {"calls": [{**CALLS[0], "after_ms": None}]},
    {"calls": [{**CALLS[0], "numbers": {"tile": [99, 1]}}]}, {"calls": [{**CALLS[0], "numbers": {"tiles": [6, 2]}}]},
    {"calls": [{**CALLS[0], "numbers": {"tile": "6, 2) system("}}]}, {"calls": [{**CALLS[0], "op": "sort"}]},
    {"calls": [{**CALLS[0], "shapes": "N" * 999}]}])
def test_a_file_of_something_else_is_refused_whole(changes: dict[str, Any], tmp_path: Path, own: Path) -> None:
    with pytest.raises(DataError, match=r"^tune: expected a file of clnet tune --share in .*; got .*; make one by"):
        share.take(written(tmp_path, **changes), DEVICE)
    assert not own.exists()


@pytest.mark.parametrize("text", [None, "", "[1]", "no JSON", "[" * 100_000])
def test_what_is_no_file_of_numbers_is_refused(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(DataError, match=r"in .*rows.json; got "):
        share.take(file, DEVICE)


def test_numbers_of_another_kind_of_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected numbers for pocl-cpu-8 in .*; got those of intel-cpu-8"):
        share.take(written(tmp_path), played.device("pocl"))


def test_a_minute_searches_one_call_of_each_kind_and_says_what_it_gained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now

    class Fake:
        def __init__(self, module: str, patience: float) -> None: ...

        def ask(self, question: dict[str, Any]) -> dict[str, Any]:
            clock.now += 0.2
            return {"seconds": 0.5 if question["values"].get("per_core") == 4 else 1.0, "error": 1.0}

        def stop(self) -> None: ...

    monkeypatch.setattr(command, "time", clock)
    monkeypatch.setattr(command, "Child", Fake)
    monkeypatch.setattr(command, "space", lambda op, device: {"per_core": (1, 2, 4)})
    engine: Any = SimpleNamespace(device=DEVICE)
    assert command.kernels(engine, "", 60.0, share_file=tmp_path / "new" / "mine.json") == 0
    found = json.loads((tmp_path / "new" / "mine.json").read_text())
    assert [r["call"] for r in found["calls"]][:9] == list(tune_tasks.FIRST)
    assert {r["op"] for r in found["calls"]} == {"matmul", "conv", "winograd"} and clock.now < 61
    assert 1.5 < found["gain"] <= 2 and found["made"] == "clnet tune --budget 60"
    said = capsys.readouterr().out
    assert f"together {found['gain']:.2f} times as fast" in said and "times as fast" in said.split("gained on")[1]
    assert share.take(tmp_path / "new" / "mine.json", DEVICE) == 0


def test_gpus_share_products_alone() -> None:
    assert {op for op, _ in tune_tasks.spread(played.device("h200"))} == {"matmul"}
    assert len(tune_tasks.FIRST) == len({t.label for _, t in tune_tasks.spread(DEVICE)} & set(tune_tasks.FIRST)) == 9


@pytest.mark.parametrize("line", ["tune --placement --share a.json", "tune --share a.json --from b.json",
                                  "tune --op matmul --rules --share a.json"])
def test_files_go_with_a_search_alone(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line.split()) != 0
    assert "--share or --from" in capsys.readouterr().err
