"""Gradient descent that forgets along what it learns."""

from __future__ import annotations

from typing import ClassVar

from .. import ops as F
from ..config.fields import field
from ..core.spec import Spec
from ..core.tensor import Tensor
from .base import Memory, Optimizer, Scalars


class ModifiedGradientDescent(Optimizer):
    """W ← W (I − β x xᵀ) − ηg with g = d xᵀ, the gradient of one linear map y = Wx, |x| = 1, by one input x.

    x xᵀ is taken from the gradient: gᵀg / ‖g‖²_F, which is x xᵀ / |x|² for one input, and for a batch the mean of its
    inputs' directions, of trace 1. Weights (out, in, …) are such maps, with what follows the first axis as x; of biases
    and other vectors w ← w − ηg. With β = 1 all that W gave along x is forgotten in a step.
    Paper: Behrouz, Razaviyayn, Zhong, Mirrokni 2025, Nested Learning.
    """

    spec_name = "ModifiedGradientDescent"
    state: ClassVar[tuple[str, ...]] = ()
    forget: float = field(1.0, doc="β, share of W along x that is forgotten", ge=0, le=1)

    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Tensor:
        parts, section = [], h.section
        for (spec, _), start in zip(section.arena.parts, section.arena.offsets, strict=True):
            own = slice(start, start + spec.size)
            parts.append(self._map(w[own], g[own], spec, h).reshape(-1))
        return F.concat(parts, 0)

    def _map(self, w: Tensor, g: Tensor, spec: Spec, h: Scalars) -> Tensor:
        """One parameter after its step."""
        if len(spec.shape) < 2:
            return w - h.lr * g
        rows = spec.shape[0]
        w, g = w.reshape(rows, -1), g.reshape(rows, -1)
        scale = F.max(F.abs(g))  # squares of small gradients are no numbers in half precision
        unit = g / F.where(scale > 0, scale, 1.0)
        whole = F.sum(unit * unit)
        # W gᵀg by two thin products: (W gᵀ) g, never the square of the inputs' number
        forgotten = (w @ unit.T) @ unit / F.where(whole > 0, whole, 1.0)
        return w - self.forget * forgotten - h.lr * g
