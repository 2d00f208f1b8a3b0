"""Shape and dtype rules: what an op accepts and returns, stated as text that runs ("m k, k n -> m n")."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DTypeError, ShapeError

FLOATS = ("float16", "bfloat16", "float32", "float64")
NARROW = ("float16", "bfloat16")  # storage types: kernels compute them in float32
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTS, *FLOATS)
# What integers can be.
RANGES = {d: (0, (1 << int(d[4:])) - 1) if d[0] == "u" else (-(1 << int(d[3:]) - 1), (1 << int(d[3:]) - 1) - 1)
          for d in INTS} | {"bool": (0, 1)}

# What an op may be given, by the word its declaration uses.
ACCEPTS = {"any": DTYPES, "number": INTS + FLOATS, "float": FLOATS, "single": ("float32",), "int": INTS,
           "bits": ("bool", *INTS), "bool": ("bool",)}


class Spec(NamedTuple):
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """[bytes]"""
        return self.size * np_dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@functools.cache
def np_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a name; bfloat16 is ml_dtypes' one."""
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes  # here, for a process starts sooner without it, and few ask for bfloat16

    return np.dtype(ml_dtypes.bfloat16)


@functools.cache
def _dtype_name(dtype: Any) -> str:
    name = dtype if isinstance(dtype, str) else str(dtype).removeprefix("torch.")  # PyTorch's own have these names
    name = name if name in DTYPES else np.dtype(dtype).name
    if name not in DTYPES:
        raise DTypeError(f"dtype: expected one of {', '.join(DTYPES)}; got {name}; cast it first with numpy's astype.")
    return name


def dtype_name(dtype: Any) -> str:
    """The name of a dtype given as a name, a NumPy dtype or a scalar type. Raises DTypeError."""
    try:
        return _dtype_name(dtype)
    except (TypeError, ValueError):  # what is no dtype, an array say
        raise DTypeError(f"dtype: expected one of {', '.join(DTYPES)}; got {dtype!r}.") from None


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


@functools.cache
def promote(*dtypes: str) -> str:
    """NumPy's promotion (int32 with float32 is float64), with bfloat16 as ml_dtypes has it."""
    try:
        return str(np.result_type(*map(np_dtype, dtypes)).name)
    except TypeError:
        raise DTypeError(f"dtypes {' and '.join(dtypes)} have no common type; cast one of them.") from None


def accept(name: str, kind: str, specs: Sequence[Spec]) -> None:
    """Raises DTypeError unless every spec's dtype is of `kind`."""
    for spec in specs:
        if spec.dtype not in ACCEPTS[kind]:
            raise DTypeError(
                f"{name}: expected {kind} dtypes ({', '.join(ACCEPTS[kind])}); got {spec.dtype}; use cast().")


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(shapes)) == 1:
        return shapes[0]
    rank = max(map(len, shapes), default=0)
    sides = [tuple([n for s in shapes if len(s) > a and (n := s[-1 - a]) != 1]) for a in range(rank)]
    if any(n != side[0] for side in sides for n in side):
        text = " and ".join(map(str, shapes))
        raise ShapeError(
            f"{name}: shapes {text} do not broadcast; align them from the last axis, each pair equal or 1.")
    return tuple([side[0] if side else 1 for side in reversed(sides)])


def einshape(signature: str, name: str, args: Sequence[str]) -> Callable[..., dict[str, Any]]:
    """The axis sizes that `signature` binds for given shapes; errors name the axis.

    "..." stands for any leading axes (broadcast among the operands that have it).
    Returns a function (*specs) -> {axis: size, "...": shape}; `result_shape` reads the right-hand side off it.
    """
    sides = [s.split() for s in signature.split("->")[0].split(",")]

    def bind(*specs: Spec) -> dict[str, Any]:
        sizes: dict[str, Any] = {}
        first: dict[str, tuple[str, tuple[int, ...]]] = {}
        lead: list[tuple[int, ...]] = []
        for arg, axes, spec in zip(args, sides, specs, strict=False):
            named = [a for a in axes if a != "..."]
            extra = len(spec.shape) - len(named)
            if extra < 0 or (extra and "..." not in axes):
                raise ShapeError(
                    f"{name}: {arg} needs axes ({', '.join(axes)}); got shape {spec.shape}; signature: {signature}")
            if "..." in axes:
                lead.append(spec.shape[:extra])
            for axis, n in zip(named, spec.shape[extra:], strict=True):
                if sizes.setdefault(axis, n) != n:
                    known, shape = first[axis]
                    raise ShapeError(
                        f"{name}: axis {axis!r} is {sizes[axis]} in {known}{shape} but {n} in {arg}{spec.shape}; "
                        f"signature: {signature}")
                first.setdefault(axis, (arg, spec.shape))
        sizes["..."] = broadcast_shapes(name, *lead) if lead else ()
        return sizes

    return bind


def result_shape(signature: str, sizes: dict[str, Any]) -> tuple[int, ...]:
    """The shape that the right-hand side of `signature` spells, for bound sizes."""
    shape: list[int] = []
    for axis in signature.split("->")[1].split():
        shape.extend(sizes["..."] if axis == "..." else (sizes[axis],))
    return tuple(shape)
