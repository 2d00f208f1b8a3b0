"""What a compiler's log says, shown beside the lines of source it speaks of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ...core.origin import Found, located

LOG_LINES = 40
AROUND = 2
AUTHORS = 3  # errors in what somebody wrote that are shown
# "1:3:10: error:" (Intel), "<kernel>:3:10: error:" (NVIDIA), "error: /path/tempfile.cl:3:10:" (PoCL)
PLACES = (
    re.compile(r"(?:^|:|\s)(\d+):(\d+): (?:fatal )?error:? ?(.*)", re.MULTILINE),
    re.compile(r"error: \S*?:(\d+):(\d+): ?(.*)", re.MULTILINE),
)


class Complaint(NamedTuple):
    """An error of a log: line and column of the program, from 1, and what is wrong there."""

    line: int
    column: int
    text: str


def complaints(log: str) -> list[Complaint]:
    """The errors of a log that name a place, in order."""
    found = sorted((m for place in PLACES for m in place.finditer(log)), key=lambda m: m.start())
    return [Complaint(int(m[1]), int(m[2]), m[3].strip()) for m in found]


def error_line(log: str) -> int:
    """The first line of source, from 1, that the log calls an error; 0 if it names none."""
    return next((c.line for c in complaints(log)), 0)


def excerpt(source: str, line: int) -> str:
    lines = source.split("\n")
    if not 1 <= line <= len(lines):
        return ""
    shown = range(max(1, line - AROUND), min(len(lines), line + AROUND) + 1)
    return "\n".join(f"{'>' if number == line else ' '} {number:4d} | {lines[number - 1]}" for number in shown)


def explain(who: str, source: str, options: Sequence[str], log: str) -> str:
    """The whole message of a KernelBuildError: of lines that somebody wrote, these alone, by their places there."""
    # An expression stands in a program for numbers and for vectors: of both the same is said.
    theirs = {(f.origin, f.line, c.text): (c, f) for c in complaints(log) if (f := located(source, c.line, c.column))}
    if theirs:
        return "\n".join(_of_author(k, c, found) for k, (c, found) in enumerate([*theirs.values()][:AUTHORS]))
    lines = [line for line in log.strip().split("\n") if line.strip()]
    if len(lines) > LOG_LINES:
        lines = [*lines[:LOG_LINES], f"... {len(lines) - LOG_LINES} more lines"]
    parts = [
        f"{who}: expected the program to build, got a compiler error; options: {' '.join(options) or 'none'}.",
        excerpt(source, error_line(log)),
        "\n".join(lines) or "The compiler left no log.",
    ]
    return "\n".join(part for part in parts if part)


def _of_author(number: int, complaint: Complaint, found: Found) -> str:
    """One error in a text of somebody's own, with the line and a caret."""
    start = (f"{found.origin.what}: expected OpenCL C that builds; got a compiler error in "
             if number == 0 else "and in ")
    caret = " " * (found.column - 1) + "^" if found.column else ""
    shown = found.text.expandtabs(1)
    return "\n".join(filter(str.strip, [f"{start}{found.origin.place(found.line)}: {complaint.text}",
                                        f"    {shown}", f"    {caret}"]))
