"""The recorded pieces of training: the step, the evaluation, the copy to fall back to."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import ops as F
from ..core.autocast import wide
from ..core.autodiff import gradients
from ..core.precision import autocast
from ..core.state import Generator, Parameter, Variable, blank
from ..core.tensor import Operators, Tensor, as_tensor
from ..engine.record import Recorded
from ..errors import ConfigError
from ..layers.base import Layer, no_tape
from ..losses.ignored import counted, scored
from ..losses.reading import named
from ..model.files import layers, states
from ..optimizers.base import Optimizer, assign
from ..optimizers.closure import ClosureOptimizer, Search
from .augmenting import Augmentation, asked, seen
from .meter import Books, Gathered, Meter
from .metrics import Bound
from .scaling import LEAST, LossScale
from .weighing import Weighing

DRAWS = 4096  # random numbers' counters go on by this from step to step, where a step draws the same several times


@contextlib.contextmanager
def mode(model: Layer, training: bool) -> Iterator[None]:
    """The model in training or evaluation mode, and back to what it was."""
    before = model.training
    model.train(training)
    try:
        yield
    finally:
        model.train(before)


class Learning(NamedTuple):
    """How a batch of training is learnt from.

    weighing      what weighs samples and classes
    pieces        that a batch is computed in, one after the other, so that less is kept for the gradient
    augmentation  what changes its images; None: they are as they come
    """

    weighing: Weighing = Weighing()
    pieces: int = 1
    augmentation: Augmentation | None = None


class Formulas:
    """What is recorded: the step, the evaluation and the forward of one (model, loss, metrics, optimizer).

    precision   of the recording: a name of clnet.autocast, or None for what the block around it says
    ignore      the target of steps that do not count, None where all targets do
    learning    how batches are learnt from
    scaling     the LossScale, or None; with one, the meter has its scale and count of skipped steps behind the metrics
    """

    def __init__(self, model: Layer, loss: Callable[..., Any], metrics: dict[str, Bound], optimizer: Optimizer,
                 precision: str | None, scaling: LossScale | None, ignore: int | None, room: int,
                 learning: Learning) -> None:
        self.model, self.loss, self.metrics, self.optimizer = model, loss, metrics, optimizer
        self.precision, self.scaling, self.ignore, self.learning = precision, scaling, ignore, learning
        self.gathered = Gathered(metrics, room)
        self.names = ["loss", *(c for m in metrics.values() for c in m.columns)]
        mine = ["loss", *self.gathered.columns]
        self.columns = [*mine, *(("loss_scale", "skipped") if scaling else ())]
        self.meter, self.tested = self.gathered.meter(len(self.columns)), self.gathered.meter(len(mine))

    def recording(self) -> Any:
        """The block in which the model and its gradient are recorded."""
        return autocast(self.precision) if self.precision else contextlib.nullcontext()

    def generators(self) -> list[Generator]:
        """What a step draws random numbers from."""
        return [*self.model.generators(), *([a.random] if (a := self.learning.augmentation) else [])]

    def outcome(self, inputs: Sequence[Tensor], y: Tensor) -> tuple[Any, Any, Tensor]:
        """(output, loss, the target as metrics see it) in training mode; losses see float32."""
        weighing, augmentation = self.learning.weighing, self.learning.augmentation
        given, weight, batch = weighing.plain(inputs), weighing.weight(inputs), None
        if augmentation is not None:
            batch = augmentation(given, y, weight)
            given, y = (batch.x, *given[1:]), seen(batch)
        output = wide(self.model(*given))
        with autocast(None):
            whole, target, weight = (output, y, weight) if batch is None else asked(batch, output, _joined)
            loss = weighing.scored(self.loss, whole, target, weight, counted(self.loss, target, self.ignore))
            return output, sum(self.model.auxiliary(), loss), y

    def train(self, *arguments: Any) -> tuple[()]:
        *inputs, y, h = arguments
        scaling, before = self.scaling, [(v, v.tensor) for v in self._buffers()] if self.scaling else []
        with self.recording():
            output, y, loss, found = self._learnt(inputs, y)
        finite = self.optimizer.apply(found, self._hyper(h), scaling)
        for v, old in before:
            if finite is not None and v.tensor is not old:
                value, v._tensor = v.tensor, old
                assign(v, value, finite)
        self.note(self.meter, loss, output, y, h[h.size - 1], (scaling.scale, scaling.skipped) if scaling else ())
        return ()

    def _learnt(self, inputs: Sequence[Tensor], y: Tensor) -> tuple[Any, Tensor, Tensor, list[Tensor]]:
        """(output, target, loss, gradients) of a batch; of one in pieces Σ nₖ · that of piece k / Σ nₖ."""
        count, wanted = y.shape[0], [p.tensor for p in self.optimizer.parameters]
        pieces = min(self.learning.pieces, count)
        ends = [k * count // pieces for k in range(pieces + 1)]
        outputs, targets, whole, total = list[Any](), list[Tensor](), list[Tensor](), list[Tensor]()
        for a, b in itertools.pairwise(ends):
            part = (inputs, y) if pieces == 1 else ([x[a:b] for x in inputs], y[a:b])
            with no_tape(), mode(self.model, True):
                output, loss, target = self.outcome(*part)
            loss = loss if pieces == 1 else loss * ((b - a) / count)
            found = _slopes(self.scaling.scaled(loss) if self.scaling else loss, wanted)
            total = [t + g for t, g in zip(total, found, strict=True)] if total else found
            outputs.append(output)
            targets.append(target)
            whole.append(loss)
        y = y if self.learning.augmentation is None else _joined(targets)
        return _joined(outputs), y, sum(whole[1:], whole[0]), total

    def _buffers(self) -> list[Variable]:
        found = [v for v in self.model.variables().values() if not isinstance(v, Parameter)]
        return [*found, *states(self.model).values()]

    def test(self, *arguments: Any) -> tuple[()]:
        *inputs, y, row = arguments
        with no_tape(), mode(self.model, False), self.recording():
            output = wide(self.model(*inputs))
            with autocast(None):
                loss = scored(self.loss, output, y, counted(self.loss, y, self.ignore))
                self.note(self.tested, loss, output, y, row)
        return ()

    def note(self, meter: Meter, loss: Tensor, output: Any, y: Tensor, row: Tensor, more: Sequence[Any] = ()) -> None:
        """Records what a step leaves in a row of its meter, with `more` scalars at the end."""
        values, arrays = self.gathered.of(output, y, self.loss, counted(self.loss, y, self.ignore))
        meter.write([loss, *values, *more], row, arrays)

    def forward(self, *inputs: Any) -> Any:
        with no_tape(), mode(self.model, False), self.recording():
            return wide(self.model(*inputs))

    def _hyper(self, h: Tensor) -> Tensor:
        if self.scaling is None:
            return h
        rows = self.meter.rows
        table = h[: h.size - 2].reshape(rows, (h.size - 2) // rows)
        mine = F.equal(F.arange(n=rows, dtype="float32").reshape(-1, 1), self.scaling.skipped - h[h.size - 2])
        return F.sum(F.where(mine, table, 0.0), 0)


def _slopes(loss: Any, wanted: list[Tensor]) -> list[Tensor]:
    """The gradient of a batch's loss. Raises ConfigError where it is none to go down by."""
    if not isinstance(loss, Operators) or loss.size != 1:
        got = f"values of shape {loss.shape}; take their mean()" if isinstance(loss, Operators) else (
            f"{loss!r}; compute it of output and target with clnet.ops")
        raise ConfigError(f"Trainer: expected a loss that is one number, as a tensor; got {got}.")
    found = gradients(loss, wanted, allow_unused=True)
    if wanted and all(g is None for g in found):
        raise ConfigError(
            "Trainer: expected a loss that depends on the model's parameters; got one that none of them reaches, so "
            "that nothing would be learnt; compute it of the model's output by ops that have a gradient (no argmax, "
            "round, detach or .numpy()).")
    return [F.zeros(w.shape, w.dtype) if g is None else g for w, g in zip(wanted, found, strict=True)]


def _joined(outputs: list[Any]) -> Any:
    """The outputs of pieces of a batch as those of the batch."""
    if len(outputs) == 1:
        return outputs[0]
    if isinstance(outputs[0], (tuple, list)):
        return tuple(F.concat(list(parts), 0) for parts in zip(*outputs, strict=True))
    return F.concat(outputs, 0)


class BatchLoss:
    """The loss of a batch as an optimizer that evaluates it several times a step sees it: random layers draw the same
    in all evaluations of a step, buffers (running statistics) take the first, the meter has the last.
    """

    def __init__(self, formulas: Formulas) -> None:
        self.formulas = formulas
        self.recording = formulas.recording

    def loss(self, batch: Sequence[Tensor], first: Tensor, row: Tensor) -> Tensor:
        *inputs, y = batch
        f = self.formulas
        output, loss, y = self._once(inputs, y, first)
        f.note(f.meter, loss, output, y, row)
        return loss

    def residuals(self, batch: Sequence[Tensor], first: Tensor, row: Tensor) -> Tensor:
        *inputs, y = batch
        f = self.formulas
        output, loss, y = self._once(inputs, y, first)
        f.note(f.meter, loss, output, y, row)
        found = getattr(f.loss, "residuals", None)
        more = any("aux_loss" in vars(layer) for layer in layers(f.model).values())
        weighing, augmentation = f.learning.weighing, f.learning.augmentation
        mixes = augmentation is not None and augmentation.transform.mixes
        if found is None or f.ignore is not None or weighing or mixes or more:
            besides = (" with steps that do not count" if f.ignore is not None else " with weights" if weighing
                       else " of mixed samples" if mixes else " and losses of layers" * more)
            raise ConfigError(
                f"LevenbergMarquardt: expected a loss that is a sum of squares, whole; got {named(f.loss)}{besides}; "
                "take MSELoss, or a function with an attribute `residuals`, (output, target) -> r with loss = ½ Σ r².")
        with autocast(None):
            return as_tensor(found(output, y))

    def _once(self, inputs: Sequence[Tensor], y: Tensor, first: Tensor) -> tuple[Any, Tensor, Tensor]:
        """(output, loss, target)"""
        f = self.formulas
        buffers = [(v, v.tensor) for v in f._buffers()]
        counters = [(g.counter, g.counter.tensor + (first * DRAWS).astype("uint32")) for g in f.generators()]
        for counter, start in counters:
            counter.assign(start)
        with no_tape(), mode(f.model, True):
            output, loss, y = f.outcome(inputs, y)
        for counter, start in counters:
            counter.assign(start)
        for v, old in buffers:
            if v.tensor is not old:
                value, v._tensor = v.tensor, old
                assign(v, value, first > 0.5)
        return output, loss, y


class Steps:
    """The recorded functions of one (model, loss, metrics, optimizer). Each is planned once per batch shape and engine.

    They refer to `formulas`, never back to this: a cycle would hold the model's memory until Python looks for cycles.
    """

    def __init__(self, model: Layer, loss: Callable[..., Any], metrics: dict[str, Bound], optimizer: Optimizer,
                 precision: str | None = None, scaling: LossScale | None = None, ignore: int | None = None,
                 room: int = 0, learning: Learning = Learning()) -> None:
        if scaling is not None and isinstance(optimizer, ClosureOptimizer):
            raise ConfigError(
                f'Trainer(precision="fp16"): expected no {type(optimizer).__name__}, which compares losses that a '
                'loss scale would move; take precision="bf16", or none.')
        self.formulas = formulas = Formulas(model, loss, metrics, optimizer, precision, scaling, ignore, room, learning)
        self.learning = learning
        self.metrics, self.optimizer, self.scaling, self.ignore = metrics, optimizer, scaling, ignore
        self.names, self.columns = formulas.names, formulas.columns
        self.meter, self.tested, self.room = formulas.meter, formulas.tested, room
        self.skipped = 0  # steps that were, as of the last read
        self._hypers: list[Any] = []  # of the steps since then
        self.train = Recorded(formulas.train, "training step")
        self.test = Recorded(formulas.test, "evaluation step")
        self.forward = Recorded(formulas.forward, "forward")
        self._search: Search | None = None

    @property
    def search(self) -> Search | None:
        """What drives an optimizer that evaluates the loss several times a step; None for others."""
        if self._search is None and isinstance(self.optimizer, ClosureOptimizer):
            self._search = Search(self.optimizer, BatchLoss(self.formulas), Recorded)
        return self._search

    def books(self) -> Books:
        """What an epoch or an evaluation gathers, with nothing in it."""
        return Books(self.formulas.gathered)

    def holds(self, metrics: dict[str, Bound], room: int) -> bool:
        """Whether these metrics of batches of up to `room` samples are what is recorded."""
        gathered = self.formulas.gathered
        return metrics == self.metrics and (room <= gathered.room or not gathered.keeps)

    # --- what changes from step to step
    def arguments(self, t: int, row: int) -> np.ndarray[Any, Any]:
        """As one vector: the optimizer's scalars of step t and the row of the meter.

        With loss scaling, how many of the `row` steps since the last read were left out is known on the device alone:
        the scalars are those of t, t − 1, … and it takes its own.
        """
        if self.scaling is None:
            return np.append(self.optimizer.hyper(t), np.float32(row)).astype(np.float32)
        if not row:
            self._hypers = []
        self._hypers += [self.optimizer.hyper(t - row + k) for k in range(len(self._hypers), row + 1)]
        table = np.zeros((self.meter.rows, self._hypers[0].size), np.float32)
        table[: row + 1] = self._hypers[row::-1]
        return np.append(table, np.array([self.skipped, row], np.float32))

    def left_out(self, found: np.ndarray[Any, Any]) -> int:
        """How many of the steps of these rows of the meter were; the rows count as read from then on."""
        if self.scaling is None or not len(found):
            return 0
        before, self.skipped = self.skipped, int(found[-1, -1])
        return self.skipped - before

    def bad(self, found: np.ndarray[Any, Any]) -> Any:
        """Of these rows of the meter, those of steps with a loss that is not finite,
        or whose gradient was not at any scale.
        """
        failed: Any = ~np.isfinite(found[:, 0])
        return failed if self.scaling is None else failed | (found[:, -2] <= LEAST)

    def begin(self) -> None:
        """A run starts where the variables are."""
        self.meter.clear()
        if self.scaling is not None:
            self.skipped = int(self.scaling.state.numpy()[2])


def state(formulas: Formulas) -> dict[str, Variable]:
    """Everything that a step changes: flat parameters, optimizer state, buffers, random counters, what calls leave for
    later ones, the loss scale.
    """
    model, optimizer, scaling = formulas.model, formulas.optimizer, formulas.scaling
    found = {f"parameters.{k}": a.flat for k, a in enumerate(optimizer.arenas)}
    found |= {f"optimizer.{k}.{n}": v for k, m in enumerate(optimizer.memories) for n, v in m.items()}
    held = {id(p) for p in optimizer.parameters}
    found |= {f"model.{n}": v for n, v in model.variables().items() if id(v) not in held}
    found |= {f"states.{n}": v for n, v in states(model).items()}
    found |= {f"scale.{n}": v for n, v in (scaling.variables().items() if scaling else ())}
    return found | {f"random.{k}": g.counter for k, g in enumerate(formulas.generators())}


class Snapshot:
    """A copy of the state on the device, taken while everything was finite."""

    def __init__(self, variables: dict[str, Variable]) -> None:
        self.variables = list(variables.values())
        self.copies = [blank(v.shape, v.dtype, f"copy of {v.name}") for v in self.variables]
        # Not of self, which has them: a cycle would hold the copies until Python looks for cycles.
        self._take = Recorded(functools.partial(self._copy, self.variables, self.copies), "take snapshot")
        self._restore = Recorded(functools.partial(self._copy, self.copies, self.variables), "restore snapshot")
        self._finite = Recorded(functools.partial(self._sum, self.variables), "finite")

    @staticmethod
    def _copy(source: list[Variable], target: list[Variable]) -> tuple[()]:
        for s, t in zip(source, target, strict=True):
            t.assign(s.tensor)
        return ()

    @staticmethod
    def _sum(variables: list[Variable]) -> Tensor:
        floats = [v.tensor for v in variables if v.dtype.startswith(("float", "bfloat"))]
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
