"""Which axes vary, from the shapes that were seen."""

from __future__ import annotations

from clnet.core.spec import Spec
from clnet.core.varying import Varying
from clnet.engine.shapes import varying_axes


def seen(*shapes):
    return [tuple(Spec(s) for s in inputs) for inputs in shapes]


def test_axes_that_change_together_are_one():
    axes = varying_axes(seen([(4, 8), (4,)], [(6, 8), (6,)]))
    assert axes.numbers == {(0, 0): 0, (1, 0): 0} and axes.count == 1
    assert axes.values((Spec((9, 8)), Spec((9,)))) == (9,)
    assert axes.values((Spec((9, 8)), Spec((8,)))) is None
    assert axes.values((Spec((9, 7)), Spec((9,)))) is None
    assert axes.values((Spec((9, 8), "int32"), Spec((9,)))) is None


def test_axes_that_once_differed_are_two():
    axes = varying_axes(seen([(4, 4)], [(6, 5)], [(7, 7)]))
    assert axes.numbers == {(0, 0): 0, (0, 1): 1}
    assert axes.values((Spec((2, 3)),)) == (2, 3)


def test_what_stays_fixed_does_not_vary():
    shapes = seen([(4, 8)], [(6, 9)])
    assert varying_axes(shapes, {(0, 1): "why"}).numbers == {(0, 0): 0}
    assert varying_axes(shapes, {(0, 0): "", (0, 1): ""}) is None
    assert varying_axes(seen([(4, 8)], [(4, 8)])) is None


def test_one_row_is_no_size():
    assert varying_axes(seen([(4, 8)], [(1, 8)])) is None  # of one it is broadcast, of none there is nothing


def test_other_ranks_and_dtypes_are_another_story():
    shapes = [*seen([(4, 8)], [(4, 8, 2)]), (Spec((5, 8), "int32"),), (Spec((6, 8)),)]
    assert varying_axes(shapes).numbers == {(0, 0): 0}


def test_sizes_take_the_place_of_what_varies():
    axes = varying_axes(seen([(4, 8), (4,)], [(6, 8), (6,)]))
    varying = Varying((6,))
    x, y = axes.sized((Spec((6, 8)), Spec((6,))), varying)
    assert x.shape[0] is varying.axes[0] and x.shape[1] == 8 and y.shape == (varying.axes[0],)
    assert axes.places({0}) == {(0, 0), (1, 0)}
