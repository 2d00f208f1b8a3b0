"""What an operation of the engine facade is: a formula over ops under the name that the specification gives it,
with its backward.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from .. import ops as F
from ..core.autodiff import gradients
from ..core.spec import is_float
from ..core.tensor import Operators, Tensor, TensorLike, as_tensor, placeholder
from ..errors import ConfigError
from ..show import opening

P = ParamSpec("P")
R = TypeVar("R")
Extent: TypeAlias = int | Sequence[int]  # one number for all axes, or one each
Padding: TypeAlias = int | str | Sequence[int] | Sequence[Sequence[int]]  # or (low, high) each, or a word
Example: TypeAlias = tuple[Sequence[Any], dict[str, Any]]  # shapes or arrays, attributes
OPERATIONS: dict[str, Operation[..., Any] | Backward] = {}  # by name, in the order of declaration


class Activation(str, enum.Enum):
    """What a fused operation applies last. Plain names ("relu") do as well, those of `clnet.ops.ACTIVATIONS` too."""

    NONE = "linear"
    RELU = "relu"
    LEAKY_RELU = "leaky_relu"
    SIGMOID = "sigmoid"
    TANH = "tanh"
    GELU = "gelu"
    SWISH = "swish"
    SOFTMAX = "softmax"


def activated(y: TensorLike, activation: Activation | str) -> Tensor:
    """y = activation(x). Raises ConfigError for an unknown name."""
    return F.activation(activation.value if isinstance(activation, Activation) else activation)(y)


class Keeper(Protocol):
    """What keeps copies of arrays on a device."""

    def resolve(self, value: object) -> Any:
        """The copy of an array that was registered; anything else as it is."""


@dataclass(eq=False)
class Operation(Generic[P, R]):
    """A function that Engine has as a method. `examples`: (shapes or arrays, attributes) that checks and status run;
    tensors are positional, attributes by keyword.
    """

    function: Callable[P, R]
    spec_name: str
    examples: Sequence[Example]
    backward: str = ""  # the specification's name of the backward; "": it names none, though there is one

    def __post_init__(self) -> None:
        self.name, self.__doc__ = self.function.__name__, self.function.__doc__
        OPERATIONS[self.name] = self
        self.vjp = Backward(self)

    def __set_name__(self, owner: type, name: str) -> None:
        setattr(owner, f"{name}_backward", self.vjp)

    @overload
    def __get__(self, engine: None, owner: type | None = None) -> Operation[P, R]: ...
    @overload
    def __get__(self, engine: Keeper, owner: type | None = None) -> Callable[P, R]: ...
    def __get__(self, engine: Keeper | None, owner: type | None = None) -> Operation[P, R] | Callable[P, R]:
        return self if engine is None else bound(self.function, engine)

    def __call__(self, *args: P.args, **kw: P.kwargs) -> R:
        return self.function(*args, **kw)

    @property
    def tensors(self) -> list[str]:
        """Names of the tensors that it takes."""
        return [p.name for p in inspect.signature(self.function).parameters.values()
                if p.kind is p.POSITIONAL_OR_KEYWORD]


class Backward:
    """The vector-Jacobian product of an operation: (g, *its tensors, **its attributes) -> the gradient
    of every float tensor, in their order.
    """

    def __init__(self, forward: Operation[..., Any]) -> None:
        self.forward, self.name, self.spec_name = forward, f"{forward.name}_backward", forward.backward
        formula = opening(inspect.getdoc(forward.function) or "")
        self.__doc__ = (f"Gradients of Σ ⟨g, y⟩ for {formula}\n\n"
                        f"(g, {', '.join(forward.tensors)}; attributes as in {forward.name}): "
                        "g is the cotangent of y, a tuple where there are several.\n"
                        "Returns one gradient for every float tensor that is given, alone where there is one.")
        if self.spec_name:
            OPERATIONS[self.name] = self

    def __get__(self, engine: Keeper | None, owner: type | None = None) -> Callable[..., Any]:
        return self if engine is None else bound(self, engine)

    def __call__(self, g: TensorLike | Sequence[TensorLike], *tensors: TensorLike | None,
                 **attributes: Any) -> Tensor | tuple[Tensor, ...]:
        given = [t if t is None else as_tensor(t) for t in tensors]
        y = self.forward.function(*given, **attributes)
        wanted = [t for t in given if t is not None and is_float(t.dtype)]
        found = gradients(y, wanted, g) if isinstance(y, Operators) else gradients(_paired(self.name, y, g), wanted)
        return found[0] if len(found) == 1 else tuple(found)

    @property
    def examples(self) -> list[Example]:
        """Those of the operation, a cotangent in front (of several results: of the first)."""
        return [([_shape_of(self.forward, args, attributes), *args], attributes)
                for args, attributes in self.forward.examples]


def _paired(who: str, ys: Sequence[Tensor], g: TensorLike | Sequence[TensorLike]) -> Tensor:
    """Σ ⟨g, y⟩ over several results; a single cotangent is that of the first."""
    given = g if isinstance(g, (tuple, list)) else (g,)
    if len(given) > len(ys):
        raise ConfigError(f"{who}: expected at most {len(ys)} cotangents; got {len(given)}; leave out the last.")
    first, *more = (F.sum(y * as_tensor(c)) for y, c in zip(ys, given, strict=False))
    return sum(more, first)


def _shape_of(operation: Operation[..., Any], args: Sequence[Any], attributes: dict[str, Any]) -> tuple[int, ...]:
    y = operation.function(*(a if a is None or isinstance(a, np.ndarray) else placeholder(a) for a in args),
                           **attributes)
    first: Tensor = y if isinstance(y, Tensor) else y[0]
    return first.shape


def bound(function: Callable[P, R], engine: Keeper) -> Callable[P, R]:
    """The function with arrays that the engine keeps in place of those that were registered."""
    @functools.wraps(function, assigned=("__doc__",))
    def call(*args: P.args, **kw: P.kwargs) -> R:
        return function(*map(engine.resolve, args), **{k: engine.resolve(v) for k, v in kw.items()})

    return call


def operation(
    spec_name: str, *examples: Example, backward: str = "",
) -> Callable[[Callable[P, R]], Operation[P, R]]:
    """Declares a method of Engine under the specification's name."""
    return lambda function: Operation(function, spec_name, examples, backward)
