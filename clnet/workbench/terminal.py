"""Rows and sentences in a terminal: tables as wide as it is, in colour there;
whole lines without escapes in pipes and files.

`table` is what devices, status, parity and bench show rows with; `bar` is how status, bench and tune show how far they
are.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .marks import NO, NONE, PARTIAL, YES, Mark
from .tables import filled, json_lines, numeric, save_rows

if TYPE_CHECKING:
    from rich.console import Console

PIPE = 100_000  # columns of what is no terminal: nothing is folded or left out
STDOUT = Path("-")  # as a file: standard output
GAP = 2  # columns between columns
NARROW = 24  # columns below which text is not folded
STYLES = {YES: "green", PARTIAL: "yellow", NO: "bold red", NONE: "dim"}
Rows = Iterable[dict[str, Any]]
_kept: list[TextIO] = []  # standard output, while what is for people goes elsewhere


def console(file: TextIO | None = None, width: int | None = None) -> Any:
    """A rich Console for `file` (default: standard output): no escapes where it is no terminal or NO_COLOR is set."""
    from rich.console import Console

    file = file or sys.stdout
    there = bool(getattr(file, "isatty", lambda: False)())
    return Console(file=file, color_system="auto" if there and not plain() else None, highlight=False, markup=False,
                   emoji=False, width=width or (None if there else PIPE))


def plain() -> bool:
    """Whether escapes are unwanted even in a terminal."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def say(text: str, style: str = "", to: Console | None = None) -> None:
    """Lines, folded between words in a terminal; what is folded keeps the line's indent."""
    from rich.padding import Padding
    from rich.text import Text

    to = to or console()
    for line in text.split("\n"):
        words = line.lstrip(" ")
        to.print(Padding(Text(words, style), (0, 0, 0, len(line) - len(words)), expand=False) if len(line) > to.width
                 else Text(line, style))


def table(rows: Rows, *, title: str = "", less: Sequence[str] = (), notes: str = "", by: str = "", whole: str = "",
          to: Console | None = None) -> None:
    """Rows of equal keys as a table that fits.

    less    columns that go where the width does not suffice, the least important first; those whose value is the same
            in all rows are said once
    notes   a column of long text: shown below the table, a paragraph a row, named by the column `by`
    whole   where all columns are, for the line that says which were left out
    """
    to, rows = to or console(), [{k: _text(v) for k, v in row.items()} for row in filled(rows)]
    if not rows:
        say(f"{title}: none" if title else "none", to=to)
        return
    below = [(row.get(by, ""), row[notes]) for row in rows if notes and row.get(notes)]
    names = [k for k in rows[0] if k != notes]
    same = {k: rows[0][k] for k in names if k in less and len(rows) > 1 and len({row[k] for row in rows}) == 1}
    names, gone = _fitting([k for k in names if k not in same], rows, less, to.width)
    if title:
        say(title, "bold", to)
    if same:
        say("all: " + ", ".join(f"{k} {v}" for k, v in same.items()), "dim", to)
    with to.capture() as drawn:
        to.print(_made(names, rows))
    to.file.write(re.sub(" +$", "", drawn.get(), flags=re.MULTILINE))
    if gone:
        say(f"left out in {to.width} columns: {', '.join(gone)}" + (f"; {whole}" if whole else ""), "dim", to)
    for name, text in dict.fromkeys(below):
        say(f"{name}: {text}" if name else text, to=to)


def _text(value: Any) -> str:
    return "" if value is None else value.text if isinstance(value, Mark) else " ".join(str(value).split())


def _fitting(names: list[str], rows: Sequence[dict[str, str]], less: Sequence[str],
             width: int) -> tuple[list[str], list[str]]:
    """(the columns that fit, those that were left out):
    text may be folded to NARROW, the rest goes by its importance.
    """
    from rich.cells import cell_len

    def needed() -> int:
        wide = [max(map(cell_len, (k, *(row[k] for row in rows)))) for k in names]
        kept = [w if numeric(row[k] for row in rows) else min(w, NARROW) for k, w in zip(names, wide, strict=True)]
        return sum(kept) + GAP * (len(names) - 1)

    names, gone = list(names), []
    for name in less:
        if needed() <= width:
            break
        if name in names:
            names.remove(name)
            gone.append(name)
    return names, gone


def _made(names: Sequence[str], rows: Sequence[dict[str, str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for name in names:
        number = numeric(row[name] for row in rows)
        made.add_column(Text(name), justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in rows:
        made.add_row(*(Text(row[k], STYLES.get(row[k].lower(), "")) for k in names))
    return made


@contextlib.contextmanager
def for_programs(asked: bool = True) -> Iterator[None]:
    """Within it standard output is for what `save_json` writes; all that is for people goes to standard error."""
    if not asked:
        yield
        return
    _kept.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _kept.pop()


def save_json(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """The rows as a JSON list, one a line; - is standard output. JSON has no NaN and no infinity: null."""
    rows = [{k: _finite(v) for k, v in row.items()} for row in rows]
    if file == STDOUT:
        to = _kept[-1] if _kept else sys.stdout
        to.write(json_lines(rows))
        to.flush()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    save_rows(file, rows)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def bar(*args: Any, progress: bool = True, **options: Any) -> Any:
    """tqdm for a terminal or notebook; where there is neither, or without `progress`, nothing is drawn. Estimates are
    of all that is done, not of the last.
    """
    from tqdm.auto import tqdm

    return tqdm(*args, disable=None if progress else True, smoothing=0, dynamic_ncols=True, **options)
