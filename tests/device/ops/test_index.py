"""Gathers and scatters: indices outside, empty rows, NaN, the many-item sort,
the GPU's kernels on whatever device there is.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.op import OPS, Case
from clnet.core.spec import DTYPES, FLOATS, np_dtype
from clnet.core.tensor import tensor
from clnet.kernels.rows import index as family
from clnet.ops.pointwise import arange
from clnet.workbench.evidence import checks
from clnet.workbench.evidence.cases import arrays, cases

MANY = Case(((1, 5000, 7), np.random.default_rng(0).integers(0, 3000, 5000)), dict(rows=3001))
ON_DEVICE = arange(n=3, dtype="int32") * 4 - 4  # -4, 0, 4: indices that the host does not know


def test_device_indices_outside_are_nan_and_dropped(engine: Any) -> None:
    x = tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    y, z, w = engine.values([F.gather(x, ON_DEVICE), F.scatter_add(x, ON_DEVICE, 3),
                             F.gather(x.astype("int32"), ON_DEVICE)])
    assert np.isnan(y[[0, 2]]).all() and np.array_equal(y[1], [0, 1])
    assert np.array_equal(z, [[2, 3], [0, 0], [0, 0]])
    assert np.array_equal(w, [[0, 0], [0, 1], [0, 0]])
    with pytest.raises(IndexError, match=r"got a range of \[-4, 4\]"):
        F.expect_indices("gather", ON_DEVICE, 3)


def test_scatter_max_keeps_the_first_maximum_and_nan(engine: Any) -> None:
    source, index = tensor(np.float32([[1, 5], [1, np.nan], [0, 9], [-3, -2]])), np.array([2, 2, 2, 0])
    y = F.scatter_max(source, index, 4)
    g = gradients(y, [source], tensor(np.arange(1, 9, dtype=np.float32).reshape(4, 2)))[0]
    value, slope = engine.values([y, g])
    assert np.array_equal(value, np.float32([[-3, -2], [0, 0], [1, np.nan], [0, 0]]), equal_nan=True)
    assert np.array_equal(slope, np.float32([[5, 0], [0, 6], [0, 0], [1, 2]]))


@pytest.mark.parametrize("name", ["gather", "scatter_add", "scatter_argmax", "gather_elements", "scatter_elements",
                                  "sparse_matmul", "sparse_places"])
def test_gpu_kernels_run_anywhere(name: str, engine: Any, as_gpu: Any) -> None:
    if engine.device.is_host:
        pytest.skip("the host engine has no kernels")
    engine = as_gpu(engine, vector_width=engine.device.vector_width)
    for case in [*cases(OPS[name])[1:3], *([MANY] if name == "scatter_add" else [])]:
        result = checks.parity(OPS[name], case, engine)
        assert result, str(result)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_of_every_dtype_on_gpus(dtype: str, engine: Any, as_gpu: Any) -> None:
    """Whole vectors of rows, at the beginning of memory and one element after it."""
    if engine.device.is_host:
        pytest.skip("the host engine has no kernels")
    engine, i = as_gpu(engine, vector_width=engine.device.vector_width), np.array([2, 0, -1, 2])
    flat = (np.arange(41) % 2 if dtype == "bool" else np.arange(41) - 20 * (dtype in FLOATS)).astype(np_dtype(dtype))
    x, late = tensor(flat[:40].reshape(5, 8)), tensor(flat)[1:].reshape(5, 8)
    added = np.zeros((3, 8), np_dtype(dtype))
    np.add.at(added, i, flat[:32].reshape(4, 8))
    y, z = engine.values([F.gather(x, i), F.gather(late, i)])
    assert np.array_equal(y, flat[:40].reshape(5, 8)[i]) and np.array_equal(z, flat[1:].reshape(5, 8)[i])
    if dtype != "bool":
        assert np.array_equal(engine.values([F.scatter_add(x[:4], i, 3)])[0], added)


@pytest.mark.parametrize("edges", [1, 1023, 1024, 5000])
def test_ranks_of_edges_on_gpus(edges: int, engine: Any, as_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine.device.is_host:
        pytest.skip("the host engine has no kernels")
    monkeypatch.setattr(family, "RANKS", 1 << 40)
    # some outside, some from the end
    engine, index = as_gpu(engine, vector_width=engine.device.vector_width), MANY.args[1][:edges] - 40
    for op in (OPS["scatter_add"], OPS["scatter_argmax"]):
        result = checks.parity(op, Case(((1, edges, 3), index), dict(rows=2900)), engine)
        assert result, str(result)


@pytest.mark.parametrize(("shape", "axis", "many"), [((70, 33), 1, 50), ((33, 70), 0, 20), ((3, 500, 5), 1, 7),
                                                     ((2, 3, 40), 2, 90), ((400,), 0, 900)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_an_index_of_each_element(shape: tuple[int, ...], axis: int, many: int, dtype: str, engine: Any) -> None:
    """Taken, and what is added to them, in the order of the index; lines that are fewer than cores, and more."""
    rng, n = np.random.default_rng(sum(shape)), shape[axis]
    x = rng.integers(-99, 99, shape).astype(dtype)
    index = rng.integers(-n, n, (*shape[:axis], many, *shape[axis + 1 :])).astype("int32")
    v = rng.integers(-3, 3, index.shape).astype(dtype)
    added = x.copy()
    lines = list(np.ogrid[tuple(map(slice, index.shape))])
    lines[axis] = index % n
    np.add.at(added, tuple(lines), v)
    t, i = tensor(x), cast_on_device(index)
    taken = F.take_along_axis(t, i, axis)
    asked = [taken, F.put_along_axis(t, i, v, axis, how="add")]
    asked += [gradients(taken, [t], tensor(v))[0]] if dtype == "float32" else []
    y, z, *slope = engine.values(asked)
    assert np.array_equal(y, np.take_along_axis(x, index, axis)) and np.array_equal(z, added)
    assert not slope or np.array_equal(slope[0], added - x)


def cast_on_device(index: np.ndarray[Any, Any]) -> Any:
    """An index that only the device knows."""
    return tensor(index) + 0 * arange(n=index.shape[-1], dtype="int32")


def test_elements_outside_are_nan_and_dropped(engine: Any) -> None:
    x, i = tensor(np.arange(12, dtype=np.float32).reshape(4, 3)), np.array([[-4, 0, 4]] * 4)
    i = tensor(i.astype("int32")) + 0 * arange(n=3, dtype="int32")
    y, z = engine.values([F.take_along_axis(x, i, 1), F.put_along_axis(x, i, np.float32(5), 1, how="add")])
    assert np.isnan(y[:, [0, 2]]).all() and np.array_equal(y[:, 1], [0, 3, 6, 9])
    assert np.array_equal(z[:, 0], [5, 8, 11, 14]) and np.array_equal(z[:, 1:], np.asarray(x.numpy())[:, 1:])


@pytest.mark.parametrize(("batch", "way"), [(2, "chosen"), (3, "one digit"), (4, "many digits")])  # plans of their own
@pytest.mark.parametrize(("edges", "rows", "width"), [(100, 40000, 1), (5000, 700, 3), (300, 9000, 8), (1, 1, 1),
                                                      (2000, 90, 1), (900, 70, 37), (700, 31, 96)])
def test_rows_are_added_in_the_order_of_edges(edges: int, rows: int, width: int, batch: int, way: str, engine: Any,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit, sorted or not: of terms that cancel, what another order would lose stays."""
    if way != "chosen":
        monkeypatch.setattr(family, "ADDED_EDGE", math.inf)
        monkeypatch.setattr(family, "_cpu_digits", lambda p, need, device: (2, need if way == "one digit" else 3))
    rng = np.random.default_rng(edges)
    source = rng.standard_normal((batch, edges, width)) * 10.0 ** rng.integers(-4, 8, (batch, edges, width))
    source = source.astype("float32")
    index, y = rng.integers(-rows, rows, edges).astype("int32"), np.zeros((batch, rows, width), "float32")
    np.add.at(y, (slice(None), index), source)
    assert np.array_equal(engine.values([F.scatter_add(source, index, rows, axis=1)])[0], y)


def test_sort_in_many_chunks_and_digits(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "_cpu_digits", lambda *_: (3, 5))
    case = dataclasses.replace(MANY, attrs=dict(rows=3002))  # a plan of its own
    for op in (OPS["scatter_add"], OPS["scatter_argmax"]):
        result = checks.parity(op, case, engine)
        assert result, str(result)
    assert checks.determinism(checks.case_function(OPS["scatter_add"], case), arrays(OPS["scatter_add"], case), engine)


@pytest.mark.parametrize("how", ["set", pytest.param("multiply", marks=pytest.mark.full)])
def test_places_written_on_the_device(how: str, engine: Any) -> None:
    """Indices that only the device has, all the same row in the end: the same bits every time."""
    x, v = np.arange(15, dtype=np.float32).reshape(5, 3), np.float32([[1e8], [3], [-1e8], [5], [7]])
    at = tensor(x).at[arange(n=5, dtype="int32") % 2 * 5 - 1]  # -1, 4, -1, 4, -1
    x[4] = 7 if how == "set" else x[4] * np.float32(-1e16 * 105)
    first, again = (engine.values([getattr(at, how)(v)])[0] for _ in range(2))
    assert np.allclose(first, x, rtol=1e-6, atol=0) and first.tobytes() == again.tobytes()
