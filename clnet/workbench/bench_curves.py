"""Whether another arithmetic learns the same: the losses of one network from the same weights, ours in float32 and in fp32x3, and PyTorch's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine import on
from . import bench_steps, bench_torch
from .bench_compare import Setting
from .bench_row import Row
from .peers import Torch

STEPS = 20
BATCHES = 4  # that take turns
FACTOR = 2.0  # what another arithmetic may differ from PyTorch's float32, in terms of what our float32 does; or
LEAST = 1e-4  # of the loss: what the order of sums alone makes


@dataclass(frozen=True)
class Curve:
    """A row that says by how much the losses of `STEPS` steps differ; failed where fp32x3 differs more than float32 in another order does."""

    task: bench_steps.Task
    suite: str = "curves"
    quick: bool = False

    @property
    def name(self) -> str:
        return f"losses of {self.task.name}"

    def rows(self, setting: Setting) -> list[Row]:
        batches = [self.task.batch(seed) for seed in range(BATCHES)]
        mine = {a: ours(self.task, setting.engine, batches, a) for a in ("fp32", "fp32x3")}
        torch = setting.torch if isinstance(setting.torch, Torch) else None
        peer = theirs(self.task, torch, setting.engine, batches) if torch else mine["fp32"]
        apart = {a: float(np.abs(losses - peer).max()) for a, losses in mine.items()}
        bound = max(FACTOR * apart["fp32"], LEAST * float(np.abs(peer).max()))
        note = f"{STEPS} losses, {peer[0]:.4f} to {peer[-1]:.4f}; largest difference: " + ", ".join(f"{a} {d:.1e}" for a, d in apart.items())
        return [setting.row("curves", self.name, torch.name if torch else "ours in fp32", arithmetic="fp32x3", note=note,
                            failed=not apart["fp32x3"] <= bound)]


def ours(task: bench_steps.Task, engine: Any, batches: list[Any], arithmetic: str) -> np.ndarray[Any, Any]:
    """The losses of the steps, read one by one."""
    step, arguments = bench_steps.training(task, engine, arithmetic)
    with on(engine):
        return np.array([float(step(*arguments(*batches[k % len(batches)])).numpy()) for k in range(STEPS)])


def theirs(task: bench_steps.Task, peer: Torch, engine: Any, batches: list[Any]) -> np.ndarray[Any, Any]:
    """PyTorch's, from our first weights."""
    with on(engine):
        values = {k: v.numpy() for k, v in bench_steps.network(task).variables().items()}
    step = bench_steps.their_training(task, peer, start=bench_torch.gpt_state(values))
    arrays = [[peer.array(a.astype(np.int64)) for a in batch] for batch in batches]
    return np.array([float(step(*arrays[k % len(batches)]).detach()) for k in range(STEPS)])


def works() -> list[Curve]:
    """Of the large gpt."""
    bench_steps.registry.load_all()
    return [Curve(bench_steps.gpu_tasks()[-1])]
