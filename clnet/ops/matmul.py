"""Matrix products: one kernel for every transposition and batch; linear maps, einsum and the gradients are built on it.
"""

from __future__ import annotations

import numpy as np

from ..core import arguments
from ..core.arrays import Array
from ..core.op import Case, Cotangents, kernel
from ..core.precision import checked, current_precision
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ShapeError
from ..kernels.choosers import MATMUL
from .view import reshape, transpose


def _samples() -> list[Case]:
    shapes = [((5, 7), (7, 3)), ((1, 4), (4, 1)), ((17, 33), (33, 31)), ((2, 5, 7), (7, 3)), ((2, 1, 5, 4), (3, 4, 6)),
              ((64, 48), (48, 10))]
    return [Case(s) for s in shapes]


@kernel("... m k, ... k n -> ... m n", cl="matmul.cl", samples=_samples, accepts="float", launch=MATMUL,
        rule="product", reads=("strided", "narrow"),
        work=lambda operands, y, attrs: 2.0 * y.size * operands[0].shape[-1])
def _matmul(x: Array, w: Array, *, precision: str = "fp32") -> Array:
    """y[…, m, n] = Σₖ x[…, m, k] · w[…, k, n]"""
    return np.matmul(x, w)


@_matmul.defvjp
def _(g: Tensor, y: Tensor, x: Tensor, w: Tensor, *, precision: str = "fp32") -> Cotangents:
    # The gradient of a transposed operand is computed transposed: the two transpositions cancel, and nothing is copied.
    to_w = transpose(_product(transpose(g), x, precision)) if _transposed(w) else _product(transpose(x), g, precision)
    to_x = transpose(_product(w, transpose(g), precision)) if _transposed(x) else _product(g, transpose(w), precision)
    return to_x, to_w


def _product(x: Tensor, w: Tensor, precision: str) -> Tensor:
    """The op, with the arithmetic that is asked for as an attribute: a part of every plan's key.
    Only float32 has a choice.
    """
    plain = precision == "fp32" or as_tensor(x).dtype != "float32"
    return _matmul(x, w) if plain else _matmul(x, w, precision=precision)


def _transposed(t: Tensor) -> bool:
    """Whether t is another tensor with its last two axes swapped, perhaps rounded since."""
    t = t.inputs[0] if t.op is not None and t.op.name == "cast" else t
    order = t.attrs["order"] if t.op is not None and t.op.name == "permute" else ()
    return order[-2:] == (t.ndim - 1, t.ndim - 2)


def matmul(x: TensorLike, w: TensorLike, *, alpha: float = 1.0, beta: float = 0.0, c: TensorLike | None = None,
           precision: str | None = None) -> Tensor:
    """y = α · x @ w + β · c, by NumPy's rules: leading axes broadcast, a vector is a row on the left,
    a column on the right.

    Transposed operands (`x.mT`) are read in place. α, β and c melt into the product's epilogue; with β = 0,
    c is not read. `precision` is the arithmetic that is asked for (clnet.core.precision lists them), by default
    that of the block or of all. Raises ShapeError when the inner sizes differ or an operand is a scalar,
    ConfigError for an unknown precision.
    """
    arithmetic = current_precision() if precision is None else checked(precision, "matmul")
    x, w = as_tensor(x), as_tensor(w)
    alpha, beta = arguments.real("matmul", "alpha", alpha), arguments.real("matmul", "beta", beta)
    if x.ndim == 0 or w.ndim == 0:
        raise ShapeError(
            f"matmul: expected operands with at least one axis; got shapes {x.shape} and {w.shape}; multiply with *.")
    left = x if x.ndim > 1 else reshape(x, (1, *x.shape))
    right = w if w.ndim > 1 else reshape(w, (*w.shape, 1))
    merge = left.ndim > 2 and right.ndim == 2
    y = _product(reshape(left, (-1, left.shape[-1])) if merge and left.size else left, right, arithmetic)
    lead = (*left.shape[:-1], right.shape[-1]) if merge else y.shape
    shape = (*(lead[:-2] if x.ndim == 1 else lead[:-1]), *((lead[-1],) if w.ndim > 1 else ()))
    y = reshape(y, shape)
    y = y if alpha == 1.0 else y * alpha
    if c is None or beta == 0.0:
        return y
    total = y + beta * as_tensor(c)
    if total.shape != y.shape:
        raise ShapeError(
            f"matmul: expected a c that broadcasts to the product's shape {y.shape}; got {as_tensor(c).shape}.")
    return total


def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """y = x · Wᵀ + b, for x (…, in), W (out, in), b (out). Raises ShapeError."""
    weight = as_tensor(weight)
    y = matmul(x, transpose(weight))
    if bias is None:
        return y
    bias = as_tensor(bias)
    if bias.shape != weight.shape[-2:-1]:
        raise ShapeError(
            f"linear: expected a bias of shape {weight.shape[-2:-1]}, one per row of the weight; got {bias.shape}.")
    return y + bias
