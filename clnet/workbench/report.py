"""`clnet report`: trains, checks, compares and times in short forms, and writes one HTML page, Markdown and pictures."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import bench, page, parity, plots, registry, status, tables
from .page import Section

TRAINED = ("mlp", "cnn", "lstm", "transformer")
QUICK_TRAINED = ("mlp", "cnn")


def main(engine: Any, folder: Path, *, quick: bool = False) -> int:
    """Writes the report and says where it is. Exit status 1 if a part failed; the other parts are there all the same."""
    from tqdm.auto import tqdm

    from ..engine import on

    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[tuple[str, Callable[[Any, bool], Section]]] = [("Training", training), ("Status", checked), ("Parity", compared), ("Bench", timed)]
    sections = []
    with on(engine), tqdm(parts, desc="report", bar_format="{desc}: {n}/{total} {postfix} [{elapsed}]") as bar:
        for name, part in bar:
            bar.set_postfix_str(name)
            sections.append(attempt(name, part, engine, quick))
    device = engine.device
    command = "clnet report --quick" if quick else "clnet report"
    lead = f"{device.name}, {device.platform}, driver {device.driver}. Made by `{command}` in {time.perf_counter() - start:.0f} s."
    write(folder, lead, sections, command)
    for s in sections:
        print(f"{'FAILED' if s.error else 'ok':7} {s.title:32} {s.seconds or 0:5.0f} s  {s.error or (s.text[0] if s.text else '')}"[:160])
    print(f"report: {(folder / 'index.html').resolve()}")
    return int(any(s.error for s in sections))


def attempt(name: str, part: Callable[[Any, bool], Section], engine: Any, quick: bool) -> Section:
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


def training(engine: Any, quick: bool) -> Section:
    """The example networks on the bundled digits."""
    from ..train import examples

    section, losses, missed = Section("Training"), {}, []
    rows: list[dict[str, Any]] = []
    for kind in QUICK_TRAINED if quick else TRAINED:
        r = examples.train_digits(kind, device=engine)
        rows.append({"model": kind, "parameters": r.parameters, "epochs": len(r.history.rows), "test accuracy": f"{r.accuracy:.4f}",
                     "target": f"{r.target:.3f}", "test loss": f"{r.loss:.4f}", "seconds": f"{r.seconds:.1f}", "samples/s": f"{r.samples_per_second:.0f}"})
        losses[kind] = [float(row["loss"]) for row in r.history.rows]
        missed += [] if r.passed else [f"{kind} reached {r.accuracy:.4f}, its target is {r.target:.3f}"]
    section.text = ["Networks trained on scikit-learn's digits on the device, and tested on the fifth that they did not see."]
    section.tables, section.error = [("", rows)], "; ".join(missed)
    section.pictures = [("training loss", plots.curves(losses, "training loss", ylabel="cross entropy", log=True))]
    return section


def checked(engine: Any, quick: bool) -> Section:
    """Status of everything registered on this device; with --quick without the ops, and of the rest the first examples."""
    broken = registry.load_all()
    kinds = [k for k in tables.FILES if not (quick and k == "op")]
    section = page.status_section(status.as_dicts(status.run([engine], kinds, examples=1 if quick else None)))
    if quick:
        section.text.insert(1, "Every layer, loss and optimizer, on the first of its examples; `clnet status` runs more of them, and the operations.")
    section.error = "; ".join(f"{name} cannot be imported: {why}" for name, why in broken.items())
    return section


def compared(engine: Any, quick: bool) -> Section:
    """Layer-by-layer parity of a network."""
    found = parity.compare(*parity.digits("cnn"), engine, "digits-cnn")
    section = page.parity_section(found)
    section.error = "" if found.first is None else str(found)
    return section


def timed(engine: Any, quick: bool) -> Section:
    """The bench in its quick form."""
    warning = bench.busy()
    rows = bench.run(engine, "all", quick=True)
    section = page.bench_section(rows, bench.pictures(rows))
    section.text += [warning] if warning else []
    section.error = "; ".join(f"{r.work}: {r.note}" for r in rows if r.failed)
    return section


def write(folder: Path, lead: str, sections: list[Section], command: str) -> None:
    """index.html, a Markdown file a section, and the pictures."""
    (folder / "index.html").write_text(page.render("clnet report", lead, sections), encoding="utf-8")
    for s in sections:
        name = page.file_name(s.title.partition(":")[0])
        (folder / f"{name}.md").write_text(tables.header(s.title, command) + "\n" + lead + "\n\n" + s.markdown(), encoding="utf-8")
        for caption, png in s.pictures:
            (folder / f"{page.file_name(caption)}.png").write_bytes(png)
