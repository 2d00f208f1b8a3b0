"""The bench's networks in tinygrad, as its own users write them: a training step under TinyJit. The module is handed
in: it is never a dependency.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .peers import Run, Tinygrad

if TYPE_CHECKING:
    from types import ModuleType

    from .peers import TheirTensor
    from .suites.steps import Task

CAPTURED = 3  # calls until TinyJit replays


def mlp(nn: ModuleType) -> tuple[list[Any], Callable[[Any], Any]]:
    a, b, c = nn.Linear(784, 512), nn.Linear(512, 512), nn.Linear(512, 10)
    return [a, b, c], lambda x: c(b(a(x).relu()).relu())


def cnn(nn: ModuleType) -> tuple[list[Any], Callable[[Any], Any]]:
    a, b = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
    c, d = nn.Linear(64 * 49, 128), nn.Linear(128, 10)

    def forward(x: TheirTensor) -> Any:
        x = b(a(x).relu().max_pool2d((2, 2))).relu().max_pool2d((2, 2))
        return d(c(x.flatten(1)).relu())

    return [a, b, c, d], forward


def step(peer: Tinygrad, task: Task, network: Callable[[Any], tuple[list[Any], Callable[[Any], Any]]]) -> Run:
    """A training step of `network` on the task's batch: cross entropy, gradients, Adam."""
    nn = importlib.import_module("tinygrad.nn")
    layers, forward = network(nn)
    optimizer = nn.optim.Adam(nn.state.get_parameters(layers), lr=1e-3)
    x, y = (peer.array(a) for a in task.batch())

    @peer.module.TinyJit  # type: ignore[untyped-decorator]
    def run(x: TheirTensor, y: TheirTensor) -> Any:
        optimizer.zero_grad()
        value = forward(x).sparse_categorical_crossentropy(y).backward()
        return value.realize(*optimizer.schedule_step())

    for _ in range(CAPTURED):
        run(x, y)
    return lambda: run(x, y)
