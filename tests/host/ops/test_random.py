"""Permutations, and random draws that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.ops import random


def test_permutation() -> None:
    p = random.permutation(1000, 5, 0)
    assert np.array_equal(np.sort(p), np.arange(1000)) and not np.array_equal(p, np.arange(1000))
    assert np.array_equal(p, random.permutation(1000, 5, 0)) and not np.array_equal(p, random.permutation(1000, 5, 1))


def test_refused() -> None:
    with pytest.raises(ValueError, match="low < high"):
        random.randint(3, 3, (2,), 0, 0)
