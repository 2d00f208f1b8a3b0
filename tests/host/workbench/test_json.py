"""`--json` of every command that shows a table: standard output is JSON and nothing else. And what shells complete."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clnet import cli, commands
from clnet.engine import active
from clnet.workbench import terminal
from clnet.workbench.bench import command as bench
from clnet.workbench.bench.row import Row
from clnet.workbench.tune import command as tune

Capture = pytest.CaptureFixture[str]
CALLS = {  # command: (the rest of the call, what each row has)
    "devices": ("", {"key", "name", "global_memory"}),
    "doctor": ("", {"packages", "devices", "chosen", "why", "remedies", "cache"}),
    "train": ("digits --epochs 1 --device numpy", {"epoch", "loss", "val_accuracy"}),
    "status": ("--only MSELoss --device numpy --folder FOLDER", {"name", "device", "parity"}),
    "parity": ("Dense --device numpy", {"where", "within"}),
    "bench": ("--suite ops --quick --device numpy", {"work", "ratio"}),
    "tune": ("--placement --device numpy", {"op", "host_up_to"}),
    "warm": ("", set()),  # tests/host/workbench/test_warm.py: it compiles
    "cache": ("", {"what", "folder", "entries", "bytes", "problem"}),
}


@pytest.fixture(autouse=True)
def _the_device_stays() -> Iterator[None]:
    yield
    active.default = None


def taken() -> list[str]:
    return [c.name for c in commands.COMMANDS if any("--json" in names for names, _ in c.options)]


def test_every_command_with_a_table_takes_json() -> None:
    assert set(taken()) == set(CALLS)


@pytest.mark.parametrize("name", [n for n in CALLS if n != "warm"])
def test_standard_output_is_json_and_nothing_else(name: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch,
                                                  tmp_path: Path) -> None:
    monkeypatch.setenv("CLNET_CACHE_DIR", str(tmp_path / "cache"))  # others write to their own meanwhile
    monkeypatch.setattr(tune.place, "examples", lambda: {"add": None, "exp": None})
    monkeypatch.setattr(tune.place, "measure", lambda engine, calls: iter([("add", 64), ("exp", 0)]))
    monkeypatch.setattr(tune.place, "thresholds", lambda device: {"add": 64, "exp": 0})
    row = Row("ops", "add", "float32", "numpy", "torch", ratio=float("nan"))
    monkeypatch.setattr(bench, "run", lambda *_, **__: [row])
    rest, keys = CALLS[name]
    call = [name, *rest.replace("FOLDER", str(tmp_path)).split()]
    assert cli.main([*call, "--json"]) == 0
    out = capsys.readouterr().out
    rows = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert rows and all(keys <= row.keys() for row in rows)
    file = tmp_path / "rows.json"
    if name in ("devices", "cache"):
        assert cli.main([*call, "--json", str(file)]) == 0
        assert json.loads(file.read_text(encoding="utf-8")) == rows
        assert capsys.readouterr().out, "beside a file people are told, too"


def test_a_file_for_json_is_no_other_argument(capsys: Capture) -> None:
    assert cli.main(["parity", "--json", "Dense"]) == 2
    assert "put --json last, or write --json=- before Dense" in capsys.readouterr().err


def test_output_goes_back_where_it_went(capsys: Capture) -> None:
    with terminal.for_programs():
        print("for people")
        terminal.save_json([{"a": [1.0, float("inf")]}], terminal.STDOUT)
    print("again")
    out, err = capsys.readouterr()
    assert (json.loads(out.removesuffix("again\n")), err) == ([{"a": [1.0, None]}], "for people\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_commands_and_options(shell: str, capsys: Capture, tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(c.name in script for c in commands.COMMANDS) and "batch-size" in script
    if shell == "bash" and (found := shutil.which("bash")):
        file = tmp_path / "clnet"
        file.write_text(script, encoding="utf-8")
        typed = (f'source {file}; COMP_WORDS=(clnet tr); COMP_CWORD=1; _shtab_clnet; echo "${{COMPREPLY[@]}}"; '
                 'COMP_WORDS=(clnet train --ba); COMP_CWORD=2; _shtab_clnet; echo "${COMPREPLY[@]}"')
        done = subprocess.run([found, "-c", typed], capture_output=True, text=True)
        assert done.stdout.split() == ["train", "--batch-size"], done.stderr


def test_completion_says_what_it_takes(capsys: Capture, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 2
    assert "pip install shtab" in capsys.readouterr().err
