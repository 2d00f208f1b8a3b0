"""Which figures of the bench can be trusted: how many rounds they are of, how far those lie apart, what else the
machine did, roofs that hold.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...engine.device.roof import Peak
from .row import ARITHMETIC, Row, roof

NEEDED = 3  # rounds that a ratio is the median of, at least
WIDE = 2.0  # largest ratio of the rounds / smallest: beyond, rounds are measured again
CONVOLVING = ("conv", "cnn", "resnet")  # in the names of works
APART = 1.5  # the same of the quartiles, all rounds together: beyond, nobody trusts them


def doubt(ratios: Sequence[float], wanted: int) -> str:
    """Why the median of the rounds' ratios is not to be trusted; "" where it is."""
    if len(ratios) < min(NEEDED, wanted):
        return f"{len(ratios)} of {wanted} rounds"
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"half of {len(ratios)} rounds outside {low:.2f} to {high:.2f}" if high > APART * low else ""


def wide(ratios: Sequence[float]) -> bool:
    """Whether the rounds differ so much that more of them should be measured."""
    return len(ratios) > 1 and max(ratios) > WIDE * min(ratios)


class Watch:
    """What share of the machine's CPU time other processes took since it was made (Linux): threads that wait for each
    other make ratios chance.
    """

    def __init__(self) -> None:
        self.start = _times()

    def others(self) -> float | None:
        """None where it cannot be known."""
        now = _times()
        if self.start is None or now is None or now[0] <= self.start[0]:
            return None
        total, taken, own = (b - a for a, b in zip(self.start, now, strict=True))
        return max(0.0, taken - own) / total


def seen_by(watch: Watch, rows: Sequence[Row]) -> list[Row]:
    """The rows with the share of the CPU time that was others' while they were measured."""
    busy = watch.others()
    return [replace(r, busy=None if busy is None else round(busy, 2)) for r in rows]


def _times() -> tuple[float, float, float] | None:
    """Clock ticks of all CPUs, those in use, and those that this process and its children used."""
    try:
        # user, nice, system, idle, waiting for disks, ...
        ticks = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        a_second = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
    return sum(ticks), sum(ticks) - ticks[3] - ticks[4], sum(os.times()[:4]) * a_second + _of_the_living()


def _of_the_living() -> int:
    """Clock ticks of children that nobody waited for yet, and of theirs: processes that compile for this one."""
    found, parents = 0, [str(os.getpid())]
    while parents:
        for children in Path(f"/proc/{parents.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # one may end while it is looked at
                for child in children.read_text().split():
                    # behind the name: user and system time, its own and of those that it waited for
                    found += sum(map(int, Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:15]))
                    parents.append(child)
    return found


def settled(rows: Sequence[Row], peak: Peak | None) -> list[Row]:
    """The rows under one roof that is nowhere below what they reached; a row that raised it says so.

    Rates that count products which nobody makes (`counted`) raise nothing: they stand above the roof, and say why.
    """
    if peak is None:
        return list(rows)
    honest = [r for r in rows if r.share is not None and not r.counted]
    top = max(honest, key=lambda r: r.gflops or 0, default=None)
    whole, notes = peak, dict[int, str]()
    if top is not None and (top.gflops or 0) > peak.gflops:
        whole = whole.raised(Peak(top.gflops or 0, 0))
        notes[id(top)] = f"raised the roof from {peak.gflops:.0f} GFLOP/s"
    streams = tuple((_bytes(r), r.gbytes or 0) for r in honest)
    whole = whole.raised(Peak(0, max((rate for size, rate in streams if size >= 2 * _largest(peak)), default=0),
                              streams))
    if whole.gbytes > peak.gbytes:
        fastest = next(r for r in honest if r.gbytes == whole.gbytes)
        notes[id(fastest)] = f"raised the roof from {peak.gbytes:.0f} GB/s"
    return [_under(r, whole, notes.get(id(r), "")) for r in rows]


def settled_before(rows: Sequence[Row]) -> list[Row]:
    """Rows of earlier runs under roofs that are nowhere below what they reached: one a device, and so only of what the
    rows know of it.
    """
    out = list[Row]()
    for device in dict.fromkeys(r.device for r in rows):
        some = [_known(r) for r in rows if r.device == device]
        gflops, gbytes = roof(some)
        out += settled(some, Peak(gflops, gbytes)) if gflops else some
    return out


def _known(r: Row) -> Row:
    """The row of a run that did not tell:
    networks and works with convolutions that are above the rate of multiply-adds leave products out.
    """
    possible = (r.gflops or 0) <= (r.peak_gflops or 0)
    if r.counted or not any(word in r.work for word in CONVOLVING) or r.share is None or possible:
        return r
    return replace(r, counted="as direct: the rate is above that of multiply-adds, so kernels are Winograd's")


def _bytes(r: Row) -> float:
    """[bytes] that the rates of a row count."""
    return (r.gbytes or 0) * (r.ours_ms or 0) * 1e6


def _largest(peak: Peak) -> float:
    """[bytes] beyond which nothing is in a cache, as far as anybody measured."""
    return max((size for size, _ in peak.streams), default=float("inf"))


def _upwards(rate: float) -> float:
    """To a tenth, so that the row that raised the roof is not above it; a tenth stays what it is."""
    return math.ceil(round(rate * 10, 6)) / 10


def _under(r: Row, peak: Peak, note: str) -> Row:
    if r.peak_gflops:
        r = replace(r, peak_gflops=_upwards(peak.gflops), peak_gbytes=_upwards(peak.gbytes))
    if r.share is None or r.arithmetic != ARITHMETIC or not r.gflops or not r.intensity:
        return r
    # Bytes of a row are its rate times its time, both rounded: a thousandth less is the same size.
    found = peak.bandwidth(_bytes(r) * 0.999)
    # Intensities are rounded too.
    share = min(r.gflops / min(peak.gflops, r.intensity * found), math.inf if r.counted else 1.0)
    return replace(r, roof_gbytes=round(found, 1), share=round(share, 4), note="; ".join(filter(None, [r.note, note])))
