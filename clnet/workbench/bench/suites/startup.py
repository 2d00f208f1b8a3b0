"""From the first import to the end of the first training step, in processes of their own:
ours with warm program caches against PyTorch's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ....engine.device.compilers import environment
from ..compare import Setting
from ..peers import Torch
from ..row import Row, timed
from ..trust import Watch, doubt, seen_by
from . import Suite

LEGEND = ("From the first import to the end of the first training step, in a process of its own; programs compiled "
          "before. ratio: the peer's time / ours. The processor's time is that of all threads of the process, which a "
          "machine that is busy with others lengthens least.")
PROCESSES = 7
PATIENCE = 300  # [s]

OURS = """
import time
start = time.perf_counter()
import clnet
import numpy as np
Dense = clnet.layers.Dense
model = clnet.Sequential(Dense(784, 512, activation="relu"), Dense(512, 512, activation="relu"), Dense(512, 10))
trainer = clnet.Trainer(model, clnet.losses.CrossEntropyLoss(), clnet.optimizers.Adam())
history = trainer.fit((np.zeros((64, 784), "float32"), np.zeros(64, "int32")), epochs=1, batch_size=64, verbose=False)
assert history.rows[-1]["loss"] > 0
print(time.perf_counter() - start, time.process_time())
"""

THEIRS = """
import time
start = time.perf_counter()
import torch
torch.set_num_threads({threads})
nn = torch.nn
model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).to("{where}")
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.zeros(64, 784, device="{where}"), torch.zeros(64, dtype=torch.long, device="{where}")
loss = nn.functional.cross_entropy(model(x), y)
loss.backward()
optimizer.step()
assert loss.item() > 0
print(time.perf_counter() - start, time.process_time())
"""


@dataclass(frozen=True)
class FirstStep:
    """The mlp's first step. A process that compiles into a cache of its own is told apart as cold."""

    suite: str = "startup"
    name: str = "import to first step"
    quick: bool = False
    processes: int = PROCESSES

    def rows(self, setting: Setting) -> list[Row]:
        if setting.engine.device.is_host:
            return [setting.row(self.suite, self.name, note="needs a device that compiles")]
        torch = setting.torch
        theirs = THEIRS.format(threads=setting.threads, where=torch.where) if isinstance(torch, Torch) else ""
        with tempfile.TemporaryDirectory(prefix="clnet-bench-") as folder:
            # Bytecode is kept, as installations keep it, whatever this process was told: compiling all modules anew
            # takes longer than the step.
            bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")}
            env = environment() | bytecode | {"CLNET_DEVICE": setting.engine.device.key}
            first, then = ({"CLNET_CACHE_DIR": str(Path(folder) / name)} for name in ("first", "then"))
            seconds(OURS, env | first)  # leaves the bytecode
            env |= then
            cold, watch = seconds(OURS, env), Watch()
            if theirs:
                seconds(theirs, env)  # both have read their files from disk once
            none = Spent(0.0, 0.0)
            pairs = [(seconds(OURS, env), seconds(theirs, env) if theirs else none) for _ in range(self.processes)]
        return seen_by(watch, self._rows(setting, cold, pairs))

    def _rows(self, setting: Setting, cold: Spent, pairs: Sequence[tuple[Spent, Spent]]) -> list[Row]:
        """Of the first process, and of pairs, ours and PyTorch's."""
        torch = setting.torch
        mine, their = (statistics.median(p[k].wall for p in pairs) for k in range(2))
        warm, busy = [p[0].wall for p in pairs], [statistics.median(p[k].processor for p in pairs) for k in range(2)]
        note = f"cold {cold.wall:.2f} s; warm {min(warm):.2f} to {max(warm):.2f} s; of the processor {busy[0]:.2f} s"
        note += f", the peer {busy[1]:.2f} s" if isinstance(torch, Torch) else ""
        bare: dict[str, Any] = {"ours_ms": round(mine * 1e3, 2), "note": note}
        if not isinstance(torch, Torch):
            return [setting.row(self.suite, self.name, **bare)]
        ratios = [theirs.wall / ours.wall for ours, theirs in pairs]
        return [setting.row(self.suite, self.name, torch.name, **bare, peer_ms=round(their * 1e3, 2),
                            ratio=round(statistics.median(ratios), 4), min=round(min(ratios), 4),
                            max=round(max(ratios), 4), rounds=len(ratios), doubt=doubt(ratios, self.processes))]


def works() -> list[FirstStep]:
    return [FirstStep()]


def cells(r: Row) -> dict[str, object]:
    """A row as it stands in tables."""
    return {**timed(r), "threads": r.threads, "note": r.remarks}


SUITE = Suite(works, legend=LEGEND, cells=cells, rates=False)


class Spent(NamedTuple):
    """[s] from the first import on, and of the processor."""

    wall: float
    processor: float


def seconds(script: str, env: dict[str, str]) -> Spent:
    """What a fresh process measured. Raises CalledProcessError, TimeoutExpired."""
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", script], env=env, capture_output=True, text=True,
                         timeout=PATIENCE, check=True)
    return Spent(*map(float, out.stdout.strip().splitlines()[-1].split()))
