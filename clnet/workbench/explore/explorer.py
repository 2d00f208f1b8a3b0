"""The widgets over rows: text, filters, the list, buttons, and the page of the row that is chosen.

Nothing runs in the background: a click runs in the kernel's own thread, and is over when its result shows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import ipywidgets as widgets

from ...show import Table, in_notebook
from ..widgets import escape
from .rows import Rows

R = TypeVar("R")
LINES = 14  # rows of the list that are seen at once
# As wide as its lines, which a narrow window scrolls together with the heads.
WHOLE = {"width": "max-content", "min_width": "100%", "margin": "0"}
STYLE = """<style>.clnet-rows select {font-family: var(--jp-code-font-family, monospace); font-size: 12px;
flex: 1 0 auto; overflow-x: hidden}</style>"""


class Panel(Generic[R]):
    """Text, filters, list, buttons and page of an explorer, in `box`: one above the other where there is no room."""

    def __init__(self, explorer: Rows[R]) -> None:
        self.explorer, self.some = explorer, list(explorer.rows)
        self.text = widgets.Text(placeholder="search", layout={"width": "12em"})
        self.filters = {name: widgets.Dropdown(options=explorer.words(name), description=name,
                                               style={"description_width": "initial"}, layout={"width": "max-content"})
                        for name in explorer.filters}
        self.list = widgets.Select(rows=max(2, min(LINES, len(self.some))), layout=WHOLE)
        self.heads = widgets.HTML()
        self.buttons = {name: widgets.Button(description=name, layout={"width": "max-content"})
                        for name in (*explorer.whole, *explorer.actions)}
        self.said, self.page, self.over = widgets.HTML(), widgets.HTML(), widgets.HTML()
        for part, name in ((self.text, "search"), (self.list, "rows"), (self.page, "page"), (self.said, "said"),
                           (self.over, "over")):
            part.add_class(f"clnet-{name}")
        wrapped = {"flex_flow": "row wrap", "align_items": "center"}
        self.title = widgets.HTML()
        self.box = widgets.VBox([
            self.title,
            widgets.HBox([self.text, *self.filters.values(), *self.buttons.values(), self.said], layout=wrapped),
            widgets.VBox([self.heads, self.list], layout={"overflow": "auto hidden"}), self.page, self.over])
        self.text.observe(self._filter, "value")
        for part in self.filters.values():
            part.observe(self._filter, "value")
        for name, button in self.buttons.items():
            button.on_click(lambda _, name=name: self._act(name))
        self.list.observe(self._open, "index")
        self._renew()

    @property
    def row(self) -> R | None:
        """The row that is chosen."""
        return self.some[self.list.index] if self.list.index is not None else None

    def _renew(self) -> None:
        """Title, overview and rows as they are now."""
        self.title.value = f"<b>{escape(self.explorer.title)}</b>{STYLE}"
        self.over.value = self.explorer.seen()
        self._filter()

    def _filter(self, _: object = None) -> None:
        self.some = self.explorer.chosen(self.text.value, **{n: w.value for n, w in self.filters.items()})
        self._lines()
        self.said.value = escape(self.explorer.counted(self.some))

    def _lines(self) -> None:
        """The rows as lines of the list: a table in letters of one width."""
        head, _, *lines = Table(self.explorer.heads, [self.explorer.cells(r) for r in self.some],
                                limit=len(self.some) + 1).text(160).split("\n")
        gap = "\u00a0"  # a list shows several spaces as one
        self.heads.value = f'<pre style="margin:0;font-size:12px;white-space:pre">{escape(head)}</pre>'
        self.list.options = [line.replace(" ", gap) for line in lines]
        self.list.index = None

    def _open(self, _: object = None) -> None:
        row = self.row
        with self._saying():
            self.page.value = "" if row is None else self.explorer.page(row)

    def _act(self, action: str) -> None:
        row, index = self.row, self.list.index
        if action in self.explorer.whole:
            self.said.value = escape(f"{action} …")
            with self._saying():
                found = self.explorer.whole[action]()
                self._renew()
                self.list.index = index if index is not None and index < len(self.some) else None
                self.said.value = escape(f"{action}: {found}")
            return
        if row is None:
            self.said.value = escape("choose a row first")
            return
        self.said.value = escape(f"{action} …")
        with self._saying():
            self.some[index] = self.explorer.run(action, row)
            self._lines()
            self.list.index = index
            self.said.value = escape(f"{action}: done")

    @contextlib.contextmanager
    def _saying(self) -> Iterator[None]:
        """An error stands beside the buttons: there is no cell below which it could be read."""
        try:
            yield
        except Exception as error:
            self.said.value = escape(f"{type(error).__name__}: {error}")


class Explorer(Rows[R]):
    """Rows that show themselves as widgets in a notebook, as a table elsewhere and where the kernel is gone."""

    def panel(self) -> Panel[R]:
        return Panel(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        shown = {"text/plain": repr(self), "text/html": self._repr_html_()}
        return {**self.panel().box._repr_mimebundle_(), **shown} if in_notebook() else shown
