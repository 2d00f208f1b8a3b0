"""`clnet report`: trains, checks, compares, times and runs the notebooks, and files what came of it: a page a run, a
list of the runs, of the newest one Markdown and pictures.
"""

from __future__ import annotations

import os
import shlex
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..engine import on
from ..errors import ConfigError
from ..show import duration, plural
from ..train import examples
from . import filed, page, parity, plots, runs, since, tables, terminal
from .bench import command as bench
from .bench import plots as bench_plots
from .bench.plots import pictures
from .evidence import registry
from .marks import Mark
from .page import Section, Table
from .runs import Run
from .status import run as status
from .status import tables as status_tables
from .status.row import Row as StatusRow

if TYPE_CHECKING:
    from ..engine.device.devices import Device
    from ..engine.protocol import Engine

QUICK_NOTEBOOK = "00_tour"
TRAINED = ("mlp", "cnn", "lstm", "transformer")
QUICK_TRAINED = ("mlp", "cnn")
SKIPPED = ("fp16",)  # aspects that a quick report does not ask: as much compiling again as a fifth of the others
CURVES = {"loss": "cross entropy", "accuracy": "accuracy"}


def main(engine: Engine, folder: Path, *, quick: bool = False, keep: int = runs.KEEP, only: str | None = None,
         values: Mapping[str, Any] = MappingProxyType({})) -> int:
    """Writes the page of a run, its Markdown and the list of runs, and says where they are.
    Exit status 1 if a part failed; the other parts are there all the same.

    keep    runs that stay, the newest
    only    of the notebooks those whose name contains this, "none" for none (default: all, with `quick` the first)
    values  for notebooks that have parameters of these names
    """
    start = time.perf_counter()
    run = runs.started(engine.device, quick, command(quick, keep, only, values))
    only = only if only is not None else QUICK_NOTEBOOK if quick else ""
    books = filed.chosen(only, values)
    try:
        (folder / runs.FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"report: expected --folder with a folder to write into; got {folder}: {error.strerror}; "
                          "take another, or one in your home.") from None
    print(f"report: {run.machine}; written to {folder.resolve()}{os.sep}", file=sys.stderr)
    parts: list[tuple[str, Callable[[Any, bool], Section]]] = [("Training", training), ("Status", checked),
                                                               ("Parity", compared), ("Bench", timed)]
    if books:
        place = folder / runs.FOLDER / run.name
        parts.append(("Notebooks", lambda engine, quick: filed.filed(place, books, values, engine.device.key)))
    sections = []
    with on(engine):
        for name, part in parts:
            sections.append(attempt(name, part, engine, quick))
            print(f"report: {line(sections[-1])}", file=sys.stderr)
    said = verdict(engine.device, sections)
    page_of = write(folder, came_to(run, time.perf_counter() - start, sections), sections, said, engine.device, keep)
    for sentence in said:
        terminal.say(sentence)
    print(f"report: {page_of.resolve()}\nall runs: {(folder / runs.INDEX).resolve()}")
    return int(any(s.error for s in sections))


def command(quick: bool, keep: int, only: str | None, values: Mapping[str, Any]) -> str:
    """The call as it is typed, with what is not the default; not with its folder, which is of one machine."""
    return " ".join(["clnet report", *(["--quick"] if quick else []),
                     *([f"--keep {keep}"] if keep != runs.KEEP else []),
                     *([f"--notebooks {shlex.quote(only)}"] if only is not None else []),
                     *(f"--set {shlex.quote(f'{k}={v}')}" for k, v in values.items())])


def line(section: Section) -> str:
    """How a part ended."""
    ended = f"FAILED: {section.error}" if section.error else "ok"
    return f"{section.title}, {duration(section.seconds or 0.0)}: {ended}"


def came_to(run: Run, seconds: float, sections: Sequence[Section]) -> Run:
    """The run with what its parts came to."""
    rows = {s.title: list(s.rows) for s in sections}
    return replace(run, seconds=seconds, short={s.title: s.short for s in sections if s.short},
                   failed=[s.title for s in sections if s.error], status=rows.get("Status", []),
                   bench=rows.get("Bench", []),
                   pictures=[f"{page.file_name(p.heading)}.png" for s in sections for p in s.pictures])


def made(run: Run, sections: Sequence[Section]) -> list[str]:
    """How the report came to be, for its foot."""
    parts = ", ".join(f"{s.title.lower()} {duration(s.seconds or 0.0)}" for s in sections)
    return [f"Made by `{run.command}` in {duration(run.seconds)} ({parts}).",
            f"Device: {run.machine}; {run.driver}."]


def verdict(device: Device, sections: Sequence[Section]) -> list[str]:
    """On top: what holds on which device, what the training reached,
    how fast it is against whom. What failed is said of its part.
    """
    said = {s.title: s.verdict or (f"{s.title} failed: {s.error.rstrip('.')}." if s.error else "") for s in sections}
    checks = " ".join(filter(None, (said.get("Status"), said.get("Parity"))))
    where = f"On {tables.device_words(device)}, {plural(device.compute_units, 'compute unit')}: "
    return [where + checks, *filter(None, (said.get("Training"), said.get("Bench"), said.get("Notebooks")))]


def attempt(name: str, part: Callable[[Any, bool], Section], engine: Engine, quick: bool) -> Section:
    """The part's section; an exception becomes a section that says so."""
    start = time.perf_counter()
    try:
        section = part(engine, quick)
    except Exception as error:  # a report with three parts and an error is worth more than none
        if os.environ.get("CLNET_DEBUG", "") not in ("", "0"):
            traceback.print_exc(file=sys.stderr)
        section = Section(name, error=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    section.seconds = time.perf_counter() - start
    return section


def training(engine: Engine, quick: bool) -> Section:
    """The example networks on the bundled digits."""
    return trained([examples.train_digits(kind, device=engine) for kind in (QUICK_TRAINED if quick else TRAINED)])


def trained(runs: Sequence[Any]) -> Section:
    """What trainings came to (`examples.Result`), as a section."""
    rows = [{"network": r.kind, "accuracy": f"{100 * r.accuracy:.2f} %", "at least": f"{100 * r.target:.1f} %",
             "reached": Mark(r.passed), "test loss": f"{r.loss:.4f}", "parameters": f"{r.parameters:,}",
             "epochs": str(len(r.history.rows)), "time": duration(r.seconds),
             "samples/s": f"{r.samples_per_second:,.0f}"} for r in runs]
    history = {r.kind: {c: [float(row[c]) for row in r.history.rows]
                        for c in ("loss", "val_loss", "accuracy", "val_accuracy") if c in r.history.columns()}
               for r in runs}
    reached = tables.listed([f"the {r.kind} {100 * r.accuracy:.1f} %" for r in runs])
    missed = [f"{r.kind} reached {r.accuracy:.4f}, its target is {r.target:.3f}" for r in runs if not r.passed]
    asked = "less than is asked" if missed else "as much as is asked, or more"
    curves = [plots.learning(history, name, f"Training on digits: {title}") for name, title in CURVES.items()]
    how = ("Networks trained on scikit-learn's digits on the device, and tested on the fifth of them that they did "
           "not see.")
    return Section("Training", [how], [Table("Networks", rows, ("test loss", "parameters", "epochs"))], curves,
                   error="; ".join(missed), short=", ".join(f"{r.kind} {100 * r.accuracy:.1f} %" for r in runs),
                   verdict=f"Trained here, {reached} of the digits that they had not seen are read right: {asked}.")


def checked(engine: Engine, quick: bool) -> Section:
    """Status of everything registered on this device;
    with --quick without the ops, and of the rest the first examples.
    """
    broken = registry.load_all()
    kinds = [k for k in status_tables.FILES if not (quick and k == "op")]
    rows = status.run([engine], kinds, quick=quick, skip=SKIPPED if quick else ())
    section = page.status_section(rows)
    if quick:
        section.text.insert(1, "A quick run: every layer, loss and optimizer on the first of its examples, values and "
                               "gradients from a recorded training step. `clnet status` runs more of them, each by "
                               "itself, and the operations, float16 and times.")
    section.verdict = status_sentence(rows)
    here = [r for r in rows if r.there]
    section.short = f"{sum(r.green for r in here)} of {len(here)} green"
    section.error = "; ".join(f"{name} cannot be imported: {why}" for name, why in broken.items())
    return section


def status_sentence(rows: Sequence[StatusRow]) -> str:
    """How much is there, and how much of it is right in every column."""
    here = [r for r in rows if r.there]
    headings = [status_tables.HEADINGS[k].lower() for k in dict.fromkeys(r.kind for r in here)]
    away = len(rows) - len(here)
    that, left = (" that are there", f"; {away} are not there yet.") if away else ("", ".")
    what = f"{len(here)} {tables.listed(headings)}{that} pass every check"
    if wrong := [r.name for r in here if not r.green]:
        some = f"{', '.join(wrong[:5])}{', ...' * (len(wrong) > 5)}"
        return f"{len(here) - len(wrong)} of the {what}, and {plural(len(wrong), 'name')} not ({some}){left}"
    return f"all {what}{left}"


def compared(engine: Engine, quick: bool) -> Section:
    """Layer-by-layer parity of a network."""
    found = parity.compare(*parity.digits("cnn"), engine, "digits-cnn")
    section = page.parity_section(found)
    section.error = "" if found.first is None else str(found)
    section.short = "agrees" if found.first is None else "diverges"
    if not section.error:
        section.verdict = f"The cnn's {len(found.places)} outputs and gradients agree with the float64 reference."
    return section


def timed(engine: Engine, quick: bool) -> Section:
    """The bench in its quick form."""
    rows = bench.run(engine, "all", quick=quick)
    section = page.bench_section(rows, pictures(rows))
    section.error = "; ".join(f"{r.work}: {r.note}" for r in rows if r.failed)
    section.verdict = speed_sentence(rows)
    section.short = ", ".join(f"{_median(some):.2f} × {p}" for p, some in strictest(rows).items())
    return section


def speed_sentence(rows: Sequence[Any]) -> str:
    """Against whom, how many works are faster, by how much in the median; or that there was nobody."""
    peers = strictest(rows)
    least = {p: min(some, key=lambda r: r.ratio) for p, some in peers.items()}
    said = [f"against {p}, {sum(r.ratio > 1 for r in some)} of {plural(len(some), 'work')} are faster, in the median "
            f"{_median(some):.2f} times as fast, least {least[p].ratio:.2f} ({least[p].work})"
            for p, some in peers.items()]
    absent = [] if any(r.peer.startswith("torch ") for r in rows) else ["PyTorch is not installed"]
    words = [r.unfit for r in rows if r.ratio]
    left = {"doubted": "as not to be trusted", "busy": "for the machine was busy"}
    doubt = [f"{plural(words.count(word), 'ratio')} left out {why}" for word, why in left.items() if word in words]
    text = "; ".join([*said, *absent, *doubt])
    return f"{text[:1].upper()}{text[1:]}."


def strictest(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """The rows whose ratios are reported, by peer: of each peer the form that is hardest on us."""
    trusted = [r for r in rows if bench_plots.compared(r)]
    peers = {_proper(p): [r for r in trusted if r.peer == p] for p in dict.fromkeys(r.peer for r in trusted)}
    strict: dict[str, str] = {}
    for p in sorted(peers, key=lambda p: _median(peers[p])):
        strict.setdefault(p.partition(" ")[0], p)
    return {p: peers[p] for p in strict.values()}


def _median(rows: Sequence[Any]) -> float:
    return statistics.median(r.ratio for r in rows)


def _proper(peer: str) -> str:
    return peer.replace("numpy", "NumPy").replace("torch ", "PyTorch ").replace("jax ", "JAX ")


def write(folder: Path, run: Run, sections: Sequence[Section], said: Sequence[str], device: Device,
          keep: int) -> Path:
    """The page of the run, which is returned; its Markdown and pictures; what is kept of it; the list of runs."""
    earlier = runs.read(folder)
    change = since.changes(run, runs.before(run, earlier))
    run, lead = replace(run, since=change.short), made(run, sections)
    path = folder / runs.FOLDER / f"{run.name}.html"
    title = f"clnet report, {run.when}"
    tables.save(path, page.render(title, lead, [change, *sections, runs.environment(run, device)], said,
                                  up=f"../{runs.INDEX}"))
    for s in sections:
        markdown(folder, run, s, lead[1:])
    runs.tidy(folder, earlier, run)
    runs.write(run, folder)
    kept = runs.bounded(folder, [run, *earlier], keep)
    runs.index(folder, kept, said, change, [f"{page.file_name(s.title)}.md" for s in sections])
    return path


def markdown(folder: Path, run: Run, section: Section, lead: Sequence[str]) -> None:
    """A section's Markdown, and its pictures."""
    short = f"In short: {tables.cell(section.verdict)}" if section.verdict else ""
    text = "\n\n".join(filter(None, [tables.header(section.title, run.command), short,
                                      "  \n".join(map(tables.prose, lead)), section.markdown()]))
    # Executed notebooks lie in the run's folder, beside its page.
    text = text.replace(f"]({run.name}/", f"]({runs.FOLDER}/{run.name}/")
    tables.save(folder / f"{page.file_name(section.title)}.md", text)
    for picture in section.pictures:
        (folder / f"{page.file_name(picture.heading)}.png").write_bytes(picture)
