"""Attention along the edges of a graph: weights by softmax over the edges into each node."""

from __future__ import annotations

import math

import numpy as np

from .. import ops as F
from ..config.fields import bound, field, fraction, positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from ..ops.activations import activation
from ..ops.graphs import Edges, edge_dot, edge_softmax, edge_take, neighbour_sum
from .base import New
from .fields import Act
from .graph import EDGES, _GraphLayer, is_loop
from .normalisation import LayerNorm
from .utility import Dropout

FEATURES = np.array([[.5, -1.], [.25, .75], [-.5, 1.5], [1., -.25], [.125, .5], [-1.5, .25], [.75, 1.], [-.75, -.5]],
                    np.float32)


def attended(v: Tensor, scores: Tensor, own: Tensor | None, edges: Edges, drop: Dropout) -> Tensor:
    """y_i = Σ over edges j → i of a_e v_j, a = softmax of the scores (E, H) over the edges into i; with scores of their
    own, (V, H), nodes have a part as by edges to themselves, in place of those that there are. v (V, H, D)
    """
    if own is not None:
        scores = F.where(is_loop(edges), -math.inf, scores)
    a, mine = edge_softmax(scores, edges, own)
    y = neighbour_sum(v, edges, drop(a))
    return y if mine is None else y + F.reshape(drop(mine), (*mine.shape, 1)) * v


class GraphAttention(_GraphLayer):
    """y_i = act(concat over heads of Σ over edges j → i of a_ij z_j + b),  z = W x,
    a = softmax over the edges into i of leaky_relu(a_src · z_j + a_dst · z_i)

    Inputs x (V, in_features), edges (2, E); W (heads · out_features, in_features), a_src, a_dst (heads, out_features);
    y (V, heads · out_features), or, not `concat`, the mean over heads, (V, out_features). In training `dropout` acts on
    the weights a.
    Paper: Velickovic et al. 2018, arXiv:1710.10903.
    """

    spec_name = "GraphAttentionLayer"
    aliases = ("GAT", "GATConv")
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result, of each head")
    heads: int = positive(1, doc="how many weights an edge has")
    concat: bool = field(True, doc="whether heads are put side by side; else their mean is taken")
    negative_slope: float = field(0.2, doc="of leaky_relu")
    dropout: float = fraction(0.0, doc="probability that a weight is dropped in training")
    add_self_loops: bool = field(True, doc="whether every node has one edge to itself, in place of those it has")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_features=3, out_features=2, heads=2), [(6, 3), EDGES]),
                (dict(out_features=4, heads=2, concat=False, add_self_loops=False, activation="tanh"),
                 [(2, 6, 3), EDGES])]

    def setup(self, new: New) -> None:
        n, h, out = self.in_features or 0, self.heads, self.out_features
        self.weight = new.weight(h * out, n)
        self.att_src, self.att_dst = new.weight(h, out, fan_in=out), new.weight(h, out, fan_in=out)
        self.bias = new.bias(h * out if self.concat else out, fan_in=n) if self.use_bias else None
        self.drop = Dropout(p=self.dropout)

    def formula(self, x: Tensor, edges: Edges) -> Tensor:  # type: ignore[override]
        z = F.reshape(F.linear(x, self.weight), (x.shape[0], self.heads, self.out_features))
        at_source, at_target = F.sum(z * self.att_src, -1), F.sum(z * self.att_dst, -1)
        scores = self._leaky(edge_take(at_source, edges, reverse=True) + edge_take(at_target, edges))
        own = self._leaky(at_source + at_target) if self.add_self_loops else None
        y = attended(z, scores, own, edges, self.drop)
        y = F.reshape(y, (x.shape[0], self.heads * self.out_features)) if self.concat else F.mean(y, 1)
        return y if self.bias is None else y + self.bias

    def _leaky(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, self.negative_slope)


class GraphTransformer(_GraphLayer):
    """u_i = LN₁(res(x_i) + drop(W_o m_i + b_o)),  y_i = LN₂(u_i + drop(FFN(u_i))),
    m_i = concat over heads of Σ over edges j → i of a_ij v_j,
    a = softmax over the edges into i of q_i · k_j / √D + struct[h, 0 if j = i else 1] + (W_edge e_ij)_h

    norm_first: u = res(x) + drop(W_o m(LN₁ x) + b_o), y = u + drop(FFN(LN₂ u)). res(x) = x, or W_res x where sizes
    differ; FFN(u) = W₂ act(W₁ u + b₁) + b₂. Inputs x (V, in_features), edges (2, E), edge_features=None
    (E, edge_dim), those of added loops 0; q, k, v maps (heads · D, in_features); y (V, out_features).
    Paper: Dwivedi & Bresson 2021, arXiv:2012.09699; Shi et al. 2021, arXiv:2009.03509; struct as in Ying et al. 2021,
    arXiv:2106.05234.
    """

    spec_name = "GraphTransformerLayer"
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result")
    heads: int = positive(8, doc="how many weights an edge has")
    head_dim: int | None = field(None, doc="D, features of a head; None: out_features / heads", gt=0)
    edge_dim: int | None = field(None, doc="features of an edge; None: it has none", gt=0)
    ffn_dim: int | None = field(None, doc="features inside FFN; None: 4 · out_features", gt=0)
    dropout: float = fraction(0.1, doc="probability that a weight or a feature is dropped in training")
    activation: Act = field("gelu", doc="name of the function in FFN; None: identity")
    structural_bias: bool = field(True, doc="whether scores of loops and of other edges have a number of their own")
    add_self_loops: bool = field(True, doc="whether every node has one edge to itself, in place of those it has")
    norm_first: bool = field(False, doc="whether inputs are normalised, rather than sums")
    examples = [(dict(in_features=4, out_features=4, heads=2, dropout=0.0), [(6, 4), EDGES]),
                (dict(out_features=4, heads=2, edge_dim=2, norm_first=True, add_self_loops=False, dropout=0.0,
                      head_dim=3, ffn_dim=5), [(6, 3), EDGES, FEATURES]),
                (dict(out_features=4, heads=2, structural_bias=False, add_self_loops=False, dropout=0.0),
                 [(6, 4), EDGES])]

    def validate(self) -> None:
        if self.head_dim is None and self.out_features % self.heads:
            raise ConfigError(f"GraphTransformer: expected out_features, a multiple of heads = {self.heads}; got "
                              f"{self.out_features}; or give head_dim.")

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        wide = self.heads * (self.head_dim or out // self.heads)
        self.w_q, self.w_k, self.w_v = (new.weight(wide, n) for _ in range(3))
        self.b_q, self.b_k, self.b_v = (new.bias(wide, fan_in=n) for _ in range(3))
        self.w_o, self.b_o = new.weight(out, wide), new.bias(out, fan_in=wide)
        self.struct = new.zeros(self.heads, 2) if self.structural_bias else None
        self.w_edge = new.weight(self.heads, self.edge_dim) if self.edge_dim else None
        self.w_res = new.weight(out, n) if n != out else None
        self.norm1, self.norm2 = LayerNorm(n if self.norm_first else out), LayerNorm(out)
        ffn = self.ffn_dim or 4 * out
        self.w1, self.b1 = new.weight(ffn, out), new.bias(ffn, fan_in=out)
        self.w2, self.b2 = new.weight(out, ffn), new.bias(out, fan_in=ffn)
        self.drop = Dropout(p=self.dropout)

    def formula(self, x: Tensor, edges: Edges,  # type: ignore[override]
                edge_features: Tensor | None = None) -> Tensor:
        features = self.features_of(edges, edge_features, self.edge_dim or 0)
        residual = x if self.w_res is None else F.linear(x, self.w_res)
        m = self._messages(self.norm1(x) if self.norm_first else x, edges, features)
        u = residual + self.drop(F.linear(m, self.w_o, self.b_o))
        if self.norm_first:
            return u + self.drop(self._feed(self.norm2(u)))
        u = self.norm1(u)
        y: Tensor = self.norm2(u + self.drop(self._feed(u)))
        return y

    def last(self, y: Tensor) -> Tensor:
        return y

    def _feed(self, u: Tensor) -> Tensor:
        return F.linear(activation(self.activation)(F.linear(u, self.w1, self.b1)), self.w2, self.b2)

    def _messages(self, x: Tensor, edges: Edges, features: Tensor | None) -> Tensor:
        q, k, v = (F.reshape(F.linear(x, w, b), (x.shape[0], self.heads, w.shape[0] // self.heads))
                   for w, b in ((self.w_q, self.b_q), (self.w_k, self.b_k), (self.w_v, self.b_v)))
        scale = float(q.shape[2]) ** -0.5
        scores, own = edge_dot(q, k, edges) * scale, F.sum(q * k, -1) * scale if self.add_self_loops else None
        if self.struct is not None:
            loop, other = self.struct[:, 0], self.struct[:, 1]
            scores = scores + F.where(is_loop(edges), loop, other)
            own = None if own is None else own + loop
        if features is not None and self.w_edge is not None:
            scores = scores + F.linear(features, self.w_edge)
        y = attended(v, scores, own, edges, self.drop)
        return F.reshape(y, (x.shape[0], self.heads * v.shape[2]))
