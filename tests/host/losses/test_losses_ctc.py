"""Errors of CTC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet.errors import ConfigError, DataError, DTypeError, ShapeError
from clnet.losses import CTCLoss

LP, Y, L = np.zeros((4, 2, 3), np.float32), np.array([[1, 2], [1, 0]]), np.array([2, 1])


@pytest.mark.parametrize(("inputs", "error", "words"), [
    ((LP, Y, np.array([4, 5]), L), DataError, r"input_lengths in \[0, 4\]"),
    ((LP, Y, L, np.array([3, 1])), DataError, r"target_lengths in \[0, 2\]"),
    ((LP, np.array([[1, 3], [1, 0]]), L, L), DataError, r"labels in \[0, 3\).*got 3"),
    ((LP, np.array([[1, 0], [1, 0]]), L, L), DataError, "not the blank"),
    ((LP, np.array([1, 2]), L, L), DataError, "add up to, 3; got 2"),
    ((LP, Y[:1], L, L), ShapeError, "expected targets"),
    ((LP[0], Y, L, L), ShapeError, "T, N, C"), ((LP, Y, L[:1], L), ShapeError, r"lengths \(N\)"),
    ((LP, Y.astype(np.float64), L, L), DTypeError, "int"),
    ((LP, Y, L), ShapeError, "got 3 inputs")])
def test_errors(inputs: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        CTCLoss()(*inputs)


def test_the_blank_is_a_class() -> None:
    with pytest.raises(ConfigError, match=r"blank in \[0, 3\)"):
        CTCLoss(blank=3)(LP, Y, L, L)
