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


def quantile(x: Any, q: Any, axes: Any = None) -> Any:
    kept = [a for a in range(x.ndim) if axes is not None and a not in np.ravel(axes)]
    rows = x.permute(*kept, *(a for a in range(x.ndim) if a not in kept)).flatten(len(kept))
    return torch.quantile(rows, torch.tensor(q, dtype=x.dtype), -1)


def _gaps(fold: Any, nothing: float) -> Any:
    """A fold over what is no NaN; NaN of nothing."""
    def rule(x: Any, axes: Any = None, keepdims: bool = False) -> Any:
        axes = tuple(range(x.ndim)) if axes is None else axes
        y = fold(torch.where(torch.isnan(x), nothing, x), axes, keepdims)
        return y if not nothing else torch.where(torch.isnan(x).all(axes, keepdims), torch.nan, y)
    return rule


def interp(x: Any, xs: Any, ys: Any) -> Any:
    """Hats over the points: each is 1 at its own and 0 at the others, and constant beyond the ends."""
    inside = x.clamp(xs[0].item(), xs[-1].item())
    at = torch.searchsorted(xs.detach(), inside.detach(), right=True).clamp(1, len(xs) - 1)
    share = torch.where((x > xs[0]) & (x < xs[-1]), (x - xs[at - 1]) / (xs[at] - xs[at - 1]), (x >= xs[-1]).double())
    return torch.lerp(ys[at - 1], ys[at], share)


RULES: dict[str, Any] = {
    "einsum": lambda *xs, equation: torch.einsum(equation, *xs),
    "diagonal": lambda x, k=0, a=0, b=1: torch.diagonal(x, k, a, b),
    "trace": lambda x, k=0, a=0, b=1: torch.diagonal(x, k, a, b).sum(-1),
    "flatten": lambda x, start=0: torch.flatten(x, start), "expand_as": lambda x, other: x.expand_as(other),
    "narrow": lambda x, axis, start, length: torch.narrow(x, axis, start, length),
    "rot90": lambda x, k=1, a=0, b=1: torch.rot90(x, k, (a, b)), "chunk": lambda x, parts, axis=0: x.chunk(parts, axis),
    "zeros_like": by("numpy")(np.zeros_like), "ones_like": by("numpy")(np.ones_like),
    "full_like": by("numpy")(lambda x, value: np.full_like(x, value)), "unbind": lambda x, axis=0: x.unbind(axis),
    "interp": interp, "tensordot": lambda x, y, axes=2: torch.tensordot(x, y, axes), "kron": torch.kron,
    "cross": lambda x, y, axis=-1: torch.cross(x, y, axis),
    "isinf": lambda x: torch.isinf(x.detach()), "logit": torch.logit,
    "isclose": by("numpy")(np.isclose), "allclose": by("numpy")(np.allclose),
    "array_equal": by("numpy")(np.array_equal),
    "nan_to_num": by("numpy")(np.nan_to_num), "logical_and": by("numpy")(np.logical_and),
    "logical_or": by("numpy")(np.logical_or), "logical_xor": by("numpy")(np.logical_xor),
    "count_nonzero": lambda x, axes: torch.count_nonzero(x, axes),
    "nansum": _gaps(torch.sum, 0.0), "nanmax": _gaps(torch.amax, -torch.inf), "nanmin": _gaps(torch.amin, torch.inf),
    "nanmean": lambda x, axes=None: torch.nanmean(x) if axes is None else torch.nanmean(x, axes),
    "quantile": quantile, "median": lambda x, axes=None: quantile(x, 0.5, axes),
    "cov": lambda x, ddof=1: torch.cov(x, correction=ddof), "corrcoef": torch.corrcoef,
    "diff": lambda x, n=1, axis=-1: torch.diff(x, n, axis),
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
