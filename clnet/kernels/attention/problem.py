"""Attention and its gradient as what is to be computed: operands, sizes, the arithmetic that was asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...core.size import common_divisor, varies
from ...core.spec import Spec
from ..matmul.problem import NARROW
from ..operand import Operand
from ..variant import Refusal

AXES = {"q": ("N", "H", "T", "D"), "k": ("N", "H", "S", "D"), "v": ("N", "H", "S", "E"), "mask": ("N", "H", "T", "S"),
        "g": ("N", "H", "T", "E"), "lse": ("N", "T", "H"), "delta": ("N", "T", "H"), "offsets": ("N",),
        "key_offsets": ("N",)}
PREFIX = {"q": "Q", "k": "K", "v": "V", "mask": "MASK", "g": "G", "lse": "L", "delta": "A", "offsets": "QO",
          "key_offsets": "KO"}
# Macros of every kernel of attention that may be numbers known at the launch alone.
FREE = frozenset(("QUERIES", "KEYS", "ALL_QUERIES", "ALL_KEYS", "SEQUENCES", "LSE_AT", "DK_AT", "DV_AT",
                  *(f"{PREFIX[name]}_{axis}" for name, axes in AXES.items() for axis in axes)))


class Pass(NamedTuple):
    """A launch on GPUs, where a work-group owns some of `length` rows (queries or keys) of one of `heads` heads."""

    name: str
    length: int
    heads: int
    macros: dict[str, int]


@dataclass(frozen=True)
class Attention:
    """softmax(scale · q kᵀ + mask) v per head, or with g, lse and delta its gradient: queries q (N, H, T, D), keys k
    (N, HK, S, D), values v (N, HK, S, E).

    offsets, key_offsets   of packed sequences (N = 1 then): where those of the queries and of the keys begin and end
    asked     the arithmetic that a user asked for, of float32 operands ("fp32": IEEE)
    narrow    dtype of the result where it is stored in 16 bits, else ""
    """

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    causal: bool
    scale: float
    asked: str
    narrow: str
    g: Operand | None = None
    lse: Operand | None = None
    delta: Operand | None = None
    offsets: Operand | None = None
    key_offsets: Operand | None = None

    n = property(lambda self: self.q.shape[0])
    h = property(lambda self: self.q.shape[1])
    t = property(lambda self: self.q.shape[2])
    d = property(lambda self: self.q.shape[3])
    hk = property(lambda self: self.k.shape[1])
    s = property(lambda self: self.k.shape[2])
    e = property(lambda self: self.v.shape[3])

    @property
    def operands(self) -> dict[str, Operand]:
        """Those that there are, by name."""
        named = {"g": self.g, "lse": self.lse, "delta": self.delta, "q": self.q, "k": self.k, "v": self.v,
                 "mask": self.mask, "offsets": self.offsets, "key_offsets": self.key_offsets}
        return {name: operand for name, operand in named.items() if operand is not None}

    @property
    def factors(self) -> dict[str, Operand]:
        """The operands that are multiplied."""
        return {name: operand for name, operand in self.operands.items() if name in ("q", "k", "v", "g")}

    @property
    def backward(self) -> bool:
        return self.g is not None

    @property
    def kernel(self) -> str:
        return "backward" if self.backward else "forward"

    @property
    def empty(self) -> bool:
        return not all(math.prod(o.shape) for o in self.operands.values())

    @property
    def arithmetic(self) -> str:
        """That of tensor cores: the one of the dtype where operands are stored in 16 bits."""
        return NARROW.get(self.narrow, self.asked)

    @property
    def note(self) -> str:
        """What plans print where tensor cores do not serve."""
        return f"fp32; {self.asked} was asked for" if self.asked != "fp32" else ""

    @property
    def domain(self) -> tuple[int]:
        """Of the flat result: (y, lse), lse in two parts where it is narrow, or (dq, dk, dv)."""
        queries = self.n * self.h * self.t
        if self.backward:
            return (queries * self.d + self.n * self.s * self.hk * (self.d + self.e),)
        return (queries * (self.e + (2 if self.narrow else 1)),)

    @property
    def macros(self) -> dict[str, Any]:
        """Those of every kernel of attention: sizes, strides, where the parts of the result begin."""
        masked = 0 if self.mask is None else 1 if self.mask.dtype == "bool" else 2
        macros: dict[str, Any] = dict(H=self.h, HK=self.hk, **self._lengths, D=self.d, E=self.e,
                                      CAUSAL=int(self.causal), SCALE=repr(float(self.scale)), MASKED=masked)
        for name, operand in self.operands.items():
            macros |= {f"{PREFIX[name]}_{axis}": stride
                       for axis, stride in zip(AXES[name], operand.strides, strict=True)}
        queries = self.n * self.h * self.t
        if not self.backward:
            return macros | dict(BACKWARD=0, LSE_AT=_place(queries * self.e))
        at = queries * self.d
        return macros | dict(BACKWARD=1, DK_AT=_place(at), DV_AT=_place(at + self.n * self.s * self.hk * self.d))

    @property
    def _lengths(self) -> dict[str, Any]:
        """Of all queries and keys; those of a sequence are found at run time."""
        if self.offsets is None:
            return dict(QUERIES=self.t, KEYS=self.s)
        return dict(ALL_QUERIES=self.t, ALL_KEYS=self.s, SEQUENCES=self.sequences, PACKED=1)

    @property
    def sequences(self) -> int:
        return self.offsets.shape[0] - 1 if self.offsets is not None else 0

    def parts(self, count: int, rows: int) -> int:
        """How many parts of up to `rows` rows there are of so many queries or keys, with some that are empty where
        sequences are packed.
        """
        return -(-count // rows) if self.offsets is None else count // rows + self.sequences + 1

    @property
    def multiples(self) -> dict[str, int]:
        """Macros for lengths, and strides of rows, that vary: what they are multiples of, for all shapes."""
        found = {f"{name}_OF": common_divisor(n) for name, n in (("QUERIES", self.t), ("KEYS", self.s)) if varies(n)}
        return found | {f"{PREFIX[name]}_OF": common_divisor(*o.strides[:3]) for name, o in self.factors.items()
                        if varies(*o.strides[:3])}

    @property
    def passes(self) -> list[Pass]:
        """Launches on GPUs; backward one for the gradient of the queries, one for those of the keys and values."""
        if not self.backward:
            return [Pass("forward", self.t, self.n * self.h, {})]
        return [Pass("queries", self.t, self.n * self.h, dict(GRADIENTS=1)),
                Pass("keys", self.s, self.n * self.hk, dict(GRADIENTS=2))]


def _place(n: int) -> str:
    """n as a number of 64 bits."""
    return f"(ulong){n}" if varies(n) else f"{n}ul"


def plain(p: Attention, widest: int) -> Refusal | None:
    """Why kernels without tensor cores do not serve, if they do not."""
    if any(o.dtype != "float32" for name, o in p.operands.items()
           if "offsets" not in name and (name != "mask" or o.dtype != "bool")):
        return Refusal("float32 only")
    if p.empty:
        return Refusal("no elements")
    return Refusal(f"heads of more than {widest} features") if max(p.d, p.e) > widest else None


def forward(operands: Sequence[Operand], *, causal: bool, scale: float, precision: str = "fp32",
             narrow: str = "") -> Attention:
    q, k, v, *mask = operands
    return Attention(q, k, v, mask[0] if mask else None, causal, scale, precision, narrow)


def gradient(operands: Sequence[Operand], *, causal: bool, scale: float, precision: str = "fp32",
              narrow: str = "") -> Attention:
    g, lse, delta, q, k, v, *mask = operands
    return Attention(q, k, v, mask[0] if mask else None, causal, scale, precision, narrow, g, lse, delta)


def packed(operands: Sequence[Operand], *, causal: bool, scale: float) -> Attention:
    q, k, v = map(_one, operands[:3])
    return Attention(q, k, v, None, causal, scale, "fp32", "", offsets=operands[3], key_offsets=operands[4])


def packed_gradient(operands: Sequence[Operand], *, causal: bool, scale: float) -> Attention:
    g, lse, delta, q, k, v = map(_one, operands[:6])
    return Attention(q, k, v, None, causal, scale, "fp32", "", g, lse, delta, *operands[6:])


def _one(x: Operand) -> Operand:
    """(T, H, features) as heads of one batch: (1, H, T, features); numbers of rows, (T, H), as (1, T, H)."""
    order = (1, 0, 2) if len(x.shape) == 3 else (0, 1)
    shape, strides = ((1, *(x.shape[k] for k in order)), (0, *(x.strides[k] for k in order)))
    return replace(x, spec=Spec(shape, x.dtype), strides=strides)
