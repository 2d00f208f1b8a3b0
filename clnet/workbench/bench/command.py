"""`clnet bench`: ops, training steps, memory, start-up and scaling against NumPy, PyTorch, JAX and tinygrad;
one run, interleaved, equal threads.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...engine.device import roof as peak
from ...engine.device.roof import Peak
from ...errors import ConfigError
from ...names import ending
from .. import page, tables, terminal
from . import before as bench_before
from . import peers, suites
from . import report as bench_report
from .columns import absent, sections
from .compare import Setting
from .plots import pictures
from .row import Row, as_dicts, command
from .suites import Measurable
from .trust import settled, settled_before

if TYPE_CHECKING:
    from ...engine.protocol import Engine


def works(suite: str = "all", quick: bool = False, only: str = "", gpu: bool = False,
          precision: str = "") -> list[Measurable]:
    """The works of a suite, or of `suites.ALL`; the small ones with `quick`, steps at the sizes of GPUs with `gpu`.

    precision   of the steps, on all sides: a name of clnet.autocast, "" for float32. ConfigError with other suites
    """
    chosen = [suites.find(name) for name in (suites.ALL if suite == "all" else (suite,))]
    if precision and not all(s.sized for s in chosen):
        raise ConfigError(
            f"bench: expected --suite steps with --precision {precision}; got {suite}; "
            "only training steps have one for all.")
    found = [w for s in chosen for w in s.of(gpu, precision)]
    return [w for w in found if (w.quick or not quick) and only.lower() in w.name.lower()]


def run(engine: Engine, suite: str = "all", *, quick: bool = False, only: str = "", precision: str = "",
        progress: bool = True) -> list[Row]:
    """All rows; a work that fails is a row that says why.
    The roof is the best of what was measured before, after, and reached between.
    """
    roofs: list[Peak] = []
    found = [row for rows in iterate(engine, suite, quick=quick, only=only, precision=precision, progress=progress,
                                     roofs=roofs) for row in rows]
    return settled(found, functools.reduce(Peak.raised, roofs) if roofs else None)


def iterate(engine: Engine, suite: str, *, quick: bool, only: str, precision: str = "", progress: bool = True,
            roofs: list[Peak]) -> Iterator[list[Row]]:
    """The rows of one work after the other; `roofs` gets what the device reaches before and after them."""
    todo = works(suite, quick, only, engine.device.is_gpu, precision)
    torch = peers.torch_for(engine.device)
    compiling = not quick and not engine.device.is_host
    wanted = {name: compiling and any(getattr(w, name, None) for w in todo) for name in ("tinygrad", "jax")}
    tinygrad = peers.tinygrad_for(engine.device) if wanted["tinygrad"] else ""  # which compiles for half a minute
    jax = peers.jax_for(engine.device) if wanted["jax"] else ""
    _measure(engine, todo, roofs)
    with (peers.equal_threads(engine.device, torch) as threads,
          terminal.bar(todo, desc=f"bench {engine.device.key}", progress=progress) as bar):
        setting = Setting(engine, torch or "not installed", tinygrad, quick, threads, roofs[0] if roofs else None, jax)
        for work in bar:
            bar.set_postfix_str(work.name[:32].ljust(32))
            try:
                yield work.rows(setting)
            except Exception as error:  # the other works are still worth their times
                yield [setting.row(work.suite, work.name,
                                   note=f"{type(error).__name__}: {' '.join(str(error).split())[:160]}", failed=True)]
    _measure(engine, todo, roofs)


def _measure(engine: Engine, todo: Sequence[Measurable], roofs: list[Peak]) -> None:
    if todo and not engine.device.is_host and (found := peak.measure(engine)):
        roofs.append(found)


def main(engine: Engine, suite: str, *, quick: bool = False, only: str = "", json_file: Path | None = None,
         plots: Path | None = None, report_file: Path | None = None, precision: str = "",
         before: Path | None = None) -> int:
    """Prints the tables, writes JSON, pictures and the report. Exit status 1 if a work failed; ConfigError if there is
    none of the name.
    """
    earlier = bench_before.read(before) if before else None
    rows = run(engine, suite, quick=quick, only=only, precision=precision)
    if not rows:
        raise _nothing(engine, suite, quick, only, precision)
    show(rows, earlier)
    if json_file:
        terminal.save_json(as_dicts(rows), json_file)
    made = command({"--suite": suite, "--quick": quick, "--only": only, "--precision": precision, "--before": before,
                    "--json": json_file, "--plots": plots, "--report": report_file, "--device": engine.device.key})
    more = "" if earlier is None else bench_before.markdown(rows, earlier)
    report(rows, made, report_file, plots, json_file, more)
    return int(any(r.failed for r in rows))


def _nothing(engine: Engine, suite: str, quick: bool, only: str, precision: str) -> ConfigError:
    """Why a suite gave no rows."""
    gpu = engine.device.is_gpu
    if found := [w.name for w in works(suite, quick, only, gpu, precision)]:
        return ConfigError(f"bench: expected a work of --suite {suite} that is for {engine.device.key}; "
                           f"got {found[0]!r}, which is for other devices; choose one with --device.")
    names = [n for w in works(suite, gpu=gpu, precision=precision) for n in (w.name, *w.name.split())]
    return ConfigError(f"bench: expected --only with a part of the name of a work of --suite {suite}; "
                       f"got {only!r}{ending(only, names)}")


def again(files: Sequence[Path], plots: Path | None, report_file: Path | None) -> int:
    """Prints the tables of earlier runs, and makes their report and pictures. Nothing is timed."""
    rows = settled_before(bench_report.read(files))
    show(rows)
    report(rows, command({"--from": files, "--plots": plots, "--report": report_file}), report_file,
           plots, files[0])
    return 0


def report(rows: Sequence[Row], made: str, file: Path | None, plots: Path | None, source: Path | None,
           more: str = "") -> None:
    """Writes the pictures, and the report; in one that holds the block of these rows (`source`), that block alone."""
    folder = plots or (file.parent if file else None)
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    images = {}
    for name, png in pictures(rows).items():
        path = folder / f"bench-{page.file_name(name)}.png"
        path.write_bytes(png)
        images[name] = Path(os.path.relpath(path, file.parent if file else folder)).as_posix()
    if file:
        bench_report.write(file, f"rows of {source.stem if source else 'clnet bench'}", ["# Benchmarks"],
                           bench_report.block(rows, images, tables.made(made), more))


def frame(rows: Sequence[Row]) -> Any:
    """The rows for notebooks: a pandas DataFrame of numbers, whose columns say their units."""
    import pandas as pd

    names = {"work": "work", "peer": "peer", "ours_ms": "ours [ms]", "peer_ms": "peer [ms]", "reported": "ratio",
             "min": "least ratio", "max": "largest ratio", "rounds": "rounds", "gflops": "GFLOP/s", "gbytes": "GB/s"}
    cells = [{**{title: getattr(r, name) for name, title in names.items()}, "note": r.remarks} for r in rows]
    return pd.DataFrame(cells, columns=[*names.values(), "note"]).dropna(axis="columns", how="all")


LESS = ("tuning", "threads", "arithmetic", "device", "suite", "kernels' MB", "GB/s", "GFLOP/s", "peak MB", "launches",
        "share", "spread")


def show(rows: Sequence[Row], earlier: list[dict[str, Any]] | None = None) -> None:
    """The tables in the terminal."""
    found = [*sections(rows),
             *([] if earlier is None else [("Before and now", bench_before.LEGEND, bench_before.lines(rows, earlier))])]
    for title, legend, some in found:
        terminal.table(some, title=title, less=LESS, notes="note", by="work",
                       whole="all of it: --json FILE, --report FILE.md")
        terminal.say(legend + "\n", "dim")
    if gone := absent(rows):
        terminal.say(f"Left out: {'; '.join(f'{peer} ({why})' for peer, why in gone.items())}.")
    if warning := bench_report.busy(rows):
        terminal.say(warning, "bold yellow")
