"""Sizes in one straight run: a plan asks for all of its sizes anew for every shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .polynomial import Monomial, Number
from .size import COMPUTED, Size

Terms = Sequence[tuple[int, Sequence[int]]]  # of Σ c · Π values: c, and the places of the values
Step = tuple[Callable[[Any, Any], Number], Any, Any]  # a function of two operands, each Terms or a number


class Straight:
    """What computes these polynomials over atoms, in their order, from the values of the axes. Every atom has a place,
    behind those that it takes: first all axes, then what is computed.
    """

    def __init__(self, sizes: Sequence[Mapping[Monomial, int]], atoms: Sequence[tuple[str, Any, Any]]) -> None:
        self._atoms = atoms
        axes = [k for k, (kind, _, _) in enumerate(atoms) if kind == "axis"]
        self._places = dict(zip(axes, range(len(axes)), strict=True))
        self._steps: list[Step] = []
        self._results = [self._terms(terms) for terms in sizes]

    def _terms(self, terms: Mapping[Monomial, int]) -> Terms:
        return [(c, [self._place(number) for number in monomial]) for monomial, c in terms.items()]

    def _place(self, number: int) -> int:
        if number not in self._places:
            kind, a, b = self._atoms[number]
            step = COMPUTED[kind], self._operand(a), self._operand(b)
            self._places[number] = len(self._places)
            self._steps.append(step)
        return self._places[number]

    def _operand(self, value: Any) -> Any:
        return self._terms(value.terms) if isinstance(value, Size) else value

    def __call__(self, axes: Sequence[int]) -> list[Number]:
        values: list[Any] = list(axes)
        for function, a, b in self._steps:
            values.append(function(_total(a, values) if type(a) is list else a,
                                   _total(b, values) if type(b) is list else b))
        return [_total(terms, values) for terms in self._results]


def _total(terms: Terms, values: Sequence[Any]) -> Any:
    """As polynomial.total, to the bit."""
    found: Any = 0
    for c, places in terms:
        for place in places:
            c = c * values[place]
        found = found + c
    return found
