"""Random numbers: known answers, equal bits on every engine, the right distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from clnet.core.tensor import tensor
from clnet.engine.reference import NumpyEngine
from clnet.ops import random

ONES = 0xFFFFFFFF
# Counter, key, words: from the paper's own test vectors (Random123, kat_vectors, philox4x32 10).
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


def test_known_answers(engine: Any) -> None:
    for counter, key, words in KNOWN:
        assert tuple(int(w) for w in engine.values(list(random.philox4(counter, key)))) == words
    c, k = np.array([k[0] for k in KNOWN], np.uint32).T, np.array([k[1] for k in KNOWN], np.uint32).T
    words = engine.values(list(random.philox4([tensor(w) for w in c], [tensor(w) for w in k])))
    assert np.array_equal(np.stack(words, 1), np.array([k[2] for k in KNOWN], np.uint32))


def test_equal_bits_on_every_engine(engine: Any) -> None:
    key, counter = tensor(np.uint32(7)), tensor(np.uint32(ONES))
    drawn = [random.philox(key, counter, 1001), random.uniform((13, 77), key, counter),
             random.bernoulli(0.3, (1001,), key, counter), random.randint(-5, 1000, (10, 9), key, counter),
             random.randint(0, 1 << 32, (5,), key, counter, "int64"), random.uniform((), key, counter)]
    for t, got, want in zip(drawn, engine.values(drawn), NumpyEngine().values(drawn), strict=True):
        assert got.shape == t.shape and got.dtype == t.dtype and np.array_equal(got, want)
    z = random.normal((40, 25), 7, 3)
    assert np.allclose(engine.values([z])[0], NumpyEngine().values([z])[0], rtol=2e-6, atol=2e-6)


def test_draws_do_not_repeat(engine: Any) -> None:
    several = engine.values([random.philox(1, 0, 4096), random.philox(1, 1, 4096), random.philox(2, 0, 4096)])
    assert len(np.unique(np.concatenate(several))) > 3 * 4096 - 10


def test_keys(engine: Any) -> None:
    """A number, two words on the host and two words on the device are the same key."""
    words = np.array([5, 9], np.uint32)
    a, b, c = engine.values([random.philox(5 + (9 << 32), 0, 10), random.philox(words, 0, 10),
                             random.philox(tensor(words), 0, 10)])
    assert np.array_equal(a, b) and np.array_equal(a, c)


def test_distributions(engine: Any) -> None:
    n = 200_000
    u, z, k = engine.values([random.uniform(n, 3, 0), random.normal(n, 3, 1), random.randint(0, 7, n, 3, 2)])
    assert 0 <= u.min() and u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert stats.chisquare(np.bincount(k, minlength=7)).pvalue > 1e-3
    b = engine.values([random.bernoulli(0.1, n, 3, 3)])[0]
    assert b.dtype == bool and stats.binomtest(int(b.sum()), n, 0.1).pvalue > 1e-3
    scaled = engine.values([random.uniform(n, 3, 4, -2.0, 6.0)])[0]
    assert scaled.min() >= -2 and scaled.max() <= 6 and stats.kstest(scaled, "uniform", (-2, 8)).pvalue > 1e-3
