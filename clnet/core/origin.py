"""Where a piece of OpenCL C comes from that clnet did not write: errors of the compiler point at its lines there.

A text stands in programs between two marks, line by line as it was written; `located` finds for a line of a program the
text that it belongs to. Programs are known by their text, so marks name what was written, not where: a cell that runs
again elsewhere compiles nothing.
"""

from __future__ import annotations

import hashlib
import linecache
import re
import sys
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple
from weakref import WeakValueDictionary

CELL = "cell In["  # how the file of a text begins that is a cell by itself
BEGIN, END = "// begin ", "// end "
OPENING = re.compile(rf"^{BEGIN}(\w+)$")


@dataclass(eq=False)
class Origin:
    """A text of somebody's own: what it is of, the file and the line in which it begins (0: not known)."""

    what: str
    text: str
    file: str = ""
    line: int = 0
    column: int = 0  # of its first line: what stands before it there
    mark: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.mark = f"{self.what}_{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"
        ORIGINS[self.mark] = self

    def marked(self, text: str) -> str:
        """The text as a program has it, between marks."""
        return f"{BEGIN}{self.mark}\n{text}\n{END}{self.mark}"

    def place(self, line: int) -> str:
        """Where line `line` of the text stands, from 1, in words."""
        if not self.line:
            return f"line {line} of its source"
        number = self.line + line - 1
        if self.file.startswith(CELL):
            return f"{self.file}, line {number}"
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        known = shell.compile.format_code_name(self.file) if shell is not None else None
        return f"{known[0].lower()} {known[1]}, line {number}" if known else f"{self.file}:{number}"


ORIGINS: WeakValueDictionary[str, Origin] = WeakValueDictionary()


class Found(NamedTuple):
    """A line of a program as its author knows it: `line` and `column` from 1 (0: not known), and the line itself."""

    origin: Origin
    line: int
    column: int
    text: str


def located(program: str, line: int, column: int) -> Found | None:
    """What the author wrote at a place of a program; None for what clnet wrote."""
    lines = program.split("\n")
    for k in range(min(line, len(lines)) - 2, -1, -1):
        if lines[k].startswith(END):
            return None
        if (opening := OPENING.match(lines[k])) and (origin := ORIGINS.get(opening[1])) is not None:
            number = line - 1 - k
            written = origin.text.split("\n")
            if not 1 <= number <= len(written):
                return None
            return Found(origin, number, _column(lines[line - 1], written[number - 1], column), written[number - 1])
    return None


def _column(have: str, written: str, column: int) -> int:
    """The column of `written` that `column` of `have`, which is that line with some words replaced, stands for."""
    import difflib

    found = 0
    for a, b, size in difflib.SequenceMatcher(None, have, written, autojunk=False).get_matching_blocks():
        if a > column - 1:
            break
        found = b + min(column - 1 - a, size)
    return min(found, max(len(written) - 1, 0)) + 1 if column else 0


def traced(what: str, text: str | Origin, frame: FrameType | None) -> Origin:
    """The origin of a text that the code of `frame` passed: the place in its file that reads so, nearest to the call.
    """
    if isinstance(text, Origin):
        return text
    if frame is None:
        return Origin(what, text)
    source, wanted = linecache.getlines(frame.f_code.co_filename), text.split("\n")
    first = next((k for k, line in enumerate(wanted) if line.strip()), 0)
    places = [k for k, line in enumerate(source) if wanted[first].strip() and wanted[first].rstrip() in line
              and all(w in s for w, s in zip(wanted[first:], source[k:], strict=False))]
    if not places:
        return Origin(what, text)
    near = min(places, key=lambda k: abs(k + 1 - frame.f_lineno))
    return Origin(what, text, frame.f_code.co_filename, near + 1 - first, source[near].index(wanted[first].rstrip()))


def caller(package: str = __name__.partition(".")[0]) -> FrameType | None:
    """The frame that called into clnet."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
    return frame
