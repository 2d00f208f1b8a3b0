"""A live view of long work for notebooks:
a bar, a line of text and a curve, each updated in place; plain text elsewhere.
"""

from __future__ import annotations

import html
import sys
import time
from typing import Any

from .. import show

PERIOD = 0.2  # [s] between pictures: 5 Hz is what an eye follows, and a picture costs 20 ms
TEXT_PERIOD = 0.1


def in_notebook() -> bool:
    """Whether there is a kernel with a front end, and ipywidgets to show something in it."""
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return show.in_notebook()


def escape(text: object) -> str:
    """Any text as HTML that shows it: widgets.HTML runs what it is given."""
    return html.escape(str(text), quote=True)


class Live:
    """Progress of `total` steps with curves of what is reported.
    `update(n, loss=0.3)` as often as you like; `close()` at the end.

    A display that fails is switched off with one line; it never stops the work.
    """

    def __init__(self, total: int, title: str = "", widgets: bool | None = None, stream: Any = None) -> None:
        self.total, self.title, self.stream = max(1, total), title, sys.stderr if stream is None else stream
        self.series: dict[str, list[float]] = {}
        self.done, self.started, self.drawn, self.written = 0, time.monotonic(), 0.0, 0.0
        self.on = True
        self.box: Any = None
        if in_notebook() if widgets is None else widgets:
            self._attempt(self._build)

    def _build(self) -> None:
        import ipywidgets
        from IPython.display import display

        self.bar = ipywidgets.IntProgress(0, 0, self.total)
        self.text = ipywidgets.HTML(escape(self.title))
        self.image = ipywidgets.Image(format="png")
        self.image.layout.max_width = "640px"
        for widget, name in ((self.bar, "clnet-bar"), (self.text, "clnet-text"), (self.image, "clnet-curve")):
            widget.add_class(name)
        self.box = ipywidgets.VBox([ipywidgets.HBox([self.bar, self.text]), self.image])
        display(self.box)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def update(self, done: int, **values: float) -> None:
        """`done` steps are over; values are added to the curves of their names."""
        self.done = done
        for name, value in values.items():
            self.series.setdefault(name, []).append(float(value))
        self._show(False)

    def close(self) -> None:
        """Shows the last state."""
        self._show(True)
        if self.box is None and self.on:
            self._attempt(lambda: print(file=self.stream))

    def line(self) -> str:
        """The state as one line of text."""
        seconds = time.monotonic() - self.started
        values = "  ".join(f"{n} {v[-1]:.4g}" for n, v in self.series.items())
        return f"{self.title}  {self.done}/{self.total}  {values}  {seconds:.1f} s".strip()

    def _show(self, last: bool) -> None:
        now = time.monotonic()
        if self.on and self.box is None and (last or (now - self.written >= TEXT_PERIOD and self.stream.isatty())):
            self.written = now
            self._attempt(lambda: print("\r" + self.line(), end="", file=self.stream, flush=True))
        elif self.on and self.box is not None and (last or now - self.drawn >= PERIOD):
            self.drawn = now
            self._attempt(self._draw)

    def _draw(self) -> None:
        from . import plots

        self.bar.value, self.text.value = self.done, escape(self.line())
        if any(self.series.values()):
            self.image.value = plots.curves(self.series, self.title, xlabel="report", size=(6, 2.6))

    def _attempt(self, show: Any) -> None:
        try:
            show()
        except Exception as error:  # the work behind the display is worth more than the display
            self.on = False
            print(f"clnet: the live view is off: {type(error).__name__}: {error}", file=sys.stderr)
