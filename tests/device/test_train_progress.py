"""What a run shows of itself: the bar, the lines that stay, and the table and curves of its history."""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from clnet import init, show
from clnet.engine.program import ProgramCache
from clnet.layers import Dense
from clnet.model import Sequential
from clnet.train import Callback, EarlyStopping, History, Trainer, examples
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


def test_elsewhere_a_line_an_epoch(device: Any, capsys: pytest.CaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer().fit(X, Y, 3, 20, validation=(X, Y))
    lines = capsys.readouterr().err.splitlines()
    assert [line[:10] for line in lines] == ["epoch 1/3 ", "epoch 2/3 ", "epoch 3/3 "]
    assert all(name in lines[0] for name in ("loss 0.", "accuracy 0.", "val_loss 0.", "val_accuracy 0."))


def test_in_a_terminal_lines_stay_and_figures_are_whole(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    trainer().fit(X, Y, 2, 20, validation=(X, Y))
    text = screen.getvalue()
    lines = [line.split("\r")[-1] for line in text.split("\n")]
    assert lines[0].startswith("epoch 1/2  loss ")
    assert all(len(part) <= 100 for part in text.replace("\n", "\r").split("\r"))
    assert "100% |" in text
    assert lines[1].startswith("epoch 2/2  loss ") and "val_accuracy" in lines[1]


class Stop(Callback):
    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if logs["epoch"] == 2:
            raise KeyboardInterrupt


def test_how_it_ended_is_said(device: Any, capsys: pytest.CaptureFixture) -> None:
    trainer().fit(X, Y, 9, 20, callbacks=Stop())
    assert "interrupted in epoch 3 of 9, after 6 steps; the model is as of the last whole step" in capsys.readouterr().err
    trainer().fit(X, Y, 9, 20, callbacks=EarlyStopping("loss", patience=1, min_delta=9.0))
    assert "stopped after epoch 2 of 9: loss did not improve for 1 epochs" in capsys.readouterr().err


def test_in_a_notebook_the_lines_are_few(device: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(show, "in_notebook", lambda: True)
    trainer().fit(X, Y, 300, 50)
    lines = capsys.readouterr().out.splitlines()
    assert 10 < len(lines) <= LINES + 2
    assert lines[0].startswith("epoch   1/300") and lines[-1].startswith("epoch 300/300")


def test_compiling_is_counted_and_is_no_pace(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that takes long: the bar says what it waits for, and seconds and samples/s are of the steps alone."""
    if not hasattr(device, "programs"):
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
    monkeypatch.setattr(ProgramCache, "counters", counted)
    monkeypatch.setattr("time.perf_counter", lambda: real() + clock[0])
    screen = terminal(monkeypatch)
    history = trainer().fit(X, Y, 2, 7)
    assert clock[0] >= 3000
    assert "compiling kernels 1/" in screen.getvalue() and "once; kept for the next start" in screen.getvalue()
    assert history.compiled >= 2000
    assert sum(history["seconds"]) < 1000
    assert history.rate > 1
    assert "compiled in" in repr(history)


def test_the_summary_says_what_the_bar_said(device: Any) -> None:
    result = examples.train_digits("mlp", epochs=2)
    assert result.samples_per_second == result.history.rate == pytest.approx(
        sum(np.multiply(result.history["seconds"], result.history["samples/s"])) / sum(result.history["seconds"]))


# --- histories
def history(*losses: float, **more: list[float]) -> History:
    found = History()
    found.steps = list(losses)
    found.rows = [{"epoch": k + 1, "loss": v, **{n: c[k] for n, c in more.items()}, "lr": 0.01, "seconds": 0.0123, "samples/s": 12345.678}
                  for k, v in enumerate(losses)]
    return found


def test_the_table_has_equal_decimals_and_marks_the_best() -> None:
    found = history(0.55, 0.25, 0.125, val_loss=[0.9, 0.30001, 0.83])
    lines = repr(found).splitlines()
    assert lines[0] == "History of 3 epochs, 3 steps"
    assert [line[0] for line in lines[3:6]] == [" ", "*", " "]
    assert "12,346" in lines[3]
    places = {line.index(".") for line in lines[3:6]}
    assert len(places) == 1
    assert lines[-1] == "* best val_loss"
    assert found.best == 2
    assert "<table" in found._repr_html_() and "12,346" in found._repr_html_()


def test_long_histories_are_short() -> None:
    found = history(*(1 / (k + 1) for k in range(300)))
    assert len(repr(found).splitlines()) < 35
    assert found._repr_html_().count("<tr") < 35
    assert "more rows" in repr(found)
    assert len(found.frame) == 300


def test_nan_and_no_epochs_are_said() -> None:
    found = history(0.5, 0.4, val_loss=[float("nan")] * 2)
    assert "val_loss is NaN in 2 epochs" in repr(found)
    assert found.best is None
    assert repr(History()).splitlines()[0] == "History of 0 epochs, 0 steps"


def test_curves() -> None:
    import matplotlib.pyplot as plt

    for count in (1, 5, 300):
        figure = history(*(1 / (k + 1) for k in range(count)), val_loss=[float("nan")] * count).plot()
        figure.canvas.draw()
        axis = figure.axes[0]
        assert all(float(t).is_integer() for t in axis.get_xticks())
        assert axis.lines[0].get_marker() == ("" if count == 300 else ".")
        assert f"validation (NaN in {count} of {count})" in [t.get_text() for t in axis.get_legend().get_texts()]
        assert figure.get_suptitle().startswith(f"History of {show.plural(count, 'epoch', 'epochs')}")
        plt.close(figure)
    figure = history(0.5, 0.1, 0.3).plot()
    assert "best epoch 2" in [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
    plt.close(figure)
