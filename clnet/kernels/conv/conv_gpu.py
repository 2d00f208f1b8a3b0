"""Convolutions on GPUs by conv_gpu.cl: tiles of local memory as for products of matrices, and sums without tiles.

Tiles, their times and how sums are cut are those of matrix products, with other numbers. Sizes in elements; times in
cycles of a compute unit.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.size import typical, varies
from ..grid import in_parts, up
from ..matmul.matmul_gpu import duration, fits
from ..stage import Stage
from ..tuning import numbers
from ..variant import Answer, Offer, Refusal, variant
from .problem import FREE_GPU, Convolution, Macros, not_on_gpu, text

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_gpu.cl"
ITEMS = 256         # of a work-group that has no tile
NO_TILE = Refusal("local memory or work-groups are too small for any tile")


class Cut(NamedTuple):
    """A tile (BM, BN, BK), the items of its work-group, parts that the sums are cut into; how long all of them take."""

    tile: tuple[int, int, int]
    items: int
    split: int
    macros: Macros
    cycles: float


@variant("conv", cl=FILE, serves="GPUs, up to 8 result channels a group", rank=2)  # tiles would be empty
def direct(p: Convolution, device: Device) -> Answer:
    if refused := not_on_gpu(p, device):
        return refused
    most = numbers(device, "conv gpu")["direct"]
    if p.o > most:
        return Refusal(f"more than {most} result channels a group: tiles are faster")
    return Offer(lambda: _direct(p, device))


@variant("conv", cl=FILE, serves="GPUs, every shape", rank=3)  # against Winograd's transforms, by time
def tiles(p: Convolution, device: Device) -> Answer:
    if refused := not_on_gpu(p, device):
        return refused
    cut = forward_cut(p, device)
    return NO_TILE if cut is None else Offer(lambda: _tiles(p, device, cut), cut.cycles)


@variant("conv_weight_gradient", cl=FILE, serves="GPUs, every shape", rank=2)  # as above
def tiles_weights(p: Convolution, device: Device) -> Answer:
    if refused := not_for_weights(p, device):
        return refused
    cut = weight_cut(p, device)
    return NO_TILE if cut is None else Offer(lambda: _weights(p, device, cut), cut.cycles)


def not_for_weights(p: Convolution, device: Device) -> Refusal | None:
    """Why no kernel for weight gradients on any GPU serves: products of matrices or reductions serve better."""
    if refused := not_on_gpu(p, device):
        return refused
    t = numbers(device, "conv gpu")
    if p.groups > 1 and p.c * p.k <= t["taps"]:
        return Refusal(f"groups of {p.c * p.k} channels and taps: fewer than {t['taps'] + 1} are sums over windows")
    return Refusal(f"{p.o} result channels a group: tiles would be empty") if p.o * 4 <= t["direct"] else None


def forward_cut(p: Convolution, device: Device) -> Cut | None:
    """The fastest tiles of conv and conv_data_gradient, None where none fits the device."""
    p = p.typical
    return _cut(_table(device), "tiles", *_limits(device), p.groups * len(p.phases), p.o, _pixels(p),
                p.c * max(p.taps), p.itemsize)


def weight_cut(p: Convolution, device: Device) -> Cut | None:
    """The fastest tiles of conv_weight_gradient, None where none fits the device."""
    p = p.typical
    return _cut(_table(device), "weights", *_limits(device), p.groups, p.o, p.c * p.k, p.n * prod(p.result),
                p.itemsize)


def _pixels(p: Convolution) -> int:
    """Results of a phase, of one channel."""
    return p.n * prod(ceil(r / s) for r, s in zip(p.result, p.out, strict=True))


def _table(device: Device) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(numbers(device, "conv gpu").items()))


def _limits(device: Device) -> tuple[int, int, int, bool]:
    """Compute units, bytes of local memory, items of a work-group, whether the memory system copies to local memory."""
    return device.compute_units, device.largest_local, device.max_work_group, device.ampere


@lru_cache(4096)
def _cut(table: tuple[tuple[str, Any], ...], kind: str, units: int, local: int, most: int, copies: bool, batch: int,
         m: int, n: int, k: int, size: int) -> Cut | None:
    """Of `batch` products m x k x n of elements of `size` bytes, into the fastest of the tiles of this kind."""
    t, copies = dict(table), copies and size == 4
    found = []
    for tile in (c for c in t[kind] if fits(c, local, most, copies)):
        bm, bn, bk = tile[0], tile[1], tile[2] if size == 4 or kind == "weights" else max(2, tile[2] // 2)
        groups = ceil(m / bm) * ceil(n / bn) * batch
        waves = [max(1, units * wave // groups) for wave in range(1, t["waves"] + 1)]
        if kind == "weights":  # whose parts are added in any case: where no wave is full, as many as are worth it
            waves = [min(split, max(1, k // t["part"])) for split in waves]
        for split in {1, *waves}:
            if split == 1 or k // split >= t["part"]:
                found.append((duration(t, tile, split, units, batch, m, n, k, size), tile, bk, split))
    if not found:
        return None
    time, tile, bk, split = min(found)
    bm, bn, _, tm, tn, lanes_m, lanes_n, stages = tile[:8]
    part = max(ceil(ceil(k / bk) / split), 1)
    macros = dict(BM=bm, BN=bn, BK=bk, TM=tm, TN=tn, LANES_M=lanes_m, LANES_N=lanes_n, ASYNC=int(copies),
                  STAGES=stages if copies else 2, PART=part)
    return Cut((bm, bn, bk), bm * bn // (tm * tn), ceil(ceil(k / bk) / part), macros, time)


# --- stages
def _direct(p: Convolution, device: Device) -> list[Stage]:
    items, tm = min(ITEMS, device.max_work_group), min(p.o, 4)
    grid = up(_pixels(p), items), ceil(p.o / tm), p.groups * len(p.phases)
    macros = {**p.forward(device), **p.tables(1), "VARIANT": "DIRECT", "ITEMS": items, "TM": tm}
    return [Stage("conv_direct", macros, grid, (items, 1, 1), domain=p.domain, file=FILE, free=FREE_GPU)]


def _tiles(p: Convolution, device: Device, cut: Cut) -> list[Stage]:
    """Weights packed by tiles; the tiles; the sum of their parts, where there are several."""
    (bm, bn, bk), items, split, (_, channels, positions) = cut.tile, cut.items, cut.split, p.domain
    op, rows, total = up(p.o, bm), [0], prod(p.domain)
    for count in p.taps:
        rows.append(rows[-1] + up(count * p.c, bk))
    scratch = {"packed": p.groups * rows[-1] * op * p.itemsize,
               **({"partial": split * total * p.itemsize} if split > 1 else {})}
    element = f"((size_t)(n) * {channels} + (o)) * {positions} + (i)"
    common = {**p.forward(device), **p.tables(1), **cut.macros, **partial_sums(total, split), "OP": op,
              "START": text(rows), "ROWS_ALL": rows[-1],
              "X_WIDE": 4 if bk * bm % (4 * items) == 0 and items % (bm // 4) == 0 else 1,
              "RESULT(n, o, i, v)": f"PARTIAL({element}) = (v)" if split > 1 else "EPILOGUE(n, o, i, v)"}
    grid = op // bm * ceil(_pixels(p) / bn) * items, 1, p.groups * len(p.phases) * split
    found = [Stage("conv_pack", {**common, "VARIANT": "PACK"}, (op, p.c, p.groups), (32, 1, 1), scratch=scratch,
                   final=False, file=FILE, free=FREE_GPU),
             Stage("conv_tile", {**common, "VARIANT": "TILE"}, grid, (items, 1, 1), domain=p.domain, lanes=4,
                   scratch=scratch, final=split == 1, file=FILE, free=FREE_GPU)]
    place = f"(e) / {channels * positions}, (e) / {positions} % {channels}, (e) % {positions}"
    return [*found, _sum(common, f"EPILOGUE({place}, v)", p.domain, scratch)] if split > 1 else found


def _weights(p: Convolution, device: Device, cut: Cut) -> list[Stage]:
    (bm, bn, bk), items = cut.tile, cut.items
    scratch = {"partial": cut.split * p.weights * p.itemsize}
    common = {**p.gradient(device), **p.tables(1), **cut.macros, **partial_sums(p.weights, cut.split)}
    if varies(p.n):
        common["PART"] = in_parts(ceil(p.n * prod(p.result) / bk), cut.split)[1]
    grid = ceil(p.o / bm) * ceil(p.c * p.k / bn) * items, 1, p.groups * cut.split
    return [Stage("conv_weights", {**common, "VARIANT": "WEIGHTS"}, grid, (items, 1, 1), lanes=4, scratch=scratch,
                  final=False, file=FILE, free=FREE_GPU),
            weight_sum(p, common, scratch)]


def partial_sums(total: int, split: int) -> Macros:
    """Macros of results in `split` parts of `total` elements in temporary memory."""
    return {"SIZE": total, "SPLIT": split, "PARTIAL(e)": f"((__global T*)partial)[(size_t)part * {total} + (e)]"}


def weight_sum(p: Convolution, common: Macros, scratch: dict[str, int]) -> Stage:
    """The stage that adds the parts of a weight gradient:
    element (o, tap, channel) of a part is (o, channel, tap) of the result.
    """
    c, k = p.c, p.k
    return _sum(common, f"EPILOGUE(((e) / {c * k} * {c} + (e) % {c}) * {k} + (e) / {c} % {k}, v)", (p.weights,),
                scratch)


def _sum(common: Macros, epilogue: str, domain: tuple[int, ...], scratch: dict[str, int]) -> Stage:
    """The stage that adds the parts: several items an element where there are many parts of few."""
    items, total = 256, prod(domain)
    slices = 8 if common["SPLIT"] >= 16 and typical(total) <= 1 << 17 else 1
    macros = {**common, "VARIANT": "SUM", "ITEMS": items, "SLICES": slices, "SUM_EPILOGUE(e, v)": epilogue}
    return Stage("conv_sum", macros, (up(total * slices, items),), (items,), domain=domain, scratch=scratch,
                 file=FILE, free=FREE_GPU)
