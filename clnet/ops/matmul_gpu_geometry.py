"""Which variant of matmul_gpu.cl, with which tiles and grid, for a product on a GPU: the shortest of the estimated times.

Pure Python, no OpenCL. `TUNED` holds what a table of measured numbers (cl_kernels/tuning) or a tuner may override; the rest are rules.
Sizes in elements unless said otherwise; times in cycles of a compute unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil
from typing import Any

from ..engine.tune import tuned as lookup
from . import matmul_tensor_geometry
from .matmul_geometry import SIZE, shape_class

Tile = tuple[Any, ...]
Plan = dict[str, Any]

TUNED: dict[str, Any] = dict(
    # BM BN BK TM TN LANES_M LANES_N STAGES; speed: share of `products` with a full grid; alone: cycles of a step along k, however few groups
    tiles=((128, 128, 16, 8, 8, 4, 8, 2, 1.0, 190), (128, 64, 16, 8, 8, 4, 8, 2, 0.88, 120), (64, 64, 16, 8, 4, 4, 8, 2, 0.83, 70),
           (64, 64, 8, 8, 4, 4, 8, 2, 0.8, 70), (32, 64, 16, 4, 4, 4, 8, 2, 0.62, 48), (32, 32, 16, 4, 4, 4, 8, 2, 0.57, 43)),
    products=97,    # [products a cycle] of a compute unit, at speed 1
    lead=10,        # [steps along k] what filling the blocks and storing the tile cost
    launch=24000,   # [cycles] cutting K: one more kernel, the wait for the last part, and the time of the host
    bytes=16000,    # [bytes a cycle] parts of sums to the cache and back, all units together
    split=(*range(1, 17), 20, 24, 32),
    part=64,        # K is not cut into parts shorter than this
    scatter=0.04,   # share of the time that turning blocks of one operand costs, where it is contiguous along k
    turn=(8000, 1900),  # [cycles], [bytes a cycle] of copying it transposed instead
    stripe=16,
    thin=8,         # up to so many rows (or columns) are multiplied without tiles
    thin_items=512,
    thin_columns=2, # of an item, where the matrix is contiguous along k; work-groups are half as large there
    thin_groups=2,  # work-groups a compute unit that are wanted there
)


def stages(device: Any, defines: dict[str, Any], operands: Any, batch: int, precision: str = "fp32", note: str = "") -> list[Any]:
    """The stages for y[batch, m, n] on a GPU; `defines` holds M, N, K and the strides. On tensor cores where that is asked for, and pays."""
    from ..engine.codegen import Stage

    x, w = operands
    m, n, k, size = defines["M"], defines["N"], defines["K"], SIZE[str(x.dtype)]
    along_k = (defines["X_K"] == 1 and defines["X_M"] != 1, defines["W_K"] == 1 and defines["W_N"] != 1)
    shape = shape_class(batch, m, n, k, (defines["X_M"], defines["X_K"]), (defines["W_K"], defines["W_N"]))
    g = _planned(device, shape, {}, x.dtype == "float32", batch, m, n, k, along_k, (_wide(x, size), _wide(w, size)), size)
    if precision != "fp32" and (found := matmul_tensor_geometry.stages(device, defines, operands, batch, precision, g["time"])) is not None:
        return found
    split, domain = g["split"], (batch, m, n)
    scratch = {"partial": split * batch * m * n * size} if split > 1 else {}
    common = _common(defines, g, batch, partial_sums(batch * m * n), scratch)
    turns = [_turn(common, o, i, batch, scratch, size) for i, (o, turn) in enumerate(zip(operands, g["turn"], strict=True)) if turn]
    main = _main(common, g, batch, domain, scratch, split == 1, note)
    found = [*turns, main]
    if split > 1:
        found.append(Stage("matmul_sum", {**common, "VARIANT": "SUM"}, (ceil(batch * m * n / 1024) * 256,), (256,), domain, 1, scratch, file=TILES, note=note))
    return found


TILES, THIN = "matmul_gpu.cl", "matmul_thin.cl"


def stored(device: Any, batch: int, m: int, n: int, k: int) -> Plan | None:
    """The plan of `batch` float32 products of x [k][m] and w [k][n] in temporary memory, or None where they are thin."""
    splits = {device.compute_units * wave // (batch * ceil(m / side) * ceil(n / side)) for side in (64, 128) for wave in (1, 2, 3, 4, 6, 8)}
    t = {**TUNED, **lookup(device, "matmul")}
    more = {"split": tuple(sorted({*t["split"], *splits} - {0}))}
    return None if min(m, n) <= t["thin"] else _planned(device, "", more, True, batch, m, n, k, (False, False), (True, True), 4)


def stored_stage(g: Plan, batch: int, m: int, n: int, k: int, sums: str, scratch: dict[str, int]) -> Any:
    """The stage of a plan of `stored`: turned_x [batch][k][lines] by turned_w [batch][k][lines], lines to a multiple of 4, to the PARTIAL of `sums`."""
    lines = [ceil(rows / 4) * 4 for rows in (m, n)]
    defines = {"M": m, "N": n, "K": k, "X_M": 1, "X_K": lines[0], "W_K": lines[1], "W_N": 1, "X_TURNED": 1, "W_TURNED": 1,
               "X_BATCH(b)": f"((size_t)(b) * {k * lines[0]})", "W_BATCH(b)": f"((size_t)(b) * {k * lines[1]})"}
    return _main(_common(defines, g, batch, sums, scratch), g, batch, (), scratch, False)


def partial_sums(size: int, first: int = 0) -> str:
    """C text of element e of a part of the sums in `partial`: `size` elements a part, the first of which is number `first`."""
    return f"((__global T*)partial)[(size_t)((part) + {first}) * {size} + (e)]" if first else f"((__global T*)partial)[(size_t)(part) * {size} + (e)]"


def space(device: Any) -> dict[str, Sequence[Any]]:
    """What `clnet tune` tries for a GPU: every tile alone, then every cut of K."""
    t = {**TUNED, **lookup(device, "matmul")}
    return {"tiles": tuple((tile,) for tile in t["tiles"]), "split": tuple((parts,) for parts in t["split"])}


def _planned(device: Any, shape: str, more: dict[str, Any], float32: bool, *sizes: Any) -> Plan:
    """_plan with the numbers that were measured for the device and such shapes, and `more`."""
    table = tuple(sorted({**TUNED, **lookup(device, "matmul", shape), **more}.items()))
    copies = device.ampere and float32  # 16 bits are widened on their way, through registers
    return _plan(table, device.compute_units, device.largest_local, device.max_work_group, copies, *sizes)


def _common(defines: dict[str, Any], g: Plan, batch: int, sums: str, scratch: dict[str, int]) -> dict[str, Any]:
    """The macros of all stages of a product; results go to `sums` where there is temporary memory for them."""
    m, n = defines["M"], defines["N"]
    element = f"PARTIAL(part, ((size_t)(b) * {m} + (m)) * {n} + (n))"
    return {**defines, **g["defines"], "BATCH": batch, "SPLIT": g["split"], "K_PART": g["part"], "USE_FMA": 1, "PARTIAL(part, e)": sums,
            "RESULT(b, m, n, v)": f"{element} = (v)" if "partial" in scratch else "EPILOGUE(b, m, n, v)",
            "RESULT_V(b, m, n, v)": f"VSTORE((v), &{element})" if "partial" in scratch else "EPILOGUE_V(b, m, n, v)"}


def _main(common: dict[str, Any], g: Plan, batch: int, domain: tuple[int, ...], scratch: dict[str, int], final: bool, note: str = "") -> Any:
    from ..engine.codegen import Stage

    grid = g["groups"] * g["items"], 1, batch * g["split"]
    return Stage("matmul", common, grid, (g["items"], 1, 1), domain, 4, scratch, final=final, file=g["file"], stepped=bool(common.get("DIRECT")), note=note)


def _turn(common: dict[str, Any], operand: Any, i: int, batch: int, scratch: dict[str, int], size: int) -> Any:
    """The stage that copies x (0) or w (1) transposed; from now on `common` reads it there."""
    from ..engine.codegen import Stage

    rows, k, copies = common["MN"[i]], common["K"], matmul_tensor_geometry.copies(operand, batch)
    padded, name = ceil(rows / 4) * 4, ("turned_x", "turned_w")[i]
    scratch[name] = copies * k * padded * size
    stage = Stage("matmul_turn", {**common, "VARIANT": "TURN", "TURN_W": i}, (ceil(rows / 32) * 256, ceil(k / 32), copies), (256, 1, 1), scratch=scratch,
                  final=False, file=TILES)
    strides = {"X_M": 1, "X_K": padded, "X_TURNED": 1} if i == 0 else {"W_N": 1, "W_K": padded, "W_TURNED": 1}
    wide = {("X_WIDE", "W_WIDE")[i]: 4 if size == 4 else 1}
    common.update({**strides, **wide, ("X_BATCH(b)", "W_BATCH(b)")[i]: f"((size_t)(b) * {k * padded})" if copies > 1 else "0"})
    return stage


def _wide(operand: Any, size: int) -> bool:
    """Whether 16-byte loads along the contiguous dimension are aligned and stay inside (as far as shape and strides tell)."""
    if size != 4:
        return False
    lines = [s for n, s in zip(operand.shape, operand.strides, strict=True) if n > 1 and s != 1]
    along = [n for n, s in zip(operand.shape, operand.strides, strict=True) if s == 1 and n > 1]
    return len(along) == 1 and along[0] % 4 == 0 and all(s % 4 == 0 for s in lines)


@lru_cache(4096)
def _plan(table: Tile, units: int, local: int, most: int, copies: bool, batch: int, m: int, n: int, k: int, along_k: tuple[bool, bool],
          wide: tuple[bool, bool], size: int) -> Plan:
    t = dict(table)
    if min(m, n) <= t["thin"]:
        return _thin(t, units, most, batch, m, n, k, along_k, wide)
    tiles = [c for c in t["tiles"] if fits(c, local, most, copies)] or t["tiles"][-1:]
    time, tile, split = min(((duration(t, c, s, units, batch, m, n, k, size), c, s) for c in tiles for s in t["split"] if s == 1 or k // s >= t["part"]),
                            key=lambda found: found[0])
    bm, bn, bk, tm, tn, lanes_m, lanes_n, stages = tile[:8]
    part, bk = part_size(k, split, bk), bk if size == 4 else max(2, bk // 2)
    items = bm * bn // (tm * tn)
    turn = [copies and along and time * t["scatter"] > t["turn"][0] + 2 * rows * batch * k * size / t["turn"][1]
            for along, rows in zip(along_k, (m, n), strict=True)]
    defines = dict(VARIANT="TILE", BM=bm, BN=bn, BK=bk, TM=tm, TN=tn, LANES_M=lanes_m, LANES_N=lanes_n, STRIPE=t["stripe"],
                   DIRECT=int(n % 4 == 0), ASYNC=int(copies), STAGES=stages if copies else 2, X_WIDE=_width(wide[0], copies, along_k[0], bm, bk, items),
                   W_WIDE=_width(wide[1], copies, along_k[1], bn, bk, items))
    return dict(file=TILES, defines=defines, groups=ceil(m / bm) * ceil(n / bn), items=items, split=ceil(k / part) if k else 1, part=part, time=time, turn=turn)


def fits(tile: Tile, local: int, most: int, copies: bool) -> bool:
    bm, bn, bk, tm, tn, _, _, stages = tile[:8]             # the depth counts floats: doubles halve it, bytes stay
    return bm * bn // (tm * tn) <= most and 4 * (stages if copies else 2) * bk * (bm + bn + 8) <= local and (copies or tm * tn <= 64)


def _width(wide: bool, copies: bool, along_k: bool, lines: int, depth: int, items: int) -> int:
    """Elements of a load: a copy that bypasses the registers cannot transpose more than one."""
    line = (depth if along_k else lines) // 4
    even = line and lines * depth % (4 * items) == 0 and (items % line == 0 or line % items == 0)
    return 4 if wide and even and not (copies and along_k) else 1


def part_size(k: int, split: int, depth: int) -> int:
    return max(ceil(ceil(k / depth) / split), 1) * depth


def duration(t: dict[str, Any], tile: Tile, split: int, units: int, batch: int, m: int, n: int, k: int, size: int) -> float:
    """All units run the same number of tiles; the last are as long as the first. Parts of sums travel to memory and back."""
    bm, bn, bk, speed, alone = *tile[:3], *tile[8:]
    groups = ceil(m / bm) * ceil(n / bn) * batch * split
    busy = max(ceil(groups / units) * bm * bn / (t["products"] * speed), alone) * (part_size(k, split, bk) + t["lead"])
    return busy + (t["launch"] + batch * m * n * (2 * split + 1) * size / t["bytes"] if split > 1 else 0.0)


def _thin(t: dict[str, Any], units: int, most: int, batch: int, m: int, n: int, k: int, along_k: tuple[bool, bool], wide: tuple[bool, bool]) -> Plan:
    """The matrix is the operand with more columns; items stand along its contiguous dimension; K is cut until every unit has work."""
    swap = n < m
    cols, steps, loads = (m, along_k[0], wide[0]) if swap else (n, along_k[1], wide[1])
    items = min(t["thin_items"] // (1 + steps), most)
    lanes_k = min(32 if steps else items // 8, items // 2)
    lanes_j = items // lanes_k
    vj, vk = t["thin_columns"] if steps else 4 if loads else 1, 4 if loads and steps else 1
    groups = ceil(cols / (lanes_j * vj))
    split = max(1, min(ceil(units * t["thin_groups"] / (groups * batch)), k // (lanes_k * vk * 4), 64))
    part = part_size(k, split, lanes_k * vk)
    defines = dict(SWAP=int(swap), LANES_K=lanes_k, LANES_J=lanes_j, VJ=vj, VK=vk, ROWS_WIDE=int(wide[swap]))
    return dict(file=THIN, defines=defines, groups=groups, items=items, split=ceil(k / part) if k else 1, part=part, time=0.0, turn=(False, False))
