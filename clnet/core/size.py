"""Sizes that vary: numbers that remember of which axes they were computed, and what was decided by them.

A step is recorded and planned with `Size` in place of the sizes that were seen to change. Each is a polynomial over
atoms (a varying axis, a quotient, a remainder), with its value for the shape at hand. Arithmetic gives sizes again; a
comparison, or whatever else needs the very number, is answered by that value and noted as a condition. The plan then
serves every shape for which the noted conditions come out the same: its numbers are computed anew, nothing else is.

`Size` is no int, so that nothing can take its number unnoticed: range, indexing, math and NumPy ask `__index__`,
`__int__` or `__float__`, which note that the plan serves this one number.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakValueDictionary

from .polynomial import Monomial, Number, product, quotient, total, without

if TYPE_CHECKING:
    from .varying import Varying

OPEN, CLOSE = "\ue000", "\ue001"  # around a size's number in text, which becomes an argument of the kernel there
MARKED = re.compile(f"{OPEN}(\\d+){CLOSE}")
_marks = itertools.count()
_living: WeakValueDictionary[int, Size] = WeakValueDictionary()


class Unsettled(Exception):
    """Something has to know the numbers of these axes, by their places among those that vary."""

    def __init__(self, axes: set[int], what: str = "") -> None:
        super().__init__(what or "the program of the function has to know it")
        self.axes = axes


class Coincidence(Unsettled):
    """A size is just now what it is compared with: what follows from that serves these numbers of the axes alone."""


SIGNS: dict[str, Callable[[Any], bool]] = {"<": lambda d: d < 0, "<=": lambda d: d <= 0, "==": lambda d: d == 0}
COMPUTED: dict[str, Callable[[Any, Any], Number]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "min": min, "max": max, "ceil": lambda a, _: math.ceil(a)}


class Size:
    """Σ c · Π atoms, and its value for the shape at hand."""

    __slots__ = ("__weakref__", "env", "low", "mark", "number", "terms", "value")

    def __init__(self, env: Varying, terms: dict[Monomial, int], number: int) -> None:
        self.env, self.terms, self.number = env, terms, number
        self.value = total(terms, env.values.__getitem__)
        self.low = self._least()  # a bound from below, for every shape that the plan serves
        self.mark = next(_marks)
        _living[self.mark] = self

    def _least(self) -> float:
        total = 0.0
        for monomial, c in self.terms.items():
            lows = [self.env.lows[atom] for atom in monomial]
            if monomial and (c < 0 or min(lows) < 0):
                return -math.inf
            total += c * math.prod(lows)
        return total

    @property
    def whole(self) -> bool:
        """Whether it is a whole number by construction."""
        return isinstance(self.value, int)

    @property
    def content(self) -> int:
        """The largest number by which every term can be divided."""
        return math.gcd(*self.terms.values())

    # --- text
    def __repr__(self) -> str:
        return f"{OPEN}{self.mark}{CLOSE}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else repr(self)

    # --- arithmetic
    def _terms(self, other: Any) -> dict[Monomial, int] | None:
        if isinstance(other, Size):
            return other.terms
        if isinstance(other, int):
            return {(): int(other)}
        return None

    def __add__(self, other: Any) -> Any:
        return self.env.once("+", self, other, Size._sum)

    __radd__ = __add__

    def _sum(self, other: Any) -> Any:
        terms = self._terms(other)
        if terms is None:
            return self._real("+", self, other) if isinstance(other, float) else NotImplemented
        if not (self.whole and (not isinstance(other, Size) or other.whole)):
            return self._real("+", self, other)
        total = dict(self.terms)
        for m, c in terms.items():
            total[m] = total.get(m, 0) + c
        return self.env.sized(total)

    def __neg__(self) -> Any:
        return self._real("*", self, -1) if not self.whole else self.env.sized({m: -c for m, c in self.terms.items()})

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, float):
            return self._real("-", self, other)
        return self + -other if isinstance(other, (int, Size)) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return self._real("-", other, self) if isinstance(other, float) else -self + other

    def __mul__(self, other: Any) -> Any:
        return self.env.once("*", self, other, Size._product)

    __rmul__ = __mul__

    def _product(self, other: Any) -> Any:
        terms = self._terms(other)
        if terms is None:
            return self._real("*", self, other) if isinstance(other, float) else NotImplemented
        if not (self.whole and (not isinstance(other, Size) or other.whole)):
            return self._real("*", self, other)
        return self.env.sized(product(self.terms, terms))

    def _real(self, kind: str, a: Any, b: Any) -> Any:
        """A number with a fraction: it is computed as Python would, step by step."""
        x, y = _value(a), _value(b)
        value = COMPUTED[kind](x, y)
        return self.env.made(kind, a, b, float(value), _least(a, b) if kind != "-" else -math.inf)

    def __truediv__(self, other: Any) -> Any:
        return self.env.made("/", self, other, self.value / _value(other), _least(self, other))

    def __rtruediv__(self, other: Any) -> Any:
        return self.env.made("/", other, self, other / self.value, _least(other, self))

    def __floordiv__(self, other: Any) -> Any:
        return divided(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return divided(other, self)

    def __mod__(self, other: Any) -> Any:
        return 0 if divides(other, self) else _remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return _remainder(other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __lshift__(self, other: int) -> Any:
        return self * (1 << other)

    def __rshift__(self, other: int) -> Any:
        return self // (1 << other)

    def __pow__(self, other: int) -> Any:
        result: Any = 1
        for _ in range(other):
            result = result * self
        return result

    def __ceil__(self) -> Any:
        return self if self.whole else self.env.made("ceil", self, None, math.ceil(self.value), self.low)

    def __float__(self) -> float:
        self._unknown()

    def __int__(self) -> int:
        self._unknown()

    def __index__(self) -> int:
        self._unknown()

    def _unknown(self) -> NoReturn:
        """Somebody asks for the very number."""
        raise Unsettled(self.env.behind(self))

    # --- comparisons
    def __hash__(self) -> int:
        return hash((id(self.env), self.number))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, (Size, int, float)) or (isinstance(other, Size) and other.env is not self.env):
            return NotImplemented
        return _is("==", self, other)

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> bool:
        return _is("<", self, other)

    def __le__(self, other: Any) -> bool:
        return _is("<=", self, other)

    def __gt__(self, other: Any) -> bool:
        return not _is("<=", self, other)

    def __ge__(self, other: Any) -> bool:
        return not _is("<", self, other)

    def __bool__(self) -> bool:
        return not _is("==", self, 0)


def _least(*numbers: Any) -> float:
    """A bound from below of what is made of them by signs that keep what is not negative so."""
    return 0.0 if all(_low(n) >= 0 for n in numbers) else -math.inf


def _low(a: Any) -> float:
    return float(a.low if isinstance(a, Size) else a)


def _value(a: Any) -> Number:
    found: Number = a.value if isinstance(a, Size) else a
    return found


def settled(a: Any, why: str = "") -> Any:
    """A number, or a text of numbers, that is known. Raises Unsettled, which says why, where it varies."""
    sizes = [a] if isinstance(a, Size) else in_text(a) if isinstance(a, str) and OPEN in a else []
    if sizes:
        raise Unsettled(set().union(*(s.env.behind(s) for s in sizes)), why)
    return a


def number(a: Any) -> Any:
    """The value for the shape at hand, with nothing noted: for what is computed anew for every shape."""
    return a.value if isinstance(a, Size) else a


def _difference(a: Size, b: Any) -> Any:
    if not a.whole or isinstance(b, float) or (isinstance(b, Size) and not b.whole):
        return a.env.made("-", a, b, a.value - _value(b), -math.inf)
    return a - b


def _is(kind: str, a: Size, b: Any) -> bool:
    """Whether a kind b: by what holds for every shape, else noted."""
    d = _difference(a, b)
    if not isinstance(d, Size):
        return SIGNS[kind](d)
    low = d.low
    if low > 0 or (low == 0 and kind == "<"):
        return False
    if d.whole:
        high = -(-d).low
        if high < 0 or (high == 0 and kind == "<="):
            return kind != "=="
    return a.env.note(kind, d)


def in_text(text: str) -> list[Size]:
    """The sizes that stand in a text, in order, each once."""
    return [_living[mark] for mark in dict.fromkeys(map(int, MARKED.findall(text)))]


def real(n: Any) -> Any:
    """n as a float."""
    return n * 1.0 if isinstance(n, Size) else float(n)


def varies(*numbers: Any) -> bool:
    """Whether one of them does."""
    return any(isinstance(n, Size) for n in numbers)


def typical(n: Any) -> Any:
    """A number to choose by in place of one that varies (tiles, shares of work-items, what is worth a kernel): what it
    is where each axis is of the typical size of its class. Right is whatever is chosen; nothing is noted.
    """
    return n.env.typical(n) if isinstance(n, Size) else n


def bounded(n: Any) -> bool:
    """Whether no number is larger than the typical one: every axis is of a class that ends, and n grows with them."""
    return not isinstance(n, Size) or (n.env.bounded and n <= typical(n))


def smaller(a: Any, b: Any) -> Any:
    """min(a, b), whichever it is: nothing is noted."""
    return _either("min", a, b)


def larger(a: Any, b: Any) -> Any:
    """max(a, b), whichever it is: nothing is noted."""
    return _either("max", a, b)


def _either(kind: str, a: Any, b: Any) -> Any:
    sizes = [n for n in (a, b) if isinstance(n, Size)]
    choice = COMPUTED[kind]
    if not sizes:
        return choice(a, b)
    return sizes[0].env.made(kind, a, b, choice(_value(a), _value(b)), choice(_low(a), _low(b)))


def same(a: Any, b: Any) -> bool:
    """Whether a and b are one number for every shape: nothing is noted where they happen to be."""
    return a is b if varies(a, b) else bool(a == b)


def divides(by: Any, size: Any) -> bool:
    """Whether by · something whole = size, for every shape."""
    if isinstance(by, Size):
        return isinstance(size, Size) and _quotient(size, by) is not None
    return bool((size.content if isinstance(size, Size) else size) % by == 0)


def _quotient(size: Size, by: Size) -> Any:
    """size / by where that is a polynomial with whole factors; else None."""
    found = quotient(size.terms, by.terms)
    return None if found is None else size.env.sized(found)


def parted(a: Any, b: Any, rising: bool = False) -> tuple[Any, Any]:
    """(q, r) with a = b · q + r: in q as much as the terms say for every shape, and all where nothing varies; with
    `rising` more, so that no term of r falls, where that can be.
    """
    if not varies(a, b):
        return divmod(a, b)
    if isinstance(a, int):
        return (0 if a >= 0 else -1, a if a >= 0 else b + a) if -b.low <= a < b.low else (0, a)
    terms = [((), b)] if isinstance(b, int) else list(b.terms.items())
    if not a.whole or len(terms) != 1:
        exact = _quotient(a, b) if a.whole and b.whole else None
        return (0, a) if exact is None else (exact, 0)
    (atoms, c), whole, rest = terms[0], dict[Monomial, int](), dict[Monomial, int]()
    for m, d in a.terms.items():
        left = without(m, atoms)
        if left is None or (d % c and m and not (rising and d < 0)):
            rest[m] = d
        else:
            whole[left], rest[m] = d // c, d % c
    q, r = a.env.sized(whole), a.env.sized(rest)
    if isinstance(r, int):
        more, r = parted(r, b)
        q = q + more
    return q, r


def _within(a: Any, b: Any) -> bool:
    """Whether 0 ≤ a < b, for every shape."""
    apart = b - a
    return _low(a) >= 0 and _low(apart) > 0


def reaches(a: Any, b: Any) -> bool:
    """Whether a ≥ b for every shape, as far as it can be told: nothing is noted."""
    return _low(a - b) >= 0


def divided(a: Any, b: Any) -> Any:
    """⌊a / b⌋, where one of them is a Size."""
    q, rest = parted(a, b)  # ⌊(b · q + r) / b⌋ = q + ⌊r / b⌋
    if not varies(rest, b) or _within(rest, b):
        return q
    env = a.env if isinstance(a, Size) else b.env
    return q + env.made("//", rest, b, _value(rest) // _value(b), _least(rest, b))


def _remainder(a: Any, b: Any) -> Any:
    _, rest = parted(a, b)
    if not varies(rest, b) or _within(rest, b):
        return rest
    env = a.env if isinstance(a, Size) else b.env
    return env.made("%", rest, b, _value(rest) % _value(b), _least(0, b))


def common_divisor(*numbers: Any) -> int:
    """A number that divides all of them, for every shape: the greatest where none varies."""
    return math.gcd(*(n.content if isinstance(n, Size) else n for n in numbers))
