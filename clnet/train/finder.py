"""Learning rates: the finder, a short run in which the rate rises, and one cycle up and down over a whole run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError
from ..optimizers.closure import ClosureOptimizer
from ..optimizers.rate import Schedule
from ..optimizers.schedules import OneCycleLR, SequentialLR
from ..picture import BARS, FAST, SMALL, SOFT, Picture, figure, png, titled
from ..show import Shown, Table
from .batches import Batches
from .callbacks.base import Callback
from .options import apart, held_out, joined, options
from .step import state

if TYPE_CHECKING:
    from .history import History
    from .samples import Samples
    from .trainer import Trainer

BETA = 0.9  # of the average that smooths the losses
WORSE = 4.0  # times the least smoothed loss: where the run ends


class FoundRates(Shown):
    """What came of it: `rates`, the `losses` there, `smooth`, and `suggestion`, the rate at which the smoothed loss
    falls most steeply over log(rate); None where it never fell.
    """

    def __init__(self, rates: list[float], losses: list[float]) -> None:
        self.rates, self.losses = rates, losses
        mean, self.smooth = 0.0, list[float]()
        for k, loss in enumerate(losses, 1):
            mean = BETA * mean + (1 - BETA) * loss
            self.smooth.append(mean / (1 - BETA**k))
        self.suggestion: float | None = None
        if len(losses) > 4:
            slopes = np.gradient(np.array(self.smooth), np.log(np.array(rates)))
            end = max(int(np.argmin(self.smooth)), 3)
            steepest = int(np.argmin(slopes[2:end])) + 2  # the first averages are of few losses
            self.suggestion = rates[steepest] if slopes[steepest] < 0 else None

    def table(self) -> Table:
        """Some of the rates, and which is suggested."""
        chosen = sorted({round(k) for k in np.linspace(0, len(self.rates) - 1, 12)} if self.rates else set[int]())
        rows = [(f"{self.rates[k]:.2e}", self.smooth[k]) for k in chosen]
        note = f"suggestion: lr={self.suggestion:.2g}" if self.suggestion else "the loss never fell: no suggestion"
        return Table(("rate", "loss, smoothed"), rows, title=f"Learning rates, {len(self.rates)} steps", notes=[note])

    def plot(self, title: str = "Loss while the learning rate rises") -> Picture:
        """The losses over the rates, and the suggestion."""
        drawing, axes = figure(3.4)
        axes.plot(self.rates, self.losses, color=SOFT, linewidth=0.8)
        axes.plot(self.rates, self.smooth, color=BARS, linewidth=1.8)
        low, high = min(self.losses, default=0.0), self.smooth[0] if self.smooth else 1.0
        axes.set(xscale="log", xlabel="learning rate", ylabel="loss",
                 ylim=(low - 0.15 * abs(high - low) - 1e-9, high + 0.5 * abs(high - low) + 1e-9))
        if self.suggestion:
            axes.axvline(self.suggestion, color=FAST, linewidth=1.4, linestyle="--")
            axes.annotate(f" {self.suggestion:.2g}", (self.suggestion, 0.93), xycoords=("data", "axes fraction"),
                          color=FAST, fontsize=SMALL)
        titled(axes, title)
        return png(drawing, title, "Thin: the loss of each step; thick: their average. Dashed: where it falls most "
                                   "steeply.")


class _Rising(Callback):
    """Sets the rate of the next step, and ends the run."""

    def __init__(self, rates: list[float]) -> None:
        self.rates, self.losses = rates, list[float]()

    def on_batch_end(self, trainer: Trainer) -> None:
        trainer.loop.read()
        self.losses = list(trainer.history.steps)
        found = FoundRates(self.rates[: len(self.losses)], self.losses)
        worse = not math.isfinite(self.losses[-1]) or found.smooth[-1] > WORSE * min(found.smooth)
        if worse or len(self.losses) == len(self.rates):
            raise KeyboardInterrupt
        trainer.optimizer.lr = self.rates[len(self.losses)]


def find_lr(trainer: Trainer, data: Samples, low: float = 1e-7, high: float = 10.0, steps: int = 100,
            batch_size: int | None = None, seed: int = 0, sample_weight: object = None, class_weight: object = None,
            augment: object = None, tokens: int | None = None, bucket: bool = True,
            drop_last: bool = False) -> FoundRates:
    """Trains for up to `steps` batches while the rate rises from low to high by equal factors, until the loss is four
    times the least; then model, optimizer, history and random numbers are put back as they were.

    batch_size, ...   as of Trainer.fit: the loss is that of the training that comes

    Paper: Smith 2017, arXiv:1506.01186. Raises ConfigError.
    """
    if not 0 < low < high or steps < 8:
        raise ConfigError(f"find_lr(low={low!r}, high={high!r}, steps={steps!r}): expected 0 < low < high and at least "
                          "8 steps.")
    if isinstance(trainer.optimizer, ClosureOptimizer) or any(g.lr is not None for g in trainer.optimizer.groups):
        raise ConfigError(f"find_lr: expected an optimizer with one rate for all; got {trainer.optimizer!r}.")
    rates = np.geomspace(low, high, steps).tolist()
    back = _as_it_is(trainer, data)
    rising = _Rising(rates)
    try:
        trainer.optimizer.lr = rates[0]
        trainer.fit(data, epochs=steps, batch_size=batch_size, callbacks=[rising], verbose=False, on_nan="ignore",
                    seed=seed, sample_weight=sample_weight, class_weight=class_weight, augment=augment, tokens=tokens,
                    bucket=bucket, drop_last=drop_last)
    finally:
        back()
    kept = [k for k, loss in enumerate(rising.losses) if math.isfinite(loss)]
    return FoundRates([rates[k] for k in kept], [rising.losses[k] for k in kept])


def _as_it_is(trainer: Trainer, data: Samples) -> Callable[[], None]:
    """What puts everything back that a run of fit changes."""
    trainer.prepare(data)
    optimizer, variables = trainer.optimizer, state(trainer.steps.formulas)
    kept = {n: np.array(v.numpy()) for n, v in variables.items()}
    lr, t, counters, history, loop = optimizer.lr, optimizer.t, optimizer.counters(), trainer.history, trainer.loop

    def back() -> None:
        for name, v in variables.items():
            v.assign(kept[name])
        optimizer.lr = lr
        optimizer.t = t
        optimizer.load_counters(counters)
        trainer.history, trainer.loop = history, loop

    return back


def one_cycle(trainer: Trainer, max_lr: float | None, arguments: tuple[Any, ...], named: dict[str, Any]) -> History:
    """`fit` while the rate goes up and down once, see Trainer.fit_one_cycle. Raises ConfigError."""
    optimizer, (x, y, rest) = trainer.optimizer, apart(arguments, named)
    top = optimizer.lr if max_lr is None else max_lr
    if isinstance(top, Schedule) or not isinstance(top, (int, float)) or not top > 0:
        raise ConfigError(f"fit_one_cycle(max_lr={max_lr!r}): expected a rate above 0; the optimizer has lr={top!r}."
                          if max_lr is None else f"fit_one_cycle(max_lr={max_lr!r}): expected a rate above 0.")
    chosen = options(trainer._fit, (None, *rest), named)
    seed, tokens = chosen.get("seed", 0), chosen.get("tokens")
    data, chosen["validation"] = held_out(joined(x, y), chosen.get("validation"), seed)
    if not data.counted:
        raise ConfigError("fit_one_cycle: expected samples that are counted, for the cycle is as long as the run; "
                          "got a stream; take fit and Adam(lr=OneCycleLR(max_lr=..., total_steps=...)).")
    size = chosen.get("batch_size") or (None if tokens else optimizer.batch(len(data)))
    batches = Batches(data, size, True, seed, tokens, chosen.get("drop_last", False), chosen.get("bucket", True))
    cycle: Schedule = OneCycleLR(max_lr=float(top), total_steps=max(2, len(batches) * chosen.get("epochs", 1)))
    trainer.prepare(data)
    before = optimizer.lr
    optimizer.lr = cycle if not optimizer.t else SequentialLR((cycle, cycle), (optimizer.t,))
    try:
        return trainer._fit(**{**chosen, "data": data})
    finally:
        optimizer.lr = before
