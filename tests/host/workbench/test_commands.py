"""The rows of commands, what they print where there is no terminal and in one of any width, and how they end."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clnet
from clnet import cli, commands
from clnet.engine import active
from clnet.engine.device.pocl import Mend
from clnet.errors import ConfigError
from clnet.train import examples
from clnet.workbench import doctor, lab, terminal, train_command
from clnet.workbench.bench import command as bench
from clnet.workbench.bench import suites
from clnet.workbench.bench.row import Row as BenchRow
from clnet.workbench.status import run as status
from clnet.workbench.status import tables as status_tables
from clnet.workbench.status.row import ASPECTS, TO_COME, from_dicts
from clnet.workbench.tune import command as tune

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _the_device_stays() -> Iterator[None]:
    """Commands choose a device for the process; the tests after these have their own."""
    yield
    active.default = None


# --- the rows
def test_readmes_table_is_the_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert commands.readme() in readme, f"README's table of commands should be:\n{commands.readme()}"


@pytest.mark.parametrize("command", commands.COMMANDS, ids=lambda c: c.name)
def test_every_example_is_a_call_and_every_command_has_help(command: commands.Command, capsys: Capture) -> None:
    args = cli.parser().parse_args(command.example.split()[1:])
    assert args.run is command.run
    assert cli.main([command.name, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert command.example in shown
    assert all(name in shown for names, how in command.options for name in names if name.startswith("--")
               and how.get("help") != "==SUPPRESS==")


def test_choices_are_those_of_what_they_choose() -> None:
    assert tuple(examples.MODELS) == commands.MODELS
    assert set(suites.ALL) < set(suites.names())
    assert all(callable(suites.find(name).works) for name in suites.names())


def test_the_bare_command_is_the_help(capsys: Capture) -> None:
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f" {c.name} " in shown for c in commands.COMMANDS)
    assert "130  interrupted" in shown
    assert "\x1b" not in shown


def test_version(capsys: Capture) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"clnet {clnet.__version__}"


def test_cache_says_where_and_how_much(capsys: Capture, monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLNET_CACHE_DIR", str(tmp_path))
    (tmp_path / "programs").mkdir(mode=0o700)
    (tmp_path / "plans").mkdir(mode=0o700)
    (tmp_path / "programs" / "one.clp").write_bytes(bytes(3 << 20))
    (tmp_path / "plans" / "one.clp").write_bytes(bytes(10))
    assert cli.main(["cache"]) == 0
    out = capsys.readouterr().out
    assert f"{tmp_path / 'programs'}: 1 compiled program, 3.0 MiB" in out and f"{tmp_path / 'plans'}: 1 plan" in out
    assert cli.main(["cache", "clear"]) == 0
    out = capsys.readouterr().out
    assert "1 compiled program deleted" in out and "1 plan deleted" in out
    assert not list(tmp_path.glob("*/*.clp"))


def test_devices_as_json(capsys: Capture) -> None:
    assert cli.main(["devices", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["key"] == "numpy"


def test_devices_are_listed_also_where_the_variable_names_none(capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setenv("CLNET_DEVICE", "abacus")
    assert cli.main(["devices"]) == 2
    out, err = capsys.readouterr()
    assert "numpy" in out and " *" not in out
    assert "CLNET_DEVICE: expected one of" in err


def test_schema_of_a_class_holds_what_it_needs(capsys: Capture) -> None:
    assert cli.main(["schema", "Dense"]) == 0
    assert list(json.loads(capsys.readouterr().out)["$defs"]) == ["Dense"]
    assert cli.main(["schema", "Sequential"]) == 0
    assert {"Sequential", "Layer", "Dense"} <= set(json.loads(capsys.readouterr().out)["$defs"])


# --- how commands end
@pytest.mark.skipif(not hasattr(os, "fork"), reason="pipes that say they are closed")
def test_a_pipe_closed_early_ends_the_command_silently() -> None:
    process = subprocess.Popen([sys.executable, "-m", "clnet", "schema"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == cli.PIPE_CLOSED


def test_an_interrupted_command_says_so_and_what_became_of_its_files(capsys: Capture, monkeypatch: Patch,
                                                                     tmp_path: Path) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "run", stopped)
    assert cli.main(["status", "--only", "MSELoss", "--device", "numpy", "--folder", str(tmp_path / "tables")]) == 130
    err = capsys.readouterr().err
    assert f"writes to {tmp_path / 'tables'}" in err
    assert "clnet: interrupted; nothing was written" in err
    assert not (tmp_path / "tables").exists()


class Stop(train_command.Saving):
    """Ctrl-C at the end of the first epoch."""

    def on_epoch_end(self, trainer: Any, logs: dict[str, float]) -> None:
        raise KeyboardInterrupt


def test_interrupted_training_keeps_the_model_and_ends_with_130(capsys: Capture, monkeypatch: Patch,
                                                                tmp_path: Path) -> None:
    monkeypatch.setattr(train_command, "Saving", Stop)
    save, plot = tmp_path / "m.safetensors", tmp_path / "m.png"
    assert cli.main(["train", "--device", "numpy", "--epochs", "9", "--save", str(save), "--plot", str(plot)]) == 130
    out, err = capsys.readouterr()
    assert "interrupted: mlp on numpy" in out and "test accuracy 0." in out
    assert "after 1 epoch, 23 steps" in out
    assert f"saved: {save}" in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "clnet: interrupted" in err
    assert clnet.load(save)(clnet.data.load("digits").x[:3]).shape == (3, 10)


def test_training_interrupted_before_the_first_step_claims_nothing(capsys: Capture, monkeypatch: Patch,
                                                                   tmp_path: Path) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("clnet.train.loop.Loop.step", stopped)
    save = tmp_path / "m.safetensors"
    assert cli.main(["train", "--device", "numpy", "--save", str(save), "--plot", str(tmp_path / "m.svg")]) == 130
    out = capsys.readouterr().out
    assert "no step was finished" in out and "accuracy" not in out
    assert "saved: nothing" in out and "plot: nothing" in out
    assert not list(tmp_path.iterdir())


def test_trainings_options_reach_it(capsys: Capture, monkeypatch: Patch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(train_command, "train_digits", lambda model, **given: asked.append({"model": model, **given})
                        or _result())
    options = {"--device": "numpy", "--model": "cnn", "--epochs": "3", "--lr": "0.01", "--batch-size": "32",
               "--seed": "7", "--precision": "bf16"}
    assert cli.main(["train", *(part for pair in options.items() for part in pair)]) == 0
    assert {k: v for k, v in asked[0].items() if k not in ("callbacks", "verbose")} == {
        "model": "cnn", "epochs": 3, "lr": 0.01, "batch_size": 32, "seed": 7, "precision": "bf16"}
    said = "test accuracy 0.9000, test loss 0.5000 after 0 epochs; 2.00 s in all, 5000 samples/s in the steps"
    assert said in capsys.readouterr().out
    assert cli.main(["train", "--device", "numpy"]) == 0
    assert not {"epochs", "lr", "batch_size", "precision"} & asked[1].keys()


def _result() -> examples.Result:
    history = clnet.train.history.History()
    history.steps = [1.0]
    return examples.Result("cnn", "numpy", 0.9, 0.5, 0.98, 2.0, 5000.0, 10, history, None)


def test_lr_and_batch_size_shape_the_training() -> None:
    found = [examples.train_digits("mlp", epochs=1, device="numpy", **how)
             for how in ({}, {"lr": 1e-6}, {"batch_size": 512})]
    assert [len(r.history.steps) for r in found] == [23, 23, 3]
    assert found[1].accuracy < 0.5 < found[0].accuracy


# --- tables in terminals
ROWS = [{"name": f"matmul {n}x{n}", "ours [ms]": f"{n / 7:.3f}", "suite": "ops", "peer": "numpy", "ratio": "1.02",
         "tuning": f"shipped intel-cpu-8 {n}", "note": "busy " * 30 if n == 64 else ""} for n in (64, 128, 1152)]


def drawn(rows: Any, width: int | None = None, **how: Any) -> str:
    file = io.StringIO()
    terminal.table(rows, to=terminal.console(file, width), **how)
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_tables_fit_and_say_what_they_leave_out(width: int) -> None:
    text = drawn(ROWS, width, less=("tuning", "suite"), notes="note", by="name", whole="--json FILE")
    assert all(len(line) <= width for line in text.splitlines())
    assert "all: suite ops" in text
    assert text.count("busy") == 30
    assert ("left out" in text) == (width < 80)
    whole = re.search(r"^matmul 1152x1152 +164.571 +numpy +1.02", text, re.MULTILINE)
    assert whole or width < 50, "what is short is never folded"
    assert "\\[" not in text


def test_pipes_get_whole_lines() -> None:
    text = drawn(ROWS, less=("tuning",), notes="note", by="name")
    assert len(text.splitlines()) == len(ROWS) + 2
    assert "\x1b" not in text and all(line == line.rstrip() for line in text.splitlines())
    assert not set(text) & set("│─┃━┌┐|")
    assert drawn([], title="works") == "works: none\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("variables", "colours"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_are_for_terminals_that_want_them(monkeypatch: Patch, variables: dict[str, str], colours: bool) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    file = Terminal()
    terminal.table([{"name": "Dense", "forward": "no"}], to=terminal.console(file, 80))
    assert ("\x1b[" in file.getvalue()) == colours
    assert "Dense" in file.getvalue()


def test_bars_are_silent_where_there_is_no_terminal(capsys: Capture) -> None:
    assert list(terminal.bar([1, 2], desc="x")) == [1, 2]
    assert capsys.readouterr().err == ""


# --- what the commands show
ROW = {"kind": "layer", "name": "Dense", "spec_name": "DenseLayer", "family": "dense", "device": "numpy",
       **dict.fromkeys(ASPECTS, "yes"), "kernels": 6, "time_ms": 0.5, "note": "", "driver": "2", "date": "2026-01-01"}
ROWS_OF_STATUS = [ROW, {**ROW, "spec_name": "FullyConnectedLayer"},
                  {**ROW, "name": "Later", "spec_name": "", "note": TO_COME}]


def test_status_shows_the_row_asked_for(capsys: Capture, monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setattr(status, "run", lambda *args, **more: from_dicts(ROWS_OF_STATUS))
    assert cli.main(["status", "--only", "Dense", "--folder", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = " ".join(status_tables.TITLES.get(a, a) for a in ASPECTS)
    assert " ".join(lines[0].split()) == f"name kind device {heads} kernels ms specification"
    assert lines[1].split() == ["Dense", "layer", "numpy", *["yes"] * len(ASPECTS), "6", "0.500", "DenseLayer,",
                                "FullyConnectedLayer"]
    assert lines[2] == f"{TO_COME}: Later"
    assert lines[-1].startswith("3 names: 2 there, 2 of them green")


def test_status_changed_shows_before_and_now_and_writes_nothing(capsys: Capture, monkeypatch: Patch,
                                                                tmp_path: Path) -> None:
    status_tables.write(from_dicts(ROWS_OF_STATUS), tmp_path, "clnet status")
    before = (tmp_path / "status.json").read_text()
    worse = [{**r, "parity": "no", "note": "parity: off"} if r["name"] == "Dense" else r for r in ROWS_OF_STATUS]
    monkeypatch.setattr(status, "run", lambda *args, **more: from_dicts([*worse, {**ROW, "name": "New"}]))
    assert cli.main(["status", "--changed", "--folder", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert f"compares with the tables in {tmp_path}" in err
    assert "1 cell changed against the tables, 1 row not in them" in out
    assert [line.split() for line in out.splitlines() if line.startswith("Dense ")] == [
        ["Dense", "layer", "numpy", "parity", "yes", "NO"]]
    assert "Dense: parity: off" in out
    assert (tmp_path / "status.json").read_text() == before


def test_parity_in_a_terminal_is_no_markdown(capsys: Capture, tmp_path: Path) -> None:
    assert cli.main(["parity", "Dense", "--device", "numpy", "--report", str(tmp_path / "p.md"), "--json",
                     str(tmp_path / "p.json")]) == 0
    out = capsys.readouterr().out
    assert " within" in out.splitlines()[0]
    assert "| forward" not in out and "\\" not in out
    assert out.splitlines()[-1] == "Dense on NumPy, the host: 5 values compared, no divergence"
    assert (tmp_path / "p.md").read_text().count("\n| ") >= 4
    assert json.loads((tmp_path / "p.json").read_text())[0]["within"] == "yes"


def test_bench_in_a_terminal_has_no_escapes(capsys: Capture) -> None:
    bench.show([BenchRow("ops", f"matmul {n}", "float32", "numpy", "torch", 1.0, 2.0, 2.0, 1.9, 2.1,
                         note="1 of 3 rounds", busy=0.5) for n in (64, 128)])
    out = capsys.readouterr().out
    assert "ours [ms]" in out and "\\" not in out and "| matmul" not in out
    assert "matmul 64: 1 of 3 rounds; others took 50% of the CPU time" in out
    assert out.splitlines()[-1].startswith("The machine was busy with other work in 2 rows of 2")


@pytest.mark.parametrize(("mend", "words"), [
    (Mend("znver3", "haswell", "why"),
     "compiles for 'haswell' here, not for 'znver3' as it would by itself (why). Its kernels are right and fast"),
    (Mend("generic", "generic", "why"), "slow here or cannot run (why); see below"),
    (Mend(reason="no PoCL from pip here"), "nothing to do"),
])
def test_doctor_says_what_follows_for_pocl(mend: Mend, words: str) -> None:
    assert words in doctor._pocl(mend)


# --- tune
class Clock:
    """A time that only trials take."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Fake:
    """A child whose trials take a fifth of a second each; a=1 is twice as fast."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.asked = clock, 0

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        self.clock.now += 0.2
        return {"seconds": 0.5 if question["values"].get("a") == 1 else 1.0, "error": 1.0}

    def stop(self) -> None: ...


@pytest.mark.parametrize("budget", [1.0, 15.0, 1000.0])
def test_tune_keeps_to_its_budget_and_says_what_it_gained(
    capsys: Capture, monkeypatch: Patch, tmp_path: Path, budget: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(tune, "time", clock)
    monkeypatch.setattr(tune, "Child", lambda *_: Fake(clock))
    monkeypatch.setattr(tune, "space", lambda op, device: {"a": range(5)})
    host = type("E", (), {"device": clnet.devices()[-1]})
    assert tune.kernels(host, "matmul", budget, "", tmp_path) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert clock.now <= budget + 0.4, "two trials of a task, or the pair that confirms, were begun in time"
    assert ("until the time was up" in said) == (budget < 1000)
    assert ("2.00 to 2.00 times as fast, kept in" in said) == (budget > 1)
    assert ("nothing was gained" in said) == (budget == 1)
    with pytest.raises(ConfigError, match="did you mean 'NN 64x64x64'"):
        tune.kernels(host, "matmul", 1.0, "NN 64x64x6y")


def test_lab_ends_with_ctrl_c(monkeypatch: Patch) -> None:
    ended: list[str] = []

    class Server:
        def __init__(self, *_: Any, **how: Any) -> None:
            assert how["start_new_session"]

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_: Any) -> None: ...

        def wait(self, seconds: float | None = None) -> int:
            if seconds is None:
                raise KeyboardInterrupt
            return 0

        def terminate(self) -> None:
            ended.append("terminated")

    monkeypatch.setattr(lab.subprocess, "Popen", Server)
    monkeypatch.setattr(lab.signal, "signal", lambda *_: None)
    assert lab._serve(["jupyter"], {}) == 0
    assert ended == ["terminated"]


def test_folded_lines_keep_their_indent() -> None:
    file = io.StringIO()
    terminal.say("runtimes:\n    one: " + "word " * 10, to=terminal.console(file, 40))
    first, *rest = file.getvalue().splitlines()
    assert first == "runtimes:"
    assert len(rest) == 2 and all(len(line) <= 40 and re.match(r" {4}\S", line) for line in rest)
