"""Sums over consecutive pieces of a vector or of rows, and their adjoint (segment.cl)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.size import typical
from ...core.spec import np_dtype
from ..grid import PER_CORE, fitting, item_count, up, vector_lanes
from ..operand import Operand
from ..stage import Stage
from ..variant import Answer, Offer, Refusal, variant

if TYPE_CHECKING:
    from ...engine.device.devices import Device

CHUNK = {"cpu": 1 << 14, "gpu": 1 << 12}  # [elements] that one work-item (work-group) sums
GROUP = 256
SPREAD_WORTH = 4096  # [elements] that are worth a work-item of a CPU
SUM_WORTH = 8192  # [elements] the same of rows that are summed
FREE = frozenset(("N", "S", "SHARES", "PER", "ROWS", "WIDTH"))


class Pieces(NamedTuple):
    """A vector of n elements, or n rows of `width`, in so many pieces."""

    n: int
    pieces: int
    dtype: str
    width: int = 1


def dot_problem(operands: Sequence[Operand]) -> Pieces | Refusal:
    x, y, offsets = operands
    if x.dtype != y.dtype or offsets.dtype != "int32":
        return Refusal("vectors of two dtypes, or offsets that are not int32")
    return Pieces(x.shape[0], offsets.shape[0] - 1, x.dtype) if x.shape[0] else Refusal("no elements")


def sum_problem(operands: Sequence[Operand]) -> Pieces | Refusal:
    x, offsets = operands
    if offsets.dtype != "int32":
        return Refusal("offsets that are not int32")
    (n, width), pieces = x.shape, offsets.shape[0] - 1
    return Pieces(n, pieces, x.dtype, width) if n and width else Refusal("no elements")


def spread_problem(operands: Sequence[Operand], *, size: int) -> Pieces | Refusal:
    v, offsets = operands
    if offsets.dtype != "int32":
        return Refusal("offsets that are not int32")
    return Pieces(size, offsets.shape[0] - 1, v.dtype) if size else Refusal("no elements")


@variant("segment_dot", cl="segment.cl", serves="all devices: sums of shares of the pieces, then of each piece")
def dotted(p: Pieces, device: Device) -> Answer:
    return Offer(lambda: _dot_stages(p, device))


def _dot_stages(p: Pieces, device: Device) -> list[Stage]:
    gpu = device.is_gpu
    chunk, group = CHUNK["gpu" if gpu else "cpu"], GROUP if gpu else 1
    shares = p.n // chunk + p.pieces
    per = -(-shares // max(1, min(typical(shares), PER_CORE * device.compute_units, typical(p.n) // 2048 + 1)))
    few = -(-p.pieces // max(1, min(typical(p.pieces) // 64, device.compute_units)))
    defines = dict(N=p.n, S=p.pieces, CHUNK=chunk, SHARES=shares, GROUP=group)
    scratch = {"partial": shares * np_dtype(p.dtype).itemsize}
    return [Stage("partial_sums", dict(defines, STAGE="PARTIAL", PER=per),
                  (shares * GROUP if gpu else -(-shares // per),), (group,), lanes=_lanes(p, device), scratch=scratch,
                  final=False, free=FREE),
            Stage("finish_sums", dict(defines, STAGE="FINISH", PER=few),
                  (p.pieces * GROUP if gpu else -(-p.pieces // few),), (group,), domain=(p.pieces,), scratch=scratch,
                  free=FREE)]


@variant("segment_spread", cl="segment.cl", serves="all devices")
def spread(p: Pieces, device: Device) -> Answer:
    return Offer(lambda: [_spread_stage(p, device)])


def _spread_stage(p: Pieces, device: Device) -> Stage:
    defines = dict(N=p.n, S=p.pieces, STAGE="SPREAD")
    if device.is_gpu:
        return Stage("spread", dict(defines, GROUP=GROUP), (up(p.n, GROUP),), (GROUP,), domain=(p.n,),
                     free=FREE)
    lanes = _lanes(p, device)
    chunk = -(-p.n // item_count(device, p.n, p.n, SPREAD_WORTH) // lanes) * lanes
    return Stage("spread", dict(defines, CHUNK=chunk), (-(-p.n // chunk),), (1,), domain=(p.n,), lanes=lanes,
                 free=FREE | {"CHUNK"})


@variant("segment_sum", cl="segment.cl", serves="all devices: pieces are dealt out by their rows")
def summed(p: Pieces, device: Device) -> Answer:
    return Offer(lambda: [_sum_stage(p, device)])


def _sum_stage(p: Pieces, device: Device) -> Stage:
    defines: dict[str, Any] = dict(N=p.n, S=p.pieces, ROWS=p.pieces, WIDTH=p.width, STAGE="SUM")
    domain = (p.pieces, p.width)
    if device.is_gpu:
        return Stage("sum_rows", dict(defines, GROUP=GROUP), (up(p.pieces * p.width, GROUP),), (GROUP,), domain=domain,
                     free=FREE)
    lanes = fitting(_lanes(p, device), typical(p.width))
    items = item_count(device, p.pieces, (p.n + p.pieces) * p.width, SUM_WORTH)
    columns = max(1, min(typical(p.width) // (16 * lanes), device.compute_units * PER_CORE // items))
    chunk = up(-(-p.width // columns), lanes)
    return Stage("sum_rows", dict(defines, ITEMS=items, CHUNK=chunk), (items, -(-p.width // chunk)), (1, 1),
                 domain=domain, lanes=lanes, free=FREE | {"CHUNK"})


def _lanes(p: Pieces, device: Device) -> int:
    return 1 if device.is_gpu else vector_lanes(device, p.dtype)
