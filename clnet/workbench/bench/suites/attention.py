"""The bench's attention on a GPU: forward and backward, each alone, on heads as a model has them: views of (batch,
time, heads · features).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import ops as F
from ....core.autodiff import gradients
from ....core.precision import precision
from ....core.tensor import Tensor, in_order, tensor
from ....engine import on
from ....engine.record import Recorded
from ..call import normal
from ..compare import Step, Work
from ..peers import Run, Torch
from . import Suite

if TYPE_CHECKING:
    from ....engine.protocol import Engine

# batch, heads, time, features, causal
SHAPES = ((8, 16, 2048, 64, True), (8, 16, 1024, 64, True), (8, 12, 1024, 64, True), (16, 8, 256, 64, False))
# name -> what we are asked for, the tensors' type
ARITHMETIC = {"float32": ("fp32", "float32"), "bf16": ("fp32", "bfloat16"), "float32 in bf16": ("bf16", "float32")}


def works() -> list[Work]:
    """All of them; the peer's operands have our type, or bf16 where we round float32."""
    return [_work(name, shape, backward) for name in ARITHMETIC for shape in SHAPES for backward in (False, True)]


SUITE = Suite(works)


def _heads(xs: Sequence[Tensor]) -> list[Any]:
    return [F.permute(x, 0, 2, 1, 3) for x in xs]


def _whole(*parts: Any) -> tuple[Any, ...]:
    """What kernels wrote and parts are views of: (y, lse), or all three gradients. A model reads the parts there; as
    results they would be copied.
    """
    name = "attention" if len(parts) == 1 else "attention_gradient"
    return tuple(t for t in in_order(parts) if t.op is not None and t.op.name == name)


def _work(name: str, shape: tuple[int, int, int, int, bool], backward: bool) -> Work:
    batch, heads, time, width, causal = shape
    arithmetic, dtype = ARITHMETIC[name]
    lie = (batch, time, heads, width)

    def ours(engine: Engine) -> Run:
        def attention(*xs: Any) -> Any:
            q, k, v = _heads(xs)
            with precision(arithmetic):
                return F.attention(q, k, v, causal=causal)

        with on(engine):
            *xs, g = [tensor(a, dtype) for a in normal(*[lie] * 4)]
            engine.run([*xs, g])
            if not backward:
                return Step(Recorded(lambda *xs: _whole(attention(*xs)), "bench"), lambda: tuple(xs))
            y = attention(*xs)
            engine.run(_whole(y))
            return Step(Recorded(lambda g: _whole(*gradients(F.permute(y, 0, 2, 1, 3), xs, g)), "bench"), lambda: (g,))

    # Two products forward, five backward; a causal query meets the keys up to its own.
    flops = (5 if backward else 2) * 2.0 * batch * heads * (time * (time + 1) / 2 if causal else time**2) * width
    element = 2 if dtype == "bfloat16" else 4
    label = (f"attention {name} b{batch} h{heads} t{time} d{width}{' causal' if causal else ''} "
             f"{'backward' if backward else 'forward'}")
    theirs = _theirs(lie, "float32" if name == "float32" else "bfloat16", causal, backward)
    nbytes = (8 if backward else 4) * element * batch * heads * time * width
    return Work("attention", label, ours, theirs, arithmetic=name, numpy=False, flops=flops, nbytes=nbytes)


def _theirs(lie: tuple[int, ...], dtype: str, causal: bool, backward: bool) -> Callable[[Torch], Run]:
    def prepare(peer: Torch) -> Run:
        torch = peer.torch
        *xs, g = [peer.array(a).to(getattr(torch, dtype)) for a in normal(*[lie] * 4)]
        xs = [x.requires_grad_(backward) for x in xs]

        def attention() -> Any:
            return torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in xs),
                                                                    is_causal=causal).transpose(1, 2)

        if not backward:
            return attention
        y = attention()
        return lambda: torch.autograd.grad(y, xs, g, retain_graph=True)

    return prepare
