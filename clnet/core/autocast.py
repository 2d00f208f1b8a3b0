"""Mixed precision as rules over ops, applied where ops are recorded: no layer knows of them. `clnet.autocast`
turns them on, and each op says which `rule` it follows.

    products    float32 operands are rounded to the 16-bit dtype; sums in float32, the result in 16 bits
    wide        16-bit operands are taken as float32, and so is the result: sums over axes, exponentials, logarithms,
                powers
    lookups     the rows that are found are rounded, not the table
    the rest    as ever; float32 into which no 16-bit value went (a parameter, a buffer, a constant, data) does not
                widen 16-bit operands

So a bias or a normalisation's scale is added in float32 inside the kernel and the sum stored in 16 bits, while a mean
stays float32. Kernels compute 16-bit operands in float32 in any case: the rules say what is rounded and stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from .op import OPS, Op, View
from .operators import Operators
from .precision import casts_products, stored_dtype
from .spec import FLOATS, NARROW, Spec, promote

if TYPE_CHECKING:
    from .tensor import Tensor

MOST = 256  # values that `given` looks through: what parameters are made into before they meet an input is short


def narrowed(op: Op, tensors: tuple[Tensor, ...], attrs: dict[str, Any], dtype: str) -> Tensor:
    """What is recorded for op(*tensors) under the rules, `dtype` being the 16-bit one."""
    if op.rule == "product" and casts_products():
        return op.record_as_given(tuple(cast(t, dtype) if t.dtype == "float32" else t for t in tensors), attrs)
    if op.rule == "wide":
        return op.record_as_given(tuple(cast(t, "float32") if t.dtype in NARROW else t for t in tensors), attrs)
    y = op.record_as_given(tensors, attrs)
    if y.dtype == "float32" and op.name != "cast" and tensors:
        met = dtype if op.rule == "lookup" and given(tensors[0]) else common(tensors)
        return cast(y, met) if met in NARROW else y
    return y


def common(tensors: Sequence[Tensor]) -> str:
    """The dtype in which values meet: 16 bits where all that is float32 beside them was given, else NumPy's."""
    stored = dict.fromkeys(t.dtype for t in tensors if t.dtype in NARROW) if stored_dtype() else {}
    floats = (t for t in tensors if t.dtype in FLOATS)
    if len(stored) == 1 and all(t.dtype in NARROW or (t.dtype == "float32" and given(t)) for t in floats):
        return next(iter(stored))
    return promote(*(t.dtype for t in tensors))


def of_products(tensors: Sequence[Tensor]) -> str:
    """The dtype in which operands of a product meet."""
    dtype = promote(*(t.dtype for t in tensors))
    return stored_dtype() if dtype == "float32" and stored_dtype() and casts_products() else dtype


def given(t: Tensor) -> bool:
    """Whether no 16-bit value went into t: a parameter, a buffer, data, a constant,
    or what was computed from such alone.
    """
    seen, todo = {id(t)}, [t]
    while todo:
        now = todo.pop()
        if now.dtype in NARROW or len(seen) > MOST:
            return False
        new = [i for i in now.inputs if id(i) not in seen]
        seen.update(map(id, new))
        todo += new
    return True


def cast(t: Tensor, dtype: str) -> Tensor:
    """t as dtype, recorded without any rule; what was widened from there is taken as it was."""
    if t.op is OPS["cast"] and t.inputs[0].dtype == dtype and t.dtype == "float32":
        return t.inputs[0]
    return t if t.dtype == dtype else OPS["cast"].record_as_given((t,), {"dtype": dtype})


@overload
def wide(x: Tensor) -> Tensor: ...
@overload
def wide(x: object) -> Any: ...
def wide(x: object) -> Any:
    """16-bit floats as float32, in tuples too; everything else as it is."""
    if isinstance(x, (tuple, list)):
        return tuple(map(wide, x))
    return cast(x.tensor, "float32") if isinstance(x, Operators) and x.tensor is x and x.dtype in NARROW else x


def kept_wide(piece: Tensor, t: Tensor) -> Tensor:
    """The cotangent `piece` of t in the dtype it is wanted in: where t is a rounded parameter,
    a product's own float32 sums.
    """
    rounded = t.op is OPS["cast"] and t.dtype in NARROW and t.inputs[0].dtype == "float32" and given(t.inputs[0])
    return _unrounded(piece) if rounded else cast(piece, t.dtype)


def _unrounded(y: Tensor) -> Tensor:
    """y in float32, as the product behind its views has it before it is rounded."""
    if y.dtype == "float32" or y.op is None:
        return cast(y, "float32")
    if y.op.rule == "product":
        return type(y)(y.op, y.inputs, y.attrs, Spec(y.shape, "float32"))
    if isinstance(y.op, View) and len(y.inputs) == 1:
        return type(y)(y.op, (_unrounded(y.inputs[0]),), y.attrs, Spec(y.shape, "float32"))
    return cast(y, "float32")
