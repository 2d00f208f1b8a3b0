"""Where an axis of an image that is resized is read, for the formulas (ops.resize) and the kernel (resample.cl)."""

from __future__ import annotations

from ..core.size import divides, varies


def places(rule: str, n: int, m: int) -> tuple[int, int, int]:
    """(a, b, c) with t = (a i + b) / c, the place that element i of m reads from n by a rule of ops.resize."""
    if rule == "linear":
        return 2 * n, n - m, 2 * m
    if rule == "corners":
        return (n - 1, 0, m - 1) if m > 1 and n > 1 else (0, 0, 1)
    return n, 0, m


def _reach(rule: str, n: int, m: int) -> int:
    """How many neighbours y[i] reads from ⌊t⌋ on."""
    known = {"nearest": 1, "linear": 2, "corners": 2}.get(rule)
    if known is None and varies(n, m):  # the most that there can be: what has no weight is not read
        return n // m if divides(m, n) else -(-n // m) + 1
    return known or max(-(-(i + 1) * n // m) - i * n // m for i in range(m))


def band(rule: str, n: int, m: int, adjoint: bool) -> tuple[int, int, int, int]:
    """(a, b, c, taps): result o sums over ⌊(a o + b) / c⌋ + k for k < taps."""
    (a, b, c), k = places(rule, n, m), _reach(rule, n, m)
    if not adjoint:
        return a, b, c, k
    if a == 0:
        return 0, 0, 1, m
    # ⌊(a i + b) / c⌋ lies in [h − k + 1, h] for the i from ⌈(c (h − k + 1) − b) / a⌉ on, at most so many.
    return c, c * (1 - k) - b + a - 1, a, -(-c * k // a)
