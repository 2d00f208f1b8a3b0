"""Images read between their pixels, and the way back, on CPUs (bilinear.cl)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.size import typical
from ...core.spec import FLOATS, NARROW
from ...engine.compile.c_types import BYTES, REGISTER
from ..grid import PER_CORE, dealt, fitting, vector_lanes
from ..operand import Operand
from ..stage import Stage
from ..variant import CPUS_ONLY, Answer, Offer, Refusal, variant

if TYPE_CHECKING:
    from ...engine.device.devices import Device

BLOCK = 64  # points that share a search for corners
WORTH = 4096  # [reads] that are worth a work-item
FREE = frozenset(("BATCH", "CHANNELS", "HEIGHT", "WIDTH", "COUNT", "CHUNK"))


class Sampling(NamedTuple):
    """`points` in each of (batch, channels, *size): SAMPLE them, or the gradient by the IMAGE or by the POINTS."""

    stage: str
    batch: int
    channels: int
    size: tuple[int, int]
    points: int
    dtype: str

    @property
    def macros(self) -> dict[str, Any]:
        return {"STAGE": self.stage, "BATCH": self.batch, "CHANNELS": self.channels, "HEIGHT": self.size[0],
                "WIDTH": self.size[1], "COUNT": self.points, "BLOCK": BLOCK}


def sampling(stage: str, operands: Sequence[Operand], *, size: tuple[int, int] = (0, 0)) -> Sampling | Refusal:
    dtypes, (batch, channels, *_), points = {o.dtype for o in operands}, operands[0].shape, operands[-1].shape[1]
    if len(dtypes) > 1 or not dtypes <= set(FLOATS) - set(NARROW):
        return Refusal("values and coordinates of one dtype of 32 or 64 bits")
    if stage != "IMAGE":
        size = operands[0].shape[2:]
    if not batch * channels * points * size[0] * size[1]:
        return Refusal("no elements")
    return Sampling(stage, batch, channels, size, points, operands[0].dtype)


@variant("bilinear", cl="bilinear.cl", serves="CPUs: blocks of points find corners and weights once for all channels")
def between_pixels(p: Sampling, device: Device) -> Answer:
    if device.is_gpu:
        return CPUS_ONLY
    if typical(p.size[0] * p.size[1]) >= 1 << 31:
        return Refusal("images of fewer than 2^31 pixels")
    return Offer(lambda: [_image_stage(p, device) if p.stage == "IMAGE" else _point_stage(p, device)])


def _point_stage(p: Sampling, device: Device) -> Stage:
    blocks, reads = p.batch * -(-p.points // BLOCK), 4 * p.batch * p.channels * p.points
    chunk, items = dealt(device, blocks, reads, WORTH)
    domain = (2, p.batch, p.points) if p.stage == "POINTS" else (p.batch, p.channels, p.points)
    return Stage("bilinear", {**p.macros, "CHUNK": chunk}, (items,), (1,), domain=domain,
                 lanes=fitting(vector_lanes(device, p.dtype), typical(p.points)), free=FREE)


def _image_stage(p: Sampling, device: Device) -> Stage:
    """A work-item takes channels of an image, in scratch that its core caches."""
    area = p.size[0] * p.size[1]
    most = min(typical(p.channels), -(-device.compute_units * PER_CORE // typical(p.batch)))
    worth = typical(p.channels * (4 * p.points + area)) // WORTH
    chunk = -(-p.channels // max(1, min(most, worth)))
    parts = -(-p.channels // chunk)
    return Stage("bilinear", {**p.macros, "CHUNK": chunk}, (p.batch, parts), (1, 1),
                 domain=(p.batch, p.channels * area),
                 lanes=fitting(vector_lanes(device, p.dtype), typical(p.channels * area)),
                 scratch={"sums": p.batch * parts * chunk * area * BYTES[REGISTER[p.dtype]]}, free=FREE)
