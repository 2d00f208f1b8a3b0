"""Layers over sequences that lie one after another, (S, features): how they are told from batches, and attention."""

from __future__ import annotations

import math
from typing import NamedTuple

from .. import ops as F
from ..core.spec import INTS
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.attention import attention, attention_scores, causal_mask
from ..ops.normalization import softmax
from ..ops.packed import packed_attention
from ..ops.steps import Steps, packed, padded
from .utility import Dropout


def unpacked(shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Packed values (S, …), which stand beside steps or offsets, as the (N, T, …) that a signature speaks of."""
    is_packed = len(shapes) > 1 and len(shapes[0]) == 2 and any(len(s) < 3 for s in shapes[1:])
    return tuple((1, *s) if len(s) == 2 else s for s in shapes) if is_packed else shapes


class Places(NamedTuple):
    """Where packed queries and keys lie: offsets (N + 1) of both, and steps where they were given."""

    offsets: Tensor
    key_offsets: Tensor
    steps: Steps | None
    key_steps: Steps | None

    @classmethod
    def of(cls, who: str, x: Tensor, key: Tensor, beside: Tensor | None, keys: Tensor | None) -> Places:
        """Of offsets or steps; `keys`: those of keys that are others. Raises ShapeError for anything else."""
        offsets, steps = _either(who, beside, x)
        key_offsets, key_steps = (offsets, steps) if keys is None and key is x else _either(who, keys, key)
        return cls(offsets, key_offsets, steps, key_steps)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, count: int, groups: int, causal: bool, drop: Dropout) -> Tensor:
        """Attention within each sequence: q (S, count · d), k, v (S′, groups · d) -> (S, count · d). Dropout on the
        weights has to have them in memory: padded, by the steps.
        """
        if drop.p and drop.training:
            return self._dropped(q, k, v, count, groups, causal, drop)
        q, k, v = (F.reshape(x, (x.shape[0], n, x.shape[1] // n)) for x, n in ((q, count), (k, groups), (v, groups)))
        y = packed_attention(q, k, v, self.offsets, self.key_offsets, causal)
        return F.reshape(y, (y.shape[0], y.shape[1] * y.shape[2]))

    def _dropped(self, q: Tensor, k: Tensor, v: Tensor, count: int, groups: int, causal: bool, drop: Dropout) -> Tensor:
        if self.steps is None or self.key_steps is None:
            raise ShapeError(
                "MultiHeadAttention: expected steps (N, T) beside packed values, for dropout on attention weights, "
                "which needs the length of the longest; got offsets alone; give steps, as PackedSequences(x, y, "
                "beside='steps') does, or make it a layer with dropout=0.0.")
        mask: Tensor = F.reshape(self.key_steps.mask, (self.key_steps.steps.shape[0], 1, 1, -1))
        if causal:
            mask = F.bit_and(mask, self._causal())
        y = attend(heads(padded(q, self.steps), count), heads(padded(k, self.key_steps), groups),
                   heads(padded(v, self.key_steps), groups), mask, False, drop)
        return packed(joined(y), self.steps)

    def _causal(self) -> Tensor:
        """Query t of a sequence of T sees its keys up to t + K − T: bool (N, 1, T, S)."""
        assert self.steps is not None and self.key_steps is not None
        more = F.reshape(self.key_steps.lengths - self.steps.lengths, (-1, 1, 1, 1))
        t, s = (F.arange(n=x.steps.shape[1], dtype="int32") for x in (self.steps, self.key_steps))
        return F.reshape(t, (-1, 1)) + more >= s


def _either(who: str, given: Tensor | None, x: Tensor) -> tuple[Tensor, Steps | None]:
    if given is None or given.dtype not in INTS:
        what = "none" if given is None else f"{given.dtype}{given.shape}"
        raise ShapeError(f"{who}: expected integer offsets (N + 1), or steps (N, T), beside packed values {x.shape}; "
                         f"got {what}; a batch of sequences is (N, T, features).")
    if given.ndim == 1:
        return given, None
    steps = Steps.of(who, given, x.shape[0])
    return steps.offsets, steps


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, drop: Dropout) -> Tensor:
    """Attention, in training with dropout on its weights."""
    if not drop.p or not drop.training:
        return attention(q, k, v, mask, causal)
    scores = attention_scores(q, k)
    if causal:
        scores = F.where(causal_mask(*scores.shape[2:]), scores, -math.inf)
    (n, h, t, s), groups = scores.shape, k.shape[1]
    weights = drop(softmax(scores, mask=mask))
    return F.reshape(F.matmul(F.reshape(weights, (n, groups, h // groups * t, s)), v), (n, h, t, v.shape[3]))


def heads(x: Tensor, count: int) -> Tensor:
    """(N, T, count · d) -> (N, count, T, d)"""
    n, t, wide = x.shape
    return F.permute(F.reshape(x, (n, t, count, wide // count)), 0, 2, 1, 3)


def joined(x: Tensor) -> Tensor:
    """(N, H, T, d) -> (N, T, H · d)"""
    n, h, t, d = x.shape
    return F.reshape(F.permute(x, 0, 2, 1, 3), (n, t, h * d))
