"""`clnet tune`: measures what geometry and placement should be on this machine and keeps it in the user's folder.

The search over a kernel's numbers goes coordinate by coordinate from those in use: a value is taken when it is faster by MARGIN
and no less exact. Candidates run in a child process, so that one that crashes or hangs ends there; a value that leads to a
program measured before costs nothing, one that is much slower at its first call is dropped. What was found has to win again, in turn
with the numbers in use, before it is saved: machines are noisy, and the first times are those of a cold one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from ..engine import place, tune
from .child import Child
from .tune_tasks import Task, space, tasks, wanted

TRIES = "clnet.workbench.tune_child"
OPS = ("matmul", "conv", "winograd")
MARGIN = 0.97  # share of the best time that a new best must be under
WORSE = 1.5  # error, against that of the numbers in use, from which a candidate is refused
AGAIN = 5  # pairs of times that confirm a find
PATIENCE = 30.0  # [s] after which a candidate counts as hanging


class Search:
    """The search for one task: `best` numbers with their answer, against `start`, those in use."""

    def __init__(self, child: Child, device: Any, op: str, task: Task) -> None:
        self.child, self.device, self.op, self.task = child, device, op, task
        self.best: dict[str, Any] = {}
        self._try({}, 1e9)
        self.start = self.answer = self._try({}, 1e9, fresh=True)

    def _try(self, values: dict[str, Any], give_up: float, fresh: bool = False) -> dict[str, Any]:
        return self.child.ask({"device": self.device.key, "op": self.op, "label": self.task.label, "values": values, "give_up": give_up, "fresh": fresh})

    def confirm(self) -> None:
        """Times the best and the numbers in use again, in turn; `best` is {} afterwards where it does not win by MARGIN."""
        if not self.best:
            return
        pairs = [[self._try(v, 1e9, fresh=True).get("seconds", 1e9) for v in ({}, self.best)] for _ in range(AGAIN)]
        before, after = (median(column) for column in zip(*pairs, strict=True))
        self.start, self.answer = {**self.start, "seconds": before}, {**self.answer, "seconds": after}
        if after > MARGIN * before:
            self.best = {}

    def run(self, until: float) -> Iterator[str]:
        """One line for every candidate that was tried, until nothing gets better or the time is up."""
        better = "seconds" in self.start
        while better:
            better = False
            for name, values in space(self.op, self.device).items():
                for value in values:
                    if time.monotonic() > until:
                        return
                    if value != self.best.get(name):
                        better |= self._better({**self.best, name: value})
                        yield f"{name}={value}"

    def _better(self, values: dict[str, Any]) -> bool:
        got = self._try(values, 1.5 * self.answer["seconds"])
        if "seconds" not in got or got["seconds"] > MARGIN * self.answer["seconds"] or got["error"] > WORSE * self.start["error"]:
            return False
        self.best, self.answer = values, got
        return True


def kernels(engine: Any, op: str, budget: float, only: str = "", folder: Path | None = None) -> int:
    """Searches the numbers of an op's tasks for `budget` seconds in all. Exit status."""
    from tqdm.auto import tqdm

    found = wanted(op, only)
    if not found:
        print(f"tune: no task of {op} has {only!r} in its name; there are {', '.join(t.label for t in tasks(op))}", file=sys.stderr)
        return 1
    path = folder / f"{tune.slug(engine.device)}.json" if folder else None
    child, start, made = Child(TRIES, PATIENCE), time.monotonic(), f"clnet tune --op {op}" + f" --only '{only}'" * bool(only) + f" --budget {budget:g}"
    try:
        with tqdm(found, desc=f"tune {op} {engine.device.key}") as bar:
            for k, task in enumerate(bar):
                search = Search(child, engine.device, op, task)
                for line in search.run(start + budget * (k + 1) / len(found)):
                    bar.set_postfix_str(f"{task.label}: {line}")
                search.confirm()
                _report(bar, search)
                if search.best:
                    tune.keep(engine.device, task.entry, search.best, made, path)
    except KeyboardInterrupt:
        print("tune: stopped; what was found is kept", file=sys.stderr)
    finally:
        child.stop()
    print(f"kept in {path or tune.own_file(engine.device)}")
    return 0


def _report(bar: Any, search: Search) -> None:
    if "seconds" not in search.start:
        bar.write(f"{search.task.label}: {search.start['failed']}")
        return
    before, after = search.start["seconds"] * 1e3, search.answer["seconds"] * 1e3
    bar.write(f"{search.task.label:24} {before:9.3f} ms -> {after:9.3f} ms ({before / after:.2f}x) {search.best or 'as it is'}")


def placement(engine: Any, only: str = "") -> int:
    """Times every op on host and device over growing sizes; each threshold is saved as soon as it is known. Exit status."""
    from tqdm.auto import tqdm

    calls = {name: call for name, call in place.examples().items() if only in name}
    if not calls:
        print(f"tune: no op's name contains {only!r}", file=sys.stderr)
        return 1
    try:
        with tqdm(total=len(calls), desc=f"placement {engine.device.key}") as bar:
            for name, elements in place.measure(engine, calls):
                bar.set_postfix_str(f"{name}: host up to {elements}")
                bar.update()
    except KeyboardInterrupt:
        print("tune: stopped; what was measured is kept", file=sys.stderr)
    found = place.thresholds(engine.device)
    print(f"{len(found)} ops measured, {sum(n > 0 for n in found.values())} run on the host for small arrays; kept in {place._file(engine.device)}")
    return 0
