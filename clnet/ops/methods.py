"""The ops that are methods of tensors and variables: x.sum(0), x @ w, x[0], x.exp(). They are hung on `Operators` here,
for the core knows no ops. One table says which: each by the module that has it.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from ..core.op import Op
from ..core.operators import Operators
from ..core.tensor import Tensor, TensorLike
from ..names import told
from . import arranging, cumulative, moments, normalize, pointwise, reduce, special_functions, view
from .assigning import At
from .indexing import getitem
from .matmul import matmul
from .pointwise import cast, pow
from .sort import argsort, sort, topk
from .view import reshape


def _rpow(a: TensorLike, b: TensorLike) -> Tensor:
    return pow(b, a)


def _rmatmul(a: TensorLike, b: TensorLike) -> Tensor:
    return matmul(b, a)


# By themselves: names that are not the op's, or are those of a module, too.
RENAMED = {"astype": cast, "view": reshape, "argmax": reduce.argmax_, "argmin": reduce.argmin_,
           "clamp": pointwise.clip, "__getitem__": getitem, "__matmul__": matmul, "__pow__": pow,
           "__rmatmul__": _rmatmul, "__rpow__": _rpow, "argsort": argsort, "sort": sort, "topk": topk}
NAMED: dict[ModuleType, str] = {
    pointwise: """abs ceil clip cos cosh erf exp expm1 floor isfinite isnan log log1p log2 maximum minimum pow
                  reciprocal relu round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc""",
    special_functions: "arccos arccosh arcsin arcsinh arctanh digamma erfinv lerp lgamma",
    reduce: "detach logsumexp max mean min prod sum var",
    moments: "all any norm std",
    cumulative: "cummax cumprod cumsum logcumsumexp",
    arranging: """diag index_select masked_fill moveaxis outer repeat roll squeeze swapaxes tile tril triu
                  unsqueeze""",
    normalize: "log_softmax softmax",
    view: "expand flip permute reshape",
}
METHODS: dict[str, Any] = RENAMED | {n: getattr(module, n) for module, names in NAMED.items() for n in names.split()}


def _method(name: str, op: Any) -> Any:
    """The op as a function, which a class can have."""
    if not isinstance(op, Op):
        return op

    def one(x: TensorLike) -> Tensor:
        return op(x)

    def two(x: TensorLike, y: TensorLike) -> Tensor:
        return op(x, y)

    found = (one, two)[len(op.args) - 1]
    found.__name__, found.__qualname__, found.__doc__ = name, f"Operators.{name}", op.doc
    return found


for _name, _op in METHODS.items():
    setattr(Operators, _name, _method(_name, _op))
setattr(Operators, "at", property(At, doc="x.at[key].set(v), .add(v) and others: x with other values in the places."))
for _name, _op in list(vars(Operators).items()):
    if isinstance(_op, FunctionType) and not _name.startswith("_"):
        setattr(Operators, _name, told(_op, method=_name))
