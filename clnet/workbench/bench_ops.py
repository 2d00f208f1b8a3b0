"""The bench's ops: matrix products, convolutions, row-wise and elementwise work, attention, an optimizer's update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops as F
from ..autodiff import gradients
from ..engine import on
from ..engine.record import Recorded
from ..optimizers import Adam
from ..state import Parameter
from ..tensor import tensor
from .bench import Work
from .peers import Run, Torch

SIZES = (64, 128, 256, 512, 1152)
QUICK_SIZES = (64, 512)
CONVOLUTIONS = ((32, 64, 28, 64), (64, 64, 56, 16), (128, 128, 28, 16), (256, 256, 14, 16))  # in, out, side, batch; 3×3, padding 1
ROWS = (4096, 1024)
GELU = 4_000_000
ATTENTION = (16, 8, 256, 64)
ADAM = 10_000_000


def normal(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s, np.float32) for s in shapes]


def function(f: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[Any], Run]:
    """Ours: f recorded once, its inputs on the device; a call starts one replay."""

    def prepare(engine: Any) -> Run:
        with on(engine):
            xs = [tensor(a) for a in normal(*shapes)]
            engine.run(xs)
            step = Recorded(f, "bench")
        return lambda: step(*xs)

    return prepare


def theirs(f: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[Torch], Run]:
    """PyTorch's: f(torch, *inputs) without recording gradients."""

    def prepare(peer: Torch) -> Run:
        xs = [peer.array(a) for a in normal(*shapes)]

        def call() -> Any:
            with peer.torch.no_grad():
                return f(peer.torch, *xs)

        return call

    return prepare


def works() -> list[Work]:
    """All of them."""
    return [*_products(), *_convolutions(), *_rowwise(), _attention(), _adam()]


def _products() -> list[Work]:
    forms: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "NN": (lambda x, w: F.matmul(x, w), lambda t, x, w: x @ w),
        "NT": (lambda x, w: F.matmul(x, w.mT), lambda t, x, w: x @ w.mT),
        "TN": (lambda x, w: F.matmul(x.mT, w), lambda t, x, w: x.mT @ w),
    }
    return [Work("ops", f"matmul {n} {form}", function(ours, (n, n), (n, n)), theirs(peer, (n, n), (n, n)), n in QUICK_SIZES and form == "NN")
            for n in SIZES for form, (ours, peer) in forms.items()]


def _convolutions() -> list[Work]:
    found = []
    for i, o, side, batch in CONVOLUTIONS:
        x, w, y = (batch, i, side, side), (o, i, 3, 3), (batch, o, side, side)
        name = f"conv {i}→{o} {side}×{side} b{batch}"
        found.append(Work("ops", f"{name} forward", function(lambda x, w: F.conv(x, w, padding=1), x, w),
                          theirs(lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1), x, w), batch == 64))
        found.append(Work("ops", f"{name} forward and gradients", function(_conv_gradients, x, w, y), _torch_conv_gradients(x, w, y)))
    return found


def _conv_gradients(x: Any, w: Any, g: Any) -> Any:
    y = F.conv(x, w, padding=1)
    return (y, *gradients(y, [x, w], g))


def _torch_conv_gradients(*shapes: tuple[int, ...]) -> Callable[[Torch], Run]:
    def prepare(peer: Torch) -> Run:
        a, b, c = normal(*shapes)
        x, w, g = peer.array(a, True), peer.array(b, True), peer.array(c)

        def call() -> Any:
            y = peer.torch.nn.functional.conv2d(x, w, padding=1)
            return y, peer.torch.autograd.grad(y, [x, w], g)

        return call

    return prepare


def _rowwise() -> list[Work]:
    n = ROWS[1:]
    return [
        Work("ops", f"softmax {ROWS[0]}×{ROWS[1]}", function(lambda x: F.softmax(x), ROWS), theirs(lambda t, x: t.softmax(x, -1), ROWS), True),
        Work("ops", f"layer norm {ROWS[0]}×{ROWS[1]}", function(lambda x, g, b: F.layer_norm(x, g, b), ROWS, n, n),
             theirs(lambda t, x, g, b: t.nn.functional.layer_norm(x, n, g, b), ROWS, n, n), True),
        Work("ops", "gelu 4M", function(lambda x: F.gelu(x), (GELU,)), theirs(lambda t, x: t.nn.functional.gelu(x), (GELU,)), True),
    ]


def _attention() -> Work:
    shapes = [ATTENTION] * 3
    batch, heads, length, width = ATTENTION
    return Work("ops", f"attention b{batch} h{heads} t{length} d{width}", function(lambda q, k, v: F.attention(q, k, v), *shapes),
                theirs(lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v), *shapes), True)


def _adam() -> Work:
    def ours(engine: Any) -> Run:
        with on(engine):
            values, grads = normal((ADAM,), (ADAM,))
            optimizer = Adam()
            optimizer.attach([Parameter(values, "w")])
            g = tensor(grads)
            engine.run([g])

            def body(g: Any, h: Any) -> tuple[()]:
                optimizer.apply([g], h)
                return ()

            step = Recorded(body, "bench")
        count = iter(range(1, 1 << 30))
        return lambda: step(g, optimizer.hyper(next(count)))

    def torch(peer: Torch) -> Run:
        values, grads = normal((ADAM,), (ADAM,))
        w = peer.array(values, True)
        w.grad = peer.array(grads)
        return peer.torch.optim.Adam([w]).step  # type: ignore[no-any-return]

    return Work("ops", "Adam 10M", ours, torch)


