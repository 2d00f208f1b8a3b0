"""Example calls for every op: its own samples, or generated from its kind. What all checks run on."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import zlib
from typing import Any

import numpy as np

from ... import ops
from ...core.op import OPS, Case, Kernel, Op, Pointwise, Reduction

UNARY = [(3, 5), (), (67,), (2, 1, 19)]
BINARY = [((3, 5), (3, 5)), ((2, 3, 17), (3, 1)), ((), (4, 3)), ((3, 1), (1, 5)), ((1,), (7,)), ((0, 3), (3,))]
FOLDED = (2, 3, 4)
MORE_FOLDED = [((70, 33), (0,)), ((70, 33), (1,)), ((5, 1), (1,)), ((3, 40, 5), (0, 1))]

# Integer dtypes that an op's domain is drawn in; everything else is drawn in float32.
INTEGER = {"int": "int32", "bits": "int32"}


def every_op() -> list[Op]:
    """All declared ops, with every module of `clnet.ops` imported, by name."""
    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"{ops.__name__}.{module.name}")
    return [OPS[name] for name in sorted(OPS)]


def draw_dtype(op: Op) -> str:
    """The dtype in which shapes of a case become arrays."""
    return op.draws or INTEGER.get(op.accepts, "float32")


def seed(op: Op) -> np.random.Generator:
    """The op's own stream of random numbers: the same in every run, and not moved by other ops."""
    return np.random.default_rng(zlib.crc32(op.name.encode()))


def arrays(op: Op, case: Case) -> list[np.ndarray[Any, Any]]:
    """The inputs of a case: shapes drawn uniformly from the op's domain, ready arrays as they are."""
    return case.arrays(seed(op), op.domain, draw_dtype(op))


def cases(op: Op) -> list[Case]:
    """Few but telling calls:
    the op's samples, or for pointwise ops broadcast pairs, for reductions all subsets of axes.
    """
    if op.samples:
        return op.samples()
    if isinstance(op, Reduction):
        subsets = [axes for n in range(1, 4) for axes in itertools.combinations(range(3), n)]
        return [*(Case((FOLDED,), dict(axes=axes)) for axes in subsets),
                *(Case((shape,), dict(axes=axes)) for shape, axes in MORE_FOLDED)]
    if isinstance(op, Pointwise):
        return _pointwise(op)
    raise TypeError(f"{op.name}: expected samples, as {op.kind} ops must have; got none; declare samples=.")


def _pointwise(op: Pointwise) -> list[Case]:
    if len(op.args) == 1:
        return [Case((shape,)) for shape in UNARY]
    if len(op.args) == 2:
        return [Case(pair) for pair in BINARY]
    if not op.selects:
        return [Case(((3, 17), (3, 1), (17,))[: len(op.args)] + ((3, 17),) * (len(op.args) - 3)),
                Case(((4, 3),) + ((),) * (len(op.args) - 1))]
    condition = seed(op).uniform(size=(3, 17)) > 0.5
    return [Case((condition, (3, 17), (3, 17))), Case((condition, (3, 1), (17,))), Case((condition[0], (), (2, 1)))]


def empty_cases(op: Op) -> list[Case]:
    """Calls with an axis of size 0, and with all axes of size 1, where the op's reference takes them."""
    found = []
    for case in [*_resized(op, 0), *_resized(op, 1)]:
        try:
            with np.errstate(all="ignore"):
                op.ref(*arrays(op, case), **case.attrs)
        except (ValueError, IndexError):
            continue
        found.append(case)
    return found


def _resized(op: Op, n: int) -> list[Case]:
    """The op's shapes with one named axis (of all, where it is a signature's or a pointwise op's) set to n."""
    first = cases(op)[0]
    if not first.args or any(isinstance(a, np.ndarray) for a in first.args):
        return []
    if isinstance(op, Pointwise):
        return [Case(((n, 3),) * len(first.args), first.attrs),
                Case(((n,), *((),) * (len(first.args) - 1)), first.attrs)]
    if isinstance(op, Reduction):
        return [Case((shape,), dict(axes=(1,))) for shape in ((3, n), (n, 3))]
    if not isinstance(op, Kernel) or not op.signature:
        return []
    sides = [[a for a in side.split() if a != "..."] for side in op.signature.split("->")[0].split(",")]
    sizes = {a: m for side, shape in zip(sides, first.args, strict=True)
             for a, m in zip(reversed(side), reversed(shape), strict=False)}
    lead = [shape[: len(shape) - len(side)] for side, shape in zip(sides, first.args, strict=True)]

    def with_axis(axis: str) -> Case:
        return Case(tuple((*extra, *(n if a == axis else sizes[a] for a in side))
                          for extra, side in zip(lead, sides, strict=True)), first.attrs)

    return [with_axis(axis) for axis in sizes]
