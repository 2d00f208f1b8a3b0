"""Rows of the bench as tables: what stands in them, and what their columns mean."""

from __future__ import annotations

from collections.abc import Sequence

from ...engine.device.devices import devices
from ...engine.device.known_runtimes import named
from . import suites
from .row import Row, number, timed

RATIO = ("ratio: the peer's time / our time, above 1 we are faster; the median of the rounds' ratios, and their "
         "spread. One run, interleaved, equal threads.")
EARLIER = RATIO.replace("the median of the rounds' ratios, and their spread",
                        "the ratio of the medians, and the spread of the rounds' ratios")
SHARE = ("share: our rate / what the device's measured peak allows at this many flops a byte, in caches where they "
         "hold all; above 1 where products are counted that nobody makes (Winograd).")
HOSTS = ("intel", "pocl", "numpy")  # keys of devices that are CPUs


def shown(r: Row) -> dict[str, object]:
    """A row as it stands in tables."""
    if own := suites.find(r.suite).cells:
        return own(r)
    cells = timed(r) | {"GFLOP/s": number(r.gflops, ".1f"), "GB/s": number(r.gbytes, ".1f"),
                        "share": number(r.share, ".2f")}
    cells |= {} if r.suite == "ops" else kernels(r)
    return cells | {"arithmetic": r.arithmetic, "threads": r.threads, "tuning": r.tuning, "note": r.remarks}


def kernels(r: Row) -> dict[str, str]:
    """What the kernels of a step come to."""
    return {"launches": number(r.launches, "d"), "kernels' MB": number(r.kernel_bytes, ".1f", 1e6),
            "peak MB": number(r.peak_bytes, ".1f", 1e6)}


def machine(rows: Sequence[Row]) -> str:
    """The device of rows in words; of earlier runs, which do not say it, whose software it runs."""
    key = rows[0].device
    title = named(key.rstrip("0123456789")).title.format("CPU")
    return next((r.machine for r in rows if r.machine), title or key)


def kind_of(key: str) -> str:
    """CPU or GPU: what the device of that key is here, or what one of that name is anywhere."""
    known = {d.key: d.kind.upper() for d in devices()}
    return known.get(key) or ("CPU" if key.rstrip("0123456789") in HOSTS else "GPU")


def legend(suite: str, rows: Sequence[Row], more: str) -> str:
    """What the columns of a suite are;
    rows of earlier runs, which do not say of how many rounds they are, have ratios of another kind.
    """
    earlier = any(r.ratio for r in rows) and all(r.rounds is None for r in rows)
    return suites.find(suite).legend or f"{EARLIER if earlier else RATIO} {more}"


def absent(rows: Sequence[Row]) -> dict[str, str]:
    """Peers of which no row has a time, nor failed, and why: the one reason of all their rows."""
    of: dict[str, list[Row]] = {}
    for r in rows:
        of.setdefault(r.peer, []).append(r)
    return {peer: some[0].note for peer, some in of.items()
            if peer and some[0].note and not any(r.peer_ms or r.ratio or r.failed for r in some)
            and len({r.note for r in some}) == 1}


def sections(rows: Sequence[Row]) -> list[tuple[str, str, list[dict[str, object]]]]:
    """(title, legend, shown rows): CPU and GPU are never in one table, nor are suites. Without peers that are absent,
    unless there are no others.
    """
    kinds = {key: kind_of(key) for key in {r.device for r in rows}}
    found: dict[tuple[str, str], list[Row]] = {}
    gone = absent(rows)
    for r in [r for r in rows if r.peer not in gone] or rows:
        found.setdefault((kinds[r.device], r.suite), []).append(r)
    return [(f"{kind}: {suite}", legend(suite, some, SHARE), [shown(r) for r in some])
            for (kind, suite), some in found.items()]
