"""`clnet status`: runs the checks and writes the status tables, or says how a fresh run differs from them."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import ConfigError, DataError
from ...names import ending
from ...show import duration, plural
from .. import terminal
from ..evidence import catalog, registry
from ..marks import Mark
from . import run as status
from . import tables as status_tables
from .row import ASPECTS, TO_COME, Row, as_dicts, inflated

SHOWN = 40  # cells that changed are shown up to so many
LESS = ("specification", "ms", "kernels", "kind", "device", "float16", "same bits", "resident")


def main(devices: Sequence[Any], folder: Path, *, only: str = "", check: bool = False, changed: bool = False,
         quick: bool = False, json_file: Path | None = None) -> int:
    """Exit status 0; 1 when --check finds a claim that does not hold, or a module cannot be imported. `quick`: one
    example of each row, of which no tables are written.
    """
    start = time.perf_counter()
    broken = registry.load_all()
    for name, why in broken.items():
        print(f"status: {name} cannot be imported, what it declares is missing: {why}", file=sys.stderr)
    known(only)
    comparing, writing = check or changed, not (check or changed or quick)
    where = f"compares with the tables in {folder.absolute()}" if comparing else f"writes to {folder.absolute()}"
    print(f"status: {where if comparing or writing else 'the first example of each row; no tables are written'}",
          file=sys.stderr)
    before = status_tables.read(folder) if comparing else _kept(folder) if writing else []
    try:
        fresh = status.run(devices, only=only, quick=quick)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was compared" if comparing
                                else "nothing was written, the tables are as they were") from None
    if json_file is not None:
        terminal.save_json(as_dicts(fresh), json_file)
    if check:
        return _check(before, fresh, only) or int(bool(broken))
    if (only or not writing) and not changed:
        _show(fresh if only else [r for r in fresh if not r.green])
    compared(before, fresh)
    if writing:
        status_tables.write(status_tables.merged(fresh, folder, bool(only)), folder, _command(devices, only))
    terminal.say(f"{status_tables.counts(fresh)}; {duration(time.perf_counter() - start)}")
    return int(bool(broken))


def known(only: str) -> None:
    """ConfigError unless some name, or one that is to come, contains `only`."""
    names = [s.name for s in registry.subjects()] + [g.name for kind in catalog.KINDS for g in catalog.goals(kind)]
    if not any(only.lower() in n.lower() for n in names):
        raise ConfigError(
            "status: expected --only with a part of a name of an op, layer, loss or optimizer; "
            f"got {only!r}{ending(only, names)}")


def _kept(folder: Path) -> list[Row]:
    try:
        return status_tables.read(folder)
    except DataError:
        return []


def _command(devices: Sequence[Any], only: str) -> str:
    return " ".join(["clnet status", *(f"--device {d}" for d in devices if d), *([f"--only {only}"] if only else [])])


def _show(rows: Sequence[Row]) -> None:
    if there := shown([r for r in rows if r.there]):
        terminal.table(there, less=LESS, notes="note", by="name", whole="all columns are in the tables")
    if missing := dict.fromkeys(r.name for r in rows if not r.there):
        terminal.say(f"{TO_COME}: {', '.join(missing)}")


def shown(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Rows for the terminal: verdicts in words, one row for all the specification's names of a class."""
    same: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for r in rows:
        same[r.kind, r.name, r.device].append(r)
    found: list[dict[str, object]] = []
    for (kind, name, device), (r, *more) in same.items():
        marks = {status_tables.TITLES.get(a, a): Mark(v) for a, v in r.verdicts.items()}
        found.append({"name": name, "kind": kind, "device": device, **marks, "kernels": r.kernels,
                      "ms": None if r.time_ms is None else f"{r.time_ms:.3f}",
                      "specification": ", ".join(o.spec_name for o in (r, *more) if o.spec_name), "note": r.note})
    return found


# --- against the tables
def compared(before: Sequence[Row], fresh: Sequence[Row]) -> None:
    """Shows the rows whose verdicts are others than in the tables; says how many are new there."""
    lines = changed_cells(before, fresh)
    if before:
        new = len({r.key for r in fresh} - {r.key for r in before})
        terminal.say(f"{plural(len(lines), 'cell')} changed against the tables"
                     + (f", {plural(new, 'row')} not in them" if new else ""))
    if lines:
        terminal.table(lines[:SHOWN], less=("device", "kind"), notes="note", by="name")
    if len(lines) > SHOWN:
        terminal.say(f"and {len(lines) - SHOWN} more")


def changed_cells(before: Sequence[Row], fresh: Sequence[Row]) -> list[dict[str, str]]:
    """A line a verdict that differs; a class that answers several names of the specification is one line."""
    old = {r.key: r for r in before}
    lines = [line for r in fresh if (b := old.get(r.key)) is not None for line in _changes(b, r)]
    return [line for k, line in enumerate(lines) if line not in lines[:k]]


def _changes(before: Row, now: Row) -> list[dict[str, str]]:
    where, old, new = {"name": now.name, "kind": now.kind, "device": now.device}, before.verdicts, now.verdicts
    return [{**where, "column": a, "before": Mark(old[a]), "now": Mark(new[a]), "note": now.note}
            for a in ASPECTS if old[a] != new[a]]


def _check(claimed: Sequence[Row], fresh: Sequence[Row], only: str) -> int:
    run = {r.device for r in fresh}
    chosen = registry.selected((r.name for r in [*claimed, *fresh]), only)
    claimed = [r for r in claimed if r.name in chosen]
    away = Counter(r.device for r in claimed if r.device not in run)
    for device, count in away.items():
        print(f"unchecked: {count} rows of {device}, which was not run here (--device {device})")
    mine = [r for r in claimed if r.device in run]
    if not mine:
        print(f"status --check: no row of {', '.join(sorted(run))} is in the tables, so nothing could be checked",
              file=sys.stderr)
        return 1
    lies = inflated(mine, fresh)
    for lie in lies:
        print(f"claims more: {lie}")
    print(f"{plural(len(mine), 'row')} checked, {plural(len(lies), 'claim does not hold', 'claims do not hold')}")
    return int(bool(lies))
