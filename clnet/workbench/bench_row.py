"""A row of the bench, and rows as tables."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import tables

ARITHMETIC = "float32"
RATIO = "ratio: the peer's time / our time, above 1 we are faster; median, and the spread over the rounds. One run, interleaved, equal threads."
BYTES = "ratio: the peer's bytes / our measured peak. forecast: what `model.summary()` says before anything runs. PyTorch: the peak of its allocator."
STARTUP = "From the first import to the end of the first training step, in a process of its own; programs compiled before. ratio: the peer's time / ours."
SHARE = "share: our rate / what the device's measured peak allows at this many flops a byte; above 1 where caches serve what is counted as memory."
ERRORS = ("error: of products |result - float64| / |float64|, Frobenius norms over rows spread over the result; of losses the largest difference. "
          "bound: what ours may be.")
LEGENDS = {"memory": BYTES, "startup": STARTUP, "accuracy": ERRORS}


@dataclass(frozen=True)
class Row:
    """One comparison. Times are medians.

    ratio         peer_ms / ours_ms (memory: peer_bytes / peak_bytes), above 1 we are better; min and max: its spread over the rounds
    gflops        our rate [GFLOP/s]; gbytes: ours [GB/s]; intensity: flops a byte; share: of what the device's peak allows at this intensity
    peak_gflops, peak_gbytes  that peak, measured in this run by own kernels
    launches      kernels a step; kernel_bytes: what they read and write a step; peak_bytes: our buffers' peak while the work was prepared and ran
    tuning        the entries of tuning tables that shaped our kernels, or "rules"
    error, peer_error  ours and the peer's, of the suite accuracy; bound: what ours may be
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
    arithmetic: str = ARITHMETIC
    threads: int | None = None
    gflops: float | None = None
    gbytes: float | None = None
    intensity: float | None = None
    share: float | None = None
    peak_gflops: float | None = None
    peak_gbytes: float | None = None
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
    cells: dict[str, Any] = {"suite": r.suite, "work": r.work, "device": r.device, "peer": r.peer, "ours [ms]": _number(r.ours_ms, ".3f"),
                             "peer [ms]": _number(r.peer_ms, ".3f"), "ratio": _number(r.ratio, ".2f"), "spread": spread}
    if r.suite == "startup":
        return cells | {"threads": r.threads, "note": r.note}
    cells |= {"GFLOP/s": _number(r.gflops, ".1f"), "GB/s": _number(r.gbytes, ".1f"), "share": _number(r.share, ".2f")}
    cells |= {} if r.suite == "ops" else {"launches": _number(r.launches, "d"), "kernels' MB": _number(r.kernel_bytes, ".1f", 1e6),
                                          "peak MB": _number(r.peak_bytes, ".1f", 1e6)}
    return cells | {"arithmetic": r.arithmetic, "threads": r.threads, "tuning": r.tuning, "note": r.note}


def _memory(r: Row) -> dict[str, Any]:
    return {"suite": r.suite, "work": r.work, "device": r.device, "measured [MB]": _number(r.peak_bytes, ".2f", 1e6), "against": r.peer,
            "its [MB]": _number(r.peer_bytes, ".2f", 1e6), "ratio": _number(r.ratio, ".3f"), "note": r.note}


def _accuracy(r: Row) -> dict[str, Any]:
    return {"suite": r.suite, "work": r.work, "device": r.device, "arithmetic": r.arithmetic, "error": _number(r.error, ".2e"), "against": r.peer,
            "its error": _number(r.peer_error, ".2e"), "bound": _number(r.bound, ".2e"), "note": r.note}


def _number(x: float | None, form: str, unit: float = 1) -> str:
    return "" if x is None else format(x if unit == 1 else x / unit, form)


def sections(rows: Sequence[Row]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """(title, legend, shown rows): CPU and GPU are never in one table, nor are suites."""
    from ..engine.device import devices

    kinds = {d.key: d.kind.upper() for d in devices()}
    found = dict.fromkeys((kinds.get(r.device, "?"), r.suite) for r in rows)
    return [(f"{kind}: {suite}", LEGENDS.get(suite, f"{RATIO} {SHARE}"),
             [shown(r) for r in rows if (kinds.get(r.device, "?"), r.suite) == (kind, suite)]) for kind, suite in found]


def markdown(rows: Sequence[Row]) -> str:
    """A table a kind of device and suite."""
    return "\n\n".join(f"### {title}\n\n{legend}\n\n{tables.markdown(some)}" for title, legend, some in sections(rows))
