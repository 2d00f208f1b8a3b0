"""Layers over graphs whose edges carry messages of their own: by networks, by features and kinds of edges."""

from __future__ import annotations

import numpy as np

from .. import ops as F
from ..config.fields import bound, choice, field, positive
from ..core.spec import INTS
from ..core.tensor import Tensor
from ..errors import ConfigError, DTypeError, ShapeError
from ..ops.graphs import (
    AGGREGATE,
    Edges,
    degrees,
    edge_max,
    edge_mean,
    edge_sum,
    edge_take,
    neighbour_sum,
)
from .base import New
from .fields import Act
from .graph import EDGES, _GraphLayer
from .graph_attention import FEATURES

KINDS = np.array([0, 1, 1, 0, 2, 0, 1, 0], np.int32)  # in examples: of the edges
NODES = np.array([0, 1, 0, 0, 1, 1], np.int32)
LEAST = 1e-5  # a variance that counts as none


def _ends(x: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
    """(x_j, x_i) of the edges j → i"""
    return edge_take(x, edges, reverse=True), edge_take(x, edges)


class MessagePassing(_GraphLayer):
    """y_i = act(GRU(a_i, h_i)),  a_i = AGG over edges j → i of W₂ relu(W₁ [x_j ; x_i ; e_ij] + b₁) + b₂

    h_i = x_i, or W_in x_i where sizes differ; GRU is one step of the cell, with input a_i and state h_i. Inputs
    x (V, in_features), edges (2, E), edge features (E, edge_features) if there are; W₁ (message_features,
    2 in_features + edge_features), W₂ (message_features, message_features), W_ih (3 out_features, message_features),
    W_hh (3 out_features, out_features); y (V, out_features). AGG over no edges is 0.
    Paper: Gilmer et al. 2017, arXiv:1704.01212; Li et al. 2016, arXiv:1511.05493.
    """

    spec_name = "MessagePassingLayer"
    aliases = ("MPNN",)
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result")
    message_features: int | None = field(None, doc="features of a message; None: out_features", gt=0)
    edge_features: int = field(0, doc="features of an edge", ge=0)
    aggregator: str = choice("sum", ("sum", "mean", "max"), doc="AGG, feature by feature")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_features=3, out_features=3), [(6, 3), EDGES]),
                (dict(out_features=2, message_features=4, edge_features=2, aggregator="max", activation="tanh"),
                 [(6, 3), EDGES, FEATURES])]

    def setup(self, new: New) -> None:
        n, out, m = self.in_features or 0, self.out_features, self.message_features or self.out_features
        wide = 2 * n + self.edge_features
        self.w1, self.b1 = new.weight(m, wide), new.bias(m, fan_in=wide)
        self.w2, self.b2 = new.weight(m, m), new.bias(m, fan_in=m)
        self.w_in = new.weight(out, n) if n != out else None
        self.w_ih, self.w_hh = new.weight(3 * out, m, fan_in=out), new.weight(3 * out, out)
        self.b_ih, self.b_hh = new.bias(3 * out, fan_in=out), new.bias(3 * out, fan_in=out)

    def formula(self, x: Tensor, edges: Edges,  # type: ignore[override]
                edge_features: Tensor | None = None) -> Tensor:
        features = self.features_of(edges, edge_features, self.edge_features)
        n = x.shape[1]
        # W₁ [x_j ; x_i ; e_ij], its part of the nodes computed once a node
        z = edge_take(F.linear(x, self.w1[:, :n]), edges, reverse=True) + edge_take(
            F.linear(x, self.w1[:, n : 2 * n], self.b1), edges)
        if features is not None:
            z = z + F.linear(features, self.w1[:, 2 * n :])
        a = AGGREGATE[self.aggregator](F.linear(F.relu(z), self.w2, self.b2), edges)
        h = x if self.w_in is None else F.linear(x, self.w_in)
        return F.gru_cell(F.linear(a, self.w_ih, self.b_ih), h, self.w_hh, self.b_hh)


class EdgeConditionedConv(_GraphLayer):
    """y_i = act(AGG over edges e = j → i of x_jᵀ Θ(e) + W_root x_i + b),  Θ(e) = W₂ relu(W₁ e + b₁) + b₂, as a matrix
    (in_features, out_features)

    Inputs x (V, in_features), edges (2, E), edge features (E, edge_features); W₁ (hidden_features, edge_features),
    W₂ (in · out, hidden_features), W_root (out, in), b (out); y (V, out_features). It keeps a matrix an edge:
    4 E · in · out bytes. AGG over no edges is 0.
    Paper: Simonovsky & Komodakis 2017, arXiv:1704.02901; Gilmer et al. 2017, arXiv:1704.01212.
    """

    spec_name = "EdgeConditionalConvolutionalLayer"
    aliases = ("ECC", "NNConv")
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result")
    edge_features: int = positive(doc="features of an edge")
    hidden_features: int = positive(64, doc="features between the two maps of an edge")
    aggregator: str = choice("sum", ("sum", "mean", "max"), doc="AGG, feature by feature")
    root_weight: bool = field(True, doc="whether W_root x_i is added")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_features=3, out_features=2, edge_features=2, hidden_features=4), [(6, 3), EDGES, FEATURES]),
                (dict(out_features=2, edge_features=2, hidden_features=3, aggregator="mean", root_weight=False,
                      activation="tanh"), [(2, 6, 3), EDGES, FEATURES])]

    def setup(self, new: New) -> None:
        n, out, hidden = self.in_features or 0, self.out_features, self.hidden_features
        self.w1, self.b1 = new.weight(hidden, self.edge_features), new.bias(hidden, fan_in=self.edge_features)
        self.w2, self.b2 = new.weight(n * out, hidden), new.bias(n * out, fan_in=hidden)
        self.w_root = new.weight(out, n) if self.root_weight else None
        self.bias = new.bias(out, fan_in=n) if self.use_bias else None

    def formula(self, x: Tensor, edges: Edges, edge_features: Tensor | None = None) -> Tensor:  # type: ignore[override]
        features = self.features_of(edges, edge_features, self.edge_features)
        assert features is not None
        n, out = x.shape[1], self.out_features
        theta = F.linear(F.relu(F.linear(features, self.w1, self.b1)), self.w2, self.b2)
        theta = F.reshape(theta, (edges.size, n, out))
        messages = F.matmul(F.reshape(edge_take(x, edges, reverse=True), (edges.size, 1, n)), theta)
        y = AGGREGATE[self.aggregator](F.reshape(messages, (edges.size, out)), edges)
        y = y if self.w_root is None else y + F.linear(x, self.w_root)
        return y if self.bias is None else y + self.bias


class PNA(_GraphLayer):
    """y_i = act(W_lin (W_post [x_i ; all] + b_post) + b_lin),  all = every scaler of every AGG over edges j → i of
    W_pre [x_i ; x_j ; e_ij] + b_pre

    AGG: "mean", "min", "max", "sum", "var", "std" (√var, 0 where var ≤ 1e-5); over no edges 0. Scalers, d edges into i,
    δ = avg_log_degree: "identity" 1, "amplification" ln(d + 1) / δ, "attenuation" δ / ln(max(d, 1) + 1). Inputs
    x (V, in_features), edges (2, E), edge features (E, edge_features) if there are; W_pre (in, 2 in + edge_features),
    W_post (out, in + in · |AGG| · |scalers|), W_lin (out, out); y (V, out_features).
    Paper: Corso et al. 2020, arXiv:2004.05718.
    """

    spec_name = "PrincipalNeighbourhoodAggregationLayer"
    aliases = ("PNAConv",)
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result")
    avg_log_degree: float = positive(doc="δ: mean of ln(d + 1) over the nodes that are trained on")
    aggregators: tuple[str, ...] = field(("mean", "min", "max", "std"), doc="names of AGG", min_length=1)
    scalers: tuple[str, ...] = field(("identity", "amplification", "attenuation"), doc="names", min_length=1)
    edge_features: int = field(0, doc="features of an edge", ge=0)
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_features=3, out_features=2, avg_log_degree=0.75), [(6, 3), EDGES]),
                (dict(out_features=2, avg_log_degree=0.5, aggregators=("sum", "var"), scalers=("attenuation",),
                      edge_features=2, activation="tanh"), [(6, 3), EDGES, FEATURES])]

    def validate(self) -> None:
        for name, given, known in (("aggregators", self.aggregators, ("mean", "min", "max", "sum", "var", "std")),
                                   ("scalers", self.scalers, ("identity", "amplification", "attenuation"))):
            if wrong := [n for n in given if n not in known]:
                raise ConfigError(f"PNA({name}={given!r}): expected names among {', '.join(known)}; got {wrong[0]!r}.")

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        wide, all = 2 * n + self.edge_features, n + n * len(self.aggregators) * len(self.scalers)
        self.w_pre, self.b_pre = new.weight(n, wide), new.bias(n, fan_in=wide)
        self.w_post, self.b_post = new.weight(out, all), new.bias(out, fan_in=all)
        self.w_lin, self.b_lin = new.weight(out, out), new.bias(out, fan_in=out)

    def formula(self, x: Tensor, edges: Edges,  # type: ignore[override]
                edge_features: Tensor | None = None) -> Tensor:
        features = self.features_of(edges, edge_features, self.edge_features)
        n = x.shape[1]
        m = edge_take(F.linear(x, self.w_pre[:, :n], self.b_pre), edges) + edge_take(
            F.linear(x, self.w_pre[:, n : 2 * n]), edges, reverse=True)
        if features is not None:
            m = m + F.linear(features, self.w_pre[:, 2 * n :])
        joined = F.concat([self._aggregated(name, m, edges) for name in self.aggregators], -1)
        d = degrees(edges, x.dtype)
        scale: dict[str, Tensor | float] = {"identity": 1.0, "amplification": F.log1p(d) / self.avg_log_degree,
                                            "attenuation": self.avg_log_degree / F.log1p(F.maximum(d, 1))}
        y = F.concat([x, *(joined * scale[name] for name in self.scalers)], -1)
        return F.linear(F.linear(y, self.w_post, self.b_post), self.w_lin, self.b_lin)

    def _aggregated(self, name: str, m: Tensor, edges: Edges) -> Tensor:
        if name == "min":
            return -edge_max(-m, edges)
        if name in AGGREGATE:
            return AGGREGATE[name](m, edges)
        mean = edge_mean(m, edges)
        var = edge_mean(F.square(m), edges) - F.square(mean)
        if name == "var":
            return var
        spread = var > LEAST
        return F.where(spread, F.sqrt(F.where(spread, var, 1)), 0)


class HeterogeneousGraphConv(_GraphLayer):
    """y_i = act(Σ over relations r of mean over edges j → i of kind r of x_j W_r + x_i W_self[t_i] + b[t_i])

    Inputs x (V, in_features), edges (2, E), kinds of edges (E) and of nodes, t=0 (V), integers;
    W (num_relations, in, out), or with num_bases W_r = Σ over b of comp[r, b] basis[b], basis (num_bases, in, out);
    W_self (num_node_types, in, out), b (num_node_types, out); y (V, out_features). Edges of a kind that is none are
    left out. Graph.of_types numbers kinds by their names and makes features equally wide.
    Paper: Schlichtkrull et al. 2018, arXiv:1703.06103.
    """

    spec_name = "HeterogeneousGraphLayer"
    aliases = ("RGCN", "RGCNConv")
    in_features: int | None = bound(doc="features of a node")
    out_features: int = positive(doc="features of a node of the result")
    num_relations: int = positive(doc="kinds of edges")
    num_node_types: int = positive(1, doc="kinds of nodes")
    num_bases: int | None = field(None, doc="matrices that those of relations are sums of; None: each its own", gt=0)
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(in_features=3, out_features=2, num_relations=3), [(6, 3), EDGES, KINDS]),
                (dict(out_features=2, num_relations=3, num_node_types=2, num_bases=2, activation="tanh"),
                 [(6, 3), EDGES, KINDS, NODES])]

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        each = self.num_bases or self.num_relations
        self.weight = new.weight(each, n, out, fan_in=n)
        self.comp = new.weight(self.num_relations, each) if self.num_bases else None
        self.w_self = new.weight(self.num_node_types, n, out, fan_in=n)
        self.bias = new.bias(self.num_node_types, out, fan_in=n) if self.use_bias else None

    def formula(self, x: Tensor, edges: Edges, edge_type: Tensor | None = None,  # type: ignore[override]
                node_type: Tensor | None = None) -> Tensor:
        if edge_type is None:
            raise ShapeError("HeterogeneousGraphConv: expected kinds of edges (E) behind the edges; got none.")
        y = self._neighbours(x, edges, edges.own(self._numbers_of("edges", edge_type)))
        count, out = self.num_node_types, self.out_features
        if count == 1:
            own = F.linear(x, F.transpose(self.w_self[0]), None if self.bias is None else self.bias[0])
            return y + own
        if node_type is None:
            raise ShapeError(f"HeterogeneousGraphConv: expected kinds of nodes (V) behind those of edges, as there are "
                             f"{count}; got none.")
        kind = F.one_hot(self._numbers_of("nodes", node_type), count, x.dtype)
        kind = kind if kind.shape[0] == x.shape[0] else F.concat([kind] * (x.shape[0] // kind.shape[0]), 0)
        all = F.reshape(F.matmul(x, self._side_by_side(self.w_self.tensor)), (x.shape[0], count, out))
        all = all if self.bias is None else all + self.bias
        return y + F.sum(all * F.reshape(kind, (x.shape[0], count, 1)), 1)

    def _numbers_of(self, of: str, kinds: Tensor) -> Tensor:
        if kinds.dtype not in INTS or kinds.ndim != 1:
            raise (ShapeError if kinds.dtype in INTS else DTypeError)(
                f"HeterogeneousGraphConv: expected kinds of {of}, integers, one each; got {kinds.dtype}{kinds.shape}.")
        return F.cast(kinds, "int32")

    @staticmethod
    def _side_by_side(w: Tensor) -> Tensor:
        """(k, in, out) -> (in, k · out)"""
        return F.reshape(F.permute(w, 1, 0, 2), (w.shape[1], w.shape[0] * w.shape[2]))

    def _neighbours(self, x: Tensor, edges: Edges, kind: Tensor) -> Tensor:
        """Σ over relations of means: edges lead from (j, relation), of which there are V · R, weighed by one over how
        many of their kind the target has.
        """
        count, out = self.num_relations, self.out_features
        w = self.weight.tensor
        if self.comp is not None:
            w = F.reshape(F.matmul(self.comp, F.reshape(w, (w.shape[0], -1))), (count, *w.shape[1:]))
        z = F.reshape(F.matmul(x, self._side_by_side(w)), (x.shape[0] * count, out))
        own = F.one_hot(kind, count, x.dtype)
        share = F.sum(own * edge_take(1 / F.maximum(edge_sum(own, edges), 1), edges), -1)
        return neighbour_sum(z, edges.of_kinds(kind, count), share)
