"""Attention that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.tensor import tensor
from clnet.errors import DTypeError, ShapeError
from clnet.ops.attention import attention

rng = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(np.float32)


def test_attention_refuses() -> None:
    q = tensor(normal(1, 3, 4, 8))
    with pytest.raises(ShapeError, match="multiple of key heads"):
        attention(q, normal(1, 2, 4, 8), normal(1, 2, 4, 8))
    with pytest.raises(ShapeError, match="broadcasts to"):
        attention(q, q, q, mask=np.ones((5, 5), bool))
    with pytest.raises(ShapeError, match="4 axes"):
        attention(normal(4, 8), normal(4, 8), normal(4, 8))


@pytest.mark.parametrize(("offsets", "error", "message"), [
    ([0, 3, 2, 5], ShapeError, "rise from 0 to 5.*got 3 before 2"),
    ([0, 3], ShapeError, "rise from 0 to 5, the rows of all sequences; got 0 to 3; those of lengths are np.conc"),
    ([1, 5], ShapeError, "got 1 to 5"), ([0, 9], ShapeError, "got 0 to 9"),
    ([5], ShapeError, "at least one sequence"), ([[0, 5]], ShapeError, r"offsets \(N \+ 1\)"),
    ([0.0, 5.0], DTypeError, "integer offsets.*cast them to int32")])
def test_packed_attention_refuses_offsets(offsets: Any, error: type[Exception], message: str) -> None:
    q = normal(5, 2, 4)
    with pytest.raises(error, match=message):
        F.packed_attention(q, q, q, np.array(offsets))


def test_packed_attention_refuses() -> None:
    q, k, o = normal(5, 4, 4), normal(6, 4, 4), np.array([0, 2, 5])
    with pytest.raises(ShapeError, match=r"of the same sequences.*key_offsets None; give the keys' own"):
        F.packed_attention(q, k, k, o)
    with pytest.raises(ShapeError, match="rise from 0 to 6"):
        F.packed_attention(q, k, k, o, o)
    with pytest.raises(ShapeError, match=r"of the same sequences"):
        F.packed_attention(q, k, k, o, np.array([0, 6]))
    with pytest.raises(ShapeError, match=r"of 3 axes.*are attention's"):
        F.packed_attention(q[None], k[None], k[None], o)
    with pytest.raises(ShapeError, match="multiple of key heads"):
        F.packed_attention(q, q[:, :3], q[:, :3], o)
    with pytest.raises(ShapeError, match=r"k \(S', Hk, d\)"):
        F.packed_attention(q, k, k[:5], o)
