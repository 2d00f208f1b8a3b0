"""Packed values (S, …), sequences one after another, and padded ones (N, T, …): from one to the other, and back.

`steps` (N, T) integers is what joins them: the row of the packed values that is step t of sequence n, −1 where the
sequence has ended. Its shape says how long the longest is, which a loop over time has to know.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core import arguments
from ..core.formula import composite
from ..core.op import Case, Cotangents
from ..core.spec import INTS
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import DTypeError, ShapeError
from .index import _gather, gather
from .packed import offsets_of
from .pointwise import arange, cast, where
from .reduce import sum
from .segment import segment_spread
from .view import reshape, transpose

FAMILY = "index"


def packed_steps(offsets: TensorLike, longest: int | None = None) -> Tensor:
    """y[n, t] = offsets[n] + t where sequence n has a step t, else −1: int32 (N, T).

    offsets (N + 1) integers that rise from 0; longest   T; None: that of the offsets, which the host then has to know.
    Steps from T on are left out. Raises ShapeError, DTypeError.
    """
    known = as_tensor(offsets).value
    edges = offsets_of("packed_steps", offsets, None)
    if longest is None and known is not None:
        longest = max(int(np.diff(known).max()), 1)
    if longest is None:
        raise ShapeError("packed_steps: expected the length of the longest sequence, which a recorded step has to know "
                         "by a shape; got None; give it: packed_steps(offsets, longest=T).")
    t = arange(n=arguments.integer("packed_steps", "longest", longest, 1), dtype="int32")
    n = edges.shape[0] - 1
    first, end = reshape(edges[:-1], (n, 1)), reshape(edges[1:], (n, 1))
    return where(first + t < end, first + t, -1)


def pad_packed(x: TensorLike, steps: TensorLike) -> Tensor:
    """y[n, t] = x[steps[n, t]], 0 where steps is −1: (S, …), (N, T) -> (N, T, …). Raises ShapeError, DTypeError."""
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError("pad_packed: expected values (S, ...); got a scalar.")
    return padded(x, Steps.of("pad_packed", steps, x.shape[0]))


def pack_padded(x: TensorLike, steps: TensorLike, count: int) -> Tensor:
    """y[steps[n, t]] = x[n, t]: (N, T, …), (N, T) -> (count, …), the sequences one after another without what fills
    them up. The adjoint of `pad_packed`. Raises ShapeError, DTypeError.
    """
    x = as_tensor(x)
    found = Steps.of("pack_padded", steps, arguments.integer("pack_padded", "count", count, 0))
    if x.shape[:2] != found.steps.shape:
        raise ShapeError(f"pack_padded: expected x (N, T, ...) and steps (N, T); got {x.shape} and "
                         f"{found.steps.shape}.")
    return packed(x, found)


class Steps(NamedTuple):
    """Where the steps of sequences lie.

    steps     (N, T) int32: the row of step t of sequence n, −1 where there is none
    offsets   (N + 1) int32: where they begin and end
    places    (S) int32: the element of (N, T) that each row is
    lengths   (N) int32
    """

    steps: Tensor
    offsets: Tensor
    places: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, who: str, steps: TensorLike, count: int) -> Steps:
        """Those of `count` rows. Offsets that the host knows will do. Raises ShapeError, DTypeError."""
        given = as_tensor(steps)
        if given.dtype not in INTS:
            raise DTypeError(f"{who}: expected integer steps (N, T); got {given.dtype}{given.shape}.")
        if given.ndim == 1 and given.value is not None:
            offsets_of(who, given, count)
            given = packed_steps(given)
        if given.ndim != 2:
            raise ShapeError(
                f"{who}: expected steps (N, T) beside packed values, rows of them or −1; got shape {given.shape}; "
                "packed_steps(offsets, longest=T) makes them, or PackedSequences(x, y, beside='steps').")
        if given.value is not None:
            _expect_all(who, given.value, count)
        given = cast(given, "int32")
        n, t = given.shape
        lengths = cast(sum(cast(given >= 0, "int32"), 1), "int32")
        before = reshape(arange(n=n + 1, dtype="int32"), (n + 1, 1)) > arange(n=n, dtype="int32")
        offsets = cast(sum(where(before, lengths, 0), 1), "int32")
        shift = arange(n=n, dtype="int32") * t - offsets[:-1]
        return cls(given, offsets, arange(n=count, dtype="int32") + segment_spread(shift, offsets, count), lengths)

    @property
    def mask(self) -> Tensor:
        """(N, T) bool: which steps are there."""
        return self.steps >= 0

    def turned(self) -> Steps:
        """With each sequence walked from its last step to its first."""
        n, t = self.steps.shape
        first, end = reshape(self.offsets[:-1], (n, 1)), reshape(self.offsets[1:], (n, 1))
        back = where(self.steps >= 0, first + end - 1 - self.steps, -1)
        own = gather(self.lengths, self.places // t)
        return self._replace(steps=back, places=self.places + own - 1 - self.places % t * 2)


def _expect_all(who: str, steps: np.ndarray[Any, Any], count: int) -> None:
    """Raises ShapeError where steps that the host knows are not those of `count` rows."""
    there = steps >= 0
    late = (~there[:, :-1] & there[:, 1:]).any() or (steps < -1).any()
    if late or not np.array_equal(steps[there], np.arange(count)):
        got = "others behind a -1" if late else f"{there.sum()} of them" if there.sum() != count else "another order"
        raise ShapeError(
            f"{who}: expected steps (N, T) that are the {count} rows in their order, -1 behind the last of each "
            f"sequence; got {got}; packed_steps(offsets) makes them.")


def padded(x: Tensor, at: Steps, time_first: bool = False) -> Tensor:
    """(S, …) -> (N, T, …), or (T, N, …), zeros where there is no step."""
    n, t = at.steps.shape
    order, places = at.steps, at.places
    if time_first:
        order, places = transpose(order), places % t * n + places // t
    y = _rearranged(reshape(x, (x.shape[0], -1)), reshape(order, (n * t,)), places)
    return reshape(y, (*order.shape, *x.shape[1:]))


def packed(x: Tensor, at: Steps, time_first: bool = False) -> Tensor:
    """The opposite."""
    n, t = at.steps.shape
    order, places = at.steps, at.places
    if time_first:
        order, places = transpose(order), places % t * n + places // t
    y = _rearranged(reshape(x, (n * t, -1)), places, reshape(order, (n * t,)))
    return reshape(y, (places.shape[0], *x.shape[2:]))


def _samples() -> list[Case]:
    rows = np.array([0, 1, -1, 2, -1, -1, 3, 4], np.int32)
    return [Case(((5, 3), rows, np.array([0, 1, 3, 6, 7], np.int32))),
            Case(((8, 17), np.array([0, 1, 3, 6, 7], np.int32), rows))]


@composite("s c, n, s -> n c", samples=_samples, rule="lookup")
def _rearranged(x: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """y[n] = x[index[n]], 0 where index is −1; no row is read twice, and back[index[n]] = n"""
    rows, columns = x.shape
    inside = where(index >= 0, index, rows)
    return reshape(_gather(reshape(x, (1, rows, columns)), inside, fill="zero"), (index.shape[0], columns))


@_rearranged.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, index: Tensor, back: Tensor) -> Cotangents:
    return _rearranged(g, back, index), None, None
