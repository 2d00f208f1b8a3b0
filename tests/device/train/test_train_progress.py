"""What a run shows of itself: the bar, the lines that stay, and how long it compiled."""

from __future__ import annotations

import io
import re
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from clnet import init, show
from clnet.engine.device.programs import ProgramCache
from clnet.layers import Dense
from clnet.model import Sequential
from clnet.train import Callback, EarlyStopping, Trainer, examples
from clnet.train.progress import LINES

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)


def trainer() -> Trainer:
    init.seed(0)
    return Trainer(Sequential(Dense(in_features=4, out_features=2)), "cross_entropy", "sgd")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal of 100 columns, until the test ends."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("COLUMNS", "100")
    return found


def test_elsewhere_a_line_an_epoch(engine: Any, capsys: pytest.CaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer().fit(X, Y, 3, 20, validation=(X, Y))
    lines = capsys.readouterr().err.splitlines()
    assert [line[:10] for line in lines] == ["epoch 1/3 ", "epoch 2/3 ", "epoch 3/3 "]
    assert all(name in lines[0] for name in ("loss 0.", "accuracy 0.", "val_loss 0.", "val_accuracy 0."))


def test_in_a_terminal_lines_stay_and_figures_are_whole(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    trainer().fit(X, Y, 2, 20, validation=(X, Y))
    text = screen.getvalue()
    lines = [line.split("\r")[-1] for line in text.split("\n")]
    assert lines[0].startswith("epoch 1/2  loss ")
    apart = re.sub(r"  \(compiled in .*?\)", "", text)  # of an epoch's line, where that took long
    assert all(len(part) <= 100 for part in apart.replace("\n", "\r").split("\r"))
    assert "100% |" in text
    assert lines[1].startswith("epoch 2/2  loss ") and "val_accuracy" in lines[1]


class Stop(Callback):
    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if logs["epoch"] == 2:
            raise KeyboardInterrupt


def test_how_it_ended_is_said(engine: Any, capsys: pytest.CaptureFixture) -> None:
    trainer().fit(X, Y, 9, 20, callbacks=Stop())
    interrupted = "interrupted in epoch 3 of 9, after 6 steps; the model is as of the last whole step"
    assert interrupted in capsys.readouterr().err
    trainer().fit(X, Y, 9, 20, callbacks=EarlyStopping("loss", patience=1, min_delta=9.0))
    assert "stopped after epoch 2 of 9: loss did not improve for 1 epochs" in capsys.readouterr().err


def test_in_a_notebook_the_lines_are_few(engine: Any, monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(show, "in_notebook", lambda: True)
    trainer().fit(X, Y, 300, 50, view="text")
    lines = capsys.readouterr().out.splitlines()
    assert 10 < len(lines) <= LINES + 2
    assert lines[0].startswith("epoch   1/300") and lines[-1].startswith("epoch 300/300")


def test_compiling_is_counted_and_is_no_pace(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that takes long: the bar says what it waits for, and seconds and samples/s are of the steps alone."""
    if not engine.compiles:
        pytest.skip("the host compiles nothing")
    clock = [0.0]
    get, counters = ProgramCache.get, ProgramCache.counters

    def slow(self: ProgramCache, *args: Any, **named: Any) -> Any:
        clock[0] += 1000.0
        return get(self, *args, **named)

    def counted(self: ProgramCache) -> Any:
        found = counters(self)
        found.builds += int(clock[0])
        return found

    real = __import__("time").perf_counter
    monkeypatch.setattr(ProgramCache, "get", slow)
    monkeypatch.setattr(ProgramCache, "prepare", lambda *args: False)  # it tells in its own time
    monkeypatch.setattr(ProgramCache, "counters", counted)
    monkeypatch.setattr("time.perf_counter", lambda: real() + clock[0])
    screen = terminal(monkeypatch)
    history = trainer().fit(X, Y, 2, 7)
    assert clock[0] >= 3000
    assert re.search(r"compiling kernels [1-9]\d*/\d+, once; kept for the next start", screen.getvalue())
    assert history.compiled >= 2000
    assert sum(history["seconds"]) < 1000
    assert history.rate > 1
    assert "compiled in" in repr(history)


def test_the_summary_says_what_the_bar_said(engine: Any) -> None:
    result = examples.train_digits("mlp", epochs=2)
    seconds, rates = result.history["seconds"], result.history["samples/s"]
    assert result.samples_per_second == result.history.rate == pytest.approx(np.dot(seconds, rates) / sum(seconds))
