"""The bench's matrix products on a GPU: in IEEE float32, and on tensor cores where the user may ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops as F
from ..engine import on
from ..engine.record import Recorded
from ..precision import precision
from ..tensor import tensor
from .bench_call import normal
from .bench_compare import Step, Work
from .peers import Run, Torch

SHAPES = ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192))  # m, n, k
FEW = ((1, 4096, 4096), (8, 4096, 4096), (64, 4096, 4096), (128, 1024, 4096))
# what we are asked for, element type of the operands, the peer's element type, whether the peer may use TF32
ARITHMETIC = {
    "fp32x3": ("fp32x3", "float32", "float32", False), "tf32": ("tf32", "float32", "float32", True),
    "bf16": ("bf16", "float32", "bfloat16", False), "bf16 tensors": ("fp32", "bfloat16", "bfloat16", False),
}


def works() -> list[Work]:
    """All of them; the peer rounds its operands too where we do."""
    plain = ("fp32", "float32", "float32", False)
    found = [_work(form, shape, "float32", plain) for shape in (*SHAPES, *FEW) for form in ("NN", "NT", "TN")]
    return found + [_work("NN", shape, name, how) for name, how in ARITHMETIC.items() for shape in SHAPES]


def _work(form: str, shape: tuple[int, int, int], name: str, how: tuple[str, str, str, bool]) -> Work:
    m, n, k = shape
    shapes = [(m, k) if form[0] == "N" else (k, m), (k, n) if form[1] == "N" else (n, k)]
    arithmetic, dtype, their_dtype, tf32 = how

    def formed(x: Any, w: Any) -> tuple[Any, Any]:
        return x if form[0] == "N" else x.mT, w if form[1] == "N" else w.mT

    def ours(engine: Any) -> Run:
        def product(x: Any, w: Any) -> Any:
            with precision(arithmetic):
                return F.matmul(*formed(x, w))

        with on(engine):
            xs = [tensor(a, dtype) for a in normal(*shapes)]
            engine.run(xs)
            return Step(Recorded(product, "bench"), lambda: tuple(xs))

    nbytes = (2 if dtype == "bfloat16" else 4) * (m * k + k * n + m * n)
    return Work("matmul", f"matmul {m}×{k} · {k}×{n} {form} {name}", ours, _theirs(shapes, formed, dtype, their_dtype, tf32), arithmetic=name, numpy=False,
                flops=2.0 * m * n * k, nbytes=nbytes)


def _theirs(shapes: list[tuple[int, int]], formed: Callable[..., Any], dtype: str, arithmetic: str, tf32: bool) -> Callable[[Torch], Run]:
    """PyTorch's product; float32 operands are rounded in the timed call where the arithmetic is narrower, as ours are."""

    def prepare(peer: Torch) -> Run:
        torch = peer.torch
        xs = [peer.array(a).to(getattr(torch, dtype)) for a in normal(*shapes)]
        kind, back = getattr(torch, arithmetic), getattr(torch, dtype)

        def call() -> Any:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            x, w = formed(*(x.to(kind) for x in xs))
            y = (x @ w).to(back)
            torch.backends.cuda.matmul.allow_tf32 = False
            return y

        return call

    return prepare
