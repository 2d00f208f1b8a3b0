"""Peak memory of training steps: what the pool measures, the least that any placement of these launches could take,
what `model.summary()` forecasts, what PyTorch's allocator measures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ....engine import on
from ....engine.compile.graph import build
from ....engine.compile.pipeline import parts
from ....engine.record import spec_of
from ....engine.replay import Trace, settle
from ...evidence import registry
from ..compare import Setting, ours
from ..peers import Torch
from ..row import Row, number
from . import Suite
from . import steps as bench_steps
from .steps import Task, layer

if TYPE_CHECKING:
    from ....engine.protocol import Engine

LEGEND = ("ratio: the peer's bytes / our measured peak. optimum: variables, inputs and results, and of what lives "
          "between the launches the most that does at one time: a bound that no placement is below. forecast: what "
          "`model.summary()` says before anything runs. PyTorch: the peak of its allocator.")
CHECKPOINTED = {"resnet20 b32": "Residual", "gpt b16 t128": "TransformerEncoderBlock"}


@dataclass(frozen=True)
class Memory:
    """A training step's peak, from before the network is made to behind its steps;
    buffers that nobody uses are given back first.
    """

    task: Task
    checkpointed: bool = False
    suite: str = "memory"

    @property
    def name(self) -> str:
        return self.task.name + (", blocks checkpointed" if self.checkpointed else "")

    @property
    def quick(self) -> bool:
        return self.task.name == "mlp b64"

    def rows(self, setting: Setting) -> list[Row]:
        """A row for the optimum, one for the forecast, one for PyTorch."""
        needs = bench_steps.missing(self.task)
        if needs or setting.engine.device.is_host:
            return [setting.row(self.suite, self.name, note=needs or "needs a device with a pool")]
        measured = measure(self.task, setting.engine)
        bare = setting.row(self.suite, self.name, peak_bytes=measured)
        found = [_against(bare, "optimum", optimum(self.task, setting.engine)),
                 _against(bare, "forecast", forecast(self.task, setting.engine))]
        if isinstance(setting.torch, Torch) and not self.checkpointed:
            found.append(_attempt(bare, setting.torch, lambda peer: peer.peak(bench_steps.theirs(self.task))))
        return found


def measure(task: Task, engine: Engine) -> int:
    """[bytes] The pool's peak over the network's making and some steps."""
    return int(ours(bench_steps.as_work(task), engine)[1]["peak_bytes"])


def optimum(task: Task, engine: Engine) -> int:
    """[bytes] The lower bound for the step's launches in their order: Σ variables, inputs and results, and the largest
    Σ over values and temporary memory that live during one of them.
    """
    with on(engine):
        step, arguments = bench_steps.training(task, engine)
        trace = Trace(step.fn, [spec_of(a) for a in arguments(*task.batch())])
        settle([*trace.variables, *trace.read])
        outputs, inputs = len(trace.outputs), len(trace.inputs)
        graph = build([*trace.outputs, *trace.updates], lambda t: t.op is None, engine.device,
                      [*trace.inputs, *trace.before])
        _, memory = parts(graph, engine.device, {outputs + k: inputs + k for k in range(len(trace.updates))})
        return sum(t.spec.nbytes for t in graph.leaves) + sum(memory.blocks.values()) + memory.layout.least


def forecast(task: Task, engine: Engine) -> int:
    """[bytes] What the summary says in all; nothing runs."""
    more = {"dtype": "int32"} if task.tokens else {}
    with on(engine):
        return int(bench_steps.network(task).summary(task.x[1:], batch=task.x[0], **more).memory["total"])


def _against(bare: Row, peer: str, nbytes: int) -> Row:
    ratio = round(nbytes / (bare.peak_bytes or math.nan), 4)
    return replace(bare, peer=peer, peer_bytes=nbytes, ratio=ratio, min=ratio, max=ratio)


def _attempt(bare: Row, torch: Torch, peak: Callable[[Torch], int]) -> Row:
    try:
        return _against(bare, torch.name, peak(torch))
    except Exception as error:  # its profiler is not ours
        return replace(bare, peer=torch.name, note=f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")


def checkpointed(task: Task) -> Task:
    """The task with every block in a Checkpoint."""
    kind = CHECKPOINTED[task.name]
    return replace(task, layers=[layer("Checkpoint", layer=c) if c["type"] == kind else c for c in task.layers])


def works() -> list[Memory]:
    registry.load_all()
    found = []
    for task in bench_steps.tasks():
        found += [Memory(task), *([Memory(checkpointed(task), True)] if task.name in CHECKPOINTED else [])]
    return found


def cells(r: Row) -> dict[str, object]:
    """A row as it stands in tables."""
    return {"suite": r.suite, "work": r.work, "device": r.device, "measured [MB]": number(r.peak_bytes, ".2f", 1e6),
            "against": r.peer, "its [MB]": number(r.peer_bytes, ".2f", 1e6), "ratio": number(r.ratio, ".3f"),
            "note": r.remarks}


SUITE = Suite(works, legend=LEGEND, cells=cells, rates=False, bounds=("optimum", "forecast"))
