"""Line charts as SVG text, written without a drawing library: a few hundred points take a millisecond, so that a chart
can be drawn again twice a second beside work that must not wait for it; a page, a notebook and a file show the same.

Colours are Okabe and Ito's, which the colour-blind can tell apart (https://jfly.uni-koeln.de/color/); lines differ by
dashes and dots, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .show import escaped

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
WIDTH, HIGH = 270, 176  # [pixels] of a chart
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 26, 38  # [pixels] around its axes
POINTS = 240  # that a line is drawn with: more of them share a pixel
DECADES = 40.0  # the ratio of greatest and least value from which on an axis is logarithmic
INK, PAPER = "#444444", "#ffffff"


class Line(NamedTuple):
    """Points of one name. What is not finite leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str = BLUE
    dashed: bool = False
    dots: bool = True  # where there are few points


class Chart(NamedTuple):
    """Lines over common axes; `what` names the vertical one, with its unit if it has one."""

    what: str
    lines: Sequence[Line]
    across: str = "epoch"
    least: float | None = None  # that the vertical axis shows


class Drawing(str):
    """SVG text that shows itself in a notebook."""

    def __repr__(self) -> str:
        return f"<Drawing, {len(self):,} characters of SVG>"

    def _repr_svg_(self) -> str:
        return str(self)


def drawing(charts: Sequence[Chart], title: str = "", columns: int = 2) -> Drawing:
    """A picture of charts side by side, `columns` in a row, on paper of its own."""
    head = 26 if title else 4
    columns = max(1, min(columns, len(charts)))
    wide, high = max(columns * WIDTH, 20 + 8 * len(title)), head + -(-len(charts) // columns) * HIGH
    parts = [_text(10, 18, title, "start", 13, weight=600)] if title else []
    for k, chart in enumerate(charts):
        row, column = divmod(k, columns)
        place = f"translate({column * (wide // columns)},{head + row * HIGH})"
        parts.append(f'<g transform="{place}">{_chart(chart, wide // columns)}</g>')
    paper = f'<rect width="{wide}" height="{high}" fill="{PAPER}" stroke="none"/>'
    return Drawing(_svg(wide, high, paper + "".join(parts), title or _said(charts), INK))


def panel(chart: Chart) -> str:
    """One chart for a page: in the page's own ink, without paper, as wide as there is room for up to half more."""
    style = f"width:100%;max-width:{WIDTH * 3 // 2}px;height:auto"
    return _svg(WIDTH, HIGH, _chart(chart), _said([chart]), "currentColor", style)


def _svg(wide: int, high: int, body: str, said: str, ink: str, style: str = "max-width:100%;height:auto") -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
            f'role="img" aria-label="{escaped(said)}" style="{style}" fill="{ink}" '
            f'font-family="system-ui,sans-serif">{body}</svg>')


def _said(charts: Iterable[Chart]) -> str:
    """What somebody who does not see the picture is told."""
    return "; ".join(f"{c.what} over {c.across}: " + ", ".join(
        f"{line.name} {line.y[-1]:.4g}" for line in c.lines if len(line.y)) for c in charts)


def _text(x: float, y: float, text: str, anchor: str = "middle", size: int = 12, color: str = "",
          weight: int = 400) -> str:
    fill = f' fill="{color}"' if color else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"{fill} '
            f'stroke="none">{escaped(text)}</text>')


def _chart(chart: Chart, wide: int = WIDTH) -> str:
    lines = [(line, _thinned(line)) for line in chart.lines]
    every = [p for _, points in lines for p in points if math.isfinite(p[1])]
    xs, ys = [p[0] for p in every], [p[1] for p in every]
    if chart.least is not None:
        ys.append(chart.least)
    log = bool(ys) and min(ys) > 0 and max(ys) / min(ys) > DECADES
    across, up = Axis(xs or [0, 1], LEFT, wide - RIGHT), Axis(ys or [0, 1], HIGH - BOTTOM, TOP, log)
    parts = [f'<path d="M{LEFT},{TOP}V{HIGH - BOTTOM}H{wide - RIGHT}" fill="none" stroke="#999999"/>']
    for v, word in up.ticks():
        parts.append(f'<path d="M{LEFT},{up.at(v):.1f}H{wide - RIGHT}" stroke="#999999" stroke-opacity="0.3"/>')
        parts.append(_text(LEFT - 5, up.at(v) + 4, word, "end", 11))
    parts += [_text(across.at(v), HIGH - BOTTOM + 15, word, size=11) for v, word in across.ticks(whole=True)]
    parts.append(_text((LEFT + wide - RIGHT) / 2, HIGH - 7, chart.across))
    parts.append(_text(LEFT - 40, 15, chart.what, "start", weight=600))
    parts += [_path(line, points, across, up) for line, points in lines]
    if len(lines) > 1:
        parts += _legend([line for line, _ in lines], wide)
    return "".join(parts)


def _legend(lines: Sequence[Line], wide: int) -> list[str]:
    """Names of lines at the upper right, from right to left, each behind a piece of its line."""
    found, x = [], float(wide - RIGHT)
    for line in reversed(lines):
        found.append(_text(x, 15, line.name, "end", 11, line.color))
        x -= 6.4 * len(line.name) + 22
        found.append(f'<path d="M{x:.1f},11h18" stroke="{line.color}" stroke-width="2"{_dashes(line)}/>')
        x -= 8
    return found


def _dashes(line: Line) -> str:
    return ' stroke-dasharray="5 3"' if line.dashed else ""


def _path(line: Line, points: Sequence[tuple[float, float]], across: Axis, up: Axis) -> str:
    """The line, and dots where it has few points, or points with gaps around them."""
    words, dots, pen = [], [], "M"
    for x, y in points:
        if not math.isfinite(y):
            pen = "M"
            continue
        at = f"{across.at(x):.1f},{up.at(y):.1f}"
        words.append(pen + at)
        dots.append(at)
        pen = "L"
    path = (f'<path d="{"".join(words)}" fill="none" stroke="{line.color}" stroke-width="1.8" '
            f'stroke-linejoin="round"{_dashes(line)}/>')
    if len(dots) > 20 or not line.dots:
        return path
    return path + "".join(f'<circle cx="{at.partition(",")[0]}" cy="{at.partition(",")[2]}" r="2.2" '
                          f'fill="{line.color}" stroke="none"/>' for at in dots)


def _thinned(line: Line) -> list[tuple[float, float]]:
    """At most about POINTS points: means of neighbours."""
    count = min(len(line.x), len(line.y))
    step = -(-count // POINTS) or 1
    if step == 1:
        return list(zip(line.x, line.y, strict=False))
    found = []
    for k in range(0, count, step):
        xs, ys = line.x[k : k + step], line.y[k : k + step]
        found.append((sum(xs) / len(xs), sum(ys) / len(ys)))
    return found


class Axis:
    """Where values lie on the paper, between `low` and `high` [pixels], and which of them are written."""

    def __init__(self, values: Sequence[float], low: float, high: float, log: bool = False) -> None:
        self.log, self.pixels = log, (low, high)
        least, most = (math.log10(v) if log else v for v in (min(values), max(values)))
        if least == most:
            room = abs(least) * 0.1 or 1.0
            least, most = least - room, most + room
        self.ends = (least, most) if low < high else (least - 0.04 * (most - least), most + 0.04 * (most - least))

    def at(self, value: float) -> float:
        """[pixels]"""
        v = math.log10(value) if self.log else value
        (least, most), (low, high) = self.ends, self.pixels
        return low + (v - least) / (most - least) * (high - low)

    def ticks(self, whole: bool = False) -> list[tuple[float, str]]:
        """(value, text) of some five round numbers; on a logarithmic axis 1, and 2 and 5 of few decades.

        whole   of whole numbers, where there are two
        """
        least, most = self.ends
        if self.log:
            decades = range(math.floor(least), math.ceil(most) + 1)
            heads = (1,) if len(decades) > 3 else (1, 2, 5)
            found = [h * 10.0**d for d in decades[:: 1 + len(decades) // 6] for h in heads]
            return [(v, f"{v:g}") for v in found if least <= math.log10(v) <= most]
        rough = max((most - least) / 5, 1.0 if whole and math.floor(most) > math.ceil(least) else 0.0)
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * f for f in (1, 2, 5, 10) if unit * f >= rough * 0.99)
        places = max(0, -math.floor(math.log10(step) + 1e-9))
        numbers = [k * step for k in range(math.ceil(least / step - 1e-9), math.floor(most / step + 1e-9) + 1)]
        if most >= 1e5 or places > 4:
            return [(v, f"{v:.{_digits(numbers, step)}g}") for v in numbers]
        return [(v, f"{v:.{places}f}") for v in numbers]


def _digits(numbers: Sequence[float], step: float) -> int:
    """That tell neighbours apart."""
    return max(1, 1 + math.ceil(math.log10(max(abs(v) for v in numbers) / step + 1e-9)) if any(numbers) else 1)
