"""The networks of the suite shapes: four of the bench's, and two small ones for sequences of any length."""

from __future__ import annotations

import functools

from ....workbench.evidence import registry
from .. import networks_torch as bench_torch
from ..suites import steps as bench_steps
from ..suites.steps import Config, Task, layer

NAMES = ("cnn", "lstm", "resnet20", "gpt")
LONGEST = 512  # steps of a sequence
FEATURES, HIDDEN = 32, 64  # of the bidirectional LSTM


def tasks() -> list[Task]:
    """Those of the bench's networks whose new shapes are measured."""
    registry.load_all()
    return [t for t in bench_steps.tasks() if t.name.split()[0] in NAMES]


def large() -> list[Task]:
    """Those at the sizes of GPUs."""
    registry.load_all()
    return [t for t in bench_steps.gpu_tasks() if t.name.split()[0] in ("resnet20", "gpt")]


def ragged() -> list[Task]:
    """Networks for sequences of up to `LONGEST` steps."""
    registry.load_all()
    walk = layer("LSTM", hidden_size=HIDDEN, return_sequences=False)
    both = [layer("Bidirectional", layer=walk), layer("Dense", out_features=10)]
    torch = functools.partial(bench_torch.bilstm, features=FEATURES, hidden=HIDDEN)
    return [Task("bilstm", both, (16, LONGEST, FEATURES), (16,), 10, torch),
            bench_steps.gpt_task("gpt", 8, width=64, heads=4, depth=2, tokens=96, length=LONGEST)]


def deep(blocks: int) -> Task:
    """Residual blocks of 16 channels on 16 × 16 pixels, one after the other."""
    registry.load_all()
    return Task(f"residual blocks {blocks}", _deep(blocks), (8, 3, 16, 16), (8,), 10, bench_torch.resnet20)


def _deep(blocks: int) -> list[Config]:
    return [bench_steps.convolution(16, bias=False), layer("BatchNorm"), layer("Activation", name="relu"),
            *[bench_steps.basic_block(16, 16, 1)] * blocks, layer("GlobalPool"), layer("Dense", out_features=10)]
