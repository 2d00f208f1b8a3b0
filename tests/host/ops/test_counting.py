"""What has a size that depends on values: NumPy's results, and a clear error in a recorded step."""

from __future__ import annotations

import numpy as np
import pytest

from clnet import ops as F
from clnet.engine import on
from clnet.engine.record import Recorded
from clnet.errors import UseError

X = np.array([[0, 2, 0], [2, 0, -3]], np.float32)


def test_places_and_values_are_numpys() -> None:
    with on("numpy"):
        assert [p.tolist() for p in F.nonzero(X)] == [p.tolist() for p in np.nonzero(X)]
        found = F.unique(X, return_inverse=True, return_counts=True)
        want = np.unique(X, return_inverse=True, return_counts=True)
        assert all(np.array_equal(a.numpy().ravel(), b.ravel()) for a, b in zip(found, want, strict=True))
        assert F.bincount(np.array([0, 3, 3])).tolist() == [1, 0, 0, 2]


@pytest.mark.parametrize("name", ["nonzero", "unique", "bincount"])
def test_a_recorded_step_cannot_know_them(name: str) -> None:
    with on("numpy"), pytest.raises(UseError, match=f"{name}: expected values that are known now"):
        Recorded(lambda x: getattr(F, name)((x * 2).astype("int64")))(np.abs(X))
