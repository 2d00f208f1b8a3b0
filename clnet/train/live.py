"""What `fit` shows of itself in a notebook: curves that grow, numbers, and buttons that act between steps."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .. import show
from ..curves import Drawing, drawing
from ..engine import current
from ..errors import ClnetError, ConfigError
from .callbacks.base import Callback
from .history import NO_CURVE, Curves, cell, charts
from .panel import Panel
from .progress import Progress, number, shown

if TYPE_CHECKING:
    from .trainer import Trainer

PERIOD = 0.5  # [s] between pictures, at least
SHARE = 0.015  # of the time since the start that may go into showing
MOST = 4000  # points of a curve that are kept; beyond, every other one


class Live(Callback):
    """Progress, loss and metrics with their validation, learning rate, samples/s, time left, device memory and launches
    of a step; buttons that pause, stop and save. At the end a picture of the curves takes its place.

    folder   where the save button puts models
    What is shown is made after the losses were read, which a watched run does four times a second and at the end of an
    epoch; there buttons act, too. Making it takes at most 1.5 % of the run, first and last picture aside: pictures get
    rarer where they take long. It has no thread and no timer; outside notebooks `fit` shows text in its place.
    """

    display = True

    def __init__(self, folder: str | Path = ".") -> None:
        self.folder = Path(folder)
        self.panel: Panel | None = None
        self._clear()

    def _clear(self) -> None:
        self.training: Curves = {}
        self.validation: Curves = {}
        self.asked: list[str] = []  # buttons pressed and not acted on
        self.saved: list[Path] = []
        self.seen, self.spent, self.drawn, self.cost = 0, 0.0, -math.inf, 0.0

    # --- events
    def on_train_begin(self, trainer: Trainer) -> None:
        self.close()  # of a run that was not ended
        self._clear()
        loop, mine = trainer.loop, weakref.ref(self)
        self.started, self.epoch = time.perf_counter(), loop.epoch

        def pressed(name: str) -> None:
            if (live := mine()) is not None:
                live.asked.append(name)

        with self._whole():
            self.panel = Panel(float(max(loop.epochs * loop.samples, 1)), pressed)
            self._past(trainer)
            self._numbers(trainer, loop.epoch * loop.samples, {})

    def _past(self, trainer: Trainer) -> None:
        """The epochs before a run that was resumed."""
        for row in trainer.history.rows:
            self._row(row)

    def on_compile(self, trainer: Trainer, done: int, total: int) -> None:
        if self.panel is not None and time.perf_counter() - self.drawn > PERIOD:
            self.drawn = time.perf_counter()
            with self._whole():
                self.panel.show(self.panel.bar.value, [f"compiling kernels: {done} of {total}"])

    def on_logs(self, trainer: Trainer, logs: dict[str, float]) -> None:
        loop = trainer.loop
        rows = loop.books.rows[self.seen :]
        if self.panel is None or not rows:
            return
        since, self.seen = self.seen, len(loop.books.rows)
        place = loop.epoch + logs["samples"] / loop.samples
        self._add(self.training, place, {**loop.books.since(since), "lr": _rate(trainer)})
        self._tick(trainer, loop.epoch * loop.samples + logs["samples"], logs)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if self.panel is None:
            return
        self._row(logs)
        self._tick(trainer, trainer.loop.epoch * trainer.loop.samples, logs)

    def on_train_end(self, trainer: Trainer) -> None:
        if self.panel is None:
            return
        history = trainer.history
        try:
            table = history.table()
            last = f": {shown(history.rows[-1])}" if history.rows else ""
            self.close(self.picture(table.title), table.title + last)
            history.seen = cell()
        finally:
            self.close()
            for path in self.saved:
                print(f"saved {path}")

    def picture(self, title: str = "") -> Drawing:
        """The curves so far."""
        return drawing(charts(self.training, self.validation), title)

    def close(self, picture: Drawing | None = None, text: str = "training") -> None:
        """Ends the widgets; the picture, if any, takes their place."""
        panel, self.panel = self.panel, None
        if panel is not None:
            panel.close(picture, text)

    # --- what is drawn
    def _row(self, row: dict[str, float]) -> None:
        """The end of an epoch: validation, and means of the epoch where nothing of it was seen before."""
        epoch = row["epoch"]
        if not self.seen:
            self._add(self.training, epoch, {n: v for n, v in row.items() if not n.startswith("val_")})
        self._add(self.validation, epoch, {n[4:]: v for n, v in row.items() if n.startswith("val_")})
        self.seen = 0

    @staticmethod
    def _add(curves: Curves, x: float, values: dict[str, float]) -> None:
        for name, y in values.items():
            xs, ys = curves.setdefault(name, ([], []))
            xs.append(x)
            ys.append(y)
            if len(xs) > MOST:
                del xs[1::2], ys[1::2]

    def _numbers(self, trainer: Trainer, done: float, logs: dict[str, float]) -> None:
        loop, panel = trainer.loop, self.panel
        assert panel is not None
        last = trainer.history.rows[-1] if trainer.history.rows else {}
        tested = {name: v for name, v in last.items() if name.startswith("val_")}
        words = [f"epoch {min(loop.epoch + 1, loop.epochs)} of {loop.epochs}", *_measured(logs | tested)]
        if rate := loop.pace.rate():
            left = max(loop.epochs * loop.samples - done, 0) / rate
            words += [f"{rate:,.0f} samples/s", f"{show.duration(left)} left"]
        words += [f"learning rate {_rate(trainer):.3g}", *_device(trainer)]
        if self.saved:
            words.append(f"saved {self.saved[-1].name}")
        panel.show(done, words)

    # --- between steps
    def _tick(self, trainer: Trainer, done: float, logs: dict[str, float]) -> None:
        """Buttons, and a picture if it is time for one."""
        with self._whole():
            assert self.panel is not None
            self.panel.messages.poll()
            if self.asked:
                self._act(trainer, done, logs)
            now = time.perf_counter()
            if now - self.drawn >= PERIOD and self.spent + self.cost <= SHARE * (now - self.started):
                self._draw(trainer, done, logs)
                self.cost = time.perf_counter() - now
                self.spent += self.cost

    def _draw(self, trainer: Trainer, done: float, logs: dict[str, float]) -> None:
        assert self.panel is not None
        self.drawn = time.perf_counter()
        self._numbers(trainer, done, logs)
        self.panel.draw(charts(self.training, self.validation))

    def _act(self, trainer: Trainer, done: float, logs: dict[str, float]) -> None:
        """What the buttons pressed say, in their order. A pause lasts until it is pressed again, or Stop, or Ctrl-C."""
        assert self.panel is not None
        paused, began = False, time.perf_counter()
        while self.asked or paused:
            if not self.asked:
                time.sleep(0.05)
                self.panel.messages.poll()
                continue
            name = self.asked.pop(0)
            if name == "stop":
                trainer.stop("Stop was pressed")
                if trainer.loop.books.rows:  # an epoch is under way
                    raise KeyboardInterrupt
                paused = False
            elif name == "save":
                self._save(trainer)
                self._numbers(trainer, done, logs)
            else:
                paused = not paused
                self._draw(trainer, done, logs)
                self.panel.paused(paused)
        trainer.loop.pace.rest(rested := time.perf_counter() - began)
        self.started += rested

    def _save(self, trainer: Trainer) -> None:
        path = self.folder / f"{type(trainer.model).__name__.lower()}-step{trainer.optimizer.t}.safetensors"
        try:
            trainer.save(path)
            self.saved.append(path)
        except (ClnetError, OSError) as error:
            print(f"not saved: {error}")

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """What fails inside leaves no widget behind: whoever fails is not called any more. Ctrl-C goes on to `fit`,
        which ends this, too.
        """
        try:
            yield
        except Exception:
            self.close()
            raise


def _measured(logs: dict[str, float]) -> list[str]:
    return [f"{name} {number(v)}" for name, v in logs.items() if name not in NO_CURVE]


def _rate(trainer: Trainer) -> float:
    return float(trainer.optimizer.rate(max(trainer.optimizer.t, 1)))


def _device(trainer: Trainer) -> list[str]:
    """Memory of the device that is held, and launches of a step; nothing where NumPy computes."""
    engine = current()
    if engine.device.is_host:
        return []
    words = [f"device memory {show.size(engine.pool.statistics().active)}"]
    if recordings := trainer.steps.train.recordings:
        launches, _ = next(reversed(recordings.values())).numbers()
        words.append(f"{show.plural(launches, 'launch')} a step")
    return words


def view_of(view: object, verbose: object = True) -> Callback | None:
    """What shows a run: "live" widgets in a notebook and text elsewhere, which "auto" means, too; "text"; a callback of
    one's own, as Live(folder="models"); None, nothing. Raises ConfigError.
    """
    if isinstance(view, Callback):
        return view
    if view not in ("auto", "live", "text", None) or isinstance(view, type):
        raise ConfigError(
            f"fit(view={view!r}): expected 'live', 'text', None or a callback, as Live(folder='models'); leave it out "
            "for widgets in a notebook and text elsewhere.")
    if view is None or not verbose:
        return None
    live = view != "text" and show.in_notebook() and importlib.util.find_spec("ipywidgets") is not None
    return Live() if live else Progress()
