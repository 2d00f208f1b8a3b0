"""Operands of a kernel: shape, dtype and where their elements lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.spec import Spec


@dataclass(frozen=True)
class Operand:
    """What the choice of a kernel may know of an input:
    spec, element strides (0 where broadcast), and what the offset in its buffer is known to be a multiple of.
    """

    spec: Spec
    strides: tuple[int, ...]
    multiple: int = 0
    shape = property(lambda self: self.spec.shape)
    dtype = property(lambda self: self.spec.dtype)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Element strides of a contiguous array."""
    out, s = [], 1
    for n in reversed(shape):
        out.append(s)
        s *= n
    return tuple(reversed(out))
