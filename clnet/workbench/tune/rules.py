"""`clnet tune --op matmul --rules`: what the rules lose against the search, call by call. Nothing is kept.

Tables of numbers are left out. The search is that of `clnet tune` with its candidates and times; a find has to win
again in turn with the rules' choice, and the loss is how much longer that takes: the median of the turns' ratios, 0
where nothing won. The best of many candidates is partly the luckiest, which few turns do not show.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from ...errors import ConfigError
from ...names import ending
from .. import terminal
from ..child import Child
from .command import CONFIRM, LEAST, PATIENCE, TRIES, Search
from .tasks import held

if TYPE_CHECKING:
    from ...engine.protocol import Engine

MARGIN = 0.99  # as the search's, finer: 2 % are asked about
TURNS = 15  # of a find and the rules' choice
MEDIAN, WORST = 0.02, 0.10  # losses that rules may have


def hold(engine: Engine, op: str, budget: float, only: str = "", file: Path | None = None) -> int:
    """Prints the loss of each call; exit status 1 where rules lose more than MEDIAN in the median or WORST once.
    ConfigError if no call has the name.
    """
    found = [t for t in held(op) if only.lower() in t.label.lower()]
    if not found:
        names = [t.label for t in held(op)]
        raise ConfigError(f"tune: expected --only with a part of one of {', '.join(names)}; got {only!r}"
                          f"{ending(only, names)}")
    child, rows, end = Child(TRIES, PATIENCE), list[dict[str, object]](), time.monotonic() + budget
    losses = list[float]()
    try:
        with terminal.bar(found, desc=f"rules {op} {engine.device.key}") as bar:
            for k, task in enumerate(bar):
                now = time.monotonic()
                share = max((end - now) / (len(found) - k), LEAST)
                search = Search(child, engine.device, op, task, MARGIN, alone=True)
                for line in search.run(now + CONFIRM * share):
                    bar.set_postfix_str(f"{task.label}: {line}")
                search.confirm(again=TURNS)
                rows.append(_row(search))
                if "seconds" in search.start:
                    losses.append(search.gain - 1)
    finally:
        child.stop()
    terminal.table(rows, title=f"rules against the search, {op} on {engine.device.name}")
    terminal.say(_verdict(losses))
    if file:
        terminal.save_json(rows, file)
    return int(not losses or median(losses) > MEDIAN or max(losses) > WORST)


def _row(search: Search) -> dict[str, object]:
    if "seconds" not in search.start:
        return {"call": search.task.label, "rules ms": "", "best ms": "", "loss": search.start["failed"]}
    numbers = ", ".join(f"{k}={v}" for k, v in search.best.items())
    return {"call": search.task.label, "rules ms": round(search.start["seconds"] * 1e3, 4),
            "best ms": round(search.answer["seconds"] * 1e3, 4) if search.best else "",
            "loss": f"{search.gain - 1:.1%}", "best numbers": numbers, "searched": "" if search.whole else "in part"}


def _verdict(losses: list[float]) -> str:
    if not losses:
        return "no call ran"
    over = sum(loss > WORST for loss in losses)
    return (f"{len(losses)} calls: loss {median(losses):.1%} in the median, {max(losses):.1%} at worst, {over} above "
            f"{WORST:.0%}")
