"""What really works, found by running it: a row for everything registered, and for everything that is to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engine import on
from ...engine.device.devices import Device
from .. import terminal
from ..evidence import catalog, registry
from ..evidence.registry import Subject
from ..tables import device_words
from . import workers
from .row import TO_COME, Row
from .verdict import blank, check, timed

if TYPE_CHECKING:
    from ...engine.protocol import Engine


def run(devices: Sequence[Any] = (None,), kinds: Sequence[str] = catalog.KINDS, only: str = "", progress: bool = True,
        subjects: Sequence[Subject] | None = None, quick: bool = False, skip: Sequence[str] = ()) -> list[Row]:
    """Rows of everything registered on every device, and of every goal that nothing answers yet.
    `quick`, `skip` as in `check`.
    """
    found = list(subjects) if subjects is not None else registry.subjects(kinds, only)
    rows: list[Row] = []
    for device in devices:
        with on(device) as engine:
            rows += [r for row in _rows(found, engine, quick, skip, progress) for r in _named(row)]
            if subjects is None:
                rows += to_come(engine.device, {(s.kind, s.name) for s in found}, kinds, only)
    return rows


def _rows(found: Sequence[Subject], engine: Engine, quick: bool, skip: Sequence[str], progress: bool) -> list[Row]:
    """A row a subject: checked in processes of their own where there are many, and timed here, one after the other."""
    rows: dict[int, Row] = {}
    with terminal.bar(total=len(found), desc=f"status {engine.device.key}: checks", unit="row",
                      progress=progress) as bar:
        for k, answer in workers.each(found, engine.device, quick, skip):
            bar.set_postfix_str(f"{found[k].kind} {found[k].name}"[:32].ljust(32))
            if "unknown" not in answer:
                row = answer["row"] if "row" in answer else {"note": answer["failed"]}
                rows[k] = replace(blank(found[k], engine.device), **row)
                bar.update()
        for k, subject in enumerate(found):
            if k not in rows:
                bar.set_postfix_str(f"{subject.kind} {subject.name}"[:32].ljust(32))
                rows[k] = check(subject, engine, quick, skip)
                bar.update()
    if quick:
        return [rows[k] for k in range(len(found))]
    with terminal.bar(found, desc=f"status {engine.device.key}: times ", unit="row", progress=progress) as bar:
        return [timed(rows[k], subject, engine) for k, subject in enumerate(bar)]


def _named(row: Row) -> list[Row]:
    """The row under each of the specification's names for it: a class that merges two answers both."""
    if row.kind == "op":
        return [row]
    return [replace(row, spec_name=name) for name in catalog.spec_names(row.kind, row.name)] or [row]


def to_come(device: Device, present: set[tuple[str, str]], kinds: Sequence[str], only: str = "") -> list[Row]:
    """Rows of the goals that are not there yet."""
    goals = [(kind, goal) for kind in kinds for goal in catalog.missing(kind, {n for k, n in present if k == kind})]
    chosen = registry.selected({name for _, name in present} | {goal.name for _, goal in goals}, only)
    return [Row(kind, goal.name, goal.spec_name, goal.family, device.key, note=TO_COME, driver=device.driver,
                device_name=device_words(device)) for kind, goal in goals if goal.name in chosen]
