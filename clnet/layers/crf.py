"""Tags of a sequence that depend on each other."""

from __future__ import annotations

import numpy as np

from .. import ops as F
from ..config.fields import bound, field
from ..core.arrays import Array
from ..core.spec import INTS
from ..core.tensor import Tensor, TensorLike
from ..errors import DataError, DTypeError, ShapeError
from ..ops.reduce import argmax_, peak
from .base import Layer, New

TAGS = np.array([[0, 2, 1, 1], [2, 0, 0, 1]], np.int32)


class CRF(Layer):
    """log p(y | e) = s(y) − ln Σ over all taggings y' of exp s(y'),
    s(y) = start[y₁] + Σ_t e_t[y_t] + Σ_t transitions[y_{t−1}, y_t] + end[y_last]

    Inputs e (N, T, num_tags), the scores of the tags (emissions), tags=None (N, T) integers, lengths=None (N) integers,
    all of T steps each, or a mask (N, T), true for the steps from the first to the last of each sequence. With tags:
    log p (N), whose negative mean is the loss; its gradient by e are marginals. Without: the tagging of the highest
    score by Viterbi, (N, T) int64, −1 behind the end, which has no gradient; of equal ones that with the lower numbers
    from the end. Every sequence has its first step. start, end (num_tags), transitions (num_tags, num_tags), from row
    to column. Raises ShapeError, DTypeError; DataError for tags and lengths out of range and
    masks with holes, where the host knows them.
    Paper: Lafferty, McCallum, Pereira 2001, ICML; Huang, Xu, Yu 2015, arXiv:1508.01991.
    """

    spec_name = "ConditionalRandomFieldLayer"
    aliases = ("ConditionalRandomField",)
    family = "specialised"
    num_tags: int | None = bound(doc="number of tags")
    one_hot: bool = field(False, doc="whether taggings are given as (N, T, num_tags), zeros behind the end")
    signature = "N T num_tags -> N T"
    examples = [(dict(num_tags=3), [(2, 4, 3), TAGS, np.array([4, 2], np.int32)]), ({}, [(2, 4, 3)]),
                (dict(num_tags=3), [(2, 4, 3), TAGS])]

    def setup(self, new: New) -> None:
        k = self.num_tags or 0
        self.start, self.end = (new.weight(k, fan_in=100, role="bias") for _ in range(2))
        self.transitions = new.weight(k, k, fan_in=100)

    def forward(self, emissions: Tensor, tags: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        if not emissions.shape[1]:
            raise ShapeError(f"CRF: expected sequences of at least one step; got emissions {emissions.shape}.")
        many = self._lengths(emissions, lengths)
        if tags is None:
            return self._best(emissions, many)
        return self._score(emissions, self._tags(emissions, tags, many, lengths), many) - self._total(emissions, many)

    def decode(self, emissions: TensorLike, lengths: TensorLike | None = None) -> Tensor:
        """The tagging of the highest score, (N, T). What the layer gives without tags."""
        y: Tensor = self(emissions, lengths=lengths)
        return y

    def _lengths(self, emissions: Tensor, given: Tensor | None) -> Tensor:
        """(N) int32, from 1 to T."""
        n, t, _ = emissions.shape
        if given is None:
            return F.full((n,), t, "int32")
        if given.shape not in ((n,), (n, t)) or (given.ndim == 2) != (given.dtype == "bool"):
            raise ShapeError(f"CRF: expected lengths ({n},), integers, or a mask ({n}, {t}), bool; got "
                             f"{given.dtype}{given.shape}.")
        if given.ndim == 1 and given.dtype not in INTS:
            raise DTypeError(f"CRF: expected integers as lengths; got {given.dtype}.")
        known = _known_lengths(given)
        if known is not None and ((known < 1) | (known > t)).any():
            raise DataError(f"CRF: expected lengths from 1 to {t}, the steps of the emissions; got {known.min()} to "
                            f"{known.max()}.")
        return F.clip(F.cast(F.sum(F.cast(given, "int32"), 1) if given.ndim == 2 else given, "int32"), 1, t)

    def _tags(self, emissions: Tensor, tags: Tensor, lengths: Tensor, given: Tensor | None) -> Tensor:
        """int32 (N, T), 0 behind the end."""
        n, t, k = emissions.shape
        if tags.shape != (n, t):
            raise ShapeError(f"CRF: expected tags ({n}, {t}), one a step of the emissions {emissions.shape}; got "
                             f"{tags.shape}.")
        if tags.dtype not in INTS:
            raise DTypeError(f"CRF: expected integers as tags; got {tags.dtype}.")
        known = np.full(n, t) if given is None else _known_lengths(given)
        if tags.value is not None and known is not None:
            seen = tags.value[np.arange(t) < known[:, None]]
            if ((seen < 0) | (seen >= k)).any():
                raise DataError(f"CRF: expected tags from 0 to {k - 1}; got {seen.min()} to {seen.max()}.")
        return F.where(_there(lengths, t), F.cast(tags, "int32"), 0)

    def _score(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """s (N)"""
        n, t, k = emissions.shape
        there = _there(lengths, t)
        own = F.sum(F.where(F.reshape(there, (n, t, 1)), emissions * F.one_hot(tags, k, emissions.dtype), 0.0), (1, 2))
        ends = F.gather(self.start, tags[:, 0]) + F.gather(self.end, F.reshape(
            F.take_along_axis(tags, F.reshape(lengths - 1, (n, 1)), 1), (n,)))
        if t == 1:
            return own + ends
        pairs = F.reshape(tags[:, :-1] * k + tags[:, 1:], (-1,))
        steps = F.reshape(F.gather(F.reshape(self.transitions, (k * k,)), pairs), (n, t - 1))
        return own + ends + F.sum(F.where(there[:, 1:], steps, 0.0), 1)

    def _total(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """ln Σ exp s (N), forward in time."""
        k = emissions.shape[2]
        moves, xs = F.reshape(self.transitions, (1, k, k)), F.permute(emissions, 1, 0, 2)
        a = self.start + xs[0]
        for t in range(1, emissions.shape[1]):
            new = F.logsumexp(F.reshape(a, (-1, k, 1)) + moves, 1) + xs[t]
            a = F.where(F.reshape(lengths > t, (-1, 1)), new, a)
        return F.logsumexp(a + self.end, 1)

    def _best(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        n, count, k = emissions.shape
        moves, xs = F.reshape(self.transitions, (1, k, k)), F.permute(emissions, 1, 0, 2)
        a, own, before = self.start + xs[0], F.arange(n=k, dtype="int64"), []
        for t in range(1, count):
            there, reached = F.reshape(lengths > t, (-1, 1)), F.reshape(a, (n, k, 1)) + moves
            before.append(F.where(there, argmax_(reached, 1), own))
            a = F.where(there, peak(reached, (1,)).reshape(n, k) + xs[t], a)
        path = [argmax_(a + self.end, 1)]
        for back in reversed(before):
            path.append(F.reshape(F.take_along_axis(back, F.reshape(path[-1], (n, 1)), 1), (n,)))
        y = F.where(_there(lengths, count), F.stack(path[::-1], 1), -1)
        return F.one_hot(y, k, emissions.dtype) if self.one_hot else y


def _there(lengths: Tensor, count: int) -> Tensor:
    """(N, T) bool"""
    return F.arange(n=count, dtype="int32") < F.reshape(lengths, (-1, 1))


def _known_lengths(given: Tensor) -> Array | None:
    """(N), where the host has them. Raises DataError for a mask with holes."""
    if given.value is None:
        return None
    known = np.asarray(given.value)
    if known.ndim == 1:
        return known
    if (known[:, 1:] > known[:, :-1]).any():
        raise DataError("CRF: expected a mask that is true from the first step of a sequence to its last; got one with "
                        "holes; leave the steps out of the emissions.")
    lengths: Array = known.sum(1)
    return lengths
