"""The axes of a plan that vary: the sizes made of them, what was noted of them, and what they are for another shape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from .polynomial import Monomial, Number, total
from .size import COMPUTED, SIGNS, Coincidence, Size
from .straight import Straight

LEAST: Final = 2  # a varying axis has at least so many: 0 and 1 mean other things to shapes
# Where classes of sizes end. A plan serves one class of each axis; a larger size than the last is typically BEYOND.
CLASSES, BEYOND = (16, 256), 512
RANGES = {end: f"{low}..{end}" for low, end in zip((LEAST, *(c + 1 for c in CLASSES)), CLASSES, strict=False)}
RANGES[BEYOND] = f"{CLASSES[-1] + 1}.."


def alike(sizes: Collection[int]) -> bool:
    """Whether one plan serves an axis of all these sizes: they are of one class."""
    return min(sizes) >= LEAST and len({_end(n) for n in sizes}) == 1


def _end(n: Any) -> int:
    """Where the class of this size ends."""
    return next((bound for bound in CLASSES if n <= bound), BEYOND)


class Varying:
    """The varying axes of one plan: their values of now, all sizes made of them, and the conditions noted."""

    def __init__(self, values: Sequence[int]) -> None:
        self.atoms: list[tuple[str, Any, Any]] = []
        self.values: list[Number] = []  # of the atoms
        self.lows: list[float] = []
        self.sizes: list[Size] = []
        self.conditions: dict[tuple[str, int], bool] = {}
        self._of: dict[Any, Any] = {}
        self._made: dict[tuple[str, int, type, int], Any] = {}  # sums and products: a plan makes the same over and over
        self._atom_numbers: dict[Any, int] = {}
        self._read: dict[int, None] = {}  # numbers of the sizes that every shape asks for
        self._all: Straight | None = None  # what computes them
        self._latest: Numbers | None = None  # whoever asks whether a shape is served asks for its numbers next
        self.axes: list[Any] = [self.made("axis", k, None, v, LEAST) for k, v in enumerate(values)]
        self._ends = [_end(n) for n in self.axes]
        self.typical, self.bounded = Numbers(self, self._ends, {}), BEYOND not in self._ends
        self.now, self.ranges = tuple(values), [RANGES[end] for end in self._ends]

    def _atom(self, kind: str, a: Any, b: Any, value: Number, low: float) -> int:
        key = kind, _key(a), _key(b)
        if key not in self._atom_numbers:
            self._atom_numbers[key] = len(self.atoms)
            self.atoms.append((kind, a, b))
            self.values.append(value)
            self.lows.append(low)
        return self._atom_numbers[key]

    def made(self, kind: str, a: Any, b: Any, value: Number, low: float) -> Size:
        """The size that is a new atom: `kind` of a and b."""
        return self._size({(self._atom(kind, a, b, value, low),): 1})

    def _size(self, terms: dict[Monomial, int]) -> Size:
        key = frozenset(terms.items())
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = Size(self, terms, len(self.sizes))
            self.sizes.append(found)
        return found

    def sized(self, terms: dict[Monomial, int]) -> Any:
        """The number that a polynomial is: a Size, or an int where nothing of it varies."""
        terms = {m: c for m, c in terms.items() if c}
        if not terms:
            return 0
        if len(terms) == 1 and () in terms:
            return terms[()]
        return self._size(terms)

    def once(self, kind: str, a: Size, b: Any, make: Callable[[Size, Any], Any]) -> Any:
        """make(a, b), which is the sum or product of a size and another number."""
        sort = type(b)
        if sort is not int and sort is not Size:
            return make(a, b)
        key = kind, a.number, sort, b.number if sort is Size else b
        if key not in self._made:
            self._made[key] = make(a, b)
        return self._made[key]

    def note(self, kind: str, size: Size) -> bool:
        """Whether `size kind 0` holds now, noted. Raises Coincidence where a plan would serve this one number alone."""
        held = SIGNS[kind](size.value)
        if held and kind == "==":
            raise Coincidence(self.behind(size))
        if (kind, size.number) not in self.conditions:
            self.conditions[kind, size.number] = held
            self._latest = None  # which knew nothing of it
        return held

    def behind(self, size: Any) -> set[int]:
        """The axes of which a size is made."""
        found: set[int] = set()
        for number in {number for monomial in size.terms for number in monomial} if isinstance(size, Size) else ():
            kind, a, b = self.atoms[number]
            found |= {a} if kind == "axis" else self.behind(a) | self.behind(b)
        return found

    def described(self, key: Any) -> tuple[Any, ...]:
        """A key that holds sizes as one that is equal for those of another plan with axes of the same classes."""
        return _described(key), _described(tuple(self.atoms)), tuple(self.ranges)

    def noted_in(self, other: Varying) -> bool:
        """Whether all that was noted here was noted there, of the same sizes: shapes that it serves are served here."""
        return (self.ranges == other.ranges
                and _described(tuple(self.atoms)) == _described(tuple(other.atoms[: len(self.atoms)]))
                and self._noted().items() <= other._noted().items())

    def _noted(self) -> dict[Any, bool]:
        """The conditions, by the terms of their sizes."""
        return {(kind, frozenset(self.sizes[n].terms.items())): held for (kind, n), held in self.conditions.items()}

    # --- for another shape
    def expect(self, sizes: Iterable[Any]) -> None:
        """Every shape will ask for these, and for what was noted: they are computed at once then, not one by one."""
        self._read |= dict.fromkeys(s.number for s in sizes if isinstance(s, Size))
        self._read |= dict.fromkeys(n for _, n in self.conditions)
        self._all, self._latest = Straight([self.sizes[n].terms for n in self._read], self.atoms), None

    def at(self, axes: Sequence[int]) -> Numbers:
        """What gives the numbers of sizes for these values of the axes."""
        latest = self._latest
        if latest is not None and latest.axes == tuple(axes):
            return latest
        try:
            known = {} if self._all is None else dict(zip(self._read, self._all(axes), strict=True))
        except ZeroDivisionError:  # in a size that only shapes ask for of which other things hold
            known = {}
        self._latest = latest = Numbers(self, axes, known)
        return latest

    def serving(self, axes: Sequence[int]) -> Numbers | None:
        """The same, where all that was noted comes out the same; else None."""
        if min(axes) < LEAST or [_end(n) for n in axes] != self._ends:  # most that are refused, at once
            return None
        numbers = self.at(axes)
        if numbers.alike is None:
            noted = self.conditions.items()
            numbers.alike = all(SIGNS[kind](numbers(self.sizes[n])) is held for (kind, n), held in noted)
        return numbers if numbers.alike else None

    def serves(self, axes: Sequence[int]) -> bool:
        """Whether all that was noted comes out the same."""
        return self.serving(axes) is not None


class Numbers:
    """Sizes -> their numbers for one shape; everything else as it is. `alike`: whether all that was noted comes out the
    same, where somebody asked.
    """

    def __init__(self, varying: Varying, axes: Sequence[int], known: dict[int, Number]) -> None:
        self.axes = tuple(axes)
        self.alike: bool | None = None
        self._atoms: dict[int, Number] = dict(enumerate(axes))
        self._kinds = varying.atoms
        self._sizes = known

    def __call__(self, size: Any) -> Any:
        if not isinstance(size, Size):
            return size
        if size.number not in self._sizes:
            self._sizes[size.number] = total(size.terms, self._atom)
        return self._sizes[size.number]

    def _atom(self, number: int) -> Number:
        if number not in self._atoms:
            kind, a, b = self._kinds[number]
            self._atoms[number] = COMPUTED[kind](self(a), self(b))
        return self._atoms[number]


def _described(value: Any) -> Any:
    if isinstance(value, Size):
        return Size, tuple(sorted(value.terms.items()))
    return tuple(map(_described, value)) if isinstance(value, tuple) else value


def _key(a: Any) -> Any:
    return ("size", a.number) if isinstance(a, Size) else (type(a), a)
