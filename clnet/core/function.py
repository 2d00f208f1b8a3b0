"""Functions over ops that have a row of their own: no node of a graph, but a name that users look for.

Declared where they are written, with example calls; status, golden values and documentation follow, as for ops:

    @function(lambda: [Case(((3, 4),), dict(axis=0))])
    def squeeze(x, axis=None): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .op import Samples, family

Called = TypeVar("Called", bound=Callable[..., Any])


class Function(NamedTuple):
    """What is declared of one. `differentiable`: whether a derivative can be taken through it."""

    name: str
    family: str
    samples: Samples
    differentiable: bool = True


FUNCTIONS: dict[str, Function] = {}


def function(samples: Samples, *, differentiable: bool = True) -> Callable[[Called], Called]:
    """Declares a public function of clnet.ops; shapes in `samples` are drawn from U(−2, 2), arrays stay as they are."""

    def declare(call: Called) -> Called:
        name = call.__name__.strip("_")
        if name in FUNCTIONS:
            raise TypeError(f"function {name!r} is already declared")
        FUNCTIONS[name] = Function(name, family(), samples, differentiable)
        vars(call)["has_gradient"] = differentiable  # as ops say it of themselves
        return call

    return declare
