"""Matrix products: one kernel for every transposition and batch; linear maps, einsum and the gradients are built on it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arrays import Array
from ..core.op import Case, Cotangents, kernel
from ..core.precision import checked, current_precision
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ShapeError
from ..kernels.choosers import MATMUL
from .view import permute, reshape, transpose


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


def einsum(equation: str, *operands: Any) -> Tensor:
    """Einstein summation of one or two operands: letters shared by both and kept are batch axes,
    shared and dropped are summed.

    Raises ShapeError for more operands, unknown letters or sizes that differ. (More operands: chain two-operand calls.)
    """
    if not isinstance(equation, str):
        raise ShapeError(f"einsum: expected an equation as 'ij,jk->ik' first; got {arguments.shown(equation)}.")
    left, _, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands) or len(terms) not in (1, 2) or "->" not in equation:
        raise ShapeError(
            "einsum: expected one or two operands and an explicit result as in 'ij,jk->ik'; "
            f"got {equation!r} with {len(operands)}.")
    if unknown := [c for c in out if c not in left or out.count(c) > 1 or not c.isalpha()]:
        raise ShapeError(
            f"einsum: expected a result of distinct letters of {left!r}; "
            f"got {unknown[0]!r} in {equation!r}; expand() repeats along a new axis.")
    sizes: dict[str, int] = {}
    tensors = []
    for term, x in zip(terms, map(as_tensor, operands), strict=True):
        if len(term) != x.ndim or len(set(term)) != len(term):
            raise ShapeError(
                f"einsum: expected one distinct letter per axis of {x.shape}; got {term!r} in {equation!r}.")
        for letter, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(letter, n) != n:
                raise ShapeError(f"einsum: axis {letter!r} is {sizes[letter]} and {n} in {equation!r}.")
        gone = [a for a, letter in enumerate(term)
                if letter not in out and all(letter not in t for t in terms if t is not term)]
        tensors.append(x.sum(gone) if gone else x)
    kept = ["".join(c for c in t if c in out or any(c in u for u in terms if u is not t)) for t in terms]
    if len(tensors) == 1:
        return permute(tensors[0], [kept[0].index(c) for c in out])
    return _contract(kept[0], kept[1], out, tensors[0], tensors[1], sizes)


def _contract(a: str, b: str, out: str, x: Tensor, w: Tensor, sizes: dict[str, int]) -> Tensor:
    batch = [c for c in out if c in a and c in b]
    summed = [c for c in a if c in b and c not in out]
    m, n = [c for c in a if c not in b], [c for c in b if c not in a]

    def form(term: str, t: Tensor, *groups: list[str]) -> Tensor:
        order = [*batch, *groups[0], *groups[1]]
        shape = [*(sizes[c] for c in batch), math.prod(sizes[c] for c in groups[0]),
                 math.prod(sizes[c] for c in groups[1])]
        return reshape(permute(t, [term.index(c) for c in order]), shape)

    y = matmul(form(a, x, m, summed), form(b, w, summed, n))
    letters = [*batch, *m, *n]
    return permute(reshape(y, [sizes[c] for c in letters]), [letters.index(c) for c in out])
