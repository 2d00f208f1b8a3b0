"""How values show themselves: sizes, counts and times in words, and one table with a text and an HTML form.

Host only and light: nothing but the standard library is imported. What has a table of its own derives from `Shown`.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
ROWS = 60  # a longer table is shown by its first and last rows
NARROWEST = 8  # [characters] to which a column of text may shrink
NUMBER = re.compile(r"[-+]?(\d[\d,]*(\.\d+)?(e[-+]?\d+)?|nan|inf)( ?(%|[KMGT]i?B(/s)?|B|s|ms|µs|min|h|[KMGT]?FLOP/s))?",
                    re.IGNORECASE)


def escaped(text: str) -> str:
    """HTML that shows the text."""
    import html  # and its table of two thousand names, which a start without pictures does without

    return html.escape(text)


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, so that pictures and widgets are seen."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return getattr(shell, "kernel", None) is not None


def size(nbytes: float) -> str:
    """[bytes] in words: 512 B, 12.3 MiB, 1.5 GiB."""
    value, unit = float(nbytes), 0
    while abs(value) >= (1024 if unit == 0 else 1023.95) and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:,.1f} {UNITS[unit]}" if unit else f"{value:,.0f} B"


def count(n: int) -> str:
    """A whole number with separators: 1,234,567."""
    return f"{n:,}"


def duration(seconds: float) -> str:
    """[s] in the unit that suits: 85 µs, 12.3 ms, 4.56 s, 2 min 5 s, 1 h 30 min."""
    if not math.isfinite(seconds):
        return f"{seconds} s"
    if abs(seconds) < 1:
        scale, unit = (1e6, "µs") if abs(seconds) < 0.9995e-3 else (1e3, "ms")
        return f"{_digits(seconds * scale)} {unit}"
    if abs(seconds) < 59.95:
        return f"{_digits(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _digits(value: float, significant: int = 3) -> str:
    """Three digits that count, never an exponent."""
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{value:.{significant - 1}e}"))))
    return f"{value:,.{min(max(0, significant - 1 - exponent), 9)}f}"


def opening(text: str) -> str:
    """The first paragraph of a documentation as one line: of layers and ops the formula."""
    return " ".join(text.strip().partition("\n\n")[0].split())


def plural(n: int, noun: str, nouns: str = "") -> str:
    """1 launch, 3 launches, 2 copies; `nouns` where the rule does not hold."""
    if n == 1:
        return f"1 {noun}"
    if not nouns:
        ies = noun.endswith("y") and noun[-2:-1] not in tuple("aeiou")
        nouns = noun[:-1] + "ies" if ies else noun + ("es" if noun.endswith(("s", "x", "z", "ch", "sh")) else "s")
    return f"{count(n)} {nouns}"


def shorten(text: str, width: int) -> str:
    """The text, its middle replaced by … where it is wider than `width` columns."""
    if columns(text) <= width:
        return text
    if width < 2:
        return "…"[:width]
    head = width // 2
    return text[:head] + "…" + text[len(text) - (width - 1 - head):]


def columns(text: str) -> int:
    """The columns that a terminal gives a line of text: wide letters two, marks on a letter none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cells(column: Sequence[Any]) -> list[str]:
    """A column's values as text: whole numbers with separators, other numbers with the same decimals
    in every row, None as nothing.
    """
    style = _float_style([float(v) for v in column if _is_float(v)])
    return [_cell(v, style) for v in column]


def _is_float(v: Any) -> bool:
    return isinstance(v, float) or (hasattr(v, "dtype") and getattr(v, "ndim", 1) == 0 and v.dtype.kind == "f")


def _float_style(values: Sequence[float]) -> str:
    """The least number keeps three digits, as long as the largest has six at most;
    zeros that every row would end with are left out.
    """
    finite = [v for v in values if math.isfinite(v)]
    sizes = [abs(v) for v in finite if v]
    if not sizes:
        return ",.1f"
    least, most = (math.floor(math.log10(v)) for v in (min(sizes), max(sizes)))
    places = min(max(2 - least, 3 - most), 5 - most)
    if places > 7 or most >= 9 or min(sizes) * 10**places < 0.5:  # the least would be shown as 0
        return ".3e"
    places = max(0, places)
    while places > 1 and all(format(v, f".{places}f").endswith("0") for v in finite):
        places -= 1
    return f",.{places}f"


def _cell(v: Any, style: str) -> str:
    if v is None:
        return ""
    if isinstance(v, str):
        return " ".join(v.split()) if "\n" in v else v
    if _is_float(v):
        return format(float(v), style)
    if isinstance(v, bool):
        return "yes" if v else "no"
    return count(v) if isinstance(v, int) else str(v)


class Shown:
    """A value that shows itself by a table, in a terminal and in a notebook: `table()` makes it."""

    def table(self) -> Table:
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()


class Drawn(Shown):
    """A value that a notebook shows as a picture above its table; elsewhere it is the table as text."""

    def drawing(self) -> str | None:
        """SVG text, or None where a picture would say nothing."""
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        if not in_notebook():
            print(repr(self))
            return
        from IPython.display import display

        if (picture := self.drawing()) is not None:
            display({"image/svg+xml": str(picture), "text/plain": f"<picture of {type(self).__name__}>"}, raw=True)
        display({"text/html": self._repr_html_(), "text/plain": repr(self)}, raw=True)


class Table:
    """Rows under heads, as aligned text (`str`, `text(width)`) and as HTML in a notebook.

    heads   names of the columns; none for a table without a head
    rows    values: text, numbers (whole with separators, others with equal decimals), None for nothing
    align   "l" or "r" a column; by default numbers (also "1.5 MiB", "20 %", "3 ms") right, text left
    title   a line above, `notes` lines below, `foot` a last row (totals) behind a rule
    marked  numbers of rows to point out: "*" in front, bold in HTML; a note should say what it means
    limit   more rows than that are shown by the first and the last

    `cells` holds the rows as text, for other writers of tables; `foot_cells` the last one.
    """

    def __init__(self, heads: Sequence[str], rows: Iterable[Sequence[Any]], *, align: str = "", title: str = "",
                 foot: Sequence[Any] | None = None, notes: Sequence[str] = (), marked: Collection[int] = (),
                 limit: int = ROWS) -> None:
        self.heads, self.rows, self.title, self.foot = list(heads), [list(r) for r in rows], title, foot
        self.notes, self.marked, self.limit = list(notes), set(marked), limit
        width = len(self.heads) or max((len(r) for r in self.rows), default=0)
        every = [*self.rows, *([list(foot)] if foot is not None else [])]
        for r in every:
            if len(r) != width:
                raise ValueError(f"Table: expected {plural(width, 'cell')} in every row; got {len(r)} in {r!r}.")
        done = [cells([r[k] for r in every]) for k in range(width)]
        every_cell = [[column[k] for column in done] for k in range(len(every))]
        self.cells, self.foot_cells = every_cell[: len(self.rows)], every_cell[-1] if foot is not None else None
        self.align = align or "".join(_side(column) for column in done)

    def _parts(self) -> list[tuple[int | None, list[str]]]:
        """(number, cells) of the rows to show; number None where rows were left out."""
        every: list[tuple[int | None, list[str]]] = list(enumerate(self.cells))
        if len(every) <= self.limit:
            return every
        half = max(1, self.limit // 2)
        gap = [f"… {plural(len(every) - 2 * half, 'more row')}"]
        return [*every[:half], (None, gap), *every[-half:]]

    def text(self, width: int | None = None) -> str:
        """The table in lines of at most `width` columns (default: the terminal's),
        as far as shortening text makes that possible.
        """
        parts = self._parts()
        whole = [*(c for n, c in parts if n is not None), *([self.heads] if self.heads else []),
                 *([self.foot_cells] if self.foot_cells else [])]
        margin = 2 if self.marked else 0
        widths = self._fit(whole, (width or shutil.get_terminal_size().columns) - margin)
        rule = " " * margin + "-" * (sum(widths) + 2 * max(0, len(widths) - 1))
        lines = [self.title] if self.title else []
        if self.heads:
            lines += [" " * margin + self._line(self.heads, widths), rule]
        for n, c in parts:
            lines.append(("* " if n in self.marked else " " * margin)
                         + (self._line(c, widths) if n is not None else c[0]))
        if self.foot_cells:
            lines += [rule, " " * margin + self._line(self.foot_cells, widths)]
        return "\n".join(line.rstrip() for line in [*lines, *self.notes])

    def _fit(self, rows: Sequence[Sequence[str]], room: int) -> list[int]:
        widths = [max((columns(r[k]) for r in rows), default=0) for k in range(len(self.align))]
        over = sum(widths) + 2 * (len(widths) - 1) - room
        while over > 0:
            text = [k for k, side in enumerate(self.align) if side == "l" and widths[k] > NARROWEST]
            if not text:
                break
            widest = max(text, key=lambda k: widths[k])
            widths[widest] -= 1
            over -= 1
        return widths

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        done = []
        for text, side, width in zip(row, self.align, widths, strict=True):
            short = shorten(text, width)
            fill = " " * (width - columns(short))
            done.append(fill + short if side == "r" else short + fill)
        return "  ".join(done)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def html(self) -> str:
        """A self-contained table: colours and fonts of the page around it, so that it reads
        in light and in dark themes.
        """
        body = []
        for n, c in self._parts():
            if n is None:
                gap = f'<td colspan="{len(self.align)}" style="text-align:left">{escaped(c[0])}</td>'
                body.append(f"<tr>{gap}</tr>")
                continue
            style, star = (' style="font-weight:600"', "* ") if n in self.marked else ("", "")
            body.append(f"<tr{style}>{self._html_row(c, 'td', star)}</tr>")
        title = f'<div style="margin:0.3em 0;font-weight:600">{escaped(self.title)}</div>' if self.title else ""
        head = f"<thead><tr>{self._html_row(self.heads, 'th')}</tr></thead>" if self.heads else ""
        total = self._html_row(self.foot_cells, "td") if self.foot_cells else ""
        foot = total and f'<tfoot><tr style="font-weight:600;border-top:1px solid">{total}</tr></tfoot>'
        notes = "".join(f'<div style="margin:0.3em 0">{escaped(note)}</div>' for note in self.notes)
        style = "font-variant-numeric:tabular-nums;border-collapse:collapse"
        table = f'<table class="clnet" style="{style}">{head}<tbody>{"".join(body)}</tbody>{foot}</table>'
        return f'<div style="overflow-x:auto;margin-bottom:0.8em">{title}{table}{notes}</div>'

    _repr_html_ = html

    def _html_row(self, row: Sequence[str], tag: str, before: str = "") -> str:
        sides = {"l": "left", "r": "right"}
        texts = [before + row[0], *row[1:]] if row else []
        styles = [f"text-align:{sides[side]};padding:0.2em 0.7em" for side in self.align]
        return "".join(f'<{tag} style="{style}">{escaped(c)}</{tag}>'
                       for style, c in zip(styles, texts, strict=True))


def _side(column: Sequence[str]) -> str:
    filled = [c for c in column if c]
    return "r" if filled and all(NUMBER.fullmatch(c) for c in filled) else "l"
