"""Parameters that are treated differently: their own rate, decay, or none at all.
Every such part is an arena of its own.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..config.fields import Configured, field
from ..core.arguments import array as numbers
from ..core.arguments import shown
from ..core.state import Arena, Parameter, Variable, blank
from ..core.tensor import Tensor, tensor
from ..errors import ConfigError
from .rate import Schedule


class Group(Configured):
    """Settings for the parameters that match: `roles` ("bias", "normalization", ...) and `names`
    (patterns of paths, "body.*.weight").

    Of several groups the first that matches counts; what a group leaves out is as in the optimizer.
    """

    recorded = False
    roles: tuple[str, ...] = field((), doc="roles of the parameters; empty: any")
    names: tuple[str, ...] = field((), doc="patterns (* and ?) of their paths; empty: any")
    lr: float | Schedule | None = field(None, doc="learning rate, or a schedule of it")
    weight_decay: float | None = field(None, doc="λ", ge=0)
    frozen: bool = field(False, doc="whether they stay as they are; no gradient is computed for them")

    def validate(self) -> None:
        if not self.roles and not self.names:
            raise ConfigError("Group: expected roles= or names= that say which parameters are meant; got neither.")
        if isinstance(self.lr, float) and not self.lr >= 0:
            raise ConfigError(f"Group(lr={self.lr!r}): expected a learning rate of at least 0.")

    def fixed(self, name: str) -> bool:
        return name != "lr"

    def matches(self, name: str, p: Parameter) -> bool:
        return (not self.roles or p.role in self.roles) and (
            not self.names or any(fnmatch.fnmatchcase(name, n) for n in self.names))


Group.registry["Group"] = Group


@dataclass(eq=False)
class Section:
    """One arena, its parameters in its order, and what is its own: state vectors, the number of its rate
    in the step's scalars, decay, kind, how many steps' gradients are added up before it moves, and the step behind
    which it began.
    """

    arena: Arena
    params: list[Parameter]
    memory: dict[str, Variable]
    rate: int
    decay: float
    kind: Any = None
    every: int = 1
    since: int = 0

    @cached_property
    def offsets(self) -> Tensor:
        """Where the parameters start in the flat vector, and its end, as int32 on the device."""
        return tensor(np.array([*self.arena.offsets, self.arena.size], np.int32))


def begun(who: str, slot: str, first: Any, w: np.ndarray[Any, Any], narrow: str | None) -> Variable:
    """A state vector of the optimizer `who` before the first step: what `start` gave for parameters w, in the dtype of
    w or the narrow one; arrays of integers stay what they are. Raises ConfigError for what are no numbers.
    """
    asked = f"{who}.start({slot!r})"
    value = numbers(asked, first)
    if value.dtype.kind in "OUSMmc":
        raise ConfigError(f"{asked}: expected a number, that one everywhere, or an array; got {shown(first)}.")
    dtype = narrow if narrow is not None and value.shape in ((), w.shape) else str(w.dtype)
    if value.ndim == 0:
        return blank(w.shape, dtype, f"{who}.{slot}", float(value))
    return Variable(value, f"{who}.{slot}", dtype=dtype if value.dtype in (np.float64, w.dtype) else None)


def named(params: Sequence[Parameter] | Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Parameters by path; those of a plain list by their own names, made different."""
    if isinstance(params, Mapping):
        return dict(params)
    found: dict[str, Parameter] = {}
    for k, p in enumerate(params):
        found[p.name if p.name and p.name not in found else f"{p.name}#{k}"] = p
    return found


def set_free(p: Parameter) -> None:
    """A tensor of its own again, for a parameter that leaves its arena while others stay."""
    if p.arena is not None:
        value = p.numpy()
        p.arena, p._tensor = None, tensor(value, p.dtype, p.name)
