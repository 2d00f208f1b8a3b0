"""Sorting, the largest elements, and running sums of one to sixteen million numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .... import ops as F
from ....core.tensor import Tensor, tensor
from ....engine import on
from ....engine.record import Recorded
from ..call import Shape, normal
from ..compare import Step, Work
from ..peers import Run, Torch
from . import Suite

if TYPE_CHECKING:
    from ....engine.protocol import Engine

VECTORS: tuple[Shape, ...] = ((1 << 20,), (1 << 22,), (1 << 24,))
ROWS: tuple[Shape, ...] = ((4096, 1024), (65536, 64))


def works() -> list[Work]:
    """All of them. PyTorch sorts stably, as we do; its sort gives the order, too."""
    found = [_work("sort and argsort", s, lambda x: (F.sort(x), F.argsort(x)), lambda t, x: t.sort(x, stable=True))
             for s in (*VECTORS, *ROWS)]
    found += [_work(f"topk of {k}", s, *_with("topk", k))
              for s, k in ((VECTORS[0], 10), (VECTORS[2], 10), (VECTORS[2], 1000), (ROWS[0], 5))]
    found += [_work(f"cumsum of axis {a}", s, *_with("cumsum", a))
              for s, a in ((VECTORS[0], 0), (VECTORS[2], 0), (ROWS[0], 1), (ROWS[0], 0), ((1024, 4096), 1))]
    return found + [_work(name, VECTORS[2], *_with(name, 0)) for name in ("cummax", "cumprod")]


SUITE = Suite(works, bars=True)


def _with(name: str, number: int) -> tuple[Callable[[Tensor], Any], Callable[[Any, Any], Any]]:
    """The function of this name, ours and PyTorch's, with this number."""
    return lambda x: getattr(F, name)(x, number), lambda torch, x: getattr(torch, name)(x, number)


def _work(name: str, shape: Shape, run: Callable[[Tensor], Any], their: Callable[[Any, Any], Any]) -> Work:
    def ours(engine: Engine) -> Run:
        with on(engine):
            x = tensor(normal(shape)[0])
            engine.run([x])
            return Step(Recorded(run, "bench"), lambda: (x,))

    def theirs(peer: Torch) -> Run:
        x = peer.array(normal(shape)[0])
        return lambda: their(peer.torch, x)

    return Work("sort", f"{name}, {'×'.join(map(str, shape))}", ours, theirs, quick=shape == VECTORS[0], numpy=False,
                nbytes=8 * math.prod(shape))
