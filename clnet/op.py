"""What an op is, and the ways to declare one.

    pointwise   a row: one C expression, its NumPy twin, its VJP; fuses with everything
    reduction   a row: a fold over axes; absorbs the pointwise ops that feed it
    view        an index map; moves no data, folds into whoever reads it
    kernel      a NumPy reference with a .cl file of the same stem
    composite   a formula over other ops; reference and gradient follow; a kernel may stand in

Declaring registers: `OPS[name]` is what tests, status, benchmarks and docs walk.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import arguments
from .errors import ConfigError
from .spec import Spec, accept, broadcast_shapes, einshape, promote, result_shape

OPS: dict[str, Op] = {}


@dataclass(frozen=True)
class Case:
    """One example call: argument shapes (or ready arrays) and attributes. What every check of an op runs on."""

    args: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)

    def arrays(self, rng: np.random.Generator, domain: tuple[float, float], dtype: str) -> list[np.ndarray[Any, Any]]:
        """Shapes become uniform draws from `domain`; arrays stay as they are."""
        from .spec import np_dtype

        def draw(arg: Any) -> np.ndarray[Any, Any]:
            if isinstance(arg, np.ndarray):
                return arg
            x = rng.uniform(*domain, arg)
            return np.asarray(x > 0 if dtype == "bool" else x, np_dtype(dtype))

        return [draw(a) for a in self.args]


@dataclass(eq=False)
class Op:
    """An op, declared once. See the factory functions below for what each field means."""

    name: str
    kind: str
    infer: Callable[..., Spec]
    ref: Callable[..., Any]
    args: tuple[str, ...] = ()
    cl: str = ""
    vjp: Callable[..., Any] | None = None
    launch: Callable[..., Any] | None = None
    define: Callable[..., Any] | None = None
    signature: str = ""
    accepts: str = "any"
    domain: tuple[float, float] = (-2.0, 2.0)
    samples: Callable[[], list[Case]] | None = None
    cost: int = 1
    doc: str = ""
    family: str = ""
    differentiable: bool = True
    given: bool = False  # whether the gradient is written down, rather than the formula's
    # Operands whose NaN and infinities may also reach results where they meet nothing but padding (0 · ∞ is NaN).
    spreads: tuple[str, ...] = ()
    # (specs of the operands, of the result, attributes) -> additions and products of a call; None: `cost` an element.
    work: Callable[..., float] | None = None
    # An op of the same operands and attributes, and the launch of a kernel that computes both.
    twin: Op | None = None
    launch_both: Callable[..., Any] | None = None

    @property
    def has_gradient(self) -> bool:
        """Whether a derivative can be taken through the op; a kernel without a VJP refuses."""
        return self.differentiable and not (self.kind == "kernel" and self.vjp is None)

    def __post_init__(self) -> None:
        if self.name in OPS:
            raise TypeError(f"op {self.name!r} is already declared")
        OPS[self.name] = self

    def __call__(self, *inputs: Any, **attrs: Any) -> Any:
        from .tensor import record

        return record(self, inputs, attrs)

    def defvjp(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attaches the vector-Jacobian product: (g, y, *inputs, **attrs) -> cotangent(s), written in ops."""
        self.vjp, self.given = fn, True
        return fn

    def deflaunch(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Attaches the geometry of the .cl kernel: (device, operands, **attrs) -> list of Stage, or None if unsuited."""
        self.launch = fn
        return fn

    def deflaunch_with(self, twin: Op) -> Callable[..., Any]:
        """Attaches kernels that compute this op and `twin`, of the same attributes and first operands, in one pass, for graphs that hold both.

        As deflaunch. EPILOGUE_ALSO takes the twin's value at the coordinates Stage.also, if results differ in size (EPILOGUE in a stage that gives
        the twin alone, whose domain is empty); without those they are of one size, and EPILOGUE takes both values.
        """

        def attach(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.twin, self.launch_both = twin, fn
            return fn

        return attach

    def flops(self, operands: Sequence[Spec], result: Spec, attrs: Mapping[str, Any]) -> float:
        """Additions and products of a call; a function (exp, tanh) counts as `cost` says."""
        if self.work is not None:
            return self.work(operands, result, attrs)
        return 0.0 if self.kind == "view" else float(self.cost * max(s.size for s in (*operands, result)))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


def _family() -> str:
    """The stem of the module that declares the op."""
    frame = inspect.currentframe()
    while frame and frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    return frame.f_globals["__name__"].rpartition(".")[2] if frame else ""


def pointwise(
    name: str, cl: str, ref: Callable[..., Any], vjp: Callable[..., Any] | None, *, out: str = "", accepts: str = "any",
    domain: tuple[float, float] = (-2.0, 2.0), cost: int = 1, doc: str = "", args: tuple[str, ...] = (),
) -> Op:
    """An elementwise op.

    cl    C expression over the argument names; `T` is the compute type, scalar or vector; BOOL(c) turns a comparison
          into a bool value and TEST(b) a bool value into a condition (vector comparisons are masks of -1 and 0)
    out   result dtype: "" the promoted one, "float" at least float, else a dtype name
    cost  rough weight against an addition; the scheduler recomputes cheap ops instead of storing them
    """
    args = args or _positional(vjp or ref)[2 if vjp else 0 :]

    def infer(*specs: Spec, **attrs: Any) -> Spec:
        if attrs:
            raise ConfigError(f"{name}: expected {', '.join(args)} and nothing more; got {', '.join(attrs)}.")
        accept(name, accepts, specs)
        shape = broadcast_shapes(name, *(s.shape for s in specs))
        if out == "float":
            return Spec(shape, _float_of(*(s.dtype for s in specs)))
        return Spec(shape, out or promote(*(s.dtype for s in specs)))

    return Op(name, "pointwise", infer, ref, args, cl, vjp, accepts=accepts, domain=domain, cost=cost,
              doc=doc or f"y = {cl}", family=_family(), differentiable=vjp is not None)


def _float_of(*dtypes: str) -> str:
    """NumPy's float for a set of dtypes: itself for floats, float64 for 32-bit integers and wider."""
    dtype = promote(*dtypes)
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        return dtype
    return "float32" if dtype in ("bool", "int8", "uint8", "int16", "uint16") else "float64"


def reduction(
    name: str, fold: Fold, ref: Callable[..., Any], vjp: Callable[..., Any] | None, *, out: str = "", accepts: str = "any",
    domain: tuple[float, float] = (-2.0, 2.0), doc: str = "",
) -> Op:
    """A fold over axes that keeps them with size 1 (users see `axes=` and `keepdims=` on the functions in ops.reduce)."""

    def infer(x: Spec, *, axes: tuple[int, ...]) -> Spec:
        accept(name, accepts, [x])
        axes = arguments.axes(name, axes, len(x.shape))
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        dtype = {"": x.dtype, "sum": _sum_dtype(x.dtype), "float": _float_of(x.dtype)}.get(out, out)
        return Spec(shape, dtype)

    op = Op(name, "reduction", infer, ref, ("x",), "", vjp, accepts=accepts, domain=domain,
            doc=doc, family=_family(), differentiable=vjp is not None)
    op.fold = fold  # type: ignore[attr-defined]
    return op


def _sum_dtype(dtype: str) -> str:
    """NumPy sums small integers in 64 bits."""
    if dtype == "bool" or dtype.startswith("int"):
        return "int64"
    return "uint64" if dtype.startswith("uint") else dtype


@dataclass(frozen=True)
class Fold:
    """How a reduction runs: state components, what one element contributes, how two states merge, the result.

    init, lift, merge and finish are C expressions, one per component: `lift` over `x` (element) and `i` (its number along
    the reduced axes), `merge` over a0.. and b0.., `finish` over a0.. . `T` is the accumulator type, `I` long.
    """

    init: tuple[str, ...]
    lift: tuple[str, ...]
    merge: tuple[str, ...]
    finish: str = "a0"
    types: tuple[str, ...] = ("T",)


def view(name: str, infer: Callable[..., Spec], ref: Callable[..., Any], vjp: Callable[..., Any],
         index: Callable[..., Any], samples: Callable[[], list[Case]], doc: str) -> Op:
    """An op that moves no data. `index(ix, in_shape, out_shape, **attrs)` maps output coordinates to input coordinates."""
    op = Op(name, "view", infer, ref, ("x",), vjp=vjp, samples=samples, doc=doc, family=_family(), cost=0)
    op.index = index  # type: ignore[attr-defined]
    return op


def _einfer(name: str, signature: str, args: Sequence[str], accepts: str) -> Callable[..., Spec]:
    bind = einshape(signature, name, args)

    def infer(*specs: Spec, **attrs: Any) -> Spec:
        accept(name, accepts, specs)
        return Spec(result_shape(signature, bind(*specs)), promote(*(s.dtype for s in specs)))

    return infer


def kernel(signature: str = "", *, cl: str, samples: Callable[[], list[Case]], infer: Callable[..., Spec] | None = None,
           accepts: str = "number", domain: tuple[float, float] = (-2.0, 2.0), cost: int = 100) -> Callable[[Callable[..., Any]], Op]:
    """An op with a hand-written kernel; the decorated body is the NumPy reference, the docstring starts with the formula."""

    def declare(ref: Callable[..., Any]) -> Op:
        name, args = ref.__name__.strip("_"), _positional(ref)
        return Op(name, "kernel", infer or _einfer(name, signature, args, accepts), ref, args, cl, samples=samples, doc=inspect.getdoc(ref) or "",
                  signature=signature, accepts=accepts, domain=domain, cost=cost, family=_family())

    return declare


def _positional(fn: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(k for k, p in inspect.signature(fn).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD)


def composite(signature: str = "", *, cl: str = "", samples: Callable[[], list[Case]] | None = None, accepts: str = "any",
              domain: tuple[float, float] = (-2.0, 2.0)) -> Callable[[Callable[..., Any]], Op]:
    """A formula over other ops, kept as one node so that a kernel may stand in for it.

    The body is the definition: the reference runs it, the gradient differentiates it (unless `defvjp` knows better).
    """

    def declare(define: Callable[..., Any]) -> Op:
        from .autodiff import gradients
        from .tensor import evaluate_formula, infer_formula  # not the module: `clnet.tensor` is a function

        name, args = define.__name__.strip("_"), _positional(define)
        bind = einshape(signature, name, args) if signature else None

        def infer(*specs: Spec, **attrs: Any) -> Spec:
            accept(name, accepts, specs)
            if bind:
                bind(*specs)
            return infer_formula(define, specs, attrs)

        def ref(*arrays: Any, **attrs: Any) -> Any:
            return evaluate_formula(define, arrays, attrs)

        def vjp(g: Any, y: Any, *inputs: Any, **attrs: Any) -> Any:
            return tuple(gradients(define(*inputs, **attrs), inputs, g, allow_unused=True))

        return Op(name, "composite", infer, ref, args, cl, vjp, define=define, signature=signature, accepts=accepts,
                  samples=samples, domain=domain, doc=inspect.getdoc(define) or "", family=_family(), cost=100)

    return declare
