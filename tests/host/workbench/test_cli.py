"""The command line: what it prints, what it refuses, and how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from clnet import cli
from clnet.workbench import lab, tables, widgets
from clnet.workbench.evidence import catalog


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = cli.main(argv)
    out, err = capsys.readouterr()
    return status, out, err


def test_a_quick_status_is_a_look_that_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It shows the rows that are asked for, or those that are not green; tables are made of all examples."""
    status, out, err = run(capsys, "status", "--quick", "--only", "MSELoss", "--device", "numpy", "--folder",
                           str(tmp_path / "status"))
    assert status == 0 and "no tables are written" in err and not (tmp_path / "status").exists()
    assert "MSELoss" in out and "1 name: 1 there" in out


def test_devices_lists_the_choice(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "devices")
    assert status == 0
    assert "numpy" in out
    assert "* chosen: " in out
    assert len([line for line in out.splitlines() if " * " in line[:14]]) == 1, "the chosen one is marked"
    assert "NumPy (NumPy" not in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("parity", "NoSuchLayer", "--device", "numpy"),
         "expected digits-cnn, the name of a layer or a .json file; got 'NoSuchLayer'"),
        (("parity", "Dence", "--device", "numpy"), "did you mean 'Dense'?"),
        (("parity", "digits-cn", "--device", "numpy"), "did you mean 'digits-cnn'?"),
        (("parity", "missing.json", "--shape", "2,3", "--device", "numpy"), "missing.json"),
        (("devices-of-yours",), "expected devices, doctor, train"),
        (("trian",), "got 'trian'; did you mean 'train'?"),
        (("--versoin",), "did you mean '--version'?"),
        (("train", "--modl", "cnn"), "got --modl; did you mean '--model'?"),
        (("train", "--model", "cn"), "expected mlp, cnn, lstm or transformer; got 'cn'; did you mean 'cnn'?"),
        (("train", "digit"), "did you mean 'digits'?"),
        (("train", "mnist"), ".fit(x, y)"),
        (("train", "digits", "more"), "more"),
        (("train", "digits", "--epochs", "0"), "expected a whole number, at least 1; got 0"),
        (("train", "digits", "--epochs", "many"), "expected a whole number, at least 1; got many"),
        (("train", "digits", "--lr", "0"), "expected a number above 0; got 0"),
        (("train", "digits", "--seed", "-1"), "expected a whole number, at least 0; got -1"),
        (("train", "--save", "no/such/folder/m.safetensors"), "expected a folder that is there for --save"),
        (("train", "--plot", "curve.xyz"), "ending in .png, .svg, .pdf for --plot; got 'curve.xyz'"),
        (("train", "--device", "numpy", "--trace", "step.json"), "expected an OpenCL device with --trace; got numpy"),
        (("train", "--device", "nunpy"), "did you mean 'numpy'?"),
        (("lab", "--port", "70000"), "expected a whole number, 0 to 65535; got 70000"),
        (("bench", "--suite", "op"), "got 'op'; did you mean 'ops'?"),
        (("bench", "--device", "no-such-device"), "no-such-device"),
        (("schema", "Dence"), "schema: expected the name of a registered class; got 'Dence'; did you mean 'Dense'?"),
        (("status", "--only", "Dence"), "got 'Dence'; did you mean 'Dense'?"),
        (("status", "--check", "--folder", "no-such-folder", "--only", "MSELoss", "--device", "numpy"),
         "run `clnet status` first"),
        (("lab", "--ip", "0.0.0.0"), "expected an address of this machine"),
        (("lab", "--ip", "example.org"), "expected an address of this machine"),
        (("parity", "x.json", "--shape", "3,x"), "expected positive sizes"),
    ],
)
def test_errors_are_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], words: str
) -> None:
    monkeypatch.delenv(cli.DEBUG, raising=False)
    status, _, err = run(capsys, *argv)
    assert status == 2
    assert words in err
    assert "Traceback" not in err
    assert "?." not in err
    assert err.strip().splitlines()[-1].startswith("clnet")


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cli.DEBUG, "1")
    with pytest.raises(Exception, match="expected an address of this machine"):
        cli.main(["lab", "--ip", "0.0.0.0"])


def test_lab_listens_here_only_with_a_token_of_its_own(monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(lab, "notebooks", lambda: tmp_path)
    monkeypatch.setattr(lab.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(lab, "_serve", lambda command, env: started.append((command, env)) or 0)
    assert [lab.main("127.0.0.1") for _ in range(2)] == [0, 0]
    tokens = [env["JUPYTER_TOKEN"] for _, env in started]
    assert tokens[0] != tokens[1]
    assert min(map(len, tokens)) >= 32
    for command, _ in started:
        assert "--ip=127.0.0.1" in command
        assert not any(token in part for token in tokens for part in command)
        assert "--Application.log_level=ERROR" in command
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].startswith("JupyterLab: http://127.0.0.1:")
    assert not any("log_level" in part for part in lab.arguments("127.0.0.1", 1, tmp_path, verbose=True))
    assert all(f"token={token}" in shown for token in tokens)


def test_catalogue_has_every_name() -> None:
    layers = catalog.goals("layer")
    assert (len(layers), len({g.name for g in layers})) == (119, 118)
    assert len(catalog.goals("loss")) == 38
    assert len(catalog.goals("optimizer")) == 32
    every = {g.name for g in catalog.goals("loss")}
    assert {g.name for g in catalog.missing("loss", {"MSELoss"})} == every - {"MSELoss"}


NASTY = "<img src=x onerror=alert(1)> | `a` $x$ [b](javascript:c) *d*\n# e"


def test_names_are_escaped_everywhere() -> None:
    text = tables.markdown([{"name": NASTY}])
    assert "<img" not in text
    assert len(text.splitlines()) == 3
    assert "\\|" in text
    assert "\\[b\\]" in text
    assert "<b" not in widgets.escape("<b>")
