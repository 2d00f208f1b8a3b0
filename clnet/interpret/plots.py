"""Pictures of what is inside a model, in the style of clnet.picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DataError
from ..picture import BARS, COLORS, INK, SLOW, SMALL, SOFT, WIDTH, Picture, figure, png, titled
from ..show import shorten

Array = np.ndarray[Any, Any]
MOST = 64  # small pictures in one


def _grid(count: int, columns: int, side: float = 1.15, words: bool = False) -> tuple[Any, Any, list[Any]]:
    """(figure, its first axes, axes of `count` small pictures without ticks)"""
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    drawing, axes = figure(rows * (side + 0.3 * words) + 0.5, max(columns * side + 0.2, 3.2))
    axes.remove()
    cells = [drawing.add_subplot(rows, columns, k + 1) for k in range(count)]
    for cell in cells:
        cell.set(xticks=[], yticks=[])
        cell.spines[:].set_visible(False)
    return drawing, cells[0], cells


def _image(a: Array) -> Array:
    """(H, W), (1, H, W) or (3, H, W) as matplotlib draws it, brought to [0, 1]."""
    a = np.asarray(a, np.float64)
    a = a[0] if a.ndim == 3 and a.shape[0] == 1 else np.moveaxis(a, 0, -1) if a.ndim == 3 else a
    if a.ndim not in (2, 3) or (a.ndim == 3 and a.shape[-1] != 3):
        raise DataError(f"plots: expected images (H, W), (1, H, W) or (3, H, W); got {a.shape}.")
    low, high = a.min(), a.max()
    return np.asarray((a - low) / (high - low) if high > low else np.zeros_like(a))


def heatmaps(images: Array, maps: Array, title: str = "What the output depends on") -> Picture:
    """Images over their maps: red raises the output, blue lowers it. Maps of several channels are summed."""
    count = min(len(images), MOST // 2)
    drawing, first, cells = _grid(2 * count, count)
    for k in range(count):
        shown = np.asarray(maps[k], np.float64)
        shown = shown.sum(0) if shown.ndim == 3 else shown
        most = np.abs(shown).max() or 1.0
        cells[k].imshow(_image(images[k]), cmap="gray")
        cells[count + k].imshow(shown, cmap="RdBu_r", vmin=-most, vmax=most)
    titled(first, title)
    return png(drawing, title, "Above the images, below the maps, each by its own largest value: red raises the "
                               "output, blue lowers it.")


def pictures(images: Array, captions: Sequence[str] = (), title: str = "Filters", columns: int = 8) -> Picture:
    """Small pictures in a grid, each brought to its own range: filters (out, in, h, w) of other than 3 channels by
    their mean, images with captions.
    """
    shown = [np.asarray(a) for a in images[:MOST]]
    shown = [a.mean(0) if a.ndim == 3 and a.shape[0] not in (1, 3) else a for a in shown]
    if not shown:
        raise DataError("pictures: expected at least one image; got none.")
    drawing, first, cells = _grid(len(shown), columns, words=bool(captions))
    for k, (cell, a) in enumerate(zip(cells, shown, strict=True)):
        cell.imshow(_image(a), cmap="gray")
        if k < len(captions):
            cell.set_xlabel(shorten(captions[k], 18), fontsize=SMALL - 3, color=INK)
    titled(first, title)
    more = f" The first {len(shown)} of {len(images)}." if len(images) > len(shown) else ""
    return png(drawing, title, f"Each picture by its own range of values.{more}")


def histograms(values: Mapping[str, Array], title: str = "Activations", bins: int = 61) -> Picture:
    """Distributions, one line a name over one axis of values; exact zeros stand as a share behind the name."""
    drawn = dict(list(values.items())[:40])
    if not drawn:
        raise DataError("histograms: expected at least one array; got none.")
    flat = {n: a[np.isfinite(a)] for n, v in drawn.items() if (a := np.ravel(np.asarray(v, np.float64))).size}
    edge = max((float(np.quantile(np.abs(a), 0.999)) for a in flat.values() if a.size), default=0.0) or 1.0
    edges = np.linspace(-edge, edge, bins)
    drawing, axes = figure(0.36 * max(len(flat), 3) + 1.4, WIDTH)
    for k, a in enumerate(reversed(flat.values())):
        counts, _ = np.histogram(np.clip(a[a != 0], -edge, edge), edges)
        axes.fill_between(edges[:-1], k, k + counts / max(counts.max(), 1) * 0.85, step="post", linewidth=0, color=BARS)
    words = [f"{shorten(n, 24)}{f'  {np.mean(a == 0):.0%} zeros' if a.size and (a == 0).any() else ''}"
             for n, a in flat.items()]
    axes.set_yticks(np.arange(len(flat)) + 0.3, words[::-1], parse_math=False)
    axes.tick_params(left=False)
    axes.axvline(0, color=SOFT, linewidth=0.8)
    axes.set(xlabel="value", ylim=(-0.1, len(flat)))
    axes.spines["left"].set_visible(False)
    titled(axes, title)
    return png(drawing, title, "How often each value is, by layer; equal heights are each one's most frequent. The "
                               "outermost bars hold what lies further out.")


def points(where: Array, labels: Array | None = None, names: Sequence[str] = (), shares: Sequence[float] = (),
           title: str = "Embeddings") -> Picture:
    """Points (N, 2), a colour and shape a label, with the shares of the variance on the axes."""
    xy = np.asarray(where, np.float64)
    if xy.ndim != 2 or xy.shape[1] < 2:
        raise DataError(f"points: expected points (N, 2); got {xy.shape}.")
    drawing, axes = figure(4.4)
    kinds = np.zeros(len(xy), int) if labels is None else np.asarray(labels).reshape(-1)
    for k, kind in enumerate(np.unique(kinds)):
        mine = kinds == kind
        axes.scatter(xy[mine, 0], xy[mine, 1], s=14, color=COLORS[k % len(COLORS)], alpha=0.75, linewidth=0,
                     marker="os^Dv"[k // len(COLORS) % 5], label=names[k] if k < len(names) else str(kind))
    said = [f" ({s:.0%} of the variance)" for s in shares] + ["", ""]
    axes.set(xlabel=f"first component{said[0]}", ylabel=f"second component{said[1]}")
    if labels is not None:
        drawing.legend(loc="outside right upper", fontsize=SMALL, frameon=False)
    titled(axes, title)
    return png(drawing, title)


def bars(shares: Mapping[str, float], title: str = "Units that never answer") -> Picture:
    """Shares of 1 by name."""
    drawing, axes = figure(0.34 * max(len(shares), 2) + 1.3)
    where = np.arange(len(shares))[::-1]
    axes.barh(where, list(shares.values()), color=SLOW, height=0.7)
    for y, v in zip(where, shares.values(), strict=True):
        axes.text(v, y, f" {v:.0%}", va="center", fontsize=SMALL)
    axes.set_yticks(where, [shorten(n, 34) for n in shares], parse_math=False)
    axes.set(xlim=(0, 1.1), xlabel="share of the layer's units")
    titled(axes, title)
    return png(drawing, title)
