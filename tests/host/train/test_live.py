"""The live view of a training without a browser: what it draws, what it costs, what its buttons do, what it leaves."""

from __future__ import annotations

import re
import time
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet import curves, engine, init, show
from clnet.errors import ConfigError
from clnet.layers import Dense
from clnet.model import Sequential
from clnet.train import Callback, Live, Trainer
from clnet.train.live import PERIOD, SHARE
from clnet.train.progress import Progress

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)


class Place:
    """What stands in a notebook for `display(…, display_id=True)`."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def update(self, kinds: dict[str, str], raw: bool) -> None:
        self.shown.append(kinds)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A notebook, as far as the view sees; afterwards no widget may be there."""
    from ipywidgets.widgets import widget

    found = Place()
    monkeypatch.setattr(show, "in_notebook", lambda: True)
    monkeypatch.setattr("clnet.train.loop.SHOW_EVERY", 1e9)  # only the ends of epochs are seen, however slow they are
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: found)
    before = set(widget._instances)
    with engine.on("numpy"):
        yield found
    assert set(widget._instances) == before, "widgets were left"


def trainer() -> Trainer:
    init.seed(0)
    return Trainer(Sequential(Dense(in_features=4, out_features=2)), "cross_entropy", "sgd")


class Pressing(Live):
    """Presses buttons after so many looks."""

    def __init__(self, presses: dict[int, str], **fields: Any) -> None:
        super().__init__(**fields)
        self.presses, self.looks = presses, 0

    def _tick(self, *arguments: Any) -> None:
        self.looks += 1
        self.asked += filter(None, [self.presses.get(self.looks)])
        super()._tick(*arguments)


def test_a_picture_of_the_curves_takes_the_place_of_the_widgets(place: Place) -> None:
    history = trainer().fit(X, Y, 5, 20, validation=(X, Y))
    (kinds,) = place.shown
    assert kinds["text/plain"].startswith("History of 5 epochs, 15 steps")
    root = ET.fromstring(kinds["image/svg+xml"])
    words = [e.text for e in root.iter() if e.tag.endswith("}text")]
    assert all(word in words for word in ("loss", "accuracy", "epoch", "training", "validation"))
    assert "learning rate" not in words, "it is the same throughout"
    lines = [e.get("d", "") for e in root.iter() if e.get("stroke") in (curves.BLUE, curves.ORANGE)]
    assert len([d for d in lines if d.count(",") == 5]) == 4, "a point an epoch in each of four lines"
    assert len(history) == 5


def test_buttons_act_between_steps(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    live, slept = Pressing({2: "save", 3: "pause"}, folder=tmp_path), []

    class Clock:
        """Presses the next buttons while the view waits."""

        def sleep(self, seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                live.asked += ["pause", "stop"]

        perf_counter = staticmethod(time.perf_counter)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("clnet.train.live.time", Clock())
        t = trainer()
        history = t.fit(X, Y, 50, 20, view=live)
    assert len(slept) == 3, "it waited until Pause was pressed again"
    assert (len(history), history.stopped, history.interrupted) == (3, "Stop was pressed", False)
    assert "(Stop was pressed)" in place.shown[0]["text/plain"]
    assert [p.name for p in tmp_path.iterdir()] == ["sequential-step6.safetensors"]
    assert "sequential-step6.safetensors" in capsys.readouterr().out
    assert t.loop.callbacks.all[0].panel is None


def test_stop_within_an_epoch(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clnet.train.loop.SHOW_EVERY", 0.0)
    history = trainer().fit(X, Y, 9, 10, view=Pressing({2: "stop"}))
    assert history.interrupted and history.stopped == "Stop was pressed"
    assert (len(history), len(history.steps)) == (0, 2)
    assert place.shown[0]["text/plain"] == "History of 0 epochs, 2 steps (Stop was pressed)"


def test_what_fails_is_switched_off_and_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> str:
        raise ValueError("no ink")

    monkeypatch.setattr("clnet.train.live.Panel.draw", broken)
    with pytest.warns(RuntimeWarning, match="Live.on_epoch_end failed and is switched off: ValueError: no ink"):
        assert len(trainer().fit(X, Y, 3, 20)) == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_run_that_ends_early_leaves_its_picture(place: Place, error: type[BaseException]) -> None:
    class Ends(Callback):
        def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            if logs["epoch"] == 2:
                raise error

    try:
        assert trainer().fit(X, Y, 9, 20, callbacks=Ends()).interrupted
    except ValueError:
        assert error is ValueError
    assert "<svg" in place.shown[0]["image/svg+xml"]


def test_pictures_get_rarer_where_they_take_long(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock of its own: drawing takes 100 ms, an epoch 200 ms."""
    now, drawn = [0.0], [0.0]

    class Clock:
        sleep = staticmethod(time.sleep)

        @staticmethod
        def perf_counter() -> float:
            return now[0]

    class Epochs(Callback):
        def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
            now[0] += 0.2

    def slow(*_: Any) -> None:
        now[0] += 0.1
        drawn.append(now[0])

    monkeypatch.setattr("clnet.train.live.time", Clock)
    monkeypatch.setattr("clnet.train.live.Panel.draw", slow)
    trainer().fit(X, Y, 200, 60, callbacks=Epochs())
    assert len(drawn) > 4 and 0.1 * (len(drawn) - 2) <= SHARE * now[0] + 0.1
    assert min(np.diff(drawn[1:])) > PERIOD


def test_which_view(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from clnet.train.live import view_of

    assert [type(view_of(v)) for v in ("auto", "live", "text", None)] == [Live, Live, Progress, type(None)]
    assert view_of("live", verbose=False) is None
    monkeypatch.setattr(show, "in_notebook", lambda: False)
    assert [type(view_of(v)) for v in ("auto", "live")] == [Progress, Progress]
    for wrong in ("lively", 3, Live):
        with pytest.raises(ConfigError, match=r"fit\(view=.*expected 'live', 'text', None or a callback"):
            trainer().fit(X, Y, view=wrong)


# --- charts
def test_axes_have_round_numbers_that_differ() -> None:
    for values in ([0.0, 1.0], [0.12, 0.13], [1e-5, 3e-5], [5.0], [0.0], [-3.0, 250.0], [1e6, 1.00001e6], [1e-4, 1e3]):
        for log in {False, min(values) > 0 and max(values) / min(values) > curves.DECADES}:
            words = [w for _, w in curves.Axis(values, 100, 0, log).ticks()]
            assert 1 <= len(words) <= 9 and len(set(words)) == len(words), (values, words)


def test_epochs_are_counted_in_whole_numbers_and_a_long_title_widens_its_chart() -> None:
    assert [w for _, w in curves.Axis([1, 3], 0, 100).ticks(whole=True)] == ["1", "2", "3"]
    assert next(w for _, w in curves.Axis([0.1, 0.3], 0, 100).ticks(whole=True)) == "0.10", "the first epoch goes on"
    chart = curves.Chart("loss", [curves.Line("training", [1, 2], [3.0, 2.0])])
    wide = len("a title " * 8) * 8 + 20
    assert f"H{wide - curves.RIGHT}" in curves.drawing([chart], "a title " * 8)


def test_what_is_not_finite_is_a_gap_and_many_points_are_few() -> None:
    gaps = curves.Line("a", [1, 2, 3, 4], [1.0, float("nan"), 2.0, float("inf")])
    many = curves.Line("b", range(100_000), [k % 7 for k in range(100_000)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = curves.drawing([curves.Chart("<loss>", [gaps, many]), curves.Chart("none", [])], "<b>")
    ET.fromstring(text)
    assert "nan" not in text and "inf" not in text and "&lt;b&gt;" in text and len(text) < 20_000
    assert len(re.findall(r"M\d+\.\d,\d+\.\d", text.split("<circle")[0])) >= 2
