"""Rows of the bench as a report, a part a device: where we are ahead and where behind, what the rows say in words, what
is below 1, how to read the tables, a narrow table a suite (a row a work, a column a peer), details folded, pictures.
"""

from __future__ import annotations

import html
import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...show import plural
from .. import tables
from . import standing, suites
from .columns import SHARE, kernels, kind_of, legend, machine, shown
from .row import BUSY, Row, number, roof, shown_ratio, spread

FORGE = (f"busy: other work took more than {BUSY:.0%} of the machine's CPU time meanwhile. doubted: of too few rounds, "
         "or of rounds that lie too far apart, as is said below. Such ratios are reported nowhere.")
SHOWN = 600  # [pixels] width of pictures, whose smallest letters keep 9 then
NAMED = 4  # works that a sentence names
BELOW = 8  # works that the sentence on what is slower names


def read(files: Sequence[Path]) -> list[Row]:
    """The rows of some `--json` files. DataError for a file that holds others."""
    found = []
    for path in files:
        for row in tables.rows_of(path, {"suite", "work", "device", "peer"}, "bench",
                                  f"make them by clnet bench --json {path}"):
            try:
                found.append(Row(**row))
            except TypeError as error:
                raise DataError(
                    f"bench: expected rows of clnet bench in {path}; got {error}; make them by clnet bench --json "
                    f"{path}.") from None
    return found


# --- in words
def summary(rows: Sequence[Row]) -> list[str]:
    """Sentences: each suite against each peer, what is not to be trusted, what failed, what was counted otherwise,
    where the machine was busy.
    """
    out = []
    for suite, peer in dict.fromkeys((r.suite, r.peer) for r in rows if r.ratio and suites.find(r.suite).ratios):
        some = [r for r in rows if (r.suite, r.peer) == (suite, peer) and r.reported]
        out += [_against(suite, peer, some)] if some else []
    doubted = [f"{r.work} against {r.peer} ({r.doubt})" for r in rows if r.unfit == "doubted"]
    out += [f"Not to be trusted and left out: {_some(doubted)}."] if doubted else []
    counted = list(dict.fromkeys(r.work for r in rows if r.counted and (r.share or 0) > 1))
    out += ["Counted as direct, though the kernels make fewer products (Winograd), and so above the roof: "
            f"{_some(counted)}."] if counted else []
    failed = [f"{r.work} ({r.note})" for r in rows if r.failed]
    out += [f"Failed: {_some(failed)}."] if failed else []
    return out + list(filter(None, [busy(rows)]))


def busy(rows: Sequence[Row]) -> str:
    """In how many rows the machine was busy with other work; "" if it was in none."""
    taken = [r.busy or 0.0 for r in rows if r.unfit == "busy"]
    if not taken:
        return ""
    return (f"The machine was busy with other work in {plural(len(taken), 'row')} of {len(rows)} (up to "
            f"{max(taken):.0%} of its CPU time): their ratios are not reported.")


def _against(suite: str, peer: str, some: Sequence[Row]) -> str:
    ratios = [r.reported or 1.0 for r in some]
    mean = statistics.geometric_mean(ratios)
    best, worst = max(some, key=lambda r: r.ratio or 0), min(some, key=lambda r: r.ratio or 0)
    if suite == "memory":
        return (f"memory against {peer}: {mean:.2f} times our measured peak in the geometric mean of "
                f"{plural(len(some), 'work')}.")
    ends = f"; most {best.ratio:.2f} ({best.work}), least {worst.ratio:.2f} ({worst.work})" if len(some) > 1 else ""
    faster = f" of {plural(len(some), 'work')}, {sum(v > 1 for v in ratios)} of them faster" if len(some) > 1 else ""
    mean_of = " in the geometric mean" if len(some) > 1 else ""
    return f"{suite} against {peer}: {mean:.2f} times as fast{mean_of}{faster}{ends}."


def slower(rows: Sequence[Row]) -> list[str]:
    """Sentences: of each suite and peer the works that show less than 1, the lowest first, without what is doubted."""
    low: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for r in sorted(rows, key=lambda r: r.ratio or 0):
        suite = suites.find(r.suite)
        if r.reported and suite.ratios and r.peer not in suite.bounds and round(r.reported, 2) < 1:
            low[r.suite, r.peer].append(r)
    order = dict.fromkeys((r.suite, r.peer) for r in rows)
    return [f"{suite} against {peer}{', which takes less' * (suite == 'memory')}: {_some(names, BELOW)}."
            for suite, peer in order if (names := [f"{r.work} {r.ratio:.2f}" for r in low.get((suite, peer), ())])]


def _some(names: Sequence[str], most: int = NAMED) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# --- tables
def markdown(rows: Sequence[Row]) -> str:
    """How to read the tables, once; a section a kind of device and suite: a table, its notes, the rest folded."""
    parts: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for r in rows:
        parts[kind_of(r.device), r.suite].append(r)
    out = [_key(parts)]
    for (kind, suite), some in parts.items():
        out.append(f"### {kind}: {suite}")
        if not suites.find(suite).narrow:
            out.append(tables.markdown({k: v for k, v in shown(r).items() if k not in ("suite", "device")}
                                       for r in some))
            continue
        out += [tables.markdown(_wide(suite, some)), *_notes(some), _folded(suite, some)]
    return "\n\n".join(filter(None, out))


def _key(parts: Mapping[tuple[str, str], Sequence[Row]]) -> str:
    """What the columns are: each sentence once, with the suites whose tables it is of."""
    of: dict[str, list[str]] = defaultdict(list)
    for (_, suite), some in parts.items():
        of[legend(suite, some, FORGE)].append(suite)
        if suites.find(suite).rates:
            of[SHARE].append(suite)
    said = [f"- {', '.join(dict.fromkeys(suites)).capitalize()}. {text}" for text, suites in of.items()]
    return "\n".join(["How to read the tables:", "", *said]) if said else ""


def _works(rows: Sequence[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Rows by device, work and arithmetic."""
    found: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for r in rows:
        found[r.device, r.work, r.arithmetic].append(r)
    return found


def _wide(suite: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A row a work, a column a peer; devices and arithmetic only where there are several."""
    peers = list(dict.fromkeys(r.peer for r in rows if r.ratio))
    several = {name: len({getattr(r, name) for r in rows}) > 1 for name in ("device", "arithmetic")}
    out = []
    for (device, work, arithmetic), some in _works(rows).items():
        cells: dict[str, Any] = {"work": work, "device": device, "arithmetic": arithmetic}
        cells = {k: v for k, v in cells.items() if several.get(k, True)}
        if suite == "memory":
            cells["ours [MB]"] = number(some[0].peak_bytes, ".1f", 1e6)
            cells |= {f"{p} [MB]": next((number(r.peer_bytes, ".1f", 1e6) for r in some if r.peer == p), "")
                      for p in peers}
        else:
            cells["ours [ms]"] = number(some[0].ours_ms, ".3f")
            cells |= {p: next((shown_ratio(r) for r in some if r.peer == p), "") for p in peers}
        out.append(cells)
    return out


def _notes(rows: Sequence[Row]) -> list[str]:
    """What rows say, with those it is of; of all rows against a peer that is not there, the peer."""
    return _listed([(f"{r.peer}: {r.note}" if r.peer and r.note and not r.ratio else r.remarks, r.work) for r in rows])


def _listed(said: Sequence[tuple[str, str]]) -> list[str]:
    """Sentences as a list, each once, with the works that they are of."""
    found: dict[str, list[str]] = defaultdict(list)
    for text, work in said:
        if text and work not in found[text]:
            found[text].append(work)
    listed = "\n".join(f"- {tables.cell(text)}: {tables.cell(_some(works))}" for text, works in found.items())
    return [listed] if listed else []


def _folded(suite: str, rows: Sequence[Row]) -> str:
    """Rates, and the spread against each peer, to be opened."""
    parts = []
    if suites.find(suite).rates:
        rates = [{"work": w, "device": d if len({r.device for r in rows}) > 1 else "",
                  "GFLOP/s": number(r.gflops, ".1f"), "GB/s": number(r.gbytes, ".1f"),
                  "share": number(r.share, ".2f"), **kernels(r)} for (d, w, _), (r, *_) in _works(rows).items()]
        parts += [tables.markdown(rates),
                  *_listed([(f"tuned numbers: {r.tuning}", r.work) for r in rows if r.tuning not in ("", "rules")])]
    spreads = [{"work": r.work, "peer": r.peer, "peer [ms]": number(r.peer_ms, ".3f"), "ratio": shown_ratio(r),
                "spread": spread(r), "rounds": number(r.rounds, "d")}
               for r in rows if r.ratio and r.peer_ms]
    parts += [tables.markdown(spreads)] if spreads else []
    if not parts:
        return ""
    return "\n\n".join(["<details><summary>Rates, and the spread of the rounds</summary>", *parts, "</details>"])


# --- the file
def block(rows: Sequence[Row], images: Mapping[str, str], made: str = "", more: str = "") -> str:
    """What runs say, show and hold, a part a device; images: a path a name; made: how all that came to be."""
    of: dict[str, list[Row]] = defaultdict(list)
    for r in rows:
        of[r.device].append(r)
    parts = [_part(some, {k: v for k, v in images.items() if k.startswith(f"{device}-")}, len(of) > 1)
             for device, some in of.items()]
    return "\n\n".join(filter(None, [*parts, more, made]))


def _part(rows: Sequence[Row], images: Mapping[str, str], titled: bool) -> str:
    """What the rows of one device say, show and hold, in this order."""
    drawn = [f'<img src="{path}" alt="{html.escape(name)}" width="{SHOWN}">' for name, path in images.items()]
    found, ahead = slower(rows), standing.lines(rows)
    nothing = "Nothing is below 1." if any(r.reported for r in rows) else ""
    below = "What is below 1, the lowest first:" if found else nothing
    stands = ["Where clnet is ahead of PyTorch, and where behind:", tables.markdown(ahead), standing.LEGEND]
    said = [f"## {machine(rows)}" if titled else f"{machine(rows)}.", *(stands if ahead else []),
            "In short:", _list(summary(rows)), below, _list(found), _measured(rows)]
    return "\n\n".join(filter(None, [*said, markdown(rows), *drawn]))


def _measured(rows: Sequence[Row]) -> str:
    """The roof, and against whom."""
    gflops, gbytes = roof(rows)
    reached = f"Measured peak: {gflops:.0f} GFLOP/s (float32 multiply-adds), {gbytes:.1f} GB/s (triad)."
    peers = ", ".join(dict.fromkeys(r.peer for r in rows if r.peer_ms))
    return " ".join(filter(None, [reached if gflops else "",
                                  f"Against {peers}; each with {rows[0].threads} threads." if peers else ""]))


def _list(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {tables.cell(s)}" for s in sentences)


def write(file: Path, name: str, lead: Sequence[str], text: str) -> None:
    """The report. In one that is there, with the comments that name this block,
    only what stands between them is made again.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    fresh = f"{begin}\n\n{text}\n\n{end}"
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    between = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    whole = "\n\n".join([*filter(None, lead), fresh]) + "\n"
    if between.search(old):
        whole = between.sub(lambda _: fresh, old, count=1)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(whole, encoding="utf-8")
