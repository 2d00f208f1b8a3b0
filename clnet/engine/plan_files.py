"""Plans on disk: what a step was planned to be in another process serves an equal step here.

An entry is plain values alone, as JSON. Its key is everything that a plan is made of: the structure of
the graph, the device, the numbers of kernels that were measured, the files of clnet, the interpreter. A graph that
holds something else than plain values, or an op or kernel that is not clnet's own, has no key and is planned anew.
CLNET_KEEP_PLANS=0 in the environment: nothing is read or written.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.op import OPS
from ..core.operators import Count
from ..core.spec import Spec
from ..kernels import tuning
from ..kernels.variant import VARIANTS, Answer, Choice, Refusal, Variant
from .compile.memory_map import Address
from .compile.plan import Launch, Plan
from .device.device import Device
from .device.folders import cache_root
from .device.program_files import Store

LAYOUT = 1  # of entries
VARIABLE = "CLNET_KEEP_PLANS"
LIMIT = 64 << 20  # [bytes] of entries kept
WORTH = 0.03  # [s] of planning from which a plan is kept
OURS = __name__.partition(".")[0] + "."
PLAIN = frozenset({int, Count, float, bool, str, type(None)})
PARTS = "core", "engine", "kernels", "ops"  # of clnet, of which plans are made

Place = tuple[str, int, int]  # an Address


class Unkept(Exception):
    """A plan, or what it is made of, that only this process understands."""


def store() -> Store:
    """Where they are."""
    return Store(cache_root() / "plans", LIMIT)


class PlanFiles:
    """The plans of one device; `active`: whether they are read and written."""

    def __init__(self, device: Device, options: tuple[str, ...]) -> None:
        self.device, self.options = device, options
        self.active = os.environ.get(VARIABLE, "").strip() != "0"

    @functools.cached_property
    def store(self) -> Store:
        return store()

    def _facts(self) -> str:
        own, device = tuning.own_file(self.device), [getattr(self.device, f.name) for f in fields(Device) if f.compare]
        measured = own.read_text("utf-8") if own.is_file() else ""
        return "\n".join([str(LAYOUT), repr(device), *self.options, measured, sys.version, stamps()])

    def key(self, structure: Any) -> str | None:
        """The name of an entry; None for what has none."""
        if not self.active or tuning.trying() or not _all_ours():
            return None
        try:
            return hashlib.sha256(f"{self._facts()}\n{told(structure)}".encode()).hexdigest()
        except Unkept:
            return None

    def read(self, key: str | None) -> tuple[Plan, list[int]] | None:
        """The plan of an entry, and the leaves that it takes beside the first."""
        data = None if key is None else self.store.read(key)
        if data is None:
            return None
        try:
            plan, others = json.loads(zlib.decompress(data))
            return _read(plan), others
        except (ValueError, TypeError, LookupError, zlib.error):
            return None

    def write(self, key: str | None, plan: Plan, others: list[int], seconds: float) -> None:
        """Keeps a plan that it took so long to make, where that is worth it."""
        if key is None or seconds < WORTH:
            return
        try:
            text = json.dumps((_written(plan), others))
        except Unkept:
            return
        self.store.write(key, zlib.compress(text.encode(), 1))
        self.store.trim()


def told(value: Any) -> str:
    """Plain values as text, equal for equal values alone. Raises Unkept."""
    kind = type(value)
    if kind is tuple:
        return repr(value) if PLAIN.issuperset(map(type, value)) else f"({','.join(map(told, value))})"
    if kind is Spec:
        return value.dtype + told(value.shape)
    if kind in PLAIN:
        return repr(value)
    if isinstance(value, (np.generic, np.dtype)):
        return f"{kind.__name__} {value!r}"
    return _unkept()


def _unkept() -> str:
    raise Unkept


def _all_ours() -> bool:
    """Whether every op and kernel is declared by clnet itself: of others the files are not known."""
    return all(op.builtin for op in OPS.values()) and all(
        v.ask.__module__.startswith(OURS) for family in VARIANTS.values() for v in family)


@functools.cache
def stamps() -> str:
    """Which files plans are made by: their names, sizes and times, that of their arrival among them."""
    root = Path(__file__).parents[1]
    seen = [row for folder in (*(root / part for part in PARTS), Path(str(tuning.FOLDER)).parent)
            for row in _stamped(str(folder))]
    return hashlib.sha256(repr(sorted(seen)).encode()).hexdigest()


def _stamped(folder: str) -> Iterator[tuple[str, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from () if entry.name == "__pycache__" else _stamped(entry.path)
            else:
                s = entry.stat()
                yield entry.path, s.st_size, s.st_mtime_ns, s.st_ctime_ns


# --- plans as plain values, and back
class _Row(NamedTuple):
    """A launch."""

    name: str
    text: int
    args: Sequence[tuple[str, Any]]
    grid: Sequence[int]
    group: Sequence[int] | None
    ops: Sequence[str]
    reads: Sequence[Place]
    writes: Sequence[Place]
    nbytes: int
    note: str
    flops: float


def _written(plan: Plan) -> tuple[Any, ...]:
    texts: dict[str, int] = {}
    launches = [_row(launch, texts) for launch in plan.launches]
    choices = [(label, c.family, c.taken and c.taken[:-1], [(v[:-1], why) for v, why in c.others])
               for label, c in plan.choices]
    return (launches, list(texts), plan.arena, list(map(_place, plan.outputs)), plan.specs, list(plan.blocks.items()),
            plan.copies, choices)


def _row(launch: Launch, texts: dict[str, int]) -> _Row:
    if launch.host is not None:
        raise Unkept  # its op computes on the host
    args = [(kind, (v.dtype.char, v.item()) if kind == "value" else v if kind == "kept" else _place(v))
            for kind, v in launch.args]
    return _Row(launch.name, texts.setdefault(launch.text, len(texts)), args, launch.grid, launch.group, launch.ops,
                list(map(_place, launch.reads)), list(map(_place, launch.writes)), launch.nbytes, launch.note,
                launch.flops)


def _place(address: Address) -> Place:
    return address.kind, address.number, address.offset


def _read(kept: Sequence[Any]) -> Plan:
    rows, texts, arena, outputs, specs, blocks, copies, choices = kept
    launches = [_launch(_Row(*row), texts) for row in rows]
    return Plan(launches, arena, [Address(*a) for a in outputs], [Spec(tuple(shape), dtype) for shape, dtype in specs],
                dict(blocks), [tuple(c) for c in copies], [(label, _choice(*c)) for label, *c in choices])


def _launch(row: _Row, texts: Sequence[str]) -> Launch:
    args = [(kind, np.dtype(v[0]).type(v[1]) if kind == "value" else v if kind == "kept" else Address(*v))
            for kind, v in row.args]
    reads, writes = (tuple([Address(*a) for a in places]) for places in (row.reads, row.writes))
    group = None if row.group is None else tuple(row.group)
    return Launch(row.name, texts[row.text], args, tuple(row.grid), group, tuple(row.ops), None, reads, writes,
                  row.nbytes, row.note, functools.partial(_known, row.flops))


def _known(flops: float, numbers: Any) -> float:
    return flops


def _choice(family: str, taken: Any, others: Sequence[tuple[Any, str]]) -> Choice:
    return Choice(family, _variant(taken) if taken else None, None, tuple((_variant(v), why) for v, why in others))


def _variant(row: Sequence[Any]) -> Variant:
    family, name, cl, serves, rank = row
    return Variant(family, name, cl, serves, rank, _asked)


def _asked(problem: Any, device: Any) -> Answer:
    return Refusal("it was asked in another process")
