"""Which kernel serves a problem on a device: the variants of a family are a table, and one chooser asks them.

    problem   what is to be computed, as one frozen, typed value (a product, a convolution, attention, rows ...)
    variant   one way to compute it: a function (problem, device) -> Offer or Refusal, beside the .cl file it speaks for
    offer     the stages to launch, and how long they take by estimate
    rank      variants are asked rank by rank; the first rank with an offer serves, by its shortest offer

A new kernel is a .cl file and a Python file of the same stem with its variants; the family's package imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from .stage import Stage

if TYPE_CHECKING:
    from ..engine.device.devices import Device


class Offer(NamedTuple):
    """`build` gives the stages; `cycles` of a compute unit are what they take by estimate, where variants compete."""

    build: Callable[[], list[Stage]]
    cycles: float = 0.0


class Refusal(NamedTuple):
    """Why a variant does not serve, as a half sentence: "16 bits only"."""

    why: str


Answer = Offer | Refusal
CPUS_ONLY, GPUS_ONLY = Refusal("CPUs only"), Refusal("GPUs only")


class Variant(NamedTuple):
    """A row of the table; `serves` says in words for what."""

    family: str
    name: str
    cl: str
    serves: str
    rank: int
    ask: Callable[[Any, Device], Answer]

    def __repr__(self) -> str:
        return f"<{self.family} {self.name}>"


VARIANTS: dict[str, list[Variant]] = {}


def variant(family: str, *, cl: str, serves: str,
            rank: int = 0) -> Callable[[Callable[[Any, Device], Answer]], Variant]:
    """Declares a variant of a family. Of equal estimates the one declared first serves."""

    def declare(ask: Callable[[Any, Device], Answer]) -> Variant:
        row = Variant(family, ask.__name__.strip("_"), cl, serves, rank, ask)
        rows = VARIANTS.setdefault(family, [])
        if any(v.name == row.name for v in rows):
            raise TypeError(f"variant {row.name!r} of {family} is already declared")
        rows.append(row)
        rows.sort(key=lambda v: v.rank)
        return row

    return declare


class Choice(NamedTuple):
    """Which variant serves, and what the others said. No variant: the op's formula serves."""

    family: str
    taken: Variant | None
    offer: Offer | None
    others: tuple[tuple[Variant, str], ...]

    @property
    def stages(self) -> list[Stage] | None:
        return self.offer.build() if self.offer is not None else None

    def __repr__(self) -> str:
        return f"<{self.family}: {self.taken.name if self.taken else 'the formula'}>"

    def __str__(self) -> str:
        taken = f"{self.taken.name} ({self.taken.cl})" if self.taken else "the formula, from simpler kernels"
        return "\n".join([taken, *(f"  not {v.name}: {why}" for v, why in self.others)])


def choose(family: str, problem: Any, device: Device) -> Choice:
    """The shortest offer of the first rank that makes one."""
    others: list[tuple[Variant, str]] = []
    taken: tuple[Variant, Offer] | None = None
    for _, rank in groupby(VARIANTS[family], key=lambda v: v.rank):
        if taken is not None:
            others += [(v, f"{taken[0].name} goes before") for v in rank]
            continue
        offers = list(_offers(rank, problem, device, others))
        if offers:
            taken = min(offers, key=lambda found: found[1].cycles)
            others += [(v, f"{offer.cycles:.3g} cycles, {taken[0].name} takes {taken[1].cycles:.3g}")
                       for v, offer in offers if v is not taken[0]]
    row, offer = taken if taken is not None else (None, None)
    return Choice(family, row, offer, tuple(others))


def _offers(rank: Iterator[Variant], problem: Any, device: Device,
            others: list[tuple[Variant, str]]) -> Iterator[tuple[Variant, Offer]]:
    for row in rank:
        answer = row.ask(problem, device)
        if isinstance(answer, Refusal):
            others.append((row, answer.why))
        else:
            yield row, answer
