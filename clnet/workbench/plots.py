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
    figure, axes = _figure(9, 0.28 * max(len(names), 3) + 1.2)
    where = np.arange(len(names))[::-1]
    axes.barh(where, np.log2(values), color=[FAST if v >= 1 else SLOW for v in values], height=0.7)
    for y, v in zip(where, values, strict=True):
        axes.text(np.log2(v), y, f" {v:.2f} ", va="center", ha="left" if v >= 1 else "right", fontsize=8)
    axes.set_yticks(where, [n[:60] for n in names], fontsize=8, **PLAIN)
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


def roofline(points: Mapping[str, tuple[float, float]], gflops: float, gbytes: float, title: str) -> bytes:
    """What was reached [GFLOP/s] over flops a byte, numbered and named at the side, under the roof of the device's measured peak."""
    figure, axes = _figure(9, max(4.5, 0.17 * len(points) + 1))
    x = np.array([p[0] for p in points.values()])
    low, high = min(x.min(initial=0.1), gflops / gbytes) / 2, max(x.max(initial=1.0), gflops / gbytes) * 2
    over = np.geomspace(low, high, 200)
    axes.plot(over, np.minimum(gflops, over * gbytes), color=INK, linewidth=1.4)
    for k, (name, (at, reached)) in enumerate(points.items(), 1):
        share = reached / min(gflops, at * gbytes)
        axes.plot(at, reached, "o", markersize=4, color=FAST if share >= 0.5 else SLOW, label=f"{k} {name[:44]}: {share:.0%}")
        axes.annotate(f" {k}", (at, reached), fontsize=6)
    axes.set(xscale="log", yscale="log", xlabel="flops a byte", ylabel="GFLOP/s")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=6, frameon=False, handlelength=0.5)
    axes.set_title(f"{title}: roof {gflops:.0f} GFLOP/s and {gbytes:.0f} GB/s", fontsize=10, color=INK, loc="left", **PLAIN)
    return _png(figure)


def growth(series: Mapping[str, Mapping[float, float]], title: str, xlabel: str, ylabel: str) -> bytes:
    """Lines over the sizes on two logarithmic axes; the dotted line grows as the size does, from the first line's last point back."""
    figure, axes = _figure(6, 4)
    for name, points in series.items():
        axes.plot(list(points), list(points.values()), marker="o", markersize=4, linewidth=1.4, label=name)
    sizes, values = (list(c) for c in zip(*next(iter(series.values())).items(), strict=True))
    axes.plot(sizes, [values[-1] * s / sizes[-1] for s in sizes], linestyle=":", linewidth=1, color=INK, label="linear")
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel, ylim=(min(min(p.values()) for p in series.values() if p) / 2, None))
    axes.set_xticks(sizes, [f"{s:g}" for s in sizes])
    axes.legend(fontsize=8, frameon=False)
    axes.set_title(title, fontsize=10, color=INK, loc="left", **PLAIN)
    return _png(figure)


def groups(bars: Mapping[str, Mapping[str, float]], title: str, xlabel: str) -> bytes:
    """Horizontal bars in groups: a group a name, a colour a member."""
    members = list(dict.fromkeys(m for g in bars.values() for m in g))
    figure, axes = _figure(8, 0.2 * sum(len(g) + 1 for g in bars.values()) + 1.2)
    y, ticks = 0.0, []
    colors = dict(zip(members, ("#2a7f62", "#999999", "#3b6ea5", "#c0562f", "#8a5aa5"), strict=False))
    for name, group in bars.items():
        ticks.append((y - (len(group) - 1) / 2, name))
        for member, value in group.items():
            axes.barh(y, value, height=0.9, color=colors.get(member, INK))
            axes.text(value, y, f" {value:.3g}", va="center", fontsize=7)
            y -= 1
        y -= 1
    axes.set_yticks([t for t, _ in ticks], [n[:44] for _, n in ticks], fontsize=8, **PLAIN)
    axes.legend(handles=[_patch(c, m) for m, c in colors.items()], loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    axes.set(xlabel=xlabel)
    axes.set_title(title, fontsize=10, color=INK, loc="left", **PLAIN)
    return _png(figure)


def _patch(color: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=color, label=label)
