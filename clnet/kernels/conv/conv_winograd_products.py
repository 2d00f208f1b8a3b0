"""3x3 convolutions and their weight gradients on large GPUs by conv_winograd_products.cl: 36 products, where 144 are
counted, of stored, transformed operands, by matmul_gpu.cl.

Sizes in elements unless said otherwise; times in cycles of a compute unit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from ...core.size import typical, varies
from ..grid import up
from ..matmul import matmul_gpu as products
from ..stage import Stage
from ..tuning import numbers
from ..variant import Answer, Offer, Refusal, variant
from .conv_gpu import NO_TILE, forward_cut, not_for_weights, weight_cut
from .conv_winograd import source
from .conv_winograd_gpu import not_float32_winograd
from .problem import FREE_GPU, Convolution, Macros

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FILE = "conv_winograd_products.cl"
SERVES = "GPUs, float32, 3x3 with stride 1, 16 channels or more; operands are stored, transformed"
ITEMS = 128         # of a work-group
CHANNELS = 8        # lanes that follow channels, where these are contiguous in what is stored: whole sectors of memory
THIN = Refusal("too few channels for products by tiles")
FREE_PRODUCTS = FREE_GPU | {"COUNT", "COLUMNS", "PLACE"}


class Chunk(NamedTuple):
    """Images from number `first` on, and the plan of their products."""

    first: int
    images: int
    plan: products.Plan


@variant("conv", cl=FILE, serves=SERVES, rank=3)  # by time
def winograd_products(p: Convolution, device: Device) -> Answer:
    if refused := not_float32_winograd(p, device):
        return refused
    if forward_cut(p, device) is None:
        return NO_TILE
    batch, tiles = 36 * p.groups, _tiles(p)
    chunks = _chunks(p, device, batch * tiles * (p.o + p.c) * 4,
                     lambda images: products.stored(device, batch, p.o, up(images * tiles, 4), p.c))
    return Offer(lambda: _stages(p, device, chunks), _time(p, device, chunks)) if chunks else THIN


@variant("conv_weight_gradient", cl=FILE, serves=SERVES, rank=2)  # by time
def winograd_products_weights(p: Convolution, device: Device) -> Answer:
    if refused := not_for_weights(p, device) or not_float32_winograd(p, device):
        return refused
    if weight_cut(p, device) is None:
        return NO_TILE
    batch, tiles = 36 * p.groups, _tiles(p)
    chunks = _chunks(p, device, batch * tiles * (up(p.o, 4) + up(p.c, 4)) * 4,
                     lambda images: products.stored(device, batch, p.o, p.c, images * tiles))
    return Offer(lambda: _weight_stages(p, device, chunks), _time(p, device, chunks)) if chunks else THIN


def _tiles(p: Convolution) -> int:
    """Of an image."""
    return ceil(p.result[1] / 4) * ceil(p.result[2] / 4)


def _chunks(p: Convolution, device: Device, each: int, plan: Callable[[int], products.Plan | None]) -> list[Chunk]:
    """Chunks of images, which need `each` bytes; none where a product is too thin for tiles. Images whose number varies
    are one chunk, whose plan is that of a number of their class.
    """
    n, most = p.n, min(numbers(device, "conv gpu")["transform_most"], device.global_memory // 16)
    if varies(n):
        whole = plan(typical(n)) if n * each <= most else None
        return [Chunk(0, n, whole)] if whole is not None else []
    count = ceil(n / ceil(n / max(1, ceil(n * each / most)))) if n * each > most else 1
    size = ceil(n / count)
    firsts = {first: min(size, n - first) for first in range(0, n, size)}
    plans = {images: plan(images) for images in dict.fromkeys(firsts.values())}
    found = [(first, images, plans[images]) for first, images in firsts.items()]
    chunks = [Chunk(first, images, g) for first, images, g in found if g is not None]
    return chunks if len(chunks) == len(found) else []


def _time(p: Convolution, device: Device, chunks: list[Chunk]) -> float:
    """Of the transforms, where each operand is read or written, and 36 products a tile;
    of their launches; and of the products.
    """
    p = p.typical
    t, (_, data_h, data_w), (_, h, w) = numbers(device, "conv gpu"), p.data, p.result
    values = p.n * p.groups * (p.c * data_h * data_w + p.o * h * w + 36 * _tiles(p) * (p.c + p.o))
    moved = values + 45 * p.groups * p.o * p.c
    transforms = float(moved * 4 / (t["transform_bytes"] * device.compute_units)
                       + t["transform_launch"] * (3 * len(chunks) + 1))
    return transforms + sum(chunk.plan.time for chunk in chunks)


# --- stages
def _stages(p: Convolution, device: Device, chunks: list[Chunk]) -> list[Stage]:
    """The weight transformed; for each chunk the data transformed, the products, and their results transformed back."""
    o, c, batch, row = p.o, p.c, 36 * p.groups, up(p.o, 4)
    widest, split = up(chunks[0].images * _tiles(p), 4), max(chunk.plan.split for chunk in chunks)
    scratch = {"turned_x": batch * c * row * 4, "turned_w": batch * c * widest * 4,
               "partial": split * batch * o * widest * 4}
    common = {**p.forward(device), **p.tables(1), **source(p)}
    place = f"(((size_t)(product) * {c} + (channel)) * {row} + (row))"
    stages = [_transform("weight", {**common, "COUNT": 1, "FIRST": 0, "PLACE(product, row, channel)": place},
                         (up(o, ITEMS), c, p.groups), scratch)]
    for chunk in chunks:
        stages += _chunk_stages(p, device, chunk, common, scratch)
    return stages


def _chunk_stages(p: Convolution, device: Device, chunk: Chunk, common: Macros,
                  scratch: dict[str, int]) -> list[Stage]:
    o, c, batch, tiles = p.o, p.c, 36 * p.groups, chunk.images * _tiles(p)
    columns, lanes = up(tiles, 4), next(v for v in (4, 2, 1) if p.result[2] % v == 0)
    sums = products.partial_sums(batch * o * columns)
    here = {**common, "FIRST": chunk.first, "COUNT": chunk.images, "COLUMNS": columns, "SPLIT": chunk.plan.split,
            "PLACE(product, channel, tile)": f"(((size_t)(product) * {c} + (channel)) * {columns} + (tile))",
            "PARTIAL(part, e)": sums}
    return [_transform("data", here, (up(tiles, ITEMS), c, p.groups), scratch),
            products.stored_stage(device, chunk.plan, batch, o, columns, c, sums, scratch),
            _transform("result", here, (up(tiles, ITEMS), o, p.groups), scratch, p.domain, lanes)]


def _weight_stages(p: Convolution, device: Device, chunks: list[Chunk]) -> list[Stage]:
    """For each chunk gradient and data transformed, and their products; then their sum transformed back."""
    o, c, batch, tiles = p.o, p.c, 36 * p.groups, _tiles(p)
    most, size, parts = chunks[0].images * tiles * batch, batch * o * c, [chunk.plan.split for chunk in chunks]
    scratch = {"turned_x": most * up(o, 4) * 4, "turned_w": most * up(c, 4) * 4, "partial": sum(parts) * size * 4}
    common = {**p.gradient(device), **p.tables(1), **source(p), "COLUMNS": c, "SPLIT": sum(parts),
              "PARTIAL(part, e)": products.partial_sums(size)}
    stages = []
    for i, chunk in enumerate(chunks):
        for name, channels in (("gradient", o), ("data", c)):
            stages.append(_by_channels(p, name, channels, chunk, common, scratch))
        stages.append(products.stored_stage(device, chunk.plan, batch, o, c, chunk.images * tiles,
                                            products.partial_sums(size, sum(parts[:i])), scratch))
    return [*stages, _transform("weights", {**common, "COUNT": p.n, "FIRST": 0}, (up(c, ITEMS), o, p.groups), scratch,
                                (p.weights,))]


def _by_channels(p: Convolution, name: str, channels: int, chunk: Chunk, common: Macros,
                 scratch: dict[str, int]) -> Stage:
    """The gradient or the data of a chunk, transformed, stored with channels next to each other."""
    tiles = chunk.images * _tiles(p)
    place = f"(((size_t)(product) * {tiles} + (tile)) * {up(channels, 4)} + (channel))"
    here = {**common, "FIRST": chunk.first, "COUNT": chunk.images, "CHANNELS": CHANNELS,
            "PLACE(product, channel, tile)": place}
    return _transform(name, here, (ceil(channels / CHANNELS) * ITEMS, ceil(tiles * CHANNELS / ITEMS), p.groups),
                      scratch)


def _transform(name: str, macros: Macros, grid: tuple[int, ...], scratch: dict[str, int],
               domain: tuple[int, ...] = (), lanes: int = 1) -> Stage:
    return Stage(f"transform_{name}", {**macros, "VARIANT": f"{name.upper()}_"}, grid, (ITEMS, 1, 1), domain=domain,
                 lanes=lanes, scratch=scratch, final=bool(domain), file=FILE, stepped=lanes > 1, free=FREE_PRODUCTS)
