"""A list that filters, and what there is to say of one of its rows.

What is filtered, shown and done are functions of the library, given by whoever makes it; here is the frame alone.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from ...engine.compile.listing import Listing
from ...errors import ConfigError
from ...show import Shown, Table, plural
from ..plots import Picture

R = TypeVar("R")
ALL = "all"
PAPER = "color:#1a1a1a;background:#f8f8f8"  # under listings, whose colours are for it, in a dark theme too


class Page(Protocol):
    """What shows itself as HTML."""

    def _repr_html_(self) -> str: ...


Part = Page | Picture | str


@dataclass(repr=False)
class Rows(Shown, Generic[R]):
    """`rows` with their `cells` under `heads`, a filter for each of `filters` (a row's word for it), and `detail`:
    tables, pictures, kernels and sentences about one row. `actions` are buttons; each gives the row that takes the
    place of the one it was pressed for. `overview` is what there is to see of all of them; `whole` are buttons that
    need no row, and what they give is said.
    """

    title: str
    heads: Sequence[str]
    rows: list[R]
    cells: Callable[[R], Sequence[object]]
    detail: Callable[[R], Iterable[Part]]
    filters: Mapping[str, Callable[[R], str]] = field(default_factory=dict)
    actions: Mapping[str, Callable[[R], R]] = field(default_factory=dict)
    overview: Callable[[], Iterable[Part]] = tuple
    whole: Mapping[str, Callable[[], object]] = field(default_factory=dict)

    def chosen(self, text: str = "", **filters: str) -> list[R]:
        """The rows of which a cell contains the text, whatever the case, and that have the words asked for.

        Raises ConfigError for a filter that there is not.
        """
        for name in filters.keys() - self.filters.keys():
            raise ConfigError(f"{self.title}: expected filters among {', '.join(self.filters)}; got {name!r}.")
        return [r for r in self.rows
                if all(word in (ALL, self.filters[name](r)) for name, word in filters.items())
                and any(text.lower() in str(cell).lower() for cell in self.cells(r))]

    def words(self, name: str) -> list[str]:
        """What a filter can ask for."""
        return [ALL, *sorted({self.filters[name](r) for r in self.rows})]

    def run(self, action: str, row: R) -> R:
        """Does what the button does, and keeps the row that comes of it."""
        found = self.actions[action](row)
        self.rows[next(k for k, r in enumerate(self.rows) if r is row)] = found
        return found

    def table(self, rows: Sequence[R] | None = None) -> Table:
        """The rows, all or those given; columns without a value in any of them are left out."""
        every = [list(self.cells(r)) for r in (self.rows if rows is None else rows)]
        kept = [k for k in range(len(self.heads)) if not every or any(c[k] not in ("", None) for c in every)]
        return Table([self.heads[k] for k in kept], [[c[k] for k in kept] for c in every], title=self.title)

    def seen(self) -> str:
        """The overview, as HTML."""
        return "\n".join(map(shown, self.overview()))

    def _repr_html_(self) -> str:
        return self.seen() + self.table().html()

    def page(self, row: R) -> str:
        """What there is to say of a row, as HTML."""
        return "\n".join(map(shown, self.detail(row)))

    def counted(self, some: Sequence[R]) -> str:
        """How many of the rows are shown."""
        return f"{len(some)} of {plural(len(self.rows), 'row')}"


def shown(part: Part) -> str:
    """A part of a page as HTML."""
    if isinstance(part, Picture):
        data = base64.b64encode(bytes(part)).decode()
        return ('<figure style="margin:0.6em 0;overflow-x:auto">'  # small letters would be too small on a phone
                f'<img style="max-width:max(100%,36em)" width="{part.size[0]}" '
                f'alt="{html.escape(part.heading, quote=True)}" src="data:image/png;base64,{data}">'
                f"<figcaption>{html.escape(part.note)}</figcaption></figure>")
    if isinstance(part, Listing):
        return highlighted(part)
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>"
    return part._repr_html_()


def highlighted(source: str) -> str:
    """OpenCL C in colours, with its lines as they are."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers.c_cpp import CLexer

    styled = HtmlFormatter(noclasses=True, style="friendly", prestyles=PAPER)
    return f'<div style="overflow:auto;max-height:28em;font-size:12px">{highlight(source, CLexer(), styled)}</div>'
