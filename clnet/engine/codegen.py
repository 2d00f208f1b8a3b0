"""Launch -> OpenCL C: maps and kernels. Each pointwise op is one inline function; a fused kernel calls them in turn."""

from __future__ import annotations

import functools
import importlib.resources
import math
import re
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import ctypes as ct
from .emit import Emitter, OperandParam, Params, Value, integer_helpers
from .graph import Node
from .index import Expr, Index, var, variables
from .schedule import Launch, Schedule, operand

MAP_CHUNK = 4096  # elements that are worth a work-item of their own on a CPU
GPU_GROUP = 256
GPU_VECTOR = 4
KINDS = {"float16": "HALF", "bfloat16": "BF16"}  # how include/vector.h calls operands that are not stored as T
ALIGNED = 128  # elements to which memory is aligned where nothing is known against it
STREAM = 8 << 20  # [bytes] of a result that does not stay in a cache until it is read
BEYOND = 1 << 20  # [bytes] of an operand that is not in a core's own cache
PAGE = 4096  # [bytes] of memory


@dataclass
class Stage:
    """One kernel of a hand-written .cl file, as the op's launch function asks for it.

    kernel    function name in the file           defines   macros, printed in order
    grid      global size                         group     local size or None
    domain    coordinates of the result that EPILOGUE takes; their row-major number is the element
    lanes     width of EPILOGUE_V (1: none)       scratch   name -> bytes of temporary memory shared by the op's stages
    also      coordinates that EPILOGUE_ALSO takes, of a second result (Op.deflaunch_with) of another size; one of the same goes through EPILOGUE,
              and so does a second result that a stage without a domain gives alone
    final     whether this stage writes the result
    stepped   whether the last coordinate that EPILOGUE_V takes is always a multiple of lanes
    note      the arithmetic, where it is not that of the dtype: plans print it
    """

    kernel: str
    defines: dict[str, Any]
    grid: tuple[int, ...]
    group: tuple[int, ...] | None = None
    domain: tuple[int, ...] = ()
    lanes: int = 1
    scratch: dict[str, int] = field(default_factory=dict)
    final: bool = True
    file: str = ""
    stepped: bool = False
    note: str = ""
    also: tuple[int, ...] = ()


@dataclass
class Source:
    """A program to build and how to launch it."""

    name: str
    text: str
    params: Params
    grid: tuple[int, ...]
    group: tuple[int, ...] | None
    note: str = ""


@functools.cache
def kernel_file(name: str) -> str:
    """The text of a file of cl_kernels, with what it includes from there in place."""
    text = importlib.resources.files("cl_kernels").joinpath(name).read_text("utf-8")
    return re.sub(r'^#include "(.+)"$', lambda m: kernel_file(m[1]), text, flags=re.MULTILINE)


def template(stem: str, **fields: Any) -> str:
    """A skeleton from cl_kernels/templates with its fields filled in."""
    return string.Template(kernel_file(f"templates/{stem}.cl")).substitute({k: str(v) for k, v in fields.items()})


def indent(lines: list[str], depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines)


def finish(text: str, device: Any) -> str:
    """Puts the helper definitions that the text needs in front of it."""
    integers, sums = integer_helpers(text), kernel_file("include/sums.h") if "TWO_SUM(" in text else ""
    return "\n".join(part for part in (ct.helpers(text + integers, device), _functions(text, device), integers, sums, text) if part)


def _functions(text: str, device: Any) -> str:
    """include/functions.h for each type that the text calls its functions with."""
    types = sorted(set(re.findall(r"\b(?:NDTR|GELU)_((?:float|double)\d*)\(", text)))
    return "\n".join(_functions_of(t, device.kind == "cpu") for t in types)


def _functions_of(real: str, inline: bool) -> str:
    body = kernel_file("include/functions.h").replace("REAL", real).replace("as_INT", re.sub("float|double", "as_int", real))
    return f"#define SINGLE {int(real.startswith('float'))}\n#define INLINE_EXP2 {int(inline)}\n{body}#undef SINGLE\n#undef INLINE_EXP2"


def launch_name(launch: Launch) -> str:
    """A readable kernel name: the ops it computes, cores first."""
    names = [n.op.name for n in (*launch.cores, *launch.stores) if n.op]
    return re.sub(r"\W", "_", "_".join(dict.fromkeys(names))[:48]) or "copy"


def in_memory(plan: Schedule, launch: Launch) -> Any:
    """What the kernels of this launch read from memory: leaves and what earlier launches stored."""

    def test(n: Node) -> bool:
        # A view that a later launch copies for itself is not there yet: it is read through.
        return n.kind in ("leaf", "assemble") or (n in plan.stored and plan.home[n].position < launch.position)

    return test


def store_lines(emitter: Emitter, stores: list[Node], flat: Expr) -> None:
    """Emits the values of outputs at row-major element `flat`, then their stores."""
    values = []
    for n in stores:
        source = emitter.given.get(n) or _own(emitter, n, flat)
        values.append((n, source))
    for n, v in values:
        lanes = emitter.lanes
        text = v.name if v.lanes == lanes else f"({ct.vector(ct.REGISTER[v.dtype], lanes)})({v.name})"
        cast, past = (emitter.aligned(a, n, 0, flat) for a in (emitter.alignment, emitter.streamed))
        emitter.lines.append(ct.store(text, emitter.params.write(n), flat.c(), n.spec.dtype, lanes, cast, past))


def _own(emitter: Emitter, n: Node, flat: Expr) -> Value:
    """A stored node computed here (a stored view is a copy: its value is its input's)."""
    return emitter.at(n, flat)


# --- maps
def map_source(plan: Schedule, launch: Launch, device: Any) -> Source:
    """A kernel that computes the launch's outputs element by element."""
    domain = launch.domain
    k = _choose_split(plan, launch, device)
    outer, inner = math.prod(domain[:k]), math.prod(domain[k:])
    cpu = device.kind != "gpu"
    flat = var("o", outer) * inner + var("j", inner)
    width = device.vector_width if cpu else _gpu_width(plan, launch, device, inner, flat)
    params, functions = Params(), dict[str, str]()

    def body(lanes: int) -> list[str]:
        streamed = _streamed(plan, launch.stores, device)
        e = Emitter(params, functions, in_memory(plan, launch), "j", lanes, alignment=known_alignment(plan, device), streamed=streamed,
                    ahead=functools.partial(_ahead, device))
        store_lines(e, launch.stores, flat)
        return e.lines

    name = f"map_{launch_name(launch)}"
    if not cpu:
        lines, items = indent(body(width), 1), outer * inner // width
        text = template("map_gpu", functions="\n".join(functions.values()), name=name, params=params.declaration(), begin=params.begin(), body=lines,
                        J=inner // width, W=width, items=items, index="uint" if items < 1 << 31 else "size_t")
        return Source(name, finish(text, device), params, (-(-items // GPU_GROUP) * GPU_GROUP,), (GPU_GROUP,))
    vector_body = body(width) if width > 1 and inner >= width else []
    scalar_body = body(1)
    fields = dict(functions="\n".join(functions.values()), name=name, O=outer, J=inner, W=width)
    items_o, items_j = _share(outer, inner, width, device.compute_units)
    chunk_o, chunk_j = -(-outer // items_o), -(-inner // items_j // width) * width if items_j > 1 else inner
    loop = [f"for (; j + {width} <= j1; j += {width}) {{", *("    " + s for s in vector_body), "}"] if vector_body else []
    text = template("map_cpu", params=params.declaration(), begin=params.begin(), items_o=items_o, items_j=items_j, chunk_o=chunk_o, chunk_j=chunk_j,
                    vector_loop=indent(loop, 2), scalar_body=indent(scalar_body, 3), **fields)
    return Source(name, finish(text, device), params, (items_j, items_o), (1, 1))


def _gpu_width(plan: Schedule, launch: Launch, device: Any, inner: int, flat: Expr) -> int:
    """Elements a work-item: 4 where rows are whole vectors, every load is contiguous and the elements still occupy all units."""
    whole = inner % GPU_VECTOR == 0 and math.prod(launch.domain) >= GPU_VECTOR * GPU_GROUP * device.compute_units
    return GPU_VECTOR if whole and nice_share(plan, launch, launch.stores, flat, "j") == 1.0 else 1


def _share(outer: int, inner: int, width: int, units: int) -> tuple[int, int]:
    """(work-items over rows, over columns): none below MAP_CHUNK elements, about four per core above."""
    total = max(1, min(units * 4, outer * inner // MAP_CHUNK))
    rows = min(outer, total)
    columns = max(1, min(-(-total // rows), inner // max(width, 1)))
    if columns > 1:
        chunk = -(-inner // columns // width) * width
        columns = -(-inner // chunk)
    return -(-outer // -(-outer // max(rows, 1))) if outer else 1, columns


def _choose_split(plan: Schedule, launch: Launch, device: Any) -> int:
    """How many leading axes the outer loop takes: the fewest that make every access contiguous or constant along the lanes."""
    best, best_score = max(len(launch.domain) - 1, 0), -1.0
    for k in range(len(launch.domain)):
        outer, inner = math.prod(launch.domain[:k]), math.prod(launch.domain[k:])
        score = nice_share(plan, launch, launch.stores, var("o", outer) * inner + var("j", inner), "j")
        if inner == 1 and k:
            break
        if score > best_score:
            best, best_score = k, score
        if score == 1.0:
            break
    return best


def nice_share(plan: Schedule, launch: Launch, nodes: list[Node], flat: Expr, lane: str) -> float:
    """Share of the loads that are contiguous along `lane` or independent of it, from a dry run of the emitter."""
    e = Emitter(Params(), {}, in_memory(plan, launch))
    e.given.update({core: Value("core", core.spec.dtype, 1) for core in launch.cores})
    for n in nodes:
        if n not in e.given:
            e.at(n, flat)
    good = [ld.flat.coefficient(lane) in (0, 1) and not any(lane in variables(c.expr) for c in ld.conditions) for ld in e.loads]
    return sum(good) / len(good) if good else 1.0


# --- hand-written kernels
def kernel_sources(plan: Schedule, launch: Launch, device: Any) -> list[Source]:
    """The stages of a kernel op, with the fused epilogue written in front of its .cl file."""
    core = next(c for c in launch.cores if c.stages)
    assert core.stages is not None
    scratch: dict[str, int] = {}
    for stage in core.stages:
        for name, size in stage.scratch.items():
            scratch[name] = max(size, scratch.get(name, 0))
    return [_kernel_source(plan, launch, core, stage, scratch, device) for stage in core.stages]


def _kernel_source(plan: Schedule, launch: Launch, core: Node, stage: Stage, scratch: dict[str, int], device: Any) -> Source:
    assert core.op is not None
    params, functions, file = Params(scratch=scratch), dict[str, str](), kernel_file(stage.file or core.op.cl)
    aligned = ""
    for arg, i in zip(core.op.args, core.inputs, strict=True):
        node, offset, _ = operand(core, i)
        params.reads[OperandParam(node, arg, offset)] = arg
        if f"{arg.upper()}_ALIGN" in file:  # only who asks: others share a program at every alignment
            aligned += f"#define {arg.upper()}_ALIGN {math.gcd(offset, alignment(plan, node))}\n"
        if i.spec.dtype in KINDS and f"{arg.upper()}_KIND" in file:
            aligned += f"#define {arg.upper()}_KIND {KINDS[i.spec.dtype]}\n"
    tail = _epilogue(plan, launch, core, stage, params, functions, device) if stage.final else ""
    defines = "".join(f"#define {k} {v}\n" for k, v in stage.defines.items())
    head = f"#define PARAMS {params.declaration()}\n#define BEGIN {params.begin()}\n"
    text = "\n".join([kernel_file("include/vector.h"), *functions.values(), tail, head, file])
    vectors = f"#define T {ct.REGISTER[core.spec.dtype]}\n#define VW {stage.lanes}\n"
    if device.runtime == "nvidia":
        vectors += "#define CAST_LOADS\n"
    return Source(stage.kernel, vectors + aligned + defines + finish(text, device), params, stage.grid, stage.group, stage.note)


def alignment(plan: Schedule, node: Node) -> int:
    """Elements to which node's memory is aligned."""
    return math.gcd(_placed_at(plan, node), ALIGNED)


def _placed_at(plan: Schedule, node: Node) -> int:
    """Elements before node in the memory that it shares with what it was concatenated with."""
    whole, at = plan.placed.get(node, (node, 0))
    return at + _placed_at(plan, whole) if whole is not node else 0


def known_alignment(plan: Schedule, device: Any) -> Callable[[Node], int] | None:
    """What emitters ask for alignment: only GPUs gain from pointers to vectors (NVIDIA turns vloadN into N loads)."""
    return functools.partial(alignment, plan) if device.kind == "gpu" else None


def _streamed(plan: Schedule, stores: list[Node], device: Any) -> Callable[[Node], int] | None:
    """What emitters ask before they write a result past the caches, which saves reading the lines that it replaces; None: they don't.

    Only single results: an update of several arrays writes lines that it has just read.
    """
    large = len(stores) == 1 and stores[0].spec.nbytes >= STREAM
    return functools.partial(alignment, plan) if large and device.runtime == "intel" and device.kind == "cpu" else None


def _ahead(device: Any, node: Node) -> int:
    """Elements before their use at which vectors of a large array are asked for: a page, at whose end processors stop to fetch ahead by themselves."""
    large = node.spec.nbytes >= BEYOND and device.runtime == "intel" and device.kind == "cpu"
    return PAGE * node.size // node.spec.nbytes if large else 0


def _epilogue(plan: Schedule, launch: Launch, core: Node, stage: Stage, params: Params, functions: dict[str, str], device: Any) -> str:
    """EPILOGUE(c0, …, v) and EPILOGUE_V: inline functions that carry results through the fused pointwise ops to memory.

    A twin's of the same size is their second value; EPILOGUE_ALSO carries one of another size.
    """
    together = [n for n in (core, core.twin) if n is not None and n.size == core.size]
    first = [core.twin] if core.twin and stage.also and not stage.domain else together
    results = [("" if lanes == 1 else "_v", first, stage.domain or stage.also, lanes) for lanes in {1, stage.lanes}]
    results += [("_also", [core.twin], stage.also, 1)] if core.twin and stage.also and stage.domain else []
    bodies = []
    for suffix, given, domain, lanes in results:
        names = [f"g_c{a}" for a in range(len(domain))]
        flat = Index(var(c, size) for c, size in zip(names, domain, strict=True)).flatten(domain).expr
        stores = [s for s in launch.stores if s.size == given[0].size]
        known = (known_alignment(plan, device), _streamed(plan, stores, device)) if stage.stepped else (None, None)
        e = Emitter(params, functions, in_memory(plan, launch), names[-1], lanes, alignment=known[0], streamed=known[1])
        e.given.update({n: Value(f"g_v{k or ''}", n.spec.dtype, lanes) for k, n in enumerate(given)})
        store_lines(e, stores, flat)
        kinds = {v.name: ct.vector(ct.REGISTER[v.dtype], lanes) for v in e.given.values()}
        bodies.append((suffix, names, kinds, indent(e.lines, 1)))
    reads = {n: p for n, p in params.reads.items() if not (isinstance(n, OperandParam) and n.name)}
    pointers = [f"__global const {ct.STORAGE[n.spec.dtype]}* {p}" for n, p in reads.items()]
    pointers += [f"__global {ct.STORAGE[n.spec.dtype]}* {p}" for n, p in params.writes.items()]
    pointers += [f"const {ct.REGISTER[d]} {p}" for (_, d), p in params.scalars.items()]
    arguments, text = [*reads.values(), *params.writes.values(), *params.scalars.values()], []
    for suffix, names, kinds, body in bodies:
        values = ", ".join([*names, *kinds])
        takes = ", ".join([*(f"const size_t {c}" for c in names), *(f"const {kind} {v}" for v, kind in kinds.items()), *pointers])
        text.append(f"inline void epilogue{suffix}({takes}) {{\n{body}\n}}")
        text.append(f"#define EPILOGUE{suffix.upper()}({values}) epilogue{suffix}({', '.join([values, *arguments])})")
    return "\n".join(text)
