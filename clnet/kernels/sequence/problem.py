"""The loop over time of a recurrent cell, as what is to be computed, for recurrent.cl and recurrent_gpu.cl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..cells import SIZES
from ..operand import Operand
from ..variant import Refusal

# [bytes] weights up to here stay in the cache of a core over all steps, and come fast enough out of that of a GPU
WEIGHTS = 1 << 20


class Loop(NamedTuple):
    """All steps of a cell, or their gradient.

    given   slots of which the gradient has a cotangent; None forward
    """

    cell: str
    reverse: bool
    times: int
    batch: int
    h: int
    dtype: str
    given: int | None = None

    @property
    def forward(self) -> bool:
        return self.given is None

    @property
    def kernel(self) -> str:
        return "recurrence" if self.forward else "recurrence_gradient"

    @property
    def sums(self) -> int:
        """Sums over the state that a step needs: those of all gates."""
        return SIZES[self.cell].gates * self.h

    @property
    def size(self) -> int:
        """[bytes] of an element."""
        return 8 if self.dtype == "float64" else 4

    @property
    def domain(self) -> tuple[int, ...]:
        sizes = SIZES[self.cell]
        return ((sizes.slots, self.times, self.batch, self.h) if self.forward
                else (self.times, self.batch, sizes.kept * self.h))

    @property
    def macros(self) -> dict[str, Any]:
        return {"CELL": self.cell.upper(), "B": self.batch, "H": self.h, "TIMES": self.times,
                "REVERSED": int(self.reverse), **(dict(PART=1) if self.forward else dict(PART=2, GIVEN=self.given))}


def loop(operands: Sequence[Operand], *, cell: str, reverse: bool) -> Loop | Refusal:
    """Forward: of the projected input, the state, the weights and a bias."""
    xp, state, w, _ = operands
    return _suited(Loop(cell, reverse, xp.shape[0], state.shape[1], w.shape[1], w.dtype), operands)


def gradient(operands: Sequence[Operand], *, cell: str, reverse: bool) -> Loop | Refusal:
    """Backward: of the cotangents, the slots, the state and the weights."""
    g, y, state, w = operands
    return _suited(Loop(cell, reverse, y.shape[1], state.shape[1], w.shape[1], w.dtype, given=g.shape[0]), operands)


def _suited(p: Loop, operands: Sequence[Operand]) -> Loop | Refusal:
    if len({o.dtype for o in operands}) > 1:
        return Refusal("operands of several dtypes")
    return p if p.sums * p.h * p.size <= WEIGHTS else Refusal(f"weights of more than {WEIGHTS >> 20} MB")
