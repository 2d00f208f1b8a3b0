"""An earlier run of the bench beside this one:
what a change of the code, of tuned numbers or of the machine did to our times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .. import tables
from .row import Row

LEGEND = ("before / now: how many times sooner we are than in the earlier run. peers': the same of the peers, median: "
          "1 where the machine was as fast. share: our rate / what the device's measured peak allows at this many "
          "flops a byte.")
Rows = list[dict[str, Any]]


def read(path: Path) -> Rows:
    """The rows of a run's `--json`. DataError if there is no such file, or it holds something else."""
    return tables.rows_of(path, {"work", "device", "peer", "ours_ms", "peer_ms"}, "bench",
                          f"make them by clnet bench --json {path}")


def markdown(rows: Sequence[Row], earlier: Rows) -> str:
    """A table of the works that both runs timed on the same device."""
    return f"### Before and now\n\n{LEGEND}\n\n{tables.markdown(lines(rows, earlier))}"


def lines(rows: Sequence[Row], earlier: Rows) -> Rows:
    """The rows of that table."""
    old = {(r["work"], r["device"], r["peer"]): r for r in earlier if r["ours_ms"]}
    before = {(work, device): r["ours_ms"] for (work, device, _), r in old.items()}
    now = {(r.work, r.device): r for r in rows if r.ours_ms and (r.work, r.device) in before}
    peers: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for r in rows:
        then = old.get((r.work, r.device, r.peer))
        if r.peer_ms and then and then["peer_ms"]:
            peers[r.work, r.device].append(then["peer_ms"] / r.peer_ms)
    return [_line(r, before[at], peers[at]) for at, r in now.items()]


def _line(r: Row, before: float, peers: Sequence[float]) -> dict[str, Any]:
    now = float(r.ours_ms or 0)
    return {"work": r.work, "device": r.device, "before [ms]": f"{before:.3f}", "now [ms]": f"{now:.3f}",
            "before / now": f"{before / now:.2f}", "peers'": f"{median(peers):.2f}" if peers else "",
            "share": "" if r.share is None else f"{r.share:.2f}"}
