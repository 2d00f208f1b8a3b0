"""The bench's ops: matrix products, convolutions, row-wise and elementwise work, attention, an optimizer's update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops as F
from ..engine import on
from ..engine.record import Recorded
from ..optimizers import Adam
from ..state import Parameter
from ..tensor import tensor
from .bench_call import function, normal, pair, size, theirs
from .bench_compare import Step, Work
from .peers import Run, Torch

SIZES = (64, 128, 256, 512, 1152, 2048)
FORMS = {"NN": (lambda x, w: F.matmul(x, w), lambda t, x, w: x @ w), "NT": (lambda x, w: F.matmul(x, w.mT), lambda t, x, w: x @ w.mT),
         "TN": (lambda x, w: F.matmul(x.mT, w), lambda t, x, w: x.mT @ w)}
NN_ONLY = 2048  # from this size on
QUICK_SIZES = (64, 512)
DENSE = (64, 784, 512)  # rows, inputs, outputs: the first layer of the mlp
CONVOLUTIONS = ((32, 64, 28, 64), (64, 64, 56, 16), (128, 128, 28, 16), (256, 256, 14, 16))  # in, out, side, batch; 3×3, padding 1
ROWS = (4096, 1024)
GELU = (4_000_000,)
STREAM = (1 << 25,)
ATTENTION = (16, 8, 256, 64)
ADAM = (10_000_000,)


def works() -> list[Work]:
    """All of them."""
    return [*_products(), *_dense(), *_convolutions(), *_rowwise(), *_streams(), *_attention(), _adam()]


def _product(name: str, form: str, x: tuple[int, ...], w: tuple[int, ...], flops: float, output: tuple[int, ...], quick: bool = False) -> Work:
    ours, torch = FORMS[form]
    return Work("ops", name, function(ours, x, w), theirs(torch, x, w), quick, flops=flops, nbytes=size(x, w, output))


def _products() -> list[Work]:
    return [_product(f"matmul {n} {form}", form, (n, n), (n, n), 2.0 * n**3, (n, n), n in QUICK_SIZES and form == "NN")
            for n in SIZES for form in FORMS if form == "NN" or n < NN_ONLY]


def _dense() -> list[Work]:
    m, k, n = DENSE
    x, w, y, flops = (m, k), (k, n), (m, n), 2.0 * m * k * n
    return [_product(f"matmul m{m} k{k} n{n}", "NN", x, w, flops, y), _product(f"matmul m{m} k{k} n{n} gradient of x", "NT", y, w, flops, x),
            _product(f"matmul m{m} k{k} n{n} gradient of w", "TN", x, y, flops, w)]


def _convolutions() -> list[Work]:
    found = []
    for i, o, side, batch in CONVOLUTIONS:
        flops = 2.0 * batch * side * side * 9 * i * o
        found += pair(f"conv {i}→{o} {side}×{side} b{batch}", lambda x, w: F.conv(x, w, padding=1), lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1),
                      [(batch, i, side, side), (o, i, 3, 3)], (batch, o, side, side), (flops, 3 * flops), batch == 64)
    return found


def _rowwise() -> list[Work]:
    # Flops an element, as the formulas are written: softmax subtracts, divides, ... and its gradient g y - y sum(g y).
    n, elements, many = ROWS[1:], ROWS[0] * ROWS[1], GELU[0]
    return [
        *pair(f"softmax {ROWS[0]}×{ROWS[1]}", lambda x: F.softmax(x), lambda t, x: t.softmax(x, -1), [ROWS], ROWS, (5.0 * elements, 9.0 * elements), True),
        *pair(f"layer norm {ROWS[0]}×{ROWS[1]}", lambda x, g, b: F.layer_norm(x, g, b), lambda t, x, g, b: t.nn.functional.layer_norm(x, n, g, b),
              [ROWS, n, n], ROWS, (8.0 * elements, 20.0 * elements), True),
        *pair("gelu 4M", lambda x: F.gelu(x), lambda t, x: t.nn.functional.gelu(x), [GELU], GELU, (5.0 * many, 14.0 * many), True),
    ]


def _streams() -> list[Work]:
    count, array = STREAM[0], size(STREAM)
    return [Work("ops", "scale 32M", function(lambda x: x * 0.5, STREAM), theirs(lambda t, x: x * 0.5, STREAM), flops=count, nbytes=2 * array),
            Work("ops", "triad 32M", function(lambda x, z: x + 0.5 * z, STREAM, STREAM), theirs(lambda t, x, z: t.add(x, z, alpha=0.5), STREAM, STREAM),
                 flops=2 * count, nbytes=3 * array)]


def _attention() -> list[Work]:
    shapes, (batch, heads, length, width) = [ATTENTION] * 3, ATTENTION
    found = []
    for causal in (False, True):
        # Two products forward, four more for the gradients; a causal query meets the keys up to its own.
        pairs = length * (length + 1) / 2 if causal else length**2
        product = 2.0 * batch * heads * pairs * width

        def ours(q: Any, k: Any, v: Any, causal: bool = causal) -> Any:
            return F.attention(q, k, v, causal=causal)

        def torch(t: Any, q: Any, k: Any, v: Any, causal: bool = causal) -> Any:
            return t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        name = f"attention b{batch} h{heads} t{length} d{width}{' causal' if causal else ''}"
        found += pair(name, ours, torch, shapes, ATTENTION, (2 * product, 6 * product), not causal)
    return found


def _adam() -> Work:
    def ours(engine: Any) -> Run:
        with on(engine):
            values, grads = normal(ADAM, ADAM)
            optimizer = Adam()
            optimizer.attach([Parameter(values, "w")])
            g = tensor(grads)
            engine.run([g])

            def body(g: Any, h: Any) -> tuple[()]:
                optimizer.apply([g], h)
                return ()

        count = iter(range(1, 1 << 30))
        return Step(Recorded(body, "bench"), lambda: (g, optimizer.hyper(next(count))))

    def torch(**mode: Any) -> Callable[[Torch], Run]:
        def prepare(peer: Torch) -> Run:
            values, grads = normal(ADAM, ADAM)
            w = peer.array(values, True)
            w.grad = peer.array(grads)
            return peer.torch.optim.Adam([w], **mode).step  # type: ignore[no-any-return]

        return prepare

    modes = {"foreach": torch(foreach=True), "fused": torch(fused=True)}
    # Reads w, g, m, v and writes w, m, v.
    return Work("ops", "Adam 10M", ours, torch(), modes=modes, flops=14.0 * ADAM[0], nbytes=7 * size(ADAM))
