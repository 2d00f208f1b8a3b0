"""The body of a kernel: demand-driven emission of the C statements that compute nodes at an index.

A value is scalar or a vector of `lanes` consecutive values of the lane variable. Loads pick their form from the index:
contiguous along the lanes -> vector load, turned where it runs backward; independent of them -> scalar; else lane by
lane.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ...core import op as ops
from ...core.size import Size, common_divisor, number
from ...core.spec import Spec, np_dtype, promote
from . import c_types as ct
from .index import Atom, Condition, Expr, Flat, Index, Var, variables
from .node import Node, Pointwise, View

# Where a text declares its sizes as further parameters, and passes them on: `Source` puts them there.
DECLARED, PASSED = "\ue002", "\ue003"
PLAIN = (0, 1, -1, 2, 0.5)  # constants worth writing into the source; others are arguments, so that programs are shared
SIMPLE = re.compile(r"\w+|\(?-?[\d.]+(?:e[-+]?\d+)?[fuUL]*\)?")  # a name or a number
# Integers that only the launch knows: where scalar code with AVX-512 holds max(x, y) or min(x, y) and what can be seen
# to be ~x (x ^ -1, -1 - x, -x - 1), of 32 bits and more, Intel's CPU compiler (2026.0 to 2026.2) gives wrong ~x.
HIDDEN = (1, -1)


@dataclass(frozen=True)
class OperandParam:
    """A pointer `offset` elements into node's memory; `name` where it is a kernel's own operand, else ""."""

    node: Node
    name: str
    offset: int

    @property
    def spec(self) -> Spec:
        return self.node.spec


@dataclass
class Params:
    """The parameter list of a kernel: nodes read and written (pointer and element offset each), and scalars.

    Generated names start with g_, so that a hand-written kernel's own variables do not capture them.
    """

    reads: dict[Node | OperandParam, str] = field(default_factory=dict)
    writes: dict[Node, str] = field(default_factory=dict)
    scalars: dict[tuple[ct.Number, str], str] = field(default_factory=dict)
    scratch: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)  # of ops of somebody's own, by name: their definitions

    def read(self, node: Node, offset: int = 0) -> str:
        """The pointer to node, `offset` elements in: an argument, so that slices at different places share a program.
        """
        key = OperandParam(node, "", offset) if offset else node
        return self.reads.setdefault(key, f"g_in{len(self.reads)}")

    def nodes(self) -> list[Node]:
        """The nodes read."""
        return [r.node if isinstance(r, OperandParam) else r for r in self.reads]

    def write(self, node: Node) -> str:
        return self.writes.setdefault(node, f"g_out{len(self.writes)}")

    def scalar(self, value: ct.Number, dtype: str) -> str:
        hidden = isinstance(value, Size) or (value in HIDDEN and np_dtype(dtype).kind in "iu")
        if not hidden and (value in PLAIN or (isinstance(value, int) and -16 <= value <= 16)):
            return ct.literal(value, dtype)
        return self.scalars.setdefault((value, dtype), f"g_const{len(self.scalars)}")

    def declaration(self) -> str:
        """The parameters in C, in the order of a launch's arguments."""
        out = [f"__global const {ct.STORAGE[n.spec.dtype]}* restrict {p}_, const ulong {p}_at"
               for n, p in self.reads.items()]
        out += [f"__global {ct.STORAGE[n.spec.dtype]}* restrict {p}_, const ulong {p}_at"
                for n, p in self.writes.items()]
        out += [f"__global float* restrict {s}_, const ulong {s}_at" for s in self.scratch]
        out += [f"__global ulong* {s}" for s in self.kept]
        out += [f"const {ct.REGISTER[d]} {p}" for (_, d), p in self.scalars.items()]
        return ", ".join(out) + DECLARED

    def begin(self) -> str:
        """Statements that apply the offsets."""
        out = [f"__global const {ct.STORAGE[n.spec.dtype]}* restrict {p} = {p}_ + {p}_at;"
               for n, p in self.reads.items()]
        out += [f"__global {ct.STORAGE[n.spec.dtype]}* restrict {p} = {p}_ + {p}_at;" for n, p in self.writes.items()]
        out += [f"__global float* restrict {s} = {s}_ + {s}_at;" for s in self.scratch]
        return " ".join(out)


@dataclass
class Load:
    """A memory access as the emitter met it: what a dry run reports so that the loop order can be chosen."""

    node: Node
    flat: Expr
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Value:
    """A value of a kernel's text: the variable that has it, and how many lanes that has."""

    name: str
    dtype: str
    lanes: int


class Emitter:
    """Emits into `lines`.

    With `alignment` (elements to which a node's memory is aligned), vectors that are known to be aligned are read and
    written through pointers to vectors; the lane variable must count in steps of `lanes`. With `streamed` (alike),
    aligned vectors are written past the caches. `ahead` says how many elements before they are read vectors of a node
    are asked for; 0: they are not. With `tile`, a variable that walks up from <tile>0, what lies along it is read in
    vectors, which `before` transposes for all of its steps: as many as there are lanes.
    """

    def __init__(self, params: Params, in_memory: Callable[[Node], bool], lane: str = "", lanes: int = 1,
                 prefix: str = "t",
                 alignment: Callable[[Node], int] | None = None, streamed: Callable[[Node], int] | None = None,
                 ahead: Callable[[Node, Expr], int] = lambda *_: 0, tile: str = "") -> None:
        self.tile, self.before = tile, list[str]()
        self.alignment, self.streamed, self.ahead = alignment, streamed, ahead
        self.params, self.in_memory = params, in_memory
        self.lane, self.lanes, self.prefix = lane, lanes, prefix
        self.lines: list[str] = []
        self.loads: list[Load] = []
        self.memo: dict[tuple[Node, Index, tuple[Condition, ...]], Value] = {}
        self.given: dict[Node, Value] = {}

    def at(self, node: Node, flat: Expr) -> Value:
        """node at row-major element `flat`."""
        return self.emit(node, Flat(flat).unflatten(node.shape))

    def emit(self, node: Node, ix: Index, guards: tuple[Condition, ...] = ()) -> Value:
        if node in self.given:
            return self.given[node]
        key = (node, ix, guards)
        if key not in self.memo:
            self.memo[key] = self._emit(node, ix, guards)
        return self.memo[key]

    def _emit(self, node: Node, ix: Index, guards: tuple[Condition, ...]) -> Value:
        if self.in_memory(node):
            return self._load(node, ix, guards)
        if isinstance(node, View):
            return self._view(node, ix, guards)
        assert isinstance(node, Pointwise), f"{node} has no value here"
        if node.op.name == "full":
            return Value(self.params.scalar(node.attrs["value"], node.spec.dtype), node.spec.dtype, 1)
        if node.op.name == "arange":
            return self._arange(node, ix)
        values = [self.emit(i, self._broadcast(ix, i), guards) for i in node.inputs]
        return self._call(node, values)

    def _broadcast(self, ix: Index, i: Node) -> Index:
        return ix.drop(len(ix) - len(i.shape)).clamp(i.shape)

    def _new(self, ctype: str, lanes: int, text: str, dtype: str) -> Value:
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"const {ct.vector(ctype, lanes)} {name} = {text};")
        return Value(name, dtype, lanes)

    def _moves(self, *exprs: Expr) -> bool:
        return any(self.lane in variables(e) for e in exprs)

    def _is_lane(self, a: Atom) -> bool:
        return isinstance(a, Var) and a.name == self.lane

    def aligned(self, alignment: Callable[[Node], int] | None, node: Node, start: int, flat: Expr) -> bool:
        """Whether the vector at element `start` + `flat` of node's memory is known to begin at a multiple of its size.
        """
        steps = (flat.const, *(c for a, c in flat.terms.items() if not self._is_lane(a)))
        return alignment is not None and common_divisor(alignment(node), start, *steps) % self.lanes == 0

    # --- loads
    def _load(self, node: Node, ix: Index, guards: tuple[Condition, ...]) -> Value:
        flat = ix.flatten(node.shape).expr
        self.loads.append(Load(node, flat, guards))
        # Where the index falls, from where it begins: of -j, Intel's compiler (2026.2) dies in short loops over 8 bits.
        falls = any(number(c) < 0 for c in flat.terms.values())
        start = flat.const if flat.const > 0 and not guards and not falls else 0
        pointer, dtype = self.params.read(node, start), node.spec.dtype
        flat = flat + -start
        step = flat.coefficient(self.lane) if self.lane else 0
        moving_guard = self._moves(*(g.expr for g in guards))
        if self.lanes == 1 or (step == 0 and not moving_guard):
            return self._guarded(ct.load(pointer, flat.c(), dtype, 1), dtype, 1, guards)
        if step == 1 and not moving_guard:
            if distance := self.ahead(node, flat):
                self.lines.append(f"PREFETCH({pointer} + {(flat + distance).c()});")
            cast = self.aligned(self.alignment, node, start, flat)
            return self._guarded(ct.load(pointer, flat.c(), dtype, self.lanes, cast), dtype, self.lanes, guards)
        if step == -1 and not moving_guard:
            last = ct.load(pointer, (flat + (1 - self.lanes)).c(), dtype, self.lanes)
            turned = "".join(f"{lane:x}" for lane in reversed(range(self.lanes)))
            return self._guarded(f"({last}).s{turned}", dtype, self.lanes, guards)
        if self.tile and is_along(flat, self.tile, guards) and not moving_guard:
            return self._tiled(node, pointer, flat)
        return self._lanewise(pointer, flat, dtype, guards)

    def _tiled(self, node: Node, pointer: str, flat: Expr) -> Value:
        n, dtype, name, first = self.lanes, node.spec.dtype, f"{self.prefix}{len(self.lines)}_t", f"{self.tile}0"
        kind, at = ct.vector(ct.REGISTER[dtype], n), flat.c({self.tile: first, self.lane: "jl"})
        early = f"PREFETCH({pointer} + {at} + {n}); " if self.ahead(node, flat) else ""  # of the tile that follows
        loop = f"for (size_t l = 0; l < {n}; ++l) {{ const size_t jl = {self.lane} + l; "
        self.before += [f"{kind} {name}[{n}];", f"{loop}{early}{name}[l] = {ct.load(pointer, at, dtype, n)}; }}",
                        f"TRANSPOSE({kind}, {n}, {name})"]
        return self._new(ct.REGISTER[dtype], n, f"{name}[{self.tile} - {first}]", dtype)

    def _guarded(self, text: str, dtype: str, lanes: int, guards: tuple[Condition, ...]) -> Value:
        ctype = ct.REGISTER[dtype]
        if not guards:
            return self._new(ctype, lanes, text, dtype)
        name = f"{self.prefix}{len(self.lines)}"
        kind = ct.vector(ctype, lanes)
        self.lines.append(f"{kind} {name} = ({kind})(0); if ({' && '.join(g.c() for g in guards)}) {name} = {text};")
        return Value(name, dtype, lanes)

    def _lanewise(self, pointer: str, flat: Expr, dtype: str, guards: tuple[Condition, ...]) -> Value:
        ctype, name = ct.REGISTER[dtype], f"{self.prefix}{len(self.lines)}"
        rename = {self.lane: "jl"}
        one = ct.load(pointer, flat.c(rename), dtype, 1)
        if guards:
            one = f"({' && '.join(g.c(rename) for g in guards)}) ? {one} : ({ctype})(0)"
        self._per_lane(ctype, name, one)
        self.lines.append(f"const {ct.vector(ctype, self.lanes)} {name} = vload{self.lanes}(0, {name}_);")
        return Value(name, dtype, self.lanes)

    def _per_lane(self, ctype: str, name: str, one: str) -> None:
        """An array of one value a lane; `one` is written in jl, the lane's own index."""
        n = self.lanes
        self.lines.append(
            f"{ctype} {name}_[{n}]; for (size_t l = 0; l < {n}; ++l) "
            f"{{ const size_t jl = {self.lane} + l; {name}_[l] = {one}; }}")

    # --- views
    def _view(self, node: View, ix: Index, guards: tuple[Condition, ...]) -> Value:
        inner, conditions = node.op.index(ix, node.inputs[0].shape, node.shape, **node.attrs)
        value = self.emit(node.inputs[0], inner, guards + tuple(c for c in conditions if c not in guards))
        if not conditions:
            return value
        return self._select(value, tuple(conditions), node.attrs.get("value", 0))

    def _select(self, value: Value, conditions: tuple[Condition, ...], other: ct.Number) -> Value:
        ctype = ct.REGISTER[value.dtype]
        rest = self.params.scalar(other, value.dtype)
        if self.lanes == 1 or not self._moves(*(c.expr for c in conditions)):
            kind, test = ct.vector(ctype, value.lanes), " && ".join(c.c() for c in conditions)
            return self._new(ctype, value.lanes, f"({test}) ? {value.name} : ({kind})({rest})", value.dtype)
        mask, name = ct.MASK[ctype], f"{self.prefix}{len(self.lines)}"
        test = " && ".join(c.c({self.lane: "jl"}) for c in conditions)
        self._per_lane(mask, name, f"({test}) ? 1 : 0")
        kind = ct.vector(ctype, self.lanes)
        test = f"vload{self.lanes}(0, {name}_) != ({ct.vector(mask, self.lanes)})(0)"
        return self._new(ctype, self.lanes, f"{test} ? {self._splat(value)} : ({kind})({rest})", value.dtype)

    # --- arithmetic
    def _arange(self, node: Node, ix: Index) -> Value:
        ctype, dtype = ct.REGISTER[node.spec.dtype], node.spec.dtype
        (e,) = ix
        if self.lanes == 1 or not self._moves(e):
            return self._new(ctype, 1, f"({ctype})({e.c()})", dtype)
        name = f"{self.prefix}{len(self.lines)}"
        self._per_lane(ctype, name, f"({ctype})({e.c({self.lane: 'jl'})})")
        self.lines.append(f"const {ct.vector(ctype, self.lanes)} {name} = vload{self.lanes}(0, {name}_);")
        return Value(name, dtype, self.lanes)

    def _splat(self, v: Value) -> str:
        return v.name if v.lanes == self.lanes else f"({ct.vector(ct.REGISTER[v.dtype], self.lanes)})({v.name})"

    def convert(self, v: Value, dtype: str) -> Value:
        return Value(ct.convert(v.name, v.dtype, dtype, v.lanes), dtype, v.lanes)

    def _call(self, node: Pointwise, values: list[Value]) -> Value:
        op, out = node.op, node.spec.dtype
        lanes = max(v.lanes for v in values)
        if op.name == "cast":
            v = self.convert(values[0], out)
            return self._new(ct.REGISTER[out], v.lanes, v.name, out)
        if op.name == "detach":
            return values[0]
        compute = out if out != "bool" or op.selects else promote(*(v.dtype for v in values))
        wanted = ["bool" if op.selects and k == 0 else compute for k in range(len(values))]
        text = called(self.params, op, compute, lanes) if op.origin else expression(op.expression, compute, lanes)
        places = {a: self._place(self.convert(v, w), lanes) for a, v, w in zip(op.args, values, wanted, strict=True)}
        if op.name == "invert" and compute != "bool":
            ones = self.params.scalar(int(~np_dtype(compute).type(0)), compute)
            places["ONES"] = self._place(Value(ones, compute, 1), lanes)
        text = re.sub(rf"\b({'|'.join(places)})\b", lambda m: places[m[0]], text) if places else text
        return self._new(ct.REGISTER[out], lanes, text, out)

    def _place(self, v: Value, lanes: int) -> str:
        """v as it may stand in an expression: a number with its type, and an expression by a name, as it would be
        contracted with what is around it.
        """
        ctype = ct.REGISTER[v.dtype]
        name = v.name if SIMPLE.fullmatch(v.name) else self._new(ctype, v.lanes, v.name, v.dtype).name
        if v.lanes != lanes or not name[0].islower():
            return f"({ct.vector(ctype, lanes)})({name})"
        return name


def is_along(flat: Expr, name: str, guards: tuple[Condition, ...]) -> bool:
    """Whether a load is contiguous along the variable, on no condition that moves with it."""
    return flat.coefficient(name) == 1 and not any(name in variables(g.expr) for g in guards)


def called(params: Params, op: ops.Pointwise | ops.Reduction, dtype: str, lanes: int) -> str:
    """A call of what somebody wrote, over the names of its arguments: in a program it is a function of its own, whose
    lines stand as they were written.
    """
    assert op.origin is not None
    text, args, vectors, result = ((op.expression, op.args, op.vectors, "bool" if op.tests else dtype)
                                   if isinstance(op, ops.Pointwise) else (op.origin.text, ("a", "b"), True, dtype))
    width = lanes if vectors else 1
    kind, gives = (ct.vector(ct.REGISTER[d], width) for d in (dtype, result))
    name = f"g_{op.origin.mark}_{kind}"
    if name not in params.functions:
        body, takes = op.origin.marked(expression(text, dtype, width)), ", ".join(f"const {kind} {a}" for a in args)
        opening, closing = ("", "}") if re.search(r"\breturn\b", text) else (" return (", "); }")
        params.functions[name] = f"inline {gives} {name}({takes}) {{{opening}\n{body}\n{closing}"
    if width == lanes:
        return f"{name}({', '.join(args)})"
    each = (f"{name}({', '.join(f'({a}).s{k:x}' for a in args)})" for k in range(lanes))
    return f"({ct.vector(ct.REGISTER[result], lanes)})({', '.join(each)})"


def expression(text: str, dtype: str, lanes: int) -> str:
    """An op's C text for one type and width: T, BITS, TEST, BOOL, STOCHASTIC, ABS, POW, include/functions.h,
    FLOORDIV, FLOORMOD, INVERT and float literals made concrete.
    """
    ctype = ct.vector(ct.REGISTER[dtype], lanes)
    real = ct.REGISTER[dtype] in ("float", "double")
    integer = {"ABS": "(x < 0 ? -x : x)" if not dtype.startswith("u") else "(x)", "POW": f"ipow_{ctype}(x, y)",
               "INVERT": "(x ^ 1)" if dtype == "bool" else "(x ^ ONES)",
               "FLOORDIV": f"floordiv_{ctype}(x, y)", "FLOORMOD": f"floormod_{ctype}(x, y)"}
    floating = {"ABS": None, "POW": "pow(x, y)", "FLOORDIV": f"floordiv_{ctype}(x, y)",
                "FLOORMOD": f"floormod_{ctype}(x, y)"}
    for word, value in (floating if real else integer).items():
        if word == "ABS" and real:
            text = text.replace("ABS(", "fabs(")
        elif value is not None:
            text = re.sub(rf"\b{word}\([^()]*\)", value, text)
    text = re.sub(r"\bBITS\b", str(8 * np_dtype(dtype).itemsize), text)
    text = ct.typed(re.sub(r"\b(TEST|BOOL|STOCHASTIC)\(", lambda m: f"{m[1]}_{ctype}(", text), ctype)
    if lanes > 1 and not real:
        # An int constant is wider than the elements of a vector of chars or shorts, which C then refuses.
        text = re.sub(r"(?<![\w.(-])\d+(?![\w.])", r"(T)(\g<0>)", text)
    text = re.sub(r"\bT\b", ctype, text)
    if ct.REGISTER[dtype] == "float":
        text = re.sub(r"(?<![\w.])(\d+\.\d*(?:[eE][-+]?\d+)?|\.?\d+[eE][-+]?\d+|\.\d+)(?![\w.])", r"\1f", text)
    return text


def integer_helpers(text: str) -> str:
    """ipow, floordiv and floormod for the types that `text` calls them with.
    Integer division by zero gives 0, as in NumPy.
    """
    out = []
    for name, ctype in ct.mentions(text, ("ipow", "floordiv", "floormod"), r"(\w+)\("):
        t = ctype
        if t.startswith(("float", "double")):
            out.append(_real_division(name, t))
            continue
        signed = not t.startswith("u")
        zero, one = f"({t})(0)", f"({t})(1)"
        fix = f"(r != {zero} && ((r ^ y) < {zero}))" if signed else "(r != r)"
        if name == "ipow":
            # Of a negative exponent: what 1 / x^|y| leaves without its fraction.
            left = f"(x == {one} ? {one} : (x == ({t})(-1) ? ((y & {one}) != {zero} ? x : {one}) : {zero}))"
            ends = f"y < {zero} ? {left} : p" if signed else "p"
            out.append(f"inline {t} ipow_{t}(const {t} x, const {t} y) "
                       f"{{ {t} p = {one}, f = x, n = y; for (int b = 0; b < 64; ++b) {{ "
                       f"p *= (n & {one}) != {zero} ? f : {one}; f *= f; n = n >> {one}; }} return {ends}; }}")
        else:
            divided = (f"inline {t} {name}_{t}({t} x, {t} y) {{ const {t} d = y == {zero} ? {one} : y, "
                       f"q = x / d, r = x - q * d; return y == {zero} ? {zero} : ")
            out.append(divided + (f"({fix} ? q - {one} : q); }}" if name == "floordiv" else f"({fix} ? r + y : r); }}"))
    return "\n".join(out)


def _real_division(name: str, t: str) -> str:
    """floordiv and floormod of floats from the exact remainder, as in NumPy: ⌊x / y⌋ would take a rounded quotient."""
    start = f"inline {t} {name}_{t}({t} x, {t} y) {{ const {t} r = fmod(x, y); "
    if name == "floormod":
        return start + "return r != 0 && (r < 0) != (y < 0) ? r + y : r; }"
    return start + (f"const {t} d = (x - r) / y - (r != 0 && (r < 0) != (y < 0) ? ({t})(1) : ({t})(0)), q = floor(d); "
                    f"return y == 0 ? x / y : (d - q > ({t})(0.5f) ? q + ({t})(1) : q); }}")
