"""Optimizers whose state takes a byte where others take four."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..config.fields import positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from .base import Memory, Scalars
from .first_order import Adam


class Adam8bit(Adam):
    """Adam with m and v kept as one byte each and a scale per block: m = M·sign(c)·(c / 127)², v = V·(c / 255)⁴.

    M, V are the block's largest |m| and v; the powers keep small elements apart from 0, and v is never rounded to 0.
    The step uses m and v before they are rounded.
    Paper: Dettmers, Lewis, Shleifer, Zettlemoyer 2022, arXiv:2110.02861
    (there with a tree of values in place of the powers).
    """

    spec_name = "Adam8bit"
    state: ClassVar[tuple[str, ...]] = ("m_code", "m_scale", "v_code", "v_scale")
    wide_state = "its state takes a byte a number already"
    block: int = positive(2048, doc="elements that share a scale")

    def slots(self) -> tuple[str, ...]:
        return self.state

    def validate(self) -> None:
        if self.amsgrad:
            raise ConfigError("Adam8bit(amsgrad=True): expected Adam's own rule; use AMSGrad for the largest v.")

    def state_bytes(self, size: int) -> int:
        return -(-size // self.block) * (2 * self.block + 8)

    def start(self, slot: str, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        blocks = -(-w.size // self.block)
        if slot.endswith("scale"):
            return np.zeros((blocks, 1), np.float32)
        return np.zeros((blocks, self.block), np.int8 if slot == "m_code" else np.uint8)

    def adapted(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Any:
        blocks, _ = s.m_code.shape
        g = F.pad(g.astype("float32"), (0,), (blocks * self.block - g.size,)).reshape(blocks, self.block)
        c, d = s.m_code.astype("float32") / 127.0, s.v_code.astype("float32") / 255.0
        m = self.b1 * s.m_scale * c * F.abs(c) + (1 - self.b1) * g
        v = self.b2 * s.v_scale * (d * d) * (d * d) + (1 - self.b2) * g * g
        top, high = F.max(F.abs(m), (1,), True), F.max(v, (1,), True)
        s.m_code = F.round(127.0 * F.sign(m) * F.sqrt(_share(F.abs(m), top)))
        s.v_code = F.maximum(F.round(255.0 * F.sqrt(F.sqrt(_share(v, high)))), 1.0)
        s.m_scale, s.v_scale = top, high
        moved = (m * h.unbias_m) / (F.sqrt(v * h.unbias_v) + self.eps)
        return w - h.lr * moved.reshape(-1)[: w.size]


def _share(x: Tensor, largest: Tensor) -> Tensor:
    """x / largest, 0 where all is 0."""
    return F.where(largest > 0, x / F.where(largest > 0, largest, 1.0), 0.0)
