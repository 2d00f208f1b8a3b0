"""Pictures as PNG bytes in one style, drawn with matplotlib's Agg canvas, with no global state.

WIDTH inches wide and twice as fine as a screen, so that the smallest letters keep 9 pixels on a telephone that shows
the picture 350 pixels wide; axes without a box, names at the lines themselves.
"""

from __future__ import annotations

import io
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, FAST, SLOW, BARS = "#444444", "#999999", "#2a7f62", "#c0562f", "#3b6ea5"
COLORS = (BARS, SLOW, FAST, "#8a5aa5", "#7a6a2f", "#3c8f9e")
PLAIN: dict[str, Any] = {"parse_math": False}  # a name with $ is a name, not a formula
WIDTH, DPI, FINE = 6.4, 100, 2  # [inch], [pixels an inch] on a page, pixels of ours in one of the page's
TITLE, LABEL, SMALL = 13, 12, 11  # [points]
LINE = 58  # [letters] of a title in a picture's width


class Picture(bytes):
    """A PNG that says what it shows (`heading`) and how to read it (`note`),
    and shows itself in a notebook at its own size.
    """

    heading: str
    note: str

    def __new__(cls, png: bytes, heading: str = "", note: str = "") -> Picture:
        made = super().__new__(cls, png)
        made.heading, made.note = heading, note
        return made

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on a page [pixels]: half of those in the file."""
        return tuple(int.from_bytes(self[k : k + 4], "big") // FINE for k in (16, 20))  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<Picture {self.heading!r}, {self.size[0]} × {self.size[1]} pixels>"

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = self.size
        return bytes(self), {"width": width, "height": height}


def figure(height: float, width: float = WIDTH) -> tuple[Any, Any]:
    """A figure and its axes, in the one style."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(made)
    axes = made.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=SMALL, color=SOFT)
    axes.xaxis.label.set_fontsize(LABEL)
    axes.yaxis.label.set_fontsize(LABEL)
    return made, axes


def titled(axes: Axes, title: str) -> None:
    """The title over the whole width, in lines that fit."""
    axes.figure.suptitle(fill(title, LINE), fontsize=TITLE, color=INK, x=0.01, ha="left", **PLAIN)


def png(drawing: Figure, title: str, note: str = "") -> Picture:
    """The figure as a Picture."""
    from PIL import Image

    drawn, out = io.BytesIO(), io.BytesIO()
    drawing.savefig(drawn, format="png", dpi=DPI * FINE)
    # A palette takes a third of the bytes, and a page holds a dozen pictures.
    Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(out, format="png", optimize=True)
    return Picture(out.getvalue(), title, note)
