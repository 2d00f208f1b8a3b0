"""What is computed together. A Fusion becomes one launch, or several where its kernels come in stages;
the host computes what no kernel does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .node import Graph, Kernel, Node


@dataclass(eq=False)
class Fusion:
    """Nodes that are computed together: its cores, which say how, and the pointwise nodes fused with them.

    `domain` is the shape that it walks, `size` the number of elements of its first node, `ops` how many pointwise nodes
    it has, `stores` what it writes to memory. A fusion may read what those of a lower `position` store.
    """

    position: int
    domain: tuple[int, ...]
    cores: list[Node] = field(default_factory=list)
    stores: list[Node] = field(default_factory=list)
    size: int = 0
    ops: int = 0

    closed = False  # whether nothing fuses with it

    @property
    def result_sizes(self) -> set[int]:
        """How many elements a pointwise node may have that reads a result element for element."""
        return {core.size for core in self.cores} or {self.size}

    def __repr__(self) -> str:
        names = [n.op.name for n in (self.cores or self.stores) if n.op]
        return f"<{type(self).__name__} {'+'.join(names)} {self.domain} -> {len(self.stores)} outputs>"


class Map(Fusion):
    """Pointwise nodes alone: no core."""


class Folds(Fusion):
    """Reductions of one shape over the same axes: one pass over what they read."""


class KernelCall(Fusion):
    """A hand-written kernel, or one that computes twins."""

    @property
    def closed(self) -> bool:  # type: ignore[override]
        return any(isinstance(core, Kernel) and core.op.writes for core in self.cores)


class HostCall(Fusion):
    """An op that the host computes."""

    closed = True


@dataclass
class Schedule:
    """Fusions in order; `stored` are the nodes with memory; `parts` maps a node that is computed in its place in a
    concatenation to (the concatenation, its first element there); `home` says where a node is computed.
    """

    graph: Graph
    fusions: list[Fusion]
    stored: set[Node]
    parts: Mapping[Node, tuple[Node, int]]
    home: Mapping[Node, Fusion]
