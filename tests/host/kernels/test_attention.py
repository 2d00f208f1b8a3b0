"""Attention that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet.core.tensor import tensor
from clnet.errors import ShapeError
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
