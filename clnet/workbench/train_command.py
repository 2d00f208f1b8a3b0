"""`clnet train`: an example network on built-in data, or a network on data of one's own;
what it reached in a sentence, the model and its curves in files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..augment.base import transform_of
from ..engine import current
from ..errors import ConfigError, NoDeviceError
from ..model.files import check_name
from ..show import count, duration, plural
from ..train.callbacks import Callback
from ..train.examples import Result, train_digits
from ..train.history import History
from . import terminal, train_own
from .replays import replayed

PLOTS = (".png", ".svg", ".pdf")
INTERRUPTED = 130


class Saving(Callback):
    """Writes the model when training ends, also by Ctrl-C or an error, if a step was made; the history as JSON; the
    timeline of a step, if Ctrl-C did not end it.
    """

    def __init__(self, path: Path | None, json_file: Path | None = None, trace: Path | None = None) -> None:
        if trace is not None and not current().compiles:
            raise NoDeviceError(f"train: expected an OpenCL device with --trace; got {current().device}, which "
                                "launches nothing; leave out --trace, or --device.")
        self.path, self.json_file, self.trace = path, json_file, trace

    def on_train_end(self, trainer: Any) -> None:
        if self.path is not None and trainer.optimizer.t:
            trainer.save(self.path)
        if self.json_file is not None:
            terminal.save_json(trainer.history.rows, self.json_file)
        if self.trace is not None and trainer.optimizer.t and not trainer.history.interrupted:
            step = replayed(trainer)
            written = step.trace(self.trace, step.measure())
            print(f"trace: {written.absolute()}, for https://ui.perfetto.dev", file=sys.stderr)


def check(save: Path | None, plot: Path | None, trace: Path | None = None,
          augment: Sequence[str] | None = None) -> None:
    """ConfigError, CheckpointError where a file could not be written, or a name is none: better before training than
    after.
    """
    if augment is not None:
        transform_of(augment)
    for option, path in (("--save", save), ("--plot", plot), ("--trace", trace)):
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(
                f"train: expected a folder that is there for {option}; got {path.absolute().parent}; make it first.")
    if save is not None:
        check_name(save)
    if plot is not None and plot.suffix.lower() not in PLOTS:
        raise ConfigError(f"train: expected a file name ending in {', '.join(PLOTS)} for --plot; got {plot.name!r}.")


def main(model: str, save: Path | None, plot: Path | None, settings: dict[str, Any],
         json_file: Path | None = None, trace: Path | None = None) -> int:
    """Trains with the settings that are not None; says what was reached. Exit status; 130 where Ctrl-C ended it."""
    given = {k: v for k, v in settings.items() if v is not None}
    r = train_digits(model, verbose=True, callbacks=[Saving(save, json_file, trace)], **given)
    terminal.say(sentence(r, given.get("precision")))
    if save is not None:
        print(f"saved: {save.absolute()} (`clnet.load` reads it)" if r.history.steps
              else "saved: nothing, no step was made")
    if plot is not None:
        print(f"plot: {plot.absolute()}" if drawn(r.history, plot) else "plot: nothing to draw, no epoch was finished")
    if r.history.interrupted:
        print("clnet: interrupted", file=sys.stderr)
    return INTERRUPTED if r.history.interrupted else 0


def own(asked: train_own.Asked, save: Path | None, plot: Path | None, json_file: Path | None = None,
        trace: Path | None = None) -> int:
    """Trains on data of one's own; says what was inferred and reached. Exit status."""
    return train_own.main(asked, save, [Saving(save, json_file, trace)], drawn, plot)


def sentence(r: Result, precision: str | None = None) -> str:
    """Where and what was trained, how far it came and how fast its steps were."""
    who = f"{r.kind} on {r.device}{f' in {precision}' if precision else ''}, {count(r.parameters)} parameters"
    how_far = plural(len(r.history), "epoch", "epochs")
    if r.history.interrupted:
        who, how_far = f"interrupted: {who}", f"{how_far}, {plural(len(r.history.steps), 'step')}"
    if not r.history.steps:
        return f"{who}: no step was finished in {duration(r.seconds)}"
    speed = f", {r.samples_per_second:.0f} samples/s in the steps" if r.samples_per_second else ""
    return (f"{who}: test accuracy {r.accuracy:.4f}, test loss {r.loss:.4f} after {how_far}; "
            f"{duration(r.seconds)} in all{speed}")


def drawn(history: History, path: Path) -> bool:
    """The history's plot in a file; False where there is no epoch to draw."""
    if not history.rows:
        return False
    import matplotlib

    matplotlib.use("agg")  # no window, no display needed
    history.plot().savefig(path)
    return True
