"""The Trainer: a model, a loss and an optimizer as one step that is recorded once and replayed on the device."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import train as offered
from ..core.precision import checked
from ..core.spec import Spec, dtype_name
from ..core.tensor import as_tensor
from ..errors import ConfigError, DataError
from ..habits import TRAINER
from ..layers.base import Layer
from ..losses.base import Loss
from ..losses.reading import ACTIVATION, out_of_range, probabilities, reading
from ..model import files as model_io
from ..names import lacking, told
from ..optimizers.base import Optimizer
from . import checkpoint, copies
from .augmenting import augmentation_of
from .batches import SIZE, Batches, even
from .callbacks.base import several, tell
from .check import Tried, bad_input, check, check_inputs, time_axes
from .history import History
from .home import alone, at_home
from .live import view_of
from .loop import Loop
from .metrics import bound, resolve
from .options import apart, held_out, joined, loss_of, optimizer_of, options, pieces_of
from .preparing import Preparation, beside
from .samples import Samples
from .scaling import LossScale
from .sequences import Sequences
from .step import Learning, Steps
from .stream import batches_of, samples_of
from .taken import attach
from .weighing import weighing_of

if TYPE_CHECKING:
    from .finder import FoundRates

BATCH = 256  # samples that are looked at together where nothing is learnt


class Trainer:
    """Trains any Layer: step = forward, loss, gradients, update, one recorded plan per batch shape.

    loss        a Loss, its name ("mse"), or a function (output, target) -> scalar, maybe with an attribute `reads`
    optimizer   an Optimizer, or its name ("adam")
    metrics     "auto": those that fit the loss and the shapes (accuracy of classes, binary_accuracy of one yes or no,
                label_accuracy of several, rmse and r2 of numbers); or names from clnet.metrics ("f1", "roc_auc",
                "top_3"), its objects, F1(average="macro"), and functions (output, target) -> scalar tensor; computed
                on the device, of all samples whatever the batches are
    precision   "bf16", "fp16": mixed precision by the rules of clnet.autocast, with float32 weights, gradients and
                optimizer state; "fp32", "tf32", "fp32x3": the arithmetic of products; None: what clnet.precision and
                clnet.autocast say at the first step
    loss_scale  the LossScale of "fp16", where not the usual one: a step whose gradient overflows is left out
                and the scale halved
    Per step nothing leaves the device: losses and metrics wait there and are read together.
    """

    @functools.partial(told, method="Trainer")
    def __init__(self, model: Layer, loss: str | type[Loss] | Callable[..., Any],
                 optimizer: str | type[Optimizer] | Optimizer = "adam",
                 metrics: str | Callable[..., Any] | Iterable[Any] | None = "auto", precision: str | None = None,
                 loss_scale: LossScale | None = None) -> None:
        if not isinstance(model, Layer):
            raise ConfigError(f"Trainer: expected a model, as Sequential(...) or any layer; got {model!r}.")
        if loss_scale is not None and (precision != "fp16" or not isinstance(loss_scale, LossScale)):
            raise ConfigError(
                f'Trainer(loss_scale={loss_scale!r}): expected a LossScale, '
                f'with precision="fp16"; got precision={precision!r}.')
        self.model, self.loss, self.optimizer = model, loss_of(loss), optimizer_of(optimizer)
        self.precision = None if precision is None else checked(precision, "Trainer(precision=...)")
        self.loss_scale = (loss_scale or LossScale()) if precision == "fp16" else None
        self.metrics, self.history = resolve(metrics), History()
        self.preparation: Preparation | None = None  # of the data of the last fit
        self.begin()

    def begin(self) -> None:
        """With nothing recorded."""
        self.steps = Steps(self.model, self.loss, {}, self.optimizer, self.precision, self.loss_scale)
        self.learning, self.loop = Learning(), None  # type: Learning, Any
        self._tried, self.running = Tried(self.model), threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return copies.kept(self)

    def __setstate__(self, found: dict[str, Any]) -> None:
        copies.restored(self, found)

    def __repr__(self) -> str:
        how = f", precision={self.precision!r}" if self.precision else ""
        return f"Trainer({type(self.model).__name__}, {self.loss!r}, {self.optimizer!r}, metrics={self._named()}{how})"

    def _named(self) -> Any:
        return "auto" if self.metrics is None else tuple(m.name for m in self.metrics)

    def fit(self, *arguments: Any, **named: Any) -> History:
        """fit(x, y, epochs=1) or fit(data, epochs=1): trains for `epochs` epochs in all
        (those of a resumed run count), returns the History.

        data, validation  a Dataset, Sequences or a pair (x, y); validation=0.2 holds out that share of the samples,
                          drawn by the seed
        batch_size        None: what the optimizer is meant for (64; all samples for GradientDescent)
        tokens            of Sequences, in place of batch_size: as many as fit, steps that fill them up counted
        bucket            of Sequences: whether those of like lengths share a batch
        accumulate        updates are of so many batches: computed one after the other, their gradients added up
        drop_last         whether a last batch that is not full is left out
        sample_weight     how much each sample counts in the loss that is trained with: one number a sample
        class_weight      the same by class: "balanced", every class as much as the others in all, or
                          {class number or name: weight}; the loss of a batch is Σ w l / Σ w. Validation and metrics
                          count every sample once
        augment           changes of images, drawn anew for each sample of each step, of training alone: transforms of
                          clnet.augment or their names, [RandomCrop(padding=2), "flip"]
        callbacks         one, or several in a list
        seed              of the order of the samples
        view              "live": curves, numbers and buttons in a notebook; "text": a bar and lines; None: nothing;
                          a callback of one's own; left out: live in a notebook, text elsewhere
        verbose           False: as view=None
        resume            a file that Checkpoint wrote: the rest of that run, equal to the last bit on the same device
        on_nan            "stop" raises NonFiniteError, "skip" leaves the batch out, "ignore" does not look
        fast_dev_run      one batch of everything, once
        Ctrl-C returns the History with `interrupted` set, the model as of the last whole step.
        """
        x, y, rest = apart(arguments, named)
        chosen = options(self._fit, (None, *rest), named)
        return self._fit(**{**chosen, "data": joined(x, y)})

    @at_home
    @alone
    def _fit(self, data: Samples, epochs: int = 1, batch_size: int | None = None, validation: object = None,
             callbacks: object = (), seed: int = 0, verbose: bool | int = True, resume: str | Path | None = None,
             on_nan: str = "stop", fast_dev_run: bool = False, tokens: int | None = None, bucket: bool = True,
             drop_last: bool = False, accumulate: int = 1, sample_weight: object = None, class_weight: object = None,
             view: object = "auto", augment: object = None) -> History:
        watching = view_of(view, verbose)
        if on_nan not in ("stop", "skip", "ignore"):
            raise ConfigError(f"fit(on_nan={on_nan!r}): expected 'stop', 'skip' or 'ignore'.")
        if not isinstance(epochs, (int, np.integer)) or isinstance(epochs, bool) or epochs < 0:
            raise ConfigError(f"fit(epochs={epochs!r}): expected a whole number of at least 0.")
        data = data if sample_weight is None else data.weighed(sample_weight)
        data, validation = held_out(data, validation, seed)
        self.preparation = data.preparation
        if batch_size is None and tokens is None and data.counted:
            batch_size = self.optimizer.batch(len(data))
        pieces = pieces_of(accumulate, data, self.optimizer)
        batch_size = batch_size if pieces == 1 else (batch_size or SIZE) * pieces
        batches = batches_of(data, batch_size, True, seed, tokens, drop_last, bucket)
        if fast_dev_run:
            first = slice(len(batches.cuts()[0]))
            epochs, data, validation = 1, data.take(first), validation and validation.take(first)
            batches = batches_of(data, batch_size, True, seed, tokens, drop_last, bucket)
        self.learning = Learning(weighing_of(data, class_weight, self.loss), pieces, augmentation_of(
            augment, data, seed, self.loss, self.learning.augmentation))
        room = max(len(part) for part in batches.cuts())
        self._prepare(data, finite=on_nan == "stop", room=room)
        if validation is not None:
            self._prepare(validation, "validation", room=min(len(validation), BATCH) if validation.counted else BATCH)
        called = [*several(callbacks), *([watching] if watching else [])]
        tell(called, "on_prepare", self)
        attach(self)
        self.history = History()
        self.optimizer.expect([*self.steps.names, *(f"val_{n}" for n in self.steps.names if validation is not None)])
        self.loop = Loop(self, batches, validation, int(epochs), called, watching is not None, on_nan)
        if resume is not None:
            checkpoint.load(self, resume)
        self.loop.run()
        return self.history

    def evaluate(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """evaluate(x, y, batch_size=256) or evaluate(data, ...): loss and metrics in evaluation mode,
        every sample counting once,
        or every step where targets are one per step of Sequences. They are numbers; a confusion_matrix is a matrix.

        Data is checked as that of `fit`, tokens= is its.
        """
        x, y, rest = apart(arguments, named)
        chosen = options(self._evaluate, (None, *rest), named)
        return self._evaluate(**{**chosen, "data": joined(x, y)})

    @at_home
    def _evaluate(self, data: Samples, batch_size: int = BATCH, tokens: int | None = None) -> dict[str, Any]:
        data = data.prepared_by(self.preparation)
        self._prepare(data, "evaluate", room=len(_in_order(data, batch_size, tokens).cuts()[0]))
        numbers, others = self.measure(data, "evaluate", batch_size, tokens)
        return numbers | others

    def measure(self, data: Samples, who: str, batch_size: int = BATCH,
                tokens: int | None = None) -> tuple[dict[str, float], dict[str, Any]]:
        """As `evaluate`, of data that was checked: (numbers, metrics that are none)."""
        data = data.evenly()
        meter, books, weights = self.steps.tested, self.steps.books(), list[float]()
        meter.clear()
        batches = _in_order(data, batch_size, tokens)
        if isinstance(data, Sequences):
            self.steps.test.expect((*data.batch_specs(*shape), Spec((), "float32")) for shape in batches.shapes())
        with contextlib.closing(batches.epoch()) as them:
            for inputs, y in them:
                self.steps.test(*inputs, y, np.float32(meter.filled))
                meter.advance()
                weights.append(data.weight(y))
                if meter.full:
                    books.keep(meter, meter.read(), weights)
                    weights = []
        books.keep(meter, meter.read(), weights)
        numbers, others = books.numbers()
        if math.isnan(numbers["loss"]):
            self._explain(data, who)
        return numbers, others

    def _explain(self, data: Samples, who: str) -> None:
        """Why a loss is NaN, where the data says it. Raises DataError where the loss cannot read what the model gives.
        """
        if text := bad_input(data):
            warnings.warn(f"{who}: the loss is NaN, for {text}; leave such samples out, or fill them.", RuntimeWarning,
                          stacklevel=4)
        elif text := self.out_of_range(data.rows(slice(0, 256))[0]):
            raise DataError(f"{who}: {text}")

    def out_of_range(self, inputs: Sequence[Any]) -> str:
        """A sentence, where the loss reads probabilities and the model gives something else for these inputs; else "".
        """
        out = self.steps.forward(*inputs) if reading(self.loss) in ACTIVATION else None
        return "" if out is None or isinstance(out, tuple) else out_of_range(self.loss, np.asarray(out.numpy()))

    @at_home
    def predict(self, x: object, batch_size: int = 256, tokens: int | None = None) -> Any:
        """The model's raw outputs in evaluation mode (before a loss on logits: logits), as NumPy arrays,
        a tuple where it has several.

        x   (N, …), also of one sample: x[None]; or Sequences, with tokens= as in `fit`: results are in their order,
            and an output with a value for every step is a list of arrays of their lengths;
            or raw data, as a frame, where the last fit was of such data: it is prepared alike (`trainer.preparation`)
        Outputs for a standardised target are in the target's units.
        `predict_proba` gives probabilities, predict(x).argmax(1) the classes.
        """
        found, _ = self._predicted(x, batch_size, tokens)
        if len(found) > 1:
            return found
        return found[0] if self.preparation is None else self.preparation.in_units(found[0])

    def _predicted(self, x: object, batch_size: int, tokens: int | None) -> tuple[tuple[Any, ...], list[int | None]]:
        """(outputs, the axis of each along which steps lie, where it is a list of arrays)"""
        data = samples_of(x, self.preparation)
        if not isinstance(data, Sequences):
            found = self._of_arrays(data, batch_size, tokens)
            return found, [None] * len(found)
        check_inputs(self.model, data)
        axes, batches, pieces = time_axes(self.model, data), _in_order(data, batch_size, tokens), []
        shapes = {shape: data.filled_up(shape, batches.room) for shape in batches.shapes()}
        self.steps.forward.expect(tuple(data.specs(*shape)) for shape in shapes.values())
        for part in batches.cuts():
            rows, size = data.rows(part)[0], shapes[data.shape_of(part)][0]
            found = self.steps.forward.values(*(rows if data.packed else _filled(rows, size)))
            pieces.append([data.parted(a, part, axis) for a, axis in zip(found, axes, strict=True)])
        back = np.argsort(batches.order())
        outputs = zip(zip(*pieces, strict=True), axes, strict=True)
        return tuple(_put_back(list(p), back, data, axis) for p, axis in outputs), axes

    def _of_arrays(self, data: Samples, batch_size: int, tokens: int | None) -> tuple[np.ndarray[Any, Any], ...]:
        """The outputs for samples of one shape."""
        usual = data.counted and tokens is None and type(batch_size) is int and batch_size > 0
        size = even(len(data), batch_size) if usual else _in_order(data, batch_size, tokens).room(1)
        self._tried(data, self.steps.forward, size)
        if data.counted:
            pieces = [self._of_batch(data, data.rows(slice(k, k + size))[0], size) for k in range(0, len(data), size)]
        else:
            with contextlib.closing(_in_order(data, batch_size, tokens).epoch()) as batches:
                pieces = [self._of_batch(data, rows, size) for rows, _ in batches]
        return tuple(np.concatenate(p) for p in zip(*pieces, strict=True))

    def _of_batch(self, data: Samples, rows: Sequence[Any], size: int) -> list[np.ndarray[Any, Any]]:
        found: tuple[np.ndarray[Any, Any], ...] = ()
        problem: Exception | None = None
        try:
            found = self.steps.forward.values(*_filled(rows, size))
        except Exception as error:
            problem = error
        if problem is not None or any(a.shape[:1] != (size,) for a in found):
            self._tried.again(data)  # says what is wrong, if it is that there are as many as these
        if problem is not None:
            raise problem
        return [a[: len(rows[0])] for a in found]

    def predict_proba(self, x: object, batch_size: int = 256, tokens: int | None = None) -> Any:
        """Probabilities as the loss reads the outputs: of the classes along axis 1, summing to 1, or of each yes;
        of Sequences as `predict` gives them. Raises ConfigError for other losses.
        """
        found, axes = self._predicted(x, batch_size, tokens)
        if len(found) > 1:
            raise ConfigError(
                "predict_proba: expected a model of one output; "
                f"got {len(found)}; take the softmax or sigmoid of what predict gives.")
        out, axis = found[0], axes[0]
        try:
            if axis is None:
                return probabilities(self.loss, out).numpy()
            if axis == 0:  # packed: rows of steps are samples
                whole, axis = probabilities(self.loss, as_tensor(np.concatenate(out))).numpy(), 1
            else:
                whole = probabilities(self.loss, as_tensor(np.concatenate(out, axis - 1)[None])).numpy()[0]
            return np.split(whole, np.cumsum([a.shape[axis - 1] for a in out])[:-1], axis - 1)
        except ConfigError as error:
            raise ConfigError(f"predict_proba: {error}") from None

    def find_lr(self, *arguments: Any, **named: Any) -> FoundRates:
        """find_lr(x, y, low=1e-7, high=10, steps=100, augment=None) or find_lr(data, ...): losses while the learning
        rate rises, a suggestion, a plot; the trainer is as before. See clnet.train.find_lr.
        """
        x, y, rest = apart(arguments, named)
        return offered.find_lr(**{**options(offered.find_lr, (self, None, *rest), named), "data": joined(x, y)})

    def fit_one_cycle(self, *arguments: Any, max_lr: float | None = None, **named: Any) -> History:
        """fit_one_cycle(x, y, epochs=5, max_lr=0.01, ...): `fit` while the rate goes up to max_lr (None: the
        optimizer's own) and down again, once over the whole run; the optimizer's rate is as before then.
        """
        return offered.finder.one_cycle(self, max_lr, arguments, named)

    def stop(self, why: str = "stopped") -> None:
        """Ends training after this epoch."""
        self.history.stopped = why

    @at_home
    def save(self, path: str | Path) -> None:
        """The model, as model.save: `clnet.load(path)` reads it; and beside it, where the last fit was of a table or
        other raw data, what prepared them: `clnet.data.load_preparation(path)`. What `fit(resume=)` needs is written
        by save_checkpoint. Raises CheckpointError, DataError.
        """
        model_io.save(self.model, path)
        if self.preparation is not None:
            self.preparation.save(beside(path))

    def __getattr__(self, name: str) -> Any:
        raise lacking(self, name, TRAINER.get)

    @at_home
    def save_checkpoint(self, path: str | Path) -> None:
        """Everything that `fit(resume=path)` needs. Raises CheckpointError, ConfigError before the first fit."""
        if self.loop is None:
            raise ConfigError(
                "save_checkpoint: expected a run; got none; call fit first, or save the model with model.save.")
        checkpoint.save(self, path)

    def prepare(self, data: Samples) -> None:
        """Everything that fit does before its first step."""
        self._prepare(data)
        attach(self)

    def _prepare(self, data: Samples, who: str = "", finite: bool = True, room: int = 0) -> None:
        """Builds the model, tries shapes and labels of all data without running anything,
        and takes the metrics that fit, with room for batches of so many samples.
        """
        outputs, labels = check(self.model, self.loss, data, who, finite)
        target = Spec(labels.shape, dtype_name(labels.dtype))
        metrics = bound(self.metrics, self.loss, outputs, target, data.ignore is not None)
        steps = self.steps
        if not steps.holds(metrics, room) or (data.ignore, self.learning) != (steps.ignore, steps.learning):
            self.steps = Steps(self.model, self.loss, metrics, self.optimizer, self.precision, self.loss_scale,
                               data.ignore, max(room, steps.room), self.learning)


def _in_order(data: Samples, batch_size: int, tokens: int | None) -> Batches:
    """Batches for looking at all samples once: in their order, or Sequences from short to long."""
    size = None if tokens is not None else even(len(data), batch_size) if data.counted else batch_size
    return batches_of(data, size, shuffle=False, tokens=tokens)


def _filled(rows: Sequence[np.ndarray[Any, Any]], size: int) -> list[np.ndarray[Any, Any]]:
    """A short batch filled up, so that it needs no plan of its own."""
    return [np.concatenate([a, np.repeat(a[:1], size - len(a), 0)]) if len(a) < size else a for a in rows]


def _put_back(pieces: list[np.ndarray[Any, Any]], back: np.ndarray[Any, Any], data: Sequences, axis: int | None) -> Any:
    """What was computed in batches, in the order of the sequences; along `axis` cut to their lengths."""
    if axis is None:
        return np.concatenate(pieces)[back]
    rows = [row for piece in pieces for row in piece]
    return [np.take(rows[k], np.arange(n), max(axis - 1, 0)) for k, n in zip(back, data.lengths, strict=True)]


def _shown(hidden: Callable[..., Any]) -> inspect.Signature:
    """What help and completion show of a method that sorts its arguments itself."""
    own, _, *rest = inspect.signature(hidden).parameters.values()
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([own, inspect.Parameter("data", kind), inspect.Parameter("y", kind, default=None), *rest])


Trainer.fit.__signature__ = _shown(Trainer._fit)  # type: ignore[attr-defined]
Trainer.evaluate.__signature__ = _shown(Trainer._evaluate)  # type: ignore[attr-defined]
