"""What a training run was: one row an epoch, one loss a step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..curves import BLUE, GREEN, ORANGE, Chart, Drawing, Line, drawing
from ..errors import ColumnError
from ..names import ending, lacking
from ..show import Drawn, Table, duration, in_notebook, plural

MOST = 24  # epochs that a table shows; of more the first and the last
BESIDE = ("epoch", "lr", "seconds", "samples/s", "iterations", "evaluations")  # what is no quality of the model
DOTS = 30  # epochs up to which each is a dot of the curve


NO_CURVE = (*BESIDE, "samples", "loss_scale", "skipped")
Curves = dict[str, tuple[list[float], list[float]]]  # name -> (epochs, values)


class History(Drawn):
    """`frame` is a pandas DataFrame with a row per epoch (epoch, loss, metrics, val_…, lr, seconds, samples/s).

    steps         the loss of every step
    matrices      of metrics that are no number, as confusion_matrix and val_confusion_matrix, those of the last epoch
    interrupted   whether Ctrl-C, or Stop within an epoch, ended the run; `stopped` says why a callback or button did
    compiled      [s] spent on recording, planning and compiling; `seconds` and `samples/s` are of the steps alone
    transfers     bytes and copies between host and device, None on the NumPy engine
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self.steps: list[float] = []
        self.matrices: dict[str, Any] = {}
        self.interrupted = False
        self.stopped = ""
        self.compiled = 0.0
        self.transfers: Any = None
        self.seen: int | None = None  # the number of the cell under which its curves stand

    @property
    def frame(self) -> Any:
        """A DataFrame indexed by epoch."""
        import pandas as pd

        frame = pd.DataFrame(self.rows, columns=self.columns())
        return frame.astype({"epoch": int}).set_index("epoch") if self.rows else frame

    @property
    def history(self) -> dict[str, list[float]]:
        """The columns as lists."""
        return {c: [row.get(c, float("nan")) for row in self.rows] for c in self.columns()}

    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> list[float]:
        if column not in self.columns():
            raise ColumnError(f"History: expected the name of a column, of {', '.join(self.columns()) or 'none yet'}; "
                              f"got {column!r}{self._ending(column)}")
        return self.history[column]

    def __contains__(self, column: object) -> bool:
        return column in self.columns()

    if not TYPE_CHECKING:  # else every attribute would count as there

        def __getattr__(self, name: str) -> Any:
            raise lacking(self, name, lambda text: f"write history[{text!r}]." if text in self.columns() else None)

    def _ending(self, column: object) -> str:
        if isinstance(column, str) and column.startswith("val_"):
            return "; fit(validation=0.2) measures it."
        return ending(column, self.columns()) if isinstance(column, str) else "; a row an epoch is history.rows[-1]."

    @property
    def rate(self) -> float:
        """Samples a second of the steps of all epochs; 0 before the first."""
        seconds = sum(row["seconds"] for row in self.rows)
        return sum(row["seconds"] * row["samples/s"] for row in self.rows) / seconds if seconds else 0.0

    @property
    def best(self) -> int | None:
        """The epoch, from 1, of the least validation loss (of the least loss, without validation);
        None where there is no number.
        """
        column = self.history.get("val_loss") or self.history.get("loss") or []
        known = [(v, int(row["epoch"])) for v, row in zip(column, self.rows, strict=True) if not math.isnan(v)]
        return min(known)[1] if known else None

    def table(self) -> Table:
        """A row an epoch, of many the first and the last; the best one is marked."""
        names, best = self.columns(), self.best
        whole = ("epoch", "samples/s", "skipped", "iterations", "evaluations")
        rows = [[round(row[c]) if c in whole and c in row and math.isfinite(row[c]) else row.get(c) for c in names]
                for row in self.rows]
        how = f" ({self.stopped or 'interrupted'})" if self.stopped or self.interrupted else ""
        compiled = f", compiled in {duration(self.compiled)}" if self.compiled >= 0.1 else ""
        title = f"History of {plural(len(rows), 'epoch', 'epochs')}, {plural(len(self.steps), 'step')}{compiled}{how}"
        notes = [f"* best {'val_loss' if 'val_loss' in names else 'loss'}"] if best is not None else []
        notes += [f"{c} is NaN in {plural(n, 'epoch', 'epochs')}" for c in names
                  if (n := sum(math.isnan(row.get(c, 0.0)) for row in self.rows))]
        marked = [k for k, row in enumerate(self.rows) if int(row["epoch"]) == best]
        return Table(names, rows, title=title, notes=notes, marked=marked, limit=MOST)

    def drawing(self) -> Drawing | None:
        """Loss, metrics and the learning rate by epoch; None for one epoch, and where they stand in this cell."""
        if len(self.rows) < 2 or (self.seen is not None and self.seen == cell()):
            return None
        epochs, columns = [row["epoch"] for row in self.rows], self.history
        curves: Curves = {name: (epochs, column) for name, column in columns.items()}
        training = {n: c for n, c in curves.items() if not n.startswith("val_")}
        return drawing(charts(training, {n[4:]: c for n, c in curves.items() if n.startswith("val_")}),
                       self.table().title)

    def plot(self) -> Any:
        """A pyplot figure, which notebooks show by themselves (in a script: matplotlib.pyplot.show()):
        every quantity with its validation twin.
        """
        import matplotlib.pyplot as plt
        from matplotlib.ticker import MaxNLocator

        names = [c for c in self.columns()
                 if c not in BESIDE and not c.startswith("val_")]
        count = max(len(names), 1)
        figure, axes = plt.subplots(1, count, figsize=(4.5 * count, 3.2), layout="constrained", squeeze=False)
        columns, epochs = self.history, [row["epoch"] for row in self.rows]
        for axis, name in zip(axes[0], names, strict=False):
            for key, label, color in ((name, "training", BLUE), (f"val_{name}", "validation", ORANGE)):
                if key in columns:
                    lost = sum(math.isnan(v) for v in columns[key])
                    words = f"{label} (NaN in {lost} of {len(epochs)})" if lost else label
                    axis.plot(epochs, columns[key], marker="." if len(epochs) <= DOTS else "", label=words,
                              color=color)
            if self.best is not None and len(epochs) > 1:
                axis.axvline(self.best, color="0.6", linewidth=1, linestyle=":", label=f"best epoch {self.best}")
            axis.set(xlabel="epoch", ylabel=name)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            if len(epochs) == 1:
                axis.set(xlim=(epochs[0] - 1, epochs[0] + 1), xticks=epochs)
            axis.spines[["top", "right"]].set_visible(False)
            axis.legend(frameon=False)
        figure.suptitle(self.table().title, fontsize="medium")
        return figure

    # --- in a checkpoint: numbers as arrays, which keep NaN and every bit
    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        table = [[row.get(c, float("nan")) for c in self.columns()] for row in self.rows]
        return {"rows": np.array(table, np.float64).reshape(len(self.rows), len(self.columns())),
                "steps": np.array(self.steps, np.float64)}

    def load(self, columns: list[str], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.rows = [dict(zip(columns, map(float, row), strict=True)) for row in arrays["rows"]]
        self.steps = [float(v) for v in arrays["steps"]]


def charts(training: Curves, validation: Curves) -> list[Chart]:
    """Loss and metrics by epoch, each with its validation, and the learning rate where it changes."""
    found = []
    for name in dict.fromkeys((*training, *validation)):
        if name not in NO_CURVE:
            sides = (("training", training, BLUE, False), ("validation", validation, ORANGE, True))
            found.append(Chart(name, [Line(word, *curves[name], color, dashed)
                                      for word, curves, color, dashed in sides if name in curves]))
    epochs, rates = training.get("lr", ([], []))
    if len(set(rates)) > 1:
        found.append(Chart("learning rate", [Line("learning rate", epochs, rates, GREEN)]))
    return found


def cell() -> int | None:
    """The number of the notebook's cell that runs; None outside of notebooks."""
    if not in_notebook():
        return None
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return None if shell is None else int(shell.execution_count)
