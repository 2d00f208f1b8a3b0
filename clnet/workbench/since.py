"""What changed between two runs of `clnet report`: verdicts of status, names, and speeds beyond the rounds' spread."""

from __future__ import annotations

from collections.abc import Sequence

from ..show import plural
from .bench import before as bench_before
from .marks import Mark
from .page import Section, Table
from .runs import Run
from .status import command as status_command
from .status import tables as status_tables
from .status.row import Row as StatusRow

TITLE = "Since the last run"


def changes(now: Run, then: Run | None) -> Section:
    """The section, and in `short` a few words of it."""
    form = "quick" if now.quick else "whole"
    if then is None:
        return Section(TITLE, [f"The first {form} run on {now.machine} in this folder: nothing to hold it against."],
                       short="the first")
    cells = status_command.changed_cells(then.status, now.status)
    came, went = _names(now.status, then.status)
    moved, known = bench_before.moved(now.bench, then.bench)
    ways = [m["is"] for m in moved]
    speeds = [f"{ways.count(way)} {way}" for way in ("faster", "slower") if way in ways]
    unchanged = known - len(moved)
    text = [f"Held against the {form} run of {then.when}, clnet {then.code}.",
            f"Status: {_said(cells, came, went)}.",
            f"Speeds: {', '.join([*speeds, f'{unchanged} unchanged'])}, of {plural(known, 'work')} that both runs can "
            "say something of."]
    some = [Table("Status", [_marked(c) for c in cells]), Table("Speeds", moved)]
    words = [*([f"{plural(len(cells), 'verdict')} changed"] if cells else []), *([f"{len(came)} new"] if came else []),
             *([f"{len(went)} gone"] if went else []), *speeds]
    return Section(TITLE, text, [t for t in some if t.rows], short=", ".join(words) or "unchanged",
                   terms={"faster, slower, unchanged": bench_before.MOVED})


def _marked(cell: dict[str, str]) -> dict[str, str]:
    names = {"column": status_tables.TITLES.get(cell["column"], cell["column"])}
    return {k: v for k, v in {**cell, **names}.items() if k != "device"}


def _names(now: Sequence[StatusRow], then: Sequence[StatusRow]) -> tuple[list[str], list[str]]:
    """(names that are there now and were not, names that were)."""
    here, was = ({(r.kind, r.name): r.name for r in rows if r.there} for rows in (now, then))
    return [n for key, n in here.items() if key not in was], [n for key, n in was.items() if key not in here]


def _said(cells: Sequence[dict[str, str]], came: Sequence[str], went: Sequence[str]) -> str:
    better = sum(c["now"] == Mark(True) for c in cells)
    parts = [f"{plural(len(cells), 'verdict')} changed ({better} to yes, {len(cells) - better} to something else)"
             if cells else "no verdict changed"]
    parts += [f"there now: {', '.join(came)}"] if came else []
    parts += [f"gone: {', '.join(went)}"] if went else []
    return "; ".join(parts)
