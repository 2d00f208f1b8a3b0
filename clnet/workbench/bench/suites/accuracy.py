"""How exact each arithmetic is: products against float64, beside PyTorch's error; and whether a network learns the same
in it: on GPUs in float32 from three products as in float32, on other devices in float32 as PyTorch in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ....engine import on
from ..call import normal
from ..compare import Setting
from ..peers import Array, Torch
from ..row import ARITHMETIC, Row, number
from . import Suite
from . import matmul as bench_matmul
from . import steps as bench_steps

if TYPE_CHECKING:
    from ....engine.protocol import Engine

NAME = "accuracy"
LEGEND = ("error: of products |result - float64| / |float64|, Frobenius norms over rows spread over the result; of "
          "losses the largest difference. bound: what ours may be.")
HOW = {ARITHMETIC: bench_matmul.PLAIN, **bench_matmul.ARITHMETIC}
SPLIT = "fp32x3"  # for which PyTorch's float32 stands: it has no such arithmetic
SIZES, SMALLER = (4096, 8192), (1024, 2048)  # of the square products, on GPUs and elsewhere
ROWS = 256  # of a product, spread over it, that are compared with float64
NO_WORSE = 1.2  # an arithmetic said to be as accurate as float32 may have this times PyTorch's error in float32
DATA: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {"normal": lambda a: a, "positive": np.abs}

STEPS = 20
BATCHES = 4  # that take turns
FACTOR = 2.0  # what another arithmetic may differ from PyTorch's float32, in terms of what our float32 does; or
LEAST = 1e-4  # of the loss: what the order of sums alone makes


@dataclass(frozen=True)
class Product:
    """Rows, one an arithmetic: |result - float64| / |float64|,
    Frobenius norms over `ROWS` rows of a square product, ours and PyTorch's.

    PyTorch multiplies in the same arithmetic; in float32 for fp32x3, which is failed above `NO_WORSE` times that error
    (not where the device has no tensor cores, and our float32 stands in for it). Float32 is failed above what one sum
    after the other loses. Of positive values the sums grow with
    every term: a sum that rounds to one side shows.
    """

    size: int
    data: str = "normal"
    suite: str = NAME
    quick: bool = False

    @property
    def name(self) -> str:
        return f"product {self.size}×{self.size} · {self.size}×{self.size} of {self.data} values"

    def rows(self, setting: Setting) -> list[Row]:
        shape = (self.size, self.size)
        operands = [DATA[self.data](a) for a in normal(shape, shape)]
        some = np.linspace(0, self.size - 1, min(ROWS, self.size)).astype(int)
        exact = operands[0][some].astype(np.float64) @ operands[1].astype(np.float64)
        mine = {name: relative(bench_matmul.ours(setting.engine, operands, how)().numpy()[some], exact)
                for name, how in HOW.items()}
        peer: dict[str, float] = {}
        if isinstance(torch := setting.torch, Torch):
            peer = {name: relative(bench_matmul.theirs(torch, operands, how)()[some].float().cpu().numpy(), exact)
                    for name, how in HOW.items() if name != SPLIT}
            peer[SPLIT] = peer[ARITHMETIC]
        return [self._row(setting, name, mine, peer) for name in HOW]

    def _row(self, setting: Setting, name: str, mine: dict[str, float], peer: dict[str, float]) -> Row:
        whose = setting.torch.name if isinstance(setting.torch, Torch) else setting.torch
        row = setting.row(NAME, self.name, whose, arithmetic=name, error=mine[name], peer_error=peer.get(name))
        # An arithmetic that the device lacks is float32 to the last bit.
        if name != ARITHMETIC and mine[name] == mine[ARITHMETIC]:
            return replace(row, note="float32 here")
        if name == ARITHMETIC:
            return judged(replace(row, bound=chain(self.size)))
        if name != SPLIT or not peer:
            return row
        return judged(replace(row, bound=NO_WORSE * peer[SPLIT], note="the peer in float32"))


def judged(row: Row) -> Row:
    """The row, failed if its error is above its bound, or no number."""
    if row.bound is None or (row.error is not None and row.error <= row.bound):
        return row
    return replace(row, failed=True, note="; ".join(["above the bound", row.note][: 1 + bool(row.note)]))


def chain(k: int) -> float:
    """What k additions in a row lose of random terms, at most: roundings of 2⁻²⁴ that are as often up as down."""
    return float(2**-24 * (1 + k**0.5))


def relative(value: Array, exact: Array) -> float:
    """|value - exact| / |exact|, Frobenius norms."""
    return float(np.linalg.norm(value.astype(np.float64) - exact) / np.linalg.norm(exact))


@dataclass(frozen=True)
class Curve:
    """A row that says by how much the losses of `STEPS` steps differ from PyTorch's: of fp32x3 on GPUs, from its
    float32; elsewhere of float32, from its float64, beside what its float32 does. Failed where they differ by more than
    order makes.
    """

    task: bench_steps.Task
    suite: str = NAME
    quick: bool = False

    @property
    def name(self) -> str:
        return f"losses of {self.task.name}"

    def rows(self, setting: Setting) -> list[Row]:
        """None where there is nothing to compare with: on a CPU without PyTorch."""
        torch = setting.torch if isinstance(setting.torch, Torch) else None
        if setting.engine.device.is_gpu:
            return [self._of_three_products(setting, torch)]
        return [self._beside_float64(setting, torch)] if torch else []

    def _of_three_products(self, setting: Setting, torch: Torch | None) -> Row:
        mine = {a: losses(self.task, setting.engine, a) for a in ("fp32", SPLIT)}
        peer = their_losses(self.task, torch, setting.engine) if torch else mine["fp32"]
        apart = {a: float(np.abs(found - peer).max()) for a, found in mine.items()}
        note = f"{_from_to(peer)}; ours in float32 differ by {apart['fp32']:.1e}"
        return judged(setting.row(NAME, self.name, torch.name if torch else "ours in float32", arithmetic=SPLIT,
                                  error=apart[SPLIT], bound=_bound(apart["fp32"], peer), note=note))

    def _beside_float64(self, setting: Setting, torch: Torch) -> Row:
        mine, (peer, exact) = (losses(self.task, setting.engine, "fp32"),
                               (their_losses(self.task, torch, setting.engine, a) for a in ("fp32", "fp64")))
        error, theirs = (float(np.abs(found - exact).max()) for found in (mine, peer))
        return judged(setting.row(NAME, self.name, torch.name, arithmetic=ARITHMETIC, error=error, peer_error=theirs,
                                  bound=_bound(theirs, exact), note=f"{_from_to(exact)}, in float64"))


def _from_to(found: np.ndarray[Any, Any]) -> str:
    return f"largest difference of {STEPS} losses, {found[0]:.4f} to {found[-1]:.4f}"


def _bound(apart: float, found: np.ndarray[Any, Any]) -> float:
    return max(FACTOR * apart, LEAST * float(np.abs(found).max()))


def losses(task: bench_steps.Task, engine: Engine, arithmetic: str) -> np.ndarray[Any, Any]:
    """The losses of the steps, read one by one."""
    step, arguments = bench_steps.training(task, engine, arithmetic)
    batches = [task.batch(seed) for seed in range(BATCHES)]
    with on(engine):
        return np.array([float(step(*arguments(*batches[k % BATCHES])).numpy()) for k in range(STEPS)])


def their_losses(task: bench_steps.Task, peer: Torch, engine: Engine, arithmetic: str = "fp32") -> np.ndarray[Any, Any]:
    """PyTorch's, from our first weights."""
    with on(engine):
        step = bench_steps.their_training(task, peer, start=bench_steps.first(task), arithmetic=arithmetic)
    batches = [bench_steps.their_batch(task, peer, seed, arithmetic) for seed in range(BATCHES)]
    return np.array([float(step(*batches[k % BATCHES]).detach()) for k in range(STEPS)])


def works(gpu: bool) -> list[Product | Curve]:
    """Square products; the large gpt on GPUs, elsewhere the six networks."""
    bench_steps.registry.load_all()
    curves = bench_steps.gpu_tasks()[-1:] if gpu else bench_steps.tasks()
    return [*(Product(n, data) for n in (SIZES if gpu else SMALLER) for data in DATA), *map(Curve, curves)]


def cells(r: Row) -> dict[str, object]:
    """A row as it stands in tables."""
    return {"suite": r.suite, "work": r.work, "device": r.device, "arithmetic": r.arithmetic,
            "error": number(r.error, ".2e"), "against": r.peer, "its error": number(r.peer_error, ".2e"),
            "bound": number(r.bound, ".2e"), "note": r.remarks}


SUITE = Suite(works, kinds=True, legend=LEGEND, cells=cells, ratios=False, rates=False, narrow=False)
