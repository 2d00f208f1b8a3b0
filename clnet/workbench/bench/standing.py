"""Where we are ahead and where behind: a line a group of works, in the median against PyTorch's best mode for each."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...show import shorten
from . import suites
from .row import Row, short

LEGEND = ("ratio: PyTorch's time (of memory its bytes) / ours, above 1 we are better; of its modes the one that is "
          "best at the work. ahead, behind: works above 1.05, below 0.95. busy, doubted: works without a ratio that is "
          "reported, in no other column.")
EVEN = 1.05  # ratios up to this, and down to its inverse, are neither ahead nor behind
WORST = 38  # letters of the work that is named


class Group(NamedTuple):
    """Works of these suites whose names match."""

    title: str
    suites: tuple[str, ...]
    pattern: str = ""

    def holds(self, r: Row) -> bool:
        return r.suite in self.suites and re.search(self.pattern, r.work) is not None


FUNCTIONS = ("ops", "matmul", "conv", "attention", "bandwidth")
GROUPS = (
    Group("products up to 256, 64 rows", FUNCTIONS, r"^matmul (64|128|256|m64)\b"),
    Group("few rows, many weights", FUNCTIONS, r"^matmul m\d+ through"),
    Group("larger products", FUNCTIONS, r"^(matmul|[Mm]atrix|batched)"),
    Group("convolutions forward", FUNCTIONS, r"^(conv|depthwise).* forward$"),
    Group("convolutions with gradients", FUNCTIONS, r"^(conv|depthwise)"),
    Group("attention", FUNCTIONS, r"^attention"),
    Group("normalisations, softmax, losses", FUNCTIONS, r"norm|softmax|cross entropy"),
    Group("optimizer updates", FUNCTIONS, r"^Adam"),
    Group("elementwise, sums, pooling", FUNCTIONS),
    Group("training steps", ("steps",)),
    Group("steps by batch and by depth", ("scaling",)),
    Group("sorts, running sums", ("sort",)),
    Group("L-BFGS", ("searches",)),
    Group("layers over graphs", ("graph",)),
    Group("memory of a step", ("memory",)),
    Group("start-up", ("startup",)),
)


def lines(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows of the table; none of groups that nobody measured beside PyTorch."""
    groups: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for r in rows:
        title = next((g.title for g in GROUPS if g.holds(r)), "")
        if title and r.ratio and r.peer.startswith("torch") and suites.find(r.suite).ratios:
            groups[title][r.work].append(r)
    return [_line(g.title, groups[g.title]) for g in GROUPS if g.title in groups]


def _line(title: str, works: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    best = [hardest(of) for of in works.values()]
    ratios = {r.work: r.reported for r in best if r.reported}
    words = [r.unfit for r in best if r.unfit]
    median = statistics.median(ratios.values()) if ratios else None
    worst = min(ratios, key=lambda work: ratios[work]) if ratios else ""
    return {"works": title, "": _verdict(median), "ratio, median": "" if median is None else f"{median:.2f}",
            "least": f"{ratios[worst]:.2f} ({shorten(short(worst), WORST)})" if worst else "",
            "ahead": f"{sum(v > EVEN for v in ratios.values())} of {len(ratios)}" if ratios else "",
            "behind": f"{sum(v < 1 / EVEN for v in ratios.values())} of {len(ratios)}" if ratios else "",
            **{word: words.count(word) or "" for word in ("busy", "doubted")}}


def hardest(rows: Sequence[Row]) -> Row:
    """Of the rows of one work the one whose peer is best, reported or not: the next best would flatter us."""
    return min(rows, key=lambda r: r.ratio or 0.0)


def _verdict(median: float | None) -> str:
    if median is None:
        return "not known"
    return "ahead" if median > EVEN else "behind" if median < 1 / EVEN else "even"
