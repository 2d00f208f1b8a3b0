"""What the other suites leave out and scripts do every day: choices and places in rows, copies across axes, images in
groups of channels and between their pixels, sound, images that grow, a token's attention. Forward, and with gradients
where there are any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import ops as F
from ..call import Input, function, pair, size, theirs
from ..compare import Work
from . import Suite

ROWS, SQUARE = (4096, 1000), (1024, 1024)
LINES, TAKEN, AMONG = (2048, 500), (2048, 300), 100_000
IMAGES, PICTURES = (16, 64, 56, 56), (16, 3, 224, 224)


def works() -> list[Work]:
    """All of them. No multiplications are counted but those of convolutions and attention."""
    return [*_choices(), *_places(), *_copies(), *_images(), *_convolutions(), *_attention()]


SUITE = Suite(works, bars=True)


def _numbers(most: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, most, shape)


def _forward(name: str, ours: Callable[..., Any], torch: Callable[..., Any], inputs: Sequence[Input],
             output: tuple[int, ...]) -> Work:
    return Work("everyday", name, function(ours, *inputs), theirs(torch, *inputs), numpy=False,
                nbytes=size(*inputs, output))


def _both(name: str, ours: Callable[..., Any], torch: Callable[..., Any], inputs: Sequence[Input],
          output: tuple[int, ...], products: float = 0.0) -> list[Work]:
    return pair(name, ours, torch, inputs, output, (2 * products, 6 * products), suite="everyday", numpy=False)


def _choices() -> list[Work]:
    label = "×".join(map(str, ROWS))
    return [
        *(_forward(f"argmax of axis {a}, {label}", lambda x, a=a: F.argmax(x, a), lambda t, x, a=a: t.argmax(x, a),
                   [ROWS], (ROWS[1 - a],)) for a in (0, 1)),
        _forward("argmax of axis 1, 10000×10", lambda x: F.argmax(x, 1), lambda t, x: t.argmax(x, 1), [(10000, 10)],
                 (10000,)),
        *_both("norm of axis 1, 4096×256", lambda x: F.norm(x, 1), lambda t, x: t.linalg.vector_norm(x, dim=1),
               [(4096, 256)], (4096,)),
        *_both(f"max of axis 1, {label}", lambda x: F.max(x, 1), lambda t, x: t.max(x, 1).values, [ROWS], ROWS[:1]),
        *_both("the 5 largest, 1024×1000", lambda x: F.topk(x, 5)[0], lambda t, x: t.topk(x, 5).values, [(1024, 1000)],
               (1024, 5)),
    ]


def _places() -> list[Work]:
    taken, rows, pairs = _numbers(LINES[1], *TAKEN), _numbers(5000, AMONG), _numbers(1000, 2, 50_000)
    return [
        *_both("take_along_axis, 300 of 500 in 2048 rows", lambda x, i: F.take_along_axis(x, i, 1),
               lambda t, x, i: t.gather(x, 1, i), [LINES, taken], TAKEN),
        *(_forward(f"scatter_add, {AMONG} rows of {n} to 5000", lambda x, i: F.scatter_add(x, i, 5000),
                   lambda t, x, i, n=n: t.zeros(5000, n).index_add(0, i, x), [(AMONG, n), rows], (5000, n))
          for n in (1, 8, 32)),
        *_both("x[i, j], 50000 of 1000×1000", lambda x, i, j: x[i, j], lambda t, x, i, j: x[i, j],
               [(1000, 1000), pairs[0], pairs[1]], (50_000,)),
    ]


def _copies() -> list[Work]:
    n, c, h, w = IMAGES
    return [
        *_both("transposed, 1024×1024", lambda x: x.mT + 1.0, lambda t, x: (x.mT + 1.0).contiguous(), [SQUARE], SQUARE),
        *_both("channels last, 16×64×56×56", lambda x: F.permute(x, (0, 2, 3, 1)) + 1.0,
               lambda t, x: (x.permute(0, 2, 3, 1) + 1.0).contiguous(), [IMAGES], (n, h, w, c)),
        *_both("channels first, 16×56×56×64", lambda x: F.permute(x, (0, 3, 1, 2)) + 1.0,
               lambda t, x: (x.permute(0, 3, 1, 2) + 1.0).contiguous(), [(n, h, w, c)], IMAGES),
        *_both("turned, 16×3×224×224", lambda x: F.flip(x, -1), lambda t, x: t.flip(x, (-1,)), [PICTURES], PICTURES),
    ]


def _images() -> list[Work]:
    """Normalised in groups of channels; read between their pixels, at points that lie anywhere."""
    points = np.random.default_rng(2).uniform(-1, 1, (16, 64, 64, 2)).astype(np.float32)
    return [
        *_both("group norm, 8 of 16×64×56×56", lambda x, w, b: F.group_norm(x, 8, w, b),
               lambda t, x, w, b: t.nn.functional.group_norm(x, 8, w, b), [IMAGES, IMAGES[1:2], IMAGES[1:2]], IMAGES),
        *_both("grid_sample, 64×64 of 16×16×64×64", lambda x, p: F.grid_sample(x, p),
               lambda t, x, p: t.nn.functional.grid_sample(x, p, align_corners=False), [(16, 16, 64, 64), points],
               (16, 16, 64, 64)),
    ]


def _convolutions() -> list[Work]:
    """Of sound in rows of 16000, and the ones by which images grow."""
    found = []
    for n, c, o, k in ((8, 1, 16, 7), (4, 32, 32, 7)):
        y = (n, o, 16000)
        found += _both(f"conv of rows {c}→{o} 16000 k{k} b{n}", lambda x, w, k=k: F.conv(x, w, padding=k // 2),
                       lambda t, x, w, k=k: t.nn.functional.conv1d(x, w, padding=k // 2), [(n, c, 16000), (o, c, k)], y,
                       math.prod(y) * c * k)
    for n, c, o, side in ((8, 128, 64, 28), (4, 64, 32, 64)):
        images, products = (n, o, 2 * side, 2 * side), n * c * o * side * side * 4
        found += _both(f"transposed conv 2×2 {c}→{o} {side}×{side} b{n}", lambda x, w: F.conv_transpose(x, w, stride=2),
                       lambda t, x, w: t.nn.functional.conv_transpose2d(x, w, stride=2),
                       [(n, c, side, side), (c, o, 2, 2)], images, products)
    return found


def _attention() -> list[Work]:
    found = []
    for queries in (1, 8):
        n, h, keys, d = 8, 8, 512, 64
        shapes = [(n, h, queries, d), (n, h, keys, d), (n, h, keys, d)]
        found += _both(f"attention of {queries} to {keys}, b{n} h{h} d{d}", lambda q, k, v: F.attention(q, k, v),
                       lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v), shapes, shapes[0],
                       2 * n * h * queries * keys * d)
    return found
