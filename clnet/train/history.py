"""What a training run was: one row an epoch, one loss a step."""

from __future__ import annotations

from typing import Any

import numpy as np


class History:
    """`frame` is a pandas DataFrame with a row per epoch (epoch, loss, metrics, val_…, lr, seconds, samples/s).

    steps         the loss of every step
    interrupted   whether Ctrl-C ended the run; `stopped` says why a callback did
    transfers     bytes and copies between host and device, None on the NumPy engine
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self.steps: list[float] = []
        self.interrupted = False
        self.stopped = ""
        self.transfers: Any = None

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
        return self.history[column]

    def __repr__(self) -> str:
        how = " (interrupted)" if self.interrupted else f" ({self.stopped})" if self.stopped else ""
        return f"History of {len(self.rows)} epochs, {len(self.steps)} steps{how}" + (f"\n{self.frame.to_string()}" if self.rows else "")

    def _repr_html_(self) -> str:
        import html

        return f"<p>{html.escape(repr(self).partition(chr(10))[0])}</p>" + (self.frame.to_html(border=0, float_format="%.5g") if self.rows else "")

    def plot(self) -> Any:
        """A pyplot figure, which notebooks show by themselves: every quantity beside its validation twin, by epoch."""
        import matplotlib.pyplot as plt

        names = [c for c in self.columns() if c not in ("epoch", "lr", "seconds", "samples/s") and not c.startswith("val_")]
        count = max(len(names), 1)
        figure, axes = plt.subplots(1, count, figsize=(4.5 * count, 3.2), layout="constrained", squeeze=False)
        columns, epochs = self.history, [row["epoch"] for row in self.rows]
        for axis, name in zip(axes[0], names, strict=False):
            for key, label in ((name, "training"), (f"val_{name}", "validation")):
                if key in columns:
                    axis.plot(epochs, columns[key], marker=".", label=label)
            axis.set(xlabel="epoch", ylabel=name)
            axis.spines[["top", "right"]].set_visible(False)
            axis.legend(frameon=False)
        return figure

    # --- in a checkpoint: numbers as arrays, which keep NaN and every bit
    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        table = [[row.get(c, float("nan")) for c in self.columns()] for row in self.rows]
        return {"rows": np.array(table, np.float64).reshape(len(self.rows), len(self.columns())), "steps": np.array(self.steps, np.float64)}

    def load(self, columns: list[str], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.rows = [dict(zip(columns, map(float, row), strict=True)) for row in arrays["rows"]]
        self.steps = [float(v) for v in arrays["steps"]]
