"""Polynomials over atoms, with whole factors: monomial -> factor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

Number: TypeAlias = "int | float"
Monomial = tuple[int, ...]  # numbers of atoms, ascending, one for each power
Terms: TypeAlias = "dict[Monomial, int]"


def total(terms: Mapping[Monomial, int], atom: Callable[[int], Number]) -> Number:
    """Σ c · Π atoms."""
    found: Number = 0
    for monomial, c in terms.items():
        part: Number = c
        for number in monomial:
            part = part * atom(number)
        found = found + part
    return found


def product(a: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> Terms:
    """a · b"""
    found: Terms = {}
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted(m + n))
            found[key] = found.get(key, 0) + c * d
    return found


def quotient(a: Mapping[Monomial, int], b: Mapping[Monomial, int]) -> Terms | None:
    """a / b where that is a polynomial with whole factors, found as one divides by hand; else None."""
    lead = max(b, key=_order)
    found: Terms = {}
    left = dict(a)
    while left:
        first = max(left, key=_order)
        rest, factor = without(first, lead), left[first] // b[lead]
        if rest is None or factor * b[lead] != left[first]:
            return None
        found[rest] = factor
        for m, c in b.items():
            key = tuple(sorted(rest + m))
            left[key] = left.get(key, 0) - factor * c
            if not left[key]:
                del left[key]
    return found


def without(m: Monomial, by: Monomial) -> Monomial | None:
    """m / by, where that is a monomial."""
    left = list(m)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _order(m: Monomial) -> tuple[int, Monomial]:
    """Of monomials: that of m · n and k · n is that of m and k."""
    return len(m), m
