"""Dynamic loss scaling: the loss times S, the gradient divided by it, so that what is small stays above
float16's least number.
"""

from __future__ import annotations

import numpy as np

from .. import ops as F
from ..core.state import Variable
from ..core.tensor import Tensor, as_tensor
from ..errors import ConfigError

LEAST, MOST = 2.0**-24, 2.0**40  # a scale at LEAST has failed: no gradient is so large that only it overflows


class LossScale:
    """S ← S · backoff after a gradient with NaN or infinity, whose step is left out;
    S ← S · growth after `interval` good steps in a row.

    All of it is decided on the device, where S and the counts live: no step waits for the host.
    Paper: Micikevicius et al. 2018, arXiv:1710.03740.
    """

    def __init__(self, initial: float = 2.0**16, growth: float = 2.0, backoff: float = 0.5,
                 interval: int = 2000) -> None:
        if not (initial > 0 and growth >= 1 and 0 < backoff < 1 and interval >= 1):
            raise ConfigError(
                f"LossScale({initial}, {growth}, {backoff}, {interval}): "
                "expected initial > 0, growth >= 1, 0 < backoff < 1, interval >= 1.")
        self.growth, self.backoff, self.interval = float(growth), float(backoff), int(interval)
        # One vector, so that one launch changes all: S, the good steps since it changed, the steps left out
        # (exact up to 2²⁴).
        self.state = Variable(np.array([initial, 0, 0], np.float32), "loss scale")

    def __repr__(self) -> str:
        return (f"LossScale({float(self.state.numpy()[0]):g}, growth={self.growth:g}, backoff={self.backoff:g}, "
                f"interval={self.interval})")

    @property
    def scale(self) -> Tensor:
        return self.state.tensor[0]

    @property
    def skipped(self) -> Tensor:
        """How many steps were left out since the start, a float32 scalar."""
        return self.state.tensor[2]

    def variables(self) -> dict[str, Variable]:
        """What a checkpoint keeps."""
        return {"state": self.state}

    def scaled(self, loss: Tensor) -> Tensor:
        """S · loss, in float32."""
        product: Tensor = as_tensor(loss) * self.scale
        return product

    def unscaled(self, gradients: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """(the gradients / S, or 0 where not all of them are finite; whether they are);
        records the new scale and counts.
        """
        scale, good, skipped = self.state.tensor
        total = F.zeros((), "float32")
        for g in gradients:
            total = total + F.sum(g - g).astype("float32")  # 0, or NaN where g holds NaN or infinity
        finite = F.equal(total, 0.0)
        grown = F.bit_and(finite, good + 1 >= self.interval)
        new = [F.where(finite, F.where(grown, F.minimum(scale * self.growth, MOST), scale),
                       F.maximum(scale * self.backoff, LEAST)),
               F.where(F.bit_and(finite, F.logical_not(grown)), good + 1, 0.0), skipped + F.where(finite, 0.0, 1.0)]
        place = F.arange(n=3, dtype="int32")
        self.state.assign(F.where(F.equal(place, 0), new[0], F.where(F.equal(place, 1), new[1], new[2])))
        return [F.where(finite, g * (1.0 / scale).astype(g.dtype), 0.0) for g in gradients], finite
