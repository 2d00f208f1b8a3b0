"""What the kernels of a fusion read from memory and write to it: which nodes, how they are aligned, past which caches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.size import common_divisor, varies
from ...core.spec import np_dtype
from . import c_types as ct
from .emit import Emitter, Load, Params, Value
from .fusion import Fusion, Schedule
from .index import Expr, variables
from .node import Assembly, Leaf, Node
from .reads import ALIGNED

if TYPE_CHECKING:
    from ..device.devices import Device

STREAM = 8 << 20  # [bytes] of a result that does not stay in a cache until it is read
BEYOND = 1 << 20  # [bytes] of an operand that is not in a core's own cache
PAGE = 4096  # [bytes] of memory
LINE = 64  # [bytes] of a cache
FAR = 1024  # [bytes] between rows from which on the next is not fetched along with one
ROWS_AHEAD = 16  # rows at which those are asked for (8 to 32 alike on a Zen 4, 4 is late)


def in_memory(schedule: Schedule, fusion: Fusion) -> Callable[[Node], bool]:
    """What the kernels of this fusion read from memory: leaves and what earlier ones stored."""

    def test(n: Node) -> bool:
        # A view that a later fusion copies for itself is not there yet: it is read through.
        return isinstance(n, (Leaf, Assembly)) or (n in schedule.stored and schedule.home[n].position < fusion.position)

    return test


def store_lines(emitter: Emitter, stores: list[Node], flat: Expr) -> None:
    """Emits the values of outputs at row-major element `flat`, then their stores."""
    values = []
    for n in stores:
        # A stored node that is computed here; a stored view is a copy: its value is its input's.
        values.append((n, emitter.given.get(n) or emitter.at(n, flat)))
    for n, v in values:
        lanes = emitter.lanes
        text = v.name if v.lanes == lanes else f"({ct.vector(ct.REGISTER[v.dtype], lanes)})({v.name})"
        cast, past = (emitter.aligned(a, n, 0, flat) for a in (emitter.alignment, emitter.streamed))
        emitter.lines.append(ct.store(text, emitter.params.write(n), flat.c(), n.spec.dtype, lanes, cast, past))


def dry_loads(schedule: Schedule, fusion: Fusion, nodes: list[Node], flat: Expr) -> list[Load]:
    """What the nodes at `flat` load, from a dry run of the emitter."""
    e = Emitter(Params(), in_memory(schedule, fusion))
    e.given.update({core: Value("core", core.spec.dtype, 1) for core in fusion.cores})
    for n in nodes:
        if n not in e.given:
            e.at(n, flat)
    return e.loads


def is_moved(load: Load, name: str) -> bool:
    """Whether a condition of the load depends on the variable."""
    return any(name in variables(c.expr) for c in load.conditions)


def nice_share(schedule: Schedule, fusion: Fusion, nodes: list[Node], flat: Expr, lane: str) -> float:
    """Share of the loads that are contiguous along `lane` or independent of it."""
    loads = dry_loads(schedule, fusion, nodes, flat)
    good = [ld.flat.coefficient(lane) in (0, 1) and not is_moved(ld, lane) for ld in loads]
    return sum(good) / len(good) if good else 1.0


def alignment(schedule: Schedule, node: Node) -> int:
    """Elements to which node's memory is aligned."""
    return common_divisor(_start(schedule, node), ALIGNED)


def _start(schedule: Schedule, node: Node) -> int:
    """Elements before node in the memory that it shares with what it was concatenated with."""
    whole, at = schedule.parts.get(node, (node, 0))
    return at + _start(schedule, whole) if whole is not node else 0


def known_alignment(schedule: Schedule, device: Device) -> Callable[[Node], int] | None:
    """What emitters ask for alignment: only GPUs gain from pointers to vectors (NVIDIA turns vloadN into N loads)."""
    return functools.partial(alignment, schedule) if device.is_gpu else None


def streamed(schedule: Schedule, stores: list[Node], device: Device) -> Callable[[Node], int] | None:
    """What emitters ask before they write a result past the caches, which saves reading the lines
    that it replaces; None: they don't.

    Only single results: an update of several arrays writes lines that it has just read.
    """
    large = len(stores) == 1 and not varies(stores[0].spec.nbytes) and stores[0].spec.nbytes >= STREAM
    return functools.partial(alignment, schedule) if large and device.heeds_cache_hints else None


def ahead(device: Device, node: Node, flat: Expr) -> int:
    """Elements before their use at which vectors of a large array are asked for: a page, at whose end processors stop
    to fetch ahead by themselves.
    """
    large = (varies(node.spec.nbytes) or node.spec.nbytes >= BEYOND) and device.heeds_cache_hints
    return PAGE // np_dtype(node.spec.dtype).itemsize if large else 0


def rows_ahead(device: Device, row: str, lanes: int, node: Node, flat: Expr) -> int:
    """The same where a kernel walks down the rows of a matrix. Processors follow such a stride, but only to the line
    that a vector begins in; rows of no whole number of lines have vectors across two.
    """
    stride, itemsize = flat.coefficient(row) or 0, np_dtype(node.spec.dtype).itemsize
    if not ahead(device, node, flat) or not (varies(stride) or stride * itemsize % LINE and stride * itemsize > FAR):
        return 0
    return ROWS_AHEAD * stride + lanes - 1
