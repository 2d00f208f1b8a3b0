"""Writes what status found: a Markdown table a kind, one of devices, and the rows as JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any

from .. import errors
from ..doctor import version
from . import catalog
from .status import ASPECTS, NO, NONE, PARTIAL, YES

GLYPH = {YES: "✅", PARTIAL: "🔄", NO: "❌", NONE: "➖"}
LEGEND = "✅ yes · 🔄 partial · ❌ no · ➖ does not apply · ⚠️ the reason is in the note"
FILES = {"layer": "layers.md", "op": "ops.md", "loss": "losses.md", "optimizer": "optimizers.md"}
HEADINGS = {"layer": "Layers", "op": "Operations", "loss": "Losses", "optimizer": "Optimizers"}
NUMBERS = {"kernels": "kernels per step", "time_ms": "time [ms]"}
MEANING = """\
forward, backward: values and gradients on the device against the float64 reference, and the gradient against differences of it.
update: steps of an optimizer change every parameter, to what the reference gets. resident: nothing went to the host, no op ran there.
parity: all of these, and values of an independent library. deterministic: two runs, equal bits. fp16: float16 inputs within tolerance.
kernels, time: launches and median of one recorded step (forward, backward, update) of the smallest example."""


def versions() -> str:
    """The software that a table was made with."""
    from .. import __version__

    packages = ", ".join([f"clnet {__version__}", *(f"{p} {version(p)}" for p in ("numpy", "pyopencl"))])
    return f"Python {platform.python_version()}, {packages}, {platform.system()} {platform.machine()}"


def cell(text: Any) -> str:
    """Text that stays text in a Markdown table: no markup, no line ends, no HTML."""
    flat = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#$])", r"\\\1", flat)


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """Dicts with equal keys as a Markdown table, every cell escaped."""
    import pandas as pd

    frame = pd.DataFrame([{cell(k): cell(v) for k, v in row.items()} for row in rows])
    return str(frame.to_markdown(index=False, disable_numparse=True)) if len(frame) else "(none)"


def read(folder: Path) -> list[dict[str, Any]]:
    """The rows of a committed status.json. DataError if it is missing or no list of rows."""
    return rows_of(folder / "status.json", {"kind", "name", "spec_name", "device", *ASPECTS}, "status", "run `clnet status` first")


def rows_of(path: Path, needed: Set[str], who: str, way_out: str) -> list[dict[str, Any]]:
    """The rows of a JSON file, each with at least the needed keys. DataError if there is no such file, or it holds something else."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{who}: expected rows in {path}; got {error}; {way_out}.") from None
    if not isinstance(rows, list) or not all(isinstance(r, dict) and needed <= r.keys() for r in rows):
        raise errors.DataError(f"{who}: expected a list of rows with {', '.join(sorted(needed))} in {path}; got something else; {way_out}.")
    return rows


def merged(fresh: list[dict[str, Any]], folder: Path, partly: bool) -> list[dict[str, Any]]:
    """The fresh rows, with the kept rows of devices that were not run (and, when only a part was run, of all that was not)."""
    try:
        kept = read(folder)
    except errors.DataError:
        return fresh
    keys, devices = {_key(r) for r in fresh}, {r["device"] for r in fresh}
    return fresh + [r for r in kept if (r["device"] not in devices or partly) and _key(r) not in keys]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["kind"], row["name"], row["spec_name"], row["device"]


def write(rows: list[dict[str, Any]], folder: Path, command: str) -> None:
    """All files of the status folder."""
    folder.mkdir(parents=True, exist_ok=True)
    order = {(g.kind, g.spec_name): k for kind in catalog.KINDS for k, g in enumerate(catalog.goals(kind))}
    devices = list(dict.fromkeys(r["device"] for r in rows))
    rows = sorted(rows, key=lambda r: (catalog.KINDS.index(r["kind"]), devices.index(r["device"]), order.get((r["kind"], r["spec_name"]), 999),
                                       r["family"], r["name"]))
    _save(folder / "status.json", "[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")
    for kind, name in FILES.items():
        _save(folder / name, page(kind, [r for r in rows if r["kind"] == kind], command))
    _save(folder / "devices.md", devices_page(rows, command))


def _save(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def header(title: str, command: str) -> str:
    return f"# {title}\n\nMade by `{command}` on {datetime.date.today().isoformat()} with {versions()}. Not written by hand.\n"


def page(kind: str, rows: Sequence[dict[str, Any]], command: str) -> str:
    """One kind: for each device a summary and a table."""
    parts = [header(HEADINGS[kind], command), LEGEND, MEANING]
    for device in dict.fromkeys(r["device"] for r in rows):
        own = [r for r in rows if r["device"] == device]
        driver, date = next(((r["driver"], r["date"]) for r in own if r["date"]), (own[0]["driver"], ""))
        here = [r for r in own if r["note"] != "not there yet"]
        green = sum(all(r[a] in (YES, NONE) for a in ASPECTS) for r in here)
        parts.append(f"## {cell(device)}, driver {cell(driver)}{', measured on ' + date if date else ''}\n\n"
                     f"{len(own)} names: {len(here)} there, {green} of them green in every column, {len(own) - len(here)} not there yet.")
        parts.append(markdown(shown(r) for r in own))
    return "\n\n".join(parts) + "\n"


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it stands in tables: glyphs for verdicts."""
    out = {"name": row["name"], "specification": row["spec_name"], "family": row["family"]}
    out |= {a: GLYPH[row[a]] for a in ASPECTS}
    out |= {title: "" if row[k] is None else row[k] if k == "kernels" else f"{row[k]:.3f}" for k, title in NUMBERS.items()}
    return {**out, "note": ("⚠️ " if row["note"] and row["note"] != "not there yet" else "") + row["note"]}


def devices_page(rows: Sequence[dict[str, Any]], command: str) -> str:
    """The devices that this machine has, and how many names are green on each device that was measured."""
    from ..engine.device import devices

    there = [{"key": d.key, "name": d.name, "platform": d.platform, "driver": d.driver, "kind": d.kind, "units": d.compute_units,
              "vector": d.vector_width, "memory [MiB]": d.global_memory >> 20, "fp64": GLYPH[YES if d.fp64 else NO], "fp16": GLYPH[YES if d.fp16 else NO]}
             for d in devices()]
    counts = []
    for device in dict.fromkeys(r["device"] for r in rows):
        own = [r for r in rows if r["device"] == device]
        for kind in dict.fromkeys(r["kind"] for r in own):
            some = [r for r in own if r["kind"] == kind]
            counts.append({"device": device, "kind": kind, "names": len(some), **{a: sum(r[a] == YES for r in some) for a in ASPECTS}})
    return "\n\n".join([header("Devices", command), "## On this machine", markdown(there), "## Names that are ✅, by device", markdown(counts)]) + "\n"
