"""The ops that are methods of tensors and variables: x.sum(0), x @ w, x[0], x.exp(). They are hung on `Operators` here,
for the core knows no ops. One table says which: each by the module that has it.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from ..core.op import Op
from ..core.operators import Operators
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..names import told
from . import (
    arranging,
    assigning,
    comparing,
    contraction,
    counting,
    cumulative,
    index,
    joining,
    moments,
    normalization,
    pointwise,
    reduce,
    special_functions,
    summaries,
    view,
)
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


def numel(x: TensorLike) -> int:
    """How many elements there are: x.size."""
    return as_tensor(x).size


def dim(x: TensorLike) -> int:
    """How many axes there are: x.ndim."""
    return as_tensor(x).ndim


def contiguous(x: TensorLike) -> Tensor:
    """x: how a tensor lies in memory is the engine's affair."""
    return as_tensor(x)


# By themselves: names that are not the op's, or are those of a module, too.
RENAMED = {"astype": cast, "view": reshape, "argmax": reduce.argmax_, "argmin": reduce.argmin_,
           "clamp": pointwise.clip, "__getitem__": getitem, "__matmul__": matmul, "__pow__": pow,
           "numel": numel, "dim": dim, "contiguous": contiguous,
           "__rmatmul__": _rmatmul, "__rpow__": _rpow, "argsort": argsort, "sort": sort, "topk": topk}
NAMED: dict[ModuleType, str] = {
    pointwise: """abs arctan ceil clip cos cosh erf exp exp2 expm1 floor isfinite isnan log log10 log1p log2 logical_not
                  maximum minimum pow reciprocal relu round rsqrt sigmoid sign sin sinh softplus sqrt square tan tanh
                  trunc""",
    special_functions: "arccos arccosh arcsin arcsinh arctan2 arctanh digamma erfinv hypot lerp lgamma logaddexp logit",
    comparing: "allclose isclose isinf logical_and logical_or logical_xor nan_to_num",
    reduce: "detach logsumexp max mean min prod sum var",
    moments: "all any count_nonzero norm std",
    summaries: "corrcoef cov diff median nanmax nanmean nanmin nansum quantile",
    contraction: "cross kron tensordot trace",
    joining: "chunk split unbind",
    counting: "bincount histogram nonzero unique",
    assigning: "gather_nd put_along_axis",
    index: "take_along_axis",
    cumulative: "cummax cumprod cumsum logcumsumexp",
    arranging: """diag diagonal expand_as flatten index_select masked_fill moveaxis narrow outer repeat roll rot90
                  squeeze swapaxes tile tril triu unsqueeze""",
    normalization: "log_softmax softmax",
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
