"""How long the sums of a graph are: rounding grows with their root."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.op import Composite, Concatenation, Kernel, Pointwise, Reduction, View
from ...core.spec import Spec, is_float
from ...core.tensor import Tensor, walk


def terms(outputs: Sequence[Tensor]) -> int:
    """The number of terms of the longest sum in the graph of the outputs."""
    return max((_terms(t) for t in walk(outputs) if t.op is not None), default=1)


def _terms(t: Tensor) -> int:
    assert t.op is not None
    op, sizes = t.op, [i.size for i in t.inputs]
    if isinstance(op, (Pointwise, View, Concatenation)) or not sizes or not t.size:
        return 1
    if isinstance(op, Reduction):
        return max(1, sizes[0] // t.size)
    if isinstance(op, Composite) and op.define is not None:
        inner = op.define(*(Tensor(None, (), {}, Spec(i.shape, i.dtype)) for i in t.inputs), **t.attrs)
        return terms(inner if isinstance(inner, (tuple, list)) else [inner])
    if isinstance(op, Kernel) and op.signature:
        left, right = op.signature.split("->")
        gone: dict[str, int] = {}
        for side, i in zip(left.split(","), t.inputs, strict=False):
            names = side.split()
            gone.update(zip(reversed(names), reversed(i.shape), strict=False))
        folded = [n for axis, n in gone.items() if axis not in right.split() and axis != "..."]
        return max(1, int(np.prod(folded, dtype=np.int64)))
    return max(1, max(sizes) // t.size, *(n for i in t.inputs if is_float(i.dtype) for n in i.shape[-1:]))
