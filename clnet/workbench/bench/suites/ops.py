"""The bench's ops: matrix products, convolutions, row-wise and elementwise work, attention, an optimizer's update."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from .... import ops as F
from ....core.tensor import Tensor
from ..call import function, pair, size, theirs
from ..compare import Work
from ..peers import TheirTensor
from . import Suite
from . import bandwidth as bench_bandwidth

if TYPE_CHECKING:
    from types import ModuleType

SIZES = (64, 128, 256, 512, 1152, 2048)
FORMS = {"NN": (lambda x, w: F.matmul(x, w), lambda t, x, w: x @ w),
         "NT": (lambda x, w: F.matmul(x, w.mT), lambda t, x, w: x @ w.mT),
         "TN": (lambda x, w: F.matmul(x.mT, w), lambda t, x, w: x.mT @ w)}
NN_ONLY = 2048  # from this size on
QUICK_SIZES = (64, 512)
DENSE = (64, 784, 512)  # rows, inputs, outputs: the first layer of the mlp
STREAMED = ((1, 8), 16, 1024)  # rows, layers, inputs and outputs of each: 64 MiB of weights
# in, out, side, batch; 3×3, padding 1
CONVOLUTIONS = ((32, 64, 28, 64), (64, 64, 56, 16), (128, 128, 28, 16), (256, 256, 14, 16))
ATTENTION = (16, 8, 256, 64)


def works() -> list[Work]:
    """All of them."""
    return [*_products(), *_dense(), *_streamed(), *_convolutions(), *_attention(),
            *bench_bandwidth.works(bench_bandwidth.SMALL)]


SUITE = Suite(works, bars=True)


def _product(name: str, form: str, x: tuple[int, ...], w: tuple[int, ...], flops: float, output: tuple[int, ...],
             quick: bool = False) -> Work:
    ours, torch = FORMS[form]
    return Work("ops", name, function(ours, x, w), theirs(torch, x, w), quick, flops=flops, nbytes=size(x, w, output))


def _products() -> list[Work]:
    return [_product(f"matmul {n} {form}", form, (n, n), (n, n), 2.0 * n**3, (n, n), n in QUICK_SIZES and form == "NN")
            for n in SIZES for form in FORMS if form == "NN" or n < NN_ONLY]


def _dense() -> list[Work]:
    m, k, n = DENSE
    x, w, y, flops = (m, k), (k, n), (m, n), 2.0 * m * k * n
    return [_product(f"matmul m{m} k{k} n{n}", "NN", x, w, flops, y),
            _product(f"matmul m{m} k{k} n{n} gradient of x", "NT", y, w, flops, x),
            _product(f"matmul m{m} k{k} n{n} gradient of w", "TN", x, y, flops, w)]


def _streamed() -> list[Work]:
    """Few rows through more weights than a core caches, as where a network answers one question at a time."""
    found, (few, layers, n) = [], STREAMED
    for m in few:
        shapes = [(m, n), *[(n, n)] * layers]
        found.append(Work("ops", f"matmul m{m} through {layers} of {n}×{n}",
                          function(lambda x, *w: reduce(F.matmul, w, x), *shapes),
                          theirs(lambda t, x, *w: reduce(t.matmul, w, x), *shapes),
                          flops=2.0 * m * n * n * layers, nbytes=size(*shapes)))
    return found


def _convolutions() -> list[Work]:
    found = []
    for i, o, side, batch in CONVOLUTIONS:
        flops = 2.0 * batch * side * side * 9 * i * o
        found += pair(f"conv {i}→{o} {side}×{side} b{batch}", lambda x, w: F.conv(x, w, padding=1),
                      lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1),
                      [(batch, i, side, side), (o, i, 3, 3)], (batch, o, side, side), (flops, 3 * flops), batch == 64)
    return found


def _attention() -> list[Work]:
    shapes, (batch, heads, length, width) = [ATTENTION] * 3, ATTENTION
    found = []
    for causal in (False, True):
        # Two products forward, four more for the gradients; a causal query meets the keys up to its own.
        pairs = length * (length + 1) / 2 if causal else length**2
        product = 2.0 * batch * heads * pairs * width

        def ours(q: Tensor, k: Tensor, v: Tensor, causal: bool = causal) -> Any:
            return F.attention(q, k, v, causal=causal)

        def torch(t: ModuleType, q: TheirTensor, k: TheirTensor, v: TheirTensor, causal: bool = causal) -> Any:
            return t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        name = f"attention b{batch} h{heads} t{length} d{width}{' causal' if causal else ''}"
        found += pair(name, ours, torch, shapes, ATTENTION, (2 * product, 6 * product), not causal)
    return found
