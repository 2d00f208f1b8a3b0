"""`clnet tune`: measures what geometry and placement should be on this machine and keeps it in the user's folder.

The search over a kernel's numbers goes coordinate by coordinate from those in use: a value is taken when it is faster
by MARGIN and no less exact. Candidates run in a child process, so that one that crashes or hangs ends there; a value
that leads to a program measured before costs nothing, one that is much slower at its first call is dropped. What was
found has to win again, in turn with the numbers in use, before it is saved: machines are noisy, and the first times are
those of a cold one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ...engine import host_or_device as place
from ...errors import ConfigError
from ...kernels import tuning as tune
from ...names import ending
from ...show import plural
from .. import terminal
from ..bench.trust import Watch
from ..child import Child
from . import share
from .call import Call
from .tasks import Task, space, spread, tasks, wanted

if TYPE_CHECKING:
    from ...engine.device.devices import Device
    from ...engine.protocol import Engine

TRIES = "clnet.workbench.tune.child"
MARGIN = 0.97  # share of the best time that a new best must be under
WORSE = 1.5  # error, against that of the numbers in use, from which a candidate is refused
AGAIN, ENOUGH = 5, 3  # pairs of times that confirm a find; so few do when the time is up
LEAST = 6.0  # [s] that a task gets: a short budget finds something for a few rather than nothing for all
CONFIRM = 0.7  # share of a task's time after which it looks no further, and confirms
PATIENCE = 30.0  # [s] after which a candidate counts as hanging


class Search:
    """The search for one task: `best` numbers with their answer, against `start`, those in use, or of the rules alone.
    """

    def __init__(self, child: Child, device: Device, op: str, task: Task, margin: float = MARGIN,
                 alone: bool = False) -> None:
        self.child, self.device, self.op, self.task, self.margin, self.alone = child, device, op, task, margin, alone
        self.call = {"call": task.call.as_json()} if isinstance(task.call, Call) else {}
        self.best: dict[str, Any] = {}
        self.won = 1.0  # how many times sooner, by what confirms
        self.whole = True  # False where the time was up before nothing got better
        self._try({}, 1e9)
        self.start = self.answer = self._try({}, 1e9, fresh=True)

    def _try(self, values: dict[str, Any], give_up: float, fresh: bool = False) -> dict[str, Any]:
        return self.child.ask({"device": self.device.key, "op": self.op, "label": self.task.label, "values": values,
                               "give_up": give_up, "fresh": fresh, "alone": self.alone, **self.call})

    def confirm(self, until: float = float("inf"), again: int = AGAIN) -> None:
        """Times the best and the numbers in use again, in turn, so many pairs; `best` is {} afterwards where it does
        not win by MARGIN in the median of the pairs, or the time was too short.
        """
        pairs: list[list[float]] = []
        while self.best and len(pairs) < again and time.monotonic() < until:
            pairs.append([self._try(v, 1e9, fresh=True).get("seconds", 1e9) for v in ({}, self.best)])
        if len(pairs) < ENOUGH:
            self.best, self.answer = {}, self.start
            return
        before, after = (median(column) for column in zip(*pairs, strict=True))
        self.start, self.answer = {**self.start, "seconds": before}, {**self.answer, "seconds": after}
        self.won = median(a / b for a, b in pairs)
        if self.won * self.margin < 1:
            self.best = {}

    @property
    def gain(self) -> float:
        """How many times sooner the call is with the best numbers."""
        return self.won if self.best else 1.0

    def run(self, until: float) -> Iterator[str]:
        """One line for every candidate that was tried, until nothing gets better or the time is up."""
        better = "seconds" in self.start
        while better:
            better = False
            for name, values in space(self.op, self.device).items():
                for value in values:
                    if time.monotonic() > until:
                        self.whole = False
                        return
                    if value != self.best.get(name):
                        better |= self._better({**self.best, name: value})
                        yield f"{name}={value}"

    def _better(self, values: dict[str, Any]) -> bool:
        got = self._try(values, 1.5 * self.answer["seconds"])
        if "seconds" not in got or got["seconds"] > self.margin * self.answer["seconds"]:
            return False
        if got["error"] > WORSE * self.start["error"]:
            return False
        self.best, self.answer = values, got
        return True


def kernels(engine: Engine, op: str, budget: float, only: str = "", folder: Path | None = None,
            json_file: Path | None = None, share_file: Path | None = None) -> int:
    """Searches the numbers of an op's tasks ("": of all ops) for `budget` seconds in all, and at most the last trial
    longer. ConfigError if none has the name.
    """
    found = chosen(engine.device, op, only)
    path = folder / f"{tune.slug(engine.device)}.json" if folder else None
    given = {"--op": op, "--only": only and f"'{only}'", "--budget": f"{budget:g}"}
    made = " ".join(["clnet tune", *(f"{name} {value}" for name, value in given.items() if value)])
    done, kept, watch = list[Search](), path or tune.own_file(engine.device), Watch()
    try:
        for search in searched(engine.device, found, budget):
            done.append(search)
            if search.best:
                gain = {name: _shared(search)[name] for name in ("call", "before_ms", "after_ms")}
                tune.keep(engine.device, search.task.entry, search.best, made, path, gain)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{_outcome(done, len(found))} {kept}") from None
    rows = [_shared(s) for s in done if "seconds" in s.start]
    if gained := [r for r in rows if r["numbers"]]:
        share.show(gained, f"gained on {engine.device.name}")
    busy = watch.others()
    if words := share.disturbed(busy):
        terminal.say(words, "bold yellow")
    terminal.say(f"{_outcome(done, len(found))} {kept}")
    if share_file is not None:
        share.write(share_file, engine.device, rows, made, busy)
    if json_file is not None:
        terminal.save_json([_row(search) for search in done], json_file)
    return 0


def chosen(device: Device, op: str, only: str) -> list[tuple[str, Task]]:
    """(op, call) of what is to be searched. ConfigError if no call has the name."""
    found = ([(op, task) for task in wanted(op, only)] if op
             else [(o, task) for o, task in spread(device) if only.lower() in task.label.lower()])
    if not found:
        names = [t.label for t in tasks(op)] if op else [t.label for _, t in spread(device)]
        raise ConfigError(
            f"tune: expected --only with a part of one of {', '.join(names)}; got {only!r}{ending(only, names)}")
    return found


def searched(device: Device, found: Sequence[tuple[str, Task]], budget: float) -> Iterator[Search]:
    """The search of one call after the other, as far as the seconds reach; each is said as it ends."""
    child, start = Child(TRIES, PATIENCE), time.monotonic()
    try:
        with terminal.bar(found, desc=f"tune {device.key}") as bar:
            for k, (op, task) in enumerate(bar):
                now = time.monotonic()
                if (left := start + budget - now) <= 0:
                    return
                part = min(left, max(left / (len(found) - k), LEAST))
                search = Search(child, device, op, task)
                for line in search.run(now + CONFIRM * part):
                    bar.set_postfix_str(f"{task.label}: {line}")
                search.confirm(now + part)
                bar.write(_line(search))
                yield search
    finally:
        child.stop()


def _shared(search: Search) -> dict[str, Any]:
    """A call as files for others hold it."""
    op, shapes = search.task.entry
    before = search.start["seconds"] * 1e3
    return {"op": op, "shapes": shapes, "call": search.task.label, "before_ms": round(before, 5),
            "after_ms": round(search.answer["seconds"] * 1e3 if search.best else before, 5),
            "numbers": dict(search.best)}


def _row(search: Search) -> dict[str, Any]:
    """What was found for a call: times in ms, `numbers` that win, {} where those in use stay; or why it failed."""
    if "seconds" not in search.start:
        return {"call": search.task.label, "failed": search.start["failed"]}
    shown = _shared(search)
    return {"call": shown["call"], "before_ms": search.start["seconds"] * 1e3, "after_ms": shown["after_ms"],
            "gain": search.gain, "numbers": search.best, "to_the_end": search.whole}


def _line(search: Search) -> str:
    if "seconds" not in search.start:
        return f"{search.task.label}: {search.start['failed']}"
    before, after = search.start["seconds"] * 1e3, search.answer["seconds"] * 1e3
    if not search.best:
        return f"{search.task.label:24} {before:9.3f} ms, as it is"
    numbers = ", ".join(f"{k}={v}" for k, v in search.best.items())
    return f"{search.task.label:24} {before:9.3f} ms -> {after:9.3f} ms ({search.gain:.2f}x) {numbers}"


def _outcome(done: Sequence[Search], tasks: int) -> str:
    """How many calls were searched, what was gained, and where that is kept (the sentence's end)."""
    better = [s.gain for s in done if s.best]
    whole, calls = sum(s.whole for s in done), plural(tasks, "call")
    how_far = (f"{calls} searched" if whole == tasks
               else f"{len(done)} of {calls} searched until the time was up, {whole} to the end")
    if not better:
        return f"{how_far}; nothing was gained, nothing changed in"
    every = share.gain([_shared(s) for s in done if "seconds" in s.start])
    return (f"{how_far}, together {every:.2f} times as fast; {len(better)} of them {min(better):.2f} to "
            f"{max(better):.2f} times as fast, kept in")


def placement(engine: Engine, only: str = "", json_file: Path | None = None) -> int:
    """Times every op on host and device over growing sizes;
    each threshold is saved as soon as it is known. Exit status.
    """
    calls = {name: call for name, call in place.examples().items() if only in name}
    if not calls:
        raise ConfigError(
            f"tune: expected --only with a part of the name of an op; got {only!r}{ending(only, place.examples())}")
    try:
        with terminal.bar(total=len(calls), desc=f"placement {engine.device.key}") as bar:
            for name, elements in place.measure(engine, calls):
                bar.set_postfix_str(f"{name}: host up to {elements}")
                bar.update()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("what was measured is kept") from None
    found = place.thresholds(engine.device)
    if json_file is not None:
        terminal.save_json([{"op": name, "host_up_to": found.get(name, 0)} for name in calls], json_file)
    print(f"{len(found)} ops measured, {sum(n > 0 for n in found.values())} run on the host for small arrays; kept in "
          f"{place._file(engine.device)}")
    return 0
