"""Pictures of what was measured, in the style of clnet.picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..picture import BARS, COLORS, DPI, FAST, INK, LABEL, PLAIN, SLOW, SMALL, SOFT, WIDTH, Picture
from ..picture import figure as _figure
from ..picture import png as _png
from ..picture import titled as _titled
from ..show import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray[Any, Any]
MOST = 40  # distributions in one picture


def histograms(errors: Mapping[str, Array], title: str, allowed: float) -> Picture:
    """Distributions of log10 of the errors, one line a name, with the limit.
    Of more than MOST names those with the largest errors.
    """
    with np.errstate(divide="ignore"):
        logs = {n: np.nan_to_num(np.log10(np.ravel(e)), nan=9.0, posinf=9.0, neginf=-30.0) for n, e in errors.items()}
    worst = sorted(logs, key=lambda n: -logs[n].max(initial=-30.0))[:MOST]
    drawn = {n: v for n, v in logs.items() if n in worst}
    limit = float(np.log10(allowed)) if allowed > 0 else -12.0
    high = float(np.ceil(min(max([limit, *(v.max(initial=-30.0) for v in drawn.values())]) + 0.4, 9)))
    least = [float(np.quantile(v[v > -30], 0.02)) for v in drawn.values() if (v > -30).any()]
    low = max(min([limit - 3, *least]) - 0.5, -14.0)
    figure, axes = _figure(min(0.26 * max(len(drawn), 4) + 1.3, 9.0))
    bins = np.linspace(low, high, 61)
    for k, e in enumerate(reversed(drawn.values())):
        counts, _ = np.histogram(np.clip(e, low, high), bins)
        top = counts[1:].max(initial=0) or counts.max(initial=1)  # the many equal values would make the others flat
        axes.fill_between(bins[:-1], k, k + np.minimum(counts / top, 1) * 0.85, step="post", linewidth=0,
                          color=SLOW if e.max(initial=low) > limit else BARS)
    axes.axvline(limit, color=SLOW, linewidth=1.2)
    axes.set_yticks(np.arange(len(drawn)) + 0.3, [shorten(n, 26) for n in reversed(drawn)], **PLAIN)
    axes.tick_params(left=False)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set(xlabel="error |a − b| / (1 + |b|)", xlim=(low, high), ylim=(-0.2, len(drawn)))
    ticks = range(int(np.ceil(low)), int(high) + 1, 1 + int(high - low) // 8)
    axes.set_xticks(list(ticks), [f"$10^{{{t}}}$" for t in ticks])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    _titled(axes, title)
    left = "" if len(drawn) == len(logs) else f" The {len(drawn)} of {len(logs)} with the largest errors."
    return _png(figure, title,
                "How large the errors of each value's elements are. The line is what is allowed; equal values stand "
                f"at the left edge.{left}")


def maps(values: Mapping[str, Array], title: str) -> Picture:
    """Arrays side by side as maps, each with its own scale; more than two axes are laid out as rows and columns."""
    figure, first = _figure(2.8)
    first.remove()
    for at, (name, value) in zip(figure.subplots(1, len(values), squeeze=False)[0], values.items(), strict=True):
        array = np.asarray(value, np.float64)
        rows = math.prod(array.shape[: array.ndim // 2])
        flat = np.where(np.isfinite(array), array, np.nan).reshape(rows, -1)
        drawn = at.imshow(flat, aspect="auto", interpolation="nearest", cmap="cividis")
        at.set_title(name, fontsize=LABEL, color=INK, **PLAIN)
        at.set(xticks=[], yticks=[])
        scale = figure.colorbar(drawn, ax=at, location="bottom", shrink=0.9)
        ends = sorted({float(np.nanmin(flat)), float(np.nanmax(flat))}) if np.isfinite(flat).any() else []
        scale.set_ticks(ends, labels=[f"{v:.3g}" for v in ends])
        scale.ax.tick_params(labelsize=SMALL - 1)
    _titled(figure.axes[0], title)
    return _png(figure, title, "Each map has its own scale. What is not a number or infinite is white.")


def ratios(names: Sequence[str], values: Sequence[float], title: str,
           spreads: Sequence[tuple[float, float] | None] | None = None) -> Picture:
    """Horizontal bars of peer time / our time around 1, on a logarithmic axis;
    lines over them from least to largest of the rounds.
    """
    figure, axes = _figure(0.27 * max(len(names), 3) + 1.3, WIDTH + 0.8)
    where = np.arange(len(names))[::-1]
    axes.barh(where, np.log2(values), color=[FAST if v >= 1 else SLOW for v in values], height=0.7)
    ends = [(min(s[0], v), max(s[1], v)) if s else (v, v)
            for v, s in zip(values, spreads or [None] * len(values), strict=True)]
    for y, v, (least, most) in zip(where, values, ends, strict=True):
        if most > least:
            axes.plot(np.log2([least, most]), [y, y], color=INK, linewidth=1.2)
        axes.text(np.log2(most if v >= 1 else least), y, f" {v:.2f} ", va="center", ha="left" if v >= 1 else "right",
                  fontsize=SMALL)
    axes.set_yticks(where, [shorten(n, 34) for n in names], **PLAIN)
    spread = np.log2(np.array([1.0, *(e for pair in ends for e in pair)]))
    low, high = int(np.floor(min(spread.min(), -1))), int(np.ceil(max(spread.max(), 1)))
    ticks = np.arange(low, high + 1, 1 + (high - low) // 6)
    axes.set_xticks(ticks, [f"{2.0**t:.3g}×" for t in ticks])
    axes.set(xlim=(low - 0.8, high + 0.8), ylim=(-0.6, len(names) - 0.4), xlabel="peer's time / our time")
    axes.axvline(0, color=INK, linewidth=1)
    _titled(axes, title)
    return _png(figure, title, "Right of 1 clnet is faster, left of it the peer."
                + (" Thin lines: from least to largest of the rounds." if spreads else ""))


def curves(series: Mapping[str, Sequence[float]], title: str, xlabel: str = "epoch", ylabel: str = "",
           log: bool = False, size: tuple[float, float] = (WIDTH, 3.2)) -> Picture:
    """Lines over 1, 2, 3 … with their names at their ends."""
    figure, axes = _figure(size[1], size[0])
    _lines(axes, {name: (values, COLORS[k % len(COLORS)], "-") for k, (name, values) in enumerate(series.items())}, log)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    _titled(axes, title)
    return _png(figure, title)


def learning(runs: Mapping[str, Mapping[str, Sequence[float]]], column: str, title: str) -> Picture:
    """A quantity by epoch, a colour a run:
    whole lines from unseen data (val_...), thin dashed ones from the training's.
    """
    figure, axes = _figure(3.4)
    whole: dict[str, tuple[Sequence[float], str, str]] = {}
    for k, (run, columns) in enumerate(runs.items()):
        color, unseen = COLORS[k % len(COLORS)], f"val_{column}"
        if column in columns and unseen in columns:
            _lines(axes, {"": (columns[column], color, "--")}, column == "loss")
        if column in columns:
            whole[run] = columns.get(unseen, columns[column]), color, "-"
    _lines(axes, whole, column == "loss")
    axes.set(xlabel="epoch")
    _titled(axes, title)
    return _png(figure, title, "Whole lines: images that were not trained on. Dashed lines: the training images.")


def _lines(axes: Axes, lines: Mapping[str, tuple[Sequence[float], str, str]], log: bool) -> None:
    """Lines over 1, 2, 3 …, each (values, colour, style), named at its end; ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    for values, color, style in lines.values():
        x = np.arange(1, len(values) + 1)
        axes.plot(x, values, style, marker="o" if len(values) < 3 else None, markersize=4,
                  linewidth=1.8 if style == "-" else 1.1, color=color)
    if log and all(np.all(np.asarray(line.get_ydata()) > 0) for line in axes.lines):
        axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    _names(axes, {name: (len(v), v[-1], color) for name, (v, color, _) in lines.items()
                  if name and len(v) and np.isfinite(v[-1])})


def _names(axes: Any, ends: Mapping[str, tuple[float, float, str]]) -> None:
    """Names at the ends of lines; behind the longest where lines of several lengths end in like values. Those that
    would lie on each other are moved apart, about their middle.
    """
    axes.figure.draw_without_rendering()  # where the ends are is known from then on
    at = {name: axes.transData.transform((x, y))[1] for name, (x, y, _) in ends.items()}
    last, step, groups = max((x for x, *_ in ends.values()), default=0.0), 1.25 * SMALL * DPI / 72, list[list[str]]()
    for name in sorted(at, key=lambda n: at[n]):
        groups.append([name])
        while len(groups) > 1 and _heights(groups[-2], at, step)[-1] + step > _heights(groups[-1], at, step)[0]:
            groups[-2:] = [groups[-2] + groups[-1]]
    for group in groups:
        for name, height in zip(group, _heights(group, at, step), strict=True):
            x, y, color = ends[name]
            axes.annotate(name, (x if len(group) == 1 else last, y), (5, (height - at[name]) * 72 / DPI),
                          textcoords="offset points", fontsize=SMALL, color=color, va="center",
                          annotation_clip=False, **PLAIN)


def _heights(group: Sequence[str], at: Mapping[str, float], step: float) -> list[float]:
    """[pixels] Names one above the other, about the middle of where they belong."""
    middle = float(np.mean([at[name] for name in group]))
    return [middle + step * (k - (len(group) - 1) / 2) for k in range(len(group))]


class Point(NamedTuple):
    """Of a roofline: flops a byte, [GFLOP/s] reached, the share of its own roof, and what the rate counts, where that
    is not what kernels do.
    """

    intensity: float
    reached: float
    share: float
    counted: str = ""


def roofline(points: Mapping[str, Point], gflops: float, gbytes: float, title: str, caches: float = 0) -> Picture:
    """What was reached [GFLOP/s] over flops a byte, numbered,
    under the roof of the device's measured peak; named below the axes.

    caches  [GB/s] of the fastest cache that served a point: the dashed line
    """
    from matplotlib.ticker import FuncFormatter

    names = [f"{k}  {p.share:.0%}  {shorten(n, 60)}{f' ({p.counted})' if p.counted else ''}"
             for k, (n, p) in enumerate(points.items(), 1)]
    columns = 2 if len(names) > 3 and max(map(len, names)) <= 44 else 1
    figure, axes = _figure((3.6 if len(names) <= 12 else 4.6) + 0.23 * -(-len(names) // columns), WIDTH + 0.8)
    x = np.array([p.intensity for p in points.values()])
    low, high = min(x.min(initial=0.1), gflops / gbytes) / 2, max(x.max(initial=1.0), gflops / gbytes) * 2
    over = np.geomspace(low, high, 200)
    axes.plot(over, np.minimum(gflops, over * gbytes), color=INK, linewidth=1.4)
    if caches > gbytes:
        axes.plot(over, np.minimum(gflops, over * caches), color=INK, linewidth=1.0, linestyle="--")
    for k, (name, p) in enumerate(zip(names, points.values(), strict=True), 1):
        color = FAST if p.share >= 0.5 else SLOW
        axes.plot(p.intensity, p.reached, "D" if p.counted else "o", markersize=6, color=color,
                  markerfacecolor="none" if p.counted else color, label=name)
        axes.annotate(f" {k}", (p.intensity, p.reached), fontsize=SMALL)
    axes.set(xscale="log", yscale="log", xlabel="flops a byte", ylabel="GFLOP/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axis.set_minor_formatter("")
    figure.legend(loc="outside lower left", fontsize=SMALL, frameon=False, handlelength=0.6, ncols=columns,
                  prop={"size": SMALL})
    cached = f", in caches {caches:.0f}" if caches > gbytes else ""
    _titled(axes, f"{title}\nroof: {gflops:.0f} GFLOP/s and {gbytes:.0f} GB/s{cached}")
    note = ("Under the line is what this device can do with so many flops a byte. Percentages: of the roof above the "
            "point.")
    note += " Dashed: where a cache holds all that is counted." if caches > gbytes else ""
    counted = (" Hollow: all products of a direct convolution are counted, of which Winograd's kernels make fewer; "
               "such points may lie above the roof.")
    return _png(figure, title, note + (counted if any(p.counted for p in points.values()) else ""))


def growth(series: Mapping[str, Mapping[float, float]], title: str, xlabel: str, ylabel: str) -> Picture:
    """Lines over the sizes on two logarithmic axes;
    the dotted line grows as the size does, from the first line's last point back.
    """
    figure, axes = _figure(4)
    for k, (name, points) in enumerate(series.items()):
        axes.plot(list(points), list(points.values()), marker="o", markersize=5, linewidth=1.8, label=name,
                  color=COLORS[k % len(COLORS)])
    sizes, values = (list(c) for c in zip(*next(iter(series.values())).items(), strict=True))
    axes.plot(sizes, [values[-1] * s / sizes[-1] for s in sizes], linestyle=":", linewidth=1.4, color=INK,
              label="linear")
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel,
             ylim=(min(min(p.values()) for p in series.values() if p) / 2, None))
    axes.set_xticks(sizes, [f"{s:g}" for s in sizes])
    axes.xaxis.set_minor_formatter("")
    axes.legend(fontsize=SMALL, frameon=False)
    _titled(axes, title)
    return _png(figure, title, "Dotted: time that grows as the size does.")


def groups(bars: Mapping[str, Mapping[str, float]], title: str, xlabel: str) -> Picture:
    """Horizontal bars in groups: a group a name, a colour a member."""
    members = list(dict.fromkeys(m for g in bars.values() for m in g))
    figure, axes = _figure(0.26 * sum(len(g) + 0.8 for g in bars.values()) + 1.3 + 0.23 * len(members), WIDTH + 0.8)
    y, ticks = 0.0, []
    colors = dict(zip(members, (FAST, SOFT, BARS, SLOW, "#8a5aa5"), strict=False))
    for name, group in bars.items():
        ticks.append((y - (len(group) - 1) / 2, name))
        for member, value in group.items():
            axes.barh(y, value, height=0.9, color=colors.get(member, INK))
            axes.text(value, y, f" {value:.3g}", va="center", fontsize=SMALL)
            y -= 1
        y -= 0.8
    axes.set_yticks([t for t, _ in ticks], [shorten(n, 34) for _, n in ticks], **PLAIN)
    axes.margins(x=0.12, y=0.02)
    axes.set(xlabel=xlabel)
    figure.legend(handles=[_patch(c, m) for m, c in colors.items()], loc="outside lower left", fontsize=SMALL,
                  frameon=False)
    _titled(axes, title)
    return _png(figure, title)


def _patch(color: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=color, label=label)
