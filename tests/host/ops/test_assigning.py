"""x[key] and x.at[key] by every kind of key, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import Tensor, tensor
from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.errors import ClnetError, DTypeError, IndexingError, ShapeError

RNG = np.random.default_rng(0)
A = RNG.normal(0, 3, (4, 5, 6)).astype(np.float32)
P, J, TWICE = np.array([0, -1, 2]), np.array([[1], [3]]), np.array([2, 2, 2, 0, 2])
MASK, LINE, NO = A[:, :, 0] > 0, np.array([True, False, True, False, True]), np.zeros(5, bool)
ALL, EVEN, BACK = slice(None), slice(None, None, 2), slice(None, None, -1)
KEYS: list[Any] = [
    0, -1, ALL, slice(1, 3), EVEN, slice(None, None, -2), (slice(3, 0, -1), ..., -1), (..., None, slice(2, 2)), None,
    (1, 2, 3), P, (P, P), TWICE, (TWICE, TWICE), (ALL, TWICE), (P, ALL, P), (slice(1, 3), P, J), (0, ALL, P), (P, 0),
    (P, ALL, 0), (None, P, None, J), MASK, (MASK, P[:1]), (ALL, LINE), (EVEN, LINE), (ALL, LINE, 0), (..., P, J),
    (0, 1, P), (BACK, TWICE, EVEN), True, (P, P, P), ([], []), (J, P, ALL), (ALL, NO), ([0], [1]),
    ([1, 0], ALL, None, 2)]
WAYS: dict[str, Any] = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
                        "min": np.minimum, "max": np.maximum}


@pytest.fixture(autouse=True)
def on_the_host() -> Iterator[None]:
    with on("numpy"):
        yield


def known_later(array: Any) -> Tensor:
    """Indices or a mask that nobody knows before they are computed."""
    values = np.asarray(array)
    return F.cast(tensor(values.astype(np.float32)) + 0.0, values.dtype)


def written(a: Any, key: Any, how: str, v: Any) -> Any:
    a = a.copy()
    if how == "set":
        a[key] = v
    else:
        WAYS[how].at(a, key, v)
    return a


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_every_key_reads_and_writes_as_numpy_does(dtype: str) -> None:
    a = (A + 10 * (dtype == "uint8")).astype(dtype)
    x = tensor(a)
    for k, key in enumerate(KEYS):
        assert np.array_equal(x[key].numpy(), a[key]) and np.array_equal(x.at[key].get().numpy(), a[key]), key
        for j, how in enumerate(("set", *(WAYS if dtype == "float32" else ("add", "multiply", "min")))):
            shape = [a[key].shape, a[key].shape[-1:], ()][(k + j) % 3]  # of values, which broadcast
            v = RNG.uniform(1, 4, shape).astype(dtype)
            got, wanted = getattr(x.at[key], how)(v if v.ndim else v.item()).numpy(), written(a, key, how, v)
            assert got.dtype == wanted.dtype and got.shape == wanted.shape, (key, how)
            assert np.allclose(got, wanted, rtol=3e-6, atol=0), (key, how, v)


@pytest.mark.parametrize("how", ["set", *WAYS])
def test_indices_that_only_the_device_has(how: str) -> None:
    """Those outside are left out; of rows that come again all values count, or the last."""
    a, places = A[:, :, 0], np.array([3, 1, 3, -9, 7, 0])
    v = RNG.normal(0, 2, (6, 5)).astype(np.float32)
    inside = [0, 1, 2, 5]
    got = getattr(tensor(a).at[known_later(places)], how)(v).numpy()
    assert np.allclose(got, written(a, places[inside], how, v[inside]), rtol=3e-6, atol=0)
    pair = getattr(tensor(A).at[known_later(places), :, known_later(places)], how)(v).numpy()
    assert np.allclose(pair, written(A, (places[inside], ALL, places[inside]), how, v[inside]), rtol=3e-6, atol=0)


def test_masks_that_only_the_device_has() -> None:
    x, a = tensor(A), A.copy()
    a[MASK] = 7
    assert np.array_equal(x.at[known_later(MASK)].set(7).numpy(), a)
    a = A.copy()
    a[1:, LINE, ::2] *= A[0, 0, ::2]
    assert np.array_equal(x.at[1:, known_later(LINE), ::2].multiply(x[0, 0, ::2]).numpy(), a)


def slopes(how: str, y: Any, u: Any, x: Any, v: Any, places: Any) -> tuple[Any, Any]:
    """The gradients of Σ u y by x and v, element by element, with v[k] merged into x[places[k]]; y is the result."""
    to_x, to_v = np.array(u), np.zeros_like(v)
    for k, p in enumerate(places):
        again = [j for j, q in enumerate(places) if q == p]
        if how == "multiply":
            to_v[k] = u[p] * x[p] * np.prod([v[j] for j in again if j != k], axis=0)
            to_x[p] = u[p] * np.prod([v[j] for j in again], axis=0)
        elif how == "set":
            to_v[k], to_x[p] = u[p] * (k == again[-1]), 0
        elif how == "add":
            to_v[k] = u[p]
        else:
            to_v[k], to_x[p] = np.where(v[k] == y[p], u[p], 0), np.where(x[p] == y[p], u[p], 0)
    return to_x, to_v


@pytest.mark.parametrize("how", ["set", "add", "multiply", "min", "max"])
def test_gradients(how: str) -> None:
    a, places = A[:, :, 0].astype(np.float64), [3, 1, 3, 0]
    b, u = RNG.normal(0, 2, (4, 5)), RNG.normal(size=a.shape)
    x, v = tensor(a), tensor(b)
    y = getattr(x.at[places], how)(v)
    value, *got = NumpyEngine().values([y, *gradients(y, [x, v], tensor(u))])
    for g, w in zip(got, slopes(how, value, u, a, b, places), strict=True):
        assert np.allclose(g, w, rtol=1e-12, atol=1e-12)


def test_put_along_axis_and_coordinates() -> None:
    order = np.argsort(A, 1)
    x, back = np.zeros_like(A), np.take_along_axis(A, order, 1)
    np.put_along_axis(x, order, back, 1)
    assert np.array_equal(F.put_along_axis(np.zeros_like(A), order, back, 1).numpy(), x)
    places = np.stack([TWICE, TWICE[::-1]], -1)
    assert np.array_equal(F.gather_nd(A, places).numpy(), A[TWICE, TWICE[::-1]])
    total = np.zeros((3, 3, 6), np.float32)
    np.add.at(total, (TWICE, TWICE[::-1]), A[0])
    assert np.allclose(F.scatter_nd(places, A[0], (3, 3, 6)).numpy(), total, rtol=1e-6)


X = tensor(A)
SLIPS: list[tuple[Callable[[], Any], type[ClnetError], str]] = [
    (lambda: X.at[7].set(1), IndexingError, r"expected an index in \[-4, 4\) on axis 0; got 7"),
    (lambda: X.at[[0, 4]].set(1), IndexingError, "got 4"),
    (lambda: X.at[0].set([1, 2]), ShapeError, r"at\.set: "),
    (lambda: X.at[[0, 1]].add(np.ones((3, 5, 6))), ShapeError, r"at\.add: "),
    (lambda: tensor([1, 2]).at[0].set(1.5), DTypeError, r"at\.set: .* int64 can hold; got 1\.5"),
    (lambda: tensor([1, 2]).at[0].set(np.float32(1.5)), DTypeError, "values that int64 can hold; got float32"),
    (lambda: tensor([1, 2]).at[0].divide(2), DTypeError, "expected floats"),
    (lambda: tensor([True]).at[0].add(True), DTypeError, "expected numbers; got bool"),
    (lambda: F.scatter_nd([[0, 0]], [1.0], (3,)), ShapeError, r"expected an index \(\.\.\., k\)"),
    (lambda: F.put_along_axis(A, [[[0]]], 1.0, 1), ShapeError, "put_along_axis: expected shapes equal but for axis 1")]


@pytest.mark.parametrize("call, kind, words", SLIPS)
def test_slips(call: Callable[[], Any], kind: type[ClnetError], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_names_of_what_there_is_not() -> None:
    for call, words in ((lambda: X.at.set(1), r"write x\.at\[key\]\.set"),
                        (lambda: X.at[0].sets(1), "did you mean 'set'"),
                        (lambda: X.at[0].apply(F.exp), "there are set, add")):
        with pytest.raises(AttributeError, match=words):
            call()
