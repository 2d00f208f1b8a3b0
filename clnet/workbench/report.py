"""`clnet report`: trains, checks, compares and times in short forms,
and writes one HTML page, Markdown and pictures.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine import on
from ..show import duration, plural
from ..train import examples
from . import page, parity, plots, tables, terminal
from .bench import command as bench
from .bench import plots as bench_plots
from .bench.plots import pictures
from .evidence import registry
from .marks import Mark
from .page import Section, Table
from .status import run as status
from .status import tables as status_tables
from .status.row import Row as StatusRow

if TYPE_CHECKING:
    from ..engine.device.devices import Device
    from ..engine.protocol import Engine

TRAINED = ("mlp", "cnn", "lstm", "transformer")
QUICK_TRAINED = ("mlp", "cnn")
SKIPPED = ("fp16",)  # aspects that a quick report does not ask: as much compiling again as a fifth of the others
CURVES = {"loss": "cross entropy", "accuracy": "accuracy"}


def main(engine: Engine, folder: Path, *, quick: bool = False) -> int:
    """Writes the report and says where it is.
    Exit status 1 if a part failed; the other parts are there all the same.
    """
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"report: {tables.device_words(engine.device)}; written to {folder.resolve()}{os.sep}", file=sys.stderr)
    parts: list[tuple[str, Callable[[Any, bool], Section]]] = [("Training", training), ("Status", checked),
                                                               ("Parity", compared), ("Bench", timed)]
    sections = []
    with on(engine):
        for name, part in parts:
            sections.append(attempt(name, part, engine, quick))
            print(f"report: {line(sections[-1])}", file=sys.stderr)
    command = "clnet report --quick" if quick else "clnet report"
    write(folder, made(engine.device, command, time.perf_counter() - start, sections), sections, command, engine.device)
    for sentence in verdict(engine.device, sections):
        terminal.say(sentence)
    print(f"report: {(folder / 'index.html').resolve()}")
    return int(any(s.error for s in sections))


def line(section: Section) -> str:
    """How a part ended."""
    ended = f"FAILED: {section.error}" if section.error else "ok"
    return f"{section.title}, {duration(section.seconds or 0.0)}: {ended}"


def made(device: Device, command: str, seconds: float, sections: Sequence[Section]) -> list[str]:
    """How the report came to be, for its foot."""
    parts = ", ".join(f"{s.title.lower()} {duration(s.seconds or 0.0)}" for s in sections)
    return [f"Made by `{command}` in {duration(seconds)} ({parts}).",
            f"Device: {tables.device_words(device)}; {device.platform}, driver {device.driver}."]


def verdict(device: Device, sections: Sequence[Section]) -> list[str]:
    """On top: what holds on which device, what the training reached,
    how fast it is against whom. What failed is said of its part.
    """
    said = {s.title: s.verdict or (f"{s.title} failed: {s.error.rstrip('.')}." if s.error else "") for s in sections}
    checks = " ".join(filter(None, (said.get("Status"), said.get("Parity"))))
    where = f"On {tables.device_words(device)}, {plural(device.compute_units, 'compute unit')}: "
    return [where + checks, *filter(None, (said.get("Training"), said.get("Bench")))]


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
    reached = " and ".join(f"the {r.kind} {100 * r.accuracy:.1f} %" for r in runs)
    missed = [f"{r.kind} reached {r.accuracy:.4f}, its target is {r.target:.3f}" for r in runs if not r.passed]
    asked = "less than is asked" if missed else "as much as is asked, or more"
    curves = [plots.learning(history, name, f"Training on digits: {title}") for name, title in CURVES.items()]
    how = ("Networks trained on scikit-learn's digits on the device, and tested on the fifth of them that they did "
           "not see.")
    return Section("Training", [how], [Table("Networks", rows, ("test loss", "parameters", "epochs"))], curves,
                   error="; ".join(missed),
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
    section.error = "; ".join(f"{name} cannot be imported: {why}" for name, why in broken.items())
    return section


def status_sentence(rows: Sequence[StatusRow]) -> str:
    """How much is there, and how much of it is right in every column."""
    here = [r for r in rows if r.there]
    headings = [status_tables.HEADINGS[k].lower() for k in dict.fromkeys(r.kind for r in here)]
    what = f"{len(here)} {' and '.join(', '.join(headings).rsplit(', ', 1))} that are there pass every check"
    left = f"{len(rows) - len(here)} are not there yet."
    if wrong := [r.name for r in here if not r.green]:
        some = f"{', '.join(wrong[:5])}{', ...' * (len(wrong) > 5)}"
        return f"{len(here) - len(wrong)} of the {what}, and {plural(len(wrong), 'name')} not ({some}); {left}"
    return f"all {what}; {left}"


def compared(engine: Engine, quick: bool) -> Section:
    """Layer-by-layer parity of a network."""
    found = parity.compare(*parity.digits("cnn"), engine, "digits-cnn")
    section = page.parity_section(found)
    section.error = "" if found.first is None else str(found)
    if not section.error:
        section.verdict = f"The cnn's {len(found.places)} outputs and gradients agree with the float64 reference."
    return section


def timed(engine: Engine, quick: bool) -> Section:
    """The bench in its quick form."""
    rows = bench.run(engine, "all", quick=quick)
    section = page.bench_section(rows, pictures(rows))
    section.error = "; ".join(f"{r.work}: {r.note}" for r in rows if r.failed)
    section.verdict = speed_sentence(rows)
    return section


def speed_sentence(rows: Sequence[Any]) -> str:
    """Against whom, how many works are faster, by how much in the median; or that there was nobody."""
    trusted = [r for r in rows if bench_plots.compared(r)]
    peers: dict[str, list[float]] = {_proper(p): [r.ratio for r in trusted if r.peer == p]
                                     for p in dict.fromkeys(r.peer for r in trusted)}
    least = {_proper(r.peer): r for r in sorted(trusted, key=lambda r: -r.ratio)}
    strict: dict[str, str] = {}  # of each peer the form that is hardest on us
    for p in sorted(peers, key=lambda p: statistics.median(peers[p])):
        strict.setdefault(p.partition(" ")[0], p)
    said = [f"against {p}, {sum(v > 1 for v in peers[p])} of {plural(len(peers[p]), 'work')} are faster, in the "
            f"median {statistics.median(peers[p]):.2f} times as fast, least {least[p].ratio:.2f} ({least[p].work})"
            for p in strict.values()]
    absent = [] if any("PyTorch" in p for p in peers) else ["PyTorch is not installed"]
    words = [r.unfit for r in rows if r.ratio]
    left = {"doubted": "as not to be trusted", "busy": "for the machine was busy"}
    doubt = [f"{plural(words.count(word), 'ratio')} left out {why}" for word, why in left.items() if word in words]
    text = "; ".join([*said, *absent, *doubt])
    return f"{text[:1].upper()}{text[1:]}."


def _proper(peer: str) -> str:
    return peer.replace("numpy", "NumPy").replace("torch ", "PyTorch ")


def write(folder: Path, lead: Sequence[str], sections: Sequence[Section], command: str, device: Device) -> None:
    """index.html, a Markdown file a section, and the pictures."""
    said = verdict(device, sections)
    (folder / "index.html").write_text(page.render("clnet report", lead, sections, said), encoding="utf-8")
    for s in sections:
        short = f"In short: {tables.cell(s.verdict)}" if s.verdict else ""
        where = "  \n".join(tables.cell(text) for text in lead[1:])
        text = "\n\n".join(filter(None, [tables.header(s.title, command), short, where, s.markdown()]))
        (folder / f"{page.file_name(s.title)}.md").write_text(text, encoding="utf-8")
        for picture in s.pictures:
            (folder / f"{page.file_name(picture.heading)}.png").write_bytes(picture)
