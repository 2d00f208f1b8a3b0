"""Functions whose gradient is given instead of derived: straight-through estimators, clipped or reversed gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import arguments
from ..errors import ConfigError
from ..op import Case, composite
from ..tensor import Tensor, as_tensor
from .pointwise import square


def _cube(x: Any) -> Any:
    return x * x * x


def _cube_gradient(x: Any, g: Any) -> Any:
    return g * 3.0 * square(x)


@composite(samples=lambda: [Case(((3, 17),), dict(function=_cube, backward=_cube_gradient)), Case(((4,),), dict(function=_cube, backward=_cube_gradient))])
def _custom(x: Any, *, function: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """y = function(x), with dx = backward(x, g)"""
    return function(x)


@_custom.defvjp
def _(g: Any, y: Any, x: Any, *, function: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    return backward(x, g)


def custom_gradient(x: Any, function: Callable[..., Any], backward: Callable[..., Any]) -> Tensor:
    """y = function(x); backwards dx = backward(x, g), g the cotangent of y. Both are written in ops.

    Keep both functions: a fresh lambda in every call is another function, whose work is planned anew.
    """
    if not (callable(function) and callable(backward)):
        raise ConfigError(f"custom_gradient: expected two functions; got {arguments.shown(function)} and {arguments.shown(backward)}.")
    y: Tensor = _custom(as_tensor(x), function=function, backward=backward)
    return y
