"""What the choice of kernels is recorded for: calls of every op that has a hand-written kernel.

A problem is a call as the engine would make it: an op, its operands (dtype, shape, strides, offset) and attributes;
"op + twin" asks for the kernels that compute both. Sizes are those that networks have, and those at which a rule
changes its mind. A new kernel needs a problem that takes it: where no example of the op itself does, in kernel_products
or kernel_rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from kernel_calls import Given, Problem
from kernel_products import attention, batched_products, convolutions, products
from kernel_rows import indexed, loops, ordered, pooling, resampled, rows

from clnet.core.op import OPS, Kernel


def problems() -> dict[str, Problem]:
    """All of them, by their text."""
    parts = (
        _samples,
        products,
        batched_products,
        convolutions,
        attention,
        rows,
        pooling,
        indexed,
        loops,
        resampled,
        ordered,
    )
    found = {str(p): p for p in itertools.chain.from_iterable(part() for part in parts)}
    twins = {
        str(q): q
        for p in found.values()
        if OPS[p.op].launch_both is not None
        for q in [Problem(p.op, p.operands, p.attrs, both=True)]
    }
    return found | twins


# --- the ops' own examples
_READ_NARROW = (
    "matmul",
    "conv",
    "normalize",
    "losses",
    "pool",
)  # families whose kernels may be asked for 16-bit operands


def _samples() -> Iterator[Problem]:
    for op in OPS.values():
        for case in op.samples() if isinstance(op, Kernel) and op.launch is not None and op.samples else ():
            for dtype in ("float32", "bfloat16" if op.family in _READ_NARROW else "float64"):
                yield Problem(op.name, tuple(_given(a, dtype) for a in case.args), case.attrs)


def _given(arg: object, dtype: str) -> Given:
    if isinstance(arg, np.ndarray):
        return Given(dtype if arg.dtype.kind == "f" else arg.dtype.name, arg.shape)
    assert isinstance(arg, tuple)
    return Given(dtype, arg)
