"""Calls of ops over rows, windows, indices and time, for kernel_problems."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from kernel_calls import FLOATS, Given, Problem

from clnet.core.op import OPS

# --- rows
_LENGTHS = [
    (1, 10),
    (64, 10),
    (4096, 1),
    (32, 1000),
    (8192, 64),
    (2048, 768),
    (64, 50257),
    (1, 65536),
    (3, 1 << 17),
    (512, 1 << 16),
    (100000, 30),
    (16, 4096),
    (40, 4097),
    (16, 8192),
    (24, 8193),
    (7, 17),
    (0, 8),
    (1 << 20, 4),
]
_ROW_OPS: dict[str, tuple[str, dict[str, object]]] = {  # operands: of x's shape, of a row, or labels
    "softmax": ("x", {"axis": -1}),
    "softmax_gradient": ("xx", {"axis": -1}),
    "log_softmax": ("x", {"axis": -1}),
    "log_softmax_gradient": ("xx", {"axis": -1}),
    "standardize": ("x", {"axes": (1,), "eps": 1e-5}),
    "standardize_gradient": ("xx", {"axes": (1,), "eps": 1e-5}),
    "layer_norm": ("xnn", {"eps": 1e-5}),
    "layer_norm_gradient": ("xxn", {"eps": 1e-5}),
    "layer_norm_parameter_gradient": ("xx", {"eps": 1e-6}),
    "rms_norm": ("xn", {"eps": 1e-6}),
    "rms_norm_gradient": ("xxn", {"eps": 1e-5}),
    "rms_norm_parameter_gradient": ("xx", {"eps": 1e-5}),
    "soft_cross_entropy": ("xx", {}),
    "cross_entropy": ("xi", {"smoothing": 0.0, "ignore_index": -100}),
    "cross_entropy_slope": ("xi", {"smoothing": 0.1, "ignore_index": 0}),
}
_ROW_OPS_IN_FULL = ("softmax", "layer_norm_gradient", "layer_norm_parameter_gradient", "cross_entropy_slope")


def rows() -> Iterator[Problem]:
    for (name, (kinds, attrs)), (j, (rows, n)) in itertools.product(_ROW_OPS.items(), enumerate(_LENGTHS)):
        if j % 2 and name not in _ROW_OPS_IN_FULL:
            continue
        shapes = {"x": (rows, n), "n": (n,), "i": (rows,)}
        for dtype in FLOATS[:1] if j % 3 else FLOATS[: 3 if j else 2]:
            yield Problem(name, tuple(Given("int32" if kind == "i" else dtype, shapes[kind]) for kind in kinds), attrs)
    x = Given("float32", (4, 64, 128))
    for name in ("softmax", "log_softmax"):
        yield Problem(name, (x,), dict(axis=-2))
        yield Problem(f"{name}_gradient", (x, x), dict(axis=-2))
    for axes in ((2,), (0, 2), (1, 2)):
        yield Problem("standardize", (x,), dict(axes=axes, eps=1e-3))
        yield Problem("standardize_gradient", (x, x), dict(axes=axes, eps=1e-3))
    yield Problem(
        "layer_norm", (Given("bfloat16", (64, 256)), Given("float32", (256,)), Given("float32", (256,))), dict(eps=1e-5)
    )
    yield Problem(
        "layer_norm_gradient",
        (Given("float64", (64, 256)), Given("float32", (64, 256)), Given("float32", (256,))),
        dict(eps=1e-5),
    )
    yield Problem(
        "cross_entropy", (Given("float32", (32, 1000)), Given("int64", (32,))), dict(smoothing=0.0, ignore_index=-1)
    )


# --- windows
_WINDOWS = [  # x, size, stride, low, high, dilation
    ((32, 64, 112, 112), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    ((128, 16, 28, 28), (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)),
    ((8, 256, 7, 7), (7, 7), (7, 7), (0, 0), (0, 0), (1, 1)),
    ((4, 32, 35, 35), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    ((8, 16, 1000), (4,), (4,), (0,), (0,), (1,)),
    ((2, 8, 16, 32, 32), (2, 2, 2), (2, 2, 2), (0, 0, 0), (0, 0, 0), (1, 1, 1)),
    ((2, 4, 40, 40), (3, 3), (1, 1), (2, 2), (2, 2), (2, 2)),
    ((1, 3, 600, 600), (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)),
    ((2, 4, 40, 40), (17, 17), (1, 1), (8, 8), (8, 8), (1, 1)),
    ((1, 2, 200), (80,), (1,), (0,), (0,), (1,)),
    ((4, 8, 21, 23), (5, 5), (3, 2), (2, 2), (2, 2), (1, 1)),
    ((2, 0, 8, 8), (2, 2), (2, 2), (0, 0), (0, 0), (1, 1)),
    ((2, 2, 64, 64), (16, 16), (1, 1), (0, 0), (0, 0), (1, 1)),
]


def pooling() -> Iterator[Problem]:
    for (shape, size, stride, low, high, dilation), dtype in itertools.product(_WINDOWS, FLOATS[:3]):
        if dtype == "float64" and len(shape) == 4 and shape[0] > 2:
            continue
        how: dict[str, object] = dict(size=size, stride=stride, low=low, high=high, dilation=dilation)
        ends = zip(shape[2:], size, stride, low, high, dilation, strict=True)
        y = (*shape[:2], *((s + a + b - d * (k - 1) - 1) // t + 1 for s, k, t, a, b, d in ends))
        x, g = Given(dtype, shape), Given(dtype, y)
        for name in ("max_pool", "max_pool_index", "sum_pool"):
            yield Problem(name, (x,), how)
        yield Problem(
            "max_pool_gradient", (g, Given("uint8" if np.prod(size) <= 256 else "int32", y)), dict(how, n=shape[2:])
        )
        yield Problem("sum_pool_gradient", (g,), dict(how, n=shape[2:]))
    yield Problem(
        "max_pool_gradient",
        (Given("int32", (1, 2, 4)), Given("uint8", (1, 2, 4))),
        dict(size=(2,), stride=(2,), low=(0,), high=(0,), dilation=(1,), n=(8,)),
    )


# --- rows by number, pieces, entries
def indexed() -> Iterator[Problem]:
    tables = [
        (1, 50257, 768, 8192),
        (1, 10, 4, 3),
        (4, 1000, 64, 20000),
        (1, 100000, 1, 1000000),
        (1, 128, 300, 512),
        (1, 2708, 1433, 10556),
        (1, 3, 64, 100000),
        (1, 20000, 2000, 64),
        (1, 300000, 16, 70000),
        (2, 70000, 40000, 5),
    ]
    for batch, rows, width, edges in tables:
        for dtype, index in (("float32", "int32"), ("float64", "int64") if edges % 16 else ("int8", "int32")):
            x, source, i = (
                Given(dtype, (batch, rows, width)),
                Given(dtype, (batch, edges, width)),
                Given(index, (edges,)),
            )
            yield Problem("gather", (x, i), dict(fill="zero" if batch > 1 else "nan"))
            yield Problem("scatter_add", (source, i), dict(rows=rows))
            yield Problem("scatter_argmax", (source, i), dict(rows=rows))
    for batch, rows, edges, width in (
        (1, 3, 9, 1), (2048, 500, 300, 1), (64, 1000, 5, 1), (1, 4096, 70000, 64), (3, 7, 2, 300)
    ):
        for dtype, index in (("float32", "int32"), ("float16", "int64")):
            i = Given(index, (batch, edges, width))
            yield Problem("gather_elements", (Given(dtype, (batch, rows, width)), i), dict(fill="nan"))
            yield Problem("scatter_elements", (Given(dtype, (batch, edges, width)), i), dict(rows=rows))
    for rows, edges in ((0, 5), (5, 0)):
        yield Problem("scatter_add", (Given("float32", (1, edges, 3)), Given("int32", (edges,))), dict(rows=rows))
    for rows, columns, width, edges, values in (
        (2708, 2708, 16, 10556, "float32"),
        (5, 7, 3, 9, "float32"),
        (100000, 50000, 64, 1000000, "float32"),
        (64, 64, 1, 200, "float32"),
        (300, 200, 100, 4000, "float64"),
        (10, 10, 4, 0, "float32"),
        (10, 10, 4, 8, "bfloat16"),
    ):
        matrix = "float32" if values == "bfloat16" else values
        x, g, entries, at = (
            Given(matrix, (columns, width)),
            Given(values, (rows, width)),
            Given(values, (edges,)),
            Given("int32", (edges,)),
        )
        yield Problem("sparse_matmul", (entries, at, at, x), dict(rows=rows))
        if edges:
            yield Problem("sparse_places", (g, at, x, at))
    for n, pieces, dtype, offsets in (
        (1 << 20, 100, "float32", "int32"),
        (1000, 3, "float64", "int32"),
        (25_000_000, 161, "float32", "int32"),
        (10, 1, "float32", "int64"),
        (0, 2, "float32", "int32"),
        (5000, 900, "float32", "int32"),
    ):
        x, ends = Given(dtype, (n,)), Given(offsets, (pieces + 1,))
        yield Problem("segment_dot", (x, x, ends))
        yield Problem("segment_spread", (Given(dtype, (pieces,)), ends), dict(size=n))
    yield Problem("segment_dot", (Given("float32", (64,)), Given("float64", (64,)), Given("int32", (3,))))


# --- loops over time
def loops() -> Iterator[Problem]:
    for (cell, (gates, states, slots)), (t, b, h) in itertools.product(
        _cells().items(),
        (
            (28, 128, 128),
            (100, 1, 64),
            (35, 20, 200),
            (50, 64, 256),
            (12, 300, 512),
            (7, 3, 5),
            (20, 1000, 32),
            (10, 16, 1024),
        ),
    ):
        for dtype in ("float32", "float64") if h == 64 else ("float32",):
            state, w = Given(dtype, (states, b, h)), Given(dtype, (gates * h, h))
            attrs: dict[str, object] = dict(cell=cell, reverse=b == 128)
            yield Problem("recurrence", (Given(dtype, (t, b, gates * h)), state, w, Given(dtype, (gates * h,))), attrs)
            yield Problem(
                "recurrence_gradient",
                (Given(dtype, (1 if h == 64 else slots, t, b, h)), Given(dtype, (slots, t, b, h)), state, w),
                attrs,
            )
    for t, n, c, s, dtype, packed in (
        (150, 16, 29, 40, "float32", 0),
        (1000, 64, 80, 200, "float32", 0),
        (12, 2, 5, 3, "float64", 0),
        (50, 4, 5000, 10, "float32", 33),
    ):
        lengths = Given("int32", (n,))
        given = (Given(dtype, (t, n, c)), Given("int32", (packed,) if packed else (n, s)), lengths, lengths)
        yield Problem("ctc", given, dict(blank=0, width=s))
        yield Problem("ctc_slope", given, dict(blank=c - 1, width=s))


def _cells() -> dict[str, tuple[int, int, int]]:
    """Gates, states and slots of each cell, from the op's own examples."""
    op = OPS["recurrence_gradient"]
    assert op.samples is not None
    shapes = {str(c.attrs["cell"]): [a if isinstance(a, tuple) else a.shape for a in c.args] for c in op.samples()}
    return {cell: (w[0] // w[1], state[0], y[0]) for cell, (_, y, state, w) in shapes.items()}


def resampled() -> Iterator[Problem]:
    for rule, (n, m), (a, d), dtype in itertools.product(
        ("linear", "corners", "area", "nearest"),
        ((32, 64), (7, 7), (100, 30), (1000, 3), (200, 4), (1, 9)),
        ((64, 1), (96, 56)),
        ("float32", "float64"),
    ):
        if dtype == "float32" or n < 30:
            yield Problem("resample", (Given(dtype, (a, n, d)),), dict(rule=rule, n=n, m=m))
            yield Problem("resample_adjoint", (Given(dtype, (a, m, d)),), dict(rule=rule, n=n, m=m))


def ordered() -> Iterator[Problem]:
    for dtype in ("float32", "float64", "int8"):
        for rows, n, k in ((1, 1 << 24, 1000), (1, 1 << 24, 10000), (4096, 1024, 5), (64, 200_000, 100)):
            yield Problem("top", (Given(dtype, (rows, n)),), dict(k=k, descending=True))
        for a, n, how in ((1, 1 << 24, "SUM"), (4096, 1024, "PRODUCT"), (1, 1 << 20, "MAXIMUM")):
            out = "int64" if how == "MAXIMUM" or dtype == "int8" else dtype
            yield Problem("cumulative", (Given(dtype, (a, n, 1)),), dict(how=how, out=out, reverse=False))
