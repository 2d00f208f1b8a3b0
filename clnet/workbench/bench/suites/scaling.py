"""Step time against batch and against depth: flat where launches bind, then in proportion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..compare import Work
from . import Curve, Suite
from . import steps as bench_steps
from .steps import Config, Task, layer

if TYPE_CHECKING:
    from types import ModuleType

BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
DEPTHS = (1, 4, 16, 64)
WIDTH, CLASSES, BATCH = 256, 10, 64
QUICK = (64,)
CURVES = {"mlp batch": Curve("samples a batch", "step time"), "mlp depth": Curve("layers of 256", "step time")}


def _layers(depth: int) -> list[Config]:
    return [*[layer("Dense", out_features=WIDTH, activation="relu")] * depth, layer("Dense", out_features=CLASSES)]


def _torch(depth: int) -> Any:
    def network(torch: ModuleType) -> Any:
        nn = torch.nn
        return nn.Sequential(*(m for _ in range(depth) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())),
                             nn.Linear(WIDTH, CLASSES))

    return network


def task(name: str, batch: int, depth: int, quick: bool = False) -> Task:
    """`depth` layers of 256 with relu and an output layer, on inputs of 256."""
    products = depth * WIDTH**2 + WIDTH * CLASSES
    return Task(name, _layers(depth), (batch, WIDTH), (batch,), CLASSES, _torch(depth), products, WIDTH**2, quick=quick,
                suite="scaling")


def works() -> list[Work]:
    batches = [task(f"mlp batch {n}", n, 2, n in QUICK) for n in BATCHES]
    depths = [task(f"mlp depth {n}", BATCH, n) for n in DEPTHS]
    return [bench_steps.as_work(t) for t in (*batches, *depths)]


SUITE = Suite(works, curves=CURVES)
