"""What works here, row by row: formula, parameters, kernels and errors of each name, measured where asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.tensor import tensor
from ...engine import current, on
from ...engine.explain import explain
from ...errors import DataError
from ...names import ending
from ...show import Table
from .. import parity
from ..evidence import catalog, registry
from ..evidence.facts import facts
from ..evidence.registry import Subject
from ..marks import NO, Mark
from ..status import tables as kept
from ..status.row import ASPECTS, TO_COME, Row
from ..status.run import to_come
from ..status.verdict import blank, measure
from .explorer import Explorer
from .rows import Part

if TYPE_CHECKING:
    from ...engine.protocol import Engine

UNKNOWN = "not measured here"
NO_SHAPES = "... -> ..."  # of layers that say nothing of them
KERNELS = 3  # kernels of an example that a page shows


def status(only: str = "", folder: str | Path = "status", engine: Engine | None = None) -> Explorer[Row]:
    """Ops, layers, losses and optimizers with what is known of them on this device: filter by kind, family and state;
    a row shows formula, paper, parameters and kernels, and "measure now" runs the checks of `clnet status` for it.

    only     names that contain it
    folder   where `clnet status` wrote; rows that it has not for this device are "not measured here"
    engine   None: the engine in use
    A layer that was defined in a cell is a row like any other.
    """
    engine = engine if engine is not None else current()
    pages = _Pages(engine)
    return Explorer(f"Status on {engine.device}", ("kind", "name", "family", *ASPECTS, "ms", "note"),
                    _rows(only, Path(folder), engine), _cells, pages.detail,
                    {"kind": lambda r: r.kind, "family": lambda r: r.family, "state": _state},
                    {"measure now": pages.measured})


def _rows(only: str, folder: Path, engine: Engine) -> list[Row]:
    try:
        known = {(r.kind, r.name): r for r in kept.read(folder) if r.device == engine.device.key}
    except DataError:
        known = {}
    found = registry.subjects(only=only)
    rows = [known.get((s.kind, s.name)) or replace(blank(s, engine.device), note=UNKNOWN) for s in found]
    rows += to_come(engine.device, {(s.kind, s.name) for s in found}, catalog.KINDS, only)
    if not rows:
        close = ending(only, [s.name for s in registry.subjects()])
        raise DataError(f"explore.status: expected a part of a name that there is; got {only!r}{close}")
    return rows


def _state(row: Row) -> str:
    if row.note in (UNKNOWN, TO_COME):
        return row.note
    return "green" if row.green else "failing" if NO in row.verdicts.values() else "partial"


def _cells(row: Row) -> list[object]:
    unknown = row.note in (UNKNOWN, TO_COME)
    return [row.kind, row.name, row.family, *("" if unknown else Mark(v).text for v in row.verdicts.values()),
            "" if row.time_ms is None else f"{row.time_ms:.3g}", row.note]


class _Pages:
    """The pages of rows, with the errors of those that were measured."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.errors: dict[tuple[str, str], parity.Parity] = {}

    def measured(self, row: Row) -> Row:
        subject = _subject(row)
        with on(self.engine):
            if examples := subject.examples():
                example = examples[0]
                self.errors[row.kind, row.name] = parity.of_function(
                    example.function, example.inputs, example.names, self.engine, row.name)
            return replace(measure(subject, self.engine), spec_name=row.spec_name)

    def detail(self, row: Row) -> Iterator[Part]:
        if not row.there:
            yield f"{row.name} is in the catalogue, and not there yet."
            return
        subject = _subject(row)
        yield from _declared(subject)
        if row.note != UNKNOWN:
            yield Table(("", "holds"), [(a, Mark(v)) for a, v in row.verdicts.items()], title="Checked on this device",
                        notes=[row.note] if row.note else [])
        if found := self.errors.get((row.kind, row.name)):
            yield found
            yield from found.plots().values()
        yield from self._kernels(subject)

    def _kernels(self, subject: Subject) -> Iterator[Part]:
        if not self.engine.compiles or not (examples := subject.examples()):
            return
        with on(self.engine):
            y = examples[0].function(*map(tensor, examples[0].inputs))
            explained = explain(*(y if isinstance(y, (tuple, list)) else (y,)))
        yield explained.plan
        for k in range(min(KERNELS, len(explained.launches))):
            yield explained.kernel(k)


def _subject(row: Row) -> Subject:
    subject = registry.find(row.name, (row.kind,))
    if subject is None:
        raise DataError(f"status: expected something registered as {row.kind} {row.name}; got {row.note or 'nothing'}.")
    return subject


def _declared(subject: Subject) -> Iterator[Part]:
    """What a declaration says."""
    known: dict[str, Any] = facts(subject)
    shapes = known["signature"] if known["signature"] != NO_SHAPES else ""
    said = [("formula", known["formula"]), ("shapes", shapes), ("paper", known["paper"])]
    yield Table(("", subject.name), [(name, text) for name, text in said if text], align="ll")
    if fields := known["fields"]:
        yield Table(("argument", "default", "meaning"),
                    [(name, str(f.get("default", "needed")), f.get("description", "")) for name, f in fields.items()],
                    align="lll")
    if parameters := known["parameters"]:
        yield Table(("parameter", "role", "shape"),
                    [(name, p["role"], "×".join(map(str, p["shape"]))) for name, p in parameters.items()], align="lll")
