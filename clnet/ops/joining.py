"""Joining tensors: concat by placement (each part is computed straight into its place) or as one fused kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core import arguments
from ..core.function import function
from ..core.op import Case, Concatenation
from ..core.size import settled
from ..core.spec import Spec, promote
from ..core.tensor import Tensor, TensorLike, as_tensor, joined
from ..errors import ShapeError
from .view import _crop, reshape

FAMILY = "copy"


def _infer(*specs: Spec, axis: int) -> Spec:
    first = specs[0].shape
    for k, s in enumerate(specs):
        if (len(s.shape) != len(first)
                or any(a != b for i, (a, b) in enumerate(zip(s.shape, first, strict=True)) if i != axis)):
            raise ShapeError(
                f"concat: expected shapes equal but for axis {axis}; got {first} and {s.shape} (part {k}).")
    return Spec((*first[:axis], sum(s.shape[axis] for s in specs), *first[axis + 1 :]),
                promote(*(s.dtype for s in specs)))


def _vjp(g: Tensor, y: Tensor, *parts: Tensor, axis: int) -> tuple[Tensor, ...]:
    out, at = [], 0
    for p in parts:
        start = tuple(at if a == axis else 0 for a in range(p.ndim))
        out.append(_crop(g, start=start, size=p.shape, step=(1,) * p.ndim))
        at += p.shape[axis]
    return tuple(out)


Concatenation("concat", _infer, lambda *xs, axis: np.concatenate(xs, axis), vjp=_vjp, family=FAMILY,
              doc="y = the parts joined along an axis",
              samples=lambda: [Case(((2, 3), (4, 3), (1, 3)), dict(axis=0)), Case(((2, 3), (2, 5)), dict(axis=1)),
                               Case(((2, 3),) * 5, dict(axis=0))])


def concat(parts: Sequence[Any], axis: int = 0) -> Tensor:
    """y = the parts joined along `axis`. Raises ShapeError when other axes differ or there is no part."""
    tensors = _parts("concat", parts)
    return joined(tensors, arguments.axis("concat", axis, tensors[0].ndim))


def _parts(who: str, parts: object) -> list[Tensor]:
    """At least one tensor, from a sequence of them or along the first axis of one."""
    if not isinstance(parts, Iterable) or getattr(parts, "ndim", 1) == 0 or isinstance(parts, (str, dict)):
        raise ShapeError(f"{who}: expected a sequence of tensors; got {arguments.shown(parts)}.")
    tensors = [as_tensor(p) for p in parts]
    if not tensors:
        raise ShapeError(f"{who}: expected at least one tensor; got none.")
    return tensors


def stack(parts: Sequence[Any], axis: int = 0) -> Tensor:
    """y = the parts along a new axis. Raises ShapeError when shapes differ or there is no part."""
    tensors = _parts("stack", parts)
    if any(t.shape != tensors[0].shape for t in tensors):
        raise ShapeError(
            f"stack: expected parts of one shape; got {', '.join(sorted({str(t.shape) for t in tensors}))}.")
    axis = arguments.axis("stack", axis, tensors[0].ndim + 1)
    return concat([reshape(t, (*t.shape[:axis], 1, *t.shape[axis:])) for t in tensors], axis)


def split(x: TensorLike, sizes: int | Sequence[int], axis: int = -1) -> list[Tensor]:
    """x cut along `axis` into parts of the given sizes (an integer: that many equal parts).
    Raises ShapeError where they do not add up to the axis.
    """
    x = as_tensor(x)
    axis = arguments.axis("split", axis, x.ndim)
    if (count := arguments.whole(sizes)) is None:
        sizes = arguments.integers("split", "sizes", sizes, least=0)
    else:
        sizes = count
        if sizes < 1 or x.shape[axis] % sizes:
            raise ShapeError(f"split: expected a number of parts that divides axis {axis} of {x.shape}; got {sizes}.")
        sizes = [x.shape[axis] // sizes] * sizes
    if sum(sizes) != x.shape[axis]:
        raise ShapeError(
            f"split: expected sizes that add up to {x.shape[axis]} (axis {axis} of {x.shape}); got {list(sizes)}.")
    out, at = [], 0
    for n in sizes:
        start = tuple(at if a == axis else 0 for a in range(x.ndim))
        size = tuple(n if a == axis else m for a, m in enumerate(x.shape))
        out.append(_crop(x, start=start, size=size, step=(1,) * x.ndim))
        at += n
    return out


@function(lambda: [Case(((5, 2),), dict(parts=3)), Case(((2, 4),), dict(parts=2, axis=1))])
def chunk(x: TensorLike, parts: int, axis: int = 0) -> list[Tensor]:
    """x cut along `axis` into `parts` of one size, rounded up, the last one what is left, as PyTorch does: where that
    does not come out, there are fewer. Raises ShapeError, ConfigError.
    """
    x, parts = as_tensor(x), arguments.integer("chunk", "parts", parts, 1)
    axis = arguments.axis("chunk", axis, x.ndim)
    n = settled(x.shape[axis], "how many parts there are depends on it")
    size = max(-(-n // parts), 1)
    return split(x, [min(size, n - k) for k in range(0, n, size)] or [0], axis)


@function(lambda: [Case(((2, 3),)), Case(((2, 3),), dict(axis=1))])
def unbind(x: TensorLike, axis: int = 0) -> list[Tensor]:
    """The parts of x along `axis`, without it: the inverse of `stack` (NumPy's unstack). Raises ShapeError."""
    x = as_tensor(x)
    axis = arguments.axis("unbind", axis, x.ndim)
    n, rest = settled(x.shape[axis], "how many parts there are depends on it"), (*x.shape[:axis], *x.shape[axis + 1 :])
    return [reshape(part, rest) for part in (split(x, [1] * n, axis) if n else [])]
