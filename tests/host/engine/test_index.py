"""The index algebra against brute force: every rewrite keeps the value and the range."""

from __future__ import annotations

import itertools
import random

import pytest

from clnet.engine.compile.index import Flat, Index, Quotient, Var, var


def value(e, env):
    total = e.const
    for a, c in e.terms.items():
        if isinstance(a, Var):
            v = env[a.name]
        else:
            v = value(a.of, env) // a.by if isinstance(a, Quotient) else value(a.of, env) % a.by
        assert 0 <= v <= a.top, a
        total += c * v
    return total


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions_keep_their_value_and_range(seed):
    rng = random.Random(seed)
    for _ in range(30):
        sizes = {n: rng.choice([1, 2, 3, 4, 6, 8]) for n in "abc"}
        variables = {n: var(n, k) for n, k in sizes.items()}
        points = [dict(zip("abc", p, strict=True)) for p in itertools.product(*(range(k) for k in sizes.values()))]
        e, want = variables["a"], [p["a"] for p in points]
        for _ in range(rng.randint(1, 6)):
            k, kind, n = rng.choice([1, 2, 3, 4, 6, 8, 12, 24]), rng.randint(0, 4), rng.choice("abc")
            if kind == 0:
                e, want = e * k, [w * k for w in want]
            elif kind == 1:
                e, want = e // k, [w // k for w in want]
            elif kind == 2:
                e, want = e % k, [w % k for w in want]
            elif kind == 3:
                e, want = e + variables[n] * k, [w + p[n] * k for w, p in zip(want, points, strict=True)]
            else:
                e, want = e + k, [w + k for w in want]
        for p, w in zip(points, want, strict=True):
            assert value(e, p) == w
            assert e.low <= w <= e.top


@pytest.mark.parametrize("shapes", [((2, 3, 4), (6, 4), (24,), (4, 6), (2, 12)), ((5, 4), (2, 10), (20,), (5, 2, 2))])
def test_reshapes_there_and_back_vanish(shapes):
    flat = var("i", 24 if shapes[0] == (2, 3, 4) else 20)
    e = flat
    for s in shapes:
        e = Flat(e).unflatten(s).flatten(s).expr
    assert e == flat


def test_a_row_number_and_a_place_in_the_row_come_apart():
    row, j = var("r", 1600), var("j", 512)
    e = row * 512 + j
    assert e // (512 * 50) == row // 50
    assert e % (512 * 50) == (row % 50) * 512 + j


def test_a_permutation_of_a_reshape_is_affine():
    ix = Index((var("a", 3), var("b", 2), var("c", 4))).pick([1, 0, 2])
    flat = ix.flatten((2, 3, 4)).expr
    assert [flat.coefficient(v) for v in "abc"] == [4, 12, 1]
