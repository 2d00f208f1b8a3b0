"""Attention on tensor cores against float64: where a device has them,
and with their instructions emulated where it has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.spec import np_dtype
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.engine.explain import explain
from clnet.kernels.tuning import defaults, overriding

pytestmark = pytest.mark.timeout(1800)
rng = np.random.default_rng(3)

# |error| / |result| (Frobenius norms) against float64 on the rounded operands. The weights p and their cotangents ds
# are rounded to 8 (bf16) or 11 (fp16) bits before they are multiplied, half a unit each, and so are the results;
# gradients come from three or four such roundings in a row.
UNIT = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
WIDE = {"bf16": "bfloat16", "fp16": "float16"}

# batch, query heads, key heads, queries, keys, features, features of v, causal
CASES = [(1, 2, 2, 65, 65, 64, 64, True), (2, 2, 1, 63, 127, 32, 64, True), (1, 4, 2, 127, 64, 64, 32, False),
         (1, 1, 1, 1, 65, 128, 128, True), (1, 1, 1, 130, 70, 32, 32, True), (1, 3, 1, 64, 3, 64, 64, False)]


@pytest.fixture(params=["own", pytest.param("played", marks=pytest.mark.slow)])
def cores(request: pytest.FixtureRequest, tensor_cores: Any) -> Iterator[Any]:
    """An engine whose device has tensor cores of its own,
    or (slow: a program takes minutes to compile) plays to have them.
    """
    played = request.param == "played"
    fewer = {name: (2, *tiles) for name, (_, *tiles) in defaults("attention_tensor").items()} if played else {}
    with overriding(("attention_tensor", ""), fewer):
        yield tensor_cores(played)


def exact(q: Any, k: Any, v: Any, g: Any, causal: bool) -> tuple[Any, ...]:
    """y, dq, dk, dv in float64."""
    group, (t, s) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    kk, vv = (np.repeat(x, group, 1) for x in (k, v))
    scores = q @ kk.swapaxes(-1, -2) / q.shape[3] ** 0.5
    if causal:
        scores = np.where(np.arange(s)[None] <= np.arange(t)[:, None] + s - t, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    p = np.exp(scores - np.where(np.isfinite(top), top, 0))
    p /= np.maximum(p.sum(-1, keepdims=True), 1e-300)
    y, dp = p @ vv, g @ vv.swapaxes(-1, -2)
    ds = p * (dp - (g * y).sum(-1, keepdims=True)) / q.shape[3] ** 0.5
    dk, dv = ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g
    joined = (x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2) for x in (dk, dv))
    return y, ds @ kk, *joined


def near(found: list[Any], wanted: tuple[Any, ...], unit: float) -> None:
    for name, mine, oracle in zip(("y", "dq", "dk", "dv"), found, wanted, strict=False):
        mine = np.asarray(mine, np.float64)
        assert np.isfinite(mine).all() and mine.shape == oracle.shape, name
        error = np.linalg.norm(mine - oracle) / max(np.linalg.norm(oracle), 1e-30)
        assert error < (1 if name == "y" else 2) * unit, (name, error, unit)


def work(case: Any, dtype: str, stored: str) -> tuple[list[Any], tuple[Any, ...]]:
    """(y, dq, dk, dv) as tensors, and in float64 from operands rounded to dtype."""
    n, h, hk, t, s, d, e, causal = case
    arrays = [rng.standard_normal(shape).astype(np.float32)
              for shape in ((n, h, t, d), (n, hk, s, d), (n, hk, s, e), (n, h, t, e))]
    rounded = [a.astype(np_dtype(dtype)) for a in arrays]
    q, k, v, g = (tensor(a.astype(np.float32), stored) for a in rounded)
    y = F.attention(q, k, v, causal=causal)
    return [y, *gradients(y, [q, k, v], g)], exact(*(a.astype(np.float64) for a in rounded), causal)


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_sixteen_bit_tensors(cores: Any, case: Any, dtype: str) -> None:
    tensors, wanted = work(case, dtype, dtype)
    found = cores.values(tensors)
    near(found, wanted, UNIT[dtype])
    assert all(np.array_equal(a, b) for a, b in zip(found, cores.values(tensors), strict=True))


@pytest.mark.parametrize("precision", WIDE)
@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_float32_tensors_in_a_narrower_precision(cores: Any, case: Any, precision: str) -> None:
    with clnet.precision(precision):
        tensors, wanted = work(case, WIDE[precision], "float32")
    near(cores.values(tensors), wanted, UNIT[WIDE[precision]])
    with on(cores):
        assert f"{precision} on tensor cores" in repr(explain(*tensors))


def test_heads_that_are_views_of_one_projection(cores: Any) -> None:
    """Rows that lie in whole pieces are read where they lie, others are packed first."""
    n, t, h, d = 2, 70, 2, 32
    for features, start in ((3 * h * d, 0), (3 * h * d + 8, 8), (3 * h * d + 3, 1)):
        x = rng.standard_normal((n, t, features)).astype(np_dtype("bfloat16"))
        g = rng.standard_normal((n, h, t, d)).astype(np_dtype("bfloat16"))
        whole = tensor(x.astype(np.float32), "bfloat16")
        thirds = [slice(start + i * h * d, start + (i + 1) * h * d) for i in range(3)]
        parts = [F.permute(F.reshape(whole[:, :, third], (n, t, h, d)), 0, 2, 1, 3) for third in thirds]
        y = F.attention(*parts, causal=True)
        (dx,) = gradients(y, [whole], tensor(g.astype(np.float32), "bfloat16"))
        cut, back = ([np.asarray(a[:, :, third], np.float64).reshape(n, t, h, d).swapaxes(1, 2) for third in thirds]
                     for a in (x, cores.values([dx])[0]))
        want = exact(*cut, g.astype(np.float64), True)
        near([cores.values([y])[0], *back], want, UNIT["bfloat16"])


@pytest.mark.parametrize("tiles", [(2, 2, 32, 3, 0), (4, 1, 32, 2, 1), (1, 1, 64, 2, 0), (4, 32, 3), (8, 128, 2),
                                   (12, 64, 2), (8, 64, 3)], ids=str)
def test_other_tiles(cores: Any, tiles: Any) -> None:
    hopper = tiles[1] >= 32
    if hopper and not cores.device.hopper:
        pytest.skip("tiles of wgmma, which only Hopper has")
    others = {name: tiles if name.startswith("hopper") == hopper else None for name in defaults("attention_tensor")}
    with overriding(("attention_tensor", ""), others):
        tensors, wanted = work((1, 2, 1, 350, 370, 64, 64, True), "bfloat16", "bfloat16")
        near(cores.values(tensors), wanted, UNIT["bfloat16"])


def test_rows_with_nothing_to_attend_to_and_large_scores(cores: Any) -> None:
    arrays = [rng.standard_normal((1, 1, n, 32)).astype(np_dtype("bfloat16")).astype(np.float32) for n in (80, 10, 10)]
    q, k, v = (tensor(a, "bfloat16") for a in arrays)
    y = F.attention(q, k, v, causal=True)
    values = [np.asarray(x, np.float32) for x in cores.values([y, *gradients(y, [q, k, v], y)])]
    assert (values[0][:, :, :70] == 0).all() and (values[1][:, :, :70] == 0).all()
    assert all(np.isfinite(x).all() for x in values)
    sharp = np.asarray(cores.values([F.attention(tensor(arrays[0] * 65536, "bfloat16"), k, v)])[0], np.float32)
    best = np.argmax(arrays[0] @ arrays[1].swapaxes(-1, -2), -1)[0, 0]
    assert np.abs(sharp[0, 0] - arrays[2][0, 0][best]).max() < 0.05


def test_what_has_no_such_kernel_is_computed_in_float32(cores: Any) -> None:
    with on(cores):
        narrow = [tensor(rng.standard_normal((1, 1, 9, 24)).astype(np.float32), "bfloat16") for _ in range(3)]
        assert "tensor cores" not in repr(explain(F.attention(*narrow)))
        wanted = exact(*(np.asarray(x.numpy(), np.float64) for x in (*narrow, narrow[0])), False)[0]
        near([F.attention(*narrow).numpy()], (wanted,), UNIT["bfloat16"])
        wide = [F.cast(tensor(rng.standard_normal((1, 1, 9, 32)).astype(np.float32), "bfloat16"), "float32")
                for _ in range(4)]
        y = F.attention(*wide[:3])
        assert "tensor cores" not in repr(explain(y, *gradients(y, wide[:3], wide[3])))
