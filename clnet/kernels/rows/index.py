"""Rows by number, gathered and scattered (index.cl). A scatter sorts its edges by row: equal sums on every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.size import larger, typical, varies
from ...core.spec import is_float
from ...engine.compile.c_types import BYTES, REGISTER, STORAGE
from ..grid import PER_CORE, dealt, fitting, gpu_lanes, item_count, up, vector_lanes
from ..operand import Operand
from ..stage import Stage
from ..variant import CPUS_ONLY, Answer, Offer, Refusal, variant

if TYPE_CHECKING:
    from ...engine.device.devices import Device

SORT_SHARE, SORT_BITS = 64, 4  # of a GPU: edges that are worth a work-item in the sort, bits of a digit
ONE_PASS_BITS = 17  # the most bits of a digit on a CPU
# [cycles] of a CPU (two cores of a Zen 4, sixteen of a Xeon): a launch, each of its work-items besides; an edge counted
# and placed, what that takes longer in the order of another digit, a counter added up, a place whose cache line other
# work-items write, too; where a row begins; an edge summed in the order of rows and each of its elements; the same in
# the order of edges.
LAUNCHED, DEALT, SORTED, AGAIN, COUNTED, SHARED, BEGUN = 12e3, 2e3, 9, 18, 3, 50, 3
SUMMED_EDGE, SUMMED_ELEMENT, ADDED_EDGE, ADDED_ELEMENT = 9, 0.5, 4.5, 1
LINE = 16  # places in a cache line
COUNTERS_APART = 16  # between those of two work-items, a line of 64 bytes
BOUNDED = 8192  # [rows and edges] that are worth a work-item of a CPU where rows begin
GPU_GROUP = 256
RANKS = 1 << 22  # comparisons a unit of a GPU that are worth less than the launches of a sort
RANK_LINES = 8  # work-items that share the count of one edge or row
GATHERED, SUMMED = 4096, 8192  # [elements] that are worth a work-item of a CPU
EMPTY = 16  # [elements] of the result an edge from which on they, not the edges, are shared (an estimate)
FREE = frozenset(("BATCH", "ROWS", "EDGES", "WIDTH", "CHUNK"))
CLASS_BITS = (8, 11, ONE_PASS_BITS, 22, 31)  # where classes of numbers of rows end that vary


@dataclass(frozen=True)
class Edges:
    """`edges` indices into `rows` rows of `width` elements of `dtype`, `batch` times with the same indices."""

    batch: int
    rows: int
    edges: int
    width: int
    dtype: str

    def macros(self, device: Device) -> dict[str, Any]:
        sizes = self.batch, self.rows, self.edges, self.width
        known = device.is_gpu or not varies(*sizes)  # a CPU divides 64 bits as fast
        small = known and self.batch * larger(self.rows, self.edges) * self.width < 1 << 32
        return {"BATCH": self.batch, "ROWS": self.rows, "EDGES": self.edges, "WIDTH": self.width,
                "GPU": int(device.is_gpu), "ITEM": "uint" if small else "size_t"}

    def lanes(self, device: Device) -> int:
        """Of vectors along the rows; on GPUs only where these are whole vectors."""
        if device.is_gpu:
            return gpu_lanes(self.width)
        lanes = vector_lanes(device, self.dtype)
        return lanes if typical(self.width) >= lanes else 1


@dataclass(frozen=True)
class Gather(Edges):
    """y[a, e] = x[a, index[e]]; `missing` in C where the index is outside."""

    missing: str


@dataclass(frozen=True)
class Scatter(Edges):
    """y[a, v] = all source[a, e] with index[e] = v together: their SUM, or ARGMAX."""

    stage: str


def gather_problem(operands: Sequence[Operand], *, fill: str) -> Gather:
    (batch, rows, width), edges, dtype = operands[0].shape, operands[1].shape[0], operands[0].dtype
    return Gather(batch, rows, edges, width, dtype, missing(fill, dtype))


def missing(fill: str, dtype: str) -> str:
    """In C: what stands where an index is outside."""
    return "NAN" if fill == "nan" and is_float(dtype) else "0"


def scatter_problem(stage: str, operands: Sequence[Operand], *, rows: int) -> Scatter | Refusal:
    (batch, edges, width), dtype = operands[0].shape, operands[0].dtype
    return Scatter(batch, rows, edges, width, dtype, stage) if edges and rows else Refusal("no edges or no rows")


@variant("gather", cl="index.cl", serves="all devices")
def gathered(p: Gather, device: Device) -> Answer:
    return Offer(lambda: [_gather_stage(p, device)])


def _gather_stage(p: Gather, device: Device) -> Stage:
    defines = {**p.macros(device), "STAGE": "GATHER", "MISSING": p.missing}
    domain, total, lanes = (p.batch, p.edges, p.width), p.batch * p.edges, p.lanes(device)
    if device.is_gpu:
        return Stage("gather", defines, (up(total * p.width // lanes, GPU_GROUP),), (GPU_GROUP,), domain=domain,
                     lanes=lanes, stepped=True, free=FREE)
    chunk, items = dealt(device, total, total * p.width, GATHERED)
    return Stage("gather", {**defines, "CHUNK": chunk}, (items,), (1,), domain=domain, lanes=lanes, free=FREE)


@variant("scatter", cl="index.cl", serves="CPUs: sums of short rows, or of few edges, in the order of the edges")
def scattered_in_order(p: Scatter, device: Device) -> Answer:
    if device.is_gpu:
        return CPUS_ONLY
    if p.stage != "SUM":
        return Refusal("sums")
    items = _owners(p, device)
    edges, width, size = typical(p.edges), typical(p.width), typical(p.rows * p.width)
    each = edges * ADDED_EDGE + (edges * width + size) * ADDED_ELEMENT / items
    return Offer(lambda: [_ordered_stage(p, device, items)], _launch(items) + typical(p.batch) * each)


def _owners(p: Scatter, device: Device) -> int:
    """One work-item for all rows: with several, each would look at all edges, and guess wrong which are its own."""
    size = typical(p.rows * p.width)
    if size <= EMPTY * typical(p.edges):
        return 1
    return min(device.compute_units, item_count(device, p.rows, size * p.batch, SUMMED))


def _ordered_stage(p: Scatter, device: Device, items: int) -> Stage:
    chunk, size = -(-p.rows // items), typical(p.rows * p.width)
    return Stage("owned", {**p.macros(device), "STAGE": "OWN", "CHUNK": chunk}, (-(-p.rows // chunk),), (1,),
                 domain=(p.batch, p.rows * p.width), lanes=fitting(vector_lanes(device, p.dtype), size),
                 scratch={"sums": p.rows * p.width * BYTES[REGISTER[p.dtype]]}, free=FREE)


@variant("scatter", cl="index.cl", serves="all devices: the edges are sorted by row")
def scattered(p: Scatter, device: Device) -> Answer:
    return Offer(lambda: _scatter_stages(p, device), 0.0 if device.is_gpu else _sorted_cycles(p, device))


def _sorted_cycles(p: Scatter, device: Device) -> float:
    """Of a sort and the sums of its rows, by all cores of a CPU."""
    edges, rows, width = typical(p.edges), typical(p.rows), typical(p.width)
    need, units = rows.bit_length(), device.compute_units
    parts, bits = _cpu_digits(p, need, device)
    bounds = 0.0 if bits == need else _launch(units) + (rows + edges) * BEGUN / units
    sums = rows * BEGUN + edges * SUMMED_EDGE + (edges + rows) * width * SUMMED_ELEMENT
    return _digit_cycles(edges, need, parts, bits) + bounds + _launch(units) + typical(p.batch) * sums / units


def _scatter_stages(p: Scatter, device: Device) -> list[Stage]:
    stages, order = sort_stages(p, device)
    defines = {**p.macros(device), "STAGE": p.stage, "FROM": order, "S": STORAGE[p.dtype]}
    gpu, lanes = device.is_gpu, p.lanes(device) if p.stage == "SUM" else 1
    grid: tuple[int, ...]
    if gpu:
        grid = (up(p.batch * p.rows * p.width // lanes, GPU_GROUP),)
    else:
        items = item_count(device, p.rows, (p.rows + p.edges) * p.width * p.batch, SUMMED)
        columns = max(1, min(typical(p.width) // (16 * lanes), device.compute_units * PER_CORE // items))
        chunk = up(-(-p.width // columns), lanes)
        grid = (items, -(-p.width // chunk))
        defines |= {"ITEMS": items, "CHUNK": chunk}
    return [*stages, Stage("segments", defines, grid, (GPU_GROUP,) if gpu else (1, 1),
                           domain=(p.batch, p.rows, p.width), lanes=lanes, scratch=stages[-1].scratch, stepped=gpu,
                           free=FREE)]


def sort_stages(p: Edges, device: Device) -> tuple[list[Stage], str]:
    """(stages of the stable sort of edges by row, the scratch that holds the order)."""
    if device.is_gpu and device.max_work_group >= 32:
        few = p.edges * (p.edges + p.rows) <= RANKS * device.compute_units and (p.rows + 1) * p.edges < 1 << 32
        if few:
            return [_rank_stage(p, device)], "order0"
    return _digit_stages(p, device)


def _rank_stage(p: Edges, device: Device) -> Stage:
    lines = 1 << min(RANK_LINES, device.max_work_group // 32).bit_length() - 1
    defines = {**p.macros(device), "STAGE": "RANK", "LINES": lines, "TO": "order0"}
    return Stage("ranks", defines, (up(p.edges + p.rows + 1, 32), lines), (32, lines),
                 scratch={"order0": 4 * p.edges, "offsets": 4 * (p.rows + 1)}, final=False, free=FREE)


def _digit_stages(p: Edges, device: Device) -> tuple[list[Stage], str]:
    """Count, scan and place once a digit of BITS bits; then where each row begins, which a CPU's only scan knows."""
    gpu, need = device.is_gpu, _bits(p.rows)
    parts, bits = _gpu_digits(p, need) if gpu else _cpu_digits(p, need, device)
    group = GPU_GROUP if gpu else 1
    only = not gpu and bits == need
    scratch = {"counts": 4 * ((1 << bits) + (0 if gpu else COUNTERS_APART)) * parts, "order0": 4 * p.edges,
               "order1": 4 * p.edges, "offsets": 4 * (p.rows + 1)}
    stages, source, target = [], "order0", "order1"

    def stage(kernel: str, grid: int, **defines: Any) -> Stage:
        return Stage(kernel, {**p.macros(device), **defines}, (up(grid, group),), (group,), scratch=scratch,
                     final=False, free=FREE)

    for n, shift in enumerate(range(0, need, bits)):
        source, target = target, source
        digit: dict[str, Any] = dict(P=parts, CHUNK=-(-p.edges // parts), BITS=bits, SHIFT=shift,
                                     FIRST=int(n == 0), FROM=source, TO=target,
                                     **({} if gpu else {"ONLY": int(only), "APART": COUNTERS_APART}))
        stages += [stage("sort", parts, **digit, STAGE="COUNT"),
                   stage("scan", group, **digit, STAGE="SCAN", GROUP=group),
                   stage("sort", parts, **digit, STAGE="PLACE")]
    if not only:
        items = p.rows + 1 if gpu else item_count(device, p.rows + 1, p.rows + p.edges, BOUNDED)
        chunk = -(-(p.rows + 1) // items)
        stages.append(stage("bounds", -(-(p.rows + 1) // chunk), STAGE="BOUNDS", CHUNK=chunk, FROM=target))
    return stages, target


def _gpu_digits(p: Edges, need: int) -> tuple[int, int]:
    edges = typical(p.edges)
    return max(1, min(-(-edges // SORT_SHARE), edges)), min(need, SORT_BITS)


def _cpu_digits(p: Edges, need: int, device: Device) -> tuple[int, int]:
    """(work-items of the sort, bits of a digit) of the least time: more items count fewer edges each and make more
    counters, which one item adds up; fewer bits make fewer counters, and more passes.
    """
    edges, most = typical(p.edges), device.compute_units.bit_length()
    choices = [(1 << n, bits) for n in range(most)
               for bits in {-(-need // passes) for passes in range(1, 5)} if bits <= ONE_PASS_BITS]
    return min(choices, key=lambda c: _digit_cycles(edges, need, *c))


def _digit_cycles(edges: int, need: int, parts: int, bits: int) -> float:
    """Of all passes on a CPU."""
    counters, each = parts << bits, edges / parts
    shared = min(1.0, LINE * counters / edges) if parts > 1 else 0.0
    once = 2 * _launch(parts) + _launch(1) + (SORTED + SHARED * shared) * each + COUNTED * counters
    passes = -(-need // bits)
    return passes * once + (passes - 1) * AGAIN * each


def _launch(items: int) -> float:
    return LAUNCHED + DEALT * (items - 1)


def _bits(rows: int) -> int:
    """Bits of the numbers 0 .. rows; of rows that vary, those of the most of their class."""
    return next((bits for bits in CLASS_BITS if rows < 1 << bits), 32) if varies(rows) else rows.bit_length()
