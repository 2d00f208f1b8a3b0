"""Folds -> source on CPUs: lanes along the reduced axes, or across neighbouring results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.size import typical, varies
from ...kernels.grid import item_count
from .folds import BLOCK, Shape, Writer, is_cut, is_simple, lanes_along
from .fusion import Folds, Schedule
from .index import Expr, var
from .source import Source, indent

if TYPE_CHECKING:
    from ..device.devices import Device

SHARE = 2048  # elements that are worth a work-item of their own
# vectors of neighbouring results that a work-item folds side by side, so that it reads more of each row at once
ACROSS = 4


def cpu_sources(schedule: Schedule, fusion: Folds, device: Device) -> list[Source]:
    """The kernel for the reductions of the fusion, which share their domain."""
    dims = Shape(fusion.cores[0])
    writer = _CpuWriter(schedule, fusion, dims, device)
    mode, n = lanes_along(schedule, fusion, dims, device.vector_width)
    return [writer.outer(n) if mode == "outer" and is_simple(fusion)
            else writer.inner(n if mode == "inner" else dims.trailing(list(dims.axes))[-1])]


class _CpuWriter(Writer):
    def items(self, most: int) -> int:
        return item_count(self.device, most, self.dims.results * max(self.dims.length, 1), SHARE)

    def inner(self, n: int) -> Source:
        """Lanes along the reduced axes; the lanes of an accumulator merge in a fixed order at the end."""
        dims, acc, near = self.dims, self.acc, typical(n)
        rest = dims.length // n if n else 0
        o, r, j = var("o", dims.results), var("r", rest), var("j", n)
        width = self.device.vector_width if is_simple(self.fusion) and near >= self.device.vector_width else 1

        def step(lanes: int, prefix: str, j: Expr, lane: str) -> list[str]:
            return acc.step(self.emitter(lane, lanes), dims.element(o, r * n + j), (r * n + j).c(), lanes, prefix)

        # Lanes, accumulators of all, those of a block.
        # Two vectors side by side: one alone would wait for each addition to finish.
        vectors = [(width, "v", "w"), (width, "x", "y")][: (width > 1) + (near >= 8 * width > 8)]
        kinds = [(1, "a", "b"), *vectors]
        longest = max(near // (width * max(len(vectors), 1)), near % width, 1)  # steps of a row into one accumulator
        cut = is_cut(self.fusion, rest * longest, BLOCK)
        init, own, end = acc.blocks(kinds, cut)
        loop = list[str]()
        for count in range(len(vectors), 0, -1):
            loop.append(f"for (; j + {count * width} <= j1; j += {count * width}) {{")
            for k, (_, whole, part) in enumerate(vectors[:count]):
                body = step(width, part if cut else whole, var(f"j_{k}", n), f"j_{k}")
                loop += [f"    {{ const size_t j_{k} = j + {k * width};", *("    " + line for line in body), "    }"]
            loop.append("}")
        scalar = step(1, "b" if cut else "a", j, "j")
        join = (acc.absorb(width, "v", "x", cut) if len(vectors) > 1 else []) + acc.join(width, cut)
        chunk = -(-dims.results // self.items(dims.results)) if dims.results else 1
        items = -(-dims.results // chunk)
        rows = max(1, BLOCK // longest) if cut else max(rest, 1)  # of a block
        columns = BLOCK * width * max(len(vectors), 1) if cut and longest > BLOCK else max(n, 1)
        return self.source("fold_inner_cpu", (items,), (1,), O=dims.results, R=rest, J=n, W=width,
                           RB=rows, JB=columns, items=items, chunk=chunk, init=indent(init, 2),
                           begin_block=indent(own, 3), vector_loop=indent(loop, 4), scalar_body=indent(scalar, 5),
                           end_block=indent(end, 3), join=indent(join, 2), finish=indent(self.finish(o), 2))

    def outer(self, n: int) -> Source:
        """Lanes along the results: no merging of lanes, contiguous loads when the reduced axes are the slow ones."""
        dims = self.dims
        width = self.device.vector_width if typical(n) >= self.device.vector_width else 1
        many = ACROSS if typical(n) >= ACROSS * width else 1
        rows = dims.results // n
        span = many * width
        wanted = max(1, min(self.items(n) // max(typical(rows), 1), typical(n) // span))
        chunk = -(-n // wanted // span) * span
        items = -(-n // chunk)
        loops, left = list[str](), n
        for vectors, lanes in dict.fromkeys(((many, width), (1, width), (1, 1))):
            if varies(left) or left:
                loops += self.side_by_side(n, lanes, vectors)
                left %= vectors * lanes
        return self.source("fold_outer_cpu", (items, rows), (1, 1), O=rows, R=dims.length, J=n, items_j=items,
                           chunk=chunk, loops=indent(loops, 1))

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
            body += ["{", *acc.step(self.emitter(f"j_{k}", lanes), dims.element(o * n + j, r), "r", lanes,
                                    part if cut else whole), "}"]
            end += after
            done += [*(acc.found(whole) if cut else []), "{", *self.finish(o * n + j, f"j_{k}", lanes, whole), "}"]
        if cut:
            body = [f"for (size_t r0 = 0; r0 < {dims.length}; r0 += {BLOCK}) {{", *own,
                    f"for (size_t r = r0; r < min(r0 + {BLOCK}, (size_t){dims.length}); ++r) {{", *body, "}", *end, "}"]
        else:
            body = [f"for (size_t r = 0; r < {dims.length}; ++r) {{", *body, "}"]
        return [*lines, *init, *body, *done, "}"]
