"""Coordinate descent: a few parameters at a time, each by the gradient where the others are by then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..config.fields import choice, field, fraction, positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from .base import Scalars
from .closure import MOST, ClosureOptimizer, Place, Search, settled
from .proximal import soft
from .rate import Schedule


class CoordinateDescent(ClosureOptimizer):
    """For each block B in turn, g at the current w:  w_B ← soft(w_B − ηg_B, ηλ) + μ · (last change of w_B);  exact:
    w_i ← soft(w_i − g_i / H_ii, λ / H_ii), where H_ii > 0. soft(z, k) = sign(z) max(|z| − k, 0).

    A step is a sweep over all blocks, each an evaluation of the loss: order "cyclic", "random" (a permutation a step,
    by the seed) or "greedy" (each time the block of the largest |g|, or of the largest change where λ > 0). Ends where
    no parameter moves by more than tol_change in a sweep. The loss in the history is without λ Σ|w|.
    Paper: Tseng 2001, Journal of Optimization Theory and Applications 109; Wright 2015, Mathematical Programming 151.
    """

    spec_name = "CoordinateDescent"
    state = ("last",)
    vectors: ClassVar[tuple[str, ...]] = ("x",)
    lr: float | Schedule = field(0.01, doc="η, or a schedule of it by step; exact has none")
    order: str = choice("cyclic", ("cyclic", "random", "greedy"), doc="cyclic, random or greedy")
    block_size: int = positive(1, doc="parameters of a block")
    exact: bool = field(False, doc="whether a step goes to the minimum of the parabola along its axis")
    momentum: float = fraction(0.0, doc="μ")
    l1: float = field(0.0, doc="λ, factor of Σ|w|", ge=0)
    seed: int = field(0, doc="of the random order", ge=0)
    force: bool = field(False, doc="whether a sweep may have more than 20000 blocks")

    def validate(self) -> None:
        if self.exact and (self.block_size > 1 or self.momentum):
            raise ConfigError(
                f"CoordinateDescent(exact=True, block_size={self.block_size}, momentum={self.momentum}): expected one "
                "parameter at a time and no momentum; leave them out, or exact.")
        if self.l1 and self.maximize:
            raise ConfigError("CoordinateDescent(maximize=True): expected l1=0, which is a weight on a minimum.")

    def slots(self) -> tuple[str, ...]:
        return self.state if self.momentum else ()

    def guard(self, size: int) -> None:
        blocks = -(-size // self.block_size)
        if blocks > MOST and not self.force:
            raise ConfigError(
                f"CoordinateDescent: expected at most {MOST} blocks, for each is an evaluation of the loss; got "
                f"{blocks} of {size} parameters; set block_size={-(-size // 1000)}, take LBFGS, or pass force=True.")

    # --- formulas
    def _begin(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        at.v.x = at.w
        return [F.sum(h.zero)]

    def _block(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Sequence[Tensor]:
        """Changes a block, the k-th, or where h.k is −1 the one that gains most."""
        w = at.w
        f = at.loss(batch, h)
        g = at.gradient(f)
        if self.exact and self.order != "greedy":
            unit = self._mask(g, h.k)
            slope = F.sum(at.product(f, unit) * unit)
            rate = F.where(slope > 0, 1.0 / F.where(slope > 0, slope, 1.0), 0.0)
        else:
            rate = h.lr
        change = soft(w - rate * g, rate * self.l1) - w
        mask = self._mask(g, self._best(change if self.l1 else g) if self.order == "greedy" else h.k)
        if self.momentum:
            change = change + self.momentum * at.s.last
            at.s.last = F.where(mask > 0, change, at.s.last)
        at.move(w + mask * change)
        return [f]

    def _mask(self, like: Tensor, block: Tensor) -> Tensor:
        """1 in a block, 0 elsewhere."""
        place = F.arange(n=like.shape[0], dtype="int32")
        first = block.astype("int32") * self.block_size
        here = F.bit_and(place >= first, place < first + self.block_size)
        return here.astype(like.dtype)

    def _best(self, gain: Tensor) -> Tensor:
        """The number of the block with the largest sum of squares."""
        blocks = -(-gain.shape[0] // self.block_size)
        filled = F.pad(gain * gain, (0,), (blocks * self.block_size - gain.shape[0],))
        best: Tensor = F.argmax(F.sum(filled.reshape(blocks, self.block_size), 1), 0)
        return best

    def _end(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Sequence[Tensor]:
        """The loss where the sweep ended, and how far it went."""
        f = at.loss(batch, h)
        return [f, F.max(F.abs(at.w - at.v.x))]

    # --- the step
    def advance(self, search: Search) -> str:
        search.numbers("begin", self._begin, zero=0.0)
        search.iterations += 1
        for k in self._order(-(-search.at.arena.size // self.block_size)):
            search.evaluated("block", self._block, k=float(k), lr=self.rate(self.t + 1))
        f, moved = search.evaluate("end", self._end)
        still = settled(f, moved) and moved <= self.tol_change
        return f"no parameter moves by more than {self.tol_change:g}" if still else ""

    def _order(self, blocks: int) -> np.ndarray[Any, Any]:
        """The numbers of the blocks as a step takes them."""
        if self.order != "random":
            return np.arange(blocks)
        return np.random.Generator(np.random.Philox(key=[self.seed, self.t])).permutation(blocks)
