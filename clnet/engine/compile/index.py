"""Symbolic index arithmetic: how a chain of views becomes one C expression in the consumer's load.

An Expr is an affine sum Σ cₖ·aₖ + c of atoms (loop variables, quotients, remainders), each with a known range, so that
reshape ∘ permute ∘ reshape collapses and most divisions vanish.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import Any, ClassVar

from ...core.size import common_divisor, divides, number, parted, reaches, varies


def below(a: Any, b: Any) -> bool:
    """Whether a < b. It is noted where it holds, for what follows from it; where it does not just now, what is done
    instead has to be right for every shape.
    """
    return bool(number(a) < number(b) and a < b)


@dataclass(frozen=True)
class Var:
    """A loop variable; 0 ≤ value ≤ top."""

    name: str
    top: int

    def c(self, rename: dict[str, str] | None = None) -> str:
        """C text; variables may be renamed."""
        return (rename or {}).get(self.name, self.name)

    def variables(self) -> set[str]:
        """The names of the loop variables in it."""
        return {self.name}


@dataclass(frozen=True)
class _Divided:
    """What a division by a constant leaves; 0 ≤ value ≤ top."""

    of: Expr
    by: int
    top: int
    sign: ClassVar[str]

    def c(self, rename: dict[str, str] | None = None) -> str:
        """C text; variables may be renamed."""
        inner = self.of.c(rename)
        return f"({inner if inner.isidentifier() else f'({inner})'} {self.sign} {self.by})"

    def variables(self) -> set[str]:
        """The names of the loop variables in it."""
        return variables(self.of)


class Quotient(_Divided):
    """⌊of / by⌋; 0 ≤ value ≤ top."""

    sign = "/"


class Remainder(_Divided):
    """of - by · ⌊of / by⌋; 0 ≤ value ≤ top."""

    sign = "%"

    @cached_property
    def quotient(self) -> Expr:
        """⌊of / by⌋"""
        return self.of // self.by


Atom = Var | Quotient | Remainder


class Expr:
    """Immutable Σ cₖ·aₖ + c with its range [low, top]."""

    __slots__ = ("_hash", "const", "low", "terms", "top")

    def __init__(self, terms: dict[Atom, int], const: int = 0) -> None:
        # A size that is 0 just now is none for others: its term stays.
        self.terms = {a: c for a, c in terms.items() if (varies(c) or c) and (varies(a.top) or a.top)}
        self.const = self.low = self.top = const
        self._hash: int | None = None
        for a, c in self.terms.items():
            if c < 0:
                self.low += c * a.top
            else:
                self.top += c * a.top

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.terms.items()), self.const))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.const == other.const and self.terms == other.terms

    def __repr__(self) -> str:
        return self.c()

    def __add__(self, other: Expr | int) -> Expr:
        if not isinstance(other, Expr):
            return Expr(self.terms, self.const + other)
        terms = dict(self.terms)
        for a, c in other.terms.items():
            terms[a] = terms.get(a, 0) + c
        return _join(Expr(terms, self.const + other.const))

    def __mul__(self, k: int) -> Expr:
        return Expr({a: c * k for a, c in self.terms.items()}, self.const * k)

    def _split(self, k: int) -> tuple[Expr, Expr]:
        """(whole multiples of k divided by k, the rest with 0 ≤ rest where it can be told)."""
        q, r = parted(self.const, k, rising=True)
        if varies(r) and r.low < 0:
            q, r = self.const // k, self.const % k
        whole = Expr({a: c // k for a, c in self.terms.items() if divides(k, c)}, q)
        return whole, Expr({a: c for a, c in self.terms.items() if not divides(k, c)}, r)

    def __floordiv__(self, k: int) -> Expr:
        if k == 1:
            return self
        whole, rest = self._split(k)
        if 0 <= rest.low and below(rest.top, k):
            return whole
        if rest.low < 0:
            return _quotient(self, k)
        if (rows := rest._rows(k)) is not None:
            row, c, _ = rows
            return whole + row // (k // c)
        return whole + _quotient(rest, k)

    def _rows(self, k: int) -> tuple[Expr, int, Expr] | None:
        """(r, c, e) with self = r · c + e, 0 ≤ e < c and c a divisor of k: a row number and a place in the row."""
        for c in sorted({abs(v) for v in self.terms.values()}, key=number, reverse=True):
            if divides(c, k) and 1 < c < k:
                row, e = self._split(c)
                if row.terms and 0 <= e.low and below(e.top, c):
                    return row, c, e
        return None

    def __mod__(self, k: int) -> Expr:
        if k == 1:
            return Expr({})
        _, rest = self._split(k)
        if 0 <= rest.low and below(rest.top, k):
            return rest
        if rest.low >= 0 and (rows := rest._rows(k)) is not None:
            row, c, e = rows
            return (row % (k // c)) * c + e
        return _remainder(rest if rest.low >= 0 else self, k)

    def coefficient(self, name: str) -> int | None:
        """d/d name when the expression is affine in that variable, else None."""
        total = 0
        for a, c in self.terms.items():
            if isinstance(a, Var):
                total += c if a.name == name else 0
            elif name in a.variables():
                return None
        return total

    def c(self, rename: dict[str, str] | None = None) -> str:
        """C text of type size_t; variables may be renamed (a lane's own index in place of the vector's first)."""
        if not self.terms:
            return str(self.const)
        terms = sorted(self.terms.items(), key=lambda t: -abs(number(t[1])))
        parts = [a.c(rename) if c == 1 else f"{a.c(rename)} * {c}" for a, c in terms]
        if self.const:
            parts.append(str(self.const))
        return " + ".join(parts).replace("+ -", "- ") if len(parts) > 1 else parts[0]


def _join(e: Expr) -> Expr:
    """(x / k) · k·c + (x % k) · c  →  x · c."""
    for a, c in e.terms.items():
        if isinstance(a, Remainder):
            quotient = a.quotient
            if len(quotient.terms) == 1 and not quotient.const:
                ((q, one),) = quotient.terms.items()
                if e.terms.get(q, 0) == c * a.by * one:
                    rest = {t: v for t, v in e.terms.items() if t not in (a, q)}
                    return Expr(rest, e.const) + a.of * c
    return e


def _only(e: Expr) -> Atom | None:
    """The atom that e is, None where it is something else."""
    if len(e.terms) == 1 and not e.const:
        ((a, c),) = e.terms.items()
        return a if c == 1 else None
    return None


def _quotient(of: Expr, by: int) -> Expr:
    if of.low >= 0:
        g = common_divisor(by, of.const, *of.terms.values())
        if g > 1:
            smaller = Expr({a: c // g for a, c in of.terms.items()}, of.const // g)
            return _quotient(smaller, by // g) if by > g else of // g
        a = _only(of)
        if isinstance(a, Quotient):
            return a.of // (a.by * by)
        if isinstance(a, Remainder) and divides(by, a.by):
            return (a.of // by) % (a.by // by)
    return Expr({Quotient(of, by, of.top // by): 1})


def _remainder(of: Expr, by: int) -> Expr:
    if of.low >= 0:
        a = _only(of)
        if isinstance(a, Remainder) and divides(by, a.by):
            return a.of % by
    return Expr({Remainder(of, by, min(by - 1, of.top)): 1})


def var(name: str, n: int) -> Expr:
    """The loop variable `name` in [0, n)."""
    return Expr({Var(name, max(n - 1, 0)): 1})


def const(c: int) -> Expr:
    return Expr({}, c)


def variables(e: Expr) -> set[str]:
    """The names of the loop variables in e."""
    return set().union(*(a.variables() for a in e.terms))


@dataclass(frozen=True)
class Condition:
    """0 ≤ expr < n, and expr divisible by `by`: where a padded or spread view has an element."""

    expr: Expr
    n: int
    by: int = 1

    def c(self, rename: dict[str, str] | None = None) -> str:
        text = self.expr.c(rename)
        parts = []
        if self.expr.low < 0:
            parts.append(f"(long)({text}) >= 0")
        if not below(self.expr.top, self.n * self.by):
            parts.append(f"(long)({text}) < {self.n * self.by}")
        if self.by > 1:
            parts.append(f"({text}) % {self.by} == 0")
        return " && ".join(parts)

    @property
    def always(self) -> bool:
        return self.by == 1 and self.expr.low >= 0 and below(self.expr.top, self.n)


class Index(tuple[Expr, ...]):
    """Coordinates, one Expr an axis. The methods are the vocabulary in which views state their index maps."""

    def flatten(self, shape: Sequence[int]) -> Flat:
        strides = [*accumulate(reversed(shape), mul, initial=1)][:-1]
        parts = list(zip(reversed(self), strides, strict=True))
        if any(isinstance(a, Remainder) for e in self for a in e.terms):  # which may join a quotient
            return Flat(sum((e * stride for e, stride in parts), const(0)))
        terms: dict[Atom, int] = {}
        for e, stride in parts:
            for a, c in e.terms.items():
                terms[a] = terms.get(a, 0) + c * stride
        return Flat(Expr(terms, sum(e.const * stride for e, stride in parts)))

    def pick(self, positions: Sequence[int]) -> Index:
        return Index(self[p] for p in positions)

    def drop(self, lead: int) -> Index:
        return Index(self[lead:])

    def clamp(self, shape: Sequence[int]) -> Index:
        """Coordinate 0 on axes of size 1 (broadcasting)."""
        return Index(const(0) if n == 1 else e for e, n in zip(self, shape, strict=True))

    def affine(self, scale: Sequence[int], shift: Sequence[int]) -> Index:
        return Index(e * s + a for e, s, a in zip(self, scale, shift, strict=True))

    def divided(self, shift: Sequence[int], by: Sequence[int], shape: Sequence[int]) -> tuple[Index, list[Condition]]:
        """(e + shift) / by, valid where that is a whole number inside `shape`."""
        moved = [e + s for e, s in zip(self, shift, strict=True)]
        conditions = [Condition(e, n, k) for e, n, k in zip(moved, shape, by, strict=True)]
        divided = Index(e if k == 1 else e // k for e, k in zip(moved, by, strict=True))
        return divided, [c for c in conditions if not c.always]

    def windows(self, d: int, stride: Sequence[int], dilation: Sequence[int]) -> Index:
        lead, o, k = self[: -2 * d], self[-2 * d : -d], self[-d:]
        return Index((*lead, *(a * s + b * t for a, b, s, t in zip(o, k, stride, dilation, strict=True))))

    def diagonal(self, d: int, stride: Sequence[int], dilation: Sequence[int]) -> Index:
        return Index((*self.windows(d, stride, dilation), *self[-d:]))

    def spread(self, d: int, stride: Sequence[int], dilation: Sequence[int],
               shape: Sequence[int]) -> tuple[Index, list[Condition]]:
        lead, h, k = self[: -2 * d], self[-2 * d : -d], self[-d:]
        moved = Index(a + b * -t for a, b, t in zip(h, k, dilation, strict=True))
        o, conditions = moved.divided([0] * d, list(stride), shape[-2 * d : -d])
        return Index((*lead, *o, *k)), conditions


@dataclass(frozen=True)
class Flat:
    """A row-major element number, between flatten and unflatten."""

    expr: Expr

    def unflatten(self, shape: Sequence[int]) -> Index:
        out, stride = list[Expr](), math.prod(shape)
        if varies(stride) and reaches(self.expr.low, stride):  # a condition keeps this from being read
            return Index(const(0) for _ in shape)
        for n in shape:
            stride //= max(n, 1)
            q = self.expr // stride if stride else const(0)
            out.append(const(0) if not n else q if below(q.top, n) else q % n)
        return Index(out)
