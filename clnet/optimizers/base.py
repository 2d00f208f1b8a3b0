"""What an optimizer is: one step as a formula on the flat parameter vector, and the scalars
that change from step to step.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from .. import ops as F
from ..config.fields import Configured, choice, field
from ..core.spec import NARROW, np_dtype
from ..core.state import Arena, Parameter, Variable, blank, once
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError
from ..habits import OPTIMIZER
from ..names import lacking
from ..ops.rounding import stochastic_round
from .groups import Group, Section, begun, named, set_free
from .rate import Schedule
from .slips import Asked


class Memory:
    """The optimizer's state vectors as attributes: reading gives the current tensor, writing records the new one
    (where `finite`, if given).

    Those in bfloat16 are read in float32, and what is written is read as it is, before it is rounded by the draw of the
    step: up or down by chance, for to the nearest changes of less than 2⁻⁹ would be lost, as of a mean of squares.
    """

    def __init__(self, variables: dict[str, Variable], finite: Tensor | None = None,
                 draw: Tensor | None = None) -> None:
        wide = {n: v.tensor.astype("float32") for n, v in variables.items() if v.dtype == NARROW_STATE}
        vars(self).update(_variables=variables, _finite=finite, _draw=draw, _wide=wide)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._wide[name] if name in self._wide else self._variables[name].tensor
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Tensor) -> None:
        if name in self._wide:
            self._wide[name] = value = as_tensor(value).astype("float32")
            value = stochastic_round(value, self._draw, list(self._variables).index(name))
        assign(self._variables[name], value, self._finite)

    def all(self) -> dict[str, Tensor]:
        """The current tensors by name."""
        return {n: getattr(self, n) for n in self._variables}


def assign(variable: Variable, value: TensorLike, finite: Tensor | None) -> None:
    """The new value, or the old one where not `finite`."""
    variable.assign(value if finite is None
                    else F.where(finite, as_tensor(value, variable.dtype).astype(variable.dtype), variable.tensor))


NARROW_STATE = "bfloat16"  # the dtype in which state may be kept
DRAWS = 1 << 24  # numbers of steps that float32 tells apart
SUM = "sum_of_gradients"  # what is kept of parameters that do not move in every step


class Scalars(dict[str, Any]):
    """The step's scalars by attribute: device values in a recorded step, so that they are arguments and never source.

    lr       rate of the section            decay   its weight decay, a number
    section  the arena and its segments     ...     what `scalars(t)` named
    """

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Scaling(Protocol):
    """A factor of the loss, which the gradients have too."""

    def unscaled(self, flat: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """The gradients without the factor, and whether all are finite."""


class Optimizer(Asked, Configured):
    """Base of optimizers: `lr` is a number or a Schedule; `clip_value`, then `clip_norm` bound the gradient first."""

    recorded = False
    state: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[str] = ""
    wide_state: ClassVar[str] = ""  # why state_dtype is refused: "its parameters are made of it"
    tried: ClassVar[dict[str, Any]] = {}  # fields that checks run it with, where not the usual ones
    lr: float | Schedule = field(0.01, doc="learning rate, or a schedule of it by step")
    clip_value: float | None = field(None, doc="bound on every |gradient element|", gt=0, kw_only=True)
    clip_norm: float | None = field(None, doc="bound on the L2 norm of the whole gradient", gt=0, kw_only=True)
    maximize: bool = field(False, doc="whether steps go up", kw_only=True)
    state_dtype: str | None = choice(
        None, (None, NARROW_STATE), kw_only=True,
        doc="dtype of the state vectors, rounded up or down by chance; None: float32, or that of float64 parameters")
    groups: tuple[Group, ...] = field((), doc="parameters with a rate or decay of their own, or frozen", kw_only=True)

    def check_fields(self) -> None:
        super().check_fields()
        if not isinstance(self.lr, Schedule) and not self.lr >= 0:
            raise ConfigError(f"{type(self).__name__}(lr={self.lr!r}): expected a learning rate of at least 0.")
        if self.state_dtype is not None and self.wide_state:
            raise ConfigError(
                f"{type(self).__name__}(state_dtype={self.state_dtype!r}): expected None, for {self.wide_state}; "
                "leave it out, or take Adam.")
        if any(g.weight_decay is not None for g in self.groups) and "weight_decay" not in self._attributes:
            raise ConfigError(
                f"{type(self).__name__}(groups=...): expected groups without weight_decay, "
                "which this optimizer does not have.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.t = self.epoch = 0
        self.sections: list[Section] = []
        self.frozen: list[Parameter] = []
        self._numbers = [-1]  # of the groups that have parameters; -1: those in none
        # Which of these, every how many steps they move, and the step behind which they began: a rate each.
        self._beats = [(0, 1, 0)]

    if not TYPE_CHECKING:  # else every attribute would count as there

        def __getattr__(self, name: str) -> Any:
            raise lacking(self, name, OPTIMIZER.get)

    def fixed(self, name: str) -> bool:
        """Once it has parameters, its state and its formula stay;
        `lr` goes into every step as an argument and may change.
        """
        return bool(self.sections) and name != "lr"

    # --- what an optimizer states
    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Tensor:
        """The new w; new state is written to s."""
        raise NotImplementedError(f"{type(self).__name__}.step")

    def scalars(self, t: int) -> dict[str, float]:
        """Numbers that depend on the step t = 1, 2, …, besides lr (bias corrections, say),
        computed in double precision.
        """
        return {}

    def pace(self, lr: float, t: int) -> float:
        """The rate of step t as the formula uses it, for those that let it decay by themselves."""
        return lr

    def slots(self) -> tuple[str, ...]:
        """The state vectors that this configuration needs."""
        return self.state

    def state_bytes(self, size: int) -> int:
        """[bytes] of state for `size` float32 parameters."""
        return (2 if self.state_dtype else 4) * len(self.slots()) * size

    def start(self, slot: str, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | float:
        """The first value of a state vector for parameters w, or a number: that one everywhere. w is read-only, in the
        parameters' dtype, but never below float32: half precision would lose squares.
        """
        return 0.0

    def kind(self, p: Parameter) -> Hashable:
        """Parameters of different kinds do not share an arena."""
        return None

    def batch(self, samples: int) -> int:
        """The batch size that this optimizer is meant for, where the user names none."""
        return min(64, samples)

    # --- how it is driven
    def attach(self, params: Sequence[Parameter] | Mapping[str, Parameter]) -> None:
        """Takes charge of the parameters (by path where groups have names), from t = 0: an arena per dtype,
        group and kind, and its state.
        """
        if not params:
            raise ConfigError(f"{type(self).__name__}: expected a model with parameters; got none.")
        self.frozen = []
        parts = self._parts(named(params))
        if not parts:
            raise ConfigError(
                f"{type(self).__name__}: expected a parameter that is not frozen; got groups that freeze all "
                f"{len(self.frozen)}.")
        self.restart()
        self.sections, self._numbers, self._beats = [], [], []
        self._open(parts, 0)

    def extend(self, params: Sequence[Parameter] | Mapping[str, Parameter], since: int | None = None) -> None:
        """Takes charge of those of the parameters that it does not have, in arenas of their own. State and steps of the
        others go on; the new ones count theirs from the step `since` (None: the last that was).
        """
        held = {id(p) for p in (*self.parameters, *self.frozen)}
        self._open(self._parts({n: p for n, p in named(params).items() if id(p) not in held}),
                   self.t if since is None else since)

    def _parts(self, params: Mapping[str, Parameter]) -> dict[Any, list[Parameter]]:
        """What shares an arena, by (dtype, group, beat, kind); what a group freezes is set free."""
        parts: dict[Any, list[Parameter]] = {}
        for name, p in params.items():
            group = next((k for k, g in enumerate(self.groups) if g.matches(name, p)), -1)
            if group >= 0 and self.groups[group].frozen:
                set_free(p)
                self.frozen.append(p)
            else:
                parts.setdefault((p.dtype, group, p.every, self.kind(p)), []).append(p)
        return parts

    def _open(self, parts: Mapping[Any, list[Parameter]], since: int) -> None:
        """A section for each of the parts."""
        self._numbers = list(dict.fromkeys((*self._numbers, *(group for _, group, _, _ in parts))))
        beats = [(self._numbers.index(group), every, since) for _, group, every, _ in parts]
        self._beats = list(dict.fromkeys((*self._beats, *beats)))
        self.sections = [*self.sections, *(self._section(held, group, kind, beat) for ((_, group, _, kind), held), beat
                                           in zip(parts.items(), beats, strict=True))]

    def _section(self, params: list[Parameter], group: int, kind: Hashable, beat: tuple[int, int, int]) -> Section:
        arena, (_, every, since) = Arena(params), beat
        kept = "float32" if arena.dtype in NARROW else arena.dtype
        w = np.asarray(arena.flat.numpy(), np_dtype(kept))
        memory = arena.memory = {n: begun(type(self).__name__, n, self.start(n, w), w, self.state_dtype)
                                 for n in self.slots()}
        if every > 1:
            memory[SUM] = blank(w.shape, kept, SUM)
        own = self.groups[group].weight_decay if group >= 0 else None
        return Section(arena, arena.params, memory, self._beats.index(beat),
                       getattr(self, "weight_decay", 0.0) if own is None else own, kind, every, since)

    @property
    def arenas(self) -> list[Arena]:
        return [s.arena for s in self.sections]

    @property
    def memories(self) -> list[dict[str, Variable]]:
        return [s.memory for s in self.sections]

    @property
    def parameters(self) -> list[Parameter]:
        """In the order that `apply` expects gradients in; frozen ones left out."""
        return [p for s in self.sections for p in s.params]

    def hyper(self, t: int) -> np.ndarray[Any, Any]:
        """The scalars of step t as one float32 vector: what a recorded step is fed. Of parameters that move in every
        n-th step, whether they do, and the scalars by how often they did.
        """
        numbers = [self.pace(self.rate(t, k), max(1, (t - since) // n)) for k, n, since in self._beats]
        numbers += [float(t % DRAWS)] if self._draws else []
        for n, since in self._spans():
            numbers += [*((float(t % n == 0),) if n > 1 else ()), *self.scalars(max(1, (t - since) // n)).values()]
        return np.array(numbers, np.float32)

    @property
    def _draws(self) -> bool:
        """Whether anything is rounded by chance, and the number of the step is among the scalars for that."""
        return self.state_dtype is not None or any(a.dtype == NARROW_STATE for a in self.arenas)

    def _spans(self) -> dict[tuple[int, int], int]:
        """Every how many steps parameters move and since when, and where the scalars of those begin in `hyper`."""
        found, at = {}, len(self._beats) + self._draws
        for _, n, since in self._beats:
            if (n, since) not in found:
                found[n, since], at = at, at + len(self.scalars(1)) + (n > 1)
        return found

    def rate(self, t: int, k: int = 0) -> float:
        """The k-th learning rate in step t (the optimizer's, or a group's), before `pace`."""
        own = self.groups[self._numbers[k]].lr if self._numbers[k] >= 0 else None
        lr = self.lr if own is None else own
        return lr.value(t - 1, self.epoch) if isinstance(lr, Schedule) else float(lr)

    def apply(self, grads: Sequence[Tensor], hyper: TensorLike, scaling: Scaling | None = None) -> Tensor | None:
        """Records the update of all parameters from their gradients and the scalars `hyper(t)`.

        scaling   the LossScale that the gradients were scaled by: where one is not finite, parameters and state stay as
                  they are
        Returns whether all gradients are finite, a bool scalar; None without scaling.
        """
        h, at, flat = as_tensor(hyper), 0, []
        for section in self.sections:
            flat.append(section.arena.pack(grads[at : at + len(section.params)]))
            at += len(section.params)
        flat, finite = scaling.unscaled(flat) if scaling is not None else (flat, None)
        spans, (flat, moves) = self._spans(), self._handed(flat, h, finite)
        draw = h[len(self._beats)].astype("int32") if self._draws else None
        for section, g, when in zip(self.sections, self.clip([-g for g in flat] if self.maximize else flat), moves,
                                    strict=True):
            first = spans[section.every, section.since] + (section.every > 1)
            more = {n: h[first + k] for k, n in enumerate(self.scalars(1))}
            scalars = Scalars(more, lr=h[section.rate], decay=section.decay, section=section)
            w = self._stepped(section, g, Memory(section.memory, when, draw), scalars, draw)
            assign(section.arena.flat, w, when)
        return finite

    def _stepped(self, section: Section, g: Tensor, s: Memory, h: Scalars, draw: Tensor | None) -> Tensor:
        """The new w: of 16-bit parameters computed in float32, and of bfloat16 rounded up or down by chance."""
        w = section.arena.flat.tensor
        if w.dtype not in NARROW:
            return self.step(w, g, s, h)
        new = self.step(w.astype("float32"), g.astype("float32"), s, h)
        return stochastic_round(new, draw, len(section.memory)) if draw is not None and w.dtype == NARROW_STATE else new

    def _handed(self, flat: list[Tensor], h: Tensor,
                finite: Tensor | None) -> tuple[list[Tensor], list[Tensor | None]]:
        """The gradients that sections move by, and whether they do: sums over steps in the last of these, else 0."""
        given, moves, spans = list(flat), [finite] * len(flat), self._spans()
        for k, section in enumerate(self.sections):
            if section.every > 1:
                due, kept = h[spans[section.every, section.since]] > 0.5, section.memory[SUM]
                total = kept.tensor + flat[k].astype(kept.dtype)
                # A product, not a choice: it is written in place, for it cannot be before the sum is read.
                assign(kept, total * F.logical_not(due).astype(kept.dtype), finite)
                given[k] = F.where(due, total, 0.0).astype(flat[k].dtype)
                moves[k] = due if finite is None else F.bit_and(due, finite)
        return given, moves

    def clip(self, flat: list[Tensor]) -> list[Tensor]:
        """g ← clip(g, ±clip_value), then g · min(1, clip_norm / ‖g‖₂) with the norm over all arenas."""
        if self.clip_value is not None:
            flat = [F.clip(g, -self.clip_value, self.clip_value) for g in flat]
        if self.clip_norm is not None:
            norm = F.sqrt(sum((F.sum(g * g).astype("float32") for g in flat[1:]), F.sum(flat[0] * flat[0])))
            flat = [g * F.minimum(self.clip_norm / (norm + 1e-6), 1.0).astype(g.dtype) for g in flat]
        return flat

    def update(self, params: Sequence[Parameter] | Mapping[str, Parameter]) -> None:
        """One step for parameters whose `grad` was set by `backward`: the slow, explicit way; Trainer records it."""
        once("update", "record what gives the gradients, and call update outside; or use a Trainer")
        if not self.sections:
            self.attach(params)
        self.t += 1
        self.apply([p.grad if p.grad is not None else F.zeros(p.shape, p.dtype) for p in self.parameters],
                   self.hyper(self.t))

    # --- schedules
    @property
    def schedules(self) -> list[Schedule]:
        """Every schedule in use, those inside others too, each once."""
        found = [part for lr in (self.lr, *(g.lr for g in self.groups)) if isinstance(lr, Schedule)
                 for part in lr.parts()]
        return list({id(s): s for s in found}.values())

    def restart(self) -> None:
        """t = 0, epoch 0, schedules that react to metrics as new."""
        self.t = self.epoch = 0
        for s in self.schedules:
            s.reset()

    def expect(self, names: Sequence[str]) -> None:
        """Raises ConfigError where a schedule follows a quantity that is not among the names of the coming logs."""
        for s in self.schedules:
            if s.monitored and s.monitored not in names:
                raise ConfigError(
                    f"{s!r}: expected monitor= to be one of {', '.join(names)}; pass validation= for val_ quantities.")

    def end_epoch(self, logs: Mapping[str, float]) -> None:
        """An epoch is over: schedules that count epochs go on, those that follow a metric see it."""
        for lr in {id(s): s for s in (self.lr, *(g.lr for g in self.groups)) if isinstance(s, Schedule)}.values():
            lr.react(logs, max(self.t - 1, 0), self.epoch)
        self.epoch += 1

    def converged(self) -> str:
        """Asked after an epoch: why there is nothing left to do, for those that can tell; else ""."""
        return ""

    # --- saving
    def __reduce__(self) -> Any:
        """A copy, pickled or deep, is what it was told, without parameters; that of a Trainer goes on where it was."""
        return _made, (type(self), {name: getattr(self, kept) for name, kept in self._attributes.items()})

    def counters(self) -> dict[str, float]:
        """What schedules remember, and the epochs they have seen: numbers."""
        states = {f"schedule.{k}.{n}": v for k, s in enumerate(self.schedules) for n, v in s.state().items()}
        return {"epoch": self.epoch, **states}

    def load_counters(self, found: Mapping[str, float]) -> None:
        """The inverse of `counters`."""
        self.epoch = int(found.get("epoch", 0))
        for k, s in enumerate(self.schedules):
            s.load_state({n: float(found[f"schedule.{k}.{n}"]) for n in s.state() if f"schedule.{k}.{n}" in found})

    def state_dict(self) -> dict[str, Any]:
        """t, every state vector as a host array, what schedules remember."""
        vectors = {f"{k}.{n}": v.numpy() for k, m in enumerate(self.memories) for n, v in m.items()}
        return {"t": self.t, **self.counters(), **vectors}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of state_dict, on an optimizer attached to the same parameters."""
        self.t = int(state["t"])
        self.load_counters(state)
        for k, memory in enumerate(self.memories):
            for n, v in memory.items():
                v.assign(np.asarray(state[f"{k}.{n}"], np_dtype(v.dtype)))


def _made(kind: type[Optimizer], settings: dict[str, Any]) -> Optimizer:
    return kind(**settings)
