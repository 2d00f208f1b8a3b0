"""Who runs a network on batches of any shape: we, PyTorch eager and PyTorch compiled, in training and in `predict`."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ....engine import on
from ....optimizers import Adam
from ....train.trainer import Trainer
from ..compare import Contender, Setting, Within, pause_of
from ..peers import Run, Torch
from ..row import Row
from ..suites import steps as bench_steps
from ..suites.steps import Task
from ..trust import NEEDED, doubt

if TYPE_CHECKING:
    from ....engine.protocol import Engine

Found = TypeVar("Found")
KINDS = ("training", "predict")
SAMPLES = 3  # of a shape that is not new; their median counts
COMPILED = "compiled"  # the mode of PyTorch that has a compiler, and so shapes that are new to it


@dataclass
class Attempts:
    """Someone who may break. `problem`: why it could not go on; nothing is asked of it from then on."""

    name: str
    problem: str = field(default="", kw_only=True)

    def attempt(self, measure: Callable[..., Found], *arguments: Any) -> Found | None:
        """What is measured; None, and `problem` says why, where a peer breaks: that says nothing about us."""
        if self.problem:
            return None
        try:
            return measure(*arguments)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
            return None


@dataclass
class Runner(Attempts):
    """Someone who has a network. `prepare(task)`: a call that runs it once on the task's batch, which is there already.
    """

    prepare: Callable[[Task], Run]
    finish: Callable[[], None]
    pause: float = 0.0

    def first(self, task: Task) -> float:
        """[s] of one run on the task's batch, after a pause in which the others' threads fall asleep."""
        call = self.prepare(task)
        time.sleep(self.pause)
        return self.timed(call)

    def timed(self, call: Run) -> float:
        """[s] of one call and the wait for it."""
        start = time.perf_counter()
        call()
        self.finish()
        return time.perf_counter() - start

    def steady(self, task: Task) -> float:
        """[s] of a run on the task's batch when its shape is known."""
        found = Contender(self.name, self.prepare(task), self.finish, pause=self.pause)
        found.warm()
        return statistics.median(found.sample(found.repeats) for _ in range(SAMPLES))

    def first_and_steady(self, task: Task) -> tuple[float, float]:
        """[s] of the first run of a shape, and of one when it is known."""
        return self.first(task), self.steady(task)


def ours(task: Task, kind: str, engine: Engine) -> Runner:
    """We: training replays the recorded step on tensors of the device; predict is the Trainer's, from arrays to arrays.
    """
    prepare = _our_training(task, engine) if kind == "training" else _our_predict(task, engine)
    return Runner("clnet", prepare, engine.finish, pause_of(engine))


def _our_training(task: Task, engine: Engine) -> Callable[[Task], Run]:
    step, arguments = bench_steps.training(task, engine)

    def prepare(shaped: Task) -> Run:
        x, y = bench_steps.our_batch(shaped, engine)
        engine.finish()
        return Within(engine, lambda: step(*arguments(x, y)))

    return prepare


def _our_predict(task: Task, engine: Engine) -> Callable[[Task], Run]:
    with on(engine):
        trainer = Trainer(bench_steps.network(task), "cross_entropy", Adam())

    def prepare(shaped: Task) -> Run:
        x, _ = shaped.batch()
        return Within(engine, lambda: trainer.predict(x, batch_size=len(x)))

    return prepare


def theirs(task: Task, kind: str, peer: Torch, mode: str = "", pause: float = 0.0) -> Runner:
    """PyTorch, eager or in the mode `COMPILED`; its predict goes from arrays to arrays, too."""
    make = _their_training if kind == "training" else _their_predict
    return Runner(their_name(peer, mode), make(task, peer, mode == COMPILED), peer.finish, pause)


def their_name(peer: Torch, mode: str) -> str:
    return f"{peer.name} ({mode})" if mode else peer.name


def _their_training(task: Task, peer: Torch, compiled: bool) -> Callable[[Task], Run]:
    step = bench_steps.their_training(task, peer, compiled=compiled)
    return lambda shaped: functools.partial(step, *bench_steps.their_batch(shaped, peer))


def _their_predict(task: Task, peer: Torch, compiled: bool) -> Callable[[Task], Run]:
    model, forward = bench_steps.their_network(task, peer, compiled)
    model.eval()

    def prepare(shaped: Task) -> Run:
        x, _ = shaped.batch()

        def call() -> Any:
            with peer.torch.no_grad():
                return forward(peer.torch.from_numpy(x).to(peer.where)).cpu().numpy()

        return call

    return prepare


def peers_of(task: Task, kind: str, setting: Setting, modes: Sequence[str] = ("",)) -> list[Runner]:
    """PyTorch in these modes, where it is installed."""
    if not isinstance(setting.torch, Torch):
        return []
    return [theirs(task, kind, setting.torch, mode, pause_of(setting.engine)) for mode in modes]


def against(bare: Row, peer: Attempts, pairs: Sequence[tuple[float, float]], steady: float | None = None) -> Row:
    """The row against a peer: pairs of ours and its [s], taken one after the other; their ratios' median and spread."""
    if peer.problem or not pairs:
        return replace(bare, peer=peer.name, note="; ".join(filter(None, [bare.note, peer.problem or "not run"])))
    ratios = [its / mine for mine, its in pairs]
    return replace(bare, peer=peer.name, peer_ms=ms(statistics.median(its for _, its in pairs)),
                   peer_steady_ms=ms(steady), ratio=round(statistics.median(ratios), 4), min=round(min(ratios), 4),
                   max=round(max(ratios), 4), rounds=len(ratios), doubt=doubt(ratios, NEEDED))


def ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 5)


def shaped(task: Task, batch: int | None = None, length: int | None = None) -> Task:
    """The task with another batch size, or another length of its sequences."""
    n, t = batch or task.x[0], length or (task.x[1] if len(task.x) > 1 else 0)
    x = (n, *((t, *task.x[2:]) if length else task.x[1:]))
    return replace(task, x=x, y=(n, t) if length and len(task.y) > 1 else (n, *task.y[1:]))
