"""The confusion matrix as a value that shows itself: which classes are taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..picture import INK, LABEL, SMALL, Picture, figure, png, titled
from ..show import Shown, Table, shorten

Array = np.ndarray[Any, Any]
WRITTEN = 20  # classes up to which every cell of the plot has its number
NAMED = 40  # classes up to which each is named beside it


class ConfusionMatrix(Shown):
    """C[i, j] = how many samples of class i were predicted as class j.

    `counts` (C, C) and `names`; NumPy takes it for the array. `worst()` lists what is mixed up most.
    Raises ConfigError for counts that are not square, and names that are not as many.
    """

    def __init__(self, counts: object, names: Sequence[object] = ()) -> None:
        self.counts: Array = np.asarray(counts)
        if self.counts.ndim != 2 or self.counts.shape[0] != self.counts.shape[1]:
            raise ConfigError(f"ConfusionMatrix: expected counts (C, C); got shape {self.counts.shape}.")
        self.names = tuple(map(str, names)) or tuple(map(str, range(len(self.counts))))
        if len(self.names) != len(self.counts):
            raise ConfigError(f"ConfusionMatrix: expected {len(self.counts)} names; got {len(self.names)}.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.counts, dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, index: Any) -> Any:
        return self.counts[index]

    def named(self, names: Sequence[object]) -> ConfusionMatrix:
        """The same with these names."""
        return ConfusionMatrix(self.counts, names)

    def normalized(self, by: str = "true") -> ConfusionMatrix:
        """Shares of each label ("true", rows), of each prediction ("pred", columns) or of "all"; 0 / 0 is 0."""
        if by not in ("true", "pred", "all"):
            raise ConfigError(f"ConfusionMatrix.normalized({by!r}): expected 'true', 'pred' or 'all'.")
        counts = self.counts.astype(np.float64)
        below = counts.sum({"true": 1, "pred": 0, "all": None}[by], keepdims=True)
        shares = np.divide(counts, below, out=np.zeros_like(counts), where=below != 0)
        return ConfusionMatrix(shares, self.names)

    def worst(self, count: int = 10) -> list[tuple[str, str, float]]:
        """(label, prediction, how many) of the cells off the diagonal with the most."""
        off = self.counts - np.diag(np.diag(self.counts))
        places = np.argsort(-off, axis=None, kind="stable")[:count]
        rows = [(*divmod(int(p), len(off)), off.flat[p]) for p in places]
        return [(self.names[i], self.names[j], n.item()) for i, j, n in rows if n > 0]

    def table(self) -> Table:
        """A row a label, a column a prediction."""
        rows = [[name, *row.tolist()] for name, row in zip(self.names, self.counts, strict=True)]
        return Table(["label", *self.names], rows, title="Confusion matrix: predictions by label",
                     align="l" + "r" * len(self.counts))

    def plot(self, names: Sequence[object] = (), title: str = "Confusion matrix") -> Picture:
        """A square a pair, darker the larger its share of its label; up to 20 classes with their numbers."""
        shown = self.named(names) if names else self
        n, shares = len(shown.counts), shown.normalized("true").counts
        side = min(max(0.42 * n, 3.0), 8.0)
        words = [shorten(name, 14) for name in shown.names] if n <= NAMED else []
        beside = 0.1 * max(map(len, words), default=3)
        drawing, axes = figure(side + 1.0 + 0.7 * beside, side + 1.9 + beside)
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        if n <= WRITTEN:
            for (i, j), value in np.ndenumerate(shown.counts):
                if value:
                    text = f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"
                    axes.text(j, i, text, ha="center", va="center", fontsize=SMALL if n <= 12 else SMALL - 3,
                              color="white" if shares[i, j] > 0.5 else INK)
        if n <= NAMED:
            long = max(map(len, words)) > 3
            axes.set_xticks(range(n), words, rotation=45 if long else 0, ha="right" if long else "center",
                            rotation_mode="anchor" if long else "default", parse_math=False)
            axes.set_yticks(range(n), words, parse_math=False)
        axes.set(xlabel="prediction", ylabel="label")
        bar = drawing.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
        bar.set_label("share of the label", fontsize=LABEL)
        bar.outline.set_visible(False)
        titled(axes, title)
        return png(drawing, title, "Rows are labels, columns predictions; what is right lies on the diagonal.")
