"""Calls of products, convolutions and attention, for kernel_problems."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kernel_calls import FLOATS, PRECISIONS, Given, Problem, Shape

# --- products
_SQUARE = [(n, n, n) for n in (1, 3, 16, 32, 64, 100, 128, 256, 512, 768, 1000, 1024, 2048, 4096, 8192)]
_THIN = [
    (1, 1024, 1024),
    (1, 4096, 11008),
    (4, 512, 512),
    (8, 4096, 4096),
    (9, 512, 640),
    (16, 1024, 1000),
    (1024, 1024, 1),
    (4096, 4096, 8),
    (512, 300, 5),
]
_LAYERS = [
    (64, 784, 512),
    (64, 512, 10),
    (64, 1024, 512),
    (512, 64, 784),
    (784, 64, 512),
    (32, 2048, 1000),
    (512, 768, 3072),
    (512, 3072, 768),
    (8192, 1024, 4096),
    (1024, 768, 50257),
    (2048, 128, 512),
    (512, 1024, 512),
    (1152, 1152, 1152),
    (1023, 511, 255),
    (17, 33, 31),
]
_DEPTHS = [
    (1024, 8, 1024),
    (1024, 16, 1024),
    (4096, 64, 4096),
    (64, 65536, 64),
    (128, 16384, 128),
    (40, 100000, 24),
    (300, 5, 7),
    (4, 0, 4),
    (2048, 40, 64),
]
_FORMS = ("NN", "NT", "TN", "TT")


def _product(form: str, dtype: str, m: int, k: int, n: int, **attrs: object) -> Problem:
    """x [m, k] by w [k, n], each as it lies (N) or lying transposed (T)."""
    x = Given(dtype, (m, k), (1, m) if form[0] == "T" else ())
    w = Given(dtype, (k, n), (1, k) if form[1] == "T" else ())
    return Problem("matmul", (x, w), attrs)


def products() -> Iterator[Problem]:
    for form, sizes in itertools.product(_FORMS[:3], _SQUARE + _THIN + _LAYERS + _DEPTHS):
        yield _product(form, "float32", *sizes)
    for sizes in _SQUARE[2::3] + _LAYERS[::4] + _DEPTHS[::3]:
        yield _product("TT", "float32", *sizes)
    some = [
        (16, 16, 16),
        (64, 64, 64),
        (1024, 1024, 1024),
        (4096, 4096, 4096),
        (1, 4096, 11008),
        (64, 784, 512),
        (1000, 1000, 1000),
        (128, 16384, 128),
    ]
    for form, dtype, sizes in itertools.product(_FORMS[:3], FLOATS[1:3], some):
        yield _product(form, dtype, *sizes)
    for sizes in some:
        yield _product("NT", "float16", *sizes)
    for form, precision, sizes in itertools.product(
        _FORMS[:2], PRECISIONS, some[:4] + [(512, 768, 3072), (30, 512, 512), (128, 16384, 128), (1023, 511, 255)]
    ):
        yield _product(form, "float32", *sizes, precision=precision)
    yield _product("NN", "float64", 512, 512, 512, precision="tf32")
    for left, right in (("float32", "float64"), ("bfloat16", "float32")):
        yield Problem("matmul", (Given(left, (64, 64)), Given(right, (64, 64))))
    for x, w in (
        ((1024, 2), (1, 2)),
        ((2048, 1), (4096, 2)),
        ((1, 1030), (1, 1030)),
        ((0, 1), (1024, 1)),
        ((1028, 1), (1032, 1)),
    ):
        yield Problem("matmul", (Given("float32", (512, 1024), x), Given("float32", (1024, 1024), w)))
    for m, k, n in _SQUARE[4:9] + _LAYERS[:3]:  # contiguous nowhere: every other column
        x, w = (2 * k, 2), (2 * n, 2)
        yield Problem("matmul", (Given("float32", (m, k), x), Given("float32", (k, n), w)))
    for offset, dtype in itertools.product((1, 4, 8), ("float32", "bfloat16")):
        yield Problem("matmul", (Given(dtype, (256, 512), (), offset), Given(dtype, (512, 256), (), 2 * offset)))


def batched_products() -> Iterator[Problem]:
    """Batches; operands that all of a batch share; heads of attention, [n, t, h, d] read as [n, h, t, d]."""
    for (batch, m, k, n), dtype in itertools.product(
        (
            (3, 5, 7, 9),
            (64, 128, 64, 128),
            (96, 1024, 64, 1024),
            (96, 1024, 1024, 64),
            (8, 1, 64, 512),
            (2, 2048, 2048, 2048),
            (512, 16, 16, 16),
            (16, 512, 32, 512),
        ),
        FLOATS[:3],
    ):
        x, w = Given(dtype, (batch, m, k)), Given(dtype, (batch, k, n))
        yield Problem("matmul", (x, w))
        if dtype == "float32" or dtype == "bfloat16" and batch % 16:
            yield Problem("matmul", (x, Given(dtype, (batch, k, n), (k * n, 1, k))))
            yield Problem("matmul", (Given(dtype, (batch, m, k), (m * k, 1, m)), w))
            yield Problem("matmul", (x, Given(dtype, (k, n))))
            yield Problem("matmul", (Given(dtype, (1, m, k)), w))
            yield Problem("matmul", (Given(dtype, (batch, m, k), (0, k, 1)), w))
        if dtype == "float32":
            yield from (Problem("matmul", (x, w), dict(precision=p)) for p in PRECISIONS)
    for (n, t, h, d), dtype in itertools.product(
        ((8, 1024, 12, 64), (2, 77, 8, 40), (1, 256, 4, 128)), ("float32", "bfloat16")
    ):
        q = Given(dtype, (n, h, t, d), (t * h * d, d, h * d, 1))
        yield Problem("matmul", (q, Given(dtype, (n, h, d, t), (t * h * d, d, 1, h * d))))
        yield Problem("matmul", (Given(dtype, (n, h, t, t)), q))
        yield Problem("matmul", (Given(dtype, (n, 1, t, t)), q))
        yield Problem("matmul", (q, Given(dtype, (1, h, d, 32))))


# --- convolutions
_RESNET = [
    (64, 56, 64, 3, 1),
    (128, 28, 128, 3, 1),
    (256, 14, 256, 3, 1),
    (512, 7, 512, 3, 1),
    (64, 56, 128, 3, 2),
    (256, 14, 512, 3, 2),
    (64, 56, 128, 1, 2),
    (64, 56, 256, 1, 1),
    (3, 224, 64, 7, 2),
]  # channels, side, results, kernel, stride
_NARROW_CONVS = [
    (64, 56, 64, 3, 1),
    (256, 14, 256, 3, 1),
    (64, 56, 128, 3, 2),
    (3, 32, 16, 3, 1),
    (16, 32, 32, 3, 1),
    (32, 32, 32, 5, 1),
    (12, 24, 20, 3, 1),
    (64, 56, 64, 1, 1),
    (3, 224, 64, 7, 2),
    (40, 28, 200, 3, 1),
    (32, 128, 48, 3, 1),
    (8, 16, 8, 9, 1),
]
_SHAPED = [  # x, w, stride, (low, high), dilation, groups
    ((8, 1, 28, 28), (8, 1, 5, 5), 1, (2, 2), 1, 1),
    ((64, 1, 28, 28), (20, 1, 5, 5), 1, (0, 0), 1, 1),
    ((1, 3, 256, 256), (3, 3, 9, 9), 1, (4, 4), 1, 1),
    ((16, 64, 64, 64), (3, 64, 3, 3), 1, (1, 1), 1, 1),
    ((16, 3, 64, 64), (64, 3, 4, 4), 2, (1, 1), 1, 1),
    ((2, 32, 112, 112), (32, 1, 3, 3), 1, (1, 1), 1, 32),
    ((2, 32, 112, 112), (64, 1, 3, 3), 2, (1, 1), 1, 32),
    ((4, 96, 56, 56), (96, 24, 3, 3), 1, (1, 1), 1, 4),
    ((4, 96, 56, 56), (96, 3, 3, 3), 1, (1, 1), 1, 32),
    ((2, 64, 32, 32), (64, 64, 3, 3), 1, (2, 2), 2, 1),
    ((2, 256, 33, 33), (256, 256, 3, 3), 1, (12, 12), 12, 1),
    ((32, 64, 32, 32), (64, 64, 3, 3), 1, (0, 0), 1, 1),
    ((32, 64, 31, 31), (48, 64, 3, 3), 1, (1, 1), 1, 1),
    ((8, 16, 1000), (32, 16, 3), 1, (1, 1), 1, 1),
    ((8, 80, 3000), (384, 80, 3), 1, (1, 1), 1, 1),
    ((4, 32, 4096), (32, 32, 9), 4, (4, 4), 1, 1),
    ((4, 512, 128), (512, 512, 7), 1, (6, 0), 1, 1),
    ((2, 4, 16, 32, 32), (8, 4, 3, 3, 3), 1, (1, 1), 1, 1),
    ((1, 64, 16, 16, 16), (64, 64, 3, 3, 3), 1, (1, 1), 1, 1),
    ((1, 32, 16, 16, 16), (64, 32, 2, 2, 2), 2, (0, 0), 1, 1),
    ((4, 8, 20, 20), (8, 8, 12, 12), 1, (0, 0), 1, 1),
    ((1, 8, 2048, 2048), (8, 8, 3, 3), 1, (1, 1), 1, 1),
    ((1, 2048, 7, 7), (2048, 2048, 3, 3), 1, (1, 1), 1, 1),
    ((1, 16, 9000, 9000), (16, 16, 3, 3), 1, (1, 1), 1, 1),
    ((64, 24, 14, 14), (24, 24, 5, 1), 1, (2, 2), 1, 1),
    ((128, 64, 8, 8), (64, 64, 3, 3), 1, (1, 1), 1, 1),
    ((4, 16, 1, 1), (16, 16, 1, 1), 1, (1, 1), 1, 1),
    ((1, 1024, 4000), (16, 1024, 129), 1, (64, 64), 1, 1),
    ((256, 64, 112, 112), (64, 64, 3, 3), 1, (1, 1), 1, 1),
    ((4, 16, 40, 40), (16, 16, 4, 4), 5, (0, 0), 1, 1),
    ((2, 8, 30, 30), (16, 8, 3, 3), 3, (1, 1), 2, 1),
    ((1, 4, 5, 100000), (4, 4, 3, 3), 1, (1, 1), 1, 1),
    ((16, 64, 1, 1), (64, 64, 4, 4), 1, (3, 3), 1, 1),
    ((0, 8, 16, 16), (8, 8, 3, 3), 1, (1, 1), 1, 1),
    ((1, 4, 8, 60000), (2, 4, 3, 3), 2, (1, 1), 1, 1),
    ((2, 6, 1, 40000), (5, 6, 1, 7), 1, (0, 0), 1, 1),
    ((1, 64, 16, 2000), (64, 64, 3, 3), 1, (1, 1), 1, 1),
    ((8, 1, 16000), (16, 1, 7), 1, (3, 3), 1, 1),
    ((4, 64, 160000), (64, 64, 8), 4, (2, 2), 1, 1),
    ((4, 32, 16000), (32, 1, 7), 1, (3, 3), 1, 32),
    ((8, 128, 56, 56), (64, 128, 2, 2), 2, (0, 0), 1, 1),
    ((8, 512, 3, 3), (2048, 512, 1, 1), 1, (0, 0), 1, 1),
]


def convolutions() -> Iterator[Problem]:
    for batch, layer in itertools.product((1, 32, 256), _RESNET):
        yield from _square("float32", batch, *layer)
    for batch, layer in itertools.product((1, 32), _NARROW_CONVS):
        yield from _square("bfloat16", batch, *layer)
    for layer in _NARROW_CONVS[::3]:
        yield from _square("float16", 32, *layer)
    for j, layer in enumerate(_RESNET):
        yield from _square("float64", 32, *layer)
        for precision in PRECISIONS[1:3] if j % 4 else PRECISIONS:
            yield from _square("float32", 32, *layer, precision=precision)
    for shape in _SHAPED:
        yield from _conv("float32", *shape)
    for shape in _SHAPED[::2]:
        yield from _conv("bfloat16", *shape)
    for shape in _SHAPED[:20:3]:
        yield from _conv("float64", *shape)
        yield from _conv("float32", *shape, precision="bf16")


def _square(dtype: str, n: int, c: int, side: int, o: int, k: int, stride: int, **attrs: object) -> Iterator[Problem]:
    return _conv(dtype, (n, c, side, side), (o, c, k, k), stride, (k // 2, k // 2), 1, 1, **attrs)


def _conv(
    dtype: str, x: Shape, w: Shape, stride: int, ends: tuple[int, int], dilation: int, groups: int, **attrs: object
) -> Iterator[Problem]:
    """A convolution and its two gradients."""
    d = len(x) - 2
    how: dict[str, object] = dict(
        stride=(stride,) * d, low=(ends[0],) * d, high=(ends[1],) * d, dilation=(dilation,) * d, groups=groups, **attrs
    )
    y = (
        x[0],
        w[0],
        *((s + sum(ends) - dilation * (k - 1) - 1) // stride + 1 for s, k in zip(x[2:], w[2:], strict=True)),
    )
    data, weight, result = (Given(dtype, shape) for shape in (x, w, y))
    yield Problem("conv", (data, weight), how)
    yield Problem("conv_data_gradient", (result, weight), dict(how, size=x[2:]))
    yield Problem("conv_weight_gradient", (result, data), dict(how, size=w[2:]))


# --- attention
_HEADS = [  # n, query heads, key heads, queries, keys, features of keys, of values
    (8, 12, 12, 1024, 1024, 64, 64),
    (1, 32, 32, 2048, 2048, 128, 128),
    (4, 8, 2, 256, 256, 32, 32),
    (1, 32, 8, 1, 4096, 128, 128),
    (2, 4, 4, 77, 77, 40, 40),
    (1, 1, 1, 5, 7, 3, 2),
    (2, 2, 2, 64, 64, 256, 256),
    (1, 2, 2, 50, 50, 257, 64),
    (1, 8, 8, 300, 500, 64, 128),
    (64, 4, 4, 16, 16, 16, 16),
    (1, 16, 1, 128, 640, 96, 96),
    (2, 2, 2, 0, 4, 8, 8),
    (1, 4, 4, 512, 512, 160, 160),
    (2, 64, 1, 4096, 128, 64, 64),
    (3, 5, 5, 100, 100, 1, 1),
]


def attention() -> Iterator[Problem]:
    for i, (n, h, hk, t, s, d, e) in enumerate(_HEADS):
        for causal, dtype in itertools.product(
            (False, True) if i < 4 else (i % 2 == 0,), FLOATS[:1] if i % 4 else ("float32", "float64")
        ):
            attrs: dict[str, object] = dict(causal=causal, scale=(d or 1) ** -0.5)
            yield from _heads(dtype, n, h, hk, t, s, d, e, attrs)
            yield from _heads(dtype, n, h, hk, t, s, d, e, attrs, mask="bool")
            yield from _heads(dtype, n, h, hk, t, s, d, e, attrs, mask=dtype)
        for precision in PRECISIONS if i < 2 else PRECISIONS[1 + i % 3 :][:1]:
            yield from _heads("float32", n, h, hk, t, s, d, e, dict(causal=True, scale=0.125, precision=precision))
        for narrow, split in (("bfloat16", False), ("bfloat16", True), ("float16", i % 2 == 0)):
            yield from _heads(
                narrow, n, h, hk, t, s, d, e, dict(causal=i % 2 == 0, scale=0.125, narrow=narrow), split=split
            )
    yield from _heads("bfloat16", 1, 4, 4, 64, 64, 64, 64, dict(causal=False, scale=-0.5, narrow="bfloat16"))
    yield from _heads("bfloat16", 1, 4, 4, 64, 64, 64, 64, dict(causal=False, scale=0.5))
    yield from _heads("float32", 1, 4, 4, 64, 64, 64, 64, dict(causal=False, scale=0.5), split=True)
    yield from _heads(
        "bfloat16", 1, 4, 4, 64, 64, 64, 64, dict(causal=False, scale=0.5, narrow="bfloat16"), split=True, offset=4
    )
    for n, h, hk, t, s, d, e, dtype in (
        (64, 8, 8, 16384, 16384, 64, 64, "float32"),
        (2, 2, 2, 0, 4, 8, 8, "float32"),
    ):
        q, k, v, g = (Given(dtype, shape) for shape in ((t, h, d), (s, hk, d), (s, hk, e), (t, h, e)))
        line, edges = Given(dtype, (t, h)), Given("int32", (n + 1,))
        attrs = dict(causal=n > 3, scale=0.125)
        yield Problem("packed_attention", (q, k, v, edges, edges), attrs)
        yield Problem("packed_attention_gradient", (g, line, line, q, k, v, edges, edges), attrs)


def _heads(
    dtype: str,
    n: int,
    h: int,
    hk: int,
    t: int,
    s: int,
    d: int,
    e: int,
    attrs: dict[str, object],
    mask: str = "",
    split: bool = False,
    offset: int = 0,
) -> Iterator[Problem]:
    """Forward and backward; `split`: heads as a projection leaves them, [n, t, h, f]."""

    def rows(heads: int, length: int, features: int) -> Given:
        strides = (length * heads * features, features, heads * features, 1) if split else ()
        return Given(dtype, (n, heads, length, features), strides, offset)

    q, k, v, g = rows(h, t, d), rows(hk, s, d), rows(hk, s, e), rows(h, t, e)
    line, more = (
        Given("float32" if "narrow" in attrs else dtype, (n, t, h)),
        [Given(mask, (n, h, t, s), (0, 0, s, 1) if mask == "bool" else ())] if mask else [],
    )
    name = "masked_attention" if mask else "attention"
    yield Problem(name, (q, k, v, *more), attrs)
    yield Problem(f"{name}_gradient", (g, line, line, q, k, v, *more), attrs)
