"""What it costs that the batch size is an argument of the kernels: a step, beside the same with it compiled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....engine.protocol import Engine
from ....engine.record import spec_of
from ...cores import cores_of
from ..compare import Contender, Setting, Within
from ..row import Row
from ..suites import steps as bench_steps
from ..suites.steps import Task
from .apart import Apart
from .runners import Attempts, against, ms, shaped

PEER = Attempts("its batch compiled in")
ROUNDS, QUICK_ROUNDS = 11, 3
OTHER = 0.75  # of the batch: that of the second shape that the step is told to expect


@dataclass(frozen=True)
class BatchAsArgument(Apart):
    """A step whose batch was said to vary, at the batch of the step beside it, which has known no other. By turns."""

    task: Task
    quick: bool = False
    gpus: tuple[bool, ...] = (False, True)  # whether devices that it is for are GPUs

    @property
    def name(self) -> str:
        return f"{self.task.name}, batch as an argument"

    def rows(self, setting: Setting) -> list[Row]:
        device = setting.engine.device
        return super().rows(setting) if device.is_host or device.is_gpu in self.gpus else []

    def measure(self, setting: Setting) -> list[Row]:
        task, engine = self.task, setting.engine
        other = shaped(task, batch=max(2, round(task.x[0] * OTHER)))
        both = [step(engine, task, expected) for expected in ([task, other], [task])]
        for one in both:
            one.warm()
        pairs = [(both[0].sample(both[0].repeats), both[1].sample(both[1].repeats))
                 for _ in range(QUICK_ROUNDS if setting.quick else ROUNDS)]
        found = sorted(mine for mine, _ in pairs)
        return [against(setting.row(self.suite, self.name, ours_ms=ms(found[len(found) // 2])), PEER, pairs)]


def step(engine: Engine, task: Task, expected: Sequence[Task]) -> Contender:
    """The task's training step, told to expect these shapes."""
    recorded, arguments = bench_steps.training(task, engine)
    given = [arguments(*bench_steps.our_batch(t, engine)) for t in expected]
    recorded.expect(tuple(spec_of(a) for a in one) for one in given)
    return Contender(PEER.name, Within(engine, lambda: recorded(*given[0])), engine.finish, pause=0.0,
                     cores=cores_of(engine))


def works() -> list[BatchAsArgument]:
    """The bench's steps, each for the devices on which the bench has it."""
    sets = [{t.name: t for t in found} for found in (bench_steps.tasks(), bench_steps.gpu_tasks())]
    return [BatchAsArgument(t, name.split()[0] == "cnn", tuple(gpu for gpu in (False, True) if name in sets[gpu]))
            for name, t in (sets[True] | sets[False]).items()]
