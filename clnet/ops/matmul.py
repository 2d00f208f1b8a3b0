"""Matrix products: one kernel for every transposition and batch; linear maps, einsum and the gradients are built on it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import arguments
from ..errors import ShapeError
from ..op import Case, kernel
from ..precision import checked, current_precision
from ..tensor import Tensor, as_tensor
from . import matmul_geometry, matmul_gpu_geometry, matmul_tensor_geometry
from .matmul_tensor_geometry import NARROW
from .view import permute, reshape, transpose


def _samples() -> list[Case]:
    shapes = [((5, 7), (7, 3)), ((1, 4), (4, 1)), ((17, 33), (33, 31)), ((2, 5, 7), (7, 3)), ((2, 1, 5, 4), (3, 4, 6)), ((64, 48), (48, 10))]
    return [Case(s) for s in shapes]


@kernel("... m k, ... k n -> ... m n", cl="matmul.cl", samples=_samples, accepts="float")
def _matmul(x: Any, w: Any, *, precision: str = "fp32") -> Any:
    """y[…, m, n] = Σₖ x[…, m, k] · w[…, k, n]"""
    return np.matmul(x, w)


_matmul.work = lambda operands, y, attrs: 2.0 * y.size * operands[0].shape[-1]


@_matmul.defvjp
def _(g: Any, y: Any, x: Any, w: Any, *, precision: str = "fp32") -> Any:
    # The gradient of a transposed operand is computed transposed: the two transpositions cancel, and nothing is copied.
    to_w = transpose(_product(transpose(g), x, precision)) if _transposed(w) else _product(transpose(x), g, precision)
    to_x = transpose(_product(w, transpose(g), precision)) if _transposed(x) else _product(g, transpose(w), precision)
    return to_x, to_w


def _product(x: Any, w: Any, precision: str) -> Tensor:
    """The op, with the arithmetic that is asked for as an attribute: a part of every plan's key. Only float32 has a choice."""
    plain = precision == "fp32" or as_tensor(x).dtype != "float32"
    return _matmul(x, w) if plain else _matmul(x, w, precision=precision)  # type: ignore[no-any-return]


def _transposed(t: Any) -> bool:
    """Whether t is another tensor with its last two axes swapped, perhaps rounded since."""
    t = t.inputs[0] if t.op is not None and t.op.name == "cast" else t
    order = t.attrs["order"] if t.op is not None and t.op.name == "permute" else ()
    return order[-2:] == (t.ndim - 1, t.ndim - 2)


@_matmul.deflaunch
def _(device: Any, operands: Any, *, precision: str = "fp32") -> Any:
    from ..engine.codegen import Stage

    x, w = operands
    lead = np.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    (m, k), n, batch = x.shape[-2:], w.shape[-1], math.prod(lead)
    if x.dtype != w.dtype:
        return None
    defines = {
        "M": m, "N": n, "K": k, "X_M": x.strides[-2], "X_K": x.strides[-1], "W_K": w.strides[-2], "W_N": w.strides[-1],
        "X_BATCH(b)": _batch_offset(lead, x), "W_BATCH(b)": _batch_offset(lead, w),
    }
    narrow = NARROW.get(x.dtype, "")  # their products are exact in float32, so tensor cores give the arithmetic of the dtype
    note = f"fp32; {precision} was asked for" if precision != "fp32" else ""
    precision = narrow or precision
    if device.kind != "cpu":
        return matmul_gpu_geometry.stages(device, defines, operands, batch, precision, note)
    g = matmul_geometry.geometry(device, batch, m, n, k, x.strides[-2:], w.strides[-2:], x.dtype)
    defines.update(g["defines"])
    lanes = defines.pop("VW")
    turn, scratch = _turn(defines, x, w, batch, lanes)
    return [*turn, Stage(g["kernel"], defines, g["grid"], g["group"], domain=(batch, m, n), lanes=lanes, scratch=scratch, note=note)]


def _turn(defines: dict[str, Any], x: Any, w: Any, batch: int, lanes: int) -> tuple[list[Any], dict[str, int]]:
    """The stage that copies the rows' operand with k along lines, if the geometry has it so, and its temporary memory."""
    from ..engine.codegen import Stage

    if "PITCH" not in defines:
        return [], {}
    rows, operand, stride = (defines["N"], w, defines["W_K"]) if defines["SWAP"] else (defines["M"], x, defines["X_K"])
    defines["COPIES"] = copies = matmul_tensor_geometry.copies(operand, batch)
    scratch = {"turned": copies * rows * defines["PITCH"] * matmul_geometry.SIZE[x.dtype]}
    i, k = (matmul_geometry.COPY_I, defines["K"]) if stride == 1 else (matmul_geometry.TURN_I, matmul_geometry.TURN_K)
    own = {**defines, "VARIANT": "TURN", "TURN_I": i, "TURN_K": k}
    grid = math.ceil(rows / i), math.ceil(defines["K"] / k), copies
    return [Stage("matmul_turn", own, grid, (1, 1, 1), lanes=lanes, scratch=scratch, final=False)], scratch


def _batch_offset(lead: tuple[int, ...], operand: Any) -> str:
    """C text: element offset of batch number b, with broadcast axes standing still."""
    from ..engine.index import Flat, const, var

    shape, strides = operand.shape[:-2], operand.strides[:-2]
    skip = len(lead) - len(shape)
    coordinates = Flat(var("(b)", math.prod(lead))).unflatten(lead)[skip:]
    total = const(0)
    for c, n, s in zip(coordinates, shape, strides, strict=True):
        total = total + (c * s if n > 1 else const(0))
    return f"(size_t)({total.c()})"


def matmul(x: Any, w: Any, *, alpha: float = 1.0, beta: float = 0.0, c: Any = None, precision: str | None = None) -> Tensor:
    """y = α · x @ w + β · c, by NumPy's rules: leading axes broadcast, a vector is a row on the left, a column on the right.

    Transposed operands (`x.mT`) are read in place. α, β and c melt into the product's epilogue; with β = 0, c is not read.
    `precision` is the arithmetic that is asked for (clnet.precision lists them), by default that of the block or of all.
    Raises ShapeError when the inner sizes differ or an operand is a scalar, ConfigError for an unknown precision.
    """
    arithmetic = current_precision() if precision is None else checked(precision, "matmul")
    x, w, alpha, beta = as_tensor(x), as_tensor(w), arguments.real("matmul", "alpha", alpha), arguments.real("matmul", "beta", beta)
    if x.ndim == 0 or w.ndim == 0:
        raise ShapeError(f"matmul: expected operands with at least one axis; got shapes {x.shape} and {w.shape}; multiply with *.")
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
        raise ShapeError(f"matmul: expected a c that broadcasts to the product's shape {y.shape}; got {as_tensor(c).shape}.")
    return total


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """y = x · Wᵀ + b, for x (…, in), W (out, in), b (out). Raises ShapeError."""
    weight = as_tensor(weight)
    y = matmul(x, transpose(weight))
    if bias is None:
        return y
    bias = as_tensor(bias)
    if bias.shape != weight.shape[-2:-1]:
        raise ShapeError(f"linear: expected a bias of shape {weight.shape[-2:-1]}, one per row of the weight; got {bias.shape}.")
    return y + bias


def einsum(equation: str, *operands: Any) -> Tensor:
    """Einstein summation of one or two operands: letters shared by both and kept are batch axes, shared and dropped are summed.

    Raises ShapeError for more operands, unknown letters or sizes that differ. (More operands: chain two-operand calls.)
    """
    if not isinstance(equation, str):
        raise ShapeError(f"einsum: expected an equation as 'ij,jk->ik' first; got {arguments.shown(equation)}.")
    left, _, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands) or len(terms) not in (1, 2) or "->" not in equation:
        raise ShapeError(f"einsum: expected one or two operands and an explicit result as in 'ij,jk->ik'; got {equation!r} with {len(operands)}.")
    if unknown := [c for c in out if c not in left or out.count(c) > 1 or not c.isalpha()]:
        raise ShapeError(f"einsum: expected a result of distinct letters of {left!r}; got {unknown[0]!r} in {equation!r}; expand() repeats along a new axis.")
    sizes: dict[str, int] = {}
    tensors = []
    for term, x in zip(terms, map(as_tensor, operands), strict=True):
        if len(term) != x.ndim or len(set(term)) != len(term):
            raise ShapeError(f"einsum: expected one distinct letter per axis of {x.shape}; got {term!r} in {equation!r}.")
        for letter, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(letter, n) != n:
                raise ShapeError(f"einsum: axis {letter!r} is {sizes[letter]} and {n} in {equation!r}.")
        gone = [a for a, letter in enumerate(term) if letter not in out and all(letter not in t for t in terms if t is not term)]
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
        shape = [*(sizes[c] for c in batch), math.prod(sizes[c] for c in groups[0]), math.prod(sizes[c] for c in groups[1])]
        return reshape(permute(t, [term.index(c) for c in order]), shape)

    y = matmul(form(a, x, m, summed), form(b, w, summed, n))
    letters = [*batch, *m, *n]
    return permute(reshape(y, [sizes[c] for c in letters]), [letters.index(c) for c in out])
