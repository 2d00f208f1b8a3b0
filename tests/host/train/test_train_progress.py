"""The table and the curves of a history."""

from __future__ import annotations

import pytest

from clnet import show
from clnet.train import History


def history(*losses: float, **more: list[float]) -> History:
    found = History()
    found.steps = list(losses)
    found.rows = [{"epoch": k + 1, "loss": v, **{n: c[k] for n, c in more.items()}, "lr": 0.01, "seconds": 0.0123,
                   "samples/s": 12345.678} for k, v in enumerate(losses)]
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


def test_a_notebook_shows_curves_above_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr(show, "in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda kinds, raw: shown.append(kinds))
    found = history(0.5, 0.3, 0.2, val_loss=[0.6, 0.5, 0.4])
    found._ipython_display_()
    picture, table = shown
    assert all(f">{word}<" in picture["image/svg+xml"] for word in ("loss", "training", "validation", "epoch"))
    assert "<table" in table["text/html"] and table["text/plain"] == repr(found)
    history(0.5)._ipython_display_()  # one point is no curve
    assert len(shown) == 3 and "text/html" in shown[2]


def test_elsewhere_it_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    found = history(0.5, 0.3)
    found._ipython_display_()
    assert capsys.readouterr().out == f"{found!r}\n"


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
