"""Stages -> sources: hand-written kernels with what is fused into them written in front of their .cl files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.size import common_divisor, same
from ...kernels.stage import Stage
from . import c_types as ct
from . import source
from .accesses import alignment, in_memory, known_alignment, store_lines, streamed
from .emit import DECLARED, PASSED, Emitter, OperandParam, Params, Value
from .fusion import KernelCall, Schedule
from .index import Index, var
from .node import Kernel
from .reads import operand
from .source import Source, finish, indent

if TYPE_CHECKING:
    from ..device.devices import Device

KINDS = {"float16": "HALF", "bfloat16": "BF16"}  # how include/vector.h calls operands that are not stored as T


def kernel_sources(schedule: Schedule, fusion: KernelCall, device: Device) -> list[Source]:
    """The stages of a kernel op, with the fused epilogue written in front of its .cl file."""
    core = next(c for c in fusion.cores if isinstance(c, Kernel) and c.stages)
    scratch: dict[str, int] = {}
    for stage in core.stages:
        for name, size in stage.scratch.items():
            scratch[name] = max(size, scratch.get(name, 0))
    return [_kernel_source(schedule, fusion, core, stage, scratch, device) for stage in core.stages]


def _kernel_source(schedule: Schedule, fusion: KernelCall, core: Kernel, stage: Stage, scratch: dict[str, int],
                   device: Device) -> Source:
    params = Params(scratch=scratch, kept=stage.kept)
    element = ct.REGISTER[core.spec.dtype]
    file = core.op.text or ct.typed(source.kernel_file(stage.file or core.op.cl), ct.vector(element, stage.lanes))
    aligned = ""
    for arg, i in zip(core.op.args, core.inputs, strict=True):
        node, offset, _ = operand(core, i)
        params.reads[OperandParam(node, arg, offset)] = arg
        if f"{arg.upper()}_ALIGN" in file:  # only who asks: others share a program at every alignment
            aligned += f"#define {arg.upper()}_ALIGN {common_divisor(offset, alignment(schedule, node))}\n"
        if i.spec.dtype in KINDS and f"{arg.upper()}_KIND" in file:
            aligned += f"#define {arg.upper()}_KIND {KINDS[i.spec.dtype]}\n"
    tail = ""
    if core.op.writes:
        params.writes[core] = core.op.writes
    elif stage.final:
        tail = _epilogue(schedule, fusion, core, stage, params, device, "EPILOGUE_AHEAD" in file)
    numbers = "".join(f" const {ct.REGISTER[dtype]} {name} = {params.scalar(value, dtype)};"
                      for name, (dtype, value) in stage.scalars.items())
    defines = "".join(f"#define {k} {v}\n" for k, v in stage.defines.items())
    head = f"#define PARAMS {params.declaration()}\n#define BEGIN {params.begin()}{numbers}\n"
    if "SIZES" in file:
        head += f"#define SIZES {DECLARED}\n#define SIZES_PASSED {PASSED}\n"
    # A text of somebody's own may call its functions as vector.h does.
    text = "\n".join(["" if core.op.writes else source.kernel_file("include/vector.h"), tail, head, file])
    vectors = f"#define T {element}\n#define VW {stage.lanes}\n"
    if device.loads_vectors_by_cast:
        vectors += "#define CAST_LOADS\n"
    return Source(stage.kernel, vectors + aligned + defines + finish(text, device, params), params, stage.grid,
                  stage.group, stage.note)


def _epilogue(schedule: Schedule, fusion: KernelCall, core: Kernel, stage: Stage, params: Params,
              device: Device, ahead: bool) -> str:
    """EPILOGUE(c0, …, v) and EPILOGUE_V: inline functions that carry results through the fused pointwise ops to memory.

    EPILOGUE_AHEAD(c0, …), where the kernel asks for it (`ahead`): starts fetching what they read that lies as results
    do. A twin's of the same size is their second value; EPILOGUE_ALSO carries one of another size.
    """
    together = [n for n in (core, core.twin) if n is not None and same(n.size, core.size)]
    first = [core.twin] if core.twin and stage.also and not stage.domain else together
    results = [("" if lanes == 1 else "_v", first, stage.domain or stage.also, lanes) for lanes in {1, stage.lanes}]
    results += [("_also", [core.twin], stage.also, 1)] if core.twin and stage.also and stage.domain else []
    bodies = []
    for suffix, given, domain, lanes in results:
        names = [f"g_c{a}" for a in range(len(domain))]
        flat = Index(var(c, size) for c, size in zip(names, domain, strict=True)).flatten(domain).expr
        stores = [s for s in fusion.stores if same(s.size, given[0].size)]
        e = Emitter(params, in_memory(schedule, fusion), names[-1], lanes,
                    alignment=known_alignment(schedule, device) if stage.stepped else None,
                    streamed=streamed(schedule, stores, device) if stage.stepped else None)
        e.given.update({n: Value(f"g_v{k or ''}", n.spec.dtype, lanes) for k, n in enumerate(given)})
        store_lines(e, stores, flat)
        kinds = {v.name: ct.vector(ct.REGISTER[v.dtype], lanes) for v in e.given.values()}
        bodies.append((suffix, names, kinds, indent(e.lines, 1)))
        if ahead and lanes == stage.lanes and suffix != "_also":
            fetched = [f"PREFETCH({params.read(load.node, 0)} + {flat.c()});" for load in e.loads if load.flat == flat]
            bodies += [("_ahead", names, {}, indent(list(dict.fromkeys(fetched)), 1))] if fetched else []
    reads = {n: p for n, p in params.reads.items() if not (isinstance(n, OperandParam) and n.name)}
    pointers = [f"__global const {ct.STORAGE[n.spec.dtype]}* {p}" for n, p in reads.items()]
    pointers += [f"__global {ct.STORAGE[n.spec.dtype]}* {p}" for n, p in params.writes.items()]
    pointers += [f"const {ct.REGISTER[d]} {p}" for (_, d), p in params.scalars.items()]
    arguments, text = [*reads.values(), *params.writes.values(), *params.scalars.values()], []
    for suffix, names, kinds, body in bodies:
        values = ", ".join([*names, *kinds])
        takes = ", ".join([*(f"const size_t {c}" for c in names), *(f"const {kind} {v}" for v, kind in kinds.items()),
                           *pointers])
        text.append(f"inline void epilogue{suffix}({takes}{DECLARED}) {{\n{body}\n}}")
        passed = ", ".join([values, *arguments])
        text.append(f"#define EPILOGUE{suffix.upper()}({values}) epilogue{suffix}({passed}{PASSED})")
    return "\n".join(text)
