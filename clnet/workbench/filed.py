"""Notebooks in a report: run without a browser, with values from outside, their executed copies filed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..names import ending
from ..show import duration, plural
from . import lab, notebooks, terminal
from .marks import Mark
from .page import Section, Table
from .tables import Link

NONE = "none"  # in place of a name: no notebook runs

def filed(place: Path, paths: Sequence[Path], values: Mapping[str, Any], device: str) -> Section:
    """Runs notebooks on a device, and files the executed copies, those that failed too, in a folder; a section of a
    report that leads to them.
    """
    import nbformat

    place.mkdir(parents=True, exist_ok=True)
    rows, failed = [], []
    for path in terminal.bar(paths, desc="notebooks"):
        start = time.perf_counter()
        notebook, wrong = notebooks.run(path, values, device)
        (place / path.name).write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        used = {k: values.get(k, v) for k, v in notebooks.parameters(notebook).items()}
        rows.append({"notebook": Link(path.stem, f"{place.name}/{path.name}"), "ran": Mark(not wrong),
                     "time": duration(time.perf_counter() - start), "cells": str(len(notebook.cells)),
                     "parameters": ", ".join(f"{k} = {v!r}" for k, v in used.items()), "note": wrong})
        failed += [path.stem] if wrong else []
    how = "Run front to back without a browser, on the device of this report; each leads to its executed copy."
    ran = len(rows) - len(failed)
    return Section("Notebooks", [how], [Table("Executed notebooks", rows, ("note",))],
                   error=f"{', '.join(failed)} did not run whole" if failed else "",
                   verdict=f"{ran} of {plural(len(rows), 'notebook')} ran whole.", short=f"{ran} of {len(rows)}")


def chosen(only: str, values: Mapping[str, Any]) -> list[Path]:
    """The notebooks that come with clnet and whose name contains `only`; none where it is "none". ConfigError where
    there is none of the name, or where none of them has a parameter of the name of a value.
    """
    found = sorted(lab.sources("report").glob("*.ipynb"))
    paths = [path for path in found if only != NONE and only.lower() in path.stem.lower()]
    if not paths and only != NONE:
        names = [path.stem for path in found]
        raise ConfigError(f"report: expected --notebooks with a part of a notebook's name; got {only!r}"
                          f"{ending(only, names)}")
    if values:
        _known(found, paths, values)
    return paths


def _known(found: Sequence[Path], paths: Sequence[Path], values: Mapping[str, Any]) -> None:
    import nbformat

    names = {path: set(notebooks.parameters(nbformat.read(path, as_version=4))) for path in found}
    here = {name for path in paths for name in names[path]}
    for name in values:
        if name not in here:
            others = [path.stem for path in found if name in names[path]]
            way_out = f"; --notebooks {others[0]} has it." if others else ending(name, here)
            raise ConfigError(f"report: expected --set with a parameter of a notebook that runs "
                              f"({', '.join(sorted(here)) or 'there is none'}); got {name!r}{way_out}")
