"""A row of the bench."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..cores import slow

ARITHMETIC = "float32"
BUSY = 0.2  # share of the CPU time that was others': beyond, ratios are not reported


@dataclass(frozen=True)
class Row:
    """One comparison. Times are medians.

    ratio         median of the rounds' peer's time / ours (memory: peer_bytes / peak_bytes), above 1 we are better; min
                  and max: its spread
    rounds        that the ratio is of; doubt: why it is not to be trusted; busy: share of CPU time that was others'.
                  Such a ratio is kept in the file and reported nowhere (`unfit`)
    pace          the share of their best pace at which all cores worked, ours or the peer's, the less of the medians of
                  the samples
    gflops        our rate [GFLOP/s]; gbytes: ours [GB/s]; intensity: flops a byte; share: of what the device's peak
                  allows at this intensity
    peak_gflops, peak_gbytes  that peak, measured in this run by own kernels; roof_gbytes: where all bytes are in a
                              cache, that of the cache
    counted       which products are counted that nobody makes: those of a direct convolution where the kernel is
                  Winograd's
    made          share of the counted products that are made, then
    launches      kernels a step; kernel_bytes: what they read and write a step; peak_bytes: our buffers' peak while the
                  work was prepared and ran
    steady_ms, peer_steady_ms  of the same shape when it is not new; built: programs, while the row was measured
    pool_before, pool_after    our buffers in use at both ends of it
    tuning        the entries of tuning tables that shaped our kernels, or "rules"
    error, peer_error  ours and the peer's, of the suite accuracy; bound: what ours may be
    machine       the device in words
    ours_min, ours_max  the least and the largest of the rounds that ours_ms is the median of
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
    pace: float | None = None
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
    steady_ms: float | None = None
    peer_steady_ms: float | None = None
    built: int | None = None
    pool_before: int | None = None
    pool_after: int | None = None
    error: float | None = None
    peer_error: float | None = None
    bound: float | None = None
    tuning: str = ""
    note: str = ""
    failed: bool = False
    machine: str = ""
    ours_min: float | None = None
    ours_max: float | None = None

    @property
    def unfit(self) -> str:
        """Why the ratio is not reported, in the word that stands in its place; "" where it is."""
        return "busy" if (self.busy or 0.0) > BUSY else "doubted" if self.doubt else ""

    @property
    def reported(self) -> float | None:
        """The ratio; None where there is none or it is not to be reported."""
        return None if self.unfit else self.ratio

    @property
    def remarks(self) -> str:
        """All that is to be said of the row."""
        found = [self.note, f"not to be trusted: {self.doubt}" if self.doubt else "",
                 f"counted {self.counted}" if self.counted else ""]
        found.append(f"others took {self.busy:.0%} of the CPU time" if self.busy and self.busy > BUSY else "")
        found.append(slow(self.pace))
        return "; ".join(filter(None, found))


def roof(rows: Sequence[Row]) -> tuple[float, float]:
    """The highest (GFLOP/s, GB/s) that the rows' runs measured, 0 where none did: rows of several runs share a roof."""
    return (max((r.peak_gflops or 0.0 for r in rows), default=0.0),
            max((r.peak_gbytes or 0.0 for r in rows), default=0.0))


def command(options: Mapping[str, str | Path | Sequence[Path] | bool | None]) -> str:
    """The call of `clnet bench` with those options that were given, as a shell takes it."""
    words = ["clnet bench"]
    for name, value in options.items():
        several = [value] if isinstance(value, (str, Path, bool)) else value or ()
        words += [name, *(shlex.quote(_text(v)) for v in several if v is not True)] if value else []
    return " ".join(words)


def _text(value: str | Path | bool) -> str:
    return value.as_posix() if isinstance(value, Path) else str(value)


def as_dicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [asdict(r) for r in rows]


def timed(r: Row) -> dict[str, object]:
    """What tables say of every work that is timed: who against whom, times, ratio."""
    return {"suite": r.suite, "work": r.work, "device": r.device, "peer": r.peer, "ours [ms]": number(r.ours_ms, ".3f"),
            "peer [ms]": number(r.peer_ms, ".3f"), "ratio": shown_ratio(r), "spread": spread(r)}


def shown_ratio(r: Row, form: str = ".2f") -> str:
    """The ratio; the word that stands in its place where it is not reported; "" where there is none."""
    return "" if r.ratio is None else r.unfit or number(r.ratio, form)


def spread(r: Row, form: str = ".2f") -> str:
    """From the least to the largest of the rounds' ratios; "" where they are not reported."""
    return "" if r.min is None or r.unfit else f"{r.min:{form}} to {r.max:{form}}"


def short(work: str) -> str:
    """The name of a work where there is little room."""
    return work.replace("forward and gradients", "with gradients")


def number(x: float | None, form: str, unit: float = 1) -> str:
    """x in units of `unit` as text, "" for None."""
    return "" if x is None else format(x if unit == 1 else x / unit, form)
