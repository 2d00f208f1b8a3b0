"""Folds -> source on CPUs: lanes along the reduced axes, or across neighbouring results."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...core.size import divides, typical, varies
from ...kernels.grid import fitting, item_count
from .accesses import rows_ahead
from .folds import BLOCK, Shape, Writer, is_cut, is_simple, lanes_along
from .fusion import Folds, Schedule
from .index import var
from .source import Source, indent, share, until

if TYPE_CHECKING:
    from ..device.devices import Device

SHARE = 2048  # elements that are worth a work-item of their own
# vectors of neighbouring results that a work-item folds side by side, so that it reads more of each row at once
ACROSS = 4
# [lanes] along rows: the compiler itself takes several shorter rows at once, of folds that have one number
LEAST = 8


def cpu_sources(schedule: Schedule, fusion: Folds, device: Device) -> list[Source]:
    """The kernel for the reductions of the fusion, which share their domain."""
    dims = Shape(fusion.cores[0])
    writer = _CpuWriter(schedule, fusion, dims, device)
    mode, n = lanes_along(schedule, fusion, dims, device.vector_width)
    return [writer.outer(n) if mode == "outer" and writer.acc.has_vectors
            else writer.inner(n if mode == "inner" else dims.trailing(list(dims.axes))[-1])]


class _CpuWriter(Writer):
    def items(self, most: int) -> int:
        return item_count(self.device, most, self.dims.results * max(self.dims.length, 1), SHARE)

    def inner(self, n: int) -> Source:
        """Lanes along the reduced axes; the lanes of an accumulator merge in a fixed order at the end."""
        dims, acc, near = self.dims, self.acc, typical(n)
        rest = dims.length // n if n else 0
        width = fitting(self.device.vector_width, near)
        if not acc.has_vectors or width < LEAST and is_simple(self.fusion):
            width = 1
        # Lanes, accumulators of all, those of a block.
        # Two vectors side by side: one alone would wait for each addition to finish.
        vectors = [(width, "v", "w"), (width, "x", "y")][: (width > 1) + (near >= 8 * width > 8)]
        kinds = [(1, "a", "b"), *vectors]
        longest = max(near // (width * max(len(vectors), 1)), near % width, 1)  # steps of a row into one accumulator
        cut = is_cut(self.fusion, rest * longest, BLOCK)
        whole = bool(vectors) and divides(width, n)  # nothing is left for the scalar of a block
        init = acc.blocks(kinds, cut)[0]
        _, own, end = acc.blocks(vectors if whole else kinds, cut)
        steps = [count * width for count in range(len(vectors), 0, -1)] + [1]
        loops = list[str]()
        for k, step in enumerate(steps):
            if k == 0 or not divides(steps[k - 1], n):  # shares and blocks are whole multiples of the longest step
                loops += self._loop(n, step, kinds[1 : 1 + step // width] if step > 1 else kinds[:1], cut)
        join = (acc.absorb(width, "v", "x", cut) if len(vectors) > 1 else []) + acc.join(width, cut)
        chunk = -(-dims.results // self.items(dims.results)) if dims.results else 1
        rows = max(1, BLOCK // longest) if cut else max(rest, 1)  # of a block
        columns = BLOCK * width * max(len(vectors), 1) if cut and longest > BLOCK else max(n, 1)
        items = -(-dims.results // chunk)
        return self.source("fold_inner_cpu", (items,), (1,), O=dims.results, R=rest, J=n, W=width, RB=rows, JB=columns,
                           items=items, results=share("o", 0, chunk, dims.results), r1=until("r0", rows, rest),
                           j1=until("j0", columns, n), init=indent(init, 2), begin_block=indent(own, 3),
                           loops=indent(loops, 4), end_block=indent(end, 3), join=indent(join, 2),
                           finish=indent(self.finish(var("o", dims.results)), 2))

    def _loop(self, n: int, step: int, kinds: list[tuple[int, str, str]], cut: bool) -> list[str]:
        """The loop along rows of n in such steps, into an accumulator of each of `kinds` in turn."""
        dims, lines = self.dims, list[str]()
        o, r = var("o", dims.results), var("r", dims.length // n if n else 0)
        for k, (lanes, whole, part) in enumerate(kinds):
            j, lane = var(f"j_{k}", n), f"j_{k}"
            body = self.acc.step(self.emitter(lane, lanes), dims.element(o, r * n + j), (r * n + j).c(), lanes,
                                 part if cut else whole, along=True)
            lines += [f"    {{ const size_t {lane} = j + {k * lanes};", *("    " + line for line in body), "    }"]
        return [f"for (; j + {step} <= j1; j += {step}) {{", *lines, "}"]

    def outer(self, n: int) -> Source:
        """Lanes along the results: no merging of lanes, contiguous loads when the reduced axes are the slow ones."""
        dims = self.dims
        width = fitting(self.device.vector_width, typical(n))
        rows = dims.results // n
        many = self._side_by_side(typical(n) // width, typical(rows))
        span = many * width
        wanted = max(1, min(self.items(n) // max(typical(rows), 1), typical(n) // span))
        chunk = -(-n // wanted // span) * span
        items = -(-n // chunk)
        loops, left = list[str](), n
        for vectors, lanes in dict.fromkeys(((many, width), *((1, lanes) for lanes in _narrower(width, varies(n))))):
            if varies(left) or left >= vectors * lanes:
                loops += self.side_by_side(n, lanes, vectors)
                left %= vectors * lanes
        return self.source("fold_outer_cpu", (items, rows), (1, 1), O=rows, R=dims.length, J=n, items_j=items,
                           columns=share("j", 0, chunk, n), loops=indent(loops, 1))

    def _side_by_side(self, vectors: int, rows: int) -> int:
        """So many of a row's vectors that no core is left without any, where cores are many."""
        cores = min(self.device.compute_units, self.items(vectors))
        return next((many for many in (ACROSS, ACROSS // 2) if many * max(1, cores // max(rows, 1)) <= vectors), 1)

    def side_by_side(self, n: int, lanes: int, vectors: int) -> list[str]:
        """The loop over results in steps of so many vectors side by side, each with the whole fold."""
        dims, acc, cut = self.dims, self.acc, is_cut(self.fusion, self.dims.length, BLOCK)
        o, r, span = var("o", dims.results // n), var("r", dims.length), lanes * vectors
        lines = [f"for (; j + {span} <= j1; j += {span}) {{"]
        init, own, body, end, done = list[str](), list[str](), list[str](), list[str](), list[str]()
        for k in range(vectors):
            j, whole, part = var(f"j_{k}", n), f"a{k}_", f"b{k}_"
            first, before, after = acc.blocks([(lanes, whole, part)], cut)
            init += [f"const size_t j_{k} = j + {k * lanes};", *first]
            own += before
            reader = self.emitter(f"j_{k}", lanes)
            reader.ahead = functools.partial(rows_ahead, self.device, "r", lanes)
            body += ["{", *acc.step(reader, dims.element(o * n + j, r), "r", lanes,
                                    part if cut else whole), "}"]
            end += after
            done += [*(acc.found(whole) if cut else []), "{", *self.finish(o * n + j, f"j_{k}", lanes, whole), "}"]
        if cut:
            body = [f"for (size_t r0 = 0; r0 < {dims.length}; r0 += {BLOCK}) {{", *own,
                    f"for (size_t r = r0; r < {until('r0', BLOCK, dims.length)}; ++r) {{", *body, "}", *end, "}"]
        else:
            body = [f"for (size_t r = 0; r < {dims.length}; ++r) {{", *body, "}"]
        return [*lines, *init, *body, *done, "}"]


def _narrower(width: int, few: bool) -> list[int]:
    """Lanes for what is left of a row: each further pass over a matrix touches all its pages again. `few` of them for
    rows that vary, which have the code of all.
    """
    powers = [1 << k for k in range(width.bit_length())]
    return sorted({width, max(1, width // 4), 1} if few else powers, reverse=True)
