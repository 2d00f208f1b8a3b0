"""An earlier run of the bench beside this one:
what a change of the code, of tuned numbers or of the machine did to our times, and which changes are more than chance.
"""

from __future__ import annotations

import math
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
MOVED = ("a work is faster or slower where its rounds and those of the earlier run do not overlap, and the medians are "
         "more than a tenth apart, against every peer that both runs have; without a peer our own times are compared; "
         "ratios that are not reported are not compared")
EVEN = 1.1  # times by which the medians of two runs differ without anything having changed
Rows = list[dict[str, Any]]
Figure = tuple[float, float, float]  # least, median, largest of the rounds: the more, the faster we are


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


def moved(rows: Sequence[Row], earlier: Sequence[Row]) -> tuple[Rows, int]:
    """(the works that became faster or slower, the most first; how many works both runs can say something of).

    A busy moment between two runs changes our times and the peers' alike, and so no ratio.
    """
    old = {(r.suite, r.work, r.device, r.arithmetic, r.peer): f for r in earlier if (f := _figure(r))}
    found: defaultdict[tuple[str, str, str, str], list[tuple[float, Row, Figure, Figure]]] = defaultdict(list)
    for r in rows:
        work = r.suite, r.work, r.device, r.arithmetic
        if (now := _figure(r)) and (then := old.get((*work, r.peer))):
            found[work].append((_times(then, now), r, then, now))
    least = [min(some, key=lambda s: abs(math.log(s[0]))) for some in found.values()
             if all(s[0] > 1 for s in some) or all(s[0] < 1 for s in some)]
    least.sort(key=lambda s: -abs(math.log(s[0])))
    return [_moved(*some) for some in least], len(found)


def _figure(r: Row) -> Figure | None:
    """Of a ratio that is reported; of our speed [1/ms] where there is no peer; None: nothing is known well enough."""
    if r.reported:
        return r.min or r.reported, r.reported, r.max or r.reported
    if r.peer or r.unfit or not (r.ours_ms and r.ours_min and r.ours_max):
        return None
    return 1 / r.ours_max, 1 / r.ours_ms, 1 / r.ours_min


def _times(then: Figure, now: Figure) -> float:
    """How many times as fast we are as then; 1 where the rounds overlap or the medians are even."""
    times = now[1] / then[1]
    apart = now[0] > then[2] or now[2] < then[0]
    return times if apart and not 1 / EVEN <= times <= EVEN else 1.0


def _moved(times: float, r: Row, then: Figure, now: Figure) -> dict[str, Any]:
    def said(figure: Figure) -> str:
        low, middle, high = figure if r.peer else (1 / f for f in reversed(figure))
        return f"{middle:.2f} ({low:.2f} to {high:.2f})" if r.peer else f"{middle:.3f} ms ({low:.3f} to {high:.3f})"

    return {"work": r.work, "suite": r.suite, "is": "faster" if times > 1 else "slower", "times": f"{times:.2f}",
            "ratio of": r.peer or "our time", "before": said(then), "now": said(now)}
