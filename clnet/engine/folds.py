"""Launch -> OpenCL C for reductions: which loop the vector lanes (or work-items) follow is read off the loads."""

from __future__ import annotations

import math
import re
from typing import Any

from ..op import Fold
from . import ctypes as ct
from .codegen import GPU_GROUP, Source, finish, in_memory, indent, launch_name, nice_share, store_lines, template
from .emit import Emitter, Params, Value
from .graph import Node
from .index import Expr, Flat, Index, var
from .schedule import Launch, Schedule


class _Shape:
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


def fold_source(plan: Schedule, launch: Launch, device: Any) -> Source:
    """A kernel for the reductions of the launch, which share their domain."""
    dims = _Shape(launch.cores[0])
    if device.kind == "gpu":
        return _gpu(plan, launch, dims)
    width = device.vector_width
    nodes = [c.inputs[0] for c in launch.cores]

    def score(o: Expr, r: Expr, lane: str) -> float:
        return nice_share(plan, launch, nodes, dims.element(o, r), lane)

    best: tuple[float, int, str, int] = (-1.0, 0, "inner", dims.length)
    for mode, axes in (("inner", list(dims.axes)), ("outer", dims.kept)):
        for n in dims.trailing(axes):
            if mode == "inner":
                rest, s = dims.length // max(n, 1), score(var("o", dims.results), var("r", dims.length // max(n, 1)) * n + var("j", n), "j")
            else:
                rest, s = 0, score(var("o", dims.results // max(n, 1)) * n + var("j", n), var("r", dims.length), "j")
            useful = min(n, width)
            if (s * useful, n) > (best[0], best[1] if best[2] == mode else 0):
                best = (s * useful, n, mode, rest)
    if best[2] == "outer" and _simple(launch):
        return _outer(plan, launch, dims, best[1], device)
    return _inner(plan, launch, dims, best[1] if best[2] == "inner" else dims.trailing(list(dims.axes))[-1], device)


def _simple(launch: Launch) -> bool:
    """Folds with one component can keep vectors of accumulators."""
    return all(len(_fold(c).init) == 1 for c in launch.cores)


def _fold(core: Node) -> Fold:
    assert core.op is not None
    fold: Fold = core.op.fold  # type: ignore[attr-defined]
    return fold


class _Accumulators:
    """The state of the launch's folds as C variables a<core>_<component>, scalar or vector."""

    def __init__(self, launch: Launch) -> None:
        self.cores = launch.cores
        self.rows: list[tuple[Node, int, str]] = []
        for k, core in enumerate(self.cores):
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

    def give(self, emitter: Emitter, lanes: int, prefix: str = "a") -> None:
        """Hands the finished results to the emitter that writes the epilogue."""
        for core in self.cores:
            text = re.sub(r"\ba(\d)\b", lambda m, core=core: self.name(core, int(m[1]), prefix), _fold(core).finish)
            emitter.given[core] = Value(text, core.spec.dtype, lanes)


def _finish(plan: Schedule, launch: Launch, acc: _Accumulators, params: Params, functions: dict[str, str], flat: Expr, lane: str, lanes: int, prefix: str = "a") -> list[str]:
    e = Emitter(params, functions, in_memory(plan, launch), lane, lanes, prefix="u")
    acc.give(e, lanes, prefix)
    store_lines(e, launch, flat)
    return e.lines


def _inner(plan: Schedule, launch: Launch, dims: _Shape, n: int, device: Any) -> Source:
    """Lanes along the reduced axes; the lanes of an accumulator merge in a fixed order at the end."""
    params, functions, acc = Params(), dict[str, str](), _Accumulators(launch)
    rest = dims.length // n if n else 0
    o, r, j = var("o", dims.results), var("r", rest), var("j", n)
    width = device.vector_width if _simple(launch) and n >= device.vector_width else 1

    def step(lanes: int, prefix: str) -> list[str]:
        e = Emitter(params, functions, in_memory(plan, launch), "j", lanes)
        return acc.step(e, dims.element(o, r * n + j), (r * n + j).c(), lanes, prefix)

    loop, join = [], []
    init = acc.init(1, "a")
    if width > 1:
        init += acc.init(width, "v")
        loop = [f"for (; j + {width} <= {n}; j += {width}) {{", *("    " + s for s in step(width, "v")), "}"]
        for core, c, ctype in acc.rows:
            lanes = f"w{acc.number[id(core)]}"
            merged = acc.merge(core, [acc.name(core, c)], [f"{lanes}[l]"], 1)
            join += [f"{{ {ctype} {lanes}[{width}]; vstore{width}({acc.name(core, c, 'v')}, 0, {lanes}); for (int l = 0; l < {width}; ++l) {merged[0]} }}"]
    scalar = step(1, "a")
    done = _finish(plan, launch, acc, params, functions, o, "", 1)
    items = max(1, min(dims.results, device.compute_units * 4, dims.results * max(dims.length, 1) // 2048))
    chunk = -(-dims.results // items)
    name = f"fold_{launch_name(launch)}"
    text = template("fold_inner_cpu", functions="\n".join(functions.values()), name=name, params=params.declaration(), begin=params.begin(), O=dims.results,
                    R=rest, J=n, W=width, items=-(-dims.results // chunk), chunk=chunk, init=indent(init, 2), vector_loop=indent(loop, 3),
                    scalar_body=indent(scalar, 4), join=indent(join, 2), finish=indent(done, 2))
    return Source(name, finish(text), params, (-(-dims.results // chunk),), (1,))


def _outer(plan: Schedule, launch: Launch, dims: _Shape, n: int, device: Any) -> Source:
    """Lanes along the results: no merging of lanes, contiguous loads when the reduced axes are the slow ones."""
    params, functions, acc = Params(), dict[str, str](), _Accumulators(launch)
    o, r, j = var("o", dims.results // n), var("r", dims.length), var("j", n)
    width = device.vector_width if n >= device.vector_width else 1

    def body(lanes: int) -> tuple[list[str], list[str]]:
        e = Emitter(params, functions, in_memory(plan, launch), "j", lanes)
        step = acc.step(e, dims.element(o * n + j, r), "r", lanes)
        return step, _finish(plan, launch, acc, params, functions, o * n + j, "j", lanes)

    loop: list[str] = []
    if width > 1:
        step, done = body(width)
        loop = [f"for (; j + {width} <= j1; j += {width}) {{", *("    " + s for s in acc.init(width)),
                f"    for (size_t r = 0; r < {dims.length}; ++r) {{", *("        " + s for s in step), "    }", *("    " + s for s in done), "}"]
    step, done = body(1)
    rows = dims.results // n
    items = max(1, min(device.compute_units * 4 // max(rows, 1), n // max(width, 1), dims.results * dims.length // 2048))
    chunk = -(-n // items // width) * width
    name = f"fold_{launch_name(launch)}"
    text = template("fold_outer_cpu", functions="\n".join(functions.values()), name=name, params=params.declaration(), begin=params.begin(), O=rows, R=dims.length,
                    J=n, items_j=-(-n // chunk), chunk=chunk, init=indent(acc.init(1), 2), vector_loop=indent(loop, 1), scalar_body=indent(step, 3), finish=indent(done, 2))
    return Source(name, finish(text), params, (-(-n // chunk), rows), (1, 1))


def _gpu(plan: Schedule, launch: Launch, dims: _Shape) -> Source:
    """A work-group per result, or a work-item per result where neighbouring results are neighbours in memory."""
    params, functions, acc = Params(), dict[str, str](), _Accumulators(launch)
    o, r = var("o", dims.results), var("r", dims.length)
    e = Emitter(params, functions, in_memory(plan, launch))
    step = acc.step(e, dims.element(o, r), "r", 1)
    done = _finish(plan, launch, acc, params, functions, o, "", 1)
    name = f"fold_{launch_name(launch)}"
    coalesced = any(ld.flat.coefficient("o") == 1 for ld in e.loads) and not any(ld.flat.coefficient("r") == 1 for ld in e.loads)
    fields = dict(functions="\n".join(functions.values()), name=name, params=params.declaration(), begin=params.begin(), O=dims.results, R=dims.length)
    if coalesced and (dims.results >= 4096 or dims.length <= 64) or dims.length <= 16:
        text = template("fold_columns_gpu", init=indent(acc.init(1), 1), scalar_body=indent(step, 2), finish=indent(done, 1), **fields)
        return Source(name, finish(text), params, (-(-dims.results // GPU_GROUP) * GPU_GROUP,), (GPU_GROUP,))
    group = min(GPU_GROUP, max(32, 1 << (dims.length - 1).bit_length()))
    shared = [(core, c, ctype, f"s{acc.number[id(core)]}_{c}") for core, c, ctype in acc.rows]
    tree = []
    for core in acc.cores:
        names = [s for k, _, _, s in shared if k is core]
        tree += acc.merge(core, [f"{s}[l]" for s in names], [f"{s}[l + s]" for s in names], 1)
    text = template("fold_gpu", G=group, locals=indent([f"__local {t} {s}[{group}];" for _, _, t, s in shared], 1), init=indent(acc.init(1), 1),
                    scalar_body=indent(step, 2), park=indent([f"{s}[l] = {acc.name(k, c)};" for k, c, _, s in shared], 1), tree=indent(tree, 3),
                    collect=indent([f"{acc.name(k, c)} = {s}[0];" for k, c, _, s in shared], 2), finish=indent(done, 2), **fields)
    return Source(name, finish(text), params, (dims.results * group,), (group,))


