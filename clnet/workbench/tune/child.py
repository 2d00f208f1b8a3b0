"""The process in which `clnet tune` tries candidates:
a kernel that crashes or hangs takes this process along, not the search.

Reads one JSON line a candidate from standard input, answers with one line:
{"seconds", "error", "source"} or {"failed": why}.
"""

from __future__ import annotations

import contextlib
import hashlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.tensor import Tensor, tensor
from ...engine import engine_for, on
from ...engine.device.devices import select
from ...engine.record import Recorded
from ...kernels import tuning as tune
from ..child import serve
from ..evidence.checks import oracle
from ..evidence.results import judge
from .tasks import Task, held, wanted

SAMPLE, ROUNDS = 0.02, 5  # [s] a sample is at least this long


class Bench:
    """A task on a device: inputs and reference are made once, candidates come and go.
    `alone`: against the rules, in place of the tables of numbers.

    A device of one core is timed by the processor time of this process, of which other work takes no part: with
    DPCPP_CPU_NUM_CUS=1 Intel's runtime is one, and a busy machine can be measured.
    """

    def __init__(self, device: str, op: str, label: str, alone: bool) -> None:
        self.engine, self.alone = engine_for(select(device)[0]), alone
        one = self.engine.device.is_cpu and self.engine.device.compute_units == 1
        self.clock = time.process_time if one else time.perf_counter
        self.task: Task = next(t for t in (*wanted(op, label), *held(op)) if t.label == label)
        rng = np.random.default_rng(0)
        self.arrays = [rng.standard_normal(s, np.float32) for s in self.task.shapes]
        self.want: Any = None
        self.done: dict[str, dict[str, Any]] = {}

    def measure(self, values: dict[str, Any], give_up: float, fresh: bool) -> dict[str, Any]:
        """Seconds a call and error of the task with these numbers;
        a program that was measured before is run again only if `fresh`.
        """
        tables = tune.rules_alone() if self.alone else contextlib.nullcontext()
        with on(self.engine), tables, tune.overriding(self.task.entry, values):
            self.engine.plans.clear()
            xs = [tensor(a) for a in self.arrays]
            self.engine.run(xs)
            step = Recorded(self.task.call, "candidate")
            out = step(*xs)
            programs = "".join(s.text + str(s.grid) for s in step.prepare(*xs).plan.launches)
            source = hashlib.sha256(programs.encode()).hexdigest()
            if fresh or source not in self.done:
                self.done[source] = {"source": source, "error": self._error(out),
                                     "seconds": self._seconds(lambda: step(*xs), give_up)}
            return self.done[source]

    def _error(self, out: Tensor) -> float:
        if self.want is None:
            wide = [a.astype(np.float64) for a in self.arrays]
            self.want = (self.task.reference(*wide) if self.task.reference
                         else oracle().values([self.task.call(*map(tensor, wide))])[0])
        return judge("tune", out.numpy(), self.want, "float32", 1.0, normwise=True).error

    def _seconds(self, call: Callable[[], object], give_up: float) -> float:
        def sample(n: int) -> float:
            start = self.clock()
            for _ in range(n):
                call()
            self.engine.finish()
            return (self.clock() - start) / n

        first = min(sample(1), sample(1))
        if first > give_up:
            return first
        repeats = max(1, int(SAMPLE / first))
        return statistics.median(sample(repeats) for _ in range(ROUNDS))


def main() -> None:
    benches: dict[tuple[str, str, str, bool], Bench] = {}

    def answer(ask: dict[str, Any]) -> dict[str, Any]:
        key = ask["device"], ask["op"], ask["label"], ask["alone"]
        bench = benches.get(key) or benches.setdefault(key, Bench(*key))
        return bench.measure(tune.frozen(ask["values"]), ask["give_up"], ask["fresh"])

    serve(answer)


if __name__ == "__main__":
    main()
