"""Products on CPUs (matmul.cl): with which tiles and grid, whether in parts: a cost model over measured numbers.

Pure Python, no OpenCL. The numbers are those of "matmul cpu" in defaults.json; the rest are rules. Sizes in elements
unless said otherwise; costs in cycles of one core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil, gcd, prod
from typing import TYPE_CHECKING, Any

from ...core.size import bounded, larger, typical, varies
from ..dealing import PAIRED, busiest, least_share
from ..grid import dealt, up, vector_lanes
from ..stage import Stage
from ..tuning import numbers
from ..variant import CPUS_ONLY, Offer, Refusal, variant
from .division import split
from .problem import FREE, Pair, Product, copies

if TYPE_CHECKING:
    from ...engine.device.devices import Device

Costs = Mapping[str, Any]
Table = tuple[tuple[str, Any], ...]
# Defines and grid; cycles that it takes, and of them those that are not spent on products; those by which tiles are
# compared, `divided`; whether it is `large`.
Plan = dict[str, Any]

# What `clnet tune` tries for a CPU.
SPACE: dict[str, Sequence[Any]] = {
    "tile": ((), (4, 4), (6, 4), (8, 2), (8, 3), (10, 2), (12, 2), (14, 2), (14, 1), (6, 2), (4, 3), (5, 2),
             (4, 2)),
    "swap": (-1, 0, 1), "direct_tiles": (2, 5, 9, 1000), "direct_depth": (16, 64, 1024), "per_core": (1, 2, 4, 8, 16),
    "depth": (128, 256, 512, 1024), "panel": (128 << 10, 320 << 10, 512 << 10, 768 << 10), "tile_rows": (96, 256, 512),
    "item": (500, 2000, 8000), "rows": (0, 64 << 10, 256 << 10), "turn": (0, 16, 44, 96),
    "many": (256, 768), "far": (0, 600), "scratch": (256 << 10, 512 << 10, 1280 << 10), "parts": (0, 1, 2, 4, 8, 16)}
LINE = 64  # [bytes]
SETS, WAYS = 4096, 8  # [bytes] after which addresses share a set of an L1, and lines that a set holds
HELD = WAYS - 2  # of them that stay while columns pass
PAGE = 4096  # [bytes]
TURN_I, TURN_K = 256, 16  # of a work-item of TURN that transposes
# Sizes that may be arguments; of those along columns the kernel has to know.
FREE_PANEL = FREE | {"PITCH", "COPIES", "IC", "KP"}
FREE_SUM = FREE | {"SIZE", "CHUNK"}
CROWD = 16     # cores up to which was measured what each adds
FEW = 10       # products of a register tile: fewer wait for one another, and serve only all rows or all columns
TRIED, NEAR = 8, 1.06  # register tiles whose division is tried, of times the least cost at most
SUMMED = 2048  # elements of partial sums that are worth a work-item of their own


@variant("matmul", cl="matmul.cl", serves="CPUs, all other products", rank=1)  # where both could, dot takes a third
def panel(p: Product, device: Device) -> Offer | Refusal:
    """Register tiles over panels that are packed, or read where they lie."""
    if not device.is_cpu:
        return CPUS_ONLY
    table = tuple(sorted(numbers(device, "matmul cpu", p.shape_class).items()))
    lanes = vector_lanes(device, p.dtype)
    if p.varies:
        return Offer(lambda: _stages(p, device, lanes, _free(p, device, lanes, table)))
    return Offer(lambda: _stages(p, device, lanes, _planned(lanes, device.compute_units, *p.typical, p.size, table,
                                                            p.widened)))


def _free(p: Product, device: Device, lanes: int, table: Table) -> Plan:
    """The plan of a class of sizes. What varies alone is rows, in as many pieces as leave no core without one."""
    endless = not bounded(p.k)  # as many blocks as it takes: the macro tile is kept between them, even if one would do
    given = dict(table) | ({"panel": 0} if endless else {})
    given |= {"swap": int(not varies(p.m))} if varies(p.m, p.n) else {}
    plan = _planned(lanes, device.compute_units, *p.typical, p.size, tuple(sorted(given.items())), p.widened)
    own = dict(plan["defines"])
    swap = own["SWAP"]
    rows, cols = (p.n, p.m) if swap else (p.m, p.n)
    parts = own.get("PARTS", 1)
    each, near = ceil(p.k / parts), ceil(p.typical.k / parts)
    if parts > 1:
        own["KP"] = each
    own |= {"FREE_ROWS": int(varies(rows)), "WHOLE_TILE": int(swap or endless or own["KC"] < near)}
    if varies(cols):
        own |= {"FREE_COLS": 1, "COLS_PACKED": 1}
    if varies(rows):
        own["IC_MOST"] = most = up(own["IC"], own["MR"])
        at_once = ceil(device.compute_units / max(1, ceil(typical(cols) / own["JC"]) * p.typical.batch))
        pieces = larger(1, at_once * ceil(rows / (most * at_once)))
        own["IC"] = larger(own["MR"], up(ceil(rows / pieces), own["MR"]))
    if varies(p.k) and "PITCH" in own:
        own["PITCH"] = up(p.k, lanes) + lanes
    return dict(defines=own, grid=(ceil(rows / own["IC"]), ceil(cols / own["JC"]), p.batch * parts))


def _stages(p: Product, device: Device, lanes: int, plan: Plan) -> list[Stage]:
    """The product, after a stage that copies the rows' operand with k along lines, if the plan has it so."""
    defines = {**p.defines, "USE_FMA": int(device.has_fma), **plan["defines"]}
    if "PARTS" in defines:
        return _parted(p, device, defines, plan["grid"], lanes)
    turn, scratch = _turn(p, defines, lanes) if "PITCH" in defines else ([], {})
    return [*turn, Stage("matmul", defines, plan["grid"], (1, 1, 1), domain=(p.batch, p.m, p.n), lanes=lanes,
                         scratch=scratch, note=p.note, free=FREE_PANEL)]


def _parted(p: Product, device: Device, defines: dict[str, Any], grid: tuple[int, ...], lanes: int) -> list[Stage]:
    """The product of each part of K, and their sum."""
    results = p.batch * p.m * p.n
    scratch = {"partial": defines["PARTS"] * results * p.size}
    chunk, items = dealt(device, ceil(results / lanes), results * defines["PARTS"], SUMMED)
    added = {**p.defines, "VARIANT": "SUM", "PARTS": defines["PARTS"], "SIZE": results, "CHUNK": chunk * lanes}
    return [Stage("matmul", defines, grid, (1, 1, 1), lanes=lanes, scratch=scratch, final=False, free=FREE_PANEL),
            Stage("matmul_sum", added, (items,), (1,), domain=(results,), lanes=lanes, scratch=scratch, note=p.note,
                  free=FREE_SUM)]


def _turn(p: Product, defines: dict[str, Any], lanes: int) -> tuple[list[Stage], dict[str, int]]:
    rows, operand = (p.n, p.w) if defines["SWAP"] else (p.m, p.x)
    defines["COPIES"] = held = copies(operand, p.batch)
    scratch = {"turned": held * rows * defines["PITCH"] * p.size}
    own = {**defines, "VARIANT": "TURN", "TURN_I": TURN_I, "TURN_K": TURN_K}
    grid = ceil(rows / TURN_I), ceil(p.k / TURN_K), held
    return [Stage("matmul_turn", own, grid, (1, 1, 1), lanes=lanes, scratch=scratch, final=False,
                  free=FREE_PANEL)], scratch


def _planned(lanes: int, cores: int, batch: int, m: int, n: int, k: int, xs: Pair, ws: Pair, size: int, table: Table,
             widened: tuple[bool, bool]) -> Plan:
    """The plan of the product, or of PARTS of K, whose sums take no more memory than half of the operands."""
    t = dict(table)
    best = _cpu(lanes, cores, batch, m, n, k, xs, ws, size, table, widened)
    whole = _cpu(lanes, cores, batch, m, n, k, xs, ws, size, table, widened, True) if best["large"] else best
    given, launch, better = t["parts"], t["launch"], 1 - t["gain"]
    most = min(k // t["part"], k * (m + n) // max(2 * m * n, 1))
    tried = [given] if given else [p for p in range(min(cores, most), 1, -1) if cores % p == 0]
    one_each = prod(whole["grid"]) <= cores and best["spent"] - launch > best["time"] * t["gain"]
    # Most parts first, unless fewer are better: each core then reads what it wrote, where rows of a batch are summed.
    for parts in tried if given or one_each else ():
        each = ceil(k / parts)
        plan = _cpu(lanes, cores, batch * parts, m, n, each, xs, ws, size, table, widened)
        read = 2 * parts * batch * m * n * size / cores * _fetch(t, cores)  # partial sums, written and read
        time = plan["time"] + launch + read
        if "PITCH" not in plan["defines"] and (given > 1 or time < better * best["time"]):
            best = plan | dict(time=time, defines=plan["defines"] | dict(PARTS=parts, KP=each))
    return best if "PARTS" in best["defines"] else whole


def _fetch(t: Costs, cores: int) -> float:
    """Cycles a byte, where all cores read at once what others wrote."""
    return t["fetch"] + t["crowd"] * min(cores, CROWD)


@lru_cache(4096)
def _cpu(lanes: int, cores: int, batch: int, m: int, n: int, k: int, xs: Pair, ws: Pair, size: int, table: Table,
         widened: tuple[bool, bool], slack: bool = False) -> Plan:
    """The plan of the register tile that takes the least time as it is divided, of those that take the least undivided.

    `widened`: which operands have 16 bits: rows become floats when they are packed, columns that are read once too
    where they lie. `slack`: more work-items than cores, which are uneven.
    """
    t = dict(table)
    operands = (m, *xs, n, ws[1], ws[0]), (n, ws[1], ws[0], m, *xs)
    across = not any(widened) and all(row_i == 1 != row_k for _, row_i, row_k, *_ in operands)
    costs = sorted(
        (_cost(t, *operands[swap], k, mr, nv, lanes, size, batch, cores, alone) + swap * m * n / lanes * t["swapped"],
         swap, mr, nv, alone)
        for swap in (0, 1) if t["swap"] in (-1, swap)
        for mr, nv in ([t["tile"]] if t["tile"] else _tiles(lanes * size // 64))
        for alone in {False, across and _alone(t, operands[swap][0], operands[swap][2], k, mr, size)}
        if t["tile"] or mr * nv >= FEW or mr >= operands[swap][0] or nv * lanes >= operands[swap][3])
    near = [c for c in costs[:TRIED] if c[0] <= NEAR * costs[0][0]]
    return min((_divided(t, lanes, cores, batch, *operands[swap], k, mr, nv, swap, size, n, widened, slack, cost, alone)
                for cost, swap, mr, nv, alone in near), key=lambda plan: plan["divided"])


def _divided(t: Costs, lanes: int, cores: int, batch: int, rows: int, row_i: int, row_k: int, cols: int, col_j: int,
             col_k: int, k: int, mr: int, nv: int, swap: int, size: int, n: int, widened: tuple[bool, bool],
             slack: bool, cost: float, alone: bool) -> Plan:
    """The plan with this register tile."""
    mr, nv = min(mr, rows), min(nv, ceil(cols / lanes))
    width, row_tiles, panels = nv * lanes, ceil(rows / mr), ceil(cols / (nv * lanes))
    pitch, row_i, row_k, strided, cut, depth = _reading(t, rows, row_i, row_k, cols, k, mr, nv, lanes, size, alone,
                                                        widened[swap])
    rows_most = row_tiles
    if swap or cut:  # the macro tile stays in private memory: half of the scratch at most
        rows_most = max(1, min(t["tile_rows"] // mr if cut else row_tiles, t["scratch"] // 2 // (width * mr * size)))
    packed = widened[1 - swap] and rows > mr or not _direct(t, rows, mr, k, col_j, col_k, size)
    pack = packed * _pack(t, col_j, col_k, lanes)
    panel_bytes = (depth * packed + (rows_most * mr if swap or cut else 0)) * width * size
    panels_most = 1 if alone else max(1, t["scratch"] // max(panel_bytes, 1))
    fetch = t["fetch"] * size * k
    afar = min(1, cores / max(panels, 1)) if alone else 1  # of a core's panels, those for which rows come from afar
    divided, per_panel, per_rows = split(
        ceil(cols / lanes) / nv, rows / mr, min(panels, panels_most), min(row_tiles, rows_most),
        t["per_core"] if slack else 1, cores, batch, cost, t["item"], pack * k * nv + fetch * width,
        (t["line"] * k * strided + fetch * afar) * mr, _shared(t, n, size, cores, swap, mr, width),
        _edge(t, k, cores, swap, mr, width))
    ic, jc = per_rows * mr, per_panel * width
    rows_packed = (per_panel > 1 and (strided or _collide(mr, row_i, row_k, size))
                   or row_k != 1 and row_i != 1 and per_panel > 2)
    at_once = max(1, min(per_rows, t["rows"] // (mr * depth * size))) if row_k != 1 else 1
    defines = dict(VARIANT="PANEL", MR=mr, NV=nv, IC=ic, JC=jc, KC=depth, SWAP=swap, COLS_PACKED=int(packed),
                   ROWS_PACKED=int(rows_packed or widened[swap]), RB=at_once)
    if pitch:
        defines["PITCH"] = pitch
    grid = ceil(rows / ic), ceil(cols / jc), batch
    work = _work(t, rows, row_i, row_k, cols, k, mr, nv, lanes, size, strided, alone) * batch
    return dict(defines=defines, grid=grid, divided=divided, large=cost * batch * cores > t["large"],
                **_times(t, rows, ic, cols, jc, k, size, batch, cores, work))


def _times(t: Costs, rows: int, ic: int, cols: int, jc: int, k: int, size: int, batch: int, cores: int,
           work: float) -> dict[str, float]:
    """Cycles: of the busiest core, with those for what its work-items read; what of them is not a core's share."""
    busy = work * busiest(cols / jc, rows / ic, batch, cores)
    items = ceil(ceil(rows / ic) * ceil(cols / jc) * batch / cores)
    moved = items * (min(jc, cols) + min(ic, rows)) * k * size * _fetch(t, cores)
    return dict(time=busy + moved, spent=busy + moved - work / cores)


def _collide(rows: int, row_i: int, row_k: int, size: int) -> bool:
    """Whether so many rows are lines of one set of the L1 that does not hold them."""
    return row_k == 1 and row_i * size % SETS == 0 and rows > HELD


def _reading(t: Costs, rows: int, row_i: int, row_k: int, cols: int, k: int, mr: int, nv: int, lanes: int, size: int,
             alone: bool, widened: bool = False) -> tuple[int, int, int, bool, bool, int]:
    """How rows are read: the pitch of a copy of theirs (0: none), the strides of what is read, whether each tile copies
    them, whether K is cut, and KC.
    """
    pitch = 0 if alone or widened else _pitch(t, rows, mr, cols, k, row_i, row_k, lanes, size)
    if pitch:
        row_i, row_k = pitch, 1
    strided = not alone and _strided(t, rows, row_i, mr, cols, row_k, k, lanes, size)
    return pitch, row_i, row_k, strided, *_blocks(t, strided, alone or row_k == 1, k, nv * lanes, size)


def _blocks(t: Costs, strided: bool, along: bool, k: int, width: int, size: int) -> tuple[bool, int]:
    """Whether K is cut, and KC. A tile of rows that are not `along` k reads a line for each k of a block: they are to
    stay for the next panel.
    """
    block = t["depth"] if along else min(t["depth"], t["strided"] if k > t["uncut"] else t["uncut"])
    cut = strided or not along and k > block or k * width * size > t["panel"]
    return cut, block if cut else max(k, 1)


def _alone(t: Costs, rows: int, row_k: int, k: int, mr: int, size: int) -> bool:
    """Whether work-items of a single panel are thought of, whose rows across k need not stay for a next one: then K is
    not cut for them. They are to lie in few pages.
    """
    near = k * min(PAGE, abs(row_k) * size) <= t["far"] * PAGE
    return k > t["uncut"] and near and not _lost(rows, mr, row_k, k, size)


def _strided(t: Costs, rows: int, row_i: int, mr: int, cols: int, row_k: int, k: int, lanes: int, size: int) -> bool:
    """Whether rows that do not lie along k are copied: many of them for many columns, or those whose lines are lost.
    Others are read where they lie.
    """
    if row_i == 1:
        many = rows >= t["many"] and cols >= t["turn"] * lanes and _astray(t, row_k * size)
    else:
        many = min(rows, cols) >= t["scattered"]
    return row_k != 1 and (k > t["uncut"] and many or _lost(rows, mr, row_k, k, size))


def _astray(t: Costs, stride: int) -> bool:
    """Whether what a tile reads of a block, a line for each k, is gone when the next panel comes: more lines than their
    sets of the L1 hold, or more pages than its TLB.
    """
    return stride != 0 and (_crowded(stride, t["uncut"]) or t["uncut"] * abs(stride) > t["pages"] * PAGE)


def _crowded(stride: int, lines: int) -> bool:
    """Whether so many lines, `stride` bytes apart, are more than their sets of the L1 hold."""
    return lines > WAYS * min(SETS // LINE, SETS // gcd(stride, SETS))


def _lost(rows: int, mr: int, row_k: int, k: int, size: int) -> bool:
    """Whether what the next tile would read of a line is gone before it comes."""
    return 2 * mr * size <= LINE and _one_set(rows, mr, row_k, k, size)


def _one_set(rows: int, mr: int, row_k: int, k: int, size: int) -> bool:
    """Whether the lines of a tile, one for each k, are of one set of the L1, and another tile follows."""
    return rows > mr and k > WAYS and row_k * size % SETS == 0


def _pitch(t: Costs, rows: int, mr: int, cols: int, k: int, row_i: int, row_k: int, lanes: int, size: int) -> int:
    """Elements of a line of the rows' copy, made once where many columns will read it; 0: no such copy."""
    few = not 0 < t["turn"] * lanes <= cols
    if row_i != 1 or few or not _strided(t, rows, row_i, mr, cols, row_k, k, lanes, size):
        return 0
    pitch = up(k, lanes)
    return pitch + lanes * (pitch * size % SETS == 0)


def _tiles(full_width: int) -> list[tuple[int, int]]:
    """Register tiles that fit: 32 registers where vectors are 64 bytes, else 16. Of 32 the compiler wants two for
    itself: 14x2 takes up to a third longer than 13x2 (Xeon).
    """
    registers = 30 if full_width else 16
    return [(mr, nv) for nv in (1, 2, 3, 4, 6, 8) for mr in range(1, 17) if mr * nv + nv + 1 <= registers]


def _cost(t: Costs, rows: int, row_i: int, row_k: int, cols: int, col_j: int, col_k: int, k: int, mr: int, nv: int,
          lanes: int, size: int, batch: int, cores: int, alone: bool) -> float:
    """Cycles on one core, those of products for the busiest core; then packing."""
    pitch, row_i, row_k, strided, cut, depth = _reading(t, rows, row_i, row_k, cols, k, mr, nv, lanes, size, alone)
    # Copied once at least; by a work-item with a single panel only where all share the copy.
    copied = pitch or strided and cols > nv * lanes
    pack = 0 if _direct(t, rows, mr, k, col_j, col_k, size) else _pack(t, col_j, col_k, lanes)
    pack *= ceil(rows / max(1, t["tile_rows"] // mr * mr)) if cut else 1  # columns, by each macro tile
    kept = t["kept"] * (k // depth if cut else 0)
    work, vectors = _work(t, rows, row_i, row_k, cols, k, mr, nv, lanes, size, strided, alone), ceil(cols / lanes)
    taking = max(1, min(cores, int(work * batch / t["item"])))  # to more of them it is not worth dealing
    share = taking * least_share(cols / (nv * lanes), rows / mr, batch, taking)
    return share * work + vectors * k * pack + rows * (vectors * (2 + kept) + (k * t["line"] if copied else 0))


def _work(t: Costs, rows: int, row_i: int, row_k: int, cols: int, k: int, mr: int, nv: int, lanes: int, size: int,
          strided: bool, alone: bool) -> float:
    """Cycles on one core of the products alone: 2 products and 2 loads a cycle, latency 4, half a line from L2, of
    columns where the L1 does not hold the panel, of rows where it does not hold a line until the next tile; loop 1,
    `stream` for L2, `broadcast` for rows, a quarter more where they do not lie along k, `missed` times all of it where
    they are more than a set of the L1 holds. Lines of a block that the L1 has lost when the next panel comes are waited
    for (Zen 4: NN 64x2048x2048 and 128x2048x2048 took 1.2 to 1.3 times as long as with columns packed).
    """
    def edge(whole: int, part: int) -> list[Pair]:  # how often the full tile, and the one that is left
        return [(part, whole // part), (whole % part, whole % part > 0)]

    width, apart = lanes * size, t["broadcast"] * (1 if row_k == 1 else 1.25)
    far = 2 * width / LINE if k * nv * width > SETS * WAYS else 0
    again = row_k != 1 and not strided and (_one_set(rows, mr, row_k, k, size)
                                            or alone and rows > mr and _crowded(row_k * size, k))
    lines = 2 * ((mr - 1) * size / LINE + 1) if again else 0
    waits = 0 if alone or k <= t["uncut"] or cols <= nv * lanes else lines
    products = sum((max(r * v / 2, (r + v) / 2 + lines, 4, v * far) + waits + 1 + v * t["stream"] + r * apart) * a * b
                   for r, a in edge(rows, mr) for v, b in edge(ceil(cols / lanes), nv))
    return (t["missed"] if _collide(min(rows, mr), row_i, row_k, size) else 1) * products * k


def _direct(t: Costs, rows: int, mr: int, k: int, col_j: int, col_k: int, size: int) -> bool:
    """Whether columns are better read where they lie:
    little reuse, rows of w in few pages that do not all fall into one set of the L1.
    """
    lines = SETS // gcd(col_k * size, SETS)             # of a panel's lines that do not fall into one set of the L1
    near = k * col_k * size <= t["direct_pages"] * PAGE
    few = near and rows <= mr * t["direct_tiles"] or k <= min(t["direct_depth"], WAYS * lines)
    return col_j == 1 and (rows <= mr or few and lines > 1)


def _pack(t: Costs, col_j: int, col_k: int, lanes: int) -> float:
    return t["copy"] if col_j == 1 else t["transpose"] if col_k == 1 else t["gather"] * lanes


def _shared(t: Costs, n: int, size: int, cores: int, swap: int, mr: int, width: int) -> Pair:
    """Cycles a row tile where columns are divided, and a panel where rows are: lines of the result that two work-items
    write, where its rows are no whole lines. Two cores seldom do so at one time.
    """
    each = 2 * t["shared"] * (min(cores, CROWD) - 2) if n * size % LINE and cores > 2 else 0
    return (0, width * each) if swap else (mr * each, 0)


def _edge(t: Costs, k: int, cores: int, swap: int, mr: int, width: int) -> Pair:
    """The same of rows of the result that two work-items have parts of, at one time: what one fetches ahead the other
    is about to write. A vector is written each k/2 cycles, and as much of the wait is hidden. Of more than two cores
    nothing was measured, and what sixteen choose without it was.
    """
    each = max(0, t["edge"] - k // 2) if cores <= PAIRED else 0
    return (0, width * each) if swap else (mr * each, 0)
