"""Layers over the nodes of a graph: sums over neighbours, and what reads a whole graph out.

All take x (V, features) and edges, (2, E) integers, sources over targets: messages flow from source to target. They are
sorted on the device; `Graph.edges` (clnet.data.Graph) were sorted once. x (N, V, features) are N samples of one graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops as F
from ..config.fields import bound, choice, field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.activations import activation
from ..ops.graphs import AGGREGATE, Edges, degrees, edge_max, edge_sum, edge_take, neighbour_sum, pieces
from .base import Layer, New
from .fields import Act

# In examples: an isolated node, a loop, two edges between the same nodes.
EDGES = np.array([[2, 0, 3, 1, 2, 0, 4, 2], [1, 2, 0, 2, 3, 1, 4, 1]], np.int32)
WEIGHTS = np.array([.5, 1., 2., .25, 1.5, .75, 1.25, .5], np.float32)


class _GraphLayer(Layer):
    """What layers over nodes share. `formula` is written for one graph, (V, features), with sorted edges."""

    signature = "... nodes in_features -> ... nodes out_features"
    if TYPE_CHECKING:
        activation: Act

    def forward(self, x: Tensor, edges: Tensor, *beside: Any, **named: Any) -> Tensor:  # type: ignore[override]
        if not isinstance(edges, Tensor) or x.ndim not in (2, 3):
            raise ShapeError(
                f"{type(self).__name__}: expected x (V, features), or (N, V, features), and edges (2, E); got "
                f"{x.shape} and {getattr(edges, 'shape', edges)}; give the edges behind the nodes.")
        copies = x.shape[0] if x.ndim == 3 else 1
        sorted_edges = Edges.of(type(self).__name__, edges, x.shape[-2], copies)
        self._expect_values(edges.shape[1], beside, named)
        y = self.formula(F.reshape(x, (copies * x.shape[-2], x.shape[-1])) if x.ndim == 3 else x, sorted_edges,
                         *beside, **named)
        y = self.last(y)
        return F.reshape(y, (*x.shape[:-1], y.shape[-1])) if x.ndim == 3 else y

    def formula(self, x: Tensor, edges: Edges, *beside: Any, **named: Any) -> Tensor:
        """y (V, out_features), before what comes last."""
        raise NotImplementedError

    def last(self, y: Tensor) -> Tensor:
        """The activation."""
        return activation(self.activation)(y)

    def _expect_values(self, count: int, beside: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Raises ShapeError where what stands beside the edges is not a value an edge."""
        values = next((v for v in (*beside, *named.values()) if v is not None), None)
        if isinstance(values, Tensor) and (not values.ndim or values.shape[0] != count):
            raise ShapeError(f"{type(self).__name__}: expected a value for each of the {count} edges; got shape "
                             f"{values.shape}; those of a Graph are in the order of graph.edges.")

    def weights_of(self, edges: Edges, weight: Tensor | None) -> Tensor | None:
        """(E, 1) in the order of the edges. Raises ShapeError."""
        if weight is not None and weight.ndim - (weight.ndim == 2 and weight.shape[1] == 1) != 1:
            raise ShapeError(f"{type(self).__name__}: expected a number an edge, edge_weight (E); got {weight.shape}.")
        return None if weight is None else F.reshape(edges.own(weight), (edges.size, 1))

    def features_of(self, edges: Edges, features: Tensor | None, width: int) -> Tensor | None:
        """(E, width) in the order of the edges, None where width is 0. Raises ShapeError."""
        if not width and features is None:
            return None
        if features is None or features.ndim != 2 or features.shape[1] != width:
            what = "none" if features is None else f"shape {features.shape}"
            raise ShapeError(f"{type(self).__name__}: expected edge features (E, {width}), as edge_features says, "
                             f"behind the edges; got {what}.")
        return edges.own(features)


def is_loop(edges: Edges) -> Tensor:
    """Which edges end where they start: bool (E, 1)"""
    return F.reshape(F.equal(edges.source, edges.target), (edges.size, 1))


class GraphConvolution(_GraphLayer):
    """y_i = act(Σ over edges e = j → i of w_e / √(d_j d_i) · W x_j + b),  d_i = Σ of w_e over edges into i

    Inputs x (V, in_features), edges (2, E), edge_weight=None (E), 1 each; W (out_features, in_features),
    b (out_features); y (V, out_features). A node without edges has d = 0 and gives b.
    Paper: Kipf & Welling 2017, arXiv:1609.02907.
    """

    spec_name = "GraphConvolutionalLayer"
    aliases = ("GCN", "GCNConv")
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result")
    add_self_loops: bool = field(True, doc="whether a node without an edge to itself gets one, of weight 1")
    normalize: bool = field(True, doc="whether weights are divided by √(d_j d_i)")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_features=3, out_features=2), [(6, 3), EDGES]),
                (dict(out_features=4, activation="tanh"), [(2, 6, 3), EDGES, WEIGHTS]),
                (dict(out_features=3, add_self_loops=False, normalize=False, bias=False), [(6, 3), EDGES])]

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        self.weight = new.weight(out, n)
        self.bias = new.bias(out, fan_in=n) if self.use_bias else None

    def formula(self, x: Tensor, edges: Edges, edge_weight: Tensor | None = None) -> Tensor:  # type: ignore[override]
        w = self.weights_of(edges, edge_weight)
        narrow = x.shape[1] < self.out_features  # sums over edges of the fewer features
        y = self._sums(x if narrow else F.linear(x, self.weight), edges, w)
        if narrow:
            return F.linear(y, self.weight, self.bias)
        return y if self.bias is None else y + self.bias

    def _sums(self, z: Tensor, edges: Edges, w: Tensor | None) -> Tensor:
        """Σ of w_e / √(d_j d_i) · z_j"""
        own = None
        if self.add_self_loops:
            own = F.cast(F.equal(edge_sum(F.cast(is_loop(edges), z.dtype), edges), 0), z.dtype)
        if not self.normalize:
            y = neighbour_sum(z, edges, w)
            return y if own is None else y + own * z
        d = degrees(edges, z.dtype) if w is None else edge_sum(w, edges)
        d = d if own is None else d + own
        scale = F.where(d > 0, F.rsqrt(F.where(d > 0, d, 1)), 0)
        z = scale * z
        y = neighbour_sum(z, edges, w)
        return scale * (y if own is None else y + own * z)


class GraphSAGE(_GraphLayer):
    """y_i = act(W_neigh AGG over edges j → i of x_j + W_self x_i + b), with `normalize` divided by its length |·|₂
    before act

    Inputs x (V, in_features), edges (2, E); W_neigh, W_self (out_features, in_features), b (out_features);
    y (V, out_features). AGG over no edges is 0; a length counts as 1e-12 at least.
    Paper: Hamilton et al. 2017, arXiv:1706.02216.
    """

    spec_name = "GraphSAGELayer"
    aliases = ("SAGEConv",)
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result")
    aggregator: str = choice("mean", ("mean", "sum", "max"), doc="AGG, feature by feature")
    normalize: bool = field(False, doc="whether results have length 1")
    root_weight: bool = field(True, doc="whether W_self x_i is added")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_features=3, out_features=2), [(6, 3), EDGES]),
                (dict(out_features=4, aggregator="max", activation="relu"), [(2, 6, 3), EDGES]),
                (dict(out_features=2, aggregator="sum", normalize=True, root_weight=False), [(6, 3), EDGES])]

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        self.w_neigh = new.weight(out, n)
        self.w_self = new.weight(out, n) if self.root_weight else None
        self.bias = new.bias(out, fan_in=n) if self.use_bias else None

    def formula(self, x: Tensor, edges: Edges) -> Tensor:  # type: ignore[override]
        y = self._neighbours(x, edges)
        if self.w_self is not None:
            y = y + F.linear(x, self.w_self)
        if self.normalize:
            y = y / F.sqrt(F.maximum(F.sum(F.square(y), -1, keepdims=True), 1e-24))
        return y

    def _neighbours(self, x: Tensor, edges: Edges) -> Tensor:
        """W_neigh AGG x_j + b, with sums over edges of the fewer features."""
        if self.aggregator == "max":
            return F.linear(edge_max(edge_take(x, edges, reverse=True), edges), self.w_neigh, self.bias)
        narrow = x.shape[1] <= self.out_features
        y = neighbour_sum(x if narrow else F.linear(x, self.w_neigh), edges)
        if self.aggregator == "mean":
            y = y / F.maximum(degrees(edges, y.dtype), 1)
        if narrow:
            return F.linear(y, self.w_neigh, self.bias)
        return y if self.bias is None else y + self.bias


class GraphIsomorphism(_GraphLayer):
    """y_i = act(W₂ relu(W₁ h_i + b₁) + b₂),  h_i = (1 + ε) x_i + Σ over edges j → i of x_j

    Inputs x (V, in_features), edges (2, E); W₁ (hidden_features, in_features), W₂ (out_features, hidden_features), ε a
    number; y (V, out_features).
    Paper: Xu et al. 2019, arXiv:1810.00826.
    """

    spec_name = "GraphIsomorphismLayer"
    aliases = ("GIN", "GINConv")
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result")
    hidden_features: int | None = field(None, doc="features between the two maps; None: out_features", gt=0)
    eps: float = field(0.0, doc="ε at first")
    train_eps: bool = field(True, doc="whether ε is learned")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_features=3, out_features=2, eps=0.25), [(6, 3), EDGES]),
                (dict(out_features=3, hidden_features=5, train_eps=False, activation="tanh"), [(6, 3), EDGES])]

    def setup(self, new: New) -> None:
        n, hidden, out = self.in_features or 0, self.hidden_features or self.out_features, self.out_features
        self.w1, self.b1 = new.weight(hidden, n), new.bias(hidden, fan_in=n)
        self.w2, self.b2 = new.weight(out, hidden), new.bias(out, fan_in=hidden)
        self.epsilon = new.value([self.eps]) if self.train_eps else None

    def formula(self, x: Tensor, edges: Edges) -> Tensor:  # type: ignore[override]
        own = 1 + (self.eps if self.epsilon is None else self.epsilon)
        h = own * x + neighbour_sum(x, edges)
        return F.linear(F.relu(F.linear(h, self.w1, self.b1)), self.w2, self.b2)


class DirectionalGraphConv(_GraphLayer):
    """y_i = act(α h_out + (1 − α) h_in + h_self);  h_in = W_in AGG over edges j → i of x_j + b_in,
    h_out = W_out AGG over edges i → j of x_j + b_out, h_self = W_self x_i + b_self

    combine "concat": y = act(W_comb c + b_comb), c = [h_in ; h_out ; h_self], with `gated` its three parts times
    σ(W_gate c + b_gate). Inputs x (V, in_features), edges (2, E); W_in, W_out, W_self (out_features, in_features),
    W_comb (out, 3 out), W_gate (3, 3 out); y (V, out_features).
    Paper: Rossi et al. 2023, arXiv:2305.10498.
    """

    spec_name = "DirectionalGraphLayer"
    aliases = ("DirGNNConv",)
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result")
    aggregator: str = choice("sum", ("sum", "mean"), doc="AGG, feature by feature")
    alpha: float = field(0.5, doc="α, the part of the edges that leave a node", ge=0, le=1)
    combine: str = choice("alpha", ("alpha", "concat"), doc="how the three parts become one")
    gated: bool = field(False, doc="whether parts that are concatenated are weighed by σ(W_gate c + b_gate)")
    root_weight: bool = field(True, doc="whether h_self has a part; else it is 0")
    use_bias: bool = field(True, alias="bias", doc="whether the maps add a bias")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_features=3, out_features=2, alpha=0.25), [(6, 3), EDGES]),
                (dict(out_features=2, combine="concat", gated=True, aggregator="mean", activation="tanh"),
                 [(6, 3), EDGES])]

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        self.w_in, self.w_out = new.weight(out, n), new.weight(out, n)
        self.w_self = new.weight(out, n) if self.root_weight else None
        self.b_in, self.b_out = (new.bias(out, fan_in=n) if self.use_bias else None for _ in range(2))
        self.b_self = new.bias(out, fan_in=n) if self.use_bias and self.root_weight else None
        joined = self.combine == "concat"
        self.w_comb = new.weight(out, 3 * out) if joined else None
        self.b_comb = new.bias(out, fan_in=3 * out) if joined and self.use_bias else None
        self.w_gate = new.weight(3, 3 * out) if joined and self.gated else None
        self.b_gate = new.bias(3, fan_in=3 * out) if joined and self.gated and self.use_bias else None

    def formula(self, x: Tensor, edges: Edges) -> Tensor:  # type: ignore[override]
        into = F.linear(self._neighbours(x, edges, False), self.w_in, self.b_in)
        away = F.linear(self._neighbours(x, edges, True), self.w_out, self.b_out)
        own = None if self.w_self is None else F.linear(x, self.w_self, self.b_self)
        if self.w_comb is None:
            y = self.alpha * away + (1 - self.alpha) * into
            return y if own is None else y + own
        parts = [into, away, F.zeros(into.shape, into.dtype) if own is None else own]
        if self.w_gate is not None:
            gate = F.sigmoid(F.linear(F.concat(parts, -1), self.w_gate, self.b_gate))
            parts = [gate[:, k : k + 1] * part for k, part in enumerate(parts)]
        return F.linear(F.concat(parts, -1), self.w_comb, self.b_comb)

    def _neighbours(self, x: Tensor, edges: Edges, reverse: bool) -> Tensor:
        y = neighbour_sum(x, edges, reverse=reverse)
        return y / F.maximum(degrees(edges, y.dtype, reverse), 1) if self.aggregator == "mean" else y


class Readout(Layer):
    """y_g = act(W AGG over the nodes i of graph g of x_i + b)

    Inputs x (V, in_features), offsets (G + 1) integers: where the nodes of each graph of a batch begin, and the last
    ones end, as a batch of Graphs has them; without `pooling` every node is read by itself, y = act(x Wᵀ + b), and x
    may have any axes in front; pooling without offsets takes all nodes as one graph. W (out_features, in_features),
    b (out_features); y (G, out_features). A graph without nodes gives act(b).
    Paper: Gilmer et al. 2017, arXiv:1704.01212; Jaeger 2001, "The echo state approach".
    """

    spec_name = "ReadoutLayer"
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of the result")
    pooling: str | None = choice(None, (None, "sum", "mean", "max"), doc="AGG over the nodes of a graph; None: none")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=3, out_features=2), [(5, 3)]),
                (dict(out_features=2, pooling="mean", activation="tanh"), [(5, 3), np.array([0, 2, 2, 5], np.int32)]),
                (dict(out_features=3, pooling="max"), [(5, 3), np.array([0, 3, 5], np.int32)]),
                (dict(out_features=3, pooling="sum", bias=False), [(5, 3)])]

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        self.weight = new.weight(out, n)
        self.bias = new.bias(out, fan_in=n) if self.use_bias else None

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        if self.pooling is not None:
            x = self._pooled(x, offsets)
        elif offsets is not None:
            raise ShapeError('Readout: expected offsets beside x with pooling="sum", "mean" or "max"; got None as '
                             "pooling, which reads every node; leave the offsets out.")
        return activation(self.activation)(F.linear(x, self.weight, self.bias))

    def _pooled(self, x: Tensor, offsets: Tensor | None) -> Tensor:
        if x.ndim != 2:
            raise ShapeError(f"Readout: expected x (V, features), the nodes of all graphs one after another; got "
                             f"{x.shape}.")
        given = F.arange(n=2, dtype="int32") * x.shape[0] if offsets is None else offsets
        return AGGREGATE[self.pooling or "sum"](x, pieces("Readout", given, x.shape[0]))
