"""The bench's rows as pictures: ratios a peer, a roofline a suite, time against size."""

from __future__ import annotations

from collections.abc import Sequence

from .. import plots
from ..plots import Picture
from . import suites
from .columns import machine
from .row import Row, roof, short

MOST = 15  # bars of a picture


def pictures(rows: Sequence[Row]) -> dict[str, Picture]:
    """PNGs by name: bars of ratios, one picture a device and peer; rooflines; curves over sizes; bars of memory."""
    return {**_ratios(rows), **_rooflines(rows), **_growth(rows), **_memory(rows)}


def _ratios(rows: Sequence[Row]) -> dict[str, Picture]:
    out: dict[str, Picture] = {}
    for device, peer in dict.fromkeys((r.device, r.peer) for r in rows if compared(r)):
        some = [r for r in rows if (r.device, r.peer) == (device, peer) and compared(r)]
        for which, part in _parts(some):
            spreads = [None if r.min is None or r.max is None else (r.min, r.max) for r in part]
            values = [float(r.ratio or 1) for r in part]
            title = f"{machine(part)} against {peer}{which}"
            out[f"{device}-{peer}{which}"] = plots.ratios([short(r.work) for r in part], values, title, spreads)
    return out


def _parts(rows: Sequence[Row]) -> list[tuple[str, Sequence[Row]]]:
    """Rows in parts that fit a picture, as equal as can be, with what their titles end in."""
    count = -(-len(rows) // MOST)
    return [(f" ({k + 1} of {count})" if count > 1 else "", rows[k * len(rows) // count : (k + 1) * len(rows) // count])
            for k in range(count)]


def compared(r: Row) -> bool:
    """Whether a row's ratio is of a time, and reported."""
    return bool(r.reported) and suites.find(r.suite).bars


def _rooflines(rows: Sequence[Row]) -> dict[str, Picture]:
    out: dict[str, Picture] = {}
    for device, suite in dict.fromkeys((r.device, r.suite) for r in rows if r.share):
        some = list({r.work: r for r in rows if (r.device, r.suite) == (device, suite) and r.share}.values())
        for which, part in _parts(some) if len(some) > 1 else ():
            points = {short(r.work): _point(r) for r in part}
            caches = max(r.roof_gbytes or 0 for r in part)
            title = f"{suite} on {machine(part)}{which}"
            out[f"{device}-{suite}-roofline{which}"] = plots.roofline(points, *roof(some), title, caches)
    return out


def _point(r: Row) -> plots.Point:
    return plots.Point(float(r.intensity or 0), float(r.gflops or 0), float(r.share or 0),
                       "counted as direct" if r.counted else "")


def _growth(rows: Sequence[Row]) -> dict[str, Picture]:
    out: dict[str, Picture] = {}
    for device, suite in dict.fromkeys((r.device, r.suite) for r in rows):
        for family, curve in suites.find(suite).curves.items():
            some = [r for r in rows
                    if (r.device, r.suite) == (device, suite) and r.work.startswith(family) and r.ours_ms]
            ours = {_size_of(r.work): float(r.ours_ms or 0) for r in some}
            peers = dict.fromkeys(r.peer for r in some if r.peer)
            series = {"clnet": ours} | {p: {_size_of(r.work): r.peer_ms for r in some if r.peer == p and r.peer_ms}
                                        for p in peers}
            if len(ours) > 1:
                title = f"{family}: {curve.time} on {machine(some)}"
                out[f"{device}-{family}"] = plots.growth(series, title, curve.size, "ms")
    return out


def _size_of(work: str) -> float:
    """The number at the end of a work's name."""
    return float(work.split()[-1])


def _memory(rows: Sequence[Row]) -> dict[str, Picture]:
    out: dict[str, Picture] = {}
    for device in dict.fromkeys(r.device for r in rows if r.suite == "memory" and r.peak_bytes):
        some = [r for r in rows if (r.device, r.suite) == (device, "memory") and r.peak_bytes]
        bars = {w: {"clnet": float(next(r for r in some if r.work == w).peak_bytes or 0) / 1e6}
                | {r.peer: r.peer_bytes / 1e6 for r in some if r.work == w and r.peer_bytes}
                for w in dict.fromkeys(r.work for r in some)}
        out[f"{device}-memory"] = plots.groups(bars, f"peak memory of a training step on {machine(some)}", "MB")
    return out
