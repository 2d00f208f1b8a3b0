"""Times ops and training steps against NumPy and PyTorch: in one run, interleaved, equal threads, equal arithmetic."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..engine import on
from ..engine.reference import NumpyEngine
from . import peers, tables
from .peers import Run, Torch

ROUNDS, QUICK_ROUNDS = 7, 3
SAMPLE = 0.03  # [s] a sample repeats a call until it is this long, or once
PAUSE = 0.15  # [s] OpenBLAS threads spin for about 0.1 s after a product and would take a core from whoever comes next
PATIENCE = 6.0  # [s] a peer that has used this much is not run again in later rounds
ARITHMETIC = "float32"
RATIO = "ratio: the peer's time / our time, above 1 we are faster; median, and the spread over the rounds. One run, interleaved, equal threads."


@dataclass(frozen=True)
class Work:
    """Something to time. `ours(engine)` and `torch(peer)` prepare it and give a call that starts one run of it.

    needs   what is missing for it here, if anything; then there is a row that says so in place of times
    arithmetic  of products and sums, on both sides
    """

    suite: str
    name: str
    ours: Callable[[Any], Run]
    torch: Callable[[Torch], Run] | None
    quick: bool = False
    needs: str = ""
    arithmetic: str = ARITHMETIC


@dataclass(frozen=True)
class Row:
    """One comparison. ratio: peer_ms / ours_ms, above 1 we are faster; min and max: the ratio's spread over the rounds."""

    suite: str
    work: str
    dtype: str
    device: str
    peer: str
    ours_ms: float | None
    peer_ms: float | None
    ratio: float | None
    min: float | None
    max: float | None
    arithmetic: str = ARITHMETIC
    threads: int | None = None
    note: str = ""


@dataclass
class Contender:
    """Someone who runs a work; `samples` in seconds a call."""

    name: str
    call: Run
    finish: Callable[[], None]
    repeats: int = 1
    samples: list[float] = field(default_factory=list)

    def warm(self) -> None:
        """The first call compiles; a sample then tells how often to repeat."""
        self.call()
        self.finish()
        self.repeats = max(1, int(SAMPLE / max(self.sample(1), 1e-6)))

    def sample(self, repeats: int) -> float:
        """Seconds a call, over some calls and the wait for them; after a pause, in which the others' threads stop spinning, and a call."""
        time.sleep(PAUSE)
        self.call()
        self.finish()
        start = time.perf_counter()
        for _ in range(repeats):
            out = self.call()
        self.finish()
        seconds = (time.perf_counter() - start) / repeats
        del out
        return seconds


def contenders(work: Work, engine: Any, torch: Torch | None, numpy: bool = True) -> list[Contender]:
    """We first, then the peers, warmed."""
    found = [Contender("clnet", _within(engine, work.ours(engine)), getattr(engine, "finish", _nothing))]
    if numpy and hasattr(engine, "transfers"):
        host = NumpyEngine("float32")
        found.append(Contender("numpy", _within(host, work.ours(host)), _nothing))
    if torch and work.torch:
        found.append(Contender(torch.name, work.torch(torch), torch.finish))
    for c in found:
        c.warm()
    return found


def _nothing() -> None:
    pass


def _within(engine: Any, call: Run) -> Run:
    def run() -> Any:
        with on(engine):
            return call()

    return run


def compare(work: Work, engine: Any, torch: Torch | None, rounds: int, threads: int, numpy: bool = True) -> list[Row]:
    """Rows of a work, one a peer: all take a sample in turn, so that a busy moment hits all alike."""
    if work.needs:
        return [Row(work.suite, work.name, ARITHMETIC, engine.device.key, "", None, None, None, None, None, threads=threads, note=work.needs)]
    everyone = contenders(work, engine, torch, numpy)
    for _ in range(rounds):
        for c in everyone:
            # A slow peer's spread is worth less than the wait for it; its samples so far stand.
            if not c.samples or sum(c.samples) * c.repeats < PATIENCE or c is everyone[0]:
                c.samples.append(c.sample(c.repeats))
    ours = everyone[0]
    return [_row(work, engine, ours, c, threads) for c in everyone[1:]]


def _row(work: Work, engine: Any, ours: Contender, peer: Contender, threads: int) -> Row:
    mine, theirs = statistics.median(ours.samples), statistics.median(peer.samples)
    spread = [p / o for o, p in zip(ours.samples, peer.samples, strict=False)]
    return Row(work.suite, work.name, ARITHMETIC, engine.device.key, peer.name, round(mine * 1e3, 5), round(theirs * 1e3, 5),
               round(theirs / mine, 4), round(min(spread), 4), round(max(spread), 4), work.arithmetic, threads=threads,
               note="" if len(peer.samples) == len(ours.samples) else f"{len(peer.samples)} of {len(ours.samples)} rounds")


def works(suite: str = "all", quick: bool = False, only: str = "") -> list[Work]:
    """The suites' works, the small ones with `quick`."""
    from . import bench_matmul, bench_ops, bench_steps

    found: list[Work] = []
    if suite in ("ops", "all"):
        found += bench_ops.works()
    if suite in ("steps", "all"):
        found += bench_steps.works()
    if suite == "matmul":  # not in "all": sizes for GPUs
        found += bench_matmul.works()
    return [w for w in found if (w.quick or not quick) and only.lower() in w.name.lower()]


def run(engine: Any, suite: str = "all", *, quick: bool = False, only: str = "", progress: bool = True) -> list[Row]:
    """All rows; a work that fails is a row that says why."""
    return [row for rows in iterate(engine, suite, quick=quick, only=only, progress=progress) for row in rows]


def iterate(engine: Any, suite: str, *, quick: bool, only: str, progress: bool = True) -> Iterator[list[Row]]:
    """The rows of one work after the other."""
    from tqdm.auto import tqdm

    torch = peers.torch_for(engine.device)
    with peers.equal_threads(engine.device, torch) as threads, tqdm(works(suite, quick, only), desc=f"bench {engine.device.key}", disable=not progress) as bar:
        for work in bar:
            bar.set_postfix_str(work.name[:32].ljust(32))
            numpy = work.suite == "ops" or not (quick or work.suite == "matmul")
            try:
                yield compare(work, engine, torch, QUICK_ROUNDS if quick else ROUNDS, threads, numpy=numpy)
            except Exception as error:  # the other works are still worth their times
                yield [Row(work.suite, work.name, ARITHMETIC, engine.device.key, "", None, None, None, None, None, threads=threads,
                           note=f"{type(error).__name__}: {' '.join(str(error).split())[:160]}")]


def busy() -> str:
    """A warning if the machine has other work, seen while we sleep (Linux): threads that wait for each other make ratios chance."""
    try:
        before = _ticks()
        time.sleep(0.4)
        after = _ticks()
    except (OSError, ValueError):
        return ""
    total, idle = sum(after) - sum(before), after[3] + after[4] - before[3] - before[4]
    share = 1 - idle / max(1, total)
    return f"The machine was busy with other work ({share:.0%} of its CPU time): these ratios are not to be trusted." if share > 0.2 else ""


def _ticks() -> list[int]:
    """Clock ticks of all CPUs: user, nice, system, idle, waiting for disks, ..."""
    return [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]


def as_dicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [asdict(r) for r in rows]


def markdown(rows: Sequence[Row]) -> str:
    """A table a kind of device: CPU and GPU are never in one."""
    from ..engine.device import devices

    kinds = {d.key: d.kind.upper() for d in devices()}
    parts = []
    for kind in dict.fromkeys(kinds.get(r.device, "?") for r in rows):
        some = [r for r in rows if kinds.get(r.device, "?") == kind]
        parts.append(f"### {kind}\n\n{RATIO}\n\n" + tables.markdown(shown(r) for r in some))
    return "\n\n".join(parts)


def shown(r: Row) -> dict[str, Any]:
    """A row as it stands in tables."""
    def number(x: float | None, form: str) -> str:
        return "" if x is None else format(x, form)

    spread = "" if r.min is None else f"{r.min:.2f} to {r.max:.2f}"
    return {"suite": r.suite, "work": r.work, "device": r.device, "peer": r.peer, "ours [ms]": number(r.ours_ms, ".3f"), "peer [ms]": number(r.peer_ms, ".3f"),
            "ratio": number(r.ratio, ".2f"), "spread": spread, "arithmetic": r.arithmetic, "threads": r.threads, "note": r.note}


def pictures(rows: Sequence[Row]) -> dict[str, bytes]:
    """PNG bars of the ratios, one picture a device and peer."""
    from . import plots

    out = {}
    for device, peer in dict.fromkeys((r.device, r.peer) for r in rows if r.ratio):
        some = [r for r in rows if (r.device, r.peer) == (device, peer) and r.ratio]
        out[f"{device}-{peer}"] = plots.ratios([r.work for r in some], [float(r.ratio or 1) for r in some], f"{device} against {peer}")
    return out


def main(engine: Any, suite: str, *, quick: bool = False, only: str = "", json_file: Path | None = None, plots: Path | None = None) -> int:
    """Prints the tables, writes JSON and pictures. Exit status 1 if a work failed or none matched."""
    warning = busy()
    rows = run(engine, suite, quick=quick, only=only)
    if not rows:
        print(f"bench: no work's name contains {only!r}", file=sys.stderr)
        return 1
    print("\n\n".join(filter(None, [warning, markdown(rows)])))
    if json_file:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text("[\n" + ",\n".join(json.dumps(r) for r in as_dicts(rows)) + "\n]\n", encoding="utf-8")
    if plots:
        from . import page

        plots.mkdir(parents=True, exist_ok=True)
        for name, png in pictures(rows).items():
            (plots / f"bench-{page.file_name(name)}.png").write_bytes(png)
    return int(any(r.ours_ms is None and not r.note.startswith("needs ") for r in rows))


