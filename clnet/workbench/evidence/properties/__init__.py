"""Properties that only the right formula has: independent evidence for what no other library has, or beside its values.

To add one: in a module of this package (a family a module; a new one is found by itself), a function of a subject that
yields Results,

    @holds("layer", "PoincareDistance")
    def distance_to_itself_is_zero(subject: Subject) -> Iterator[Result]:
        layer, (x, _) = make_layer(subject.thing)
        yield equal(layer(x, x).numpy(), np.zeros(len(x)), 1e-6)

It runs on the engine in use, counts for `parity` in the status table like golden values, and
tests/device/workbench/test_golden.py runs it on every device; its companion in tests/host demands that it fails when
the outputs are changed a little (y → 1.01 y + 0.01). Say what the formula implies and a wrong one would not: an
invariant, a special case with a closed form, a known value, an identity between two of its calls.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....engine import on
from ..registry import Subject
from ..results import Result

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ....engine.protocol import Engine

Property = Callable[[Subject], Iterable[Result]]
PROPERTIES: dict[tuple[str, str], list[Property]] = {}


def holds(kind: str, *names: str) -> Callable[[Property], Property]:
    """Declares a property of the subjects of a kind ("op", "layer", "loss", "optimizer") with these names."""
    def declare(check: Property) -> Property:
        for name in names:
            PROPERTIES.setdefault((kind, name), []).append(check)
        return check

    return declare


def of(subject: Subject) -> list[Property]:
    """What is declared for a subject."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return PROPERTIES.get((subject.kind, subject.name), [])


def check(subject: Subject, engine: Engine) -> list[Result]:
    """The results of all properties of a subject on an engine; [] if none is declared."""
    with on(engine):
        return [r for prop in of(subject) for r in prop(subject)]


def equal(got: ArrayLike, want: ArrayLike, allowed: float = 0.0, note: str = "") -> Result:
    """|got − want| ≤ allowed · (1 + |want|) everywhere, NaN nowhere; 0 demands equal values."""
    a, b = np.broadcast_arrays(np.asarray(got, np.float64), np.asarray(want, np.float64))
    error = np.max(np.abs(a - b) / (1 + np.abs(b)), initial=0.0)
    return Result("property", bool(error <= allowed), float(error), 0.0, allowed,
                  "" if error <= allowed else f"{note or 'not equal'}: error {error:.3g}")


def true(statement: object, note: str) -> Result:
    """A plain statement; `note` says what is wrong where it is not so."""
    return Result("property", bool(statement), note="" if statement else note)
