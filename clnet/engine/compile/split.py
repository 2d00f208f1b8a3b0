"""Reductions that CPUs do in two stages: so that no core is without a share, and each folds what it wrote."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...core.op import Reduction
from ...core.size import number, typical, varies
from ...core.spec import is_float
from ...core.tensor import Tensor, record, widened

if TYPE_CHECKING:
    from ..device.devices import Device

SPLIT_FROM = 1 << 15  # elements per result from which a reduction with few results is done in two stages
CROSSING = 1 << 17  # elements, half of which take longer from another core's cache than one launch more
ROW = 16  # elements that are worth a result of their own


def in_stages(t: Tensor, device: Device) -> Tensor | None:
    """A reduction in two stages: over all but the outermost axis first where that keeps cores at what they wrote, or
    over parts of the longest axis where results are too few for all cores. None: in one.

    GPUs cut theirs where their kernels are written.
    """
    (x,), axes, cores = t.inputs, t.attrs["axes"], device.compute_units
    assert isinstance(t.op, Reduction)
    if device.is_gpu or len(t.op.fold.init) > 1:
        return None
    crosses = _crosses(t, cores)
    if crosses and math.prod(typical(x.shape[a]) for a in axes[1:]) >= ROW:
        return _second(t, _first(t, x, axes[1:]), 0, device)
    few = typical(x.size) // max(typical(t.size), 1) >= SPLIT_FROM and typical(t.size) < cores
    return _by_parts(t, device) if few or (crosses and len(axes) == 1) else None


def _crosses(t: Tensor, cores: int) -> bool:
    """Whether a core that folds whole results would read much that others wrote: kernels deal out the outermost axis
    (images, say), and results (channels) lie along one behind it. What is in another core's cache comes two to twenty
    times as slowly as what a core wrote itself.
    """
    (x,) = t.inputs
    return (t.attrs["axes"][:1] == (0,) and 1 < cores <= typical(x.shape[0]) and typical(t.size) > 1
            and typical(x.size) >= CROSSING)


def _by_parts(t: Tensor, device: Device) -> Tensor | None:
    """The longest axis in as many parts as there are cores, or some more; None where no such number divides it."""
    (x,), axes, cores = t.inputs, t.attrs["axes"], device.compute_units
    axis = max(axes, key=lambda a: number(x.shape[a]))
    if varies(x.shape[axis]):
        return None  # whether a number of parts divides it would be another plan for nearly every size
    wanted = [s for s in range(cores, 16 * cores) if x.shape[axis] % s == 0 and x.shape[axis] > s]
    if not wanted:
        return None
    s = wanted[0]
    shape = (*x.shape[:axis], s, x.shape[axis] // s, *x.shape[axis + 1 :])
    partial = _first(t, x.reshape(shape), tuple(a + (a >= axis) for a in axes))
    rest = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    return _second(t, partial.reshape((*rest[:axis], s, *rest[axis + 1 :])), axis, device)


def _first(t: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Partial results, which 16 bits would round."""
    assert isinstance(t.op, Reduction)
    return record(t.op, (widened(x),), {"axes": axes})


def _second(t: Tensor, partial: Tensor, axis: int, device: Device) -> Tensor:
    """Those of an axis in one. Sums of floats in float64 where there is any: partial ones are so large that each
    addition loses digits of the whole.
    """
    assert isinstance(t.op, Reduction)
    if device.fp64 and is_float(partial.dtype) and t.op.fold.adds:
        partial = partial.astype("float64")
    return record(t.op, (partial,), {"axes": (axis,)}).astype(t.dtype)
