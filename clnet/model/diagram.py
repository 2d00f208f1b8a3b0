"""A model as a picture: a box a layer with the shape of what it gives and its parameters, a line a value."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.spec import Spec
from ..core.state import Parameter
from ..engine.record import infer
from ..errors import ClnetError, ConfigError
from ..picture import DPI, INK, PLAIN, figure
from ..show import Table, count, plural, shorten
from .flow import Box, Flow, depth_of, written
from .lanes import Lanes, crossings, cuts, lanes
from .summary import BATCHES, shaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE, HIGH, DOWN = 2.1, 0.42, 0.62  # [inch] size of a box, and from one row to the next
GAP, LANE, GUTTER, BESIDE = 0.25, 0.2, 0.3, 0.09  # [inch] between boxes, a lane of lines, between columns, of lines
SHAPE = 1.3  # width / height of a picture that is folded
LONG = 14  # rows from which it is
MOST = 80  # boxes in a picture that nobody asked to be deeper
LETTERS, TYPE, PATH = 33, 0.082, 0.056  # in a line of a box; [inch] of a letter
FORMATS = ("svg", "png", "pdf")
FILLS = {"convolution": "#cfdcec", "dense": "#cfe3d8", "normalisation": "#efe6c4", "activation": "#f0d9cc",
         "pooling": "#e2d6ea", "attention": "#cde6e8", "recurrent": "#ecd0d8", "blocks": "#d9dfc6", "": "#ffffff"}
OTHERS = "#e4e4e4"
Point = tuple[float, float]


class Diagram:
    """`boxes` in the order of their calls. A notebook shows the picture, a terminal the table; `save` writes it."""

    def __init__(self, boxes: Sequence[Box], title: str) -> None:
        self.boxes, self.title = list(boxes), title

    def table(self) -> Table:
        """A row a box: its layer, the shape of what it gives, its parameters, and what it reads if not the row above.
        """
        rows, above = [], None
        for b in self.boxes:
            sources = ", ".join(i.name for i in b.inputs) if b.inputs != [above] else ""
            rows.append((b.name, b.type or b.kind, b.gives, "shared" if b.shared else b.parameters or None, sources))
            above = b
        return Table(["name", "layer", "gives", "parameters", "reads"], rows, align="lllrl", title=self.title,
                     limit=10 * len(rows))

    def drawn(self, form: str = "svg") -> bytes:
        """The picture as "svg", "png" or "pdf"; needs matplotlib."""
        import matplotlib as mpl

        sheet = _Sheet(lanes(self.boxes), self.boxes)
        drawing, axes = figure(sheet.height, sheet.width)
        axes.set_axis_off()
        axes.set(xlim=(0, sheet.width), ylim=(-sheet.height, 0))
        axes.set_position((0, 0, 1, 1))
        drawing.set_layout_engine("none")
        for b in self.boxes:
            for i in b.inputs:
                _line(axes, sheet.way(i, b))
            _box(axes, *sheet.place(b), b)
        out = io.BytesIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.title}):
            drawing.savefig(out, format=form, dpi=2 * DPI, metadata={"Date": None} if form == "svg" else None)
        return out.getvalue()

    def save(self, path: str | Path) -> Path:
        """Writes the picture as the name ends: .svg, .png or .pdf. Raises ConfigError for another end."""
        path = Path(path)
        form = path.suffix.lower().removeprefix(".")
        if form not in FORMATS:
            raise ConfigError(f"graph().save: expected a name that ends in .{', .'.join(FORMATS)}; got {path.name!r}.")
        path.write_bytes(self.drawn(form))
        return path

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.drawn().decode(), "text/plain": repr(self)}


class _Sheet:
    """Where boxes and lines lie, folded into columns: [inch] from the left, and up from the top."""

    def __init__(self, found: Lanes, boxes: Sequence[Box]) -> None:
        self.lanes = found
        self.begins = [0]
        for columns in range(1, found.rows if found.rows > LONG else 2):
            self.begins = cuts(found, boxes, columns)
            self._measure(boxes)
            if self.width > SHAPE * self.height or columns > found.rows // 6:
                break
        self._measure(boxes)

    def _measure(self, boxes: Sequence[Box]) -> None:
        ends = [*self.begins[1:], self.lanes.rows]
        self.x: list[dict[int, float]] = []
        self.gutters: list[float] = []
        at = GAP
        for begin, end in zip(self.begins, ends, strict=True):
            full = {self.lanes.lane[b] for b in boxes if begin <= self.lanes.row[b] < end and _size(b) == WIDE}
            used = full | {k for r, k in self.lanes.taken if begin <= r < end}
            place = {}
            for k in sorted(used):
                wide = WIDE + GAP if k in full else LANE
                place[k] = at + wide / 2
                at += wide
            self.x.append(place)
            self.gutters.append(at + BESIDE)
            more = crossings(self.lanes, boxes)[end] if end < self.lanes.rows else 0
            at += GUTTER / 2 + BESIDE * (more + 1) if more else 0
        self.width = at + GAP
        crossed = max((crossings(self.lanes, boxes)[r] for r in self.begins[1:]), default=0)
        self.above = 0.1 + BESIDE * crossed
        self.height = DOWN * max(e - b for b, e in zip(self.begins, ends, strict=True)) + 2 * self.above
        self._wrapped: dict[int, int] = {}

    def column(self, row: int) -> int:
        return max(c for c, begin in enumerate(self.begins) if begin <= row)

    def _y(self, row: int) -> float:
        """Of the middle of the boxes in a row."""
        return -(row - self.begins[self.column(row)] + 0.5) * DOWN - self.above

    def _x(self, row: int, lane: int) -> float:
        place = self.x[self.column(row)]
        return place[lane] if lane in place else place[min(place, key=lambda k: abs(k - lane))]

    def place(self, b: Box) -> Point:
        """The middle of a box."""
        return self._x(self.lanes.row[b], self.lanes.lane[b]), self._y(self.lanes.row[b])

    def way(self, a: Box, b: Box) -> list[Point]:
        """The corners of the line from the lower side of a to the upper side of b."""
        first, last = self.lanes.row[a], self.lanes.row[b]
        lane = self.lanes.lane.get((a, b), self.lanes.lane[a])
        x, y = self.place(a)
        points = [(x, y - _height(a) / 2)]
        for row in range(first + 1, last + 1):
            target = self.place(b)[0] if row == last else self._x(row, lane)
            between = self._y(row) + DOWN / 2
            if row in self.begins:
                n = self._wrapped[row] = self._wrapped.get(row, 0) + 1
                side, under = self.gutters[self.column(row) - 1] + n * BESIDE, self._y(row - 1) - DOWN / 2
                under, between = under - n * BESIDE + BESIDE, between + n * BESIDE
                points += [(x, under), (side, under), (side, between), (target, between)]
            elif target != x:
                points += [(x, between), (target, between)]
            x = target
        x, y = self.place(b)
        return [*points, (x, y + _height(b) / 2)]


def _size(b: Box) -> float:
    return WIDE if b.kind == "layer" or len(b.name) > 1 else HIGH


def _height(b: Box) -> float:
    return HIGH if b.kind != "op" or len(b.name) > 1 else 0.7 * HIGH


def _line(axes: Axes, points: Sequence[Point]) -> None:
    """Straight from corner to corner, the corners rounded, an arrow at the end."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Line

    corners, codes = [points[0]], [Line.MOVETO]
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        r = min(0.07, math.dist(before, at) / 2, math.dist(at, after) / 2)
        if r > 0:
            corners += [_toward(at, before, r), at, _toward(at, after, r)]
            codes += [Line.LINETO, Line.CURVE3, Line.CURVE3]
    corners.append(points[-1])
    codes.append(Line.LINETO)
    axes.add_patch(FancyArrowPatch(path=Line(corners, codes), arrowstyle="-|>", mutation_scale=7, color=INK,
                                   linewidth=0.9, zorder=1))


def _toward(a: Point, b: Point, far: float) -> Point:
    share = far / math.dist(a, b)
    return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share


def _box(axes: Axes, x: float, y: float, b: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    wide, high = _size(b), _height(b)
    fill = FILLS.get(b.family, OTHERS)
    axes.add_patch(FancyBboxPatch((x - wide / 2, y - high / 2), wide, high, facecolor=fill, edgecolor=INK,
                                  boxstyle=f"round,pad=0,rounding_size={0.06 if b.kind == 'layer' else high / 2.5}",
                                  linewidth=0.9, linestyle="--" if b.shared else "-", zorder=2))
    form: dict[str, Any] = {"va": "center", "zorder": 3, **PLAIN}
    if b.kind == "op" and len(b.name) == 1:
        axes.text(x, y, b.name, fontsize=12, ha="center", **form)
        return
    number = "shared" if b.shared else count(b.parameters) if b.parameters else ""
    room, above = max(2, int((wide - 0.3 - TYPE * len(b.type)) / PATH)), 0.09 if b.gives or number else 0.0
    path = "" if b.kind != "layer" else b.name if len(b.name) <= room else f"…{b.name[1 - room:]}"
    left, right = x - wide / 2 + 0.08, x + wide / 2 - 0.08
    axes.text(left, y + above, b.type or b.name, fontsize=9, **form)
    axes.text(right, y + above, path, fontsize=7, ha="right", color="#555555", **form)
    axes.text(left, y - 0.1, shorten(b.gives, LETTERS - len(number)), fontsize=7.5, **form)
    axes.text(right, y - 0.1, number, fontsize=7.5, ha="right", **form)


def diagram(model: Any, samples: Sequence[Spec] | None, seen: Sequence[Spec] | None, depth: int | None) -> Diagram:
    """The picture of a model for samples of these specs (None: as it is written down), with layers opened down to
    `depth` levels; `seen` is what it was called with, where the first axis is no batch.
    """
    if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool) or depth < 0):
        raise ConfigError(f"{type(model).__name__}.graph(depth={depth!r}): expected a whole number of at least 0.")
    names = list(getattr(model, "inputs", [])) or [f"input {k}" if k else "input" for k in range(len(samples or ()))]
    if samples is None:
        boxes = written(model)
    else:
        try:
            boxes = _opened(model, [[Spec((n, *s.shape), s.dtype) for s in samples] for n in BATCHES], names, depth)
        except ClnetError:
            if not seen:
                raise
            boxes = _opened(model, [seen], names, depth)
    number = sum(b.kind == "layer" for b in boxes)
    total = sum(v.size for v in model.variables().values() if isinstance(v, Parameter))
    return Diagram(boxes, f"{type(model).__name__}: {plural(number, 'layer')}, {count(total)} parameters")


def _opened(model: Any, batches: Sequence[Sequence[Spec]], names: Sequence[str], depth: int | None) -> list[Box]:
    """The boxes, their shapes in words; without a depth the deepest that has not too many."""
    infer(model, batches[0])  # builds layers that make others inside
    if depth is None:
        for level in range(depth_of(model), 0, -1):
            if len(found := _opened(model, batches, names, level)) <= MOST:
                return found
        return _opened(model, batches, names, 0)
    every = [Flow(model, specs, names, depth).boxes for specs in batches]
    for same in zip(*every, strict=True):
        same[0].gives = ", ".join(shaped(*(s if len(s) > 1 else s * 2))
                                  for s in zip(*(b.shapes for b in same), strict=True))
    return every[0]
