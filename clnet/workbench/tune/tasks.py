"""What `clnet tune` works on: calls that stand for a shape class,
with the reference of each and the numbers that may change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import ops as F
from ...core.autodiff import gradients
from ...core.spec import is_float, np_dtype
from ...core.tensor import Tensor
from ...engine.device.devices import Device
from ...errors import ConfigError
from ...kernels.conv import conv as conv_geometry
from ...kernels.conv import conv_winograd
from ...kernels.conv.problem import shape_class
from ...kernels.matmul import matmul as matmul_geometry
from ...kernels.matmul import matmul_gpu as matmul_gpu_geometry
from ...kernels.matmul import problem as matmul_problem


@dataclass(frozen=True)
class Task:
    """One call. `entry` is where its numbers stand in a table: (op, shape class); `shapes` are those of its inputs, and
    `dtypes` theirs, float32 where none are said.
    """

    label: str
    entry: tuple[str, str]
    call: Callable[..., Any]
    reference: Callable[..., Any] | None  # None: the float64 engine
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = ()

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Inputs: N(0, 1), and 0 where they are whole numbers."""
        rng = np.random.default_rng(0)
        return [rng.standard_normal(s, np.float32).astype(np_dtype(dtype)) if is_float(dtype) else
                np.zeros(s, np_dtype(dtype))
                for s, dtype in zip(self.shapes, self.dtypes or ("float32",) * len(self.shapes), strict=True)]


OPS = ("matmul", "conv", "winograd")
# One of each kind that networks are made of.
FIRST = ("NN 512x512x512", "64->64 56x56 b16", "TN 512x784x512", "NT 512x512x512", "NN 64x784x512", "TN 64x784x512",
         "64->64 56x56 b16 3x3 s2", "NN 1152x1152x1152", "32->64 28x28 b64")
SPELLED = re.compile(r"(NN|NT|TN) (\d+)x(\d+)x(\d+)")  # a product: form, m, k, n
SQUARES = (64, 128, 256, 512, 1152, 2048)
# n, c, o, side
CONVOLUTIONS = ((16, 64, 64, 56), (16, 128, 128, 28), (16, 256, 256, 14), (64, 32, 64, 28), (32, 16, 16, 32))
FLAT = ((64, 784, 512), (64, 512, 512), (512, 784, 512), (2048, 128, 512))  # m, k, n
# What rules are held against, too: few rows, short and long sums, sizes that are multiples of nothing.
MORE_PRODUCTS = ((32, 32, 32), (100, 10, 64), (24, 300, 300), (32, 512, 512), (300, 300, 300), (96, 1024, 96),
                 (784, 64, 512), (1024, 256, 768), (4096, 64, 64), (512, 2048, 512))
MORE_CONVOLUTIONS = {  # n, c, o, side, size, stride
    "winograd": ((4, 16, 16, 64, 3, 1), (64, 16, 32, 16, 3, 1), (8, 32, 32, 56, 3, 1), (16, 48, 48, 28, 3, 1),
                 (2, 64, 64, 112, 3, 1), (32, 64, 128, 14, 3, 1), (16, 96, 96, 14, 3, 1), (1, 128, 128, 56, 3, 1),
                 (8, 128, 256, 14, 3, 1), (32, 160, 160, 7, 3, 1), (1, 256, 256, 28, 3, 1), (16, 512, 512, 7, 3, 1),
                 (4, 20, 50, 31, 3, 1), (64, 24, 24, 12, 3, 1), (2, 512, 256, 14, 3, 1)),
    "conv": ((16, 3, 32, 64, 3, 1), (16, 3, 64, 112, 7, 2), (32, 1, 16, 28, 5, 1), (16, 16, 32, 28, 5, 1),
             (8, 32, 64, 28, 5, 2), (16, 64, 64, 28, 1, 1), (16, 64, 256, 28, 1, 1), (16, 256, 64, 28, 1, 1),
             (16, 256, 512, 14, 1, 2), (8, 512, 128, 14, 1, 1), (32, 12, 24, 20, 3, 1), (4, 64, 64, 28, 7, 1),
             (8, 20, 50, 31, 3, 2), (64, 8, 16, 32, 3, 1), (2, 128, 256, 56, 3, 2))}


def spread(device: Device) -> list[tuple[str, Task]]:
    """(op, call) of all that a device searches: those of FIRST, which a minute reaches, then the others."""
    ops = [op for op in OPS if device.is_cpu or op == "matmul"]
    every = [(op, task) for op in ops for task in tasks(op)]
    return sorted(every, key=lambda found: FIRST.index(found[1].label) if found[1].label in FIRST else len(FIRST))


def tasks(op: str) -> list[Task]:
    """The calls of an op, smallest first."""
    return {"matmul": _products, "conv": lambda: _convolutions("conv", 2),
            "winograd": lambda: _convolutions("winograd", 1)}[op]()


def held(op: str) -> list[Task]:
    """The calls that the rules are held against: those of the op and more, 60 products, 20 convolutions of a kind."""
    more = ([_product(form, *sizes) for sizes in MORE_PRODUCTS for form in ("NN", "NT", "TN")] if op == "matmul"
            else [_convolution(op, *sizes) for sizes in MORE_CONVOLUTIONS[op]])
    return [*tasks(op), *more]


def wanted(op: str, only: str) -> list[Task]:
    """The calls of an op whose name contains `only`;
    or the one product that it spells, as "TN 768x8192x3072" does (m, k, n).
    """
    found = [t for t in tasks(op) if only.lower() in t.label.lower()]
    spelled = SPELLED.fullmatch(only) if op == "matmul" else None
    return found or ([_product(spelled[1], *map(int, spelled.groups()[1:]))] if spelled else [])


def _products() -> list[Task]:
    return [_product(form, *sizes) for sizes in [*((s, s, s) for s in SQUARES), *FLAT] for form in ("NN", "NT", "TN")]


def _product(form: str, m: int, k: int, n: int) -> Task:
    forms: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "NN": (lambda x, w: F.matmul(x, w), lambda x, w: x @ w),
        "NT": (lambda x, w: F.matmul(x, w.mT), lambda x, w: x @ w.T),
        "TN": (lambda x, w: F.matmul(x.mT, w), lambda x, w: x.T @ w)}
    call, reference = forms[form]
    shapes = {"NN": ((m, k), (k, n)), "NT": ((m, k), (n, k)), "TN": ((k, m), (k, n))}[form]
    entry = matmul_problem.shape_class(1, m, n, k, *strides(form, m, k, n))
    return Task(f"{form} {m}x{k}x{n}", ("matmul", entry), call, reference, shapes)


def strides(form: str, m: int, k: int, n: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Of the operands of a product: N, row by row; T, column by column."""
    return {"NN": ((k, 1), (n, 1)), "NT": ((k, 1), (1, k)), "TN": ((1, m), (n, 1))}[form]


def _convolutions(op: str, stride: int) -> list[Task]:
    """3x3 forward and both gradients: with stride 2 by sums over taps, with stride 1 by Winograd's tiles."""
    return [_convolution(op, *sizes, 3, stride) for sizes in CONVOLUTIONS]


def _convolution(op: str, n: int, c: int, o: int, side: int, size: int, stride: int) -> Task:
    def call(x: Tensor, w: Tensor, g: Tensor) -> Any:
        y = F.conv(x, w, stride=stride, padding=size // 2)
        return F.concat([t.reshape(-1) for t in (y, *gradients(y, [x, w], g))])

    out = -(-side // stride)
    label = f"{c}->{o} {side}x{side} b{n}" + (f" {size}x{size} s{stride}" if (size, stride) != (3, 1) else "")
    return Task(label, (op, shape_class(c, o, (out, out))), call, None,
                ((n, c, side, side), (o, c, size, size), (n, o, out, out)))


def space(op: str, device: Device) -> dict[str, Sequence[Any]]:
    """Tunable -> the values that are tried. Raises ConfigError where a device's geometry has none."""
    if device.is_gpu and op == "matmul":
        return matmul_gpu_geometry.space(device)
    if not device.is_cpu:
        raise ConfigError(
            f"tune: expected a CPU, or --op matmul; got {op} on {device}; "
            "other tables of GPUs are made by timing all their tiles.")
    return {"matmul": matmul_geometry.SPACE, "conv": conv_geometry.SPACE, "winograd": conv_winograd.SPACE}[op]
