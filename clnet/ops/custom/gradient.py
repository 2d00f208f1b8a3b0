"""Functions whose gradient is given instead of derived: straight-through estimators, clipped or reversed gradients."""

from __future__ import annotations

from collections.abc import Callable

from ...core import arguments
from ...core.formula import composite
from ...core.op import Case, Cotangents
from ...core.tensor import Tensor, TensorLike, as_tensor
from ...errors import ConfigError
from ...names import told
from ..pointwise import square

FAMILY = "custom"


def _cube(x: Tensor) -> Tensor:
    return x * x * x


def _cube_gradient(x: Tensor, g: Tensor) -> Tensor:
    return g * 3.0 * square(x)


@composite(samples=lambda: [Case(((3, 17),), dict(function=_cube, backward=_cube_gradient)),
                            Case(((4,),), dict(function=_cube, backward=_cube_gradient))])
def _custom(x: Tensor, *, function: Callable[..., Tensor], backward: Callable[..., Tensor]) -> Tensor:
    """y = function(x), with dx = backward(x, g)"""
    return function(x)


@_custom.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, *, function: Callable[..., Tensor],
      backward: Callable[..., Tensor]) -> Cotangents:
    return backward(x, g)


@told
def custom_gradient(x: TensorLike, function: Callable[..., Tensor], backward: Callable[..., Tensor]) -> Tensor:
    """y = function(x); backwards dx = backward(x, g), g the cotangent of y. Both are written in ops.

    Raises ConfigError for what cannot be called. Keep both functions: a fresh lambda in every call is another function,
    whose work is planned anew.
    """
    if not (callable(function) and callable(backward)):
        raise ConfigError(
            "custom_gradient: expected two functions; "
            f"got {arguments.shown(function)} and {arguments.shown(backward)}.")
    return _custom(as_tensor(x), function=function, backward=backward)
