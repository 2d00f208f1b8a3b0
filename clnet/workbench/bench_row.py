"""A row of the bench, and rows as tables."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ARITHMETIC = "float32"
BUSY = 0.2  # share of the CPU time that was others': beyond, rows say so
RATIO = ("ratio: the peer's time / our time, above 1 we are faster; the median of the rounds' ratios, and their spread. One run, interleaved, equal "
         "threads.")
BYTES = "ratio: the peer's bytes / our measured peak. forecast: what `model.summary()` says before anything runs. PyTorch: the peak of its allocator."
STARTUP = "From the first import to the end of the first training step, in a process of its own; programs compiled before. ratio: the peer's time / ours."
EARLIER = RATIO.replace("the median of the rounds' ratios, and their spread", "the ratio of the medians, and the spread of the rounds' ratios")
SHARE = ("share: our rate / what the device's measured peak allows at this many flops a byte, in caches where they hold all; above 1 where products are "
         "counted that nobody makes (Winograd).")
ERRORS = ("error: of products |result - float64| / |float64|, Frobenius norms over rows spread over the result; of losses the largest difference. "
          "bound: what ours may be.")
HOSTS = ("intel", "pocl", "numpy")  # keys of devices that are CPUs
LEGENDS = {"memory": BYTES, "startup": STARTUP, "accuracy": ERRORS}


@dataclass(frozen=True)
class Row:
    """One comparison. Times are medians.

    ratio         median of the rounds' peer's time / ours (memory: peer_bytes / peak_bytes), above 1 we are better; min and max: its spread
    rounds        that the ratio is of; doubt: why it is not to be trusted, and left out of plots and means; busy: share of CPU time that was others'
    gflops        our rate [GFLOP/s]; gbytes: ours [GB/s]; intensity: flops a byte; share: of what the device's peak allows at this intensity
    peak_gflops, peak_gbytes  that peak, measured in this run by own kernels; roof_gbytes: where all bytes are in a cache, that of the cache
    counted       which products are counted that nobody makes: those of a direct convolution where the kernel is Winograd's
    made          share of the counted products that are made, then
    launches      kernels a step; kernel_bytes: what they read and write a step; peak_bytes: our buffers' peak while the work was prepared and ran
    tuning        the entries of tuning tables that shaped our kernels, or "rules"
    error, peer_error  ours and the peer's, of the suite accuracy; bound: what ours may be
    machine       the device in words
    failed        the work broke, why is in the note; or its error is above the bound
    """

    suite: str
    work: str
    dtype: str
    device: str
    peer: str
    ours_ms: float | None = None
    peer_ms: float | None = None
    ratio: float | None = None
    min: float | None = None
    max: float | None = None
    rounds: int | None = None
    doubt: str = ""
    busy: float | None = None
    arithmetic: str = ARITHMETIC
    threads: int | None = None
    gflops: float | None = None
    gbytes: float | None = None
    intensity: float | None = None
    share: float | None = None
    peak_gflops: float | None = None
    peak_gbytes: float | None = None
    roof_gbytes: float | None = None
    counted: str = ""
    made: float | None = None
    launches: int | None = None
    kernel_bytes: int | None = None
    peak_bytes: int | None = None
    peer_bytes: int | None = None
    error: float | None = None
    peer_error: float | None = None
    bound: float | None = None
    tuning: str = ""
    note: str = ""
    failed: bool = False
    machine: str = ""

    @property
    def remarks(self) -> str:
        """All that is to be said of the row."""
        found = [self.note, f"not to be trusted: {self.doubt}" if self.doubt else "", f"counted {self.counted}" if self.counted else ""]
        found.append(f"others took {self.busy:.0%} of the CPU time" if self.busy and self.busy > BUSY else "")
        return "; ".join(filter(None, found))


def roof(rows: Sequence[Row]) -> tuple[float, float]:
    """The highest (GFLOP/s, GB/s) that the rows' runs measured, 0 where none did: rows of several runs share a roof."""
    return max((r.peak_gflops or 0.0 for r in rows), default=0.0), max((r.peak_gbytes or 0.0 for r in rows), default=0.0)


def command(options: Mapping[str, Any]) -> str:
    """The call of `clnet bench` with those options that were given, as a shell takes it."""
    given = {name: value.as_posix() if isinstance(value, Path) else str(value) for name, value in options.items() if value}
    return " ".join(["clnet bench", *(name if options[name] is True else f"{name} {shlex.quote(value)}" for name, value in given.items())])


def as_dicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [asdict(r) for r in rows]


def shown(r: Row) -> dict[str, Any]:
    """A row as it stands in tables."""
    if r.suite == "memory":
        return _memory(r)
    if r.suite == "accuracy":
        return _accuracy(r)
    spread = "" if r.min is None else f"{r.min:.2f} to {r.max:.2f}"
    cells: dict[str, Any] = {"suite": r.suite, "work": r.work, "device": r.device, "peer": r.peer, "ours [ms]": number(r.ours_ms, ".3f"),
                             "peer [ms]": number(r.peer_ms, ".3f"), "ratio": number(r.ratio, ".2f"), "spread": spread}
    if r.suite == "startup":
        return cells | {"threads": r.threads, "note": r.remarks}
    cells |= {"GFLOP/s": number(r.gflops, ".1f"), "GB/s": number(r.gbytes, ".1f"), "share": number(r.share, ".2f")}
    cells |= {} if r.suite == "ops" else {"launches": number(r.launches, "d"), "kernels' MB": number(r.kernel_bytes, ".1f", 1e6),
                                          "peak MB": number(r.peak_bytes, ".1f", 1e6)}
    return cells | {"arithmetic": r.arithmetic, "threads": r.threads, "tuning": r.tuning, "note": r.remarks}


def _memory(r: Row) -> dict[str, Any]:
    return {"suite": r.suite, "work": r.work, "device": r.device, "measured [MB]": number(r.peak_bytes, ".2f", 1e6), "against": r.peer,
            "its [MB]": number(r.peer_bytes, ".2f", 1e6), "ratio": number(r.ratio, ".3f"), "note": r.remarks}


def _accuracy(r: Row) -> dict[str, Any]:
    return {"suite": r.suite, "work": r.work, "device": r.device, "arithmetic": r.arithmetic, "error": number(r.error, ".2e"), "against": r.peer,
            "its error": number(r.peer_error, ".2e"), "bound": number(r.bound, ".2e"), "note": r.remarks}


def number(x: float | None, form: str, unit: float = 1) -> str:
    """x in units of `unit` as text, "" for None."""
    return "" if x is None else format(x if unit == 1 else x / unit, form)


def kind_of(key: str) -> str:
    """CPU or GPU: what the device of that key is here, or what one of that name is anywhere."""
    from ..engine.device import devices

    known = {d.key: d.kind.upper() for d in devices()}
    return known.get(key) or ("CPU" if key.rstrip("0123456789") in HOSTS else "GPU")


def legend(suite: str, rows: Sequence[Row], more: str) -> str:
    """What the columns of a suite are; rows of earlier runs, which do not say of how many rounds they are, have ratios of another kind."""
    earlier = any(r.ratio for r in rows) and all(r.rounds is None for r in rows)
    return LEGENDS.get(suite) or f"{EARLIER if earlier else RATIO} {more}"


def sections(rows: Sequence[Row]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """(title, legend, shown rows): CPU and GPU are never in one table, nor are suites."""
    kinds = {key: kind_of(key) for key in {r.device for r in rows}}
    found: dict[tuple[str, str], list[Row]] = {}
    for r in rows:
        found.setdefault((kinds[r.device], r.suite), []).append(r)
    return [(f"{kind}: {suite}", legend(suite, some, SHARE), [shown(r) for r in some]) for (kind, suite), some in found.items()]
