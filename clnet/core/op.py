"""What an op is, and the ways to declare one.

    pointwise   a row: one C expression, its NumPy twin, its VJP; fuses with everything
    reduction   a row: a fold over axes; absorbs the pointwise ops that feed it
    view        an index map; moves no data, folds into whoever reads it
    kernel      a NumPy reference with a .cl file of the same stem
    composite   a formula over other ops; reference and gradient follow; a kernel may stand in (core.formula)

Each is a class of its own, and whatever the engine, mixed precision and the checks have to know of an op is said where
it is declared. Declaring registers: `OPS[name]` is what tests, status, benchmarks and docs walk.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from ..documented import Documented
from ..errors import ConfigError
from . import arguments
from .arrays import Array
from .origin import Origin
from .spec import Spec, accept, broadcast_shapes, einshape, np_dtype, promote, result_shape

if TYPE_CHECKING:
    from ..engine.device.device import Device
    from ..kernels.operand import Operand
    from ..kernels.variant import Choice
    from .tensor import Tensor, TensorLike

OPS: dict[str, Op] = {}

Function = TypeVar("Function", bound=Callable[..., Any])
Infer = Callable[..., Spec]
Reference = Callable[..., Any]  # arrays and attributes -> an array, or a scalar of NumPy's
Cotangents: TypeAlias = "Tensor | tuple[Tensor | None, ...] | None"  # one, or one for each input; None: there is none
Vjp = Callable[..., Cotangents]  # (g, y, *inputs, **attrs), written in ops
Samples = Callable[[], "list[Case]"]
Work = Callable[[Sequence[Spec], Spec, Mapping[str, Any]], float]
Rule = Literal["", "product", "wide", "lookup"]  # of mixed precision, see core.autocast
Reads = Literal["strided", "narrow"]


class Launches(Protocol):
    """Who says by which kernels a call is computed."""

    def choice(self, device: Device, operands: Sequence[Operand], **attrs: Any) -> Choice:
        """Who serves these operands (shapes, strides, dtypes) on the device, and why not the others."""


@dataclass(frozen=True)
class Case:
    """One example call: argument shapes (or ready arrays) and attributes. What every check of an op runs on."""

    args: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)

    def arrays(self, rng: np.random.Generator, domain: tuple[float, float], dtype: str) -> list[Array]:
        """Shapes become uniform draws from `domain`; arrays stay as they are."""
        def draw(arg: Array | tuple[int, ...]) -> Array:
            if isinstance(arg, np.ndarray):
                return arg
            x = rng.uniform(*domain, arg)
            return np.asarray(x > 0 if dtype == "bool" else x, np_dtype(dtype))

        return [draw(a) for a in self.args]


@dataclass(eq=False, repr=False)
class Op:
    """An op, declared once. See the factory functions below for what each field means."""

    name: str
    infer: Infer
    ref: Reference
    args: tuple[str, ...] = ()
    _: KW_ONLY
    vjp: Vjp | None = None
    accepts: str = "any"
    domain: tuple[float, float] = (-2.0, 2.0)
    draws: str = ""  # dtype in which samples are drawn; "": as `accepts` says
    samples: Samples | None = None
    cost: int = 1
    doc: str = ""
    family: str = ""
    differentiable: bool = True
    rule: Rule = ""
    # Operands whose NaN and infinities may also reach results where they meet nothing but padding (0 · ∞ is NaN).
    spreads: tuple[str, ...] = ()
    builtin: bool = field(default=False, init=False)  # whether it is clnet's own
    # What tells the op from all others, one of the same name that it replaced among them: plans are known by it.
    key: str = field(default="", init=False)
    kind: ClassVar[str] = "op"
    # (op, operands, attributes) -> what a call makes, and the same on tensors without the rules of mixed precision:
    # `core.tensor`, which stands above, fills them in.
    record: ClassVar[Callable[[Op, tuple[TensorLike, ...], dict[str, Any]], Tensor]]
    record_as_given: ClassVar[Callable[[Op, tuple[Tensor, ...], dict[str, Any]], Tensor]]

    @property
    def has_gradient(self) -> bool:
        """Whether a derivative can be taken through the op."""
        return self.differentiable

    def __post_init__(self) -> None:
        if self.name in OPS:
            raise TypeError(f"op {self.name!r} is already declared")
        OPS[self.name] = self
        self.key = self.name
        self.builtin = _importing()
        self.__doc__ = Documented(self.doc, self.name)  # what help shows of it, in place of the class's

    def __call__(self, *inputs: TensorLike, **attrs: Any) -> Tensor:
        return self.record(inputs, attrs)

    def defvjp(self, fn: Function) -> Function:
        """Attaches the vector-Jacobian product: (g, y, *inputs, **attrs) -> cotangent(s), written in ops."""
        self.vjp = fn
        return fn

    def flops(self, operands: Sequence[Spec], result: Spec, attrs: Mapping[str, Any]) -> float:
        """Additions and products of a call; a function (exp, tanh) counts as `cost` says."""
        return float(self.cost * max(s.size for s in (*operands, result)))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"


@dataclass(eq=False, repr=False)
class Pointwise(Op):
    """An elementwise op; one without operands (a constant) is inlined where it is used."""

    _: KW_ONLY
    expression: str = ""
    selects: bool = False  # whether the first operand is a condition, with no say in the dtype of the others
    origin: Origin | None = None  # where the expression comes from, of an op that is not clnet's own
    vectors: bool = True  # whether such an expression holds for vectors, too
    tests: bool = False  # whether it gives a bool
    kind = "pointwise"


@dataclass(eq=False, repr=False)
class Reduction(Op):
    """A fold over axes, which are kept with size 1."""

    _: KW_ONLY
    fold: Fold
    origin: Origin | None = None  # where an expression in a and b that merges comes from, in place of the fold's
    kind = "reduction"


@dataclass(eq=False, repr=False)
class View(Op):
    """An index map: output coordinates -> (input coordinates, conditions under which there is an input)."""

    _: KW_ONLY
    index: Callable[..., Any]
    # Of which elements of its operand: a cast of "all" is the same view of a cast, of "part" where the whole is cast.
    shows: Literal["", "all", "part"] = ""
    kind = "view"

    def flops(self, operands: Sequence[Spec], result: Spec, attrs: Mapping[str, Any]) -> float:
        """None: nothing is computed."""
        return 0.0


class Concatenation(Op):
    """Parts side by side, each computed straight into its place."""

    kind = "assemble"


@dataclass(eq=False, repr=False)
class Kernel(Op):
    """An op with an OpenCL file of its own.

    launch   (device, operands, **attrs) -> list of Stage, or None where the kernel does not suit
    define   the formula over other ops that serves there; None: the host computes
    work     (specs of the operands, of the result, attributes) -> additions and products of a call;
             None: `cost` an element
    reads    "strided": operands may be strided views, else they are made contiguous; "narrow": on some devices the
             kernel reads 16-bit operands itself, else it gets float32 copies
    rounds   whether the formula says itself what is rounded where operands are narrow
    twin     an op of the same operands and attributes, and `launch_both` the launch of a kernel that computes both
    text     the OpenCL C itself, where it is no file of cl_kernels
    writes   the parameter through which such a text writes its result, after which nothing is fused; "": by EPILOGUE
    """

    _: KW_ONLY
    cl: str = ""
    signature: str = ""
    launch: Launches | None = None
    define: Callable[..., Tensor] | None = None
    work: Work | None = None
    reads: tuple[Reads, ...] = ()
    rounds: bool = False
    text: str = ""
    writes: str = ""
    twin: Kernel | None = None
    launch_both: Launches | None = None
    kind = "kernel"

    @property
    def has_gradient(self) -> bool:
        """Whether a derivative can be taken through the op; a kernel without a VJP refuses."""
        return self.differentiable and self.vjp is not None

    def launch_with(self, twin: Kernel, launch: Launches) -> None:
        """Attaches kernels that compute this op and `twin`, of the same attributes and first operands, in one pass,
        for graphs that hold both.

        EPILOGUE_ALSO takes the twin's value at the coordinates Stage.also, if results differ in size
        (EPILOGUE in a stage that gives the twin alone, whose domain is empty); without those they are of one size,
        and EPILOGUE takes both values.
        """
        self.twin, self.launch_both = twin, launch

    def flops(self, operands: Sequence[Spec], result: Spec, attrs: Mapping[str, Any]) -> float:
        """Additions and products of a call, as the op's `work` counts them."""
        return super().flops(operands, result, attrs) if self.work is None else self.work(operands, result, attrs)


@dataclass(eq=False, repr=False)
class Composite(Kernel):
    """A formula over other ops, kept as one node where a kernel or a gradient of its own is there for it."""

    _: KW_ONLY
    given: bool = False  # whether the gradient is written down, rather than the formula's
    kind = "composite"

    @property
    def inlined(self) -> bool:
        """Whether a call records the formula rather than a node."""
        return not self.cl and not self.given

    def defvjp(self, fn: Function) -> Function:
        """Attaches the vector-Jacobian product, in place of the formula's."""
        self.given = True
        return super().defvjp(fn)


def _importing() -> bool:
    """Whether a module of this package declares an op as it is imported, and nobody else calls."""
    frame, ours = inspect.currentframe(), __name__.partition(".")[0]
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] == ours:
        frame = frame.f_back
    return frame is None or frame.f_globals.get("__name__", "").startswith("importlib")


def family() -> str:
    """What the module that declares an op calls its ops: its FAMILY, else its own name."""
    frame = inspect.currentframe()
    while frame and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    known = frame.f_globals if frame else {}
    return str(known.get("FAMILY") or known.get("__name__", "").rpartition(".")[2])


def pointwise(
    name: str, expression: str, ref: Reference, vjp: Vjp | None, *, out: str = "", accepts: str = "any",
    domain: tuple[float, float] = (-2.0, 2.0), cost: int = 1, doc: str = "", args: tuple[str, ...] = (),
    infer: Infer | None = None, draws: str = "", samples: Samples | None = None, rule: Rule = "", selects: bool = False,
) -> Pointwise:
    """An elementwise op.

    expression   in C, over the argument names; `T` is the compute type, scalar or vector; BOOL(c) turns a comparison
                 into a bool value and TEST(b) a bool value into a condition (vector comparisons are masks of -1 and 0)
    out          result dtype: "" the promoted one, "float" at least float, else a dtype name
    cost         rough weight against an addition; the scheduler recomputes cheap ops instead of storing them
    draws        dtype in which samples are drawn, where it is not the usual one of what `accepts` names
    rule         how mixed precision takes the op (core.autocast)
    selects      whether the first operand is a condition, with no say in the dtype of the others
    """
    args = args or positional(vjp or ref)[2 if vjp else 0 :]
    return Pointwise(name, infer or elementwise(name, args, accepts, out), ref, args, expression=expression, vjp=vjp,
                     accepts=accepts, domain=domain, draws=draws, samples=samples, cost=cost,
                     doc=doc or f"y = {expression}", family=family(), differentiable=vjp is not None, rule=rule,
                     selects=selects)


def elementwise(name: str, args: Sequence[str], accepts: str, out: str) -> Infer:
    """The shape and dtype rule of elementwise ops: operands broadcast; `accepts` and `out` as in `pointwise`."""

    def infer(*specs: Spec, **attrs: Any) -> Spec:
        if attrs:
            raise ConfigError(f"{name}: expected {', '.join(args)} and nothing more; got {', '.join(attrs)}.")
        accept(name, accepts, specs)
        shape = broadcast_shapes(name, *(s.shape for s in specs))
        if out == "float":
            return Spec(shape, _float_of(*(s.dtype for s in specs)))
        return Spec(shape, out or promote(*(s.dtype for s in specs)))

    return infer


def _float_of(*dtypes: str) -> str:
    """NumPy's float for a set of dtypes: itself for floats, float64 for 32-bit integers and wider."""
    dtype = promote(*dtypes)
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        return dtype
    return "float32" if dtype in ("bool", "int8", "uint8", "int16", "uint16") else "float64"


class Fold(NamedTuple):
    """How a reduction runs: state components, what one element contributes, how two states merge, the result.

    init, lift, merge and finish are C expressions, one per component: `lift` over `x` (element) and `i`
    (its number along the reduced axes), `merge` over a0.. and b0.., `finish` over a0.. .
    `T` is the accumulator type, `I` long.
    """

    init: tuple[str, ...]
    lift: tuple[str, ...]
    merge: tuple[str, ...]
    finish: str = "a0"
    types: tuple[str, ...] = ("T",)

    @property
    def adds(self) -> bool:
        """Whether it is a sum."""
        return self.merge == ("a0 + b0",)


def reduction(
    name: str, fold: Fold, ref: Reference, vjp: Vjp | None, *, out: str = "", accepts: str = "any",
    domain: tuple[float, float] = (-2.0, 2.0), doc: str = "", rule: Rule = "",
) -> Reduction:
    """A fold over axes that keeps them with size 1 (users see `axes=` and `keepdims=` on the functions in ops.reduce).
    """

    def infer(x: Spec, *, axes: tuple[int, ...]) -> Spec:
        accept(name, accepts, [x])
        axes = arguments.axes(name, axes, len(x.shape))
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        dtype = {"": x.dtype, "sum": _sum_dtype(x.dtype), "float": _float_of(x.dtype)}.get(out, out)
        return Spec(shape, dtype)

    return Reduction(name, infer, ref, ("x",), fold=fold, vjp=vjp, accepts=accepts, domain=domain, doc=doc,
                     family=family(), differentiable=vjp is not None, rule=rule)


def _sum_dtype(dtype: str) -> str:
    """NumPy sums small integers in 64 bits."""
    if dtype == "bool" or dtype.startswith("int"):
        return "int64"
    return "uint64" if dtype.startswith("uint") else dtype


def view(name: str, infer: Infer, ref: Reference, vjp: Vjp, index: Callable[..., Any], samples: Samples, doc: str, *,
         args: tuple[str, ...] = ("x",), shows: Literal["", "all", "part"] = "") -> View:
    """An op that moves no data. `index(ix, in_shape, out_shape, **attrs)` maps output coordinates to input coordinates.

    shows   of which elements of the operand: a cast of "all" is the same view of a cast,
            of "part" where the whole is cast
    """
    return View(name, infer, ref, args, index=index, vjp=vjp, samples=samples, doc=doc, family=family(), cost=0,
                shows=shows)


def _einfer(name: str, signature: str, args: Sequence[str], accepts: str) -> Infer:
    bind = einshape(signature, name, args)

    def infer(*specs: Spec, **attrs: Any) -> Spec:
        accept(name, accepts, specs)
        return Spec(result_shape(signature, bind(*specs)), promote(*(s.dtype for s in specs)))

    return infer


def kernel(
    signature: str = "", *, cl: str, samples: Samples, infer: Infer | None = None, accepts: str = "number",
    domain: tuple[float, float] = (-2.0, 2.0), cost: int = 100, launch: Launches | None = None,
    define: Callable[..., Tensor] | None = None, work: Work | None = None, reads: tuple[Reads, ...] = (),
    rule: Rule = "", spreads: tuple[str, ...] = (), differentiable: bool = True,
) -> Callable[[Reference], Kernel]:
    """An op with a hand-written kernel; the decorated body is the NumPy reference, the docstring starts
    with the formula. Fields as Kernel's.
    """

    def declare(ref: Reference) -> Kernel:
        name, args = ref.__name__.strip("_"), positional(ref)
        return Kernel(name, infer or _einfer(name, signature, args, accepts), ref, args, cl=cl, samples=samples,
                      doc=inspect.getdoc(ref) or "", signature=signature, accepts=accepts, domain=domain, cost=cost,
                      family=family(), launch=launch, define=define, work=work, reads=reads, rule=rule,
                      spreads=spreads, differentiable=differentiable)

    return declare


def positional(fn: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's positional parameters."""
    code = inspect.unwrap(fn).__code__  # inspect.signature makes objects, of a hundred functions at each start
    return code.co_varnames[code.co_posonlyargcount : code.co_argcount]
