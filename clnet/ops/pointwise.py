"""Elementwise ops: one row each (name, OpenCL C, NumPy, VJP(g, y, *inputs)). Sorted by increasing difficulty.

In the C column `T` is the compute type (scalar or vector), BOOL(c) makes a bool value of a comparison, TEST(b) a
condition of a bool value. A NaN operand gives a NaN result throughout, as in NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core import arguments
from ..core.arguments import Sizes
from ..core.arrays import Array
from ..core.autocast import wide
from ..core.op import Case, Pointwise, pointwise
from ..core.precision import stored_dtype
from ..core.spec import INTS, Spec, dtype_name, is_float
from ..core.tensor import Operators, Tensor, TensorLike, as_tensor
from ..errors import DTypeError
from .special import special

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

FAMILY = "pointwise"
F, N = "float", "number"
positive = (0.1, 4.0)


def _where(c: TensorLike, x: TensorLike, y: TensorLike) -> Tensor:
    return where(c, x, y)


def _half_if_tie(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Cotangents of maximum(x, y): all to the larger side, half each on a tie."""
    to_x = g * where(x > y, 1.0, where(equal(x, y), 0.5, 0.0))
    return to_x, g - to_x


def _to_base(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """g · y · x^(y − 1), 0 where y = 0: there 0 · ∞ would be NaN at x = 0."""
    return g * where(equal(y, 0), 0.0, y * pow(x, y - 1))


def _to_exponent(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    """d x^y / dy = x^y ln x; 0 where x ≤ 0, where ln x does not exist."""
    return where(greater(x, 0), g * out * log(where(greater(x, 0), x, 1.0)), 0.0)


def _power(x: Array, y: Array) -> Array:
    """x^y; of integers with a negative y what 1 / x^|y| leaves without its fraction, 0 for x = 0."""
    x, y = np.broadcast_arrays(x, y)
    if np.result_type(x, y).kind == "f":
        return np.power(x, y)
    ends = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0)) if x.dtype.kind == "i" else x == 1
    return np.where(y < 0, ends, np.power(x, np.where(y < 0, 0, y))).astype(np.result_type(x, y))


# --- arithmetic
neg = pointwise("neg", "-x", np.negative, lambda g, y, x: -g, accepts=N)
add = pointwise("add", "x + y", np.add, lambda g, out, x, y: (g, g))
sub = pointwise("sub", "x - y", np.subtract, lambda g, out, x, y: (g, -g), accepts=N)
mul = pointwise("mul", "x * y", np.multiply, lambda g, out, x, y: (g * y, g * x))
_div = pointwise("div", "x / y", np.true_divide, lambda g, out, x, y: (g / y, -g * out / y), out="float",
                 domain=(0.5, 2.0), cost=4)
reciprocal = pointwise("reciprocal", "1 / x", lambda x: 1 / x, lambda g, y, x: -g * y * y, out="float", accepts=F,
                       domain=(0.5, 2.0), cost=4, rule="wide")
square = pointwise("square", "x * x", np.square, lambda g, y, x: 2 * g * x, accepts=N)
abs = pointwise("abs", "ABS(x)", np.abs, lambda g, y, x: g * sign(x), accepts=N)
sign = pointwise("sign", "x > 0 ? (T)(1) : (x < 0 ? (T)(-1) : x)", np.sign, lambda g, y, x: None, accepts=N,
                 doc="y = -1, 0 or 1 (NaN stays)")
floordiv = pointwise("floordiv", "FLOORDIV(x, y)", np.floor_divide, None, accepts=N, domain=(1.0, 9.0), cost=6,
                     args=("x", "y"), doc="y = ⌊x / y⌋")
mod = pointwise("mod", "FLOORMOD(x, y)", np.mod, lambda g, out, x, y: (g, -g * floordiv(x, y)), accepts=N,
                domain=(1.0, 9.0), cost=6, args=("x", "y"), doc="y = x − y·⌊x / y⌋, the sign of y")
maximum = pointwise("maximum", "x > y || x != x ? x : y", np.maximum, lambda g, out, x, y: _half_if_tie(g, x, y))
minimum = pointwise("minimum", "x < y || x != x ? x : y", np.minimum, lambda g, out, x, y: _half_if_tie(g, y, x))
clip_low = pointwise("clip_low", "x > y || x != x ? x : y", np.maximum,
                     lambda g, out, x, y: (where(x >= y, g, 0.0), where(x >= y, 0.0, g)),
                     doc="y = max(x, low); on a tie the gradient goes to x")
clip_high = pointwise("clip_high", "x < y || x != x ? x : y", np.minimum,
                      lambda g, out, x, y: (where(x <= y, g, 0.0), where(x <= y, 0.0, g)),
                      doc="y = min(x, high); on a tie the gradient goes to x")
relu = pointwise("relu", "x <= 0 ? (T)(0) : x", lambda x: np.maximum(x, 0), lambda g, y, x: where(y > 0, g, 0.0),
                 accepts=N, doc="y = max(x, 0)")

# --- comparisons and logic
less = pointwise("less", "BOOL(x < y)", np.less, None, out="bool", args=("x", "y"))
less_equal = pointwise("less_equal", "BOOL(x <= y)", np.less_equal, None, out="bool", args=("x", "y"))
greater = pointwise("greater", "BOOL(x > y)", np.greater, None, out="bool", args=("x", "y"))
greater_equal = pointwise("greater_equal", "BOOL(x >= y)", np.greater_equal, None, out="bool", args=("x", "y"))
equal = pointwise("equal", "BOOL(x == y)", np.equal, None, out="bool", args=("x", "y"))
not_equal = pointwise("not_equal", "BOOL(x != y)", np.not_equal, None, out="bool", args=("x", "y"))
isnan = pointwise("isnan", "BOOL(x != x)", np.isnan, None, out="bool", accepts=F, args=("x",))
isfinite = pointwise("isfinite", "BOOL(x - x == 0)", np.isfinite, None, out="bool", accepts=F, args=("x",))
bit_and = pointwise("bit_and", "x & y", np.bitwise_and, None, accepts="bits", domain=(0.0, 50.0), args=("x", "y"))
bit_or = pointwise("bit_or", "x | y", np.bitwise_or, None, accepts="bits", domain=(0.0, 50.0), args=("x", "y"))
bit_xor = pointwise("bit_xor", "x ^ y", np.bitwise_xor, None, accepts="bits", domain=(0.0, 50.0), args=("x", "y"))
invert = pointwise("invert", "INVERT(x)", np.invert, None, accepts="bits", domain=(0.0, 50.0), args=("x",),
                   doc="y = ~x")
shift_left = pointwise("shift_left", "y >= 0 && y < BITS ? x << y : (T)(0)", np.left_shift, None, accepts="int",
                       domain=(0.0, 6.0), args=("x", "y"), doc="y = x · 2^y in the bits of x; 0 for y beyond them")
shift_right = pointwise("shift_right", "y >= 0 && y < BITS ? x >> y : (x < 0 ? (T)(-1) : (T)(0))", np.right_shift, None,
                        accepts="int", domain=(0.0, 6.0), args=("x", "y"),
                        doc="y = ⌊x / 2^y⌋; for y beyond the bits of x 0, or −1 of a negative x")
mul_high = pointwise("mul_high", "mul_hi(x, y)",
                     lambda x, y: ((x.astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32),
                     None, accepts="int", domain=(0.0, 50.0), args=("x", "y"), draws="uint32",
                     doc="y = the high 32 bits of x · y, for uint32")
where = pointwise("where", "TEST(c) ? x : y", np.where,
                  lambda g, out, c, x, y: (None, _where(c, g, 0.0), _where(c, 0.0, g)), selects=True,
                  doc="y = x where c, else y")

# --- rounding
floor = pointwise("floor", "floor(x)", np.floor, None, accepts=F, args=("x",))
ceil = pointwise("ceil", "ceil(x)", np.ceil, None, accepts=F, args=("x",))
round = pointwise("round", "rint(x)", np.round, None, accepts=F, args=("x",),
                  doc="y = x to the nearest integer, ties to even")
trunc = pointwise("trunc", "trunc(x)", np.trunc, None, accepts=F, args=("x",))

# --- powers, exponentials, logarithms
sqrt = pointwise("sqrt", "sqrt(x)", np.sqrt, lambda g, y, x: where(y > 0, 0.5 * g / where(y > 0, y, 1.0), 0.0),
                 out="float", accepts=F, domain=positive, cost=4)
rsqrt = pointwise("rsqrt", "1 / sqrt(x)", lambda x: 1 / np.sqrt(x), lambda g, y, x: -0.5 * g * y * y * y, out="float",
                  accepts=F, domain=positive, cost=6, rule="wide")
exp = pointwise("exp", "exp(x)", np.exp, lambda g, y, x: g * y, accepts=F, cost=10, rule="wide")
expm1 = pointwise("expm1", "expm1(x)", np.expm1, lambda g, y, x: g * (y + 1), accepts=F, cost=12, rule="wide")
log = pointwise("log", "log(x)", np.log, lambda g, y, x: g / x, accepts=F, domain=positive, cost=10, rule="wide")
log1p = pointwise("log1p", "log1p(x)", np.log1p, lambda g, y, x: g / (1 + x), accepts=F, domain=(-0.9, 4.0), cost=12,
                  rule="wide")
log2 = pointwise("log2", "log2(x)", np.log2, lambda g, y, x: g / (x * float(np.log(2))), accepts=F, domain=positive,
                 cost=10, rule="wide")
log10 = pointwise("log10", "log10(x)", np.log10, lambda g, y, x: g / (x * float(np.log(10))), accepts=F,
                  domain=positive, cost=10, rule="wide")
exp2 = pointwise("exp2", "exp2(x)", np.exp2, lambda g, y, x: g * y * float(np.log(2)), accepts=F, cost=10, rule="wide")
_pow = pointwise("pow", "POW(x, y)", _power, lambda g, out, x, y: (_to_base(g, x, y), _to_exponent(g, out, x)),
                 accepts=N, domain=(0.5, 2.5), cost=20, rule="wide")

# --- trigonometry
sin = pointwise("sin", "sin(x)", np.sin, lambda g, y, x: g * cos(x), accepts=F, cost=12)
cos = pointwise("cos", "cos(x)", np.cos, lambda g, y, x: -g * sin(x), accepts=F, cost=12)
tan = pointwise("tan", "tan(x)", np.tan, lambda g, y, x: g * (1 + y * y), accepts=F, domain=(-1.2, 1.2), cost=16,
                rule="wide")
arctan = pointwise("arctan", "atan(x)", np.arctan, lambda g, y, x: g / (1 + x * x), accepts=F, cost=16)
sinh = pointwise("sinh", "sinh(x)", np.sinh, lambda g, y, x: g * cosh(x), accepts=F, cost=16, rule="wide")
cosh = pointwise("cosh", "cosh(x)", np.cosh, lambda g, y, x: g * sinh(x), accepts=F, cost=16, rule="wide")
tanh = pointwise("tanh", "TANH(x)", np.tanh, lambda g, y, x: g * (1 - y * y), accepts=F, cost=14)

# --- sigmoids
sigmoid = pointwise("sigmoid", "1 / (1 + exp(-x))", lambda x: special.expit(x), lambda g, y, x: g * y * (1 - y),
                    accepts=F, cost=14)
softplus = pointwise("softplus", "x != x ? x : ((x > 0 ? x : (T)(0)) + log1p(exp(-ABS(x))))",
                     lambda x: np.logaddexp(x, 0), lambda g, y, x: g * sigmoid(x), accepts=F, cost=24, rule="wide",
                     doc="y = ln(1 + eˣ)")
erf = pointwise("erf", "erf(x)", lambda x: special.erf(x), lambda g, y, x: g * (2 / np.pi**0.5) * exp(-x * x),
                accepts=F, cost=16)

# --- types and constants
detach = pointwise("detach", "x", lambda x: x, None, args=("x",), cost=0, doc="y = x, with no gradient through it")
_cast = pointwise("cast", "CAST(x)", lambda x, *, dtype: x, lambda g, y, x, *, dtype: g, cost=1,
                  doc="y = x as another dtype", infer=lambda x, *, dtype: Spec(x.shape, dtype),
                  samples=lambda: [Case(((3, 19),), dict(dtype=t))
                                   for t in ("float64", "int32", "float16", "bool", "bfloat16")])
_full = Pointwise("full", lambda *, value, dtype, shape: Spec(tuple(shape), dtype),
                  lambda *, value, dtype, shape: np.full(shape, value), family=FAMILY, differentiable=False, cost=0,
                  doc="y = value everywhere; inlined where it is used",
                  samples=lambda: [Case((), dict(value=v, dtype=t, shape=s)) for v, t, s in
                                   ((2.5, "float32", (3, 4)), (7, "int64", ()), (True, "bool", (2,)))])
_arange = Pointwise("arange", lambda *, n, dtype: Spec((n,), dtype), lambda *, n, dtype: np.arange(n),
                    family=FAMILY, differentiable=False, cost=0,
                    doc="y = 0, 1, …, n − 1; inlined where it is used",
                    samples=lambda: [Case((), dict(n=n, dtype=t)) for n, t in
                                     ((19, "int32"), (1, "float32"), (70, "int64"), (40, "uint8"))])


def full(shape: Sizes, value: float, dtype: DTypeLike = "float32") -> Tensor:
    """y = value everywhere: a constant that occupies no memory until it has to. Raises ShapeError;
    DTypeError for a value that `dtype` cannot hold.
    """
    return _filled("full", shape, value, dtype)


def _filled(who: str, shape: Sizes, value: float, dtype: DTypeLike) -> Tensor:
    dtype = dtype_name(dtype)
    return _full(value=arguments.number(who, value, dtype), dtype=dtype, shape=arguments.sizes(who, shape))


def arange(n: int, dtype: DTypeLike = "int32") -> Tensor:
    """y = 0, 1, …, n − 1; inlined where it is used. Raises ConfigError for an n that is no count,
    DTypeError where `dtype` is too small for n − 1.
    """
    n, dtype = arguments.integer("arange", "n", n, 0), dtype_name(dtype)
    arguments.number("arange", max(n - 1, 0), dtype)
    return _arange(n=n, dtype=dtype)


def pow(x: TensorLike, y: TensorLike) -> Tensor:
    """y = x^y. Integers stay integers: where only the device knows that an exponent is negative, the result is
    1 / x^|y| without its fraction (1 for x = 1, ±1 for x = −1, else 0). Raises DTypeError for one that the host knows.
    """
    if _is_integer(x) and _is_integer(y) and (least := _least(y)) < 0:
        raise DTypeError(
            "pow: expected exponents of at least 0 for integers; "
            f"got {least}; cast one of them to float32 for fractions.")
    return _pow(x, y) if (few := _few_products(x, y)) is None else few


def _few_products(x: TensorLike, y: TensorLike) -> Tensor | None:
    """x^y for an exponent that is written as 2, 3 or 4: as products, for a device's pow takes up to a hundred times as
    long, most of all of negative bases. None for others.
    """
    if type(y) not in (int, float) or y not in (2, 3, 4) or not isinstance(x, Operators):
        return None
    t = as_tensor(x)
    if not is_float(t.dtype) and (t.dtype not in INTS or type(y) is float):
        return None
    t = wide(t) if stored_dtype() else t  # as powers are taken in mixed precision
    squared = square(t)
    return squared if y == 2 else squared * t if y == 3 else square(squared)


def _is_integer(v: TensorLike) -> bool:
    return isinstance(v, int) or (not isinstance(v, float) and as_tensor(v).dtype in INTS)


def _least(y: TensorLike) -> int:
    """The smallest of integers that the host knows, else 0."""
    value = np.asarray(y) if isinstance(y, int) else as_tensor(y).value
    return int(value.min()) if value is not None and value.size else 0


def div(x: TensorLike, y: TensorLike) -> Tensor:
    """y = x / y; integers give floats, as in NumPy (floordiv keeps the type)."""
    return _div(x, y)


def cast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """y = x as `dtype`. Floats truncate toward zero when cast to integers."""
    x, dtype = as_tensor(x), dtype_name(dtype)
    return x if x.dtype == dtype else _cast(x, dtype=dtype)


def clip(x: TensorLike, low: TensorLike | None = None, high: TensorLike | None = None) -> Tensor:
    """y = min(max(x, low), high); the gradient is 1 within and at the bounds, 0 outside."""
    x = as_tensor(x)
    if low is not None:
        x = clip_low(x, low)
    return x if high is None else clip_high(x, high)


def logical_not(x: TensorLike) -> Tensor:
    """y = 1 where x is zero."""
    return equal(as_tensor(x), 0)


def zeros(shape: Sizes, dtype: DTypeLike = "float32") -> Tensor:
    """y = 0 everywhere, shape a tuple or one size: a constant, which occupies no memory until it has to.
    Raises ShapeError.
    """
    return _filled("zeros", shape, 0, dtype)


def ones(shape: Sizes, dtype: DTypeLike = "float32") -> Tensor:
    """y = 1 everywhere, as `zeros`."""
    return _filled("ones", shape, 1, dtype)
