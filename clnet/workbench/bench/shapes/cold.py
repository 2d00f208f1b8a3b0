"""The first and the second shape of a process, with empty caches of programs and with those of a process before it.

`python -m clnet.workbench.bench.shapes.cold` is such a process.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...child import serve
from ..compare import Setting
from ..peers import Torch
from ..row import Row
from ..suites.steps import Task
from ..trust import Watch, seen_by
from .apart import asked, opened
from .networks import tasks
from .new import sizes
from .runners import COMPILED, Attempts, against, ms, ours, their_name, theirs

ROUNDS = 3
BATCHES = (1.0, 0.75)  # of the task's
CACHES = ("empty", "warm")
SHAPES = ("first shape", "second shape")
PEERS = {"torch": "", "torch compiled": COMPILED}
Times = dict[tuple[str, str], list[list[float]]]  # (who, cache) -> a round's [s] of both shapes


@dataclass(frozen=True)
class ColdStart:
    """Rows, one a shape, a cache and a peer: [s] from before the network is made to the end of its first step, and of
    the first step at another batch size; each process has a first step of its own. Imports are not counted.
    """

    task: Task
    quick: bool = False
    suite: str = "shapes"

    @property
    def name(self) -> str:
        return f"{self.task.name.split()[0]} in a new process"

    def rows(self, setting: Setting) -> list[Row]:
        if setting.engine.device.is_host:
            return [setting.row(self.suite, self.name, note="needs a device that compiles")]
        torch = setting.torch if isinstance(setting.torch, Torch) else None
        modes = list(PEERS.items())[: 1 if setting.quick else 2]
        whose = {who: Attempts(their_name(torch, mode)) for who, mode in modes} if torch else {}
        times, watch = Times(), Watch()
        for _ in range(1 if setting.quick else ROUNDS):
            self._round(setting, whose, times)
        found = [row for k, shape in enumerate(SHAPES) for cache in CACHES
                 for row in self._rows(setting, whose, times, f"{shape}, {cache} cache", cache, k)]
        return seen_by(watch, found)

    def _round(self, setting: Setting, whose: dict[str, Attempts], times: Times) -> None:
        """Everybody in turn, with an empty cache and then with what that left."""
        question = {"suite": self.suite, "device": setting.engine.device.key, "quick": setting.quick,
                    "task": self.task.name}
        with tempfile.TemporaryDirectory(prefix="clnet-bench-") as folder:
            for cache in CACHES:
                times.setdefault(("clnet", cache), []).append(_seconds(question, "clnet", folder))
                for who, runner in whose.items():
                    found = runner.attempt(_seconds, question, who, folder)
                    times.setdefault((who, cache), []).extend([found] if found else [])

    def _rows(self, setting: Setting, whose: dict[str, Attempts], times: Times, words: str, cache: str,
              k: int) -> list[Row]:
        mine = [found[k] for found in times["clnet", cache]]
        bare = setting.row(self.suite, f"{self.task.name.split()[0]} {words}", ours_ms=ms(statistics.median(mine)))
        return [against(bare, runner, [(m, its[k]) for m, its in zip(mine, times[who, cache], strict=False)])
                for who, runner in whose.items()] or [bare]


def _seconds(question: dict[str, Any], who: str, folder: str) -> list[float]:
    caches = Path(folder, who.split()[0])
    caches.mkdir(mode=0o700, exist_ok=True)
    return [float(s) for s in asked("cold", question | {"who": who, "torch": who in PEERS}, str(caches))["seconds"]]


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """{"seconds": [s] to the end of the first step from before the network is made, and of a new batch size's first}"""
    task, who = next(t for t in tasks() if t.name == question["task"]), question["who"]
    with opened(question) as setting:
        first, second = sizes("batch", task, BATCHES)
        start = time.perf_counter()
        runner = (theirs(task, "training", setting.torch, PEERS[who]) if isinstance(setting.torch, Torch)
                  else ours(task, "training", setting.engine))
        runner.first(first)
        return {"seconds": [time.perf_counter() - start, runner.first(second)]}


def works() -> list[ColdStart]:
    return [ColdStart(t, t.name.startswith("lstm")) for t in tasks()]


if __name__ == "__main__":
    serve(answer)
