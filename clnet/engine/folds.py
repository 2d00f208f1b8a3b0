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
BLOCK = 64  # [additions] into one number in a row, or the root of all: with more, what is added loses digits against the total
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


def block_of(launch: Launch, steps: int) -> int:
    """How many of `steps` make a block: sums and products of floats fold blocks, then those, so that errors grow with the root of the length."""
    rounds = any(_fold(c).merge[0] in ("a0 + b0", "a0 * b0") and is_float(c.spec.dtype) for c in launch.cores)
    return min(steps, max(BLOCK, math.isqrt(steps))) if rounds else steps


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

    def add(self, lanes: int, prefix: str, block: str) -> list[str]:
        """Statements that merge the accumulators `block` into those of `prefix`."""
        out = []
        for core in self.cores:
            components = [c for k, c, _ in self.rows if k is core]
            out += self.merge(core, [self.name(core, c, prefix) for c in components], [self.name(core, c, block) for c in components], lanes)
        return out

    def join(self, width: int) -> list[str]:
        """Statements that merge the lanes of the vector accumulators v into the scalar ones a, first lane first."""
        out = []
        for core, c, ctype in self.rows if width > 1 else ():
            lanes = f"w{self.number[id(core)]}"
            merged = self.merge(core, [self.name(core, c)], [f"{lanes}[l]"], 1)
            out.append(f"{{ {ctype} {lanes}[{width}]; vstore{width}({self.name(core, c, 'v')}, 0, {lanes}); for (int l = 0; l < {width}; ++l) {merged[0]} }}")
        return out

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

        def step(lanes: int, prefix: str) -> list[str]:
            return acc.step(self.emitter("j", lanes), dims.element(o, r * n + j), (r * n + j).c(), lanes, prefix)

        kinds = [(1, "a", "b"), (width, "v", "w")][: 1 + (width > 1)]  # lanes, accumulators of all, those of a block
        longest = max(n // width, n % width, 1)  # steps of a row into one accumulator
        block = block_of(self.launch, max(rest, 1) * longest)
        cut = block < rest * longest
        init = [line for lanes, whole, _ in kinds for line in acc.init(lanes, whole)]
        own = [line for lanes, _, part in kinds for line in acc.init(lanes, part)] if cut else []
        end = [line for lanes, whole, part in kinds for line in acc.add(lanes, whole, part)] if cut else []
        loop = [f"for (; j + {width} <= j1; j += {width}) {{", *("    " + s for s in step(width, "w" if cut else "v")), "}"] if width > 1 else []
        scalar = step(1, "b" if cut else "a")
        chunk = -(-dims.results // self.items(dims.results)) if dims.results else 1
        items = -(-dims.results // chunk)
        return self.source("fold_inner_cpu", (items,), (1,), O=dims.results, R=rest, J=n, W=width, RB=max(1, block // longest),
                           JB=block * width if block < longest else max(n, 1), items=items, chunk=chunk, init=indent(init, 2), begin_block=indent(own, 3),
                           vector_loop=indent(loop, 4), scalar_body=indent(scalar, 5), end_block=indent(end, 3), join=indent(acc.join(width), 2),
                           finish=indent(self.finish(o), 2))

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
        dims, acc, block = self.dims, self.acc, block_of(self.launch, self.dims.length)
        o, r, span = var("o", dims.results // n), var("r", dims.length), lanes * vectors
        cut, lines = block < dims.length, [f"for (; j + {span} <= j1; j += {span}) {{"]
        init, own, body, end, done = list[str](), list[str](), list[str](), list[str](), list[str]()
        for k in range(vectors):
            j, whole, part = var(f"j_{k}", n), f"a{k}_", f"b{k}_"
            init += [f"const size_t j_{k} = j + {k * lanes};", *acc.init(lanes, whole)]
            own += acc.init(lanes, part) if cut else []
            body += ["{", *acc.step(self.emitter(f"j_{k}", lanes), dims.element(o * n + j, r), "r", lanes, part if cut else whole), "}"]
            end += acc.add(lanes, whole, part) if cut else []
            done += ["{", *self.finish(o * n + j, f"j_{k}", lanes, whole), "}"]
        if cut:
            body = [f"for (size_t r0 = 0; r0 < {dims.length}; r0 += {block}) {{", *own,
                    f"for (size_t r = r0; r < min(r0 + {block}, (size_t){dims.length}); ++r) {{", *body, "}", *end, "}"]
        else:
            body = [f"for (size_t r = 0; r < {dims.length}; ++r) {{", *body, "}"]
        return [*lines, *init, *body, *done, "}"]
