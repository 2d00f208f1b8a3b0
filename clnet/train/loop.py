"""One run of `fit`: where it is, what waits on the device, what to do when it goes wrong."""

from __future__ import annotations

import contextlib
import time
import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.spec import Spec
from ..core.varying import alike
from ..engine import current
from ..engine.bound import watching
from ..engine.record import spec_of
from ..errors import NonFiniteError
from ..layers.kept import Keeping
from ..optimizers.closure import Search
from .batches import Batches
from .callbacks.base import Callbacks
from .check import bad_input
from .diagnose import diagnose
from .interrupt import Interrupts
from .pace import Pace
from .samples import Batch, Samples
from .sequences import Sequences
from .step import Snapshot, state

if TYPE_CHECKING:
    from .step import Steps
    from .trainer import Trainer

SHOW_EVERY = 0.25  # [s] between two looks at the losses while somebody watches


class Loop:
    """Position (`epoch`, `batch`: how many whole ones are behind), the books of the running epoch, the steps not read
    yet.

    Between two reads everything a step changes is also kept as it was at the last read, with the batches since: when a
    number turns out not to be finite, the run goes back there and forward again to the last step that was.
    """

    def __init__(self, trainer: Trainer, batches: Batches, validation: Samples | None, epochs: int,
                 callbacks: Sequence[Any], watched: bool, on_nan: str) -> None:
        self._trainer = weakref.ref(trainer)  # which keeps its last loop: a cycle would keep the memory of both
        self.steps, self.optimizer = trainer.steps, trainer.optimizer
        self.batches, self.validation = batches, validation
        self.epochs = epochs
        self.watched, self.on_nan = watched, on_nan
        self.epoch = self.batch = 0
        self.books = trainer.steps.books()
        self.window: list[Batch] = []
        self.callbacks = Callbacks(callbacks, trainer)
        self.snapshot: Snapshot | None = None
        self.counters: dict[str, float] = {}  # of the optimizer, when the snapshot was taken
        self.interrupts = Interrupts()
        self.pace = Pace()
        self._looked = 0.0

    @property
    def samples(self) -> int:
        """How many targets an epoch has; of a stream, as far as that is known."""
        return self.batches.data.total

    def position(self) -> dict[str, Any]:
        """Where the run is, and which run it is."""
        augmentation = self.steps.learning.augmentation
        return {"epoch": self.epoch, "batch": self.batch, **self.batches.position(),
                "samples": self.samples, "metrics": self.steps.names, "precision": self.trainer.precision,
                **({"augment": augmentation.transform.config()} if augmentation else {})}

    @property
    def trainer(self) -> Trainer:
        """Whose run it is; not for every step."""
        trainer = self._trainer()
        assert trainer is not None, "who runs this loop holds the trainer"
        return trainer

    def run(self) -> None:
        """The epochs that are left. Ctrl-C ends them after the last whole step."""
        history = self.trainer.history
        before = _moved()
        try:
            with self.interrupts, watching(lambda done, total: self.callbacks.call("on_compile", done, total)):
                self._begin()
                while self.epoch < self.epochs and not history.stopped:
                    self._run_epoch()
        except KeyboardInterrupt:
            history.interrupted = True
            self.read()
        finally:
            after = _moved()
            history.transfers = after - before if after and before else None
            history.compiled = self.pace.compiled
            self.snapshot = None  # a whole copy of the state
            self.callbacks.call("on_train_end")

    def _begin(self) -> None:
        self._start()
        self.callbacks.call("on_train_begin")

    def _start(self) -> None:
        self.steps.begin()
        if self.on_nan != "ignore":
            self.snapshot = Snapshot(state(self.steps.formulas))
            self._remember()

    def renew(self, steps: Steps) -> None:
        """Goes on with other steps, where an epoch begins."""
        self.steps, self.books = steps, steps.books()
        if self.snapshot is not None:
            self._start()
        elif self.on_nan == "ignore":
            steps.begin()

    def _remember(self) -> None:
        """What to go back to, on the device and on the host."""
        assert self.snapshot is not None
        held = state(self.steps.formulas)
        if len(held) != len(self.snapshot.variables):  # layers keep something since their first call
            self.snapshot = Snapshot(held)
        self.snapshot.take()
        self.counters = self.optimizer.counters()

    def _run_epoch(self) -> None:
        done = self.books.samples
        self.pace.begin()
        self._looked = time.perf_counter()
        with contextlib.closing(self.batches.epoch(self.epoch, self.batch)) as batches:
            for batch in batches:
                self._one(batch, done)
        self.read()
        self._close(*self.pace.close(self.books.samples - done))

    def _one(self, batch: Batch, done: float) -> None:
        """A step, and what is to be said of it."""
        self.step(batch)
        if self.steps.meter.full or self.steps.search is not None or self._due():
            self.read()
            samples = self.books.samples
            self.pace.rate(samples - done)
            self.callbacks.call("on_logs", {"epoch": self.epoch + 1, **self.means(), "samples": samples})
        self.callbacks.batch_end()

    def _due(self) -> bool:
        return self.watched and time.perf_counter() - self._looked > SHOW_EVERY

    def step(self, batch: Batch) -> None:
        """One whole step: recorded if its shapes are new, then put to the device without a wait."""
        steps, optimizer = self.steps, self.optimizer
        inputs, y = batch
        if steps.search is not None:
            self._searched(steps.search, batch)
            return
        arguments = (*inputs, y, steps.arguments(optimizer.t + 1, steps.meter.filled))
        known = steps.train.recorded
        if isinstance(data := self.batches.data, Sequences):
            if not steps.train.coming:
                other = spec_of(arguments[-1])
                steps.train.expect((*data.batch_specs(*shape), other) for shape in self.batches.shapes())
        elif steps.train.home is None and not steps.train.coming:
            self._announce(arguments, len(y))
        replay = steps.train.prepare(*arguments)
        first, started = steps.train.recorded != known, time.perf_counter()
        with self.interrupts.hold():
            replay(*arguments)
            if first:  # some runtimes compile when a kernel is first launched
                settled()
                self.pace.first(time.perf_counter() - started, self.batches.data.weight(y))
            optimizer.t += 1
            steps.meter.advance()
            self.batch += 1
            self.window.append(batch)

    def _searched(self, search: Search, batch: Batch) -> None:
        """One whole step of an optimizer that evaluates the loss several times, and waits for each."""
        arguments, pieces, started = (*batch[0], batch[1]), len(search.pieces), time.perf_counter()
        search.whole = self._sized((*arguments, np.float32(0)), len(batch[1]), self.batches.most())[:-1]
        with self.interrupts.hold():
            search.step(arguments, self.steps.meter.filled)
            if len(search.pieces) > pieces:
                self.pace.first(time.perf_counter() - started, self.batches.data.weight(batch[1]))
            self.optimizer.t += 1
            self.steps.meter.advance()
            self.batch += 1
            self.window.append(batch)

    def _announce(self, arguments: Sequence[Any], count: int) -> None:
        """Says which shapes will come. On CPUs, whose programs run about as fast with sizes as arguments, a short batch
        at the end takes those of whole ones, where one plan can serve both; numbers compiled in would be compiled
        twice.
        """
        train, counts = self.steps.train, self.batches.counts()
        if len(counts) > 1 and alike(counts) and current().device.is_cpu:
            train.expect(self._sized(arguments, count, n) for n in counts)
        else:
            train.home = self._sized(arguments, count, counts[0])

    @staticmethod
    def _sized(arguments: Sequence[Any], count: int, wanted: int) -> tuple[Spec, ...]:
        """The shapes of a batch of `wanted` samples, of arguments for one of `count`."""
        specs = [spec_of(a) for a in arguments]
        batch = [Spec((wanted, *s.shape[1:]), s.dtype) if s.shape[:1] == (count,) else s for s in specs[:-1]]
        return *batch, specs[-1]

    def read(self) -> None:
        """Brings the losses since the last read to the host. Raises NonFiniteError, the model being
        as it was before the bad step.
        """
        found = self.steps.meter.read()
        self._looked = time.perf_counter()
        if len(found):
            # Ctrl-C during the wait above loses nothing; from here on the books must agree
            with self.interrupts.hold():
                self._take(found)

    def _take(self, found: np.ndarray[Any, Any]) -> None:
        if self.snapshot is not None:
            bad = np.flatnonzero(self.steps.bad(found))
            if len(bad) or not self.snapshot.finite():
                self._not_finite(found, int(bad[0]) if len(bad) else len(found))
                return
            self._remember()
        self._keep(found)

    def _keep(self, found: np.ndarray[Any, Any]) -> None:
        """Puts the losses of the steps in the window into the books; the window and the table start anew."""
        self.optimizer.t -= self.steps.left_out(found)
        self.books.keep(self.steps.meter, found, [self.batches.data.weight(y) for _, y in self.window])
        self.trainer.history.steps += [float(row[0]) for row in found]
        self.window = []

    def means(self) -> dict[str, float]:
        """Of the running epoch, every sample counting once; what is known at its end alone is left out."""
        return self.books.numbers(whole=False)[0]

    def _close(self, seconds: float, rate: float) -> None:
        """The end of an epoch: validation, its row of the history, callbacks."""
        numbers, matrices = self.books.numbers()
        logs = {"epoch": self.epoch + 1, **numbers}
        if self.validation is not None:
            with self.callbacks.measured():
                numbers, others = self._validated(self.validation)
            logs |= {f"val_{k}": v for k, v in numbers.items()}
            matrices |= {f"val_{k}": v for k, v in others.items()}
        optimizer = self.optimizer
        if self.steps.scaling is not None and self.books.rows:
            logs |= dict(zip(("loss_scale", "skipped"), self.books.rows[-1][-2:], strict=True))
        logs |= {"lr": float(optimizer.rate(max(optimizer.t, 1))), "seconds": seconds, "samples/s": rate}
        if (search := self.steps.search) is not None:
            logs |= search.spent()
        with self.interrupts.hold():
            self.trainer.history.rows.append(logs)
            self.trainer.history.matrices = matrices
            self.epoch, self.batch, self.books = self.epoch + 1, 0, self.steps.books()
            optimizer.end_epoch(logs)
            if why := optimizer.converged() if search is None else search.converged():
                self.trainer.stop(why)
        self.callbacks.call("on_epoch_end", logs)

    def _validated(self, data: Samples) -> tuple[dict[str, float], dict[str, Any]]:
        return self.trainer.measure(data, "validation", tokens=self.batches.tokens)

    # --- NaN and infinity
    def _not_finite(self, found: np.ndarray[Any, Any], bad: int) -> None:
        """Goes back to before the first bad step; stops there, or leaves that batch out and goes on."""
        window, self.window = self.window, []
        first_step = self.optimizer.t - len(window)
        first_batch = self.batch - len(window)
        bad = self._rewind(window, first_step, first_batch, bad)
        self.window = window[:bad]
        self._keep(found[:bad])
        self._remember()
        where = f"step {first_step + bad + 1} (epoch {self.epoch + 1}, batch {first_batch + bad + 1})"
        what, way_out = self._why(window[bad], first_batch + bad)
        message = f"Trainer: expected finite numbers; in {where} {what}"
        if self.on_nan == "stop":
            raise NonFiniteError(f"{message}{way_out and '; '}{way_out}. The model is as it was before this step.")
        warnings.warn(f"{message}; this batch was left out.", RuntimeWarning, stacklevel=2)
        self.batch += 1
        for batch in window[bad + 1 :]:
            self.step(batch)
        self.read()

    def _why(self, batch: Batch, number: int) -> tuple[str, str]:
        """What is not finite in a batch, and what to do about it."""
        if found := bad_input(*self.batches.looked_at(batch, self.epoch, number)):
            return found, ("mend the data (leave such samples out, or fill them), or go on without such batches with "
                           'on_nan="skip"')
        if found := self.trainer.out_of_range(self.steps.learning.weighing.plain(batch[0])):
            return found.rstrip("."), ""
        return diagnose(self.trainer, batch), "lower the learning rate, set clip_norm= or mend the data"

    def _rewind(self, window: list[Batch], first_step: int, first_batch: int, bad: int) -> int:
        """Replays from the last read up to the first step that leaves something not finite, without it;
        returns its number in the window.
        """
        assert self.snapshot is not None

        def again(count: int, look: bool) -> int:
            assert self.snapshot is not None
            self.snapshot.restore()
            for layer in self.trainer.model.descend():
                if isinstance(layer, Keeping) and not layer.among(self.snapshot.variables):
                    layer.reset_state()  # it began in this window
            self.optimizer.load_counters(self.counters)
            self.optimizer.t, self.batch = first_step, first_batch
            self.steps.meter.clear()
            for k, batch in enumerate(window[:count]):
                self.step(batch)
                if look and not self.snapshot.finite():
                    return k
            return count

        again(bad, look=False)
        if not self.snapshot.finite():  # the loss was finite, its gradient was not
            bad = again(bad, look=True)
            again(bad, look=False)
        self.window = []
        return min(bad, len(window) - 1)


def settled() -> None:
    """Waits for what was put to the device."""
    queue = getattr(current(), "queue", None)
    if queue is not None:
        queue.finish()


def _moved() -> Any:
    transfers = getattr(current(), "transfers", None)
    return transfers.snapshot() if transfers is not None else None
