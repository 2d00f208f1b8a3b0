"""Pooling of a mesh: edges collapse, or the best are kept."""

from __future__ import annotations

from .. import ops as F
from ..config.fields import bound, choice, positive
from ..core.spec import INTS
from ..core.tensor import Tensor
from ..errors import DTypeError, ShapeError
from ..ops.index import _gather
from ..ops.mesh import TABLE, VERTICES, _mesh_collapse, _mesh_merge
from .base import Layer, New


class MeshPool(Layer):
    """y_k = Σ over the edges e that went into k of G_ke x_e / Σ of G_ke: a mesh of fewer edges

    Inputs x (E, in_channels), neighbours (E, 4) as MeshEdgeConv has them, vertices (E, 2) of the edges, integers;
    outputs y (R, in_channels), the neighbours (R, 4) and vertices (R, 2) of the edges that are left.
    mode "collapse": one after another, by |x_e|² (ties by number), an edge (u, v) of two whole triangles (e, a, b),
    (e, c, d) whose ends have two common neighbours goes: G_a += G_e + G_b, G_c += G_e + G_d, v is u from then on. Each
    takes two more along, R = E − 3 ⌈(E − target_edges) / 3⌉. Where the mesh has not that many edges to go, y is NaN and
    the tables −1. G is constant in the gradient. One work-item looks for the edges: it takes time.
    mode "topk": R = min(target_edges, E) edges of the highest scores x · w, in their order, y = x tanh(score / |w|);
    neighbours that went are −1. All scores are compared with all others.
    Paper: Hanocka et al. 2019, arXiv:1809.05910; Gao & Ji 2019, arXiv:1905.05178.
    """

    spec_name = "MeshPoolLayer"
    target_edges: int = positive(doc="edges that are to be left")
    mode: str = choice("collapse", ("collapse", "topk"), doc="how edges are chosen")
    in_channels: int | None = bound(doc="values of an edge")
    signature = "E in_channels -> R in_channels"
    examples = [(dict(target_edges=9), [(12, 3), TABLE, VERTICES]),
                (dict(target_edges=5, mode="topk"), [(12, 3), TABLE, VERTICES])]

    def setup(self, new: New) -> None:
        self.weight = new.weight(self.in_channels or 0, fan_in=self.in_channels or 1) if self.mode == "topk" else None

    def forward(self, x: Tensor, neighbors: Tensor | None = None,
                vertices: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        table, corners = self._expected(x, neighbors, 4, "neighbours"), self._expected(x, vertices, 2, "vertices")
        return self._best(x, table, corners) if self.mode == "topk" else self._collapsed(x, table, corners)

    def _expected(self, x: Tensor, given: Tensor | None, width: int, what: str) -> Tensor:
        if given is None or given.shape != (x.shape[0], width):
            raise ShapeError(f"MeshPool: expected {what} ({x.shape[0]}, {width}) beside the {x.shape[0]} edges; got "
                             f"{'none' if given is None else given.shape}.")
        if given.dtype not in INTS:
            raise DTypeError(f"MeshPool: expected integers as {what}; got {given.dtype}.")
        return F.cast(given, "int32")

    def _collapsed(self, x: Tensor, table: Tensor, corners: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        edges = x.shape[0]
        count = (max(edges - self.target_edges, 0) + 2) // 3
        rows = edges - 3 * count
        plan = _mesh_collapse(F.detach(F.sum(F.square(x), -1)), table, corners, count=count)
        sums = _mesh_merge(x, plan, count=count, reverse=False)
        many = _mesh_merge(F.ones((edges, 1), x.dtype), plan, count=count, reverse=False)
        at = 5 * count
        left = plan[at : at + rows]
        y = _gather(F.reshape(sums / many, (1, *x.shape)), F.where(left < 0, edges, left), fill="nan")
        return (F.reshape(y, (rows, x.shape[1])), F.reshape(plan[at + rows : at + 5 * rows], (rows, 4)),
                F.reshape(plan[at + 5 * rows :], (rows, 2)))

    def _best(self, x: Tensor, table: Tensor, corners: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        assert self.weight is not None
        edges, rows = x.shape[0], min(self.target_edges, x.shape[0])
        score = F.reshape(F.matmul(x, F.reshape(self.weight, (-1, 1))), (edges,))
        e = F.arange(n=edges, dtype="int32")
        mine, other = F.reshape(F.detach(score), (edges, 1)), F.reshape(F.detach(score), (1, edges))
        ahead = F.bit_or(other > mine, F.bit_and(F.equal(other, mine), e < F.reshape(e, (edges, 1))))
        kept = F.cast(F.sum(F.cast(ahead, "int32"), 1), "int32") < rows
        earlier = F.bit_and(e < F.reshape(e, (edges, 1)), F.reshape(kept, (1, edges)))
        number = F.where(kept, F.cast(F.sum(F.cast(earlier, "int32"), 1), "int32"), -1)
        here = F.equal(F.reshape(F.arange(n=rows, dtype="int32"), (rows, 1)), number)
        left = F.cast(F.sum(F.where(here, e, 0), 1), "int32")
        gate = F.tanh(F.gather(score, left) / F.sqrt(F.sum(F.square(self.weight.tensor))))
        near = F.gather(table, left)
        near = F.where(near < 0, -1, F.gather(number, F.maximum(near, 0)))
        return F.gather(x, left) * F.reshape(gate, (rows, 1)), near, F.gather(corners, left)
