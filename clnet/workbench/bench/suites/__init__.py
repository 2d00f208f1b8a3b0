"""What the bench measures, a module a suite. A file added here is a suite: `clnet bench --suite NAME` knows it by the
file's name, and it declares

    SUITE = Suite(works)

where `works()` gives what is timed, as `compare.Work` or anything else with a suite, a name and rows.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ..compare import Setting
    from ..row import Row

ALL = ("ops", "steps", "memory", "startup", "scaling")  # what "all" stands for; the others have sizes for GPUs


class Measurable(Protocol):
    """Something that the bench measures: a `compare.Work`, or what makes its rows by other means."""

    @property
    def suite(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def quick(self) -> bool:
        """Whether --quick keeps it."""

    def rows(self, setting: Setting) -> list[Row]:
        """What was measured, a row a peer."""


class Curve(NamedTuple):
    """What works are drawn over, the number at the end of their names, and what their times are."""

    size: str
    time: str


@dataclass(frozen=True)
class Suite:
    """A suite, and how its rows are shown.

    works    what is measured
    sized    works takes (gpu, precision): the sizes of GPUs, a name of clnet.autocast, and so --precision
    kinds    works takes (gpu): GPUs have other works
    legend   what the columns of its tables are; "": times and their ratios
    cells    a row as it stands in tables; None: work, peer, times, ratio, rates
    ratios   its rows are ratios of a peer's to ours, which count in sums
    rates    its rows have GFLOP/s and GB/s
    bars     its ratios are drawn
    bounds   peers that are nobody, but what was computed: no list says that we are slower
    narrow   its table in reports has a row a work and a column a peer; else rows as they stand in `cells`
    curves   works whose names begin so are drawn over the number that they end in
    """

    works: Callable[..., Sequence[Measurable]]
    sized: bool = False
    kinds: bool = False
    legend: str = ""
    cells: Callable[[Row], dict[str, object]] | None = None
    ratios: bool = True
    rates: bool = True
    bars: bool = False
    bounds: tuple[str, ...] = ()
    narrow: bool = True
    curves: Mapping[str, Curve] = field(default_factory=dict)

    def of(self, gpu: bool, precision: str) -> Sequence[Measurable]:
        """Its works on such a device; `precision` of a suite that has one."""
        return self.works(gpu, precision) if self.sized else self.works(gpu) if self.kinds else self.works()


def names() -> tuple[str, ...]:
    """The names of all suites, those of "all" first; no module is imported."""
    return (*ALL, *sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in ALL))


def find(name: str) -> Suite:
    """The suite of that name; of a row whose suite is gone, one that says nothing of its own."""
    if name not in names():
        return Suite(lambda: ())
    found: Suite = importlib.import_module(f"{__name__}.{name}").SUITE
    return found
