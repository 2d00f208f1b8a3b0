"""Mermaid's flowcharts, as far as docs/ uses them, as SVG: its script would have to come from another host.

Boxes lie in rows by the longest way to them, within a row where their neighbours above are.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from html import escape

WIDE, HIGH, ACROSS, DOWN, LINE = 176, 66, 20, 46, 13  # [px] a box, the gaps between boxes, a line of text
CHARACTERS = 27  # of a line in a box
NODE = re.compile(r'\s*(\w+)(?:\["([^"]+)"\])?\s*')
ARROW = re.compile(r"-->|-\.\s*([^.]+?)\s*\.->")
Edge = tuple[str, str, str | None]  # from, to, label of a dotted arrow


def svg(text: str) -> str:
    """The picture. ValueError for a line of the chart that is none of: a node, an arrow, a dotted arrow with a label.
    """
    labels, edges = parsed(text)
    places = _placed(labels, edges)
    width = max(x for x, _ in places.values()) + WIDE
    height = max(y for _, y in places.values()) + HIGH
    drawn = [_arrow(places[a], places[b], label) for a, b, label in edges]
    drawn += [_box(*places[n], label) for n, label in labels.items()]
    return (f'<svg class="flowchart" viewBox="-2 -2 {width + 4} {height + 4}" role="img" '
            f'aria-label="{escape(", ".join(labels))}" xmlns="http://www.w3.org/2000/svg" '
            f'style="max-width:{width}px;width:100%;font:11px sans-serif"><defs><marker id="tip" viewBox="0 0 8 8" '
            'refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" '
            f'fill="currentColor"/></marker></defs>{"".join(drawn)}</svg>')


def parsed(text: str) -> tuple[dict[str, str], list[Edge]]:
    """(label by node, edges) of a chart's source."""
    labels: dict[str, str] = {}
    edges: list[Edge] = []
    for line in map(str.strip, text.strip().splitlines()[1:]):
        at, before, arrow = 0, "", None
        while node := NODE.match(line, at):
            name, label = node.groups()
            labels[name] = label or labels.get(name, name)
            if arrow:
                edges.append((before, name, arrow[1]))
            before, arrow = name, ARROW.match(line, node.end())
            at = arrow.end() if arrow else node.end()
            if not arrow:
                break
        if arrow or at != len(line):
            raise ValueError(f"flowchart: expected nodes and arrows; got {line!r}; teach docs/site/flowchart.py it.")
    return labels, edges


def _placed(labels: dict[str, str], edges: list[Edge]) -> dict[str, tuple[float, float]]:
    """The upper left corner of every box. A dotted arrow may point back up, so it moves nothing down."""
    row = dict.fromkeys(labels, 0)
    for _ in labels:
        for a, b, dotted in edges:
            if dotted is None:
                row[b] = max(row[b], row[a] + 1)
    for a, b, dotted in edges:  # what only a dotted arrow leads to
        if dotted is not None and not any(b in e[:2] for e in edges if e[2] is None):
            row[b] = row[a] + 1
    rows: defaultdict[int, list[str]] = defaultdict(list)
    for n in labels:
        rows[row[n]].append(n)
    wide = max(map(len, rows.values()))
    places: dict[str, tuple[float, float]] = {}
    for k in sorted(rows):
        above = {n: [places[a][0] for a, b, _ in edges if b == n and a in places] for n in rows[k]}
        rows[k].sort(key=lambda n: sum(above[n]) / len(above[n]) if above[n] else 0)
        left = (wide - len(rows[k])) * (WIDE + ACROSS) / 2
        places |= {n: (left + j * (WIDE + ACROSS), k * (HIGH + DOWN)) for j, n in enumerate(rows[k])}
    return places


def _box(x: float, y: float, label: str) -> str:
    lines = textwrap.wrap(label, CHARACTERS)
    top = y + HIGH / 2 - LINE * (len(lines) - 1) / 2 + 4
    text = "".join(f'<text x="{x + WIDE / 2}" y="{top + LINE * k}" text-anchor="middle" fill="currentColor">'
                   f"{escape(t)}</text>" for k, t in enumerate(lines))
    return (f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6" '
            f'fill="var(--color-background-secondary, #f5f5f5)" stroke="currentColor"/>{text}')


def _arrow(a: tuple[float, float], b: tuple[float, float], label: str | None) -> str:
    down = b[1] > a[1]
    x1, y1 = a[0] + WIDE / 2, a[1] + (HIGH if down else 0)
    x2, y2 = b[0] + WIDE / 2, b[1] + (0 if down else HIGH)
    dash = ' stroke-dasharray="4 3"' if label else ""
    bend = (y2 - y1) / 2
    line = (f'<path d="M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}" fill="none" stroke="currentColor" '
            f'marker-end="url(#tip)"{dash}/>')
    name = (f'<text x="{(x1 + x2) / 2 + 6}" y="{(y1 + y2) / 2}" fill="currentColor">{escape(label)}</text>'
            if label else "")
    return line + name
