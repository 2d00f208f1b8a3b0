"""Rows as they are shown: by kind and family, what is there in marks, what is to come by name;
and the files of a status folder.

The rows in status.json are the truth; everything else in the folder is made of them and can be made again, see `again`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import errors
from ...engine.device.devices import devices
from ...show import plural, size
from .. import tables
from ..evidence import catalog, registry
from ..marks import LEGEND, NONE, YES, Mark, green
from ..tables import cell
from .row import ASPECTS, Row, as_dicts, from_dicts

FILES = {"layer": "layers.md", "op": "ops.md", "loss": "losses.md", "optimizer": "optimizers.md"}
NEEDED = {"kind", "name", "spec_name", "family", "device", *ASPECTS}  # of a row in status.json
HEADINGS = {"layer": "Layers", "op": "Operations", "loss": "Losses", "optimizer": "Optimizers"}
TITLES = {"deterministic": "same bits", "fp16": "float16"}
FAMILIES = {("op", "facade"): "Named operations", ("loss", "further"): "Further losses",
            ("optimizer", "further"): "Further optimizers", ("loss", "core"): "Core losses",
            ("loss", "extended"): "Extended losses"}
MEANING = {
    "forward, backward": "values and gradients on the device against the float64 reference, and the gradient against "
                         "differences of it",
    "update": "steps of an optimizer change every parameter, to what the reference gets",
    "resident": "nothing went to the host, and no operation ran there",
    "parity": "all of these, and values of an independent library",
    "same bits": "two runs, equal bits",
    "float16": "float16 inputs, within float16's tolerance of the reference",
    "launches, time": "kernels, and the median time, of one recorded step (forward, backward, update) of the smallest "
                      "example",
    "also called": "what the catalogue of goals calls it",
}


@dataclass(frozen=True)
class Line:
    """One thing on one device: its marks by column, and what else is known of it."""

    name: str
    marks: dict[str, Mark]
    details: dict[str, str]
    note: str

    @property
    def facts(self) -> dict[str, str]:
        """What stands below the line."""
        return {"note": self.note, **self.details}

    @property
    def said(self) -> str:
        """The details as sentences."""
        d = self.details
        counted = ", ".join(filter(None, [d["launches"] and plural(int(d["launches"]), "launch"), d["time"]]))
        called = d["also called"] and f"Also called {d['also called']}"
        return " ".join(f"{text.rstrip('.')}." for text in (d["formula"], d["paper"], counted, called) if text)

    def __bool__(self) -> bool:
        return green(self.marks.values())


@dataclass(frozen=True)
class Family:
    """Things of one family: those that are there, and the names of those to come."""

    title: str
    lines: list[Line]
    missing: list[str]

    @property
    def counts(self) -> str:
        """How many are there, are green, are to come, in words."""
        good = sum(map(bool, self.lines))
        there = f"{len(self.lines)} there, {'all' if good == len(self.lines) else good} green"
        return (there if self.lines else "none there yet") + (f", {len(self.missing)} to come" if self.missing else "")


@dataclass(frozen=True)
class Kind:
    """One kind on one device: its families, and the columns that say something of it."""

    title: str
    device: str
    counts: str
    columns: list[str]
    families: list[Family]


def counts(rows: Sequence[Row]) -> str:
    """How many names are there, and how many of them green in every column."""
    here, good = sum(r.there for r in rows), sum(r.green for r in rows)
    return (f"{plural(len(rows), 'name')}: {here} there, {good} of them green in every column, "
            f"{len(rows) - here} not there yet")


def kinds(rows: Sequence[Row]) -> list[Kind]:
    """The rows by kind and device, in the catalogue's order."""
    found = []
    for kind, device in dict.fromkeys((r.kind, r.device) for r in rows):
        own = [r for r in rows if (r.kind, r.device) == (kind, device)]
        shown = [a for a in ASPECTS if any(r.verdicts[a] != NONE for r in own if r.there)]
        families = [_family(kind, f, [r for r in own if r.family == f], shown)
                    for f in dict.fromkeys(r.family for r in own)]
        found.append(Kind(HEADINGS[kind], _device(own), counts(own), [TITLES.get(a, a) for a in shown], families))
    return found


def _device(rows: Sequence[Row]) -> str:
    """The device of the rows in words, with its driver and the day."""
    r = next((r for r in rows if r.date), rows[0])
    name = f"{r.device_name} ({r.device})" if r.device_name else r.device
    return f"{name}, driver {r.driver}" + (f", measured on {r.date}" if r.date else "")


def _family(kind: str, family: str, rows: Sequence[Row], shown: Sequence[str]) -> Family:
    """One line a thing, whatever the number of its names."""
    lines = {}
    for r in rows:
        if r.there and r.name not in lines:
            names = [s.spec_name for s in rows if s.name == r.name and s.spec_name not in ("", r.name)]
            marks = {TITLES.get(a, a): Mark(r.verdicts[a]) for a in shown}
            lines[r.name] = Line(r.name, marks, _details(r, names), r.note)
    missing = list(dict.fromkeys(r.name for r in rows if not r.there))
    return Family(FAMILIES.get((kind, family), family[:1].upper() + family[1:]), list(lines.values()), missing)


def _details(row: Row, names: Sequence[str]) -> dict[str, str]:
    formula, paper = _documented().get((row.kind, row.name), ("", ""))
    return {"formula": formula, "paper": paper, "launches": "" if row.kernels is None else str(row.kernels),
            "time": "" if row.time_ms is None else f"{row.time_ms:.3f} ms",
            "also called": ", ".join(dict.fromkeys(names))}


@functools.cache
def _documented() -> dict[tuple[str, str], tuple[str, str]]:
    """Formula and paper of everything registered."""
    return {(s.kind, s.name): (s.formula, s.paper) for s in registry.subjects()}


# --- Markdown
def page(kind: str, rows: Sequence[Row], head: str) -> str:
    """One kind: for each device its families, a short table each."""
    parts = [head, LEGEND, "\n".join(f"- *{term}*: {text}." for term, text in MEANING.items())]
    parts += [p for k in kinds([r for r in rows if r.kind == kind]) for p in [f"## {cell(k.device)}", *shown(k)]]
    return "\n\n".join(parts) + "\n"


def shown(kind: Kind, level: int = 2) -> list[str]:
    """A kind's count, and its families under headings of the next level; with level 3 under a heading of its own."""
    away = [f"- {cell(f.title)}: {cell(', '.join(f.missing))}." for f in kind.families if not f.lines]
    return [*([f"### {kind.title}"] if level > 2 else []), f"{cell(kind.counts)}.",
            *(p for f in kind.families if f.lines for p in _family_shown(f, level + 1)),
            *([f"{'#' * (level + 1)} Families that are not there yet", "\n".join(away)] if away else [])]


def _family_shown(family: Family, level: int) -> list[str]:
    """A family's heading, its table, its notes, what is behind a fold, what is to come."""
    details = "\n".join(f"- **{cell(line.name)}** {cell(line.said)}" for line in family.lines)
    return [f"{'#' * level} {cell(family.title)}: {family.counts}",
            tables.markdown({"name": line.name, **line.marks} for line in family.lines),
            *(f"{cell(line.name)}: {cell(line.note)}" for line in family.lines if line.note),
            f"<details><summary>Formulas, launches, times</summary>\n\n{details}\n\n</details>",
            *([f"Not there yet: {cell(', '.join(family.missing))}."] if family.missing else [])]


def machine() -> list[dict[str, object]]:
    """The devices that this machine has."""
    return [{"key": d.key, "name": tables.device_words(d), "driver": d.driver, "units": d.compute_units,
             "memory": size(d.global_memory), "float64": "yes" if d.fp64 else "no",
             "float16": "yes" if d.fp16 else "no"} for d in devices()]


def devices_page(rows: Sequence[Row], head: str, here: str) -> str:
    """The devices that were there, and on each that was measured how many names are shown to work.
    `here`: the former, as Markdown.
    """
    parts = [head, HERE, here, "## Names that are shown to work", "n/a: nothing of the kind has such a step."]
    for device in dict.fromkeys(r.device for r in rows):
        own = [r for r in rows if r.device == device]
        by_kind = [[r for r in own if r.kind == kind] for kind in dict.fromkeys(r.kind for r in own)]
        parts += [f"### {cell(_device(own))}", tables.markdown(map(_counted, by_kind))]
    return "\n\n".join(parts) + "\n"


def _counted(rows: Sequence[Row]) -> dict[str, str]:
    """Of one kind: how many are there, and how many pass each check."""
    here = [r for r in rows if r.there]
    return {"kind": HEADINGS[rows[0].kind].lower(), "there": f"{len(here)} of {len(rows)}",
            **{TITLES.get(a, a): _of(here, a) for a in ASPECTS}}


HERE = "## On this machine"


def _of(rows: Sequence[Row], aspect: str) -> str:
    asked = [v for r in rows if (v := r.verdicts[aspect]) != NONE]
    return str(asked.count(YES)) if asked else NONE


# --- the folder
def read(folder: Path) -> list[Row]:
    """The rows of a status.json. DataError if it is missing or no list of rows."""
    return from_dicts(tables.rows_of(folder / "status.json", NEEDED, "status", "run `clnet status` first"))


def merged(fresh: list[Row], folder: Path, partly: bool) -> list[Row]:
    """The fresh rows, with the kept rows of devices that were not run
    (and, when only a part was run, of all that was not).
    """
    try:
        kept = read(folder)
    except errors.DataError:
        return fresh
    keys, devices = {r.key for r in fresh}, {r.device for r in fresh}
    return fresh + [r for r in kept if (r.device not in devices or partly) and r.key not in keys]


def ordered(rows: Sequence[Row]) -> list[Row]:
    """By kind and device, then in the catalogue's order."""
    order = {(g.kind, g.spec_name): k for kind in catalog.KINDS for k, g in enumerate(catalog.goals(kind))}
    devices = list(dict.fromkeys(r.device for r in rows))
    return sorted(rows, key=lambda r: (catalog.KINDS.index(r.kind), devices.index(r.device),
                                       order.get((r.kind, r.spec_name), 999), r.family, r.name))


def write(rows: Sequence[Row], folder: Path, command: str) -> None:
    """All files of the status folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ordered(rows)
    tables.save_rows(folder / "status.json", as_dicts(rows))
    _write(rows, folder, {name: tables.header(title, command) for name, title in _pages()}, tables.markdown(machine()))


def again(folder: Path) -> None:
    """The pages of a folder made again of its rows, where nothing was measured: for another form of them. Their heads
    stay as they are.
    """
    texts = {name: (folder / name).read_text(encoding="utf-8") for name, _ in _pages()}
    heads = {name: "\n".join(text.splitlines()[:3]) + "\n" for name, text in texts.items()}
    _write(ordered(read(folder)), folder, heads, texts["devices.md"].partition(HERE)[2].partition("\n## ")[0].strip())


def _pages() -> list[tuple[str, str]]:
    return [*((FILES[kind], HEADINGS[kind]) for kind in FILES), ("devices.md", "Devices")]


def _write(rows: Sequence[Row], folder: Path, heads: dict[str, str], here: str) -> None:
    for kind, name in FILES.items():
        tables.save(folder / name, page(kind, rows, heads[name]))
    tables.save(folder / "devices.md", devices_page(rows, heads["devices.md"], here))
