"""`clnet status`: runs the checks and writes the tables, or compares the committed tables with what the checks find."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import registry, status, status_tables


def main(devices: Sequence[Any], folder: Path, *, only: str = "", check: bool = False, quick: bool = False) -> int:
    """Exit status 0; 1 when --check finds a claim that does not hold, or a module cannot be imported. `quick`: one example of each row."""
    start = time.perf_counter()
    broken = registry.load_all()
    for name, why in broken.items():
        print(f"status: {name} cannot be imported, what it declares is missing: {why}", file=sys.stderr)
    claimed = status_tables.read(folder) if check else []
    fresh = status.as_dicts(status.run(devices, only=only, examples=1 if quick else None))
    if check:
        return _check(claimed, fresh, only) or int(bool(broken))
    status_tables.write(status_tables.merged(fresh, folder, bool(only)), folder, _command(devices, only))
    print(f"{status_tables.counts(fresh)}; {time.perf_counter() - start:.0f} s; tables in {folder}/")
    return int(bool(broken))


def _command(devices: Sequence[Any], only: str) -> str:
    return " ".join(["clnet status", *(f"--device {d}" for d in devices if d), *([f"--only {only}"] if only else [])])


def _check(claimed: list[dict[str, Any]], fresh: list[dict[str, Any]], only: str) -> int:
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
    print(f"{len(mine)} rows checked, {len(lies)} claims do not hold")
    return int(bool(lies))
