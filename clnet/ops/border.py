"""Padding by more than one number: what lies beyond the border is made of what lies within."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import arguments
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ShapeError
from .joining import concat
from .view import expand, flip, pad

MODES = ("constant", "reflect", "replicate", "circular")


def pad_with(x: TensorLike, padding: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0) -> Tensor:
    """y = x with (low, high) elements more at both ends of each of its last axes, axis by axis.

    constant    `value`
    reflect     x mirrored at its first and last element, which are not repeated
    replicate   the first and the last element
    circular    x again from its other end
    Raises ShapeError for amounts that are negative (crop with slices) and where x has not enough elements to mirror or
    repeat, ConfigError for another mode.
    """
    x = as_tensor(x)
    arguments.choice("pad_with", "mode", mode, MODES)
    given = [arguments.integers("pad_with", "(low, high)", p, 2, 0, way="; crop with slices")
             for p in arguments.pairs("pad_with", "padding", padding)]
    if len(given) > x.ndim:
        raise ShapeError(f"pad_with: expected at most {x.ndim} pairs for shape {x.shape}; got {len(given)}.")
    pairs = [(0, 0)] * (x.ndim - len(given)) + given
    if mode == "constant":
        return pad(x, [a for a, _ in pairs], [b for _, b in pairs], value=value)
    for axis, (low, high) in enumerate(pairs):
        if low or high:
            x = _extended(x, axis, low, high, mode)
    return x


def _extended(x: Tensor, axis: int, low: int, high: int, mode: str) -> Tensor:
    n = x.shape[axis]
    most = {"reflect": n - 1, "replicate": max(low, high) if n else 0, "circular": n}[mode]
    if max(low, high) > most:
        raise ShapeError(
            f"pad_with: expected at most {most} elements beyond an axis of {n} in mode {mode!r}; got ({low}, {high}).")

    def part(start: int, stop: int) -> Tensor:
        return x[(slice(None),) * axis + (slice(start, stop),)]

    def repeated(edge: Tensor, count: int) -> Tensor:
        return expand(edge, (*edge.shape[:axis], count, *edge.shape[axis + 1 :]))

    before, after = {
        "reflect": lambda: (flip(part(1, low + 1), axis), flip(part(n - 1 - high, n - 1), axis)),
        "replicate": lambda: (repeated(part(0, 1), low), repeated(part(n - 1, n), high)),
        "circular": lambda: (part(n - low, n), part(0, high)),
    }[mode]()
    return concat([t for t in (before, x, after) if t.shape[axis]], axis)
