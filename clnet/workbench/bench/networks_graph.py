"""The bench's layers over graphs for PyTorch: those of PyTorch Geometric, or by `index_add` as they would be written
without it. The modules are handed in: neither is a dependency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from .peers import TheirTensor


def network(geometric: ModuleType | None, name: str, heads: int, width: int, torch: ModuleType) -> Any:
    """A module of (x, edge_index): torch_geometric's where it is given."""
    if geometric is not None:
        kind = {"GraphConvolution": "GCNConv", "GraphSAGE": "SAGEConv", "GraphAttention": "GATConv"}[name]
        more = {"heads": heads} if kind == "GATConv" else {}
        return getattr(geometric, kind)(width, width // heads, **more)
    return {"GraphConvolution": _convolution, "GraphSAGE": _sage, "GraphAttention": _attention}[name](
        torch, heads, width)


def _looped(torch: ModuleType, x: TheirTensor, edges: TheirTensor) -> Any:
    """With one edge from each node to itself, in place of those that there are."""
    nodes = torch.arange(len(x), device=x.device)
    return torch.cat([edges[:, edges[0] != edges[1]], torch.stack([nodes, nodes])], 1)


def _convolution(torch: ModuleType, heads: int, width: int) -> Any:
    class Convolution(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.map = torch.nn.Linear(width, width)

        def forward(self, x: TheirTensor, edges: TheirTensor) -> Any:
            source, target = _looped(torch, x, edges)
            scale = torch.bincount(target, minlength=len(x)).clamp(min=1).rsqrt()[:, None]
            z = scale * torch.nn.functional.linear(x, self.map.weight)
            return scale * torch.zeros_like(z).index_add(0, target, z[source]) + self.map.bias

    return Convolution()


def _sage(torch: ModuleType, heads: int, width: int) -> Any:
    class Sage(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.own, self.around = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

        def forward(self, x: TheirTensor, edges: TheirTensor) -> Any:
            source, target = edges
            count = torch.bincount(target, minlength=len(x)).clamp(min=1)[:, None]
            return self.around(torch.zeros_like(x).index_add(0, target, x[source]) / count) + self.own(x)

    return Sage()


def _attention(torch: ModuleType, heads: int, width: int) -> Any:
    class Attention(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.map = torch.nn.Linear(width, width)
            self.ends = torch.nn.Parameter(torch.randn(2, heads, width // heads) / width**0.5)

        def forward(self, x: TheirTensor, edges: TheirTensor) -> Any:
            source, target = _looped(torch, x, edges)
            z = torch.nn.functional.linear(x, self.map.weight).unflatten(1, (heads, -1))
            at = (z[None] * self.ends[:, None]).sum(-1)
            s = torch.nn.functional.leaky_relu(at[0][source] + at[1][target], 0.2)
            index = target[:, None].expand_as(s)
            top = torch.full_like(at[0], -torch.inf).scatter_reduce(0, index, s.detach(), "amax")
            e = torch.exp(s - top[target])
            a = e / torch.zeros_like(at[0]).index_add(0, target, e)[target]
            y = torch.zeros_like(z).index_add(0, target, a[..., None] * z[source])
            return y.flatten(1) + self.map.bias

    return Attention()
