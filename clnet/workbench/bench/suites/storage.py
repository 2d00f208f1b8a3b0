"""What 16 bits as storage gain where memory binds: products of few rows with large weights, rows of a table, Adam's
state; beside PyTorch in the same dtype, and beside ourselves in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import ops as F
from ....core.tensor import tensor
from ....engine import on
from ....engine.record import Recorded
from ....ops.index import gather
from ..call import Input, normal
from ..compare import Step, Work
from ..peers import Run, Torch
from . import Suite
from .bandwidth import SMALL, adam

if TYPE_CHECKING:
    from ....engine.protocol import Engine

WEIGHTS = ((4096, 4096), (4096, 16384))  # inputs, outputs
ROWS = (1, 8, 16)
TABLE, LOOKUPS = (500_000, 128), 50_000  # rows and their width; how many are asked for
QUICK = (1, 4096, 4096)
DTYPES = ("bfloat16", "float16")
Form = Callable[..., Any]
LEGEND = ("float32: ourselves with the same weights, table or state in float32. Samples, sums and results are float32 "
          "with us; PyTorch's products have samples and results in 16 bits too, its Adam keeps float32.")


def works() -> list[Work]:
    """All of them."""
    products = [_product(m, *size, dtype) for dtype in DTYPES for size in WEIGHTS for m in ROWS
                if dtype == DTYPES[0] or size == WEIGHTS[0]]
    return [*products, _lookup(DTYPES[0]), adam(SMALL, "storage", DTYPES[0])]


SUITE = Suite(works, legend=LEGEND, bars=True)


def _product(m: int, k: int, n: int, dtype: str) -> Work:
    inputs: list[Input] = [(m, k), (n, k)]
    return Work("storage", f"{m} × {k} · {k}×{n} in {dtype}", partial(_ours, F.linear, inputs, dtype),
                partial(_theirs, lambda t, x, w: t.nn.functional.linear(x, w), inputs, dtype),
                (m, k, n) == QUICK and dtype == DTYPES[0], numpy=False, arithmetic=f"{dtype} weights, float32 sums",
                ourselves={"float32": partial(_ours, F.linear, inputs, "float32")}, flops=2.0 * m * k * n,
                nbytes=4 * m * (k + n) + 2 * k * n)


def _lookup(dtype: str) -> Work:
    index = np.random.default_rng(1).integers(0, TABLE[0], LOOKUPS)

    def ours(i: Any, table: Any) -> Any:
        return gather(table, i).astype("float32")

    inputs: list[Input] = [index, TABLE]
    return Work("storage", f"{LOOKUPS} rows of {TABLE[0]}×{TABLE[1]} in {dtype}", partial(_ours, ours, inputs, dtype),
                partial(_theirs, lambda t, i, table: t.nn.functional.embedding(i, table).float(), inputs, dtype),
                numpy=False, arithmetic=f"{dtype} table",
                ourselves={"float32": partial(_ours, ours, inputs, "float32")}, nbytes=6 * LOOKUPS * TABLE[1])


def _ours(f: Form, inputs: Sequence[Input], dtype: str, engine: Engine) -> Run:
    """f of the first input and the second in that dtype."""
    with on(engine):
        x, w = normal(*inputs)
        xs = [tensor(x), tensor(w, dtype)]
        engine.run(xs)
        return Step(Recorded(f, "bench"), lambda: tuple(xs))


def _theirs(f: Form, inputs: Sequence[Input], dtype: str, peer: Torch) -> Run:
    """PyTorch takes both operands of a product in the dtype."""
    kind = getattr(peer.torch, dtype)
    x, w = (peer.array(a) for a in normal(*inputs))
    x, w = x.to(kind) if x.dtype.is_floating_point else x, w.to(kind)

    def call() -> Any:
        with peer.torch.no_grad():
            return f(peer.torch, x, w)

    return call
