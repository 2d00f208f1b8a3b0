"""Which sizes of a function's inputs vary, from the shapes that it was called with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..core.spec import Spec
from ..core.varying import LEAST, Varying


class Axes:
    """Which axes of a function's inputs vary: (input, axis) -> its number among those that vary each on their own."""

    def __init__(self, numbers: Mapping[tuple[int, int], int], specs: tuple[Spec, ...]) -> None:
        self.numbers, self.specs = numbers, specs
        self.count = len(set(numbers.values()))

    def values(self, specs: tuple[Spec, ...]) -> tuple[int, ...] | None:
        """The sizes of the axes that vary; None for inputs that differ in anything else."""
        found: dict[int, int] = {}
        for k, (known, spec) in enumerate(zip(self.specs, specs, strict=True)):
            if known.dtype != spec.dtype or len(known.shape) != len(spec.shape):
                return None
            for a, (n, m) in enumerate(zip(known.shape, spec.shape, strict=True)):
                number = self.numbers.get((k, a))
                if (n if number is None else found.setdefault(number, m)) != m:
                    return None
        return tuple(found[k] for k in range(self.count))

    def shown(self, ranges: Sequence[str]) -> str:
        """The specs, with the ranges of the axes that vary."""
        shapes = [", ".join(ranges[self.numbers[k, a]] if (k, a) in self.numbers else str(n)
                            for a, n in enumerate(s.shape)) for k, s in enumerate(self.specs)]
        return ", ".join(f"{s.dtype}[{shape}]" for s, shape in zip(self.specs, shapes, strict=True))

    def places(self, numbers: Collection[int]) -> set[tuple[int, int]]:
        """Where the axes of these numbers are."""
        return {at for at, number in self.numbers.items() if number in numbers}

    def sized(self, specs: tuple[Spec, ...], varying: Varying) -> tuple[Spec, ...]:
        """The specs with sizes that vary in the place of their numbers."""
        return tuple(Spec(tuple(varying.axes[self.numbers[k, a]] if (k, a) in self.numbers else n
                                for a, n in enumerate(s.shape)), s.dtype) for k, s in enumerate(specs))


def varying_axes(seen: Sequence[tuple[Spec, ...]], fixed: Collection[tuple[int, int]] = ()) -> Axes | None:
    """What varies among the shapes seen, of which the last is the one at hand: axes that always had one size are one.
    None where nothing but the `fixed` does, or where one of them has a size now that means something else.
    """
    now = seen[-1]
    alike = [s for s in seen if [(i.dtype, len(i.shape)) for i in s] == [(i.dtype, len(i.shape)) for i in now]]
    series = {(k, a): tuple(s[k].shape[a] for s in alike) for k, i in enumerate(now) for a in range(len(i.shape))}
    moving = {at: sizes for at, sizes in series.items() if len(set(sizes)) > 1 and at not in fixed}
    if not moving or min(sizes[-1] for sizes in moving.values()) < LEAST:
        return None
    numbers = {sizes: k for k, sizes in enumerate(dict.fromkeys(moving.values()))}
    return Axes({at: numbers[sizes] for at, sizes in moving.items()}, now)
