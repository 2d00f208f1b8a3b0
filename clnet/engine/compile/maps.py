"""Map -> source: a statement for each pointwise op, element by element."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from ...core.size import divides, typical, varies
from ...kernels.grid import item_count
from .accesses import ahead, dry_loads, in_memory, is_moved, known_alignment, nice_share, store_lines, streamed
from .emit import Emitter, Params, is_along
from .fusion import Map, Schedule
from .index import Expr, var
from .source import Source, finish, indent, kernel_name, share, template

if TYPE_CHECKING:
    from ..device.devices import Device

MAP_CHUNK = 4096  # elements that are worth a work-item of their own on a CPU
EQUAL = 0.1  # what a load in equal steps counts, against one that is a vector
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
    if rows := _tile_rows(schedule, fusion, k, width):
        return _tiles(schedule, fusion, device, outer // rows, rows, inner)
    vector_body = body(width) if width > 1 and typical(inner) >= width else []
    loops = _loop(width, vector_body) if vector_body else []
    loops += [] if vector_body and divides(width, inner) else _loop(1, body(1))  # shares are whole vectors
    items_o, items_j = _share(outer, inner, width, device)
    chunk_o, chunk_j = -(-outer // items_o), -(-inner // items_j // width) * width if items_j > 1 else inner
    text = template("map_cpu", name=name, params=params.declaration(), begin=params.begin(), items_o=items_o,
                    items_j=items_j, O=outer, J=inner, W=width, columns=share("j", 0, chunk_j, inner),
                    rows=share("o", 1, chunk_o, outer), loops=indent(loops, 2))
    return Source(name, finish(text, device, params), params, (items_j, items_o), (1, 1))


def _tile_rows(schedule: Schedule, fusion: Map, k: int, width: int) -> int:
    """M, the most rows before the k-th axis along which all loads are contiguous that are not so along the lanes (or
    independent of them); 0 where there are none, or too few for a tile.
    """
    domain, found = fusion.domain, 0
    inner = math.prod(domain[k:])
    for first in reversed(range(k)):
        rows = math.prod(domain[first:k])
        flat = (var("p", math.prod(domain[:first])) * rows + var("m", rows)) * inner + var("j", inner)
        loads = [ld for ld in dry_loads(schedule, fusion, fusion.stores, flat)
                 if ld.flat.coefficient("j") not in (0, 1, -1)]
        if loads and all(is_along(ld.flat, "m", ld.conditions) and not is_moved(ld, "j") for ld in loads):
            found = rows
    return found if width > 1 and typical(found) >= width and typical(inner) >= width else 0


def _tiles(schedule: Schedule, fusion: Map, device: Device, blocks: int, rows: int, inner: int) -> Source:
    """The kernel that transposes tiles of what lies along rows."""
    width, params = device.vector_width, Params()
    flat = (var("p", blocks) * rows + var("m", rows)) * inner + var("j", inner)

    def emitter(lanes: int, tile: str = "") -> Emitter:
        e = Emitter(params, in_memory(schedule, fusion), "j", lanes, tile=tile,
                    streamed=streamed(schedule, fusion.stores, device), ahead=functools.partial(ahead, device))
        store_lines(e, fusion.stores, flat)
        return e

    whole, tiles = emitter(width, "m"), -(-rows // width)
    items_o, items_j = _share(blocks * tiles, inner, width, device, width)
    chunk_o, chunk_j = -(-blocks * tiles // items_o), -(-inner // items_j // width) * width if items_j > 1 else inner
    name = f"map_{kernel_name(fusion)}"
    text = template("map_tiles_cpu", name=name, params=params.declaration(), begin=params.begin(), items_o=items_o,
                    items_j=items_j, O=blocks * tiles, TILES=tiles, M=rows, J=inner, W=width,
                    columns=share("j", 0, chunk_j, inner), rows=share("o", 1, chunk_o, blocks * tiles),
                    tiles=indent(whole.before, 3), body=indent(whole.lines, 4), rest=indent(emitter(1).lines, 3))
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


def _share(outer: int, inner: int, width: int, device: Device, tall: int = 1) -> tuple[int, int]:
    """(work-items over rows, over columns), of rows that are so `tall`: none below MAP_CHUNK elements, about four per
    core above.
    """
    total = item_count(device, outer * inner, outer * inner * tall, MAP_CHUNK)
    rows = min(typical(outer), total)
    columns = max(1, min(-(-total // rows), typical(inner) // max(width, 1)))
    if columns > 1:
        chunk = -(-inner // columns // width) * width
        columns = -(-inner // chunk)
    return -(-outer // -(-outer // max(rows, 1))) if outer else 1, columns


def _choose_split(schedule: Schedule, fusion: Map, device: Device) -> int:
    """How many leading axes the outer loop takes: the fewest that make every access contiguous or constant along the
    lanes; on CPUs backward serves as well, and equal steps more than none.
    """
    best, best_score = max(len(fusion.domain) - 1, 0), -1.0
    for k in range(len(fusion.domain)):
        outer, inner = math.prod(fusion.domain[:k]), math.prod(fusion.domain[k:])
        flat = var("o", outer) * inner + var("j", inner)
        score = (nice_share(schedule, fusion, fusion.stores, flat, "j") if device.is_gpu
                 else _lane_score(schedule, fusion, flat))
        if inner == 1 and k:
            break
        if score > best_score:
            best, best_score = k, score
        if score == 1.0:
            break
    return best


def _lane_score(schedule: Schedule, fusion: Map, flat: Expr) -> float:
    """The share of the loads that are vectors, and a little for those that need no division in each lane."""
    loads = dry_loads(schedule, fusion, fusion.stores, flat)
    steps = [None if is_moved(ld, "j") else ld.flat.coefficient("j") for ld in loads]
    vectors, equal = sum(step in (0, 1, -1) for step in steps), sum(step is not None for step in steps)
    return (vectors + EQUAL * (equal - vectors)) / len(loads) if loads else 1.0
