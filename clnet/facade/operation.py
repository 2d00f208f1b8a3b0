"""What an operation of the engine facade is: a formula over ops under the name that the specification gives it, with its backward."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from .. import ops as F
from ..autodiff import gradients
from ..errors import ConfigError
from ..spec import is_float
from ..tensor import Operators, Tensor, as_tensor

P = ParamSpec("P")
R = TypeVar("R")
Value = Any  # what enters: a Tensor, a NumPy array, a number
OPERATIONS: dict[str, Callable[..., Any]] = {}  # name: Operation or Backward


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


def activate(y: Any, activation: Activation | str) -> Tensor:
    """y = activation(x). Raises ConfigError for an unknown name."""
    return F.activation(activation.value if isinstance(activation, Activation) else activation)(y)


@dataclass(eq=False)
class Operation(Generic[P, R]):
    """A method of Engine. `examples`: (shapes or arrays, attributes) that checks and status run; tensors are positional, attributes by keyword."""

    function: Callable[P, R]
    spec_name: str
    examples: Sequence[tuple[list[Any], dict[str, Any]]]
    backward: str = ""  # the specification's name of the backward; "": it names none, which does not mean that there is none
    name: str = ""
    __doc__: str | None = field(default=None, repr=False)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.__doc__ = name, self.function.__doc__
        OPERATIONS[name] = self
        setattr(owner, f"{name}_backward", Backward(self))

    @overload
    def __get__(self, engine: None, owner: Any = None) -> Operation[P, R]: ...
    @overload
    def __get__(self, engine: Any, owner: Any = None) -> Callable[P, R]: ...
    def __get__(self, engine: Any, owner: Any = None) -> Any:
        return self if engine is None else bound(self.function, engine)

    def __call__(self, *args: P.args, **kw: P.kwargs) -> R:
        return self.function(*args, **kw)

    @property
    def tensors(self) -> list[str]:
        """Names of the tensors that it takes."""
        return [p.name for p in inspect.signature(self.function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]


class Backward:
    """The vector-Jacobian product of an operation: (g, *its tensors, **its attributes) -> the gradient of every float tensor, in their order."""

    def __init__(self, forward: Operation[Any, Any]) -> None:
        self.forward, self.name, self.spec_name = forward, f"{forward.name}_backward", forward.backward
        self.__doc__ = (f"Gradients of Σ ⟨g, y⟩ for {(forward.__doc__ or '').partition(chr(10))[0]}\n\n"
                        f"(g, {', '.join(forward.tensors)}; attributes as in {forward.name}): g is the cotangent of y, a tuple where there are several.\n"
                        "Returns one gradient for every float tensor that is given, alone where there is one.")
        if self.spec_name:
            OPERATIONS[self.name] = self

    def __get__(self, engine: Any, owner: Any = None) -> Callable[..., Any]:
        return self if engine is None else bound(self, engine)

    def __call__(self, g: Value, *tensors: Value, **attributes: Any) -> Any:
        given = [t if t is None else as_tensor(t) for t in tensors]
        y = self.forward.function(*given, **attributes)
        wanted = [t for t in given if t is not None and is_float(t.dtype)]
        found = gradients(y, wanted, g) if isinstance(y, Operators) else gradients(_paired(self.name, y, g), wanted)
        return found[0] if len(found) == 1 else tuple(found)

    @property
    def examples(self) -> list[tuple[list[Any], dict[str, Any]]]:
        """Those of the operation, a cotangent in front (of several results: of the first)."""
        return [([_shape_of(self.forward, args, attributes), *args], attributes) for args, attributes in self.forward.examples]


def _paired(who: str, ys: Sequence[Any], g: Any) -> Any:
    """Σ ⟨g, y⟩ over several results; a single cotangent is that of the first."""
    given = g if isinstance(g, (tuple, list)) else (g,)
    if len(given) > len(ys):
        raise ConfigError(f"{who}: expected at most {len(ys)} cotangents; got {len(given)}; leave out the last.")
    return sum(F.sum(y * as_tensor(c)) for y, c in zip(ys, given, strict=False))


def _shape_of(operation: Operation[Any, Any], args: list[Any], attributes: dict[str, Any]) -> tuple[int, ...]:
    from ..tensor import placeholder

    y = operation.function(*(a if a is None or isinstance(a, np.ndarray) else placeholder(a) for a in args), **attributes)
    first: Tensor = y if isinstance(y, Operators) else y[0]  # type: ignore[assignment]
    return first.shape


def bound(function: Callable[..., Any], engine: Any) -> Callable[..., Any]:
    """The function with arrays that the engine keeps in place of those that were registered."""
    @functools.wraps(function, assigned=("__doc__",))
    def call(*args: Any, **kw: Any) -> Any:
        return function(*map(engine.resolve, args), **{k: engine.resolve(v) for k, v in kw.items()})

    return call


def operation(spec_name: str, *examples: tuple[list[Any], dict[str, Any]], backward: str = "") -> Callable[[Callable[P, R]], Operation[P, R]]:
    """Declares a method of Engine under the specification's name."""
    return lambda function: Operation(function, spec_name, examples, backward)
