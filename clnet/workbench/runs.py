"""The runs of `clnet report` in a folder: what is kept of each, which run another is held against, and their list.

A run is a page, `runs/<name>.html`, and what its figures are, `runs/<name>.json`; executed notebooks lie in
`runs/<name>/`. `index.html` is made of those files, and can be made again.
"""

from __future__ import annotations

import datetime
import functools
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..show import duration, plural
from . import page, tables
from .bench.row import Row as BenchRow
from .marks import Mark
from .page import Section, Table
from .status.row import Row as StatusRow
from .status.row import from_dicts
from .tables import Link

if TYPE_CHECKING:
    from ..engine.device.devices import Device

FOLDER, INDEX = "runs", "index.html"
KEEP = 20  # runs that stay unless another number is asked for
NAME = re.compile(r"\d{4}-\d\d-\d\d-\d{6}-[a-z0-9-]+")  # of a run's files: no other file is ever deleted
PICTURE = re.compile(r"[a-z0-9-]+\.png")
PACKAGE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Run:
    """A run of the report: when, where, of which code, and what came of it.

    name      of its files; date: ISO, with the zone; device: its key; machine: the device in words
    commit    of the checkout, with "-dirty" where files differ from it; "" elsewhere
    short     by part of the report: what it came to, in a few words; failed: the parts that failed
    since     what changed since the run before, in a few words
    status, bench  the rows
    pictures  files that lie beside the newest run's Markdown
    """

    name: str
    date: str
    device: str
    machine: str
    driver: str
    version: str
    commit: str
    quick: bool
    command: str
    seconds: float = 0.0
    short: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    since: str = ""
    status: list[StatusRow] = field(default_factory=list)
    bench: list[BenchRow] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)

    @property
    def when(self) -> str:
        """Day and minute."""
        return self.date[:16].replace("T", " ")

    @property
    def code(self) -> str:
        """Version and commit."""
        return f"{self.version} {self.commit}".strip()


def started(device: Device, quick: bool, command: str) -> Run:
    """The run that begins now."""
    now = datetime.datetime.now().astimezone()
    return Run(f"{now:%Y-%m-%d-%H%M%S}-{page.file_name(device.key)}", now.isoformat(timespec="seconds"), device.key,
               tables.device_words(device), f"{device.platform}, {device.driver}", __version__, commit(), quick,
               command)


@functools.cache
def commit() -> str:
    """The commit of the checkout that clnet is imported from; "" where it is from a package, or there is no git."""
    if not (PACKAGE / ".git").exists():
        return ""
    try:
        said = subprocess.run(["git", "-C", str(PACKAGE), "describe", "--always", "--dirty", "--exclude=*"],
                              capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


# --- files
def write(run: Run, folder: Path) -> None:
    """What is kept of a run beside its page."""
    rows = {"status": map(_said, run.status), "bench": map(_said, run.bench)}
    facts = {k: v for k, v in vars(run).items() if k not in rows}
    parts = [json.dumps(facts, ensure_ascii=False, indent=1)[:-2],
             *(f' "{name}": {tables.json_lines(some).rstrip()}' for name, some in rows.items())]
    tables.save(folder / FOLDER / f"{run.name}.json", ",\n".join(parts) + "\n}\n")


def _said(row: StatusRow | BenchRow) -> dict[str, Any]:
    """The row without what it does not say: fields that are as they are by default. JSON has no NaN."""
    said = {f.name: (getattr(row, f.name), f.default) for f in fields(row)}
    return {name: value for name, (value, default) in said.items() if value != default and value == value}


def read(folder: Path) -> list[Run]:
    """The runs that are kept in a folder, the newest first; files that are no run's are passed over, and said."""
    found = []
    for path in sorted((folder / FOLDER).glob("*.json"), reverse=True):
        if NAME.fullmatch(path.stem):
            try:
                found.append(_read(path))
            except (OSError, LookupError, ValueError, TypeError, AttributeError) as error:
                print(f"report: {path} cannot be read and is not listed: {error}", file=sys.stderr)
    return found


def _read(path: Path) -> Run:
    facts = json.loads(path.read_text(encoding="utf-8"))
    bench = [BenchRow(**_known(BenchRow, row)) for row in facts.pop("bench")]
    run = Run(**_known(Run, facts) | {"status": from_dicts(facts.pop("status")), "bench": bench})
    if run.name != path.stem:
        raise ValueError(f"it is of {run.name!r}")
    return run


def _known(kind: type[Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a later version says beyond the fields is left out."""
    return {f.name: facts[f.name] for f in fields(kind) if f.name in facts}


def before(run: Run, kept: Sequence[Run]) -> Run | None:
    """The newest of the runs that measured the same on the same device."""
    return next((r for r in kept if (r.machine, r.quick) == (run.machine, run.quick) and r.name != run.name), None)


def bounded(folder: Path, kept: Sequence[Run], keep: int) -> list[Run]:
    """The first `keep` of the runs; the others' files are deleted."""
    for run in kept[keep:]:
        for end in (".html", ".json"):
            (folder / FOLDER / f"{run.name}{end}").unlink(missing_ok=True)
        shutil.rmtree(folder / FOLDER / run.name, ignore_errors=True)
    return list(kept[:keep])


def tidy(folder: Path, earlier: Sequence[Run], now: Run) -> None:
    """Deletes the pictures of an earlier run's Markdown that this run's does not show: their names hold the device's.
    """
    for name in {n for run in earlier[:1] for n in run.pictures if PICTURE.fullmatch(n)} - set(now.pictures):
        (folder / name).unlink(missing_ok=True)


# --- what is shown
def environment(run: Run, device: Device) -> Section:
    """With what, by what and where a run was made."""
    said = {"command": run.command, "date": run.date, "took": duration(run.seconds), "device": run.machine,
            "driver": run.driver, "compute units": str(device.compute_units), "clnet": run.code,
            "Python and packages": tables.versions(), "system": platform.platform(),
            "packages beside": ", ".join(f"{p} {tables.version(p)}" for p in ("torch", "scipy", "matplotlib"))}
    return Section("Environment", tables=[Table("", [{"what": k, "value": v} for k, v in said.items()])])


def listed(kept: Sequence[Run]) -> Section:
    """The runs as a section, the newest first."""
    parts = list(dict.fromkeys(part for run in kept for part in run.short))
    rows = [{"run": Link(r.when, f"{FOLDER}/{r.name}.html"), "form": "quick" if r.quick else "whole",
             "all ran": Mark(not r.failed), **{part.lower(): r.short.get(part, "") for part in parts},
             "since the run before": r.since, "device": r.machine, "clnet": r.code, "took": duration(r.seconds)}
            for r in kept]
    return Section("Runs", [f"{plural(len(rows), 'run')}, the newest first. Each is held against the one before it on "
                            "the same device and in the same form."], [Table("", rows)])


def index(folder: Path, kept: Sequence[Run], said: Sequence[str], change: Section, twins: Sequence[str]) -> None:
    """Writes index.html, and index.md, which says the same.

    said, change, twins  of the newest run: its sentences, what changed, its Markdown files
    """
    section, last = listed(kept), kept[0]
    beside = f"Of the newest run there is Markdown beside this page: {', '.join(twins)}."
    lead = [f"Made by `{last.command}` on {last.when}.", beside]
    text = [tables.header("clnet reports", last.command), *map(tables.cell, said), section.markdown(),
            change.markdown(), tables.cell(beside)]
    tables.save(folder / INDEX, page.render("clnet reports", lead, [section, change], said))
    tables.save(folder / "index.md", "\n\n".join(text).rstrip() + "\n")
