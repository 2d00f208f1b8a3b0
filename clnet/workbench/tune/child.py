"""The process in which `clnet tune` tries candidates:
a kernel that crashes or hangs takes this process along, not the search.

Reads one JSON line a candidate from standard input, answers with one line:
{"seconds", "error", "allowed", "source"} or {"failed": why}; where the error is above "most", without "seconds".
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.spec import is_float
from ...core.tensor import Tensor, tensor
from ...engine import engine_for, on
from ...engine.device.devices import select
from ...engine.record import Recorded
from ...kernels import tuning as tune
from ..child import serve
from ..cores import cores_of
from ..evidence.checks import allowance, oracle
from ..evidence.results import judge
from .call import Call
from .tasks import Task, held, wanted

SAMPLE, ROUNDS = 0.02, 5  # [s] a sample is at least this long
WAIT = 5.0  # [s] for cores that are slow, at most: who asks takes a candidate that answers late for one that hangs


class Bench:
    """A task on a device: inputs and reference are made once, candidates come and go.
    `alone`: against the rules, in place of the tables of numbers.

    A device of one core is timed by the processor time of this process, of which other work takes no part: with
    DPCPP_CPU_NUM_CUS=1 Intel's runtime is one, and a busy machine can be measured.
    """

    def __init__(self, device: str, op: str, label: str, alone: bool, call: Call | None = None) -> None:
        self.engine, self.alone = engine_for(select(device)[0]), alone
        one = self.engine.device.is_cpu and self.engine.device.compute_units == 1
        self.clock = time.process_time if one else time.perf_counter
        self.cores = cores_of(self.engine)
        self.task: Task = (call.task if call is not None
                           else next(t for t in (*wanted(op, label), *held(op)) if t.label == label))
        self.entry = call.entry(self.engine.device) if call is not None else self.task.entry
        self.arrays = self.task.arrays()
        self.want: Any = None
        self.allowed = allowance([self.task.call(*map(tensor, self.arrays))])
        self.done: dict[str, dict[str, Any]] = {}

    def measure(self, values: dict[str, Any], give_up: float, fresh: bool,
                most: float = math.inf) -> dict[str, Any]:
        """Seconds a call and error of the task with these numbers; a program that was measured before is run again only
        if `fresh`, one whose error is above `most` is not timed.
        """
        tables = tune.rules_alone() if self.alone else contextlib.nullcontext()
        with on(self.engine), tables, tune.overriding(self.entry, values):
            self.engine.plans.clear()
            xs = [tensor(a) for a in self.arrays]
            self.engine.run(xs)
            step = Recorded(self.task.call, "candidate")
            out = step(*xs)
            programs = "".join(s.text + str(s.grid) for s in step.prepare(*xs).plan.launches)
            source = hashlib.sha256(programs.encode()).hexdigest()
            if fresh or source not in self.done:
                error = self._error(out)
                found = {"source": source, "error": error, "allowed": self.allowed}
                if not error <= most:
                    return found
                self.done[source] = {**found, "seconds": self._seconds(lambda: step(*xs), give_up)}
            return self.done[source]

    def _error(self, out: Tensor) -> float:
        if self.want is None:
            wide = [a.astype(np.float64) if is_float(a.dtype.name) else a for a in self.arrays]
            self.want = (self.task.reference(*wide) if self.task.reference
                         else oracle().values([self.task.call(*map(tensor, wide))])[0])
        return judge("tune", out.numpy(), self.want, out.dtype, 1.0, normwise=True).error

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
        repeats, self.cores.left = max(1, int(SAMPLE / first)), WAIT
        return statistics.median(self.cores.steady(lambda: sample(repeats)) for _ in range(ROUNDS))


def main() -> None:
    benches: dict[tuple[Any, ...], Bench] = {}

    def answer(ask: dict[str, Any]) -> dict[str, Any]:
        call = Call.of_json(ask["call"]) if "call" in ask else None
        key = ask["device"], ask["op"], ask["label"], ask["alone"], call
        bench = benches.get(key) or benches.setdefault(key, Bench(*key))
        return bench.measure(tune.frozen(ask["values"]), ask["give_up"], ask["fresh"], ask.get("most", math.inf))

    serve(answer)


if __name__ == "__main__":
    main()
