"""Arrays arranged anew, counts, places in sorted rows: each (inputs, attributes) -> output or outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from rules import by


def diag(x: Any, k: int) -> Any:
    return torch.diag(x, k)


def repeat(x: Any, repeats: int, axis: Any = None) -> Any:
    return torch.repeat_interleave(x, repeats, axis)


def histogram(x: Any, bins: int, range: Any = None) -> Any:
    return np.histogram(x, bins, range)[0]


RULES: dict[str, Any] = {
    "tril": lambda x, k=0: torch.tril(x, k), "triu": lambda x, k=0: torch.triu(x, k), "diag": diag,
    "roll": lambda x, shift, axis=None: torch.roll(x, shift, axis), "repeat": repeat,
    "tile": lambda x, repeats: torch.tile(x, repeats),
    "squeeze": lambda x, axis=None: torch.squeeze(x) if axis is None else torch.squeeze(x, axis),
    "unsqueeze": lambda x, axis: torch.unsqueeze(x, axis), "swapaxes": lambda x, a, b: torch.swapaxes(x, a, b),
    "moveaxis": lambda x, source, target: torch.moveaxis(x, source, target), "outer": torch.outer,
    "meshgrid": lambda *xs, indexing="ij": torch.meshgrid(*xs, indexing=indexing),
    "linspace": by("numpy")(lambda start, stop, num: np.linspace(start, stop, num)),
    "eye": by("numpy")(lambda n, m=None, k=0: np.eye(n, m, k)),
    "masked_fill": lambda x, mask, value: x.masked_fill(torch.tensor(mask), value),
    "index_select": lambda x, axis, index: torch.index_select(x, axis, torch.tensor(index)),
    "searchsorted": lambda row, values, side="left": torch.searchsorted(row.detach(), values.detach(), side=side),
    "bincount": lambda x, weights=None, length=0: torch.zeros(
        max(length, int(x.max()) + 1), dtype=torch.int64 if weights is None else weights.dtype).index_add(
        0, x, torch.ones_like(x) if weights is None else weights),
    "histogram": by("numpy")(histogram),
}
MORE: dict[str, Any] = {}
