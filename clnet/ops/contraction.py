"""Einstein sums: letters name axes; what all other products of tensors are."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Sequence
from typing import Any

from ..core import arguments
from ..core.function import function
from ..core.op import Case
from ..core.size import number
from ..core.spec import is_float, promote
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ShapeError
from .arranging import diagonal, roll
from .matmul import matmul
from .pointwise import cast
from .reduce import sum
from .view import permute, reshape

FAMILY = "matmul"
Part = tuple[str, Tensor]  # an operand and its term, a letter an axis


@function(lambda: [Case(((3, 4), (4, 2)), dict(equation="ij,jk->ik")),
                   Case(((3, 3, 2), (2, 4), (3,)), dict(equation="iij,jk,i")),
                   Case(((2, 3, 4), (3,), (4, 5)), dict(equation="...j,i,jk->...k"))])
def einsum(equation: str, *operands: Any) -> Tensor:
    """y[out] = Σ Π operands, over the letters that `out` lacks: "ij,jk->ik" is a product of matrices.

    A letter twice in a term is its diagonal ("ii" a trace); "..." stands for further axes, which broadcast, and are
    summed where the result has no "..."; without "->" the result has "..." and the letters that are there once, sorted,
    as in NumPy. Letters of one term alone are summed first; more than two operands are contracted pair by pair, in the
    order that opt_einsum finds.
    Raises ShapeError for terms and letters that do not fit the operands.
    Source: Smith & Gray 2018, Journal of Open Source Software 3 (opt_einsum).
    """
    if not isinstance(equation, str):
        raise ShapeError(f"einsum: expected an equation as 'ij,jk->ik' first; got {arguments.shown(equation)}.")
    terms, out, dots = _spelled(equation, [as_tensor(x).ndim for x in operands])
    parts = [(term, as_tensor(x)) for term, x in zip(terms, operands, strict=True)]
    sizes = _sizes(equation, parts, dots)
    parts = [_distinct(*_narrow(term, x, sizes)) for term, x in parts]
    for group in _order(tuple(term for term, _ in parts), out, sizes):
        some = [parts.pop(k) for k in sorted(group, reverse=True)][::-1]
        while len(some) > 1:
            x, w, *some = some
            some.insert(0, _contracted(x, w, {*out, *(c for term, _ in (*parts, *some) for c in term)}, sizes))
        parts += some
    term, y = _summed(*parts[0], set(out))
    return permute(y, [term.index(c) for c in out])


# --- the equation
def _spelled(equation: str, ranks: list[int]) -> tuple[list[str], str, str]:
    """(a term for each operand, the result's, the letters that stand in them for "...")"""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(f"einsum: expected an operand for each of {len(terms)} terms of {equation!r}; "
                         f"got {len(ranks)}.")
    for text in (*terms, right):
        if not all(c.isascii() and c.isalpha() for c in text.replace("...", "", 1)):
            raise ShapeError(f"einsum: expected letters, commas, '...' and '->'; got {text!r} in {equation!r}.")
    more = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True)]
    if wrong := [(t, rank) for t, m, rank in zip(terms, more, ranks, strict=True) if m < 0 or (m and "..." not in t)]:
        raise ShapeError(f"einsum: expected a letter for each axis; got {wrong[0][0]!r} for {wrong[0][1]} axes in "
                         f"{equation!r}; '...' stands for further ones.")
    free = "".join(c for c in reversed(string.ascii_letters) if c not in equation)
    dots = free[: max(more)]
    if len(dots) < max(more):
        raise ShapeError(f"einsum: expected at most {len(string.ascii_letters)} letters; got more axes.")
    once = "".join(sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1))
    out = right.replace("...", dots) if arrow else dots + once
    if unknown := [c for c in out if c not in left + dots or out.count(c) > 1]:
        raise ShapeError(f"einsum: expected a result of distinct letters of {left!r}; "
                         f"got {unknown[0]!r} in {equation!r}; expand() repeats along a new axis.")
    return [t.replace("...", dots[len(dots) - m :]) for t, m in zip(terms, more, strict=True)], out, dots


def _sizes(equation: str, parts: list[Part], dots: str) -> dict[str, int]:
    """The size of every letter; of those of "..." the one that is not 1."""
    sizes: dict[str, int] = {}
    for term, x in parts:
        for letter, n in zip(term, x.shape, strict=True):
            known = sizes.setdefault(letter, n)
            if known == n or (letter in dots and n == 1):
                continue
            if letter not in dots or known != 1:
                raise ShapeError(f"einsum: axis {letter!r} is {known} and {n} in {equation!r}." if letter not in dots
                                 else f"einsum: expected axes of '...' that broadcast; got {known} and {n}.")
            sizes[letter] = n
    return sizes


@functools.lru_cache(1024)
def _path(equation: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Which operands are contracted next, of those that are left; results go behind them."""
    import opt_einsum

    return tuple(map(tuple, opt_einsum.contract_path(equation, *shapes, shapes=True)[0]))


def _order(terms: tuple[str, ...], out: str, sizes: dict[str, int]) -> Sequence[tuple[int, ...]]:
    if len(terms) < 3:
        return [(0, 1)] if len(terms) == 2 else []
    return _path(f"{','.join(terms)}->{out}", tuple(tuple(number(sizes[c]) for c in t) for t in terms))


# --- operands
def _narrow(term: str, x: Tensor, sizes: dict[str, int]) -> Part:
    """Without axes of size 1 that are wider elsewhere: those broadcast."""
    kept = [a for a, c in enumerate(term) if x.shape[a] == sizes[c]]
    return "".join(term[a] for a in kept), reshape(x, tuple(x.shape[a] for a in kept)) if len(kept) < x.ndim else x


def _distinct(term: str, x: Tensor) -> Part:
    """The diagonal of letters that come twice."""
    while again := next((c for c in term if term.count(c) > 1), None):
        a, b = term.index(again), term.rindex(again)
        x = diagonal(x, 0, a, b)
        term = "".join(c for k, c in enumerate(term) if k not in (a, b)) + again
    return term, x


def _summed(term: str, x: Tensor, kept: set[str]) -> Part:
    """Without the letters that are not kept."""
    gone = [a for a, c in enumerate(term) if c not in kept]
    return "".join(c for c in term if c in kept), sum(x, gone) if gone else x


def _contracted(a: Part, b: Part, kept: set[str], sizes: dict[str, int]) -> Part:
    """The product of two, summed over the letters that nobody needs any more."""
    (s, x), (t, w) = _summed(*a, kept | set(b[0])), _summed(*b, kept | set(a[0]))
    dtype = promote(x.dtype, w.dtype)
    x, w = cast(x, dtype), cast(w, dtype)
    batch, gone = [c for c in s if c in t and c in kept], [c for c in s if c in t and c not in kept]
    m, n = [c for c in s if c not in t], [c for c in t if c not in s]
    letters = [*batch, *m, *n]

    def form(term: str, y: Tensor, *groups: list[str]) -> Tensor:
        order = [c for group in groups for c in group if c in term]
        return reshape(permute(y, [term.index(c) for c in order]),
                       tuple(math.prod(sizes[c] for c in group if c in term) for group in groups))

    if not gone or not (m or n) or not is_float(dtype):  # nothing that a product of matrices would have to add up
        each = [[c] for c in (*letters, *gone)]
        y = form(s, x, *each) * form(t, w, *each)
        return "".join(letters), sum(y, list(range(len(letters), y.ndim))) if gone else y
    y = matmul(form(s, x, *([c] for c in batch), m, gone), form(t, w, *([c] for c in batch), gone, n))
    return "".join(letters), reshape(y, tuple(sizes[c] for c in letters))


# --- products by other names
@function(lambda: [Case(((2, 3, 4), (3, 4, 2))), Case(((2, 3), (4, 3)), dict(axes=((1,), (1,)))),
                   Case(((2,), (3,)), dict(axes=0))])
def tensordot(x: TensorLike, y: TensorLike, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """z = Σ x y over pairs of axes: the last `axes` of x with the first of y, or axes[0] of x with axes[1] of y, in
    their order. The other axes of x come first. Raises ShapeError.
    """
    x, y = as_tensor(x), as_tensor(y)
    if (count := arguments.whole(axes)) is not None:
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ShapeError(f"tensordot: expected at most {min(x.ndim, y.ndim)} axes of {x.shape} and {y.shape}; "
                             f"got {count}.")
        axes = range(x.ndim - count, x.ndim), range(count)
    pair = arguments.pairs("tensordot", "axes", axes)
    if len(pair) != 2 or len(pair[0]) != len(pair[1]):
        raise ShapeError("tensordot: expected a number of axes, or two sequences of as many; "
                         f"got {arguments.shown(axes)}.")
    left, right = ([arguments.axis("tensordot", a, t.ndim) for a in some] for t, some in zip((x, y), pair, strict=True))
    if len({*left}) < len(left) or len({*right}) < len(right):
        raise ShapeError(f"tensordot: expected distinct axes; got {arguments.shown(axes)}.")
    first = string.ascii_lowercase[: x.ndim]
    second = [string.ascii_uppercase[a] for a in range(y.ndim)]
    for a, b in zip(left, right, strict=True):
        second[b] = first[a]
    out = [*(c for a, c in enumerate(first) if a not in left), *(c for b, c in enumerate(second) if b not in right)]
    return einsum(f"{first},{''.join(second)}->{''.join(out)}", x, y)


@function(lambda: [Case(((2, 3), (3, 2))), Case(((2,), (2, 3)))])
def kron(x: TensorLike, y: TensorLike) -> Tensor:
    """z = every element of x times all of y, laid out as x is: z[i · p + k, j · q + l] = x[i, j] · y[k, l] for y
    (p, q), and the same for other ranks, the lower of which gets leading axes.
    """
    x, y = as_tensor(x), as_tensor(y)
    rank = max(x.ndim, y.ndim)
    a, b = ((1,) * (rank - t.ndim) + t.shape for t in (x, y))
    apart = [(m, 1) for m in a], [(1, n) for n in b]
    z = reshape(x, [n for p in apart[0] for n in p]) * reshape(y, [n for p in apart[1] for n in p])
    return reshape(z, [m * n for m, n in zip(a, b, strict=True)])


@function(lambda: [Case(((2, 3), (2, 3))), Case(((3, 4), (3, 4)), dict(axis=0))])
def cross(x: TensorLike, y: TensorLike, axis: int = -1) -> Tensor:
    """z = x × y of vectors (3) along `axis`; the other axes broadcast. Raises ShapeError."""
    x, y = as_tensor(x), as_tensor(y)
    ends = [t.shape[arguments.axis("cross", axis, t.ndim)] for t in (x, y)]
    if ends != [3, 3]:
        raise ShapeError(f"cross: expected vectors of 3 along axis {axis}; got shapes {x.shape} and {y.shape}.")
    return roll(x, -1, axis) * roll(y, -2, axis) - roll(x, -2, axis) * roll(y, -1, axis)


@function(lambda: [Case(((3, 4),)), Case(((2, 3, 3),), dict(k=1, a=1, b=2))])
def trace(x: TensorLike, k: int = 0, a: int = 0, b: int = 1) -> Tensor:
    """y = the sum of the k-th diagonal of two axes, as `diagonal` has it. Raises ShapeError, ConfigError."""
    return sum(diagonal(x, k, a, b), -1)
