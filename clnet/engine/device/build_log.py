"""What a compiler's log says, shown beside the lines of source it speaks of."""

from __future__ import annotations

import re
from collections.abc import Sequence

LOG_LINES = 40
AROUND = 2
# "1:3:10: error:" (Intel), "<kernel>:3:10: error:" (NVIDIA), "error: /path/tempfile.cl:3:10:" (PoCL)
PLACES = (
    re.compile(r"(?:^|:|\s)(\d+):\d+: (?:fatal )?error", re.MULTILINE),
    re.compile(r"error: \S*?:(\d+):\d+:", re.MULTILINE),
)


def error_line(log: str) -> int:
    """The first line of source, from 1, that the log calls an error; 0 if it names none."""
    found = [match for place in PLACES if (match := place.search(log))]
    return int(min(found, key=lambda match: match.start()).group(1)) if found else 0


def excerpt(source: str, line: int) -> str:
    lines = source.split("\n")
    if not 1 <= line <= len(lines):
        return ""
    shown = range(max(1, line - AROUND), min(len(lines), line + AROUND) + 1)
    return "\n".join(f"{'>' if number == line else ' '} {number:4d} | {lines[number - 1]}" for number in shown)


def explain(who: str, source: str, options: Sequence[str], log: str) -> str:
    """The whole message of a KernelBuildError."""
    lines = [line for line in log.strip().split("\n") if line.strip()]
    if len(lines) > LOG_LINES:
        lines = [*lines[:LOG_LINES], f"... {len(lines) - LOG_LINES} more lines"]
    parts = [
        f"{who}: expected the program to build, got a compiler error; options: {' '.join(options) or 'none'}.",
        excerpt(source, error_line(log)),
        "\n".join(lines) or "The compiler left no log.",
    ]
    return "\n".join(part for part in parts if part)
