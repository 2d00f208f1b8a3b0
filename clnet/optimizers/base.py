"""What an optimizer is: one step as a formula on the flat parameter vector, and the scalars that change from step to step."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .. import ops as F
from ..config import Configured, field
from ..errors import ConfigError
from ..state import Arena, Parameter, Variable
from ..tensor import Tensor, as_tensor
from .schedules import Schedule


class Memory:
    """The optimizer's state vectors as attributes: reading gives the current tensor, writing records the new one."""

    def __init__(self, variables: dict[str, Variable]) -> None:
        object.__setattr__(self, "_variables", variables)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._variables[name].tensor
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._variables[name].assign(value)


class Scalars(dict[str, Any]):
    """The step's scalars by attribute: device values in a recorded step, so that they are arguments and never source."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Optimizer(Configured):
    """Base of optimizers: `lr` is a number or a Schedule; `clip_value` and `clip_norm` bound the gradient first."""

    state: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[str] = ""
    lr: float | Schedule = field(0.01, doc="learning rate, or a schedule of it by step")
    clip_value: float | None = field(None, doc="bound on every |gradient element|", gt=0)
    clip_norm: float | None = field(None, doc="bound on the L2 norm of the whole gradient", gt=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.lr, Schedule) and not self.lr >= 0:
            raise ConfigError(f"{type(self).__name__}(lr={self.lr!r}): expected a learning rate of at least 0.")
        self.t = 0
        self.arenas: list[Arena] = []
        self.memories: list[dict[str, Variable]] = []

    # --- what an optimizer states
    def step(self, w: Tensor, g: Tensor, s: Memory, h: Scalars) -> Tensor:
        """The new w; new state is written to s."""
        raise NotImplementedError(f"{type(self).__name__}.step")

    def scalars(self, t: int) -> dict[str, float]:
        """Numbers that depend on the step t = 1, 2, …, besides lr (bias corrections, say), computed in double precision."""
        return {}

    def slots(self) -> tuple[str, ...]:
        """The state vectors that this configuration needs."""
        return self.state

    # --- how it is driven
    def attach(self, params: list[Parameter]) -> None:
        """Takes charge of the parameters: lays them into one arena per dtype and makes the state vectors."""
        if not params:
            raise ConfigError(f"{type(self).__name__}: expected a model with parameters; got none.")
        dtypes = list(dict.fromkeys(p.dtype for p in params))
        self.arenas = [Arena([p for p in params if p.dtype == d]) for d in dtypes]
        self.memories = [{n: Variable(np.zeros(a.size, np.dtype(a.dtype)), f"{type(self).__name__}.{n}") for n in self.slots()} for a in self.arenas]
        for arena, memory in zip(self.arenas, self.memories, strict=True):
            self.prepare(arena, memory)

    def prepare(self, arena: Arena, memory: dict[str, Variable]) -> None:
        """Initial state that is not zero."""

    @property
    def parameters(self) -> list[Parameter]:
        """In the order that `apply` expects gradients in."""
        return [p for a in self.arenas for p in a.params]

    def hyper(self, t: int) -> np.ndarray[Any, Any]:
        """The scalars of step t as one float32 vector: what a recorded step is fed."""
        return np.array([self.rate(t), *self.scalars(t).values()], np.float32)

    def rate(self, t: int) -> float:
        return self.lr.at(t) if isinstance(self.lr, Schedule) else float(self.lr)

    def apply(self, grads: list[Any], hyper: Any) -> None:
        """Records the update of all parameters from their gradients and the scalars `hyper(t)`."""
        h = as_tensor(hyper)
        names = ["lr", *self.scalars(1)]
        scalars = Scalars({n: h[k] for k, n in enumerate(names)})
        at = 0
        flat = []
        for arena in self.arenas:
            flat.append(arena.pack(grads[at : at + len(arena.params)]))
            at += len(arena.params)
        for arena, memory, g in zip(self.arenas, self.memories, self.clip(flat), strict=True):
            arena.flat.assign(self.step(arena.flat.tensor, g, Memory(memory), scalars))

    def clip(self, flat: list[Tensor]) -> list[Tensor]:
        """g ← clip(g, ±clip_value), then g · min(1, clip_norm / ‖g‖₂) with the norm over all arenas."""
        if self.clip_value is not None:
            flat = [F.clip(g, -self.clip_value, self.clip_value) for g in flat]
        if self.clip_norm is not None:
            norm = F.sqrt(sum((F.sum(g * g).astype("float32") for g in flat[1:]), F.sum(flat[0] * flat[0])))
            flat = [g * F.minimum(self.clip_norm / (norm + 1e-6), 1.0).astype(g.dtype) for g in flat]
        return flat

    def update(self, params: list[Parameter]) -> None:
        """One step for parameters whose `grad` was set by `backward`: the slow, explicit way; Trainer records it."""
        if not self.arenas:
            self.attach(params)
        self.t += 1
        self.apply([p.grad if p.grad is not None else F.zeros(p.shape, p.dtype) for p in self.parameters], self.hyper(self.t))

    def state_dict(self) -> dict[str, Any]:
        """t and every state vector, as host arrays."""
        return {"t": self.t, **{f"{k}.{n}": v.numpy() for k, m in enumerate(self.memories) for n, v in m.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict, on an optimizer attached to the same parameters."""
        self.t = int(state["t"])
        for k, memory in enumerate(self.memories):
            for n, v in memory.items():
                v.assign(np.asarray(state[f"{k}.{n}"], np.dtype(v.dtype)))
