"""What all kernels for reductions share: their domain, the state of their folds in C, and which loop the vector lanes
(or work-items) follow, which is read off the loads.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from ...core.op import Fold
from ...core.size import bounded, typical
from ...core.spec import is_float
from . import c_types as ct
from .accesses import in_memory, nice_share, store_lines
from .emit import Emitter, Params, Value, called
from .fusion import Folds, Schedule
from .index import Expr, Flat, Index, var
from .node import Node, Reduction
from .source import Source, finish, indent, kernel_name, template

if TYPE_CHECKING:
    from ..device.devices import Device

BLOCK = 64  # [additions] into one number in a row: with more, what is added loses digits against the sum


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
        coordinates = [o[self.kept.index(a)] if a in self.kept else r[self.axes.index(a)]
                       for a in range(len(self.shape))]
        return Index(coordinates).flatten(self.shape).expr

    def trailing(self, axes: list[int]) -> list[int]:
        """Sizes of the merged trailing axes, longest merge first."""
        return [math.prod(self.shape[a] for a in axes[k:]) for k in range(len(axes))] or [1]


def lanes_along(schedule: Schedule, fusion: Folds, dims: Shape, width: int) -> tuple[str, int]:
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
            share = nice_share(schedule, fusion, [c.inputs[0] for c in fusion.cores], element, "j")
            score = share * min(typical(n), width)
            if score > best[0]:
                best = (score, mode, n)
    return best[1], best[2]


def is_simple(fusion: Folds) -> bool:
    """Whether all folds have one component."""
    return all(len(_fold(c).init) == 1 for c in fusion.cores)


def rounds(core: Node) -> bool:
    """Whether a long fold loses digits unless it is folded in blocks: sums of floats.
    (What products lose does not depend on their order.)
    """
    return _fold(core).adds and is_float(core.spec.dtype)


def is_cut(fusion: Folds, steps: int, block: int) -> bool:
    """Whether so many steps into one accumulator are folded in blocks."""
    return (typical(steps) > block or not bounded(steps)) and any(rounds(c) for c in fusion.cores)


def _fold(core: Node) -> Fold:
    assert isinstance(core, Reduction)
    return core.op.fold


class Accumulators:
    """The state of the fusion's folds as C variables a<core>_<component>, scalar or vector.

    short: elements have numbers in 32 bits, which stand beside values of 32 bits in vectors.
    """

    def __init__(self, fusion: Folds, params: Params, short: bool = False) -> None:
        self.cores, self.params, self.short = fusion.cores, params, short
        self.rows: list[tuple[Node, int, str]] = []
        for core in self.cores:
            register = ct.REGISTER[self.dtype(core)]
            index = "int" if short and ct.BYTES[register] == 4 else "long"
            self.rows += [(core, c, register if t == "T" else index) for c, t in enumerate(_fold(core).types)]
        self.number = {id(core): k for k, core in enumerate(self.cores)}

    def dtype(self, core: Node) -> str:
        """Of the values that are folded; integers of less than 32 bits as such beside short numbers."""
        if len(_fold(core).types) == 1:
            return core.spec.dtype
        dtype = core.inputs[0].spec.dtype
        return "int32" if self.short and ct.BYTES[ct.REGISTER[dtype]] < 4 else dtype

    @property
    def has_vectors(self) -> bool:
        """Whether vectors of accumulators can be kept: all components of a fold are of one width."""
        return all(len({ct.BYTES[ctype] for k, _, ctype in self.rows if k is core}) == 1 for core in self.cores
                   if len(_fold(core).types) > 1)

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
        assert isinstance(core, Reduction)
        texts = _fold(core).merge
        if core.op.origin:
            texts = (re.sub(r"\b([ab])(?=[,)])", r"\g<1>0", called(self.params, core.op, core.spec.dtype, lanes)),)
        for (_, c, ctype), text in zip((r for r in self.rows if r[0] is core), texts, strict=True):
            text = re.sub(r"\b([ab])(\d)\b", lambda m: (mine if m[1] == "a" else theirs)[int(m[2])], text)
            new.append(f"n{c}")
            out.append(f"const {ct.vector(ctype, lanes)} n{c} = {text};")
        return ["{ " + " ".join(out) + " " + " ".join(f"{m} = {n};" for m, n in zip(mine, new, strict=True)) + " }"]

    def step(self, emitter: Emitter, element: Expr, number: str, lanes: int, prefix: str = "a",
             along: bool = False) -> list[str]:
        """Statements that fold one element (or vector of elements) in; `along`: the lanes have numbers in turn."""
        lines: list[str] = []
        for core in self.cores:
            value = emitter.at(core.inputs[0], element)
            dtype = self.dtype(core)
            value = emitter.convert(value, dtype) if ct.REGISTER[value.dtype] != ct.REGISTER[dtype] else value
            x = value.name if value.lanes == lanes else f"({ct.vector(ct.REGISTER[dtype], lanes)})({value.name})"
            rows = [r for r in self.rows if r[0] is core]
            theirs = []
            for _, c, ctype in rows:
                place = f"({ctype})({number})" + (_lane_numbers(ctype, lanes) if along and lanes > 1 else "")
                text = re.sub(r"\bi\b", place, re.sub(r"\bx\b", x, _fold(core).lift[c]))
                lines.append(f"const {ct.vector(ctype, lanes)} {self.name(core, c, 'e')} = {text};")
                theirs.append(self.name(core, c, "e"))
            lines += self.merge(core, [self.name(core, c, prefix) for _, c, _ in rows], theirs, lanes)
        done, emitter.lines = emitter.lines, []
        return [*done, *lines]

    def add(self, lanes: int, prefix: str, block: str, exact: bool = True) -> list[str]:
        """Statements that merge the accumulators `block` into those of `prefix`;
        `exact`: `lost` keeps what sums lose by it.
        """
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
        return [f"{self.name(core, 0, prefix)} = WHOLE({self.name(core, 0, prefix)}, {self.lost(core, prefix)});"
                for core in self.cores if rounds(core)]

    def absorb(self, lanes: int, prefix: str, other: str, cut: bool) -> list[str]:
        """Statements that merge the accumulators `other` into those of `prefix`; `cut`: with what both lost."""
        return self.add(lanes, prefix, other, cut) + [f"{self.lost(c, prefix)} += {self.lost(c, other)};"
                                                      for c in self.cores if cut and rounds(c)]

    def blocks(self, kinds: list[tuple[int, str, str]], cut: bool) -> tuple[list[str], list[str], list[str]]:
        """Statements before a fold, before a block of it and behind one;
        kinds: (lanes, accumulators of all, those of a block, where it is `cut`).
        """
        if not cut:
            return [line for lanes, whole, _ in kinds for line in self.init(lanes, whole)], [], []
        return ([line for lanes, whole, _ in kinds
                 for line in (*self.init(lanes, whole), *self.none_lost(lanes, whole))],
                [line for lanes, _, part in kinds for line in self.init(lanes, part)],
                [line for lanes, whole, part in kinds for line in self.add(lanes, whole, part)])

    def join(self, width: int, cut: bool = False) -> list[str]:
        """Statements that merge the lanes of the vector accumulators v into the scalar ones a, by halves;
        `cut`: with what sums lost.
        """
        out = [line for core in self.cores if width > 1 for line in self._halved(core, width, cut and rounds(core))]
        return [*out, *(self.found("a") if cut else [])]

    def _halved(self, core: Node, width: int, exact: bool) -> list[str]:
        """The same of one fold: the lower lanes and the upper, until one is left."""
        components = [(c, ctype) for k, c, ctype in self.rows if k is core]
        whole, lost, lines = [self.name(core, c, "v") for c, _ in components], self.lost(core, "v"), list[str]()
        while width > 1:
            width //= 2
            low, high = ([self.name(core, c, f"{half}{width}_") for c, _ in components] for half in ("l", "h"))
            types = [ct.vector(ctype, width) for _, ctype in components]
            for ctype, v, mine, theirs in zip(types, whole, low, high, strict=True):
                lines += [f"{ctype} {mine} = {v}.lo; const {ctype} {theirs} = {v}.hi;"]
            if exact:
                rest = self.lost(core, f"l{width}_")
                lines += [f"{types[0]} {rest} = {lost}.lo + {lost}.hi;",
                          f"TWO_SUM({types[0]}, {low[0]}, {rest}, {high[0]})"]
                lost = rest
            else:
                lines += self.merge(core, low, high, width)
            whole = low
        last = [self.name(core, c) for c, _ in components]
        if exact:
            kept = self.lost(core, "a")
            return [*lines, f"TWO_SUM({components[0][1]}, {last[0]}, {kept}, {whole[0]}) {kept} += {lost};"]
        return [*lines, *self.merge(core, last, whole, 1)]

    def tree(self, group: int, lanes: int = 1) -> dict[str, str]:
        """The parts of a work-group's merge in local memory: declarations, parking, one step of the tree, collecting.
        """
        shared = [(core, c, ctype, f"s{self.number[id(core)]}_{c}") for core, c, ctype in self.rows]
        steps = []
        for core in self.cores:
            names = [s for k, _, _, s in shared if k is core]
            steps += self.merge(core, [f"{s}[l]" for s in names], [f"{s}[l + s]" for s in names], lanes)
        return dict(locals=indent([f"__local {ct.vector(t, lanes)} {s}[{group}];" for _, _, t, s in shared], 1),
                    tree=indent(steps, 3),
                    park=indent([f"{s}[l] = {self.name(k, c)};" for k, c, _, s in shared], 1),
                    collect=indent([f"{self.name(k, c)} = {s}[l];" for k, c, _, s in shared], 2))

    def give(self, emitter: Emitter, lanes: int, prefix: str = "a") -> None:
        """Hands the finished results to the emitter that writes the epilogue."""
        for core in self.cores:
            text = _fold(core).finish
            for c in range(len(_fold(core).types)):
                text = re.sub(rf"\ba{c}\b", self.name(core, c, prefix), text)
            if len(_fold(core).types) > 1:
                text = f"convert_{ct.vector(ct.REGISTER[core.spec.dtype], lanes)}({text})"
            emitter.given[core] = Value(text, core.spec.dtype, lanes)


def _lane_numbers(ctype: str, lanes: int) -> str:
    return f" + ({ct.vector(ctype, lanes)})({', '.join(map(str, range(lanes)))})"


def _is_short(length: Any) -> bool:
    """Whether so many elements have numbers of 31 bits."""
    return bounded(length) and typical(length) < 1 << 31


class Writer:
    """Writes one fold kernel; subclasses say in which shapes."""

    def __init__(self, schedule: Schedule, fusion: Folds, dims: Shape, device: Device) -> None:
        self.schedule, self.fusion, self.dims, self.device = schedule, fusion, dims, device
        self.params = Params()
        self.acc = Accumulators(fusion, self.params, not device.is_gpu and _is_short(dims.length))
        self.name = f"fold_{kernel_name(fusion)}"

    def emitter(self, lane: str = "", lanes: int = 1, prefix: str = "t") -> Emitter:
        return Emitter(self.params, in_memory(self.schedule, self.fusion), lane, lanes, prefix)

    def finish(self, flat: Expr, lane: str = "", lanes: int = 1, prefix: str = "a") -> list[str]:
        """Statements that carry the finished results through the fused pointwise ops to memory."""
        e = self.emitter(lane, lanes, "u")
        self.acc.give(e, lanes, prefix)
        store_lines(e, self.fusion.stores, flat)
        return e.lines

    def source(self, stem: str, grid: tuple[int, ...], group: tuple[int, ...], **fields: object) -> Source:
        text = template(stem, name=self.name, params=self.params.declaration(), begin=self.params.begin(), **fields)
        return Source(self.name, finish(text, self.device, self.params), self.params, grid, group)
