"""Attention on tensor cores (attention_tensor.cl): for which devices and operands, with which tiles.

The numbers are those of "attention_tensor" in defaults.json. Sizes in elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..matmul.problem import NARROW
from ..stage import Stage
from ..tuning import numbers
from ..variant import Answer, Offer, Refusal, variant
from .attention_pack import FREE_PACKED, Packing
from .problem import Attention, Pass

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FEATURES = (32, 64, 128)
TILE = ("WARPS", "MI", "BN", "STAGES", "HOLD")


# Before kernels without tensor cores, whatever they would take: who stores 16 bits or asks for them wants these.
@variant("attention", cl="attention_tensor.cl", rank=1,
         serves="tensor cores from compute capability 8.0 on: 16 bits, or where bf16 or fp16 is asked for; no mask")
def mma(p: Attention, device: Device) -> Answer:
    if refusal := unsuited(p, device):
        return refusal
    tiles = numbers(device, "attention_tensor")
    return Offer(lambda: stages(p, [tile(TILE, tiles[f"{one.name} {widest(p)}"]) for one in p.passes],
                                "attention_tensor.cl"))


def unsuited(p: Attention, device: Device) -> Refusal | None:
    """Why tensor cores do not serve, if they do not. 16-bit operands whose result shall be float32 are another's: the
    weights would be rounded here.
    """
    if not device.ampere:
        return Refusal("needs tensor cores of compute capability 8.0")
    if p.arithmetic not in NARROW.values():
        return Refusal("neither 16 bits nor a precision of 16 bits")
    if any(o.dtype != (p.narrow or "float32") for o in p.factors.values()):
        return Refusal("a result of another type than the operands")
    if p.mask is not None or p.offsets is not None:
        return Refusal("a mask" if p.mask is not None else "packed sequences")
    if any(o.shape[3] not in FEATURES for o in p.factors.values()):
        return Refusal("features other than 32, 64 or 128 a head")
    return Refusal("no elements, or a scale that is not positive") if p.empty or p.scale <= 0 else None


def widest(p: Attention) -> int:
    """The features that decide the tiles."""
    return max(p.d, p.e)


def tile(names: Sequence[str], numbers: Sequence[int]) -> dict[str, int]:
    return dict(zip(names, numbers, strict=True))


def stages(p: Attention, tiles: Sequence[Mapping[str, int]], file: str) -> list[Stage]:
    """A launch a pass, after one that packs what cannot be copied as it lies."""
    packing = Packing(p)
    return [*packing.stages, *(_stage(p, packing, one, shape, file)
                               for one, shape in zip(p.passes, tiles, strict=True))]


def _stage(p: Attention, packing: Packing, one: Pass, shape: Mapping[str, int], file: str) -> Stage:
    rows, items = 16 * shape["WARPS"] * shape.get("MI", 1), 32 * shape["WARPS"]
    defines: dict[str, Any] = {**packing.macros, **shape, **one.macros}
    return Stage(p.kernel, defines, (-(-one.length // rows) * items, one.heads), (items, 1), domain=p.domain, lanes=2,
                 scratch=packing.scratch, file=file, stepped=True, note=f"{p.arithmetic} on tensor cores",
                 free=FREE_PACKED)
