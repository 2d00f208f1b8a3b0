"""The ops that are methods of tensors and variables: x.sum(0), x @ w, x[0]. They are hung on `Operators` here,
for the core knows no ops.
"""

from __future__ import annotations

from types import FunctionType

from ..core.operators import Operators
from ..core.tensor import Tensor, TensorLike
from ..names import told
from .indexing import getitem
from .matmul import matmul
from .pointwise import cast, pow
from .reduce import detach, max, mean, min, sum
from .view import expand, permute, reshape


def _rpow(a: TensorLike, b: TensorLike) -> Tensor:
    return pow(b, a)


def _rmatmul(a: TensorLike, b: TensorLike) -> Tensor:
    return matmul(b, a)


METHODS = {"reshape": reshape, "permute": permute, "expand": expand, "astype": cast, "sum": sum, "mean": mean,
           "max": max, "min": min, "detach": detach, "__getitem__": getitem, "__matmul__": matmul, "__pow__": pow,
           "__rmatmul__": _rmatmul, "__rpow__": _rpow}

for _name, _op in METHODS.items():
    setattr(Operators, _name, _op)
for _name, _op in list(vars(Operators).items()):
    if isinstance(_op, FunctionType) and not _name.startswith("_"):
        setattr(Operators, _name, told(_op, method=_name))
