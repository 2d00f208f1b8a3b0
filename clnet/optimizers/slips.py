"""What is said where an optimizer is called as another library's is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..errors import UseError
from ..habits import OPTIMIZER


class Asked:
    """Classes whose `step` is a formula: called as PyTorch's `optimizer.step()` it says what does a step here."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "step" in vars(cls):
            cls.step = _asked(vars(cls)["step"])  # type: ignore[attr-defined]


def _asked(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def taken(self: object, *args: Any, **named: Any) -> Any:
        if len(args) + len(named) < 2:  # none, or a closure
            raise UseError(f"{type(self).__name__}.step: expected (w, g, s, h), which clnet itself passes; got a call "
                           f"as of PyTorch's; {OPTIMIZER['step']}")
        return step(self, *args, **named)

    return taken
