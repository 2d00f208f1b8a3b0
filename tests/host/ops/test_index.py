"""Indices on the host."""

from __future__ import annotations

import numpy as np
import pytest

from clnet import ops as F
from clnet.errors import IndexingError, ShapeError


def test_host_indices_outside_are_refused() -> None:
    with pytest.raises(IndexError, match=r"\[-3, 3\); got 3"):
        F.gather(np.ones((3, 2), np.float32), [0, 3])
    with pytest.raises(IndexError, match="got -4"):
        F.scatter_add(np.ones((2, 2), np.float32), np.array([0, -4]), 3)


def test_index_select_is_told_by_its_name() -> None:
    x = np.ones((3, 2), np.float32)
    with pytest.raises(ShapeError, match=r"^index_select: expected the axis before the indices.*got ndarray of shape"):
        F.index_select(x, np.array([0, 2]), 0)
    with pytest.raises(IndexingError, match=r"^index_select: expected indices in \[-3, 3\); got 9"):
        F.index_select(x, 0, [9])
