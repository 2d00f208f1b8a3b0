"""Plans on disk: what a step was planned to be in another process serves an equal step here.

An entry is plain values alone, as JSON (plan_values.py). Its key is everything that a plan is made of: the structure of
the graph, the device, the numbers of kernels that were measured, the files of clnet, the interpreter. A graph that
holds something else than plain values, or an op or kernel that is not clnet's own, has no key and is planned anew.
CLNET_KEEP_PLANS=0 in the environment: nothing is read or written.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ..core.op import OPS
from ..core.size import Size
from ..core.spec import Spec
from ..kernels import tuning
from ..kernels.variant import VARIANTS
from . import plan_values
from .compile.plan import Plan
from .compile.sized import SizedPlan
from .device.device import Device
from .device.folders import cache_root
from .device.program_files import Store
from .plan_values import PLAIN, unkept

LAYOUT = 2  # of entries
VARIABLE = "CLNET_KEEP_PLANS"
LIMIT = 64 << 20  # [bytes] of entries kept
WORTH = 0.0002  # [s] of planning from which a plan is kept: a process that reads all of them loads no planner
OURS = __name__.partition(".")[0] + "."
PARTS = "core", "engine", "kernels", "ops"  # of clnet, of which plans are made
ROOM = 64  # entries that a process writes between two looks at how much is kept: LIMIT may be passed by so many
WAYS = 4  # entries of one structure whose sizes vary: each decided something else by them


def store() -> Store:
    """Where they are."""
    return Store(cache_root() / "plans", LIMIT)


class PlanFiles:
    """The plans of one device; `active`: whether they are read and written."""

    def __init__(self, device: Device, options: tuple[str, ...]) -> None:
        self.device, self.options, self._writes = device, options, itertools.count()
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
        except plan_values.Unkept:
            return None

    def read(self, key: str | None, axes: tuple[int, ...] = ()) -> tuple[Plan | SizedPlan, list[int]] | None:
        """The plan of an entry, and the leaves that it takes beside the first; of a structure whose sizes vary one that
        serves these.
        """
        for data in map(self.store.read, _names(key, bool(axes))):
            with contextlib.suppress(ValueError, TypeError, LookupError, ArithmeticError, zlib.error):
                found = None if data is None else plan_values.read(zlib.decompress(data).decode(), axes)
                if found is not None:
                    return found
        return None

    def write(self, key: str | None, plan: Plan | SizedPlan, others: list[int], seconds: float) -> None:
        """Keeps a plan that it took so long to make, where that is worth it."""
        if key is None or seconds < WORTH:
            return
        try:
            text = plan_values.written(plan, others)
        except plan_values.Unkept:
            return
        *names, last = _names(key, isinstance(plan, SizedPlan))
        free = next((name for name in names if self.store.read(name) is None), last)
        self.store.write(free, zlib.compress(text.encode(), 1))
        if next(self._writes) % ROOM == 0:
            self.store.trim()


def _names(key: str | None, varies: bool) -> list[str]:
    """Of the entries of a structure."""
    return [] if key is None else [key, *(f"{key}-{k}" for k in range(1, WAYS if varies else 1))]


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
    return "size" if value is Size else unkept()  # in the place of one that varies


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
