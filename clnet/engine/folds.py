"""Launch -> OpenCL C for reductions: which loop the vector lanes (or work-items) follow is read off the loads."""

from __future__ import annotations

import math
import re
from typing import Any

from ..op import Fold
from ..spec import is_float
from . import ctypes as ct
from .codegen import Source, finish, in_memory, indent, launch_name, nice_share, store_lines, template
from .emit import Emitter, Params, Value
from .graph import Node
from .index import Expr, Flat, Index, var
from .schedule import Launch, Schedule

SHARE = 2048  # elements that are worth a work-item of their own on a CPU
BLOCK = 64  # [additions] into one number in a row: with more, what is added loses digits against the sum
ACROSS = 4  # vectors of neighbouring results that a work-item of a CPU folds side by side, so that it reads more of each row at once


class Shape:
    """A fold's domain: kept axes (results) and reduced axes, with loop variables for both."""

    def __init__(self, core: Node) -> None:
        self.shape, self.axes = core.inputs[0].shape, core.attrs["axes"]
        self.kept = [a for a in range(len(self.shape)) if a not in self.axes]
        self.results = math.prod(self.shape[a] for a in self.kept)
        self.length = math.prod(self.shape[a] for a in self.axes)

    def element(self, result: Expr, reduced: Expr) -> Expr:
        """Row-major element of the input for a result number and a number along the reduced axes."""
        o = Flat(result).unflatten([self.shape[a] for a in self.kept])
        r = Flat(reduced).unflatten([self.shape[a] for a in self.axes])
        coordinates = [o[self.kept.index(a)] if a in self.kept else r[self.axes.index(a)] for a in range(len(self.shape))]
        return Index(coordinates).flatten(self.shape).expr

    def trailing(self, axes: list[int]) -> list[int]:
        """Sizes of the merged trailing axes, longest merge first."""
        return [math.prod(self.shape[a] for a in axes[k:]) for k in range(len(axes))] or [1]


def fold_sources(plan: Schedule, launch: Launch, device: Any) -> list[Source]:
    """The kernels for the reductions of the launch, which share their domain."""
    if device.kind == "gpu":
        from .folds_gpu import gpu_sources

        return gpu_sources(plan, launch, device)
    dims = Shape(launch.cores[0])
    writer = Writer(plan, launch, dims, device)
    mode, n = lanes_along(plan, launch, dims, device.vector_width)
    return [writer.outer(n) if mode == "outer" and is_simple(launch) else writer.inner(n if mode == "inner" else dims.trailing(list(dims.axes))[-1])]


def lanes_along(plan: Schedule, launch: Launch, dims: Shape, width: int) -> tuple[str, int]:
    """("inner", n): lanes along the last n elements of the reduction; ("outer", n): along the last n results.

    The choice makes the largest share of the loads contiguous, weighted by how many lanes find work.
    """
    best: tuple[float, str, int] = (-1.0, "inner", dims.length)
    for mode, axes in (("inner", list(dims.axes)), ("outer", dims.kept)):
        for n in dims.trailing(axes):
            j, outer = var("j", n), dims.results // max(n, 1)
            if mode == "inner":
                element = dims.element(var("o", dims.results), var("r", dims.length // max(n, 1)) * n + j)
            else:
                element = dims.element(var("o", outer) * n + j, var("r", dims.length))
            score = nice_share(plan, launch, [c.inputs[0] for c in launch.cores], element, "j") * min(n, width)
            if score > best[0]:
                best = (score, mode, n)
    return best[1], best[2]


def is_simple(launch: Launch) -> bool:
    """Folds with one component can keep vectors of accumulators."""
    return all(len(_fold(c).init) == 1 for c in launch.cores)


def rounds(core: Node) -> bool:
    """Whether a long fold loses digits unless it is folded in blocks: sums of floats. (What products lose does not depend on their order.)"""
    return _fold(core).merge == ("a0 + b0",) and is_float(core.spec.dtype)


def is_cut(launch: Launch, steps: int, block: int) -> bool:
    """Whether so many steps into one accumulator are folded in blocks."""
    return steps > block and any(rounds(c) for c in launch.cores)


def _fold(core: Node) -> Fold:
    assert core.op is not None
    fold: Fold = core.op.fold  # type: ignore[attr-defined]
    return fold


class _Accumulators:
    """The state of the launch's folds as C variables a<core>_<component>, scalar or vector."""

    def __init__(self, launch: Launch) -> None:
        self.cores = launch.cores
        self.rows: list[tuple[Node, int, str]] = []
        for core in self.cores:
            dtype = core.inputs[0].spec.dtype if len(_fold(core).types) > 1 else core.spec.dtype
            for c, t in enumerate(_fold(core).types):
                self.rows.append((core, c, ct.REGISTER[dtype] if t == "T" else "long"))
        self.number = {id(core): k for k, core in enumerate(self.cores)}

    def name(self, core: Node, c: int, prefix: str = "a") -> str:
        return f"{prefix}{self.number[id(core)]}_{c}"

    def init(self, lanes: int, prefix: str = "a") -> list[str]:
        out = []
        for core, c, ctype in self.rows:
            text = _fold(core).init[c].replace("LOWEST", ct.LIMITS[ctype][0]).replace("HIGHEST", ct.LIMITS[ctype][1])
            out.append(f"{ct.vector(ctype, lanes)} {self.name(core, c, prefix)} = ({ct.vector(ctype, lanes)})({text});")
        return out

    def merge(self, core: Node, mine: list[str], theirs: list[str], lanes: int) -> list[str]:
        """Statements that fold `theirs` into `mine`, all components at once (each may read the others' old values)."""
        new, out = [], []
        for (_, c, ctype), text in zip((r for r in self.rows if r[0] is core), _fold(core).merge, strict=True):
            text = re.sub(r"\b([ab])(\d)\b", lambda m: (mine if m[1] == "a" else theirs)[int(m[2])], text)
            new.append(f"n{c}")
            out.append(f"const {ct.vector(ctype, lanes)} n{c} = {text};")
        return ["{ " + " ".join(out) + " " + " ".join(f"{m} = {n};" for m, n in zip(mine, new, strict=True)) + " }"]

    def step(self, emitter: Emitter, element: Expr, number: str, lanes: int, prefix: str = "a") -> list[str]:
        """Statements that fold one element (or vector of elements) in."""
        lines: list[str] = []
        for core in self.cores:
            value = emitter.at(core.inputs[0], element)
            dtype = core.inputs[0].spec.dtype if len(_fold(core).types) > 1 else core.spec.dtype
            value = emitter.convert(value, dtype) if ct.REGISTER[value.dtype] != ct.REGISTER[dtype] else value
            x = value.name if value.lanes == lanes else f"({ct.vector(ct.REGISTER[dtype], lanes)})({value.name})"
            rows = [r for r in self.rows if r[0] is core]
            theirs = []
            for _, c, ctype in rows:
                text = re.sub(r"\bi\b", f"(long)({number})", re.sub(r"\bx\b", x, _fold(core).lift[c]))
                lines.append(f"const {ct.vector(ctype, lanes)} {self.name(core, c, 'e')} = {text};")
                theirs.append(self.name(core, c, "e"))
            lines += self.merge(core, [self.name(core, c, prefix) for _, c, _ in rows], theirs, lanes)
        done, emitter.lines = emitter.lines, []
        return [*done, *lines]

    def add(self, lanes: int, prefix: str, block: str, exact: bool = True) -> list[str]:
        """Statements that merge the accumulators `block` into those of `prefix`; `exact`: `lost` keeps what sums lose by it."""
        out = []
        for core in self.cores:
            components = [(c, ct.vector(t, lanes)) for k, c, t in self.rows if k is core]
            mine, theirs = ([self.name(core, c, p) for c, _ in components] for p in (prefix, block))
            kept = f"TWO_SUM({components[0][1]}, {mine[0]}, {self.lost(core, prefix)}, {theirs[0]})"
            out += [kept] if exact and rounds(core) else self.merge(core, mine, theirs, lanes)
        return out

    def lost(self, core: Node, prefix: str) -> str:
        """The variable of what the sum in the accumulator of `prefix` has lost."""
        return self.name(core, 0, f"r{prefix}")

    def none_lost(self, lanes: int, prefix: str) -> list[str]:
        """Its declaration."""
        return [f"{ct.vector(t, lanes)} {self.lost(core, prefix)} = 0;" for core, _, t in self.rows if rounds(core)]

    def found(self, prefix: str) -> list[str]:
        """Statements that add what sums lost."""
        return [f"{self.name(core, 0, prefix)} = WHOLE({self.name(core, 0, prefix)}, {self.lost(core, prefix)});" for core in self.cores if rounds(core)]

    def absorb(self, lanes: int, prefix: str, other: str, cut: bool) -> list[str]:
        """Statements that merge the accumulators `other` into those of `prefix`; `cut`: with what both lost."""
        return self.add(lanes, prefix, other, cut) + [f"{self.lost(c, prefix)} += {self.lost(c, other)};" for c in self.cores if cut and rounds(c)]

    def blocks(self, kinds: list[tuple[int, str, str]], cut: bool) -> tuple[list[str], list[str], list[str]]:
        """Statements before a fold, before a block of it and behind one; kinds: (lanes, accumulators of all, those of a block, where it is `cut`)."""
        if not cut:
            return [line for lanes, whole, _ in kinds for line in self.init(lanes, whole)], [], []
        return ([line for lanes, whole, _ in kinds for line in (*self.init(lanes, whole), *self.none_lost(lanes, whole))],
                [line for lanes, _, part in kinds for line in self.init(lanes, part)],
                [line for lanes, whole, part in kinds for line in self.add(lanes, whole, part)])

    def join(self, width: int, cut: bool = False) -> list[str]:
        """Statements that merge the lanes of the vector accumulators v into the scalar ones a, first lane first; `cut`: with what sums lost."""
        out = []
        for core, c, ctype in self.rows if width > 1 else ():
            lanes, exact = f"w{self.number[id(core)]}", cut and rounds(core)
            (merged,) = self.merge(core, [self.name(core, c)], [f"{lanes}[l]"], 1)
            steps = [(self.name(core, c, "v"), f"TWO_SUM({ctype}, {self.name(core, c)}, {self.lost(core, 'a')}, {lanes}[l])" if exact else merged)]
            steps += [(self.lost(core, "v"), f"{self.lost(core, 'a')} += {lanes}[l];")] if exact else []
            each = "".join(f" vstore{width}({v}, 0, {lanes}); for (int l = 0; l < {width}; ++l) {step}" for v, step in steps)
            out.append(f"{{ {ctype} {lanes}[{width}];{each} }}")
        return [*out, *(self.found("a") if cut else [])]

    def tree(self, group: int, lanes: int = 1) -> dict[str, str]:
        """The parts of a work-group's merge in local memory: declarations, parking, one step of the tree, collecting."""
        shared = [(core, c, ctype, f"s{self.number[id(core)]}_{c}") for core, c, ctype in self.rows]
        steps = []
        for core in self.cores:
            names = [s for k, _, _, s in shared if k is core]
            steps += self.merge(core, [f"{s}[l]" for s in names], [f"{s}[l + s]" for s in names], lanes)
        return dict(locals=indent([f"__local {ct.vector(t, lanes)} {s}[{group}];" for _, _, t, s in shared], 1), tree=indent(steps, 3),
                    park=indent([f"{s}[l] = {self.name(k, c)};" for k, c, _, s in shared], 1),
                    collect=indent([f"{self.name(k, c)} = {s}[l];" for k, c, _, s in shared], 2))

    def give(self, emitter: Emitter, lanes: int, prefix: str = "a") -> None:
        """Hands the finished results to the emitter that writes the epilogue."""
        for core in self.cores:
            text = _fold(core).finish
            for c in range(len(_fold(core).types)):
                text = re.sub(rf"\ba{c}\b", self.name(core, c, prefix), text)
            emitter.given[core] = Value(text, core.spec.dtype, lanes)


class Writer:
    """Writes one fold kernel; the methods at the end are its shapes."""

    def __init__(self, plan: Schedule, launch: Launch, dims: Shape, device: Any) -> None:
        self.plan, self.launch, self.dims, self.device = plan, launch, dims, device
        self.params, self.functions = Params(), dict[str, str]()
        self.acc = _Accumulators(launch)
        self.name = f"fold_{launch_name(launch)}"

    def emitter(self, lane: str = "", lanes: int = 1, prefix: str = "t") -> Emitter:
        return Emitter(self.params, self.functions, in_memory(self.plan, self.launch), lane, lanes, prefix)

    def finish(self, flat: Expr, lane: str = "", lanes: int = 1, prefix: str = "a") -> list[str]:
        """Statements that carry the finished results through the fused pointwise ops to memory."""
        e = self.emitter(lane, lanes, "u")
        self.acc.give(e, lanes, prefix)
        store_lines(e, self.launch.stores, flat)
        return e.lines

    def source(self, stem: str, grid: tuple[int, ...], group: tuple[int, ...], **fields: Any) -> Source:
        text = template(stem, functions="\n".join(self.functions.values()), name=self.name, params=self.params.declaration(),
                        begin=self.params.begin(), **fields)
        return Source(self.name, finish(text, self.device), self.params, grid, group)

    def items(self, most: int) -> int:
        """Work-items on a CPU: about four per core, none for less than a few thousand elements."""
        return max(1, min(most, self.device.compute_units * 4, self.dims.results * max(self.dims.length, 1) // SHARE))

    # --- shapes
    def inner(self, n: int) -> Source:
        """Lanes along the reduced axes; the lanes of an accumulator merge in a fixed order at the end."""
        dims, acc = self.dims, self.acc
        rest = dims.length // n if n else 0
        o, r, j = var("o", dims.results), var("r", rest), var("j", n)
        width = self.device.vector_width if is_simple(self.launch) and n >= self.device.vector_width else 1

        def step(lanes: int, prefix: str, j: Expr, lane: str) -> list[str]:
            return acc.step(self.emitter(lane, lanes), dims.element(o, r * n + j), (r * n + j).c(), lanes, prefix)

        # Lanes, accumulators of all, those of a block. Two vectors side by side: one alone would wait for each addition to finish.
        vectors = [(width, "v", "w"), (width, "x", "y")][: (width > 1) + (n >= 8 * width > 8)]
        kinds = [(1, "a", "b"), *vectors]
        longest = max(n // (width * max(len(vectors), 1)), n % width, 1)  # steps of a row into one accumulator
        cut = is_cut(self.launch, rest * longest, BLOCK)
        block = BLOCK if cut else max(rest, 1) * longest
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
        columns = block * width * max(len(vectors), 1) if block < longest else max(n, 1)  # of a block
        return self.source("fold_inner_cpu", (items,), (1,), O=dims.results, R=rest, J=n, W=width, RB=max(1, block // longest), JB=columns, items=items,
                           chunk=chunk, init=indent(init, 2), begin_block=indent(own, 3), vector_loop=indent(loop, 4), scalar_body=indent(scalar, 5),
                           end_block=indent(end, 3), join=indent(join, 2), finish=indent(self.finish(o), 2))

    def outer(self, n: int) -> Source:
        """Lanes along the results: no merging of lanes, contiguous loads when the reduced axes are the slow ones."""
        dims = self.dims
        width = self.device.vector_width if n >= self.device.vector_width else 1
        many = ACROSS if n >= ACROSS * width else 1
        rows = dims.results // n
        chunk = -(-n // max(1, min(self.items(n) // max(rows, 1), n // (many * width))) // (many * width)) * many * width
        items = -(-n // chunk)
        loops, left = list[str](), n
        for vectors, lanes in dict.fromkeys(((many, width), (1, width), (1, 1))):
            if left:
                loops += self.side_by_side(n, lanes, vectors)
                left %= vectors * lanes
        return self.source("fold_outer_cpu", (items, rows), (1, 1), O=rows, R=dims.length, J=n, items_j=items, chunk=chunk, loops=indent(loops, 1))

    def side_by_side(self, n: int, lanes: int, vectors: int) -> list[str]:
        """The loop over results in steps of so many vectors side by side, each with the whole fold."""
        dims, acc, cut = self.dims, self.acc, is_cut(self.launch, self.dims.length, BLOCK)
        o, r, span = var("o", dims.results // n), var("r", dims.length), lanes * vectors
        lines = [f"for (; j + {span} <= j1; j += {span}) {{"]
        init, own, body, end, done = list[str](), list[str](), list[str](), list[str](), list[str]()
        for k in range(vectors):
            j, whole, part = var(f"j_{k}", n), f"a{k}_", f"b{k}_"
            first, before, after = acc.blocks([(lanes, whole, part)], cut)
            init += [f"const size_t j_{k} = j + {k * lanes};", *first]
            own += before
            body += ["{", *acc.step(self.emitter(f"j_{k}", lanes), dims.element(o * n + j, r), "r", lanes, part if cut else whole), "}"]
            end += after
            done += [*(acc.found(whole) if cut else []), "{", *self.finish(o * n + j, f"j_{k}", lanes, whole), "}"]
        if cut:
            body = [f"for (size_t r0 = 0; r0 < {dims.length}; r0 += {BLOCK}) {{", *own,
                    f"for (size_t r = r0; r < min(r0 + {BLOCK}, (size_t){dims.length}); ++r) {{", *body, "}", *end, "}"]
        else:
            body = [f"for (size_t r = 0; r < {dims.length}; ++r) {{", *body, "}"]
        return [*lines, *init, *body, *done, "}"]
