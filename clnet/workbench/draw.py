"""What was recorded as a picture: a box an op, an arrow a value, a colour a launch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.tensor import as_tensor
from ..engine import current
from ..engine.compile.graph import build
from ..engine.compile.node import Leaf
from ..engine.compile.pipeline import fused
from ..errors import DataError, NoDeviceError
from ..show import plural
from . import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..engine.compile.node import Node

MOST = 60  # ops in a picture: more cannot be read
WIDE, HIGH, ACROSS, DOWN = 1.7, 0.62, 2.15, 0.9  # [inch] size of a box, and from one box to the next
FILLS = ("#cfe3d8", "#cfdcec", "#f0d9cc", "#e2d6ea", "#efe6c4", "#cde6e8", "#ecd0d8", "#dcdcdc")
Place = tuple[float, float]


def graph(*tensors: Any) -> bytes:
    """A picture (PNG) of what has to run for the tensors: leaves by their names, ops with their shapes, filled by the
    launch that computes them.

    Scalar constants stand in the ops that read them. Raises DataError for more than 60 nodes, NoDeviceError on NumPy,
    which launches nothing.
    """
    device = current().device
    if device.is_host:
        raise NoDeviceError(
            f'draw: expected an OpenCL device; got {device}, which launches nothing; try `with clnet.on("opencl"):`.')
    done = fused(build([as_tensor(t) for t in tensors], lambda t: t.op is None, device), device)
    found = done.graph
    outputs = set(found.outputs)
    nodes = [n for n in found.nodes if n in outputs or not _is_constant(n)]
    if len(nodes) > MOST:
        raise DataError(
            f"draw: expected at most {MOST} nodes; got {len(nodes)}; "
            "print(clnet.explain(...)) lists them, however many.")
    names = {n: found.leaves[n.leaf].name or "leaf" for n in nodes if isinstance(n, Leaf)}
    return _drawn(nodes, names, outputs, _launches(done))


def _is_constant(n: Node) -> bool:
    return n.op is not None and n.op.name == "full" and n.size == 1


def _launches(done: Any) -> dict[Any, int]:
    """The number of the launch in which each node is computed;
    a node that several need is computed in the first of them.
    """
    found: dict[Any, int] = {}
    for k, fusion in enumerate(done.fusions):
        todo = [*fusion.stores, *fusion.cores]
        while todo:
            n = todo.pop()
            if n.op is not None and n not in found:
                found[n] = k
                todo += [i for i in n.inputs if i not in done.stored]
    return found


def _columns(nodes: Sequence[Any]) -> dict[Any, int]:
    """How far right each node stands: ops right of all that they read, leaves directly left of their first reader."""
    column: dict[Any, int] = {}
    for n in nodes:
        column[n] = 1 + max((column[i] for i in n.inputs if i in column), default=-1)
    for n in nodes:
        if n.op is None:
            column[n] = min((column[m] for m in nodes if n in m.inputs), default=1) - 1
    return column


def _ways(nodes: Sequence[Any]) -> list[list[Any]]:
    """Every arrow by the places that it passes:
    its ends, and between them one in each column, so that no box is drawn over it.
    """
    column = _columns(nodes)
    return [[i, *((i, k) for k in range(column[i] + 1, column[n])), n]
            for n in nodes for i in dict.fromkeys(n.inputs) if i in column]


def _places(nodes: Sequence[Any], ways: Sequence[Sequence[Any]]) -> dict[Any, Place]:
    """Where everything stands [inch]: in each column by the mean height of its neighbours."""
    column = _columns(nodes) | {p: p[1] for way in ways for p in way[1:-1]}
    near: dict[Any, set[Any]] = {p: set() for p in column}
    for way in ways:
        for a, b in itertools.pairwise(way):
            near[a].add(b)
            near[b].add(a)
    rows: list[list[Any]] = [[p for p in column if column[p] == k] for k in range(max(column.values()) + 1)]
    height = {p: k - (len(row) - 1) / 2 for row in rows for k, p in enumerate(row)}
    for sweep in range(8):
        for row in rows[:: 1 if sweep % 2 else -1]:
            row.sort(key=lambda p: sum(height[q] for q in near[p]) / max(1, len(near[p])))
            height |= {p: k - (len(row) - 1) / 2 for k, p in enumerate(row)}
    return {p: (column[p] * ACROSS, -height[p] * DOWN) for p in column}


def _drawn(nodes: Sequence[Any], names: dict[Any, str], outputs: set[Any], launch: dict[Any, int]) -> bytes:
    from matplotlib.patches import Patch

    ways = _ways(nodes)
    places = _places(nodes, ways)
    xs, ys = zip(*places.values(), strict=True)
    figure, axes = plots._figure(height=max(ys) - min(ys) + 1.6, width=max(xs) - min(xs) + WIDE + 0.4)
    axes.set(xlim=(min(xs) - WIDE / 2 - 0.1, max(xs) + WIDE / 2 + 0.1), ylim=(min(ys) - 0.5, max(ys) + 0.5),
             aspect="equal")
    axes.set_axis_off()
    for way in ways:
        _arrow(axes, [places[p] for p in way])
    for n in nodes:
        _box(axes, places[n], names.get(n) or _call(n), n, FILLS[launch[n] % len(FILLS)] if n in launch else "white",
             n in outputs)
    used = sorted({launch[n] for n in nodes if n in launch})
    marks = [Patch(facecolor=FILLS[k % len(FILLS)], edgecolor=plots.INK, label=f"launch {k + 1}") for k in used]
    figure.legend(handles=[Patch(facecolor="white", edgecolor=plots.INK, label="given"), *marks],
                  loc="outside lower left", ncols=min(len(marks) + 1, 7), frameon=False, fontsize=10)
    return plots._png(figure, f"{plural(len(nodes) - len(names), 'op')} in {plural(len(used), 'launch')}")


def _call(n: Node) -> str:
    """The op's name, with the constants that it reads in their places: mul(·, 2)."""
    assert n.op is not None
    said = [f"{i.attrs.get('value', '·'):g}" if _is_constant(i) and isinstance(i.attrs.get("value"), (int, float))
            else "·" for i in n.inputs]
    return f"{n.op.name}({', '.join(said)})" if set(said) - {"·"} else n.op.name


def _arrow(axes: Axes, places: Sequence[Place]) -> None:
    """A line from the right side of one box to the left side of another, level where it passes a column."""
    (x0, y0), *between, (x1, y1) = places
    line = [(x0 + WIDE / 2, y0), *((x + s * WIDE / 2, y) for x, y in between for s in (-1, 1)), (x1 - WIDE / 2, y1)]
    axes.plot(*zip(*line[:-1], strict=True), color=plots.INK, linewidth=1.0, zorder=1)
    axes.annotate("", line[-1], line[-2],
                  arrowprops={"arrowstyle": "-|>", "color": plots.INK, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0})


def _box(axes: Axes, place: Place, name: str, n: Node, fill: str, asked: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y = place
    axes.add_patch(FancyBboxPatch((x - WIDE / 2, y - HIGH / 2), WIDE, HIGH, boxstyle="round,pad=0,rounding_size=0.08",
                                  facecolor=fill, edgecolor=plots.INK, linewidth=2.2 if asked else 0.8, zorder=2))
    form: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 3, **plots.PLAIN}
    axes.text(x, y + 0.12, name, fontsize=11, fontweight="bold" if n.op is None else "normal", **form)
    axes.text(x, y - 0.15, f"{n.spec.dtype} {'×'.join(map(str, n.shape)) or 'scalar'}", fontsize=8.5, color=plots.INK,
              **form)
