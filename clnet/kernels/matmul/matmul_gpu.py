"""Products on GPUs (matmul_gpu.cl): tiles in local memory, with which sizes and grid:
the shortest of the estimated times.

Pure Python, no OpenCL. The numbers are those of "matmul gpu" in defaults.json; the rest are rules. Sizes in elements
unless said otherwise; times in cycles of a compute unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.size import divides, varies
from ..grid import in_parts, up
from ..operand import Operand
from ..stage import Stage
from ..tuning import numbers
from ..variant import GPUS_ONLY, Offer, Refusal, variant
from .problem import FREE, MIXED, Product, copies, multiples

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "matmul_gpu.cl"
# Of the kernels of products on all GPUs: they share the stage that sums parts, which is given what the product was.
FREE_GPU = FREE | {"BATCH", "K_PART", "PARTIAL", "RESULT", "RESULT_V", "X_FROM", "W_FROM", "X_COPIES", "W_COPIES",
                   "X_COPY_STRIDE", "W_COPY_STRIDE"}
Tile = tuple[Any, ...]


class Plan(NamedTuple):
    """How a product runs: its macros, work-groups of `items`,
    K in `split` parts of `part`; what it takes by estimate.
    """

    file: str
    defines: dict[str, Any]
    groups: int
    items: int
    split: int
    part: int
    time: float
    turn: tuple[bool, bool]  # whether x and w are copied transposed first


@variant("matmul", cl=FILE, serves="GPUs, all products without tensor cores", rank=2)
def tiles(p: Product, device: Device) -> Offer | Refusal:
    """Blocks of both operands in local memory, tiles of results in registers."""
    if not device.is_gpu:
        return GPUS_ONLY
    if p.mixed:
        return MIXED
    table = numbers(device, "matmul gpu", p.shape_class)
    batch, m, n, k, *_ = p.typical
    if min(m, n) <= table["thin"]:
        return Refusal(f"no more than {table['thin']} rows or columns")
    plan = _planned(table, limits(device, p), batch, m, n, k, *_forms(p), p.size)
    return Offer(lambda: planned_stages(p, device, _own(plan, p.m, p.n, p.k)), plan.time)


def _own(plan: Plan, m: int, n: int, k: int) -> Plan:
    """The plan of a class of sizes, with the numbers of a product."""
    if not varies(m, n, k):
        return plan
    bm, bn, bk = (plan.defines[name] for name in ("BM", "BN", "BK"))
    own = plan._replace(defines=plan.defines | {"DIRECT": int(divides(4, n))}, groups=ceil(m / bm) * ceil(n / bn))
    return cut(own, k, bk)


def cut(plan: Plan, k: int, depth: int) -> Plan:
    """The plan with its parts of a K that varies, in whole blocks of `depth`."""
    if not varies(k):
        return plan
    split, blocks = in_parts(-(-k // depth), plan.split)
    return plan._replace(split=split, part=blocks * depth)


def limits(device: Device, p: Product) -> tuple[int, int, int, bool]:
    """(compute units, local memory [bytes], items of a work-group, whether copies pass the registers by)."""
    return _limits(device, p.dtype == "float32")  # 16 bits are widened on their way, through registers


def _limits(device: Device, float32: bool) -> tuple[int, int, int, bool]:
    return device.compute_units, device.largest_local, device.max_work_group, device.ampere and float32


def _forms(p: Product) -> tuple[tuple[bool, bool], tuple[bool, bool]]:
    """Of x and w: whether it is contiguous along k alone, and whether loads of 16 bytes suit it."""
    along_k = (p.x_strides[1] == 1 and p.x_strides[0] != 1, p.w_strides[0] == 1 and p.w_strides[1] != 1)
    return along_k, (wide(p.x, p.size), wide(p.w, p.size))


def planned_stages(p: Product, device: Device, plan: Plan) -> list[Stage]:
    """Operands that the plan turns; the product; the sum of its parts, where K is cut."""
    results, scratch = p.batch * p.m * p.n, dict[str, int]()
    if plan.split > 1:
        scratch["partial"] = plan.split * results * p.size
    common = _common(device, {**p.defines, **p.multiples}, plan, p.batch, partial_sums(results), scratch)
    turns = [_turn(common, p, i, scratch) for i, turn in enumerate(plan.turn) if turn]
    main = _main(common, plan, p.batch, (p.batch, p.m, p.n), scratch, plan.split == 1, p.note)
    return [*turns, main, *([sum_stage(common, p, scratch, p.note)] if plan.split > 1 else [])]


def sum_stage(common: dict[str, Any], p: Product, scratch: dict[str, int], note: str = "") -> Stage:
    """The stage that adds the parts of a product whose K is cut."""
    return Stage("matmul_sum", {**common, "VARIANT": "SUM"}, (ceil(p.batch * p.m * p.n / 1024) * 256,), (256,),
                 domain=(p.batch, p.m, p.n), scratch=scratch, file=FILE, note=note, free=FREE_GPU)


def stored(device: Device, batch: int, m: int, n: int, k: int) -> Plan | None:
    """The plan of `batch` float32 products of x [k][m] and w [k][n] in temporary memory,
    or None where they are thin.
    """
    splits = {device.compute_units * wave // (batch * ceil(m / side) * ceil(n / side)) for side in (64, 128)
              for wave in (1, 2, 3, 4, 6, 8)}
    t = numbers(device, "matmul gpu")
    t["split"] = tuple(sorted({*t["split"], *splits} - {0}))
    if min(m, n) <= t["thin"]:
        return None
    return _planned(t, _limits(device, True), batch, m, n, k, (False, False), (True, True), 4)


def stored_stage(device: Device, plan: Plan, batch: int, m: int, n: int, k: int, sums: str,
                 scratch: dict[str, int]) -> Stage:
    """The stage of a plan of `stored`: turned_x [batch][k][lines] by turned_w [batch][k][lines], lines to a multiple of
    4, to the PARTIAL of `sums`.
    """
    lines = [up(rows, 4) for rows in (m, n)]
    defines = {"M": m, "N": n, "K": k, "X_M": 1, "X_K": lines[0], "W_K": lines[1], "W_N": 1, "X_TURNED": 1,
               "W_TURNED": 1, "X_BATCH(b)": f"((size_t)(b) * {k * lines[0]})",
               "W_BATCH(b)": f"((size_t)(b) * {k * lines[1]})"}
    defines, plan = defines | multiples(defines), _own(plan, m, n, k)
    return _main(_common(device, defines, plan, batch, sums, scratch), plan, batch, (), scratch, False)


def partial_sums(size: int, first: int = 0) -> str:
    """C text of element e of a part of the sums in `partial`:
    `size` elements a part, the first of which is number `first`.
    """
    part = f"((part) + {first})" if first else "(part)"
    return f"((__global T*)partial)[(size_t){part} * {size} + (e)]"


def space(device: Device) -> dict[str, Sequence[Any]]:
    """What `clnet tune` tries for a GPU: every tile alone, then every cut of K."""
    t = numbers(device, "matmul gpu")
    return {"tiles": tuple((tile,) for tile in t["tiles"]), "split": tuple((parts,) for parts in t["split"])}


def _planned(table: Mapping[str, Any], *sizes: Any) -> Plan:
    return _plan(tuple(sorted(table.items())), *sizes)


def _common(device: Device, defines: dict[str, Any], plan: Plan, batch: int, sums: str,
            scratch: dict[str, int]) -> dict[str, Any]:
    """The macros of all stages of a product; results go to `sums` where there is temporary memory for them."""
    m, n = defines["M"], defines["N"]
    element = f"PARTIAL(part, ((size_t)(b) * {m} + (m)) * {n} + (n))"
    return {**defines, **plan.defines, "BATCH": batch, "SPLIT": plan.split, "K_PART": plan.part,
            "USE_FMA": int(device.has_fma), "PARTIAL(part, e)": sums,
            "RESULT(b, m, n, v)": f"{element} = (v)" if "partial" in scratch else "EPILOGUE(b, m, n, v)",
            "RESULT_V(b, m, n, v)": f"VSTORE((v), &{element})" if "partial" in scratch else "EPILOGUE_V(b, m, n, v)"}


def _main(common: dict[str, Any], plan: Plan, batch: int, domain: tuple[int, ...], scratch: dict[str, int],
          final: bool, note: str = "") -> Stage:
    grid = plan.groups * plan.items, 1, batch * plan.split
    return Stage("matmul", common, grid, (plan.items, 1, 1), domain=domain, lanes=4, scratch=scratch, final=final,
                 file=plan.file, stepped=bool(common.get("DIRECT")), note=note, free=FREE_GPU)


def _turn(common: dict[str, Any], p: Product, i: int, scratch: dict[str, int]) -> Stage:
    """The stage that copies x (0) or w (1) transposed; from now on `common` reads it there."""
    rows, k, size, held = common["MN"[i]], p.k, p.size, copies(p.operands[i], p.batch)
    padded, name = up(rows, 4), ("turned_x", "turned_w")[i]
    scratch[name] = held * k * padded * size
    stage = Stage("matmul_turn", {**common, "VARIANT": "TURN", "TURN_W": i},
                  (ceil(rows / 32) * 256, ceil(k / 32), held), (256, 1, 1), scratch=scratch, final=False, file=FILE,
                  free=FREE_GPU)
    strides = {"X_M": 1, "X_K": padded, "X_TURNED": 1} if i == 0 else {"W_N": 1, "W_K": padded, "W_TURNED": 1}
    wide = {("X_WIDE", "W_WIDE")[i]: 4 if size == 4 else 1}
    offset = f"((size_t)(b) * {k * padded})" if held > 1 else "0"
    common.update({**strides, **wide, ("X_BATCH(b)", "W_BATCH(b)")[i]: offset})
    return stage


def wide(operand: Operand, size: int) -> bool:
    """Whether 16-byte loads along the contiguous dimension are aligned
    and stay inside (as far as shape and strides tell).
    """
    if size != 4:
        return False
    lines = [s for n, s in zip(operand.shape, operand.strides, strict=True) if n > 1 and s != 1]
    along = [n for n, s in zip(operand.shape, operand.strides, strict=True) if s == 1 and n > 1]
    return len(along) == 1 and divides(4, along[0]) and all(divides(4, s) for s in lines)


@lru_cache(4096)
def _plan(table: Tile, limits: tuple[int, int, int, bool], batch: int, m: int, n: int, k: int,
          along_k: tuple[bool, bool], wide: tuple[bool, bool], size: int) -> Plan:
    t, (units, local, most, bypass) = dict(table), limits
    tiles = [c for c in t["tiles"] if fits(c, local, most, bypass)] or t["tiles"][-1:]
    time, tile, split = min(((duration(t, c, s, units, batch, m, n, k, size), c, s)
                             for c in tiles for s in t["split"] if s == 1 or k // s >= t["part"]),
                            key=lambda found: found[0])
    bm, bn, bk, tm, tn, lanes_m, lanes_n, stages = tile[:8]
    part, bk = part_size(k, split, bk), bk if size == 4 else max(2, bk // 2)
    items = bm * bn // (tm * tn)
    turn = [bypass and along and time * t["scatter"] > t["turn"][0] + 2 * rows * batch * k * size / t["turn"][1]
            for along, rows in zip(along_k, (m, n), strict=True)]
    defines = dict(VARIANT="TILE", BM=bm, BN=bn, BK=bk, TM=tm, TN=tn, LANES_M=lanes_m, LANES_N=lanes_n,
                   STRIPE=t["stripe"], DIRECT=int(n % 4 == 0), ASYNC=int(bypass), STAGES=stages if bypass else 2,
                   X_WIDE=_width(wide[0], bypass, along_k[0], bm, bk, items),
                   W_WIDE=_width(wide[1], bypass, along_k[1], bn, bk, items))
    return Plan(FILE, defines, ceil(m / bm) * ceil(n / bn), items, ceil(k / part) if k else 1, part, time,
                (turn[0], turn[1]))


def fits(tile: Tile, local: int, most: int, copies: bool) -> bool:
    bm, bn, bk, tm, tn, _, _, stages = tile[:8]  # the depth counts floats: doubles halve it, bytes stay
    bytes_held = 4 * (stages if copies else 2) * bk * (bm + bn + 8)
    return bm * bn // (tm * tn) <= most and bytes_held <= local and (copies or tm * tn <= 64)


def _width(wide: bool, copies: bool, along_k: bool, lines: int, depth: int, items: int) -> int:
    """Elements of a load: a copy that bypasses the registers cannot transpose more than one."""
    line = (depth if along_k else lines) // 4
    even = line and lines * depth % (4 * items) == 0 and (items % line == 0 or line % items == 0)
    return 4 if wide and even and not (copies and along_k) else 1


def part_size(k: int, split: int, depth: int) -> int:
    """Elements of a part of K in `split` parts, of whole blocks."""
    return max(ceil(ceil(k / depth) / split), 1) * depth


def duration(t: dict[str, Any], tile: Tile, split: int, units: int, batch: int, m: int, n: int, k: int,
             size: int) -> float:
    """All units run the same number of tiles; the last are as long as the first.
    Parts of sums travel to memory and back.
    """
    bm, bn, bk, speed, alone = *tile[:3], *tile[8:]
    groups = ceil(m / bm) * ceil(n / bn) * batch * split
    busy = max(ceil(groups / units) * bm * bn / (t["products"] * speed), alone) * (part_size(k, split, bk) + t["lead"])
    return busy + (t["launch"] + batch * m * n * (2 * split + 1) * size / t["bytes"] if split > 1 else 0.0)
