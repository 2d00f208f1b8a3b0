"""A matrix product as what is to be computed: sizes, where the operands lie, the arithmetic that was asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any, NamedTuple

from ...core.size import common_divisor, typical, varies
from ...core.spec import broadcast_shapes
from ...engine.compile.index import Flat, const, var
from ..operand import Operand
from ..variant import Refusal

# [bytes] of the register that holds an element
SIZE = {"float": 4, "float32": 4, "double": 8, "float64": 8, "float16": 4, "bfloat16": 4}
NARROW = {"bfloat16": "bf16", "float16": "fp16"}  # the arithmetic of tensor cores that is exact for products of these
MIXED = Refusal("operands of different dtypes")
Pair = tuple[int, int]
# Macros of every kernel of products that may be numbers known at the launch alone.
FREE = frozenset(("M", "N", "K", "X_M", "X_K", "W_K", "W_N", "X_BATCH", "W_BATCH"))


class Typical(NamedTuple):
    """A product's numbers, with one for the class of sizes in place of each that varies."""

    batch: int
    m: int
    n: int
    k: int
    x_strides: Pair
    w_strides: Pair


@dataclass(frozen=True)
class Product:
    """y[b, m, n] = Σₖ x[b, m, k] · w[b, k, n], for b of the `lead` axes, along which operands may be broadcast.

    asked   the arithmetic that a user asked for, of float32 operands ("fp32": IEEE)
    """

    x: Operand
    w: Operand
    lead: tuple[int, ...]
    asked: str

    batch = property(lambda self: math.prod(self.lead))
    m = property(lambda self: self.x.shape[-2])
    n = property(lambda self: self.w.shape[-1])
    k = property(lambda self: self.x.shape[-1])
    operands = property(lambda self: (self.x, self.w))

    @property
    def mixed(self) -> bool:
        """Whether the operands are stored differently: one in 16 bits, say, that are widened where they are read."""
        return self.x.dtype != self.w.dtype

    @property
    def dtype(self) -> str:
        return "float32" if self.mixed else self.x.dtype

    @property
    def size(self) -> int:
        """Bytes of the register that holds an element."""
        return SIZE[self.dtype]

    @property
    def narrow(self) -> bool:
        """Whether both operands are stored in the same 16 bits."""
        return self.dtype in NARROW

    @property
    def widened(self) -> tuple[bool, bool]:
        """Which of the operands are stored in 16 bits."""
        return self.x.dtype in NARROW, self.w.dtype in NARROW

    @property
    def arithmetic(self) -> str:
        """That of tensor cores: products of 16 bits are exact in float32, so theirs is the arithmetic of the dtype."""
        return NARROW.get(self.dtype, self.asked)

    @property
    def note(self) -> str:
        """What plans print where tensor cores do not serve."""
        return f"fp32; {self.asked} was asked for" if self.asked != "fp32" else ""

    @property
    def x_strides(self) -> Pair:
        """(along m, along k)"""
        return self.x.strides[-2:]  # type: ignore[return-value]

    @property
    def w_strides(self) -> Pair:
        """(along k, along n)"""
        return self.w.strides[-2:]  # type: ignore[return-value]

    @property
    def varies(self) -> bool:
        """Whether it serves more than one shape."""
        return varies(self.batch, self.m, self.n, self.k, *self.x_strides, *self.w_strides)

    @property
    def typical(self) -> Typical:
        """The numbers to choose by."""
        xs, ws = (tuple(typical(s) + varies(s) for s in pair) for pair in (self.x_strides, self.w_strides))
        return Typical(typical(self.batch), typical(self.m), typical(self.n), typical(self.k), xs, ws)

    @property
    def shape_class(self) -> str:
        return shape_class(*self.typical)

    @cached_property
    def defines(self) -> dict[str, Any]:
        """The macros of every kernel of products: sizes, strides, where the matrices of a batch begin."""
        return {"M": self.m, "N": self.n, "K": self.k, "X_M": self.x_strides[0], "X_K": self.x_strides[1],
                "W_K": self.w_strides[0], "W_N": self.w_strides[1], "X_BATCH(b)": _batch_offset(self.lead, self.x),
                "W_BATCH(b)": _batch_offset(self.lead, self.w)}

    @property
    def multiples(self) -> dict[str, int]:
        """Macros for sizes and strides that vary: what they are multiples of, for all shapes."""
        return multiples(self.defines)


def multiples(defines: dict[str, Any]) -> dict[str, int]:
    """The same of the macros of any product."""
    names = ("M", "N", "K", "X_M", "X_K", "W_K", "W_N")
    return {f"{name}_OF": common_divisor(defines[name]) for name in names if varies(defines[name])}


def product(operands: Sequence[Operand], *, precision: str = "fp32") -> Product | Refusal:
    """The product of two operands (…, m, k) and (…, k, n), of one dtype or float32 and 16 bits."""
    x, w = operands
    if x.dtype != w.dtype and not {x.dtype, w.dtype} <= {"float32", *NARROW}:
        return MIXED
    return Product(x, w, broadcast_shapes("matmul", x.shape[:-2], w.shape[:-2]), precision)


def shape_class(batch: int, m: int, n: int, k: int, x_strides: Sequence[int], w_strides: Sequence[int]) -> str:
    """Products that share tuned numbers: how the operands lie, and sizes to the nearest power of two, as in
    "NT 64x512x1024" (m, k, n).
    """
    form = ("N" if x_strides[1] == 1 else "T") + ("N" if w_strides[1] == 1 else "T")
    sizes = "x".join(str(2 ** round(log2(max(v, 1)))) for v in (m, k, n))
    return f"{form} {sizes}" + (f" b{2 ** round(log2(batch))}" if batch > 1 else "")


def copies(operand: Operand, batch: int) -> int:
    """How many matrices an operand holds: one that is broadcast is packed once."""
    return 1 if math.prod(operand.shape[:-2]) == 1 else batch


def _batch_offset(lead: tuple[int, ...], operand: Operand) -> str:
    """C text: element offset of batch number b, with broadcast axes standing still."""
    shape, strides = operand.shape[:-2], operand.strides[:-2]
    skip = len(lead) - len(shape)
    coordinates = Flat(var("(b)", math.prod(lead))).unflatten(lead)[skip:]
    total = const(0)
    for c, n, s in zip(coordinates, shape, strides, strict=True):
        total = total + (c * s if n > 1 else const(0))
    return f"(size_t)({total.c()})"
