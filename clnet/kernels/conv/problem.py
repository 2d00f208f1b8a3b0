"""What the variants of convolutions are asked about: one frozen value, made from the operands and attributes of an op.

Sizes in elements; triples are (z, y, x), with 1 (0 for a padding) where there are fewer axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, log2, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.size import typical, varies
from ..dealing import PAIRED
from ..grid import up, vector_lanes
from ..operand import Operand
from ..tuning import numbers
from ..variant import CPUS_ONLY, GPUS_ONLY, Refusal

if TYPE_CHECKING:
    from ...engine.device.devices import Device

Triple = tuple[int, int, int]
Macros = dict[str, Any]
FREE = frozenset("N")  # what may vary: the number of images
FREE_GPU = FREE | {"SIZE", "PARTIAL", "PART", "LINES"}  # and what comes of it: temporary memory, and its parts
TAPS = 128  # of a weight gradient: the kernels' loops over them are unrolled


@dataclass(frozen=True)
class Convolution:
    """result[n, o, p] = Σ over c, k of weight[o, c, k] · data[n, c, p · stride + k · dilation − low]

    `transposed`: its adjoint in the data, from a gradient (here `data`) to what the convolution read (here `result`).
    A weight gradient is the adjoint in the weight of the convolution that has these fields.

    n, groups     images; groups of channels        c, o      channels a group of data and of result
    data, result  positions along each axis         size      of the kernel
    pointwise     whether it is 1x1 without steps or border, forward
    """

    n: int
    groups: int
    c: int
    o: int
    data: Triple
    result: Triple
    size: Triple
    stride: Triple
    low: Triple
    dilation: Triple
    transposed: bool
    dtype: str
    precision: str
    pointwise: bool = False

    # --- what is read where
    @cached_property
    def step(self) -> Triple:
        """Positions of the data between those that two results of a phase, next to each other, read."""
        return (1, 1, 1) if self.transposed else self.stride

    @cached_property
    def out(self) -> Triple:
        """Phases of the result: positions that are a multiple of this apart read alike."""
        return self.stride if self.transposed else (1, 1, 1)

    @cached_property
    def phases(self) -> list[list[Triple | None]]:
        """What each tap of each phase reads, relative to its result; None where a tap falls between two steps."""
        found: list[list[Triple | None]] = []
        for phase in itertools.product(*map(range, self.out)):
            offsets = itertools.product(*(self._along(axis, at) for axis, at in enumerate(phase)))
            found.append([(z, y, x) if z is not None and y is not None and x is not None else None
                          for z, y, x in offsets])
        return found

    def _along(self, axis: int, phase: int) -> list[int | None]:
        """The same of one axis."""
        low, step, apart = self.low[axis], self.dilation[axis], self.stride[axis]
        if not self.transposed:
            return [i * step - low for i in range(self.size[axis])]
        at = [phase + low - i * step for i in range(self.size[axis])]
        return [v // apart if v % apart == 0 else None for v in at]

    @cached_property
    def reads(self) -> list[Triple]:
        """The taps of all phases that read something."""
        return [t for taps in self.phases for t in taps if t is not None]

    @cached_property
    def taps(self) -> list[int]:
        """How many they are, by phase."""
        return [sum(t is not None for t in taps) for taps in self.phases]

    @cached_property
    def least(self) -> Triple:
        """The least offset of a tap along each axis."""
        return three(min(t[a] for t in self.reads) for a in range(3))

    @cached_property
    def span(self) -> Triple:
        """How many offsets taps reach over along each axis."""
        return three(max(t[a] for t in self.reads) - self.least[a] + 1 for a in range(3))

    # --- sizes
    @property
    def k(self) -> int:
        """Taps of the kernel."""
        return prod(self.size)

    @property
    def typical(self) -> Convolution:
        """What to choose tiles for: itself, or of so many images as one of its class has."""
        return replace(self, n=typical(self.n)) if varies(self.n) else self

    @property
    def layouts(self) -> list[Convolution]:
        """Itself, and of one dimension as a column, too: the same elements in the same order, of which a block takes
        as many as fit, where a row may be too long.
        """
        if any(t[:2] != (1, 1) for t in (self.data, self.result, self.size)):
            return [self]

        def down(of: Triple) -> Triple:
            return 1, of[2], 1

        return [self, replace(self, data=down(self.data), result=down(self.result), size=down(self.size),
                              stride=down(self.stride), low=(0, self.low[2], 0), dilation=down(self.dilation))]

    @property
    def domain(self) -> tuple[int, int, int]:
        """(images, channels, positions) of the result."""
        return self.n, self.groups * self.o, prod(self.result)

    @property
    def weights(self) -> int:
        """Elements of the weight."""
        return self.groups * self.o * self.c * self.k

    @property
    def down(self) -> int:
        """Rows of a phase of the result."""
        return ceil(self.result[1] / self.out[1])

    @property
    def column(self) -> bool:
        """Whether rows are of one element each."""
        return self.data[2] == self.result[2] == self.size[2] == 1

    @property
    def flat(self) -> bool:
        """Whether it is of two dimensions, or of one."""
        return self.data[0] == self.result[0] == self.size[0] == 1

    @property
    def itemsize(self) -> int:
        """[bytes] of an element in the kernels, which compute in 32 bits at least."""
        return 8 if self.dtype == "float64" else 4

    @cached_property
    def shape_class(self) -> str:
        return shape_class(self.c, self.o, self.result)

    # --- a private copy of the data that j rows of results read
    def rows(self, j: int) -> int:
        return (j - 1) * self.step[1] + self.span[1]

    @cached_property
    def pitch(self) -> int:
        return (ceil(self.result[2] / self.out[2]) - 1) * self.step[2] + self.span[2]

    def plane(self, j: int) -> int:
        """Elements of one channel of it."""
        return self.span[0] * self.rows(j) * self.pitch

    # --- macros
    @property
    def sizes(self) -> Macros:
        return {"N": self.n, "C": self.c, "O": self.o}

    def forward(self, device: Device) -> Macros:
        """The operands of conv and of conv_data_gradient."""
        c, o, k = self.c, self.o, self.k
        g, row, column = (c * o * k, k, o * k) if self.transposed else (o * c * k, c * k, k)
        return {"DATA": "g" if self.transposed else "x", "WEIGHT": "w", "GROUPS": self.groups, **self.sizes,
                "USE_FMA": int(device.has_fma), "W_G": g, "W_O": row, "W_C": column, "W_K": 1}

    def gradient(self, device: Device) -> Macros:
        """The operands of conv_weight_gradient."""
        return {"DATA": "x", "GRAD": "g", "GROUPS": self.groups, **self.sizes, "USE_FMA": int(device.has_fma)}

    def tables(self, j: int) -> Macros:
        """Sizes and lists of taps, with their places in the private copy for j rows."""
        z, y, x = self.least
        places = [((t[0] - z) * self.rows(j) + t[1] - y) * self.pitch + t[2] - x for t in self.reads]
        source = [k for taps in self.phases for k, t in enumerate(taps) if t is not None]
        named: dict[str, Sequence[object]] = {
            "S": self.data, "R": self.result, "OUT_": self.out, "IN_": self.step,
            "MIN_": [f"({v})" for v in self.least]}
        lists: dict[str, Iterable[int]] = {
            "TAPS": places, "FIRST": itertools.accumulate(self.taps, initial=0), "SOURCE": source,
            **{"OFF_" + axis: [t[a] for t in self.reads] for a, axis in enumerate("ZYX")}}
        return {**{name + axis: v for name, values in named.items() for axis, v in zip("ZYX", values, strict=True)},
                **{name: text(values) for name, values in lists.items()},
                "T_ALL": len(places), "JB": j, "ZP": self.span[0], "ROWS": self.rows(j), "PITCH": self.pitch}


def convolution(operands: Sequence[Operand], *, stride: Sequence[int], low: Sequence[int], high: Sequence[int],
                dilation: Sequence[int], groups: int, size: Sequence[int] | None = None,
                precision: str = "fp32") -> Convolution | Refusal:
    """What conv (no `size`) or conv_data_gradient (`size`: positions of its result) computes from (data, weight)."""
    x, w = operands
    kernel, positions = w.shape[2:], x.shape[2:]
    if why := _refused(x, w):
        return why
    o, c = w.shape[0] // groups, w.shape[1]
    if size is not None:
        return Convolution(x.shape[0], groups, o, c, three(positions), three(size), three(kernel), three(stride),
                           three(low, 0), three(dilation), True, x.dtype, precision)
    result = three((s + a + b - d * (k - 1) - 1) // t + 1
                   for s, a, b, d, k, t in zip(positions, low, high, dilation, kernel, stride, strict=True))
    return Convolution(x.shape[0], groups, c, o, three(positions), result, three(kernel), three(stride),
                       three(low, 0), three(dilation), False, x.dtype, precision,
                       prod(kernel) == 1 and set(stride) == {1} and not any((*low, *high)))


def by_product(p: Convolution, device: Device) -> Refusal | None:
    """A pointwise convolution is a product of each image with the weights, whose vectors are of pixels: not where many
    lanes of the last would be empty, several images have use of weights that are packed once, and cores enough to do.
    """
    if not p.pointwise:
        return None
    pixels, lanes, cores = prod(p.result), vector_lanes(device, p.dtype), device.compute_units
    if device.is_cpu and p.dtype in WIDE and not varies(p.n, pixels) and p.n > 1:
        t = numbers(device, "conv cpu", p.shape_class)
        much = min(p.o, p.c) >= t["deep_channels"] and p.n * p.groups * p.o * p.c * pixels >= cores * t["each"]
        if much and pixels <= t["filled"][cores > PAIRED] * up(pixels, lanes):
            return None
    return Refusal("1x1 without steps or border: it is a product of matrices")


def weight_gradient(operands: Sequence[Operand], *, size: Sequence[int], stride: Sequence[int], low: Sequence[int],
                    high: Sequence[int], dilation: Sequence[int], groups: int,
                    precision: str = "fp32") -> Convolution | Refusal:
    """The convolution whose weight gradient conv_weight_gradient computes from (gradient of the result, data)."""
    g, x = operands
    if why := _refused(g, x):
        return why
    if prod(size) > TAPS:
        return Refusal(f"more than {TAPS} taps")
    return Convolution(x.shape[0], groups, x.shape[1] // groups, g.shape[1] // groups, three(x.shape[2:]),
                       three(g.shape[2:]), three(size), three(stride), three(low, 0), three(dilation), False,
                       x.dtype, precision)


def _refused(a: Operand, b: Operand) -> Refusal | None:
    if a.dtype != b.dtype:
        return Refusal(f"operands of two dtypes: {a.dtype} and {b.dtype}")
    return None if prod(a.shape) and prod(b.shape) else Refusal("an operand is empty")


def shape_class(c: int, o: int, result: Sequence[int]) -> str:
    """Convolutions that share tuned numbers:
    channels of data and result and positions, to the nearest power of two, as in "64>64 1024".
    """
    c, o, positions = (2 ** round(log2(max(v, 1))) for v in (c, o, prod(result)))
    return f"{c}>{o} {positions}"


# --- what variants of a kind of device share
WIDE = ("float32", "float64")
WIDE_ONLY = Refusal("float32 and float64 only")


class Vector(NamedTuple):
    """Vectors of a CPU: so many lanes of so many bytes."""

    lanes: int
    itemsize: int

    @property
    def registers(self) -> int:
        return 32 if self.lanes * self.itemsize >= 64 else 16


def on_cpu(p: Convolution, device: Device) -> Vector | Refusal:
    """The vectors of a CPU, for a dtype that it computes in."""
    if not device.is_cpu:
        return CPUS_ONLY
    if p.dtype not in WIDE:
        return WIDE_ONLY
    return Vector(vector_lanes(device, p.dtype), p.itemsize)


def not_on_gpu(p: Convolution, device: Device) -> Refusal | None:
    """Why kernels for any GPU do not serve."""
    if not device.is_gpu:
        return GPUS_ONLY
    return None if p.dtype in WIDE else WIDE_ONLY


def three(values: Iterable[int], fill: int = 1) -> Triple:
    """(z, y, x), with `fill` for missing leading axes."""
    given = tuple(values)
    z, y, x = (fill,) * (3 - len(given)) + given
    return z, y, x


def text(values: Iterable[int]) -> str:
    """A list in C."""
    return ", ".join(map(str, values))
