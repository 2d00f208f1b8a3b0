"""An earlier run of the bench beside this one: what a change of the code, of tuned numbers or of the machine did to our times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ..errors import DataError
from . import tables
from .bench_row import Row

NEEDED = {"work", "device", "peer", "ours_ms", "peer_ms"}
LEGEND = ("before / now: how many times sooner we are than in the earlier run. peers': the same of the peers, median: 1 where the machine was as fast. "
          "share: our rate / what the device's measured peak allows at this many flops a byte.")
Rows = list[dict[str, Any]]


def read(path: Path) -> Rows:
    """The rows of a run's `--json`. DataError if there is no such file, or it holds something else."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"bench: expected rows in {path}; got {error}; make them by clnet bench --json {path}.") from None
    if not isinstance(rows, list) or not all(isinstance(r, dict) and r.keys() >= NEEDED for r in rows):
        raise DataError(f"bench: expected a list of rows with {', '.join(sorted(NEEDED))} in {path}; got others; make them by clnet bench --json {path}.")
    return rows


def markdown(rows: Sequence[Row], earlier: Rows) -> str:
    """A table of the works that both runs timed on the same device."""
    works = dict.fromkeys((r.work, r.device) for r in rows if r.ours_ms)
    found = [line for work, device in works if (line := _line([r for r in rows if (r.work, r.device) == (work, device)], earlier))]
    return f"### Before and now\n\n{LEGEND}\n\n{tables.markdown(found)}"


def _line(now: Sequence[Row], earlier: Rows) -> dict[str, Any] | None:
    one = now[0]
    old = {r["peer"]: r for r in earlier if (r["work"], r["device"]) == (one.work, one.device) and r["ours_ms"]}
    if not old:
        return None
    before, ours = next(iter(old.values()))["ours_ms"], one.ours_ms or 0.0
    peers = [old[r.peer]["peer_ms"] / r.peer_ms for r in now if r.peer_ms and r.peer in old and old[r.peer]["peer_ms"]]
    return {"work": one.work, "device": one.device, "before [ms]": f"{before:.3f}", "now [ms]": f"{ours:.3f}", "before / now": f"{before / ours:.2f}",
            "peers'": f"{median(peers):.2f}" if peers else "", "share": "" if one.share is None else f"{one.share:.2f}"}
