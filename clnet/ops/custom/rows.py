"""Elementwise rows and reductions of one's own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from ...core import arguments
from ...core.op import Case, Composite, Fold, Pointwise, Reduction
from ...core.op import elementwise as rule
from ...core.origin import Origin, caller, traced
from ...core.size import real
from ...core.spec import ACCEPTS, Spec, accept, broadcast_shapes, promote
from ...core.tensor import Tensor, TensorLike, as_tensor
from ...errors import ConfigError
from ...names import told
from ..view import reshape
from .expression import Formula
from .own import FAMILY, Gradient, bound, differentiated, named, referred, renew, retire, signature, words

Numbers = Mapping[str, float]
Sample = Sequence[Any]  # the inputs of a call: shapes, or arrays
CALLS = re.compile(r"\b[A-Za-z_]\w*\s*\(")
SHAPES: dict[int, list[Sample]] = {1: [((3, 5),), ((67,),), ((),)],
                                   2: [((3, 17), (3, 17)), ((2, 3, 17), (3, 1)), ((), (4, 3))]}


@dataclass(eq=False, repr=False)
class Elementwise(Pointwise):
    """An elementwise op of one's own: f(x, y, b=1.0), parameters by name or behind the inputs."""

    _: KW_ONLY
    inputs: tuple[str, ...] = ()
    parameters: dict[str, float] = field(default_factory=dict)

    def __call__(self, *args: TensorLike, **given: TensorLike) -> Tensor:
        return self.record(tuple(bound(self.name, self.__signature__, args, given).values()), {})

    @property
    def __signature__(self) -> Any:
        return signature(self.inputs, self.parameters)


@told
def elementwise(
    name: str, expression: str | Origin, inputs: str | Sequence[str] = ("x",), *, parameters: Numbers | None = None,
    gradient: Gradient = None, reference: Callable[..., Any] | None = None, accepts: str = "float",
    domain: tuple[float, float] = (-2.0, 2.0), samples: Sequence[Sample] | None = None, tests: bool = False,
    vectors: bool = True, cost: int | None = None, doc: str = "",
) -> Elementwise:
    """y[i] = expression(x[i], ...), one value an element; inputs broadcast like NumPy's.

        swish = clnet.ops.custom.elementwise("swish2", "x / (1 + exp(-b * x))", parameters={"b": 1.0}, gradient=True,
                                             reference=lambda x, b: x / (1 + np.exp(-b * x)))
        y = swish(x, b=2.0)

    expression   in OpenCL C over the names of inputs and parameters, or a body of statements with `return`. T is the
                 type computed in (float, or double for float64; 16 bits are computed in float), scalar or vector of
                 it, so a number stands as (T)(0) where C wants one type: `x > 0 ? x : (T)(0)`
    inputs       names, as a sequence or "x, y"
    parameters   numbers by name, with what they are where a call does not say; a call may pass tensors, too
    gradient     how results depend on inputs: None, not differentiable; True, derived from the expression; an
                 expression of the cotangent of x over g (the result's), out (the result) and all names; for several
                 inputs a dict by name or a sequence in their order; or a function (g, out, *inputs, *parameters) of
                 tensors that gives the cotangents. A dict may hold functions, and parameters, which can be trained then
    reference    the same in NumPy, of arrays by position: what runs on NumPy, and what checks compare with
    accepts      "float", "number", "int", "bits", "bool" or "any"
    domain       where samples are drawn from by checks
    samples      calls for checks: of each the inputs, as shapes or arrays
    tests        whether the expression is a BOOL(...) of a comparison, which gives bool
    vectors      False: the expression is computed number by number (it branches, say)
    cost         weight against an addition; what costs little is computed again rather than stored

    Raises ConfigError for names and texts that cannot be, UseError for calls that do not fit, KernelBuildError, with
    the line of the expression, where the device's compiler refuses it (when it first runs there).
    """
    who = f"custom.elementwise({name!r})"
    named("custom.elementwise", name)
    origin = traced(name, expression if isinstance(expression, Origin) else _text(who, expression), caller())
    expression = origin.text
    inputs = words(who, "inputs", inputs)
    numbers = _parameters(who, parameters, inputs)
    args = (*inputs, *numbers)
    _used(who, expression, args)
    if accepts not in ACCEPTS:
        raise ConfigError(f"{who}: expected accepts to be one of {', '.join(ACCEPTS)}; got {accepts!r}.")
    formula = None if _is_body(expression) or gradient is not True else Formula(who, expression, args)
    vjp, slopes = differentiated(name, gradient, inputs, args, formula)
    calls = _calls(inputs, numbers, slopes, samples)
    retire(name)
    made = Elementwise(
        name, rule(name, args, accepts, "bool" if tests else ""),
        referred(name, reference, lambda *xs: broadcast_shapes(name, *map(np.shape, xs)), args), args,
        expression=expression, vjp=vjp, accepts=accepts, domain=domain, samples=lambda: calls,
        cost=cost or 1 + 8 * len(CALLS.findall(expression)), doc=doc or f"y = {' '.join(expression.split())}",
        family=FAMILY, differentiable=bool(slopes), origin=origin, vectors=vectors, tests=tests, inputs=inputs,
        parameters=numbers)
    renew(made)
    return made


def _text(who: str, text: object, what: str = "an expression in OpenCL C") -> str:
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{who}: expected {what}; got {arguments.shown(text)}.")
    return text


def _is_body(expression: str) -> bool:
    return bool(re.search(r"\breturn\b", expression))


def _parameters(who: str, parameters: Numbers | None, inputs: Sequence[str]) -> dict[str, float]:
    if not isinstance(parameters or {}, Mapping):
        raise ConfigError(f"{who}: expected parameters as a dict from names to numbers; "
                          f"got {arguments.shown(parameters)}.")
    found = dict(parameters or {})
    words(who, "parameters", list(found), inputs)
    return {n: arguments.number(f"{who}, parameter {n}", v, "float64") for n, v in found.items()}


def _used(who: str, expression: str, names: Sequence[str]) -> None:
    if unused := [n for n in names if not re.search(rf"\b{n}\b", expression)]:
        raise ConfigError(f"{who}: expected an expression over {', '.join(names)}; got one without {unused[0]}; "
                          "use it, or leave it out of inputs and parameters.")


def _calls(inputs: Sequence[str], numbers: Numbers, slopes: Sequence[str], samples: Sequence[Sample] | None,
           attrs: Mapping[str, Any] | None = None) -> list[Case]:
    """Calls for checks; parameters are inputs there if they have a gradient, and numbers else."""
    n = len(inputs)
    many: list[Sample] = [((3, 17), (3, 1), (17,))[:n] + ((3, 17),) * (n - 3)]
    shapes = samples or SHAPES.get(n, many)
    free = [np.asarray(v, np.float32) for k, v in numbers.items() if k in slopes]
    rest = {k: v for k, v in numbers.items() if k not in slopes}
    return [Case((*shape, *free), {**rest, **(attrs or {})}) for shape in shapes]


# --- reductions
@dataclass(eq=False, repr=False)
class Folded(Composite):
    """A reduction of one's own: f(x, axes=None, keepdims=False, b=1.0)."""

    _: KW_ONLY
    inputs: tuple[str, ...] = ()
    parameters: dict[str, float] = field(default_factory=dict)
    kind = "reduction"

    def __call__(self, *args: TensorLike, **given: Any) -> Tensor:
        found = bound(self.name, self.__signature__, args, given)
        axes, keepdims = found.pop("axes"), found.pop("keepdims")
        tensors = tuple(x if isinstance(x, (bool, int, float)) else as_tensor(x) for x in found.values())
        shape = broadcast_shapes(self.name, *(t.shape for t in tensors if isinstance(t, Tensor)))
        dims = arguments.axes(self.name, axes, len(shape))
        y = self.record(tensors, {"axes": dims})
        return y if keepdims else reshape(y, tuple(n for a, n in enumerate(shape) if a not in dims))

    @property
    def __signature__(self) -> Any:
        return signature(self.inputs, {"axes": None, "keepdims": False, **self.parameters})


@told
def reduction(
    name: str, combine: str, identity: float | str, map: str = "x", inputs: str | Sequence[str] = ("x",), *,
    finish: str = "", parameters: Numbers | None = None, gradient: Gradient = None,
    reference: Callable[..., Any] | None = None, accepts: str = "float", domain: tuple[float, float] = (-2.0, 2.0),
    samples: Sequence[Sample] | None = None, doc: str = "",
) -> Folded:
    """y = finish(combine over the axes of map(x, ...)): a fold, over all axes or some.

        norm = clnet.ops.custom.reduction("norm2", "a + b", 0, map="x * x", finish="sqrt(a)", gradient="g * x / out",
                                          reference=lambda x, axis: np.sqrt(np.sum(x * x, axis)))
        norm(x, axes=-1), norm(x, axes=(0, 1), keepdims=True), norm(x)

    combine      of two partial results a and b, in OpenCL C, in any order and grouping: associative and commutative
    identity     what changes nothing: combine(a, identity) = a; a number, or C ("-INFINITY")
    map          what an element of the inputs contributes; inputs broadcast
    finish       of the folded a and n, the number of elements it is made of ("a / n")
    gradient     as for elementwise, an expression over g and out (both with the reduced axes kept, of size 1) and all
                 names, or a function (g, out, *inputs, axes=...); True is not derived
    reference    the same in NumPy: a function of the arrays, and of the axes as axis=
    others       as for elementwise

    A sum ("a + b") keeps what floats lose, as clnet's own. Raises as elementwise does.
    """
    who, frame = f"custom.reduction({name!r})", caller()
    named("custom.reduction", name)
    inputs = words(who, "inputs", inputs)
    numbers = _parameters(who, parameters, inputs)
    if clash := [n for n in (*inputs, *numbers) if n in ("a", "b", "n", "axes", "keepdims")]:
        raise ConfigError(f"{who}: expected other names of inputs than {clash[0]!r}, which means something here.")
    args = (*inputs, *numbers)
    _used(who, f"{_text(who, map)} {finish}", args)
    _used(who, _text(who, combine), ("a", "b"))
    if gradient is True:
        raise ConfigError(f"{who}: expected a gradient as expressions or a function; got True, which holds for "
                          "elementwise alone.")
    vjp, slopes = differentiated(name, gradient, inputs, args, None)
    calls = [Case(c.args, {**c.attrs, "axes": axes}) for c in _calls(inputs, numbers, slopes, samples)
             for axes in _some_axes(c)]
    retire(name)
    define = _definition(name, args, combine, identity, map, finish, accepts, [traced(name, t, frame) for t in
                                                                              (map, combine, finish or "a")])
    made = Folded(
        name, _fold_rule(name, accepts), _fold_reference(name, reference, args), args, vjp=vjp, define=define,
        accepts=accepts, samples=lambda: calls, domain=domain, cost=100, family=FAMILY, differentiable=bool(slopes),
        doc=doc or f"y = {finish or 'a'}, a = fold of {map} by {combine} over the axes", inputs=inputs,
        parameters=numbers)
    made.given = True
    renew(made)
    return made


def _some_axes(case: Case) -> list[tuple[int, ...]]:
    """Last, first and all axes of a sample's first input."""
    first = case.args[0]
    ndim = first.ndim if isinstance(first, np.ndarray) else len(first)
    return list(dict.fromkeys([(ndim - 1,), (0,), tuple(range(ndim))])) if ndim else [()]


def _fold_rule(name: str, accepts: str) -> Callable[..., Spec]:
    def infer(*specs: Spec, axes: tuple[int, ...]) -> Spec:
        accept(name, accepts, specs)
        shape = broadcast_shapes(name, *(s.shape for s in specs))
        return Spec(tuple(1 if a in axes else n for a, n in enumerate(shape)), promote(*(s.dtype for s in specs)))

    return infer


def _fold_reference(name: str, reference: Callable[..., Any] | None, args: Sequence[str]) -> Callable[..., Any]:
    def kept(*arrays: Any, axes: tuple[int, ...], **numbers: Any) -> Any:
        y, shape = np.asarray(reference(*arrays, axis=axes, **numbers)), shape_of(*arrays, axes=axes)  # type: ignore
        return y.reshape(shape) if y.size == math.prod(shape) else y

    def shape_of(*arrays: Any, axes: tuple[int, ...], **numbers: Any) -> tuple[int, ...]:
        shape = np.broadcast_shapes(*map(np.shape, arrays))
        return tuple(1 if a in axes else n for a, n in enumerate(shape))

    return referred(name, reference and kept, shape_of, [*args, "axis"])


def _definition(name: str, args: Sequence[str], combine: str, identity: float | str, map: str, finish: str,
                accepts: str, origins: Sequence[Origin]) -> Callable[..., Tensor]:
    """The formula over three rows: what an element contributes, the fold, what is made of it."""
    maps = None if map.strip() == "x" and tuple(args) == ("x",) else _row(f"{name}.map", map, args, origins[0])
    plain = combine.replace(" ", "") in ("a+b", "b+a")
    start = identity if isinstance(identity, str) else "INFINITY" if identity == math.inf else \
        "-INFINITY" if identity == -math.inf else repr(identity)
    made = Fold((start,), ("x",), ("a0 + b0" if plain else combine,))
    fold = Reduction(f"{name}.fold", _fold_rule(name, accepts), _nothing, ("x",), fold=made, family=FAMILY,
                     origin=None if plain else origins[1], differentiable=False, samples=list)
    renew(fold)
    names = [n for n in ("a", "n", *args) if re.search(rf"\b{n}\b", finish)]
    ends = _row(f"{name}.finish", finish, names, origins[2]) if finish else None

    def define(*tensors: Tensor, axes: tuple[int, ...]) -> Tensor:
        x = maps(*tensors) if maps else tensors[0]
        y = fold(x, axes=axes)
        if ends is None:
            return y
        values = dict(zip(args, tensors, strict=True)) | {"a": y, "n": real(math.prod(x.shape[a] for a in axes))}
        return ends(*(values[n] for n in names))

    return define


def _row(name: str, text: str, args: Sequence[str], origin: Origin) -> Pointwise:
    made = Pointwise(name, rule(name, args, "any", ""), _nothing, tuple(args), expression=text, origin=origin,
                     family=FAMILY, cost=1 + 8 * len(CALLS.findall(text)), differentiable=False, samples=list)
    renew(made)
    return made


def _nothing(*arrays: Any, **attrs: Any) -> Any:
    raise AssertionError("a row of a reduction is computed by the reduction's reference")
