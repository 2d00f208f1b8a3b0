"""Pictures of what was measured, as PNG bytes; drawn with matplotlib's Agg canvas, with no global state."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
INK, FAST, SLOW, BARS = "#444444", "#2a7f62", "#c0562f", "#3b6ea5"
PLAIN = {"parse_math": False}  # a name with $ is a name, not a formula


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _png(figure: Any) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def histograms(errors: dict[str, Array], title: str, allowed: float) -> bytes:
    """Distributions of log10 of the errors, one line a name, with the limit."""
    figure, axes = _figure(8, 0.42 * max(len(errors), 3) + 1.2)
    bins = np.linspace(-10, 1, 67)
    for k, (name, e) in enumerate(reversed(errors.items())):
        with np.errstate(divide="ignore"):
            logs = np.clip(np.nan_to_num(np.log10(e), nan=1.0, posinf=1.0), -10, 1)
        counts, edges = np.histogram(logs, bins)
        height = counts / max(counts.max(initial=0), 1) * 0.85
        axes.fill_between(edges[:-1], k, k + height, step="post", color=BARS, linewidth=0)
        axes.text(-10.1, k + 0.1, name[:40], ha="right", va="bottom", fontsize=8, **PLAIN)
    axes.axvline(np.log10(allowed), color=SLOW, linewidth=1)
    axes.text(np.log10(allowed), len(errors), " allowed", color=SLOW, fontsize=8)
    axes.set(yticks=[], xlabel="log10 of |a − b| / (1 + |b|); equal values stand at −10", xlim=(-10, 1))
    axes.spines["left"].set_visible(False)
    axes.set_title(title, fontsize=10, color=INK, loc="left", **PLAIN)
    return _png(figure)


def ratios(names: Sequence[str], values: Sequence[float], title: str) -> bytes:
    """Horizontal bars of peer time / our time around 1, on a logarithmic axis."""
    figure, axes = _figure(8, 0.28 * max(len(names), 3) + 1.2)
    where = np.arange(len(names))[::-1]
    axes.barh(where, np.log2(values), color=[FAST if v >= 1 else SLOW for v in values], height=0.7)
    for y, v in zip(where, values, strict=True):
        axes.text(np.log2(v), y, f" {v:.2f} ", va="center", ha="left" if v >= 1 else "right", fontsize=8)
    axes.set_yticks(where, [n[:44] for n in names], fontsize=8, **PLAIN)
    low, high = int(np.floor(np.min(np.log2(values), initial=-1.0))), int(np.ceil(np.max(np.log2(values), initial=1.0)))
    ticks = np.arange(low, high + 1, 1 + (high - low) // 10)
    axes.set_xticks(ticks, [f"{2.0**t:.3g}×" for t in ticks], fontsize=8)
    axes.set(xlim=(low - 0.8, high + 0.8), xlabel="peer's time / our time: right of 1 we are faster")
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_title(title, fontsize=10, color=INK, loc="left", **PLAIN)
    return _png(figure)


def curves(series: Mapping[str, Sequence[float]], title: str, xlabel: str = "epoch", ylabel: str = "", log: bool = False,
           size: tuple[float, float] = (6, 3)) -> bytes:
    """Lines over 1, 2, 3 … with their names at their ends."""
    figure, axes = _figure(*size)
    for name, values in series.items():
        x = np.arange(1, len(values) + 1)
        axes.plot(x, values, marker="o" if len(values) < 30 else None, markersize=3, linewidth=1.4)
        if len(values):
            axes.annotate(f" {name}", (x[-1], values[-1]), fontsize=8, **PLAIN)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if log and all(np.all(np.asarray(v) > 0) for v in series.values()):
        axes.set_yscale("log")
    axes.set_title(title, fontsize=10, color=INK, loc="left", **PLAIN)
    return _png(figure)
