"""Every dtype through pointwise ops, reductions, casts, gathers and views, against NumPy.

float16 and bfloat16 are storage types: a device computes them in float32 and rounds what it stores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.op import OPS, Pointwise
from clnet.core.spec import DTYPES, FLOATS, INTS, NARROW, np_dtype
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.engine.explain import explain
from clnet.engine.record import Recorded
from clnet.workbench.evidence.checks import TOLERANCE, compare

# The widest of each kind and the narrowest floats by default, all with -m slow:
# every dtype compiles programs of its own.
EVERY = [pytest.param(d, marks=pytest.mark.slow) if d not in ("bool", "int64", "uint64", "float16", "float64") else d
         for d in DTYPES]
SHAPE = (3, 37)  # two vectors and a tail on the widest device


def draw(dtype: str, seed: int = 0, low: float = 1, high: float = 9) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(seed).uniform(low, high, SHAPE)
    return np.asarray(x > (low + high) / 2 if dtype == "bool" else x, np_dtype(dtype))


def assert_same(outputs: list[Any], wanted: list[Any], engine: Any, terms: int = 1) -> None:
    """Device values against NumPy's: integers exactly, floats to the table of the checks."""
    for k, (got, want, t) in enumerate(zip(engine.values(outputs), wanted, outputs, strict=True)):
        want = np.asarray(want)
        same = got.dtype == np_dtype(t.dtype) and got.shape == want.shape
        assert same, (k, got.dtype, want.dtype, got.shape, want.shape)
        if t.dtype in FLOATS:
            a, b = got.astype(np.float64), want.astype(np.float64)
            assert np.all(np.abs(a - b) <= TOLERANCE[t.dtype] * np.sqrt(terms) * (1 + np.abs(b))), (k, t, a, b)
        else:
            assert got.dtype == want.dtype and np.array_equal(got, want), (k, t, got, want)


@pytest.mark.parametrize("dtype", INTS)
def test_integer_arithmetic_wraps_and_keeps_its_type(engine: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    x, y = draw(dtype), draw(dtype, 1)
    x[0, :6] = [info.max, info.min, 0, 1, info.max, info.min]
    y[0, :6] = [info.max, 1, 3, 2, 1, info.max]
    if info.min < 0:
        x[1], y[2] = -x[1], -y[2]
    a, b = tensor(x), tensor(y)
    with np.errstate(all="ignore"):
        outputs = [a + b, a - b, a * b, a // b, a % b, -a, abs(a), F.sign(a), F.square(a), F.maximum(a, b),
                   F.minimum(a, b)]
        wanted = [x + y, x - y, x * y, x // y, x % y, -x, np.abs(x), np.sign(x), x * x, np.maximum(x, y),
                  np.minimum(x, y)]
    assert_same(outputs, wanted, engine)
    outputs = [a & b, a | b, a ^ b, ~a, F.relu(a), F.where(a > b, a, b)]
    assert_same(outputs, [x & y, x | y, x ^ y, ~x, np.maximum(x, 0), np.where(x > y, x, y)], engine)
    assert_same([F.pow(tensor(draw(dtype)), tensor(draw(dtype, 1, 0, 3)))], [draw(dtype) ** draw(dtype, 1, 0, 3)],
                engine)
    assert_same([a << tensor(draw(dtype, 2, 0, 6)), a >> tensor(draw(dtype, 2, 0, 6))],
                [x << draw(dtype, 2, 0, 6), x >> draw(dtype, 2, 0, 6)], engine)


@pytest.mark.cheap
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
@pytest.mark.parametrize("shape", [(3,), (3, 37), (5, 16)])
def test_what_is_an_inverse_stays_one_beside_a_maximum(engine: Any, dtype: str, shape: tuple[int, ...]) -> None:
    """One kernel each: of such a pair Intel's compiler gave wrong values, in elements that fill no vector."""
    x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    y = np.random.default_rng(1).integers(0, 9, shape).astype(dtype)
    ones = ~np.zeros((), dtype)
    inverses = [lambda x: ~x, lambda x: x ^ int(ones), lambda x: int(ones) - x, lambda x: -x - 1]
    for inverse in inverses:
        for most, np_most in ((F.maximum, np.maximum), (F.minimum, np.minimum)):
            a, b = tensor(x), tensor(y)
            assert_same([inverse(a), most(a, b), ~most(b, a)], [~x, np_most(x, y), ~np_most(x, y)], engine)


@pytest.mark.parametrize("dtype", EVERY)
def test_comparisons(engine: Any, dtype: str) -> None:
    x, y = draw(dtype), draw(dtype, 1)
    y[:, ::3] = x[:, ::3]
    a, b = tensor(x), tensor(y)
    assert_same([a < b, a <= b, a > b, a >= b, F.equal(a, b), F.not_equal(a, b)],
                [x < y, x <= y, x > y, x >= y, x == y, x != y], engine)


def test_bool_logic(engine: Any) -> None:
    x, y = draw("bool"), draw("bool", 1)
    a, b = tensor(x), tensor(y)
    outputs = [a & b, a | b, a ^ b, ~a, a + b, a * b, F.logical_not(a), F.where(a, 1.5, 2.5)]
    assert_same(outputs, [x & y, x | y, x ^ y, ~x, x | y, x & y, ~x, np.where(x, 1.5, 2.5)], engine)


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_functions(engine: Any, dtype: str) -> None:
    x, y = draw(dtype, 0, 0.5, 2.5), draw(dtype, 1, 0.5, 2.5)
    wide = x.astype(np.float64), y.astype(np.float64)
    for name, op in sorted(OPS.items()):
        arithmetic = isinstance(op, Pointwise) and op.family == "pointwise" and op.accepts in ("float", "number", "any")
        if arithmetic and name not in ("full", "arange", "cast", "where", "mod", "floordiv"):
            result = compare(lambda *t, op=op: op(*t), [x, y][: len(op.args)], engine)
            assert result, f"{name}: {result}"
    assert_same([tensor(x) % tensor(y), tensor(x) // tensor(y)], [np.mod(*wide), np.floor_divide(*wide)], engine)


@pytest.mark.parametrize("dtype", EVERY)
def test_reductions(engine: Any, dtype: str) -> None:
    x = draw(dtype, 0, 0, 2 if dtype in FLOATS else 4)
    t, wide = tensor(x), x.astype(np.float64) if dtype in FLOATS else x
    for axes in ((0,), (1,), (0, 1)):
        outputs = [F.sum(t, axes), F.max(t, axes), F.min(t, axes)]
        wanted = [wide.sum(axes), wide.max(axes), wide.min(axes)]
        if dtype != "bool":
            outputs.append(F.prod(t[:, :5], axes))
            wanted.append(wide[:, :5].prod(axes))
        assert_same(outputs, wanted, engine, terms=x.size)
    assert_same([F.argmax(t, 1), F.argmin(t, 1), F.argmax(t)], [x.argmax(1), x.argmin(1), np.asarray(x.argmax())],
                engine)


@pytest.mark.parametrize("source", EVERY)
def test_casts(engine: Any, source: str) -> None:
    x = draw(source, 0, -99 if source in FLOATS or source.startswith("int") else 0, 99)
    inside = np.abs(x) if source in FLOATS or source.startswith("int") else x
    outputs = [F.cast(tensor(inside if to.startswith("u") else x), to) for to in DTYPES]
    wanted = [(inside if to.startswith("u") else x).astype(np_dtype(to)) for to in DTYPES]
    for t, got, want in zip(outputs, engine.values(outputs), wanted, strict=True):
        assert got.dtype == want.dtype and np.array_equal(got, want), (source, t.dtype, got, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_round_to_nearest_even(engine: Any, dtype: str) -> None:
    rng = np.random.default_rng(5)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 65504, 65519, 65520, 1e38, 3.4e38, 6e-8, 2.98e-8]
    ties = [1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8]
    x = np.concatenate([rng.standard_normal(500) * 10.0 ** rng.integers(-7, 6, 500), special, ties]).astype(np.float32)
    with np.errstate(all="ignore"):
        want = x.astype(np_dtype(dtype))
        # arithmetic on what was rounded, in float32; it rounds again where it is stored
        thrice = want.astype(np.float32) * 3
    narrow = F.cast(tensor(x), dtype)
    got, through, inner = engine.values([narrow, F.cast(narrow * 3, "float32"), F.cast(narrow, "float32")])
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(through, thrice, equal_nan=True)
    assert np.array_equal(inner, want.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("dtype", EVERY)
def test_data_movement(engine: Any, dtype: str) -> None:
    x, i = draw(dtype), np.array([2, 0, -1, 1, 2])
    t = tensor(x)
    outputs = [F.gather(t, i), F.gather(t, i, 1), t.T, t[1:, ::3], F.flip(t, 1), F.pad(t, (1, 0), (0, 2)),
               F.concat([t, t, t], 0), F.concat([t, t], 1), F.expand(t[:1], SHAPE),
               F.full(value=1, dtype=dtype, shape=(3,)), F.windows(t, (2,))]
    wanted = [x[i], x[:, i], x.T, x[1:, ::3], x[:, ::-1], np.pad(x, ((1, 0), (0, 2))),
              np.concatenate([x, x, x]), np.concatenate([x, x], 1), np.broadcast_to(x[:1], SHAPE),
              np.ones(3, np_dtype(dtype)), np.stack([x[:, :-1], x[:, 1:]], -1)]
    for k, (got, want) in enumerate(zip(engine.values(outputs), wanted, strict=True)):
        assert got.dtype == want.dtype and np.array_equal(got, want), (k, got, want)


@pytest.mark.parametrize("index", INTS)
def test_index_dtypes(engine: Any, index: str) -> None:
    x, i = draw("float32"), np.array([2, 0, 1, 1, 2], index)
    y = np.zeros((3, 3), np.float32)
    np.add.at(y, i, x.T[:5, :3])
    assert_same([F.gather(tensor(x), tensor(i)), F.scatter_add(tensor(x.T[:5, :3]), tensor(i), 3)], [x[i], y], engine,
                terms=5)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("width", [37, 64])
def test_rows_of_a_16_bit_table_are_read_where_they_lie(engine: Any, dtype: str, width: int) -> None:
    x = np.asarray(np.random.default_rng(1).standard_normal((50, width)), np_dtype(dtype))
    rows = F.gather(tensor(x), tensor(np.array([3, -1, 3, 49, 0])))
    y = rows.astype("float32") * 2
    if engine.compiles:
        assert [name for t in (rows, y) for name, _ in explain(t).launches] == ["gather", "gather"]
    assert_same([rows, y], [x[[3, -1, 3, 49, 0]], x[[3, -1, 3, 49, 0]].astype(np.float32) * 2], engine)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int64", "uint8"])
def test_scatter_dtypes(engine: Any, dtype: str) -> None:
    x, i = draw(dtype), np.array([4, 0, 4])
    y = np.zeros((5, SHAPE[1]), np.float64 if dtype in FLOATS else dtype)
    np.add.at(y, i, x)
    assert_same([F.scatter_add(tensor(x), i, 5)], [y], engine, terms=2)


@pytest.mark.parametrize(("integers", "floats"), [("bool", "float32"), ("uint8", "float32"), ("int8", "float32"),
                                                  ("int16", "float32"), ("int64", "float64")])
def test_a_float_beside_small_integers_is_single_precision(engine: Any, integers: str, floats: str) -> None:
    x = tensor(np.arange(2).astype(integers))
    y = x * 0.1
    assert y.dtype == floats
    np.testing.assert_array_equal(y.numpy(), np.arange(2).astype(floats) * np.dtype(floats).type(0.1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axes"), [((9, 300), 1), ((300, 40), 0), ((5, 33, 6), (0, 2)), ((3, 70, 48), 1),
                                             ((2, 16), 1), ((7, 3), None)], ids=str)
def test_the_first_extreme_of_lanes(dtype: str, shape: tuple[int, ...], axes: Any, engine: Any) -> None:
    """Ties, the least number everywhere, infinities and NaN, in vectors along the axes and across results."""
    rng = np.random.default_rng(5)
    for kind in ("tied", "least", "nan"):
        x = rng.integers(0, 2 if dtype == "bool" else 5, shape).astype(np_dtype(dtype))
        if kind == "least":
            x[...] = -np.inf if dtype in FLOATS else 0 if dtype == "bool" else np.iinfo(x.dtype).min
        if kind == "nan" and dtype in FLOATS:
            x[rng.random(shape) < 0.02] = np.nan
            x[rng.random(shape) < 0.02] = -np.inf
        found = engine.values([f(tensor(x), axes) for f in (F.argmax, F.argmin)])
        dims = tuple(range(x.ndim)) if axes is None else np.atleast_1d(axes)
        kept = [a for a in range(x.ndim) if a not in dims]
        flat = np.transpose(x, (*kept, *dims)).reshape(*(shape[a] for a in kept), -1).astype(wider(dtype))
        for y, least in zip(found, (False, True), strict=True):
            assert np.array_equal(y, (np.argmin if least else np.argmax)(flat, -1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_axes_that_are_turned(dtype: str, engine: Any) -> None:
    """Whole vectors from the end on and what is left, alone, beside what is not turned, and of a part."""
    x = np.random.default_rng(6).integers(0, 2 if dtype == "bool" else 99, (3, 5, 37)).astype(np_dtype(dtype))
    t = tensor(x)
    y = [F.flip(t, -1), F.flip(t, (0, 2)), F.flip(t), t[:, 1:, 33:2:-1],
         F.where(F.flip(t, 2) == t, t, t[:, ::-1])]
    wanted = [x[..., ::-1], x[::-1, :, ::-1], x[::-1, ::-1, ::-1], x[:, 1:, 33:2:-1],
              np.where(x[..., ::-1] == x, x, x[:, ::-1])]
    for got, want in zip(engine.values(y), wanted, strict=True):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_short_axes_that_are_turned(dtype: str, engine: Any) -> None:
    """Fewer than a vector has: of 8 bits Intel's compiler died, and the process with it."""
    for n in (2, 3, 8, 15):
        x = (np.arange(3 * n) % 2).astype(np_dtype(dtype)).reshape(3, n)
        t = F.flip(tensor(x), 1)
        y = [t, F.max(t, 0), t[::-1], tensor(x)[0, ::-1], tensor(x)[:, ::-2]]
        wanted = [x[:, ::-1], x.max(0)[::-1], x[::-1, ::-1], x[0, ::-1], x[:, ::-2]]
        for got, want in zip(engine.values(y), wanted, strict=True):
            assert np.array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiles_that_are_transposed(dtype: str, engine: Any) -> None:
    """Whole ones and what is left of rows and columns; alone, beside what is not, by two ways at once, of a part."""
    x = np.random.default_rng(7).integers(0, 2 if dtype == "bool" else 99, (3, 37, 50)).astype(np_dtype(dtype))
    t, z = tensor(x), tensor(np.ascontiguousarray(x[0, :, :37]))
    y = [F.permute(t, order) == tensor(np.transpose(x, order).copy()) for order in
         ((0, 2, 1), (2, 0, 1), (1, 2, 0), (2, 1, 0), (1, 0, 2))]
    p, q = t[:, 1:35, 2:36], t[:, :34, :34]
    y += [F.where(z == z.mT, z, z.mT), F.where(p.mT == p, q.mT, q)]
    part, other = x[:, 1:35, 2:36], x[:, :34, :34]
    wanted = [np.where(x[0, :, :37] == x[0, :, :37].T, x[0, :, :37], x[0, :, :37].T),
              np.where(part.swapaxes(1, 2) == part, other.swapaxes(1, 2), other)]
    values = engine.values(y)
    assert all(v.all() for v in values[:5])
    for got, want in zip(values[5:], wanted, strict=True):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("sizes", [(16, 16), (17, 300), (300, 17), (64, 1)], ids=str)
def test_transposed_copies_of_every_length(sizes: tuple[int, int], engine: Any) -> None:
    """One recorded step for batches of several sizes."""
    step = Recorded(lambda x: (x.mT * 2, F.permute(F.reshape(x, (-1, 4, 25)), (2, 0, 1)) + 1))
    for n in (*sizes, 33):
        x = np.random.default_rng(n).standard_normal((n, 100)).astype(np.float32)
        with on(engine):
            y, z = step(tensor(x))
            assert np.array_equal(y.numpy(), x.T * 2)
            assert np.array_equal(z.numpy(), x.reshape(-1, 4, 25).transpose(2, 0, 1) + 1)


def wider(dtype: str) -> Any:
    """What NumPy compares in: its bfloat16 is no type of its own."""
    return np.float32 if dtype == "bfloat16" else np_dtype(dtype)


@pytest.mark.parametrize("width", [10, 31, 49, 63])
def test_rows_of_halves_begin_at_any_address(width: int, engine: Any) -> None:
    """PoCL's own loads of vectors of halves end the process where a row begins between two vectors."""
    rng = np.random.default_rng(width)
    x = tensor(rng.standard_normal((67, width)).astype(np.float16))
    w = tensor(rng.standard_normal((width, 24)).astype(np.float16))
    wide, wide_w = (t.value.astype(np.float64) for t in (x, w))
    mean, spread = wide.mean(1, keepdims=True), wide.var(1, keepdims=True)
    outputs = [F.layer_norm(x), F.softmax(x), F.sum(x, 1), F.matmul(x, w), *gradients(F.layer_norm(x), [x], x)]
    normal, soft, total, product, slope = (a.astype(np.float64) for a in engine.values(outputs))
    e = np.exp(wide - wide.max(1, keepdims=True))
    xh = (wide - mean) / np.sqrt(spread + 1e-5)
    exact = (wide - mean - xh * (wide * xh).mean(1, keepdims=True)) / np.sqrt(spread + 1e-5)
    for found, want in ((normal, xh), (soft, e / e.sum(1, keepdims=True)), (total, wide.sum(1)),
                        (product, wide @ wide_w), (slope, exact)):
        np.testing.assert_allclose(found, want, rtol=2e-3, atol=2e-3)
