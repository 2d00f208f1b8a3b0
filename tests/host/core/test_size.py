"""Sizes that vary: what is computed with them comes out as with numbers, for every shape that what was noted allows."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet.core.size import (
    Size,
    Unsettled,
    bounded,
    common_divisor,
    divides,
    in_text,
    larger,
    number,
    real,
    settled,
    smaller,
    typical,
    varies,
)
from clnet.core.varying import BEYOND, CLASSES, LEAST, Varying
from clnet.engine.compile.index import below

WHOLE: list[Callable[[Any, Any], Any]] = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]


def formula(rng: random.Random, depth: int) -> Callable[[list[Any]], Any]:
    """A random formula over two sizes and constants, as a function of them; divisors are numbers."""
    if depth == 0:
        k, c = rng.randrange(3), rng.randrange(1, 70)
        return lambda sizes: c if k == 2 else sizes[k]
    op, a, b = rng.choice(WHOLE), formula(rng, depth - 1), formula(rng, depth - 1)
    c = rng.choice([*range(1, 33), -7])
    if op in (operator.floordiv, operator.mod):
        return lambda sizes: op(a(sizes), c)
    return lambda sizes: op(a(sizes), b(sizes))


@pytest.mark.parametrize("seed", range(200))
def test_formulas_come_out_as_with_numbers(seed: int) -> None:
    rng = random.Random(seed)
    f = formula(rng, rng.randrange(1, 5))
    now, later = [rng.randrange(2, 300) for _ in range(2)], [rng.randrange(2, 300) for _ in range(2)]
    varying = Varying(now)
    found = f(varying.axes)
    assert number(found) == f(now)
    assert varying.at(later)(found) == f(later)
    varying.expect([found, *varying.sizes])
    assert varying.at(later)(found) == f(later) and varying.at(now)(found) == f(now)
    if isinstance(found, Size):
        assert found.low <= min(f(now), f(later))


@pytest.mark.parametrize("seed", range(200))
def test_where_what_was_noted_holds_decisions_are_the_same(seed: int) -> None:
    rng = random.Random(seed)
    f, g = formula(rng, 3), formula(rng, 2)
    compare = rng.choice([operator.lt, operator.le, operator.gt, operator.ge])
    now = [rng.randrange(2, 60) for _ in range(2)]
    varying = Varying(now)
    decided = compare(f(varying.axes), g(varying.axes))
    assert decided == compare(f(now), g(now))
    for _ in range(50):
        later = [rng.randrange(2, 60) for _ in range(2)]
        if varying.serves(later):
            assert compare(f(later), g(later)) == decided


def test_numbers_with_fractions_are_computed_step_by_step() -> None:
    varying = Varying([7])
    (n,) = varying.axes
    for f in (lambda n: 1 / n, lambda n: n / 3 + 0.1, lambda n: 2.0 * n - 0.7, lambda n: math.ceil(n / 4), real,
              lambda n: (n - 1) / n * 0.3):
        assert number(f(n)) == f(7)
        assert varying.at([13])(f(n)) == f(13) and type(varying.at([13])(f(n))) is type(f(13))
        varying.expect([f(n)])
        assert varying.at([13])(f(n)) == f(13) and type(varying.at([13])(f(n))) is type(f(13))


def test_sizes_that_a_shape_never_asks_for_may_have_no_number_there() -> None:
    varying = Varying([9])
    (n,) = varying.axes
    varying.expect([100 // (n - 4), 3 * n])
    assert varying.at([9])(100 // (n - 4)) == 20 and varying.at([4])(3 * n) == 12


@pytest.mark.parametrize("take", [range, int, float, math.sqrt, np.zeros, lambda n: [0] * n, lambda n: "abc"[n],
                                  lambda n: np.sqrt(np.float32(n)), lambda n: "abcdef"[:n], math.factorial,
                                  lambda n: n == 5, lambda n: (n, 2) == (5, 2), settled])
def test_nothing_takes_the_number_unnoticed(take: Callable[[Any], Any]) -> None:
    (n,) = Varying([5]).axes
    with pytest.raises(Unsettled) as error:
        take(n)
    assert error.value.axes == {0}


def test_sizes_of_every_kind_and_what_was_noted_come_out_at_once_as_they_do_one_by_one() -> None:
    varying = Varying([40, 7])
    n, m = varying.axes
    of = [n * m - 3, (n + 5) // 4 % 7, smaller(n, 3 * m), larger(n, m * m), (n + 1) / (m + 2), -n, math.ceil(n / 4),
          n - 0.25]
    assert below(m, n) and not n < 2 * m
    one = varying.serving((50, 9))
    assert one is not None
    singly = [one(size) for size in of]
    varying.expect(of)
    several = varying.serving((50, 9))
    assert several is not None and several is not one and [several(size) for size in of] == singly
    assert singly == [447, 6, 27, 81, 51 / 11, -50, 13, 49.75]
    assert varying.serving((17, 9)) is None, "17 < 2 * 9"
    assert below(n, 100 * m) and varying.serving((50, 9)) is not several, "what is noted later counts, too"


def test_what_was_noted_elsewhere_of_the_same_sizes_need_not_be_asked_again() -> None:
    first, second = Varying([40]), Varying([40])
    assert all(below(v.axes[0], 64) for v in (first, second))
    assert first.noted_in(second) and second.noted_in(first)
    assert below(10, first.axes[0]) and not first.noted_in(second) and second.noted_in(first)
    assert not Varying([400]).noted_in(second), "of another class"


def test_only_the_axes_behind_a_size_are_settled() -> None:
    a, b, c = Varying([5, 6, 7]).axes
    with pytest.raises(Unsettled) as error:
        settled((a * 3 + c) // 4 % 5)
    assert error.value.axes == {0, 2}
    assert b == b and a != b


def test_equal_numbers_of_two_axes_are_a_coincidence_that_is_noted() -> None:
    a, b = Varying([5, 5]).axes
    with pytest.raises(Unsettled):
        _ = a == b


def test_what_holds_for_every_shape_is_not_noted() -> None:
    varying = Varying([40])
    (n,) = varying.axes
    known = len(varying.conditions)
    assert n >= LEAST and n * 3 > n and n + 1 > n and not n * 0 and 64 * n - 1 < 64 * n and n != 1
    assert (8 * n) % 4 == 0 and 8 * n // 4 == 2 * n and (8 * n + 3) // 8 == n and (8 * n + 3) % 8 == 3
    assert (n * n) // n == n and divides(4, 12 * n) and not divides(5, 12 * n) and divides(n, 3 * n)
    assert len(varying.conditions) == known


def test_what_holds_just_now_is_noted_and_what_does_not_is_left_to_the_kernel() -> None:
    varying = Varying([40])
    (n,) = varying.axes
    known = len(varying.conditions)
    assert not below(63, n) and below(n - 1, n) and len(varying.conditions) == known
    assert below(n, 64) and len(varying.conditions) == known + 1 and varying.serves((63,)) and not varying.serves((64,))


def test_a_plan_serves_one_class_of_sizes() -> None:
    small, middle, large = CLASSES[0], CLASSES[1], CLASSES[1] + 1
    for now, end, alike, other in ((5, small, small, small + 1), (small + 1, middle, middle, small),
                                   (large, BEYOND, 10 * large, middle)):
        varying = Varying([now])
        assert typical(varying.axes[0]) == end and typical(3 * varying.axes[0] + 1) == 3 * end + 1
        assert varying.serves([alike]) and not varying.serves([other]) and not varying.serves([LEAST - 1])
        assert bounded(varying.axes[0]) == (end != BEYOND)
    assert typical(7) == 7 and bounded(7) and not varies(7, 8)


def test_text_holds_sizes_as_marks() -> None:
    a, b = Varying([5, 6]).axes
    assert in_text(f"for (i = 0; i < {a * 2}; i += {b}) x[{a * 2}]") == [a * 2, b] and in_text("x[3]") == []
    assert f"{a:3d}" == "  5"  # for people


def test_common_divisors_hold_for_every_shape() -> None:
    (n,) = Varying([5]).axes
    assert common_divisor(12 * n, 128) == 4 and common_divisor(12, 128) == 4 and common_divisor(n * 6 + 3, 9) == 3
