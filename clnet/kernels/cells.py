"""Sizes of recurrent cells, for their formulas (ops.recurrent) and their kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Of a cell: gates, parts of its state, and what a step leaves behind (the state, then what its gradient needs)."""

    gates: int
    states: int
    slots: int

    @property
    def kept(self) -> int:
        """Vectors of the gradient of a step."""
        return {1: 1, 3: 5, 4: 5}[self.gates]


SIZES = {"tanh": Sizes(1, 1, 1), "relu": Sizes(1, 1, 1), "lstm": Sizes(4, 2, 6), "gru": Sizes(3, 1, 5)}
