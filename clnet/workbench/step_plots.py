"""Pictures of a step: what its arena holds from launch to launch, and when each launch runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..picture import BARS, COLORS, INK, PLAIN, SMALL, SOFT, WIDTH, Picture, figure, png, titled
from ..show import shorten, size

if TYPE_CHECKING:
    from ..engine.explain import Life
    from ..engine.profiling import Span

KINDS = 5  # of kernels with a row and a colour of their own
ROOMY = 0.035  # share of the picture's width and height from which on a rectangle can hold a name
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def memory(lives: Sequence[Life], arena: int, launches: int, title: str = "Memory for values between") -> Picture:
    """Values between as rectangles: bytes of the arena that each holds, from its first launch to its last."""
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import MaxNLocator

    unit, word = next((u, w) for u, w in UNITS if arena >= u or u == 1)
    drawn, axes = figure(3.4, WIDTH + 0.8)
    for life in lives:
        x, y, wide, high = life.first - 0.5, life.start / unit, life.last - life.first + 1, life.nbytes / unit
        axes.add_patch(Rectangle((x, y), wide, high, facecolor=SOFT if life.scratch else BARS, edgecolor="white",
                                 linewidth=0.6, hatch="////" if life.scratch else None))
        if life.nbytes > 1.6 * ROOMY * arena and wide > (0.6 + 0.4 * len(life.name)) * ROOMY * launches:
            axes.text(x + wide / 2, y + high / 2, life.name, ha="center", va="center", fontsize=SMALL - 2,
                      color="black" if life.scratch else "white", **PLAIN)
    axes.set(xlim=(-0.5, launches - 0.5), ylim=(0, max(arena, 1) / unit), xlabel="launch", ylabel=f"memory [{word}]")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    titled(axes, f"{title}: {size(arena)}")
    return png(drawn, title, "A rectangle a value, from the launch that computes it to the last that reads it. "
               "Hatched: temporary memory of a kernel.")


def kind(span: Span) -> str:
    """Maps, folds and copies together, other kernels by their names."""
    if span.launch is None:
        return f"copy {span.name}"
    head = span.name.partition("_")[0]
    return head if head in ("map", "fold") else span.name


def timeline(spans: Sequence[Span], title: str) -> Picture:
    """When each launch and copy runs: a row a queue, in which gaps are seen, and below it a row a kind of kernel."""
    taken: dict[str, float] = defaultdict(float)
    for s in spans:
        taken[kind(s)] += s.length
    most = sorted(taken, key=lambda name: -taken[name])
    named = most if len(most) <= KINDS + 1 else most[:KINDS]
    colors = dict(zip(named, COLORS, strict=False))
    queues = list(dict.fromkeys(s.queue for s in spans))
    rows = [f"queue: {q}" for q in queues] + named + ["others"] * (len(named) < len(most))
    whole = max((s.end for s in spans), default=1.0)
    scale, unit = (1e3, "ms") if whole >= 2e3 else (1.0, "µs")
    drawn, axes = figure(0.34 * len(rows) + 1.5, WIDTH + 0.8)
    for s in spans:
        name = kind(s) if kind(s) in colors else "others"
        for row in (f"queue: {s.queue}", name):
            axes.broken_barh([(s.start / scale, s.length / scale)], (len(rows) - 1 - rows.index(row) - 0.4, 0.8),
                             facecolor=colors.get(name, INK), linewidth=0)
    ticks = [r if r.startswith("queue: ") else f"{shorten(r, 24)}  {_share(r, taken, named):.0%}" for r in rows]
    axes.set_yticks(range(len(rows)), ticks[::-1], **PLAIN)
    axes.tick_params(left=False)
    axes.axhline(len(rows) - len(queues) - 0.5, color=SOFT, linewidth=0.8)
    axes.set(xlim=(0, whole / scale), ylim=(-0.6, len(rows) - 0.4), xlabel=f"time [{unit}]")
    titled(axes, title)
    return png(drawn, title, "Each launch by the device's clock, one behind the other as in a run that is not timed. "
               "White in a queue's row: gaps, in which it waits. Shares: of all launches and copies.")


def _share(row: str, taken: dict[str, float], named: Sequence[str]) -> float:
    mine = taken[row] if row in named else sum(v for k, v in taken.items() if k not in named)
    return mine / (sum(taken.values()) or 1.0)
