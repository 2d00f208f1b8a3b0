"""`clnet status`: runs the checks and writes the status tables, or says how a fresh run differs from them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError, DataError
from ..names import ending
from ..show import duration, plural
from . import catalog, registry, status, status_tables, terminal
from .marks import Mark
from .status import TO_COME

SHOWN = 40  # cells that changed are shown up to so many
LESS = ("specification", "ms", "kernels", "kind", "device", "float16", "same bits", "resident")
Rows = list[dict[str, Any]]


def main(devices: Sequence[Any], folder: Path, *, only: str = "", check: bool = False, changed: bool = False, quick: bool = False) -> int:
    """Exit status 0; 1 when --check finds a claim that does not hold, or a module cannot be imported. `quick`: one example of each row."""
    start = time.perf_counter()
    broken = registry.load_all()
    for name, why in broken.items():
        print(f"status: {name} cannot be imported, what it declares is missing: {why}", file=sys.stderr)
    known(only)
    writing = not (check or changed)
    print(f"status: {'writes to' if writing else 'compares with the tables in'} {folder.absolute()}", file=sys.stderr)
    before = status_tables.read(folder) if not writing else _kept(folder)
    try:
        fresh = status.as_dicts(status.run(devices, only=only, quick=quick))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was written, the tables are as they were" if writing else "nothing was compared") from None
    if check:
        return _check(before, fresh, only) or int(bool(broken))
    if only and not changed:
        _show(fresh)
    compared(before, fresh)
    if writing:
        status_tables.write(status_tables.merged(fresh, folder, bool(only)), folder, _command(devices, only))
    terminal.say(f"{status_tables.counts(fresh)}; {duration(time.perf_counter() - start)}")
    return int(bool(broken))


def known(only: str) -> None:
    """ConfigError unless some name, or one that is to come, contains `only`."""
    names = [s.name for s in registry.subjects()] + [g.name for kind in catalog.KINDS for g in catalog.goals(kind)]
    if not any(only.lower() in n.lower() for n in names):
        raise ConfigError(f"status: expected --only with a part of a name of an op, layer, loss or optimizer; got {only!r}{ending(only, names)}")


def _kept(folder: Path) -> Rows:
    try:
        return status_tables.read(folder)
    except DataError:
        return []


def _command(devices: Sequence[Any], only: str) -> str:
    return " ".join(["clnet status", *(f"--device {d}" for d in devices if d), *([f"--only {only}"] if only else [])])


def _show(rows: Rows) -> None:
    there = shown([r for r in rows if r["note"] != TO_COME])
    if there:
        terminal.table(there, less=LESS, notes="note", by="name", whole="all columns are in the tables")
    if missing := dict.fromkeys(r["name"] for r in rows if r["note"] == TO_COME):
        terminal.say(f"{TO_COME}: {', '.join(missing)}")


def shown(rows: Rows) -> Rows:
    """Rows for the terminal: verdicts in words, one row for all the specification's names of a class."""
    found: Rows = []
    for r in {(r["kind"], r["name"], r["device"]): r for r in reversed(rows)}.values():
        names = [o["spec_name"] for o in rows if (o["kind"], o["name"], o["device"]) == (r["kind"], r["name"], r["device"])]
        marks = {status_tables.TITLES.get(a, a): Mark(r[a]) for a in status.ASPECTS}
        found.append({"name": r["name"], "kind": r["kind"], "device": r["device"], **marks, "kernels": r["kernels"],
                      "ms": None if r["time_ms"] is None else f"{r['time_ms']:.3f}", "specification": ", ".join(filter(None, names)), "note": r["note"]})
    return found[::-1]


# --- against the tables
def compared(before: Rows, fresh: Rows) -> None:
    """Shows the rows whose verdicts are others than in the tables; says how many are new there."""
    old = {status._key(r): r for r in before}
    lines = [line for r in fresh if (b := old.get(status._key(r))) is not None for line in _changes(b, r)]
    lines = [line for k, line in enumerate(lines) if line not in lines[:k]]  # a class that answers several names of the specification
    if before:
        new = sum(status._key(r) not in old for r in fresh)
        terminal.say(f"{plural(len(lines), 'cell')} changed against the tables" + (f", {plural(new, 'row')} not in them" if new else ""))
    if lines:
        terminal.table(lines[:SHOWN], less=("device", "kind"), notes="note", by="name")
    if len(lines) > SHOWN:
        terminal.say(f"and {len(lines) - SHOWN} more")


def _changes(before: dict[str, Any], now: dict[str, Any]) -> Rows:
    where = {"name": now["name"], "kind": now["kind"], "device": now["device"]}
    return [{**where, "column": a, "before": Mark(before[a]), "now": Mark(now[a]), "note": now["note"]} for a in status.ASPECTS if before[a] != now[a]]


def _check(claimed: Rows, fresh: Rows, only: str) -> int:
    run = {r["device"] for r in fresh}
    chosen = registry.selected((r["name"] for r in [*claimed, *fresh]), only)
    claimed = [r for r in claimed if r["name"] in chosen]
    away = [r for r in claimed if r["device"] not in run]
    for device in dict.fromkeys(r["device"] for r in away):
        print(f"unchecked: {sum(r['device'] == device for r in away)} rows of {device}, which was not run here (--device {device})")
    mine = [r for r in claimed if r["device"] in run]
    if not mine:
        print(f"status --check: no row of {', '.join(sorted(run))} is in the tables, so nothing could be checked", file=sys.stderr)
        return 1
    lies = status.inflated(mine, fresh)
    for lie in lies:
        print(f"claims more: {lie}")
    print(f"{plural(len(mine), 'row')} checked, {plural(len(lies), 'claim does not hold', 'claims do not hold')}")
    return int(bool(lies))
