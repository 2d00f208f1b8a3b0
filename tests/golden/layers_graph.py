"""Layers over graphs, by PyTorch Geometric: each (layer with its fields, inputs, parameters by name) -> output."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT, by, geometric


def _call(kind: str, arguments: dict[str, Any], weights: dict[str, Any], x: Any, *more: Any) -> Any:
    """A module of torch_geometric with other weights, of one sample or several of one graph."""
    conv = getattr(geometric("nn"), kind)(**arguments).double()
    weights = {n: w for n, w in weights.items() if w is not None}
    assert weights.keys() == dict(conv.named_parameters()).keys()
    if x.ndim == 3:
        return torch.stack([torch.func.functional_call(conv, weights, (sample, *more)) for sample in x])
    return torch.func.functional_call(conv, weights, (x, *more))


@by("torch_geometric")
def graph_convolution(c: Any, x: Any, p: Any) -> Any:
    arguments = dict(in_channels=c.in_features, out_channels=c.out_features, add_self_loops=c.add_self_loops,
                     normalize=c.normalize, bias=c.use_bias)
    return ACT[c.activation](_call("GCNConv", arguments, {"lin.weight": p["weight"], "bias": p.get("bias")}, *x))


@by("torch_geometric")
def graph_attention(c: Any, x: Any, p: Any) -> Any:
    arguments = dict(in_channels=c.in_features, out_channels=c.out_features, heads=c.heads, concat=c.concat,
                     negative_slope=c.negative_slope, add_self_loops=c.add_self_loops, bias=c.use_bias)
    weights = {"lin.weight": p["weight"], "att_src": p["att_src"][None], "att_dst": p["att_dst"][None],
               "bias": p["bias"]}
    return ACT[c.activation](_call("GATConv", arguments, weights, *x))


@by("torch_geometric")
def graph_sage(c: Any, x: Any, p: Any) -> Any:
    arguments = dict(in_channels=c.in_features, out_channels=c.out_features, aggr=c.aggregator, normalize=c.normalize,
                     root_weight=c.root_weight, bias=c.use_bias)
    weights = {"lin_l.weight": p["w_neigh"], "lin_l.bias": p["bias"], "lin_r.weight": p.get("w_self")}
    return ACT[c.activation](_call("SAGEConv", arguments, weights, *x))


@by("torch_geometric")
def graph_isomorphism(c: Any, x: Any, p: Any) -> Any:
    hidden = c.hidden_features or c.out_features
    mlp = torch.nn.Sequential(torch.nn.Linear(c.in_features, hidden), torch.nn.ReLU(),
                              torch.nn.Linear(hidden, c.out_features))
    weights = {"nn.0.weight": p["w1"], "nn.0.bias": p["b1"], "nn.2.weight": p["w2"], "nn.2.bias": p["b2"],
               "eps": p.get("epsilon")}
    return ACT[c.activation](_call("GINConv", dict(nn=mlp, eps=c.eps, train_eps=c.train_eps), weights, *x))


@by("torch_geometric")
def graph_transformer(c: Any, x: Any, p: Any) -> Any:
    x, edges, *features = x
    inner = F.layer_norm(x, x.shape[-1:], p["norm1.weight"], p["norm1.bias"]) if c.norm_first else x
    m = _transformer_conv(c, inner, edges, p) if "struct" not in p else _scored(c, inner, edges, features, p)
    residual = F.linear(x, p["w_res"]) if "w_res" in p else x
    u, size = residual + F.linear(m, p["w_o"], p["b_o"]), (c.out_features,)

    def feed(u: Any) -> Any:
        return F.linear(ACT[c.activation](F.linear(u, p["w1"], p["b1"])), p["w2"], p["b2"])

    if c.norm_first:
        return u + feed(F.layer_norm(u, size, p["norm2.weight"], p["norm2.bias"]))
    u = F.layer_norm(u, size, p["norm1.weight"], p["norm1.bias"])
    return F.layer_norm(u + feed(u), size, p["norm2.weight"], p["norm2.bias"])


def _transformer_conv(c: Any, x: Any, edges: Any, p: Any) -> Any:
    arguments = dict(in_channels=c.in_features, out_channels=c.head_dim or c.out_features // c.heads, heads=c.heads,
                     root_weight=False)
    weights = {f"lin_{word}.{kind}": p[f"{letter}_{word[0]}"] for word in ("query", "key", "value")
               for kind, letter in (("weight", "w"), ("bias", "b"))}
    wide = p["w_v"].shape  # of a map of the node itself, which root_weight=False leaves out
    weights |= {"lin_skip.weight": torch.zeros(wide).double(), "lin_skip.bias": torch.zeros(wide[:1]).double()}
    return _call("TransformerConv", arguments, weights, x, edges)


def _scored(c: Any, x: Any, edges: Any, features: Any, p: Any) -> Any:
    """With parts of the scores that TransformerConv has not."""
    n, loops = len(x), edges[0] == edges[1]
    if c.add_self_loops:
        edges, loops = torch.cat([edges[:, ~loops], torch.arange(n).expand(2, n)], 1), torch.arange(
            int((~loops).sum()) + n) >= (~loops).sum()
    q, k, v = (F.linear(x, p[f"w_{w}"], p[f"b_{w}"]).unflatten(-1, (c.heads, -1)) for w in "qkv")
    scores = (q[edges[1]] * k[edges[0]]).sum(-1) / q.shape[-1] ** 0.5
    scores = scores + torch.where(loops[:, None], p["struct"][:, 0], p["struct"][:, 1])
    if features:
        scores = scores + features[0] @ p["w_edge"].T
    a = geometric("utils").softmax(scores, edges[1], num_nodes=n)
    return torch.zeros_like(v).index_add(0, edges[1], a[..., None] * v[edges[0]]).flatten(1)


@by("torch_geometric")
def directional(c: Any, x: Any, p: Any) -> Any:
    if c.combine != "alpha":
        return _concatenated(c, x, p)
    nn = geometric("nn")
    conv = nn.SAGEConv(c.in_features, c.out_features, aggr=c.aggregator, root_weight=False)
    weights = {"lin.weight": p["w_self"], "lin.bias": p["b_self"]}
    weights |= {f"conv_{w}.lin_l.{kind}": p[f"{letter}_{w}"] for w in ("in", "out")
                for kind, letter in (("weight", "w"), ("bias", "b"))}
    return ACT[c.activation](_call("DirGNNConv", dict(conv=conv, alpha=c.alpha), weights, *x))


def _concatenated(c: Any, x: Any, p: Any) -> Any:
    x, (source, target) = x
    parts = []
    for name, i, j in (("in", source, target), ("out", target, source)):
        total = torch.zeros_like(x).index_add(0, j, x[i])
        count = torch.bincount(j, minlength=len(x)).clamp(min=1)[:, None]
        parts.append(F.linear(total / count if c.aggregator == "mean" else total, p[f"w_{name}"], p[f"b_{name}"]))
    parts.append(F.linear(x, p["w_self"], p["b_self"]))
    if c.gated:
        gate = torch.sigmoid(F.linear(torch.cat(parts, -1), p["w_gate"], p["b_gate"]))
        parts = [gate[:, k : k + 1] * part for k, part in enumerate(parts)]
    return ACT[c.activation](F.linear(torch.cat(parts, -1), p["w_comb"], p["b_comb"]))


@by("torch_geometric")
def readout(c: Any, x: Any, p: Any) -> Any:
    x, *offsets = x
    if c.pooling:
        at = offsets[0] if offsets else torch.tensor([0, len(x)])
        batch = torch.repeat_interleave(torch.arange(len(at) - 1), at.diff())
        x = _aggregate(x, batch, len(at) - 1, c.pooling)
    return ACT[c.activation](F.linear(x, p["weight"], p.get("bias")))


def _aggregate(m: Any, target: Any, nodes: int, name: str) -> Any:
    aggregation = {"sum": "SumAggregation", "mean": "MeanAggregation", "max": "MaxAggregation"}[name]
    return getattr(geometric("nn.aggr"), aggregation)()(m, target, dim_size=nodes)


@by("torch_geometric")
def message_passing(c: Any, x: Any, p: Any) -> Any:
    x, (source, target), *features = x
    m = F.linear(torch.cat([x[source], x[target], *features], -1), p["w1"], p["b1"]).relu()
    order = torch.argsort(target, stable=True)  # as its aggregations want
    a = _aggregate(F.linear(m, p["w2"], p["b2"])[order], target[order], len(x), c.aggregator)
    h = F.linear(x, p["w_in"]) if "w_in" in p else x
    cell = torch.nn.GRUCell(a.shape[1], c.out_features).double()
    weights = {"weight_ih": p["w_ih"], "weight_hh": p["w_hh"], "bias_ih": p["b_ih"], "bias_hh": p["b_hh"]}
    return ACT[c.activation](torch.func.functional_call(cell, weights, (a, h)))


@by("torch_geometric")
def edge_conditioned(c: Any, x: Any, p: Any) -> Any:
    net = torch.nn.Sequential(torch.nn.Linear(c.edge_features, c.hidden_features), torch.nn.ReLU(),
                              torch.nn.Linear(c.hidden_features, c.in_features * c.out_features))
    arguments = dict(in_channels=c.in_features, out_channels=c.out_features, nn=net, aggr=c.aggregator,
                     root_weight=c.root_weight, bias=c.use_bias)
    weights = {"nn.0.weight": p["w1"], "nn.0.bias": p["b1"], "nn.2.weight": p["w2"], "nn.2.bias": p["b2"],
               "lin.weight": p.get("w_root"), "bias": p.get("bias")}
    return ACT[c.activation](_call("NNConv", arguments, weights, *x))


@by("torch_geometric")
def principal(c: Any, x: Any, p: Any) -> Any:
    """δ of PNAConv comes from a histogram of degrees: it is set afterwards."""
    x, edges, *features = x
    if features:
        return None  # there they go through one more map
    conv = geometric("nn").PNAConv(c.in_features, c.out_features, list(c.aggregators), list(c.scalers),
                                   deg=torch.tensor([1, 1])).double()
    conv.aggr_module.avg_deg_log = torch.tensor(c.avg_log_degree).double()
    weights = {f"{theirs}.{kind}": p[f"{letter}_{ours}"] for theirs, ours in
               (("pre_nns.0.0", "pre"), ("post_nns.0.0", "post"), ("lin", "lin"))
               for kind, letter in (("weight", "w"), ("bias", "b"))}
    assert weights.keys() == {n for n, _ in conv.named_parameters() if "aggr_module" not in n}
    return ACT[c.activation](torch.func.functional_call(conv, weights, (x, edges)))


@by("torch_geometric")
def heterogeneous(c: Any, x: Any, p: Any) -> Any:
    x, edges, kinds, *nodes = x
    arguments = dict(in_channels=c.in_features, out_channels=c.out_features, num_relations=c.num_relations,
                     num_bases=c.num_bases, root_weight=False, bias=False, aggr="mean")
    y = _call("RGCNConv", arguments, {"weight": p["weight"], "comp": p.get("comp")}, x, edges, kinds)
    kind = nodes[0] if nodes else torch.zeros(len(x), dtype=torch.long)
    own = torch.einsum("vi,vio->vo", x, p["w_self"][kind]) + p["bias"][kind]  # one of each kind
    return ACT[c.activation](y + own)


RULES = {
    "GraphConvolution": graph_convolution, "GraphAttention": graph_attention, "GraphSAGE": graph_sage,
    "GraphIsomorphism": graph_isomorphism, "GraphTransformer": graph_transformer, "DirectionalGraphConv": directional,
    "Readout": readout, "MessagePassing": message_passing, "EdgeConditionedConv": edge_conditioned, "PNA": principal,
    "HeterogeneousGraphConv": heterogeneous,
}
