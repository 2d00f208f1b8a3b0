"""Folds -> sources on GPUs: work-groups along the reduced axes, or across neighbouring results.

Where the results alone would leave units idle, the reduced axes are cut, and a second launch merges
the parts in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.size import divides, typical, varies
from . import c_types as ct
from .accesses import known_alignment, nice_share
from .emit import Emitter
from .folds import BLOCK, Shape, Writer, is_cut, is_simple, lanes_along
from .fusion import Folds, Schedule
from .index import Expr, var
from .maps import GPU_VECTOR, per_row
from .source import Source, indent

if TYPE_CHECKING:
    from ..device.devices import Device

WARP = 32
GROUP, LARGEST = 256, 1024  # work-items of a group: usual, and where there are few groups
SHORT = 16  # [elements] an item folds them alone
ITEM = 8  # [loads] that are worth a work-item
LONG = 32  # [loads] of an item; beyond, the axes are cut
RESIDENT, COLUMNS_RESIDENT = 2048, 1024  # work-items a compute unit, along the reduced axes and across results


def gpu_sources(schedule: Schedule, fusion: Folds, device: Device) -> list[Source]:
    """One kernel for the reductions of the fusion, which share their domain, or one for parts and one that merges them.
    """
    dims = Shape(fusion.cores[0])
    scratch: dict[str, int] = {}
    writer = _GpuWriter(schedule, fusion, dims, device, scratch)
    mode, n = lanes_along(schedule, fusion, dims, WARP)
    length = typical(dims.length)
    if length <= SHORT and mode == "inner":
        first, parts = writer.columns(dims.results, 1)
    elif (mode == "inner" and length <= GPU_VECTOR * WARP and n == dims.length and writer.width(mode, n) > 1
          and typical(dims.results) >= GROUP * device.compute_units):
        return [writer.short_rows()]
    else:
        first, parts = (writer.columns if mode == "outer" else writer.rows)(n, writer.width(mode, n))
    return [first] if parts == 1 else [first, _GpuWriter(schedule, fusion, dims, device, scratch).merged(parts)]


def _power(n: int) -> int:
    """The least power of two of at least n."""
    return 1 << max(0, n - 1).bit_length()


class _GpuWriter(Writer):
    def __init__(self, schedule: Schedule, fusion: Folds, dims: Shape, device: Device, scratch: dict[str, int]) -> None:
        super().__init__(schedule, fusion, dims, device)
        self.params.scratch = scratch
        self.index = "uint" if dims.results * max(dims.length, 1) < 1 << 31 else "size_t"
        self.part_names = {(id(core), c): f"g_part{k}" for k, (core, c, _) in enumerate(self.acc.rows)}

    def emitter(self, lane: str = "", lanes: int = 1, prefix: str = "t") -> Emitter:
        e = super().emitter(lane, lanes, prefix)
        e.alignment = known_alignment(self.schedule, self.device)
        return e

    def width(self, mode: str, n: int) -> int:
        """Elements that an item reads at once: 4 where runs of n are whole vectors and every load is contiguous."""
        dims = self.dims
        if not divides(GPU_VECTOR, n) or not is_simple(self.fusion):
            return 1
        j = var("j", n)
        if mode == "inner":
            element = dims.element(var("o", dims.results), var("r", dims.length // n) * n + j)
        else:
            element = dims.element(var("o", dims.results // n) * n + j, var("r", dims.length))
        share = nice_share(self.schedule, self.fusion, [c.inputs[0] for c in self.fusion.cores], element, "j")
        return GPU_VECTOR if share == 1.0 else 1

    def most(self, width: int) -> int:
        """Work-items of a group, as far as their values fit local memory."""
        bytes_ = sum(ct.BYTES[ctype] * width for _, _, ctype in self.acc.rows)
        fits = max(WARP, self.device.local_memory // 2 // bytes_)
        return min(LARGEST, self.device.max_work_group, _power(fits + 1) // 2)

    def cut(self, count: int, items: int, groups: int, size: int, resident: int = RESIDENT) -> tuple[int, int]:
        """(parts, elements a part): of `count` that `items` walk side by side, where `groups` of a size leave units
        idle and the way is long. Of a count that varies, the last parts may be empty.
        """
        near, wanted = typical(count), -(-self.device.compute_units * resident // max(typical(groups) * size, 1))
        parts = min(wanted, near // (items * ITEM)) if wanted > 1 and near > LONG * items else 1
        chunk = -(-count // max(parts, 1) // items) * items if parts > 1 else max(count, 1)
        return parts if varies(count) else max(1, -(-count // chunk)), chunk

    # --- shapes
    def rows(self, n: int, width: int) -> tuple[Source, int]:
        """Items of a result along the reduced axes in runs of n, short ones several to a work-group;
        the number of parts.
        """
        dims, acc = self.dims, self.acc
        o, r, j = var("o", dims.results), var("r", dims.length // n), var("j", n)
        count = dims.length // width
        near, most, few = typical(count), self.most(width), typical(dims.results) < 4 * self.device.compute_units
        items = min(most, LARGEST if few else GROUP, max(_power(-(-near // ITEM)), min(WARP, _power(near))))
        results = max(1, min(GROUP, most) // items)
        parts, chunk = self.cut(count, items, -(-dims.results // results), items * results)
        cut = is_cut(self.fusion, -(-chunk // items), BLOCK)
        kind: tuple[int, str, str] = (width, "v", "w") if width > 1 else (1, "a", "b")
        body = acc.step(self.emitter("j", width), dims.element(o, r * n + j), (r * n + j).c(), width,
                        kind[2] if cut else kind[1])
        first, before, after = acc.blocks([kind], cut)
        init = first + ([*acc.init(1), *(acc.none_lost(1, "a") if cut else [])] if width > 1 else [])
        done = self.finish(o) if parts == 1 else self.store_parts(o, 1, parts)
        return self.source("fold_gpu", (-(-dims.results // results) * results * items, parts), (results * items, 1),
                           G=items, L=results, GROUP=results * items, O=dims.results, Q=count, CHUNK=chunk,
                           PER=per_row(n // width, n == dims.length), W=width, index=self.index,
                           init=indent(init, 1), body=indent(body, 3),
                           **self.walk("q0 + m", "q1", items, before, after), join=indent(acc.join(width, cut), 1),
                           finish=indent(done, 2), **acc.tree(results * items)), parts

    def short_rows(self) -> Source:
        """A few items a result, many results a work-group, which would find too little work in one."""
        dims, acc, count = self.dims, self.acc, self.dims.length // GPU_VECTOR
        o, j, per = var("o", dims.results), var("j", dims.length), _power(typical(count))
        body = acc.step(self.emitter("j", GPU_VECTOR), dims.element(o, j), "j", GPU_VECTOR, "v")
        done = self.finish(o)
        return self.source("fold_rows_gpu", (-(-dims.results * per // GROUP) * GROUP,), (GROUP,), O=dims.results,
                           G=GROUP, L=per, Q=count, W=GPU_VECTOR,
                           init=indent(acc.init(1) + acc.init(GPU_VECTOR, "v"), 1), body=indent(body, 2),
                           join=indent(acc.join(GPU_VECTOR), 1), finish=indent(done, 2), **acc.tree(GROUP))

    def columns(self, n: int, width: int) -> tuple[Source, int]:
        """Items across neighbouring results in runs of n, lines of them along the reduced axes; the number of parts."""
        dims, acc = self.dims, self.acc
        o, j, r = var("o", dims.results // n), var("j", n), var("r", dims.length)
        element = dims.element(o * n + j, r)
        return self.lines(o * n + j, n, width, dims.length,
                          lambda to: acc.step(self.emitter("j", width), element, "r", width, to))

    def merged(self, parts: int) -> Source:
        """The second launch: merges the parts and writes the results."""
        results, acc = self.dims.results, self.acc

        def body(to: str) -> list[str]:
            loads = [f"const {t} {acc.name(k, c, 'e')} = "
                     f"((__global const {t}*){self.part_names[id(k), c]})[r * {results} + j];" for k, c, t in acc.rows]
            return loads + acc.add(1, to, "e", exact=False)

        self.name += "_merge"
        return self.lines(var("j", results), results, 1, parts, body, whole=True)[0]

    def lines(self, flat: Expr, n: int, width: int, length: int, body: Callable[[str], list[str]],
              whole: bool = False) -> tuple[Source, int]:
        """The kernel whose items stand across the results, where `body` folds into the accumulators of that prefix;
        `whole`: in one launch.
        """
        acc, columns = self.acc, self.dims.results // width
        most, units = self.most(width), self.device.compute_units
        near, long = typical(columns), typical(length)
        few = near < 4 * units * WARP
        tall = few and (whole or long <= LONG * LARGEST // WARP)  # which need no second launch then
        high = min(most // WARP, (LARGEST if tall else GROUP) // WARP, _power(-(-long // ITEM)))
        across, high = (min(GROUP, most), 1) if long <= SHORT or near >= 4 * units * GROUP else (WARP, high)
        parts, chunk = (1, max(length, 1)) if whole else self.cut(length, high, -(-columns // across), high * across,
                                                                  COLUMNS_RESIDENT)
        done = self.finish(flat, "j", width) if parts == 1 else self.store_parts(flat, width, parts)
        cut = is_cut(self.fusion, -(-chunk // high), BLOCK)
        first, before, after = acc.blocks([(width, "a", "b")], cut)
        source = self.source("fold_columns_gpu", (-(-columns // across) * across, parts * high), (across, high),
                             X=across, Y=high, COLUMNS=columns, R=length, CHUNK=chunk,
                             PER=per_row(n // width, n == self.dims.results), W=width,
                             index=self.index, init=indent(first, 1), body=indent(body("b" if cut else "a"), 3),
                             **self.walk("r0 + get_local_id(1)", "r1", high, before, after),
                             found=indent(acc.found("a") if cut else [], 1), finish=indent(done, 2),
                             **acc.tree(across * high, width))
        return source, parts

    def walk(self, start: str, stop: str, step: int, before: list[str], after: list[str]) -> dict[str, str]:
        """The parts of an item's loop from start to stop in steps: in blocks, with what stands before and behind each,
        where there is anything.
        """
        if not before:
            return {"block": "", "start": start, "stop": stop, "end_block": ""}
        block = BLOCK * step
        loop = (f"for ({self.index} b = {start}; b < {stop}; b += {block}) "
                f"{{ const {self.index} end = min(b + {block}, {stop});")
        return {"block": indent([loop, *before], 2), "start": "b", "stop": "end", "end_block": indent([*after, "}"], 2)}

    def store_parts(self, flat: Expr, width: int, parts: int) -> list[str]:
        """Statements that leave the accumulators of this part where `merged` finds them."""
        out = []
        for core, c, ctype in self.acc.rows:
            part, kind = self.part_names[id(core), c], ct.vector(ctype, width)
            self.params.scratch[part] = parts * self.dims.results * ct.BYTES[ctype]
            at = f"get_group_id(1) * (size_t){self.dims.results} + {flat.c()}"
            out.append(f"*(__global {kind}*)((__global {ctype}*){part} + {at}) = {self.acc.name(core, c)};")
        return out
