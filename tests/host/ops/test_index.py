"""Indices on the host."""

from __future__ import annotations

import numpy as np
import pytest

from clnet import ops as F


def test_host_indices_outside_are_refused() -> None:
    with pytest.raises(IndexError, match=r"\[-3, 3\); got 3"):
        F.gather(np.ones((3, 2), np.float32), [0, 3])
    with pytest.raises(IndexError, match="got -4"):
        F.scatter_add(np.ones((2, 2), np.float32), np.array([0, -4]), 3)
