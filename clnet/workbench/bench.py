"""`clnet bench`: ops, training steps, memory, start-up and scaling against NumPy, PyTorch and tinygrad; one run, interleaved, equal threads."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..engine import peak
from ..errors import ConfigError
from ..names import ending
from . import bench_before, peers, terminal
from .bench_compare import Setting, Work
from .bench_plots import pictures
from .bench_row import Row, as_dicts, command, markdown, roof, sections

__all__ = ["SUITES", "Row", "Work", "as_dicts", "busy", "iterate", "main", "markdown", "pictures", "run", "works"]


def _ops() -> list[Any]:
    from . import bench_ops

    return list(bench_ops.works())


def _steps(gpu: bool = False, precision: str = "") -> list[Any]:
    from . import bench_steps

    return list(bench_steps.works(gpu, precision))


def _memory() -> list[Any]:
    from . import bench_memory

    return list(bench_memory.works())


def _startup() -> list[Any]:
    from . import bench_startup

    return [bench_startup.FirstStep()]


def _scaling() -> list[Any]:
    from . import bench_scaling

    return list(bench_scaling.works())


def _matmul() -> list[Any]:
    from . import bench_matmul

    return list(bench_matmul.works())


def _conv() -> list[Any]:
    from . import bench_conv

    return list(bench_conv.works())


def _bandwidth() -> list[Any]:
    from . import bench_bandwidth

    return list(bench_bandwidth.works())


def _accuracy() -> list[Any]:
    from . import bench_accuracy

    return list(bench_accuracy.works())


def _attention() -> list[Any]:
    from . import bench_attention

    return list(bench_attention.works())


APART = {"matmul": _matmul, "conv": _conv, "attention": _attention, "bandwidth": _bandwidth, "accuracy": _accuracy}  # not in "all": sizes for GPUs
SUITES: dict[str, Callable[[], list[Any]]] = {"ops": _ops, "steps": _steps, "memory": _memory, "startup": _startup, "scaling": _scaling}


def works(suite: str = "all", quick: bool = False, only: str = "", gpu: bool = False, precision: str = "") -> list[Any]:
    """The suites' works, the small ones with `quick`; steps at the sizes of GPUs with `gpu`. Each has `suite`, `name` and `rows(setting)`.

    precision   of the steps, on all sides: a name of clnet.autocast, "" for float32. ConfigError with other suites
    """
    if precision and suite != "steps":
        raise ConfigError(f"bench: expected --suite steps with --precision {precision}; got {suite}; only training steps have one for all.")
    makers: dict[str, Callable[[], list[Any]]] = {**SUITES, **APART, "steps": functools.partial(_steps, gpu, precision)}
    found = [w for name, make in makers.items() if suite == name or (suite == "all" and name in SUITES) for w in make()]
    return [w for w in found if (w.quick or not quick) and only.lower() in w.name.lower()]


def run(engine: Any, suite: str = "all", *, quick: bool = False, only: str = "", precision: str = "", progress: bool = True) -> list[Row]:
    """All rows; a work that fails is a row that says why."""
    return [row for rows in iterate(engine, suite, quick=quick, only=only, precision=precision, progress=progress) for row in rows]


def iterate(engine: Any, suite: str, *, quick: bool, only: str, precision: str = "", progress: bool = True) -> Iterator[list[Row]]:
    """The rows of one work after the other."""
    todo = works(suite, quick, only, engine.device.kind == "gpu", precision)
    torch = peers.torch_for(engine.device)
    # tinygrad compiles for half a minute.
    tinygrad = peers.tinygrad_for(engine.device) if any(getattr(w, "tinygrad", None) for w in todo) and not quick and hasattr(engine, "pool") else ""
    roof = peak.measure(engine) if hasattr(engine, "pool") and todo else None
    with peers.equal_threads(engine.device, torch) as threads, terminal.bar(todo, desc=f"bench {engine.device.key}", progress=progress) as bar:
        setting = Setting(engine, torch or "not installed", tinygrad, quick, threads, roof)
        for work in bar:
            bar.set_postfix_str(work.name[:32].ljust(32))
            try:
                yield work.rows(setting)
            except Exception as error:  # the other works are still worth their times
                yield [setting.row(work.suite, work.name, note=f"{type(error).__name__}: {' '.join(str(error).split())[:160]}", failed=True)]


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


def report(rows: Sequence[Row], device: Any, made: str, folder: Path, body: str, warning: str = "") -> str:
    """The whole as Markdown: what it is of, pictures, which lie in `folder`, and the body's tables."""
    from . import page, tables

    gflops, gbytes = roof(rows)
    peak = f" Measured peak: {gflops:.0f} GFLOP/s (float32 multiply-adds), {gbytes:.1f} GB/s (triad)." if gflops else ""
    lead = f"{device.name}, {device.compute_units} compute units, {device.platform}, driver {device.driver}.{peak} {_peers(rows)}"
    images = [f"![{tables.cell(name)}]({(folder / file).as_posix()})" for name, file in ((n, f"bench-{page.file_name(n)}.png") for n in pictures(rows))]
    return "\n\n".join(filter(None, [tables.header("Benchmarks", made), lead, warning, *images, body])) + "\n"


def _peers(rows: Sequence[Row]) -> str:
    found = ", ".join(dict.fromkeys(r.peer for r in rows if r.peer_ms))
    return f"Against {found}; each with {rows[0].threads} threads." if found else ""


def main(engine: Any, suite: str, *, quick: bool = False, only: str = "", json_file: Path | None = None, plots: Path | None = None,
         report_file: Path | None = None, precision: str = "", before: Path | None = None) -> int:
    """Prints the tables, writes JSON, pictures and the report. Exit status 1 if a work failed; ConfigError if there is none of the name."""
    earlier = bench_before.read(before) if before else None
    warning = busy()
    rows = run(engine, suite, quick=quick, only=only, precision=precision)
    if not rows:
        names = [n for w in works(suite, gpu=engine.device.kind == "gpu", precision=precision) for n in (w.name, *w.name.split())]
        raise ConfigError(f"bench: expected --only with a part of the name of a work of --suite {suite}; got {only!r}{ending(only, names)}")
    body = "\n\n".join([markdown(rows), *([] if earlier is None else [bench_before.markdown(rows, earlier)])])
    show(rows, earlier, warning)
    if json_file:
        terminal.save_json(as_dicts(rows), json_file)
    folder = plots or (report_file.parent if report_file else None)
    if folder:
        _draw(rows, folder)
    if report_file and folder:
        made = command({"--suite": suite, "--quick": quick, "--only": only, "--precision": precision, "--before": before, "--json": json_file,
                        "--plots": plots, "--report": report_file, "--device": engine.device.key})
        report_file.write_text(report(rows, engine.device, made, Path(os.path.relpath(folder, report_file.parent)), body, warning), encoding="utf-8")
    return int(any(r.failed for r in rows))


LESS = ("tuning", "threads", "arithmetic", "device", "suite", "kernels' MB", "GB/s", "GFLOP/s", "peak MB", "launches", "share", "spread")


def show(rows: Sequence[Row], earlier: list[dict[str, Any]] | None = None, warning: str = "") -> None:
    """The tables in the terminal."""
    found = [*sections(rows), *([] if earlier is None else [("Before and now", bench_before.LEGEND, bench_before.lines(rows, earlier))])]
    for title, legend, some in found:
        terminal.table(some, title=title, less=LESS, notes="note", by="work", whole="all of it: --json FILE, --report FILE.md")
        terminal.say(legend + "\n", "dim")
    if warning:
        terminal.say(warning, "bold yellow")


def _draw(rows: Sequence[Row], folder: Path) -> None:
    from . import page

    folder.mkdir(parents=True, exist_ok=True)
    for name, png in pictures(rows).items():
        (folder / f"bench-{page.file_name(name)}.png").write_bytes(png)
