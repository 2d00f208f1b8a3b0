"""Attention on the tensor cores of Hopper (attention_wgmma.cl), whose warpgroups read tiles in local memory themselves.

The numbers are the entries "hopper ..." of "attention_tensor" in defaults.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tuning import numbers
from ..variant import Answer, Offer, Refusal, variant
from .attention_tensor import stages, tile, unsuited, widest
from .problem import Attention

if TYPE_CHECKING:
    from ...engine.device.devices import Device

TILE = ("WARPS", "BN", "STAGES")


# Before attention_tensor.cl: the same tiles, by the faster instructions that these devices alone have.
@variant("attention", cl="attention_wgmma.cl",
         serves="Hopper's tensor cores: as attention_tensor.cl, up to 64 features a head")
def wgmma(p: Attention, device: Device) -> Answer:
    if not device.hopper:
        return Refusal("needs tensor cores of compute capability 9.0")
    if refusal := unsuited(p, device):
        return refusal
    known = numbers(device, "attention_tensor")
    tiles = [known.get(f"hopper {one.name} {widest(p)}") for one in p.passes]
    if not all(tiles):
        return Refusal(f"no tiles for {widest(p)} features a head")
    return Offer(lambda: stages(p, [tile(TILE, t) for t in tiles if t], "attention_wgmma.cl"))
