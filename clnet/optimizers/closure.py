"""Optimizers that ask for the loss several times a step: what they see of it, and what drives them.

A step works on one batch. Vectors stay where the parameters are; formulas are recorded once each, and what they return
are the few numbers by which the host decides: losses, slopes, inner products.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from .. import ops as F
from ..config.fields import field, positive
from ..core.autodiff import gradients
from ..core.spec import Spec, dtype_name, np_dtype
from ..core.state import Parameter, blank, once
from ..core.tensor import Tensor, as_tensor, realize, tensor
from ..errors import ClnetError, ConfigError, ShapeError
from ..show import size as shown_size
from .base import Memory, Optimizer, Scalars
from .rate import Schedule

Formula = Callable[..., Any]


class Objective(Protocol):
    """What is minimised, as formulas of the parameters where they are. `first` is 1 in the first evaluation of a step,
    `row` the place of its numbers in a meter.
    """

    def loss(self, batch: Sequence[Tensor], first: Tensor, row: Tensor) -> Tensor:
        """The loss of a batch, a scalar."""

    def residuals(self, batch: Sequence[Tensor], first: Tensor, row: Tensor) -> Tensor:
        """r with loss = ½ Σ r². Raises ConfigError where the loss is no sum of squares."""

    def recording(self) -> contextlib.AbstractContextManager[Any]:
        """The block in which the loss and its derivatives are recorded."""


class Given:
    """A closure that takes nothing, as an objective."""

    def __init__(self, closure: Callable[[], Tensor]) -> None:
        self.closure = closure

    def loss(self, batch: Sequence[Tensor], first: Tensor, row: Tensor) -> Tensor:
        return as_tensor(self.closure())

    residuals = loss

    def recording(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()


class Piece(Protocol):
    """A formula that runs: `engine.record.Recorded`, or `Plain`. home: the shapes of its inputs that come most."""

    home: tuple[Spec, ...] | None

    def __call__(self, *inputs: Any) -> Any:
        """Its result, a tensor that stays where it is; variables that it assigns are changed."""

    def values(self, *inputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """Its results on the host; variables that it assigns are changed."""


class Plain:
    """A formula that is recorded and run anew at every call: the slow, explicit way."""

    def __init__(self, fn: Formula, name: str) -> None:
        self.fn, self.name = fn, name
        self.home: tuple[Spec, ...] | None = None

    def __call__(self, *inputs: Any) -> Any:
        found: Tensor = self.fn(*(as_tensor(x) for x in inputs))
        realize(found)
        return found

    def values(self, *inputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
        return (np.asarray(self(*inputs).numpy()),)


class Place:
    """Where formulas work: the flat parameters `w`, the optimizer's memory `s`, the vectors of a step `v`, the loss.

    x   where a line search began        g    gradient at w
    d   its direction                    g0   gradient at x
    """

    def __init__(self, optimizer: ClosureOptimizer, objective: Objective) -> None:
        section = optimizer.sections[0]
        self.arena, self.params, self.objective = section.arena, optimizer.parameters, objective
        n, dtype = self.arena.size, self.arena.dtype
        shapes = dict.fromkeys(optimizer.vectors, (n,)) | dict.fromkeys(optimizer.matrices, (n, n))
        self.variables = {name: blank(shape, dtype, f"search.{name}") for name, shape in shapes.items()}
        self.s, self.v = Memory(section.memory), Memory(self.variables)
        self.who = type(optimizer).__name__
        self.sign = -1.0 if optimizer.maximize else 1.0

    @property
    def w(self) -> Tensor:
        """The parameters now."""
        return self.arena.flat.tensor

    def move(self, w: Tensor) -> None:
        """The parameters become w; what is recorded after it reads them there."""
        self.arena.flat.assign(w)

    def loss(self, batch: Sequence[Tensor], h: Scalars) -> Tensor:
        """The scalar to be minimised at w. Raises ShapeError for one that is not."""
        with self.objective.recording():
            f = self.objective.loss(batch, h.first, h.row)
        if f.size != 1:
            raise ShapeError(
                f"closure: expected a scalar loss; got shape {f.shape}; average or sum it, "
                "or take LevenbergMarquardt, which works on residuals.")
        return self.sign * f.reshape(())

    def product(self, f: Tensor, v: Tensor) -> Tensor:
        """H v, H the second derivatives of f by w: the gradient of g · v. Raises ConfigError where there are none."""
        params = [p.tensor for p in self.params]
        try:
            with self.objective.recording():
                slope = dot(self.arena.pack(gradients(f, params)), v)
                return self.arena.pack(gradients(slope, params))
        except ClnetError as error:
            raise ConfigError(
                f"{self.who}: expected a loss that is differentiable twice; {error} LBFGS needs its gradient alone."
            ) from None

    def gradient(self, f: Tensor) -> Tensor:
        """df/dw, flat."""
        with self.objective.recording():
            found = gradients(f, [p.tensor for p in self.params])
        return self.arena.pack(found)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Σ a b"""
    total: Tensor = F.sum(a * b)
    return total


class Search:
    """The formulas of one optimizer for one objective, each recorded when it is first asked for.

    record      makes a Piece of a formula and its name
    batch       what the objective is given now, on the device
    whole       the shapes of a full batch, where others come too
    iterations, evaluations   since the last `spent`
    read, largest   [bytes] that the host has read of results, and of one at most
    """

    def __init__(self, optimizer: ClosureOptimizer, objective: Objective,
                 record: Callable[[Formula, str], Piece] = Plain) -> None:
        self.optimizer, self.record = optimizer, record
        self.at = Place(optimizer, objective)
        self.pieces: dict[str, Piece] = {}
        self.batch: tuple[Tensor, ...] = ()
        self.whole: tuple[Spec, ...] = ()
        self.dtype = np_dtype(self.at.arena.dtype)
        self.eps = float(np.finfo(self.dtype).eps)
        self.row, self.first = 0, True
        self.iterations = self.evaluations = self.steps = self.ended = 0
        self.reason, self.read, self.largest = "", 0, 0

    def numbers(self, name: str, formula: Formula, given: Sequence[Any] = (), **h: float) -> list[float]:
        """What formula(place, *given, h) returns, as floats; it is known by its name."""
        return self._numbers(self._piece(name, formula, *self._arguments(given, h)))

    def tensor(self, name: str, formula: Formula, given: Sequence[Any] = (), **h: float) -> Tensor:
        """The same, as a tensor that stays where it is."""
        piece, arguments = self._piece(name, formula, *self._arguments(given, h))
        found: Tensor = piece(*arguments)
        return found

    def evaluate(self, name: str, formula: Formula, **h: float) -> list[float]:
        """What formula(place, batch, h) returns: one evaluation of the objective, or of a derivative."""
        return self._numbers(self._piece(name, functools.partial(_batched, formula), *self._evaluation(h)))

    def evaluated(self, name: str, formula: Formula, **h: float) -> Tensor:
        """The same, as a tensor that stays where it is."""
        piece, arguments = self._piece(name, functools.partial(_batched, formula), *self._evaluation(h))
        found: Tensor = piece(*arguments)
        return found

    def _evaluation(self, h: Mapping[str, float]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        h = {**h, "first": float(self.first), "row": float(self.row)}
        self.first, self.evaluations = False, self.evaluations + 1
        return self._arguments(self.batch, h)

    def _arguments(self, given: Sequence[Any], h: Mapping[str, float]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """(what a formula is given, with its scalars as one vector; their names)"""
        return (*given, np.array([*h.values()], self.dtype)), tuple(h)

    def _piece(self, name: str, formula: Formula, arguments: tuple[Any, ...],
               names: tuple[str, ...]) -> tuple[Piece, tuple[Any, ...]]:
        piece = self.pieces.get(name)
        if piece is None:
            piece = self.pieces[name] = self.record(functools.partial(_called, formula, self.at, names), name)
            if self.whole and len(arguments) == len(self.whole) + 1:
                piece.home = (*self.whole, Spec(arguments[-1].shape, dtype_name(arguments[-1].dtype)))
        return piece, arguments

    def _numbers(self, piece: tuple[Piece, tuple[Any, ...]]) -> list[float]:
        (found,) = piece[0].values(*piece[1])
        self.read += found.nbytes
        self.largest = max(self.largest, found.nbytes)
        return [float(x) for x in np.ravel(found)]

    def step(self, batch: Sequence[Any], row: int = 0) -> None:
        """One step of the optimizer on a batch; its loss goes into the meter's row."""
        self.batch = tuple(x if isinstance(x, Tensor) else tensor(x) for x in batch)
        self.row, self.first = row, True
        self.reason = self.optimizer.advance(self)
        self.steps += 1
        self.ended += bool(self.reason)

    def spent(self) -> dict[str, float]:
        """Iterations and evaluations since the last call."""
        found = {"iterations": float(self.iterations), "evaluations": float(self.evaluations)}
        self.iterations = self.evaluations = 0
        return found

    def converged(self) -> str:
        """Why there is nothing left to do, where every step since the last call ended so; else ""."""
        every, self.steps, self.ended = 0 < self.steps == self.ended, 0, 0
        return f"{type(self.optimizer).__name__} converged: {self.reason}" if every else ""


def _called(formula: Formula, at: Place, names: Sequence[str], *arguments: Tensor) -> Tensor:
    *given, h = arguments
    found = formula(at, *given, Scalars({n: h[k] for k, n in enumerate(names)}))
    return found if isinstance(found, Tensor) else listed(found)


def _batched(formula: Formula, at: Place, *arguments: Any) -> Any:
    *batch, h = arguments
    return formula(at, batch, h)


def listed(numbers: Sequence[Tensor]) -> Tensor:
    """Scalars as one vector, in the widest of their dtypes."""
    wide = "float64" if any(n.dtype == "float64" for n in numbers) else "float32"
    vector: Tensor = F.stack([n.astype(wide).reshape(()) for n in numbers], 0)
    return vector


class ClosureOptimizer(Optimizer, abstract=True):
    """Base of optimizers that evaluate the loss of a batch several times a step: `advance` is a step.

    They are for full batches, the default, or one fixed batch a step, on which `max_iter` iterations are made; the loss
    in the history is that at the end of the step. Random layers draw the same in all evaluations of a step; running
    statistics take its first. lr is the length of the first step that a line search tries (or of all, without one); a
    schedule of it counts steps. All parameters are of one dtype, and groups can only freeze.
    """

    vectors: ClassVar[tuple[str, ...]] = ("x", "d", "g", "g0")
    matrices: ClassVar[tuple[str, ...]] = ()
    wide_state = "its directions are made of differences of its state"
    tried: ClassVar[dict[str, Any]] = {"max_iter": 1}
    lr: float | Schedule = field(1.0, doc="factor of the first step that is tried, or a schedule of it by step")
    max_iter: int = positive(20, doc="iterations a step, all on its batch")
    tol_grad: float = field(1e-7, doc="largest |gradient element| that counts as none", ge=0)
    tol_change: float = field(
        1e-9, doc="change of the loss that counts as none, where the gradient has not become less either", ge=0)

    def check_fields(self) -> None:
        super().check_fields()
        who = type(self).__name__
        if self.clip_value is not None or self.clip_norm is not None:
            raise ConfigError(
                f"{who}(clip_...): expected no clipping, which would leave a gradient that is not the loss's; "
                "leave it out.")
        if any(not g.frozen for g in self.groups):
            raise ConfigError(
                f"{who}(groups=...): expected groups that freeze parameters, for one step serves all others; "
                "got one with settings of its own.")

    def __post_init__(self) -> None:
        self.kept: dict[str, float] = {}  # what the host remembers from step to step
        super().__post_init__()

    # --- what an optimizer states
    def advance(self, search: Search) -> str:
        """One step. Returns why it found nothing left to do, or "". With a loss or gradient that is not finite where it
        begins, nothing is changed.
        """
        raise NotImplementedError(f"{type(self).__name__}.advance")

    def numbers_kept(self, size: int) -> int:
        """Floats of memory for `size` parameters, where that grows faster than with them; else 0."""
        return 0

    # --- formulas that all need
    def _begin(self, at: Place, h: Scalars) -> Sequence[Tensor]:
        at.v.x, at.v.d = at.w, F.zeros(at.w.shape, at.w.dtype)
        return [F.sum(h.zero)]

    def _evaluate(self, at: Place, batch: Sequence[Tensor], h: Scalars) -> Sequence[Tensor]:
        """w = x + a d, and there the loss, the slope along d, the largest |gradient element|."""
        at.move(at.v.x + h.a * at.v.d)
        f = at.loss(batch, h)
        at.v.g = at.gradient(f)
        return [f, dot(at.v.g, at.v.d), F.max(F.abs(at.v.g))]

    def begun(self, search: Search) -> tuple[float, float]:
        """(the loss, the largest |gradient element|) at w, from where the step begins."""
        search.numbers("begin", self._begin, zero=0.0)
        f, _, top = search.evaluate("loss", self._evaluate, a=0.0)
        return f, top

    def over(self, f: float, top: float) -> str | None:
        """What `advance` returns with this loss and largest |gradient element|; None where it goes on."""
        if not settled(f, top):
            return ""
        return f"no |gradient element| is above {self.tol_grad:g}" if top <= self.tol_grad else None

    # --- how it is driven
    def batch(self, samples: int) -> int:
        return samples

    def attach(self, params: Sequence[Parameter] | Mapping[str, Parameter]) -> None:
        who = type(self).__name__
        free = list(params.values() if isinstance(params, Mapping) else params)
        kinds = sorted({p.dtype for p in free})
        if len(kinds) > 1 or (kinds and kinds[0] not in ("float32", "float64")):
            raise ConfigError(f"{who}: expected parameters of one dtype, float32 or float64; got {', '.join(kinds)}; "
                              'for half precision pass precision="bf16" to the Trainer, which keeps float32 weights.')
        if slow := [p.path or p.name for p in free if p.every > 1]:
            raise ConfigError(
                f"{who}: expected parameters that move in every step, for it searches along all of them; "
                f"got {', '.join(slow)}, which have paces of their own; take Adam.")
        self.guard(sum(p.size for p in free))
        super().attach(params)

    def extend(self, params: Sequence[Parameter] | Mapping[str, Parameter], since: int | None = None) -> None:
        raise ConfigError(f"{type(self).__name__}.extend: expected an optimizer with one gradient a step, for a search "
                          "goes along all parameters; got more of them within a run; take Adam.")

    def guard(self, size: int) -> None:
        """Raises ConfigError where the memory for `size` parameters would be out of all proportion."""
        if size > MOST and self.numbers_kept(size) and not getattr(self, "force", False):
            raise ConfigError(
                f"{type(self).__name__}: expected at most {MOST} parameters, for it keeps a matrix of n² numbers; "
                f"got {size}, which takes {shown_size(4 * self.numbers_kept(size))}; take LBFGS, which keeps a few "
                "vectors, or pass force=True.")

    def restart(self) -> None:
        super().restart()
        self.kept = {}

    def hyper(self, t: int) -> np.ndarray[Any, Any]:
        return np.array([self.rate(t)], np.float32)

    def apply(self, grads: Sequence[Tensor], hyper: Any, scaling: Any = None) -> Tensor | None:
        raise ConfigError(
            f"{type(self).__name__}.apply: expected a loss to evaluate, for a gradient alone does not do; "
            "got gradients; use a Trainer, or optimizer.update(params, closure).")

    def update(self, params: Sequence[Parameter] | Mapping[str, Parameter],
               closure: Callable[[], Tensor] | None = None) -> None:
        """One step down closure(), the scalar loss of the parameters as they are (for LevenbergMarquardt the
        residuals): the slow, explicit way; Trainer records it.
        """
        once("update", "call update outside; or use a Trainer")
        if closure is None:
            self.apply((), None)
        assert closure is not None
        if not self.sections:
            self.attach(params)
        Search(self, Given(closure)).step(())
        self.t += 1

    def counters(self) -> dict[str, float]:
        return super().counters() | {f"kept.{n}": v for n, v in self.kept.items()}

    def load_counters(self, found: Mapping[str, float]) -> None:
        super().load_counters(found)
        self.kept = {n.removeprefix("kept."): float(v) for n, v in found.items() if n.startswith("kept.")}


MOST = 20_000  # parameters of which a square matrix is kept without being asked


def settled(f: float, top: float) -> bool:
    """Whether a loss and its largest |gradient element| are numbers to go on with."""
    return math.isfinite(f) and math.isfinite(top)
