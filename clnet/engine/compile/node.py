"""A graph of what has to run: its nodes, by how they are computed."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...core import op as ops
from ...core.spec import Spec
from ...core.tensor import Tensor
from ...kernels.stage import Stage
from ...kernels.variant import Choice
from .frozen import frozen

# The attribute of a cast that is a copy for one kernel; the schedule computes it right before that.
COPY = "copy"


@dataclass(eq=False)
class Node:
    """One value of a Graph. `waits` are nodes that it does not read but that have to be there first (see twins); `part`
    says for what it is computed, where somebody asks.
    """

    number: int
    op: ops.Op | None
    inputs: tuple[Node, ...]
    attrs: dict[str, Any]
    spec: Spec
    waits: tuple[Node, ...] = ()
    part: Hashable = None

    shape = property(lambda self: self.spec.shape)
    size = property(lambda self: self.spec.size)

    def __repr__(self) -> str:
        return f"%{self.number} {self.op.name if self.op else 'leaf'} {self.spec}"


@dataclass(eq=False, repr=False)
class Leaf(Node):
    """What is in memory before the plan runs; `leaf` is its number among the inputs of the plan."""

    leaf: int = -1


class Pointwise(Node):
    """Element by element of what it reads, broadcast: fuses with everything."""

    op: ops.Pointwise


class Reduction(Node):
    """A fold over the axes `attrs["axes"]`."""

    op: ops.Reduction


@dataclass(eq=False, repr=False)
class View(Node):
    """Elements of its first input at other coordinates: nothing moves, whoever reads it reads through it. It waits for
    its other inputs (the op `after`). `walk`: once it was asked for, what reads.strided says of it.
    """

    op: ops.View
    walk: tuple[tuple[Node, int, tuple[int, ...]] | None] | None = field(default=None, init=False)


class Assembly(Node):
    """A concatenation by placement: its parts are computed where they belong in it."""

    op: ops.Concatenation


class Call(Node):
    """An op that is computed as a whole from memory."""

    op: ops.Kernel


class Stages(tuple[Stage, ...]):
    """What the kernels of a node are asked for. Layers that repeat share one."""

    @cached_property
    def key(self) -> Hashable:
        """Equal where the stages are."""
        return frozen([vars(s) for s in self])


@dataclass(eq=False, repr=False)
class Kernel(Call):
    """By hand-written kernels, which `stages` ask for. `twin` is the node that they compute too."""

    stages: Stages = field(default_factory=Stages)
    _twin: weakref.ref[Kernel] | None = None  # each of two is the other's: only weakly, or neither would ever go

    @property
    def twin(self) -> Kernel | None:
        return None if self._twin is None else self._twin()

    @twin.setter
    def twin(self, other: Kernel) -> None:
        self._twin = weakref.ref(other)


class Host(Call):
    """By its reference on the host, where the device has no kernel for it."""


WAYS: dict[type[ops.Op], type[Node]] = {ops.Pointwise: Pointwise, ops.Reduction: Reduction, ops.View: View,
                                        ops.Concatenation: Assembly}


def computed(number: int, op: ops.Op, inputs: tuple[Node, ...], attrs: dict[str, Any], spec: Spec,
             stages: Stages | None) -> Node:
    """The node of an op: of one with kernels by its stages, or on the host where those are None."""
    if isinstance(op, ops.Kernel):
        return (Host(number, op, inputs, attrs, spec) if stages is None
                else Kernel(number, op, inputs, attrs, spec, stages=stages))
    way = WAYS.get(type(op)) or next(way for kind, way in WAYS.items() if isinstance(op, kind))
    return way(number, op, inputs, attrs, spec)


@dataclass
class Graph:
    """Nodes in topological order; `leaves[i]` is the tensor behind leaf i; `outputs` are the nodes asked for; `choices`
    who serves each op that has kernels, by the op and its result.
    """

    nodes: list[Node] = field(default_factory=list)
    leaves: list[Tensor] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)
    choices: list[tuple[str, Choice]] = field(default_factory=list)
