"""Learning rates by step or epoch t = 0, 1, …; computed on the host in double precision,
fed to the step as an argument.

So a change of the rate never compiles or plans anything. Each class states `at(t)`;
those that follow a metric instead state `observe`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..config.fields import choice, field, positive
from ..errors import ConfigError
from ..names import guide as _guide
from .rate import Schedule


class _Based(Schedule):
    lr: float = field(0.01, doc="base rate lr₀", gt=0, kw_only=True)


def _cosine(start: float, end: float, share: float) -> float:
    return end + 0.5 * (start - end) * (1 + math.cos(math.pi * share))


def _line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


# --- steps and powers
class ConstantLR(_Based):
    """lr₀ at every t. PyTorch's ConstantLR is another: a third of the rate in the first five steps."""

    def at(self, t: int) -> float:
        return self.lr


class StepLR(_Based):
    """lr₀ · γ^⌊t / step_size⌋"""

    aliases = ("step",)
    step_size: int = positive(doc="t between drops")
    gamma: float = field(0.1, doc="γ, factor of a drop", gt=0, le=1)

    def at(self, t: int) -> float:
        return float(self.lr * self.gamma ** (t // self.step_size))


class MultiStepLR(_Based):
    """lr₀ · γ^#{m ≤ t}"""

    milestones: tuple[int, ...] = field(doc="the m: when drops happen")
    gamma: float = field(0.1, doc="γ, factor of a drop", gt=0, le=1)

    def at(self, t: int) -> float:
        return float(self.lr * self.gamma ** sum(m <= t for m in self.milestones))


class ExponentialLR(_Based):
    """lr₀ · γ^t"""

    gamma: float = field(0.95, doc="γ", gt=0, le=1)

    def at(self, t: int) -> float:
        return float(self.lr * self.gamma**t)


class PolynomialLR(_Based):
    """(lr₀ − end)(1 − min(t, T) / T)^p + end"""

    total_steps: int = positive(doc="T")
    power: float = positive(1.0, doc="p")
    end_lr: float = field(0.0, doc="last rate", ge=0)

    def at(self, t: int) -> float:
        return float((self.lr - self.end_lr) * (1 - min(t, self.total_steps) / self.total_steps) ** self.power
                     + self.end_lr)


class NoamLR(Schedule):
    """scale · d^−½ · min((t + 1)^−½, (t + 1) · warmup^−1.5)

    Paper: Vaswani et al. 2017, arXiv:1706.03762.
    """

    d_model: int = positive(doc="d, width of the model")
    warmup: int = positive(4000, doc="t until the highest rate")
    scale: float = positive(1.0, doc="factor")

    def at(self, t: int) -> float:
        return float(self.scale * self.d_model**-0.5 * min((t + 1) ** -0.5, (t + 1) * self.warmup**-1.5))


# --- cosines, warm-up, cycles
class CosineAnnealingLR(_Based):
    """η_min + ½(lr₀ − η_min)(1 + cos(π · t / t_max)): as PyTorch's it rises again beyond t_max, to lr₀ at 2 · t_max.

    One that stays low: SequentialLR((CosineAnnealingLR(T, low, lr=high), ConstantLR(lr=low)), (T,)).
    Paper: Loshchilov & Hutter 2017, arXiv:1608.03983 (without restarts).
    """

    aliases = ("cosine",)
    t_max: int = positive(doc="t at which η_min is reached")
    eta_min: float = field(0.0, doc="η_min, last rate", ge=0)

    def at(self, t: int) -> float:
        return _cosine(self.lr, self.eta_min, t / self.t_max)


class CosineAnnealingWarmRestarts(_Based):
    """η_min + ½(lr₀ − η_min)(1 + cos(π · s / T)), s the time in the cycle, T = t0, t0 · t_mult, t0 · t_mult², …

    Paper: Loshchilov & Hutter 2017, arXiv:1608.03983.
    """

    t0: int = positive(doc="length of the first cycle")
    t_mult: int = positive(1, doc="factor of the length from cycle to cycle")
    eta_min: float = field(0.0, doc="η_min, last rate of a cycle", ge=0)

    def at(self, t: int) -> float:
        length = self.t0
        while t >= length:
            t, length = (t % length, length) if self.t_mult == 1 else (t - length, length * self.t_mult)
        return _cosine(self.lr, self.eta_min, t / length)


class LinearWarmup(_Based):
    """init + (lr₀ − init) · t / W for t < W; then lr₀, or a line or cosine from lr₀ at W to end at T."""

    aliases = ("warmup",)
    warmup_steps: int = positive(doc="W")
    total_steps: int = field(0, doc="T; needed by a decay", ge=0)
    init_lr: float = field(0.0, doc="first rate", ge=0)
    decay: str = choice("constant", ("constant", "linear", "cosine"), doc="what follows")
    end_lr: float = field(0.0, doc="last rate of a decay", ge=0)

    def validate(self) -> None:
        if self.decay != "constant" and self.total_steps <= self.warmup_steps:
            raise ConfigError(
                f"LinearWarmup(decay={self.decay!r}): expected total_steps beyond warmup_steps={self.warmup_steps}; "
                f"got {self.total_steps}.")

    def at(self, t: int) -> float:
        if t < self.warmup_steps:
            return _line(self.init_lr, self.lr, t / self.warmup_steps)
        if self.decay == "constant":
            return self.lr
        share = min((t - self.warmup_steps) / (self.total_steps - self.warmup_steps), 1.0)
        return (_line if self.decay == "linear" else _cosine)(self.lr, self.end_lr, share)


class OneCycleLR(Schedule):
    """max / div → max until t = p·T − 1, then → max / div / final_div at t = T − 1, both along a cosine or a line.

    Paper: Smith & Topin 2018, arXiv:1708.07120.
    """

    max_lr: float = positive(doc="highest rate")
    total_steps: int = field(doc="T", gt=1)
    pct_start: float = field(0.3, doc="p, share of the way up", gt=0, lt=1)
    div_factor: float = positive(25.0, doc="div")
    final_div_factor: float = positive(1e4, doc="final_div")
    anneal: str = choice("cos", ("cos", "linear"), doc="shape of both ways")

    def at(self, t: int) -> float:
        move = _cosine if self.anneal == "cos" else _line
        top, end, first = self.pct_start * self.total_steps - 1, self.total_steps - 1, self.max_lr / self.div_factor
        if t < top:
            return move(first, self.max_lr, t / top)
        return move(self.max_lr, first / self.final_div_factor, (min(t, end) - top) / (end - top))


class CyclicLR(_Based):
    """lr₀ + (max − lr₀) · triangle(t) · a, with a = 1, 2^−cycle ("triangular2") or γ^t ("exp_range").

    Paper: Smith 2017, arXiv:1506.01186.
    """

    max_lr: float = positive(doc="rate at the top")
    step_up: int = positive(2000, doc="length of the way up")
    step_down: int | None = field(None, doc="length of the way down; None: as up", gt=0)
    mode: str = choice("triangular", ("triangular", "triangular2", "exp_range"), doc="how the height changes")
    gamma: float = field(1.0, doc="γ of exp_range", gt=0, le=1)

    def at(self, t: int) -> float:
        down = self.step_up if self.step_down is None else self.step_down
        cycle, inside = divmod(t, self.step_up + down)
        height = inside / self.step_up if inside <= self.step_up else (self.step_up + down - inside) / down
        factor = {"triangular": 1.0, "triangular2": 0.5**cycle, "exp_range": self.gamma**t}[self.mode]
        return float(self.lr + (self.max_lr - self.lr) * height * factor)


# --- made of others
class LambdaLR(_Based):
    """lr₀ · fn(t)"""

    fn: Callable[[int], float] | None = field(doc="a function of t; a configuration with one cannot be saved")

    def at(self, t: int) -> float:
        return float(self.lr * self.fn(t))  # type: ignore[misc]


class SequentialLR(Schedule):
    """schedules[i] from milestones[i − 1] on, with t counted from there
    (a schedule of another unit: with its own count from the beginning).
    """

    schedules: tuple[Schedule, ...] = field(doc="one after the other")
    milestones: tuple[int, ...] = field(doc="where the second, third, ... begin, rising")

    def validate(self) -> None:
        if len(self.milestones) + 1 != len(self.schedules) or list(self.milestones) != sorted(set(self.milestones)):
            raise ConfigError(
                f"SequentialLR: expected rising milestones, one fewer than the {len(self.schedules)} schedules; got "
                f"{self.milestones}.")

    def at(self, t: int) -> float:
        return self.value(t, t)

    def active(self, step: int, epoch: int) -> tuple[Schedule, int, int]:
        """The schedule whose turn it is, and the step and epoch that it sees."""
        now = epoch if self.unit == "epoch" else step
        k = sum(m <= now for m in self.milestones)
        before = self.milestones[k - 1] if k else 0
        steps, epochs = (before if self.unit == unit else 0 for unit in ("step", "epoch"))
        return self.schedules[k], step - steps, epoch - epochs

    def value(self, step: int, epoch: int) -> float:
        part, step, epoch = self.active(step, epoch)
        return part.value(step, epoch)

    def react(self, logs: Mapping[str, float], step: int, epoch: int) -> None:
        part, step, epoch = self.active(step, epoch)
        part.react(logs, step, epoch)

    def parts(self) -> list[Schedule]:
        return [self, *(p for s in self.schedules for p in s.parts())]


# --- those that follow a metric
class _Following(_Based):
    monitor: str = field("val_loss", doc="column of the history that is followed", kw_only=True)

    def at(self, t: int) -> float:
        return self.rate

    def fixed(self, name: str) -> bool:
        """The rate that is followed began there."""
        return name == "lr"

    def reset(self) -> None:
        self.rate, self.best, self.bad, self.rest = self.lr, math.inf, 0, 0

    def state(self) -> dict[str, float]:
        return {"rate": self.rate, "best": self.best, "bad": self.bad, "rest": self.rest}

    def load_state(self, state: Mapping[str, float]) -> None:
        self.rate, self.best, self.bad, self.rest = state["rate"], state["best"], int(state["bad"]), int(state["rest"])


class ReduceLROnPlateau(_Following):
    """rate ← max(rate · factor, min_lr) after more than `patience` epochs in which `monitor` did not improve;
    then `cooldown` epochs of rest.
    """

    factor: float = field(0.1, doc="of a reduction", gt=0, lt=1)
    patience: int = field(10, doc="epochs without improvement that are let pass", ge=0)
    threshold: float = field(1e-4, doc="what counts as an improvement", ge=0)
    threshold_mode: str = choice("rel", ("rel", "abs"), doc="as a share of the best, or as a difference")
    cooldown: int = field(0, doc="epochs after a reduction that do not count", ge=0)
    mode: str = choice("min", ("min", "max"), doc="what is good")
    min_lr: float = field(0.0, doc="least rate", ge=0)

    def observe(self, value: float) -> None:
        sign = 1.0 if self.mode == "min" else -1.0
        margin = self.threshold * (abs(self.best) if self.threshold_mode == "rel" else 1.0)
        if math.isinf(self.best) or sign * value < self.best - margin:
            self.best, self.bad = sign * value, 0
        else:
            self.bad += 1
        if self.rest > 0:
            self.rest, self.bad = self.rest - 1, 0
        if self.bad > self.patience:
            lower = max(self.rate * self.factor, self.min_lr)
            self.rate = lower if self.rate - lower > 1e-8 else self.rate
            self.rest, self.bad = self.cooldown, 0


class AdaptiveFitness(_Following):
    """rate ← clip(rate · up, min, max) after an epoch in which `monitor` fell below its best,
    rate · down after any other.
    """

    up: float = field(1.05, doc="after an improvement", ge=1)
    down: float = field(0.95, doc="after none", gt=0, le=1)
    min_lr: float = positive(1e-6, doc="least rate")
    max_lr: float = positive(1.0, doc="greatest rate")
    monitor: str = field("loss", doc="column of the history that is followed", kw_only=True)

    def observe(self, value: float) -> None:
        better = value < self.best
        self.best = min(self.best, value) if value == value else self.best
        self.rate = min(max(self.rate * (self.up if better else self.down), self.min_lr), self.max_lr)


_guide(__name__)
