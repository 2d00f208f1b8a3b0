"""What `fit` shows of itself: one bar for the run, and a line an epoch that stays."""

from __future__ import annotations

import math
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from .. import show
from ..engine import current
from .callbacks.base import Callback

if TYPE_CHECKING:
    from .trainer import Trainer

APART = ("epoch", "samples", "seconds", "samples/s", "lr", "iterations", "evaluations")
LINES = 20  # epochs that have a line in a notebook, where every line is kept
PATIENCE = 0.25  # [s] of building kernels before a word is said about it


class Progress(Callback):
    """In a terminal a bar and a line for each epoch; in a notebook a bar and at most about LINES lines;
    elsewhere (pipes, logs) the lines alone.

    While kernels are compiled the bar counts them; its samples/s and its estimate are of steps alone.
    """

    display = True
    bar: Any = None
    compiling = told = 0.0  # the copies of a training's first state are compiled before it begins

    def on_train_begin(self, trainer: Trainer) -> None:
        loop = trainer.loop
        self.notebook, self.compiling, self.told = show.in_notebook(), 0.0, 0.0
        self.every = -(-loop.epochs // LINES) if self.notebook else 1
        if self.bar is None:
            self._open(trainer)

    def _open(self, trainer: Trainer) -> None:
        self.notebook = show.in_notebook()
        if not self.notebook and not sys.stderr.isatty():
            return
        from tqdm import TqdmWarning
        from tqdm.auto import tqdm

        loop = trainer.loop
        form = "{percentage:3.0f}% |{bar}| {desc}" if self.notebook else "{percentage:3.0f}% |{bar:10}| {desc}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TqdmWarning)  # without ipywidgets the text bar serves
            self.bar = tqdm(total=loop.epochs * loop.samples, initial=loop.epoch * loop.samples, bar_format=form,
                            leave=self.notebook, mininterval=0.1, dynamic_ncols=True,
                            desc=f"epoch {loop.epoch + 1}/{loop.epochs}")

    def on_compile(self, trainer: Trainer, done: int, total: int) -> None:
        """Kernels of a step that are there, of how many."""
        now, builds = time.perf_counter(), current().programs.counters().builds
        if not self.compiling:
            self.compiling, self.builds = now, builds
        if self.bar is None:
            self._open(trainer)
        if self.bar is not None and now - self.compiling > PATIENCE:
            new = builds > self.builds
            count = f"kernels {done}/{total}"
            self.bar.set_description_str(f"compiling {count}, once; kept for the next start" if new
                                         else f"loading {count}")

    def on_logs(self, trainer: Trainer, logs: dict[str, float]) -> None:
        self.compiling = 0.0
        if self.bar is not None:
            loop = trainer.loop
            done = loop.epoch * loop.samples + int(logs["samples"])
            rate = loop.pace.rate()
            words = [shown(logs)]
            if rate:
                left = show.duration((loop.epochs * loop.samples - done) / rate)
                words = [f"{rate:,.0f} samples/s, {left} left", *words]
            self._move(done, logs, loop.epochs, words)

    def _move(self, done: int, logs: dict[str, float], epochs: int, words: list[str]) -> None:
        self.bar.set_description_str(", ".join([f"epoch {int(logs['epoch'])}/{epochs}", *words]), refresh=False)
        self.bar.update(done - self.bar.n)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        loop, epoch = trainer.loop, int(logs["epoch"])
        self.compiling = 0.0
        if self.bar is not None:
            self._move(epoch * loop.samples, logs, loop.epochs,
                       [f"{logs['samples/s']:,.0f} samples/s", *([shown(logs)] if self.notebook else [])])
        if epoch in (1, loop.epochs) or epoch % self.every == 0:
            spent, self.told = loop.pace.compiled - self.told, loop.pace.compiled
            compiled = f"  (compiled in {show.duration(spent)})" if spent > 1.0 else ""
            count = len(str(loop.epochs))
            self._line(f"epoch {epoch:>{count}}/{loop.epochs}  {shown(logs, '  ')}  "
                       f"{show.duration(logs['seconds'])}{compiled}")

    def on_train_end(self, trainer: Trainer) -> None:
        loop, history = trainer.loop, trainer.history
        if self.bar is not None:
            self.bar.close()
        if history.interrupted:
            steps = show.plural(len(history.steps), "step")
            place = f"epoch {min(loop.epoch + 1, loop.epochs)} of {loop.epochs}, after {steps}"
            self._line(f"interrupted in {place}; the model is as of the last whole step")
        elif history.stopped:
            self._line(f"stopped after epoch {loop.epoch} of {loop.epochs}: {history.stopped}")
        self.bar = None

    def _line(self, text: str) -> None:
        if self.notebook:
            print(text)
        elif self.bar is not None:
            self.bar.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)


def shown(logs: dict[str, float], between: str = ", ") -> str:
    """Loss and metrics in few characters: `loss 0.2933, accuracy 0.8901`."""
    return between.join(f"{name} {number(v)}" for name, v in logs.items() if name not in APART)


def number(v: float) -> str:
    """Four decimals, or an exponent where those say nothing."""
    return f"{v:.4f}" if v == 0 or not math.isfinite(v) or 1e-3 <= abs(v) < 1e5 else f"{v:.3e}"
