"""In IPython an error of clnet shows the user's line and the sentence; in plain Python nothing changes."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

import clnet
from clnet import tracebacks
from clnet.errors import ConfigError, ShapeError

CELL = """
import numpy as np
import clnet

def mine(model, x):
    return model(x)

model = clnet.Sequential(clnet.layers.Dense(4, 2))
mine(model, np.ones((3, 5), np.float32))
"""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A shell of IPython that is also the one that `get_ipython` finds."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.delenv(tracebacks.DEBUG, raising=False)
    monkeypatch.setenv("CLNET_DEVICE", "numpy")
    made = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    yield made
    InteractiveShell.clear_instance()


def run(shell: Any, cell: str, capsys: Any) -> tuple[str, Any]:
    """(what the cell printed, its error)."""
    result = shell.run_cell(cell)
    return re.sub(r"\x1b\[[0-9;]*m", "", "".join(capsys.readouterr())), result.error_in_exec


def test_the_users_lines_and_the_sentence(shell, capsys):
    text, error = run(shell, CELL, capsys)
    assert isinstance(error, ShapeError)
    assert "mine(model, np.ones((3, 5), np.float32))" in text and "return model(x)" in text
    assert str(error) in " ".join(text.split())
    assert "clnet/" not in text and "interactiveshell.py" not in text
    assert "calls inside clnet left out; CLNET_DEBUG=1 shows all)" in text
    assert len(text.splitlines()) < 30


def test_all_of_it_where_asked_for(shell, capsys, monkeypatch):
    monkeypatch.setenv(tracebacks.DEBUG, "1")
    text, error = run(shell, CELL, capsys)
    assert isinstance(error, ShapeError)
    assert "sequential.py" in text and "inside clnet" not in text


def test_names_that_are_not_there_are_short_too(shell, capsys):
    text, _ = run(shell, "import clnet\nclnet.tensor([1.0]).backward()", capsys)
    assert "clnet.gradients" in text and "clnet/" not in text and "values.py" not in text


def test_a_cause_is_a_line_and_stays_with_the_error(shell, capsys):
    cell = ("from clnet.errors import DataError\ntry:\n    int('x')\n"
            "except ValueError as error:\n    raise DataError('data: expected a number.') from error")
    text, error = run(shell, cell, capsys)
    assert "caused by ValueError: invalid literal for int()" in text
    assert "data: expected a number." in text
    assert isinstance(error.__cause__, ValueError)
    text, error = run(shell, cell.replace(" from error", ""), capsys)
    assert "while this was handled: ValueError" in text and not error.__suppress_context__
    text, _ = run(shell, cell.replace(" from error", " from None"), capsys)
    assert "invalid literal" not in text


def test_other_errors_are_ipythons(shell, capsys):
    text, error = run(shell, "1 / 0", capsys)
    assert isinstance(error, ZeroDivisionError) and "ZeroDivisionError" in text and "clnet" not in text


def test_without_a_shell_it_is_pythons_text_of_the_users_frames():
    with pytest.raises(ConfigError) as caught:
        clnet.Sequential(clnet.layers.Dense("x"))
    text = "\n".join(caught.value._render_traceback_())
    assert 'clnet.Sequential(clnet.layers.Dense("x"))' in text and text.count("  File ") == 1
    assert "config.py" not in text


def test_plain_python_shows_every_frame():
    code = CELL.replace("import clnet\n", "import clnet\nclnet.use('numpy')\n", 1)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "clnet/model/sequential.py" in done.stderr.replace("\\", "/") and "IPython" not in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("clnet.errors.ShapeError: layers.0: Dense")
