"""Einstein sums and what else NumPy has by the same name, against NumPy; a few names that are PyTorch's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from clnet import called
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import Tensor, tensor, walk
from clnet.engine import on
from clnet.errors import ClnetError, ConfigError, DTypeError, ShapeError

RNG = np.random.default_rng(0)
EQUATIONS: list[tuple[Any, ...]] = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("iij->ij", (3, 3, 2)),
    ("iii->i", (3, 3, 3)), ("iij,jk,i", (3, 3, 2), (2, 4), (3,)), ("ij->", (3, 4)), ("ba", (3, 4)), ("i,i", (3,), (3,)),
    ("i,i->i", (3,), (3,)), ("i,j", (3,), (4,)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("...i,...i->...", (2, 3), (3,)),
    ("...ij,...jk->...ik", (2, 3, 4), (1, 4, 5)), ("...ij,jk", (2, 6, 3, 4), (4, 5)), ("i...,i->...", (3, 2, 5), (3,)),
    ("ab,cd,ef,bc,de->af", (2, 3), (4, 5), (6, 7), (3, 4), (5, 6)), ("ij,ij->", (3, 4), (3, 4)),
    (",ij->ij", (), (2, 3)),
    ("ij,ik,il->jkl", (3, 2), (3, 4), (3, 5)), ("i,ij,j->", (3,), (3, 4), (4,)), ("", ()), ("bi,bi->b", (4, 5), (4, 5)),
    ("ijk,k->", (2, 3, 4), (4,)), ("...,...->...", (2, 1, 3), (4, 3)), ("aab,bcc->ac", (2, 2, 3), (3, 4, 4)),
    ("ij,jk->ik", (0, 4), (4, 5)), ("ij,jk->ik", (3, 0), (0, 5)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4))]


@pytest.fixture(autouse=True)
def on_the_host() -> Iterator[None]:
    with on("numpy"):
        yield


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_einstein_sums(dtype: str) -> None:
    for equation, *shapes in EQUATIONS:
        operands = [RNG.normal(0, 3, s).astype(dtype) for s in shapes]
        got, wanted = F.einsum(equation, *operands).numpy(), np.einsum(equation, *operands)
        assert got.shape == wanted.shape and np.allclose(got, wanted, rtol=1e-5, atol=1e-4), equation


def test_several_operands_are_contracted_in_a_good_order() -> None:
    """By pairs from the left this chain would have 2⁴⁰ elements between."""
    vectors = [RNG.normal(size=1024).astype(np.float32) for _ in range(4)]
    y = F.einsum("a,b,c,d,d,c,b,a->", *vectors, *vectors[::-1])
    assert np.isclose(y.item(), np.prod([v @ v for v in vectors]), rtol=1e-5)


def test_powers_by_small_numbers_are_products() -> None:
    """To the last bit, in the dtype of x, and no device's pow runs."""
    for x in (np.float32([-3.7, 0.0, 2.5, np.inf]), np.int32([-3, 0, 7])):
        for n, wanted in ((2, x * x), (3, x * x * x), (4, (x * x) * (x * x))):
            y = tensor(x) ** n
            assert y.dtype == x.dtype.name and not {"pow"} & {t.op.name for t in walk([y]) if t.op}
            assert np.array_equal(y.numpy(), wanted, equal_nan=True)
    w = tensor(np.float32([-3.0, 0.0, 2.0]))
    assert np.array_equal(gradients((w**3).sum(), [w])[0].numpy(), np.float32([27, 0, 12]))


X, GAPS = RNG.normal(size=(4, 5, 6)).astype(np.float32), RNG.normal(size=(4, 6)).astype(np.float32)
GAPS[1, 2] = GAPS[3] = np.nan
ENDLESS = np.array([[-np.inf, -np.inf, 0, 1], [2, -np.inf, 0, 3], [np.inf] * 4, [3e38, -3e38, 3e38, 3e38]], np.float32)
LINE = np.array([-1, 0, 0.5, 2], np.float32)
SAME: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "quantile of axes": (lambda: F.quantile(X, [0, 0.3, 1], (0, 2)), lambda: np.quantile(X, [0, 0.3, 1], (0, 2))),
    "quantile kept": (lambda: F.quantile(X, 0.77, 1, keepdims=True), lambda: np.quantile(X, 0.77, 1, keepdims=True)),
    "quantile beside infinities": (lambda: F.quantile(ENDLESS, 0.25, 1), lambda: [-np.inf, -np.inf, np.inf, 1.5e38]),
    "quantile of NaN": (lambda: F.quantile(GAPS, 0.5, 1), lambda: np.quantile(GAPS, 0.5, 1)),
    "median of integers": (lambda: F.median([3, 1, 2, 9]), lambda: np.median([3, 1, 2, 9])),
    "nanmean": (lambda: F.nanmean(GAPS, 0), lambda: np.nanmean(GAPS, 0)),
    "nanmax": (lambda: F.nanmax(GAPS[:3], 1), lambda: np.nanmax(GAPS[:3], 1)),
    "nanmin": (lambda: F.nanmin(GAPS), lambda: np.nanmin(GAPS)),
    "nan of all": (lambda: F.nanmax(GAPS[3:], 1) + F.nanmean(GAPS[3:], 1), lambda: np.float32([np.nan])),
    "cov of a vector": (lambda: F.cov(X[0, 0], ddof=0), lambda: np.cov(X[0, 0], ddof=0)),
    "corrcoef": (lambda: F.corrcoef(X[0]), lambda: np.corrcoef(X[0])),
    "interp": (lambda: F.interp(X, LINE, LINE * LINE), lambda: np.interp(X, LINE, LINE * LINE)),
    "interp at the points": (lambda: F.interp(LINE, LINE, LINE + 1), lambda: LINE + 1),
    "interp of one": (lambda: F.interp(LINE, LINE[:1], LINE[2:3]), lambda: np.full(4, 0.5)),
    "kron": (lambda: F.kron(X[0], X[0, 0]), lambda: np.kron(X[0], X[0, 0])),
    "tensordot": (lambda: F.tensordot(X, X, ([0, -1], [0, 2])), lambda: np.tensordot(X, X, ([0, -1], [0, 2]))),
    "cross": (lambda: F.cross(X[:3, 0], X[:3, 1], 0), lambda: np.cross(X[:3, 0], X[:3, 1], axis=0)),
    "trace": (lambda: F.trace(X, -1, 2, 0), lambda: np.trace(X, -1, 2, 0)),
    "diagonal": (lambda: F.diagonal(X, 7), lambda: np.diagonal(X, 5)),
    "rot90": (lambda: F.rot90(X, 5, 2, 0), lambda: np.rot90(X, 5, (2, 0))),
    "diff": (lambda: F.diff(X, 3, 1), lambda: np.diff(X, 3, 1)),
    "isclose": (lambda: F.isclose([np.inf, 1.0, -np.inf], [np.inf, 1.1, np.inf], rtol=0.1),
                lambda: np.isclose([np.inf, 1.0, -np.inf], [np.inf, 1.1, np.inf], rtol=0.1)),
    "allclose": (lambda: F.allclose(X, X + 1e-9), lambda: True),
    "array_equal": (lambda: F.array_equal(X, X[:2]), lambda: False),
    "nan_to_num": (lambda: F.nan_to_num(np.float32([np.nan, -np.inf, 3])), lambda: [0, np.finfo(np.float32).min, 3]),
    "count_nonzero": (lambda: F.count_nonzero(X > 0, 1), lambda: np.count_nonzero(X > 0, 1)),
    "hypot": (lambda: F.hypot(np.float32([3e30, 0]), np.float32([4e30, 0])), lambda: [5e30, 0]),
    "flatten": (lambda: F.flatten(tensor(2.0)).shape, lambda: (1,)),
    "chunk": (lambda: [t.shape[0] for t in F.chunk(range(10), 4)], lambda: [3, 3, 3, 1]),
    "unbind": (lambda: [t.tolist() for t in tensor([[1, 2], [3, 4]]).unbind(1)], lambda: [[1, 3], [2, 4]]),
    "sizes": (lambda: (tensor(X).numel(), tensor(X).dim(), tensor(X).contiguous().shape), lambda: (120, 3, (4, 5, 6)))}


@pytest.mark.parametrize("name", SAME)
def test_it_is_what_numpy_has(name: str) -> None:
    got, wanted = (call() for call in SAME[name])
    if isinstance(got, Tensor):
        assert got.shape == np.shape(wanted)
        assert np.allclose(got.numpy(), wanted, rtol=2e-6, atol=1e-6, equal_nan=True), got
    else:
        assert got == wanted


def test_what_others_call_it_leads_to_a_name_that_there_is() -> None:
    for theirs, ours in called.CALLED.items():
        for name in re.findall(r"\bops\.(\w+)", ours):
            assert hasattr(F, name), (theirs, ours)
    for name, words in (("hstack", r"concat\(\[a, b\], 1\)"), ("atan2", "arctan2"),
                        ("index_add", r"x\.at\[index\]\.add"),
                        ("masked_select", r"x\[mask\]"), ("cummin", r"it is ops\.cummax\(-x\)")):
        with pytest.raises(AttributeError, match=words):
            getattr(F, name)


SLIPS: list[tuple[Callable[[], Any], type[ClnetError], str]] = [
    (lambda: F.einsum("ij,jk", X[0], X[0]), ShapeError, "einsum: axis 'j' is 6 and 5"),
    (lambda: F.einsum("ij", X[0], X[0]), ShapeError, "an operand for each of 1 terms"),
    (lambda: F.einsum("i", X[0]), ShapeError, "a letter for each axis"),
    (lambda: F.einsum("i1", X[0]), ShapeError, "expected letters"),
    (lambda: F.einsum("...i,...i", X[0, :2], X[0, :3]), ShapeError, "axes of '...' that broadcast; got 2 and 3"),
    (lambda: F.quantile(X, 1.5), ConfigError, "quantile: expected q"),
    (lambda: F.quantile(X[:0], 0.5), ShapeError, "at least one element"),
    (lambda: F.interp(X, LINE, LINE[:2]), ShapeError, "two vectors of one length"),
    (lambda: F.interp([1], LINE, LINE), DTypeError, "interp: expected floats"),
    (lambda: F.narrow(X, 0, 3, 2), ConfigError, "narrow: expected a part of axis 0"),
    (lambda: F.cross(X, X), ShapeError, "vectors of 3"), (lambda: F.cov(X[0, 0, :1]), ConfigError, "more than 1"),
    (lambda: F.tensordot(X, X, 4), ShapeError, "at most 3 axes"), (lambda: F.isinf([1]), DTypeError, "isinf: ")]


@pytest.mark.parametrize("call, kind, words", SLIPS)
def test_slips(call: Callable[[], Any], kind: type[ClnetError], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
