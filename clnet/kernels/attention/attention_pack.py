"""Operands of attention as kernels for tensor cores want them (attention_pack.cl): rows of 16-bit elements, contiguous.

It serves attention_tensor.py and attention_wgmma.py, which copy what lies so already from where it lies.
"""

from __future__ import annotations

import math
from typing import Any

from ...core.size import divides
from ..grid import up
from ..matmul.problem import NARROW
from ..operand import Operand, row_major
from ..stage import Stage
from .problem import AXES, FREE, PREFIX, Attention

PIECE = 8  # elements of 16 bytes
GROUP = 256
FREE_PACKED = FREE | {"BATCH"}  # macros that may be numbers known at the launch alone


class Packing:
    """Which operands are packed, and what that changes for the kernels that read them."""

    def __init__(self, p: Attention) -> None:
        self.p = p
        narrow = p.q.dtype in NARROW
        self.packed = {name: o for name, o in p.factors.items() if not (narrow and _whole(o))}
        self.scratch = {f"packed_{name}": 2 * math.prod(o.shape) for name, o in self.packed.items()}
        self._given: dict[str, Any] = {
            **p.macros, **p.multiples, "PRECISION": p.arithmetic.upper(), "NARROW": int(narrow), "BATCH": p.n,
            **{f"PACK_{name.upper()}": int(name in self.packed) for name in ("q", "k", "v", "g")}}
        if not p.backward:
            self._given["SPLIT"] = int(bool(p.narrow))

    @property
    def macros(self) -> dict[str, Any]:
        """Of the kernels that follow: those of attention, with the strides of packed operands."""
        return {**self._given, **{f"{PREFIX[name]}_{axis}": stride for name, o in self.packed.items()
                                  for axis, stride in zip(AXES[name], row_major(o.shape), strict=True)}}

    @property
    def stages(self) -> list[Stage]:
        """The launch that packs, where there is anything to pack."""
        if not self.packed:
            return []
        pieces = sum(math.prod(o.shape) // PIECE for o in self.packed.values())
        return [Stage("attention_pack", self._given, (up(pieces, GROUP), 1, 1), (GROUP, 1, 1), scratch=self.scratch,
                      final=False, file="attention_pack.cl", free=FREE_PACKED)]


def _whole(operand: Operand) -> bool:
    """Whether its rows of features lie in whole pieces."""
    steps = [s for n, s in zip(operand.shape[:3], operand.strides[:3], strict=True) if n > 1]
    return operand.strides[3] == 1 and all(divides(PIECE, s) for s in (*steps, operand.multiple))
