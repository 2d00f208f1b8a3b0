"""Map -> source: a statement for each pointwise op, element by element."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from ...core.size import divides, typical, varies
from ...kernels.grid import item_count
from .accesses import ahead, in_memory, known_alignment, nice_share, store_lines, streamed
from .emit import Emitter, Params
from .fusion import Map, Schedule
from .index import Expr, var
from .source import Source, finish, indent, kernel_name, share, template

if TYPE_CHECKING:
    from ..device.devices import Device

MAP_CHUNK = 4096  # elements that are worth a work-item of their own on a CPU
GPU_GROUP = 256
GPU_VECTOR = 4


def map_source(schedule: Schedule, fusion: Map, device: Device) -> Source:
    """A kernel that computes the fusion's outputs element by element."""
    domain = fusion.domain
    k = _choose_split(schedule, fusion, device)
    outer, inner = math.prod(domain[:k]), math.prod(domain[k:])
    flat = var("o", outer) * inner + var("j", inner)
    width = _gpu_width(schedule, fusion, device, inner, flat) if device.is_gpu else device.vector_width
    params = Params()

    def body(lanes: int) -> list[str]:
        e = Emitter(params, in_memory(schedule, fusion), "j", lanes,
                    alignment=known_alignment(schedule, device), streamed=streamed(schedule, fusion.stores, device),
                    ahead=functools.partial(ahead, device))
        store_lines(e, fusion.stores, flat)
        return e.lines

    name = f"map_{kernel_name(fusion)}"
    if device.is_gpu:
        lines, items = indent(body(width), 1), outer * inner // width
        text = template("map_gpu", name=name, params=params.declaration(),
                        begin=params.begin(), body=lines, J=per_row(inner // width, outer == 1), W=width, items=items,
                        index="uint" if items < 1 << 31 else "size_t")
        return Source(name, finish(text, device, params), params, (-(-items // GPU_GROUP) * GPU_GROUP,), (GPU_GROUP,))
    vector_body = body(width) if width > 1 and typical(inner) >= width else []
    loops = _loop(width, vector_body) if vector_body else []
    loops += [] if vector_body and divides(width, inner) else _loop(1, body(1))  # shares are whole vectors
    items_o, items_j = _share(outer, inner, width, device)
    chunk_o, chunk_j = -(-outer // items_o), -(-inner // items_j // width) * width if items_j > 1 else inner
    text = template("map_cpu", name=name, params=params.declaration(), begin=params.begin(), items_o=items_o,
                    items_j=items_j, O=outer, J=inner, W=width, columns=share("j", 0, chunk_j, inner),
                    rows=share("o", 1, chunk_o, outer), loops=indent(loops, 2))
    return Source(name, finish(text, device, params), params, (items_j, items_o), (1, 1))


def _loop(step: int, body: list[str]) -> list[str]:
    return [f"for (; j + {step} <= j1; j += {step}) {{", *("    " + line for line in body), "}"]


def _gpu_width(schedule: Schedule, fusion: Map, device: Device, inner: int, flat: Expr) -> int:
    """Elements a work-item: 4 where rows are whole vectors, every load is contiguous and the elements
    still occupy all units.
    """
    enough = typical(math.prod(fusion.domain)) >= GPU_VECTOR * GPU_GROUP * device.compute_units
    whole = divides(GPU_VECTOR, inner) and enough
    return GPU_VECTOR if whole and nice_share(schedule, fusion, fusion.stores, flat, "j") == 1.0 else 1


def per_row(vectors: int, single: bool) -> int | str:
    """By how many vectors items are counted in rows: where a `single` row is of a length that varies, by a power of two
    that no number of theirs reaches, so that nothing is divided by what only the launch knows.
    """
    return "(1u << 31)" if single and varies(vectors) else vectors


def _share(outer: int, inner: int, width: int, device: Device) -> tuple[int, int]:
    """(work-items over rows, over columns): none below MAP_CHUNK elements, about four per core above."""
    total = item_count(device, outer * inner, outer * inner, MAP_CHUNK)
    rows = min(typical(outer), total)
    columns = max(1, min(-(-total // rows), typical(inner) // max(width, 1)))
    if columns > 1:
        chunk = -(-inner // columns // width) * width
        columns = -(-inner // chunk)
    return -(-outer // -(-outer // max(rows, 1))) if outer else 1, columns


def _choose_split(schedule: Schedule, fusion: Map, device: Device) -> int:
    """How many leading axes the outer loop takes: the fewest that make every access contiguous
    or constant along the lanes.
    """
    best, best_score = max(len(fusion.domain) - 1, 0), -1.0
    for k in range(len(fusion.domain)):
        outer, inner = math.prod(fusion.domain[:k]), math.prod(fusion.domain[k:])
        score = nice_share(schedule, fusion, fusion.stores, var("o", outer) * inner + var("j", inner), "j",
                           (0, 1) if device.is_gpu else (0, 1, -1))
        if inner == 1 and k:
            break
        if score > best_score:
            best, best_score = k, score
        if score == 1.0:
            break
    return best
