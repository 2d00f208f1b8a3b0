"""The recorded pieces of training: the step, the evaluation, the table of losses on the device, the copy to fall back to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import ops as F
from ..autodiff import gradients
from ..engine.record import Recorded
from ..layers.base import Layer, no_tape
from ..optimizers.base import Optimizer
from ..state import Variable
from ..tensor import Tensor, as_tensor

ROWS = 64  # steps whose loss and metrics wait on the device


class Meter:
    """A table on the device: a row of numbers per step, read to the host together.

    `filled` rows are in use; `rows` is how many there are.
    """

    def __init__(self, columns: int, rows: int = ROWS) -> None:
        self.table = Variable(np.zeros((rows, columns), np.float32), "meter")
        self.rows, self.filled = rows, 0

    def write(self, values: list[Any], row: Any) -> None:
        """Records: table[row] ← values (scalars); row is a float32 scalar of the step's arguments."""
        here = F.equal(F.arange(n=self.rows, dtype="float32").reshape(-1, 1), row)
        column, table = F.arange(n=len(values), dtype="int32"), self.table.tensor
        for k, value in enumerate(values):  # element by element of the table, so that all of it is one launch
            cell = F.bit_and(here, F.equal(column, k))
            table = F.where(cell, as_tensor(value).astype("float32").reshape(()), table)
        self.table.assign(table)

    def read(self) -> np.ndarray[Any, Any]:
        """The filled rows as float64; set `filled` to 0 to use them again. Waits for the steps that fill them."""
        if not self.filled:
            return np.zeros((0, self.table.shape[1]))
        return np.asarray(self.table.numpy(), np.float64)[: self.filled]


@contextlib.contextmanager
def mode(model: Layer, training: bool) -> Iterator[None]:
    """The model in training or evaluation mode, and back to what it was."""
    before = model.training
    model.train(training)
    try:
        yield
    finally:
        model.train(before)


class Steps:
    """The recorded functions of one (model, loss, metrics, optimizer). Each is planned once per batch shape and engine."""

    def __init__(self, model: Layer, loss: Callable[..., Any], metrics: dict[str, Callable[..., Any]], optimizer: Optimizer) -> None:
        self.model, self.loss, self.metrics, self.optimizer = model, loss, metrics, optimizer
        self.names = ["loss", *metrics]
        self.meter, self.tested = Meter(len(self.names)), Meter(len(self.names))
        self.train = Recorded(self._train, "training step")
        self.test = Recorded(self._test, "evaluation step")
        self.forward = Recorded(self._forward, "forward")

    def _train(self, *arguments: Any) -> tuple[()]:
        *inputs, y, h = arguments
        with no_tape(), mode(self.model, True):
            output = self.model(*inputs)
            loss = sum(self.model.auxiliary(), self.loss(output, y))
        found = gradients(loss, [p.tensor for p in self.optimizer.parameters])
        self.optimizer.apply(found, h)
        self.meter.write([loss, *(m(output, y) for m in self.metrics.values())], h[h.size - 1])
        return ()

    def _test(self, *arguments: Any) -> tuple[()]:
        *inputs, y, row = arguments
        with no_tape(), mode(self.model, False):
            output = self.model(*inputs)
            self.tested.write([self.loss(output, y), *(m(output, y) for m in self.metrics.values())], row)
        return ()

    def _forward(self, *inputs: Any) -> Any:
        with no_tape(), mode(self.model, False):
            return self.model(*inputs)

    def arguments(self, t: int, row: int) -> np.ndarray[Any, Any]:
        """What changes from step to step, as one vector: the optimizer's scalars of step t and the row of the meter."""
        return np.append(self.optimizer.hyper(t), np.float32(row)).astype(np.float32)


def state(model: Layer, optimizer: Optimizer) -> dict[str, Variable]:
    """Everything that a step changes: flat parameters, optimizer state, buffers, random counters."""
    found = {f"parameters.{k}": a.flat for k, a in enumerate(optimizer.arenas)}
    found |= {f"optimizer.{k}.{n}": v for k, m in enumerate(optimizer.memories) for n, v in m.items()}
    held = {id(p) for p in optimizer.parameters}
    found |= {f"model.{n}": v for n, v in model.variables().items() if id(v) not in held}
    return found | {f"random.{k}": g.counter for k, g in enumerate(model.generators())}


class Snapshot:
    """A copy of the state on the device, taken while everything was finite."""

    def __init__(self, variables: dict[str, Variable]) -> None:
        self.variables = list(variables.values())
        self.copies = [Variable(np.zeros(v.shape, np.dtype(v.dtype)), f"copy of {v.name}") for v in self.variables]
        self._take = Recorded(lambda: self._copy(self.variables, self.copies), "take snapshot")
        self._restore = Recorded(lambda: self._copy(self.copies, self.variables), "restore snapshot")
        self._finite = Recorded(self._check, "finite")

    @staticmethod
    def _copy(source: list[Variable], target: list[Variable]) -> tuple[()]:
        for s, t in zip(source, target, strict=True):
            t.assign(s.tensor)
        return ()

    def _check(self) -> Tensor:
        floats = [v.tensor for v in self.variables if v.dtype.startswith(("float", "bfloat"))]
        total = F.zeros((), "float32")
        for t in floats:
            total = total + F.sum(t - t).astype("float32")  # 0, or NaN where t holds NaN or infinity
        return total

    def finite(self) -> bool:
        """Whether all of the state is finite now: one reduction, 4 bytes to the host."""
        return float(self._finite().numpy()) == 0.0

    def take(self) -> None:
        self._take()

    def restore(self) -> None:
        self._restore()
