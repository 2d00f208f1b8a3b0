"""The bench's networks in PyTorch, as its own users write them.
The module is handed in: PyTorch is never a dependency.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

    from .peers import TheirTensor

RESNET20 = ((16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1),
            (64, 64, 1))


def mlp(torch: ModuleType) -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def cnn(torch: ModuleType) -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10))


def resnet20(torch: ModuleType) -> Any:
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, i: int, o: int, stride: int) -> None:
            super().__init__()
            first, second = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.Conv2d(o, o, 3, 1, 1, bias=False)
            self.body = nn.Sequential(first, nn.BatchNorm2d(o), nn.ReLU(), second, nn.BatchNorm2d(o))
            same = stride == 1 and i == o
            self.short = nn.Identity() if same else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False),
                                                                  nn.BatchNorm2d(o))

        def forward(self, x: TheirTensor) -> Any:
            return torch.relu(self.body(x) + self.short(x))

    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                         *(Block(*b) for b in RESNET20), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def lstm(torch: ModuleType) -> Any:
    nn = torch.nn

    class Last(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.out = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x: TheirTensor) -> Any:
            return self.out(self.lstm(x)[0][:, -1])

    return Last()


def bilstm(torch: ModuleType, features: int, hidden: int) -> Any:
    """The last outputs of both walks, and a layer on them."""
    nn = torch.nn

    class Both(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(features, hidden, batch_first=True, bidirectional=True)
            self.out = nn.Linear(2 * hidden, 10)

        def forward(self, x: TheirTensor) -> Any:
            y = self.lstm(x)[0]
            return self.out(torch.cat([y[:, -1, :hidden], y[:, 0, hidden:]], -1))

    return Both()


def gpt(torch: ModuleType, width: int = 128, heads: int = 4, depth: int = 4, tokens: int = 96,
        length: int = 128) -> Any:
    nn = torch.nn

    class GPT(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.position = nn.Embedding(tokens, width), nn.Parameter(torch.zeros(length, width))
            block = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True, norm_first=True,
                                               activation="gelu")
            self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
            self.out = nn.Linear(width, tokens)

        def forward(self, x: TheirTensor) -> Any:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
            return self.out(self.blocks(self.embed(x) + self.position[:x.shape[1]], mask=mask, is_causal=True))

    return GPT()


def state(module: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The module's state from our variables, which stand in the same order; of the gpt by its names."""
    if any(name.endswith("w_q") for name in values):
        return gpt_state(dict(values))
    names = [name for name in module.state_dict() if not name.endswith("num_batches_tracked")]
    return dict(zip(names, values.values(), strict=True))


def gpt_state(values: dict[str, Any]) -> dict[str, Any]:
    """The gpt's state for PyTorch from our variables, which keep queries, keys and values apart."""
    found = {"embed.weight": values.pop("layers.0.weight"), "position": values.pop("layers.1.pe")}
    last = max(int(name.split(".")[1]) for name in values)
    for name, value in values.items():
        _, k, rest = name.split(".", 2)
        found[f"out.{rest}" if int(k) == last else f"blocks.layers.{int(k) - 2}.{rest}"] = value
    for block in [name.removesuffix("w_q") for name in found if name.endswith("self_attn.w_q")]:
        for kind, name in (("w", "weight"), ("b", "bias")):
            found[f"{block}in_proj_{name}"] = np.concatenate([found.pop(f"{block}{kind}_{part}") for part in "qkv"])
            found[f"{block}out_proj.{name}"] = found.pop(f"{block}{kind}_o")
    return found
