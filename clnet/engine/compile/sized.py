"""A plan for every shape of a structure: made once with sizes in place of numbers, then read for the shape at hand."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from ...core.size import number
from ...core.varying import Varying
from .layout import Slot, layout
from .plan import Plan

LARGEST = (1 << 31) - 1  # kernels take sizes as int
PLANS = 512  # kept for shapes that come again
GROWTH = 4  # what has to grow grows by this part at least, so that sizes that rise bit by bit do not move it each time


class SizedPlan:
    """The plan of a graph whose specs hold sizes of `varying`: as it is `unlaid`, and what its slots hold."""

    def __init__(self, unlaid: Plan, slots: Sequence[Slot], varying: Varying) -> None:
        self.unlaid, self.slots, self.varying = unlaid, slots, varying
        self.held = [number(s.nbytes) for s in slots]
        self._lay()
        self._arguments = unlaid.arguments()
        varying.expect([*self._arguments, *unlaid.measures(), *(s.nbytes for s in slots)])
        self._plans: OrderedDict[tuple[int, ...], Plan] = OrderedDict()
        self._lock = threading.Lock()

    def _lay(self) -> None:
        self.template = self.unlaid.laid(layout(self.slots, self.held))

    def serves(self, axes: tuple[int, ...]) -> bool:
        """Whether what was decided for the sizes of before is decided alike for these."""
        if axes in self._plans:
            return True
        numbers = self.varying.serving(axes)
        return numbers is not None and max(map(numbers, self._arguments), default=0) <= LARGEST

    def at(self, axes: tuple[int, ...]) -> Plan:
        """The plan for one shape; the arena grows where this one takes more than those before."""
        with self._lock:
            if axes not in self._plans:
                self._plans[axes] = self._at(axes)
                while len(self._plans) > PLANS:
                    self._plans.popitem(last=False)
            return self._plans[axes]

    def _at(self, axes: tuple[int, ...]) -> Plan:
        numbers = self.varying.at(axes)
        sizes = [numbers(s.nbytes) for s in self.slots]
        if any(new > old for new, old in zip(sizes, self.held, strict=True)):
            self.held = [old if new <= old else max(new, old + old // GROWTH)
                         for new, old in zip(sizes, self.held, strict=True)]
            self._plans.clear()
            self._lay()
        return self.template.at(numbers)
