"""The bench's matrix products on a GPU: in IEEE float32, and on tensor cores where the user may ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .... import ops as F
from ....core.precision import precision
from ....core.tensor import Tensor, tensor
from ....engine import on
from ....engine.record import Recorded
from ..call import normal
from ..compare import Step, Work
from ..peers import Run, TheirTensor, Torch
from . import Suite

if TYPE_CHECKING:
    from ....engine.protocol import Engine

Matrix = Tensor | TheirTensor
SHAPES = ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192))  # m, n, k
FEW = ((1, 4096, 4096), (8, 4096, 4096), (64, 4096, 4096), (128, 1024, 4096))
# what we are asked for, element type of the operands, the peer's element type, whether the peer may use TF32
How = tuple[str, str, str, bool]
ARITHMETIC: dict[str, How] = {
    "fp32x3": ("fp32x3", "float32", "float32", False), "tf32": ("tf32", "float32", "float32", True),
    "bf16": ("bf16", "float32", "bfloat16", False), "bf16 tensors": ("fp32", "bfloat16", "bfloat16", False),
}
PLAIN: How = ("fp32", "float32", "float32", False)


def works() -> list[Work]:
    """All of them; the peer rounds its operands too where we do."""
    found = [_work(form, shape, "float32", PLAIN) for shape in (*SHAPES, *FEW) for form in ("NN", "NT", "TN")]
    return found + [_work("NN", shape, name, how) for name, how in ARITHMETIC.items() for shape in SHAPES]


SUITE = Suite(works, bars=True)


def _work(form: str, shape: tuple[int, int, int], name: str, how: How) -> Work:
    m, n, k = shape
    shapes = [(m, k) if form[0] == "N" else (k, m), (k, n) if form[1] == "N" else (n, k)]
    nbytes = (2 if how[1] == "bfloat16" else 4) * (m * k + k * n + m * n)
    return Work("matmul", f"matmul {m}×{k} · {k}×{n} {form} {name}",
                lambda engine: ours(engine, normal(*shapes), how, form),
                lambda peer: theirs(peer, normal(*shapes), how, form), arithmetic=name, numpy=False,
                flops=2.0 * m * n * k, nbytes=nbytes)


def _formed(form: str, x: Matrix, w: Matrix) -> tuple[Matrix, Matrix]:
    return x if form[0] == "N" else x.mT, w if form[1] == "N" else w.mT


def ours(engine: Engine, operands: Sequence[Any], how: How, form: str = "NN") -> Step:
    """Our product of float32 arrays, recorded; a call starts one."""
    arithmetic, dtype, _, _ = how

    def product(x: Tensor, w: Tensor) -> Any:
        with precision(arithmetic):
            return F.matmul(*_formed(form, x, w))

    with on(engine):
        xs = [tensor(a, dtype) for a in operands]
        engine.run(xs)
        return Step(Recorded(product, "bench"), lambda: tuple(xs))


def theirs(peer: Torch, operands: Sequence[Any], how: How, form: str = "NN") -> Run:
    """PyTorch's product;
    float32 operands are rounded in the timed call where the arithmetic is narrower, as ours are.
    """
    torch, (_, dtype, their_dtype, tf32) = peer.torch, how
    xs = [peer.array(a).to(getattr(torch, dtype)) for a in operands]
    kind, back = getattr(torch, their_dtype), getattr(torch, dtype)

    def call() -> Any:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        x, w = _formed(form, *(x.to(kind) for x in xs))
        y = (x @ w).to(back)
        torch.backends.cuda.matmul.allow_tf32 = False
        return y

    return call
