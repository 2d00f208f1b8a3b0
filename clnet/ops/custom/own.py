"""What all ops of one's own have in common: their names, how they are called, their reference and their gradient."""

from __future__ import annotations

import inspect
import itertools
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...core import running
from ...core.arguments import shown
from ...core.arrays import Array
from ...core.autodiff import gradients
from ...core.op import OPS, Cotangents, Op, Vjp
from ...core.operators import Operators
from ...core.tensor import Tensor, as_tensor
from ...errors import ClnetError, ConfigError, ShapeError, UseError
from ...names import ending, told
from .expression import Formula

FAMILY = "custom"
G, OUT = "g", "out"  # what expressions of gradients call the cotangent and the result
# A gradient: of one input as an expression, of several by name or in their order; a function (g, out, *inputs); True:
# derived from the expression.
Gradient: TypeAlias = "bool | str | Callable[..., Cotangents] | Mapping[str, Piece] | Sequence[Piece] | None"
Piece: TypeAlias = "str | Callable[..., Tensor]"
_serial = itertools.count(1)


class _None(Operators):
    """The cotangent of an input for which no gradient was stated: who asks for it is told."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    @property
    def tensor(self) -> Tensor:
        raise ClnetError(self.why)


# --- names
def named(who: str, name: object) -> str:
    """The name of an op of one's own. Raises ConfigError for what is none, or clnet's."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(f"{who}: expected a name that Python can say, such as 'my_op'; got {shown(name)}.")
    if name in OPS and OPS[name].family != FAMILY or name == "custom":
        raise ConfigError(f"{who}: expected a name that no op of clnet has; got {name!r}; call it 'my_{name}'.")
    return name


def words(who: str, what: str, names: object, taken: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of inputs or parameters: "x, y" or a sequence. Raises ConfigError."""
    listed = names.split(",") if isinstance(names, str) else names if isinstance(names, (list, tuple)) else [""]
    found = [n.strip() if isinstance(n, str) else "" for n in listed]
    if not all(n.isidentifier() for n in found) or len({*found, *taken}) < len([*found, *taken]):
        more = f" other than {', '.join(taken)}" if taken else ""
        raise ConfigError(f"{who}: expected {what} to be distinct names{more}, such as 'x, y'; got {shown(names)}.")
    if reserved := [n for n in found if n in (G, OUT, "T") or n.startswith("g_")]:
        raise ConfigError(f"{who}: expected other {what} than {reserved[0]!r}: g is the cotangent, out the result, T "
                          "the type; choose another name.")
    return tuple(found)


def retire(name: str) -> None:
    """Takes an op of one's own, and the rows it is made of, out of the registry; plans with it are let go."""
    for known in [n for n in OPS if n.partition(".")[0] == name]:
        running.replaced(OPS.pop(known).key)


def renew(op: Op) -> None:
    """From now on the op is another than before for whoever kept something by its key."""
    running.replaced(op.key)
    op.key = f"{op.name}#{next(_serial)}"


@told
def remove(name: str) -> None:
    """Forgets an op of one's own. Raises ConfigError where there is none of the name."""
    known = defined()
    if name not in known:
        raise ConfigError(f"custom.remove: expected the name of an op of one's own; got {shown(name)}"
                          f"{ending(str(name), known)}")
    retire(name)


@told
def defined() -> dict[str, Op]:
    """The ops of one's own that there are, by name."""
    return {name: op for name, op in sorted(OPS.items())
            if op.family == FAMILY and name.isidentifier() and name != "custom"}


# --- calls
def signature(inputs: Sequence[str], parameters: Mapping[str, Any]) -> inspect.Signature:
    """How an op is called: f(x, y, b=1.0)."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([*(inspect.Parameter(n, kind) for n in inputs),
                              *(inspect.Parameter(n, kind, default=v) for n, v in parameters.items())])


def bound(name: str, taken: inspect.Signature, args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, defaults filled in. Raises UseError for a call that does not fit."""
    try:
        found = taken.bind(*args, **given)
    except TypeError as error:
        unknown = next((k for k in given if k not in taken.parameters), None)
        hint = ending(unknown, taken.parameters) if unknown else "."
        raise UseError(f"{name}: expected arguments {taken}; got a call that does not fit: {error}{hint}") from None
    found.apply_defaults()
    return dict(found.arguments)


def accepted(function: Callable[..., Any], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a call's attributes that a function of somebody's own takes."""
    try:
        taken = inspect.signature(function).parameters
    except ValueError:  # NumPy's own functions state no signature
        return dict(attrs)
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return dict(attrs)
    return {n: v for n, v in attrs.items() if n in taken}


# --- the reference
def referred(name: str, reference: Callable[..., Any] | None, shape_of: Callable[..., tuple[int, ...]],
             names: Sequence[str]) -> Callable[..., Any]:
    """The op on arrays: the reference, whose result has to be of the op's shape."""

    def ref(*arrays: Array, **attrs: Any) -> Any:
        if reference is None:
            raise ConfigError(f"{name}: expected a reference to run on NumPy and to be checked; got none; state "
                              f"reference=, a NumPy function of ({', '.join(names)}), or use an OpenCL device.")
        y, wanted = np.asarray(reference(*arrays, **attrs)), shape_of(*arrays, **attrs)
        if y.shape != wanted:
            raise ShapeError(f"{name}: expected its reference to give shape {wanted}; got {y.shape}; mend the "
                             "reference, or the shape that the op states.")
        return y

    return ref


# --- the gradient
def differentiated(name: str, gradient: Gradient, inputs: Sequence[str], args: Sequence[str],
                   formula: Formula | None, more: Iterable[str] = ()) -> tuple[Vjp, tuple[str, ...]]:
    """(the vector-Jacobian product that was stated, the names of the arguments that it is of). `more`: names of
    attributes that expressions may use.
    """
    if gradient is None or gradient is False:
        return _stated(name, {}, args), ()
    if gradient is True:
        if formula is None:
            raise ConfigError(f"{name}: expected an expression to derive the gradient of; got a body or a kernel; "
                              "state gradient= as a function of (g, out, *inputs).")
        return _derived(formula, args), tuple(args)
    if callable(gradient):
        return _function(name, gradient, inputs, args), tuple(args)
    if isinstance(gradient, str):
        gradient = [gradient]
    if not isinstance(gradient, Mapping):
        gradient = dict(zip(inputs, gradient, strict=True)) if len(gradient) == len(inputs) else {"": ""}
    if unknown := [n for n in gradient if n not in args]:
        raise ConfigError(f"{name}: expected a gradient for each of {', '.join(inputs)}, in their order or by name"
                          f"; got {shown(gradient) if unknown != [''] else 'another number of them'}.")
    known = (G, OUT, *args, *more)
    pieces = {n: Formula(f"{name}, gradient of {n}", p, known) if isinstance(p, str) else p
              for n, p in gradient.items()}
    return _stated(name, pieces, args), tuple(n for n in args if n in pieces)


def _stated(name: str, pieces: Mapping[str, Formula | Callable[..., Tensor]], args: Sequence[str]) -> Vjp:
    def vjp(g: Tensor, out: Tensor, *inputs: Tensor, **attrs: Any) -> Cotangents:
        values = dict(zip((G, OUT, *args), (g, out, *inputs), strict=True))

        def piece(a: str) -> Any:
            if a not in pieces:
                return _None(f"gradients: expected a gradient of {name} with respect to {a}; it states none; give it "
                             "gradient=, or use detach() where none should flow.")
            stated = pieces[a]
            return (stated(**values, **attrs) if isinstance(stated, Formula)
                    else stated(g, out, *inputs, **accepted(stated, attrs)))

        return tuple(map(piece, args))

    return vjp


def _derived(formula: Formula, args: Sequence[str]) -> Vjp:
    def vjp(g: Tensor, out: Tensor, *inputs: Tensor) -> Cotangents:
        y = as_tensor(formula(**dict(zip(args, inputs, strict=True)))).astype(out.dtype).expand(out.shape)
        return tuple(gradients(y, inputs, g, allow_unused=True))

    return vjp


def _function(name: str, gradient: Callable[..., Cotangents], inputs: Sequence[str], args: Sequence[str]) -> Vjp:
    def vjp(g: Tensor, out: Tensor, *tensors: Tensor, **attrs: Any) -> Cotangents:
        found = gradient(g, out, *tensors, **accepted(gradient, attrs))
        pieces = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(pieces) not in (len(inputs), len(args)):
            raise ShapeError(f"{name}: expected its gradient to give {len(inputs)} cotangents, of "
                             f"{', '.join(inputs)}; got {len(pieces)}.")
        return (*pieces, *[None] * (len(args) - len(pieces)))

    return vjp
