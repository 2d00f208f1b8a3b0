"""What there is: every op, layer, loss and optimizer as a Subject that checks can run."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ... import init
from ... import ops as F
from ...core.function import FUNCTIONS
from ...core.op import OPS, Case, Op, Samples
from ...core.state import Parameter, capture
from ...core.tensor import as_tensor, tensor
from ...facade import OPERATIONS
from ...layers.base import Layer, no_tape
from ...losses.base import Loss
from ...model.network import _Network
from ...optimizers.base import Optimizer
from ...show import opening
from . import cases as op_cases
from . import catalog

if TYPE_CHECKING:
    from ...facade.operation import Backward, Operation

Array = np.ndarray[Any, Any]
Made = TypeVar("Made")
PACKAGES = ("ops", "layers", "losses", "optimizers")
WIDTH = 2.0  # shapes in examples become draws from U(−2, 2)


@dataclass
class Example:
    """A function of tensors with ready inputs:
    what parity, gradient and determinism run on. `names` says what the inputs are.
    """

    function: Callable[..., Any]
    inputs: list[Array]
    names: list[str]


@dataclass
class Subject:
    """Something registered. `examples()` makes its cases; `network(k)` a fresh layer and its inputs, for layers."""

    kind: str
    name: str
    thing: Any
    family: str
    spec_name: str = ""
    examples: Callable[[], list[Example]] = field(default=list, repr=False)

    @property
    def doc(self) -> str:
        return self.thing.doc if isinstance(self.thing, Op) else inspect.getdoc(self.thing) or ""

    @property
    def single(self) -> bool:
        """Whether it takes float32 alone."""
        return self.kind == "op" and getattr(self.thing, "accepts", "") == "single"

    @property
    def formula(self) -> str:
        """First paragraph of the documentation."""
        return opening(self.doc)

    @property
    def paper(self) -> str:
        """What the documentation says after "Paper:", to the end of the paragraph."""
        return getattr(self.thing, "paper", "") or opening(self.doc.partition("Paper:")[2])


def load_all() -> dict[str, str]:
    """Imports every module that declares something, so that the registries are complete.
    Returns those that fail, and why.
    """
    broken = {}
    for package in PACKAGES:
        parent = importlib.import_module(f"clnet.{package}")
        for module in pkgutil.iter_modules(parent.__path__):
            name = f"clnet.{package}.{module.name}"
            try:
                importlib.import_module(name)
            except Exception as error:  # one broken module must not hide what the others have
                broken[name] = f"{type(error).__name__}: {error}"
    return broken


def subjects(kinds: Sequence[str] = catalog.KINDS, only: str = "") -> list[Subject]:
    """Everything registered of the kinds, by name;
    `only` keeps names that contain it (a whole name: that one alone).
    """
    load_all()
    makers = {"layer": _layers, "op": _ops, "loss": _losses, "optimizer": _optimizers}
    found = [s for kind in kinds for s in makers[kind]()]
    chosen = selected((s.name for s in found), only)
    return [s for s in found if s.name in chosen]


def selected(names: Iterable[str], only: str) -> set[str]:
    """The names that `only` asks for: those that contain it, or the one that it is; upper and lower case are alike."""
    part, found = only.lower(), set(names)
    return {n for n in found if n.lower() == part} or {n for n in found if part in n.lower()}


def find(name: str, kinds: Sequence[str] = catalog.KINDS) -> Subject | None:
    """The subject with this name, alias or specification's name, whatever the case."""
    for s in subjects(kinds):
        aliases = getattr(s.thing, "aliases", ())
        if name.lower() in (n.lower() for n in (s.name, s.spec_name, *aliases, *catalog.spec_names(s.kind, s.name))):
            return s
    return None


# --- ops
def _ops() -> list[Subject]:
    declared = [_op_subject(op) for op in (OPS[name] for name in sorted(OPS)) if op.name.isidentifier()]
    known = {s.name for s in declared}
    functions = [g for g in catalog.goals("op") if g.example and g.name not in known
                 and callable(getattr(F, g.name, None))]
    known |= {g.name for g in functions}
    others = sorted(FUNCTIONS.keys() - known)
    known |= set(others)
    return [*declared, *(_goal_subject(g) for g in functions), *map(_function_subject, others),
            *(_operation_subject(o) for name, o in OPERATIONS.items() if name not in known)]


def _op_subject(op: Op) -> Subject:
    def examples() -> list[Example]:
        return [Example(_call(op, case), op_cases.arrays(op, case), list(op.args)) for case in op_cases.cases(op)]

    spec = ", ".join(catalog.spec_names("op", op.name))
    return Subject("op", op.name, op, op.family, spec, examples)


def _call(op: Op, case: Case) -> Callable[..., Any]:
    return lambda *tensors: op(*tensors, **case.attrs)


def _goal_subject(goal: catalog.Goal) -> Subject:
    """A function whose example the catalogue states."""
    attrs = {k: tuple(v) if isinstance(v, list) else v for k, v in goal.example["attrs"].items()}
    wanted = [np.asarray(a["values"], a["dtype"]) if isinstance(a, dict) else tuple(a) for a in goal.example["args"]]
    return _called(goal.name, goal.family, goal.spec_name, lambda: [Case(tuple(wanted), attrs)])


def _function_subject(name: str) -> Subject:
    """One that states its own (core.function)."""
    declared = FUNCTIONS[name]
    return _called(name, declared.family, ", ".join(catalog.spec_names("op", name)), declared.samples)


def _called(name: str, family: str, spec_name: str, samples: Samples) -> Subject:
    function = getattr(F, name)

    def examples() -> list[Example]:
        return [Example(_filled(function, case.attrs), draw(case.args, name if k == 0 else f"{name}.{k}"),
                        [n for n in inspect.signature(function).parameters if n not in case.attrs])
                for k, case in enumerate(samples())]

    return Subject("op", name, function, family, spec_name, examples)


def _filled(function: Callable[..., Any], attrs: dict[str, Any]) -> Callable[..., Any]:
    """The function of the arguments that `attrs` leaves, in their order."""
    def call(*tensors: Any) -> Any:
        left, named = list(tensors), dict(attrs)
        given: list[Any] = []
        for p in inspect.signature(function).parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                given, left = [*given, *left], []
            elif p.kind is p.POSITIONAL_OR_KEYWORD and (p.name in named or left):
                given.append(named.pop(p.name) if p.name in named else left.pop(0))
            else:
                break
        return function(*given, *left, **named)

    return call


def _operation_subject(operation: Operation[..., Any] | Backward) -> Subject:
    """A named operation of the engine facade, or the backward of one."""
    def examples() -> list[Example]:
        return [Example(partial(operation, **attrs), draw(args, f"{operation.name}.{k}"), [])
                for k, (args, attrs) in enumerate(operation.examples)]

    return Subject("op", operation.name, operation, catalog.family("op", operation.name) or "facade",
                   operation.spec_name, examples)


def draw(wanted: Sequence[Any], name: str) -> list[Array]:
    """Shapes become float32 draws from U(−2, 2), the same in every run; arrays stay as they are."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return [w if isinstance(w, np.ndarray) else rng.uniform(-WIDTH, WIDTH, w).astype(np.float32) for w in wanted]


# --- layers
def _layers() -> list[Subject]:
    # Models hold layers and add no formula of their own; whether their module was imported must not change the table.
    return [_layer_subject(cls) for name, cls in sorted(Layer.registry.items()) if not issubclass(cls, _Network)]


def _layer_subject(cls: type[Layer]) -> Subject:
    def examples() -> list[Example]:
        return [layer_example(*make_layer(cls, k)) for k in range(len(cls.examples))]

    family = catalog.family("layer", cls.__name__) or cls.family
    return Subject("layer", cls.__name__, cls, family, cls.spec_name or cls.__name__, examples)


def make_layer(cls: type[Layer], k: int = 0) -> tuple[Layer, list[Array]]:
    """The layer of the k-th example, built, with its inputs: equal in every call, whatever was made before."""
    fields, wanted = cls.examples[k]
    inputs = draw(wanted, f"{cls.__name__}.{k}")
    return seeded(zlib.crc32(cls.__name__.encode()) + k, lambda: built(cls(**fields), inputs)), inputs


def seeded(seed: int, make: Callable[[], Made]) -> Made:
    """What `make` makes, from the same random numbers each time; those of everybody else are left as they are."""
    before = init._generator
    init.seed(seed)
    try:
        return make()
    finally:
        init._generator = before


def built(layer: Layer, inputs: Sequence[Array]) -> Layer:
    """The layer with sizes bound and parameters made, by a call that leaves no other trace."""
    with no_tape(), capture() as changed:
        layer(*(tensor(x) for x in inputs))
    _undo(changed)
    return layer


def _undo(changed: dict[Any, Any]) -> None:
    for variable, old in changed.items():
        variable._tensor = old


@contextmanager
def given(params: Sequence[Parameter], values: Sequence[Any]) -> Any:
    """Within the block the parameters stand for other tensors, and nothing that is assigned lasts."""
    own = [p._tensor for p in params]
    with no_tape(), capture() as changed:
        for p, v in zip(params, values, strict=True):
            p._tensor = as_tensor(v)
        try:
            yield
        finally:
            _undo(changed)
            for p, t in zip(params, own, strict=True):
                p._tensor = t


def layer_example(layer: Layer, inputs: list[Array]) -> Example:
    """The layer as a function of its inputs and its parameters;
    equal calls give equal values (random counters do not advance).
    """
    named = {n: v for n, v in layer.variables().items() if isinstance(v, Parameter) and v.trainable}
    params = list(named.values())

    def function(*tensors: Any) -> Any:
        with given(params, tensors[len(inputs) :]):
            y = layer(*tensors[: len(inputs)])
        return list(y.values()) if isinstance(y, dict) else y

    names = [f"input {k}" for k in range(len(inputs))] + list(named)
    return Example(function, [*inputs, *(np.asarray(p._tensor.value) for p in params)], names)


# --- losses and optimizers
def _losses() -> list[Subject]:
    return [_loss_subject(cls) for name, cls in sorted(Loss.registry.items())]


def _loss_subject(cls: type[Loss]) -> Subject:
    def examples() -> list[Example]:
        return [loss_example(*make_loss(cls, k)) for k in range(len(cls.examples))]

    family = catalog.family("loss", cls.__name__) or cls.__module__.rpartition(".")[2]
    return Subject("loss", cls.__name__, cls, family, cls.spec_name or cls.__name__, examples)


def make_loss(cls: type[Loss], k: int = 0) -> tuple[Loss, list[Any]]:
    """The loss of the k-th example with its inputs, arrays and layers:
    equal in every call, whatever was made before.
    """
    fields, *wanted = cls.examples[k]
    loss, held = seeded(zlib.crc32(cls.__name__.encode()) + k, lambda: (
        cls.from_config({"type": cls.__name__, **fields}),
        {j: Layer.from_config(w) for j, w in enumerate(wanted) if isinstance(w, dict)}))
    arrays = iter(draw([w for w in wanted if w is not None and not isinstance(w, dict)], f"{cls.__name__}.{k}"))
    return loss, [held[j] if j in held else None if w is None else next(arrays) for j, w in enumerate(wanted)]


def loss_example(loss: Loss, inputs: list[Any]) -> Example:
    """The loss as a function of the inputs that it is differentiated by,
    of its own parameters and those of layers it is given.
    """
    free = [x for x in inputs[: loss.differentiated] if not isinstance(x, Layer)]
    held = inputs[len(free) :]
    named: dict[str, Parameter] = loss.variables()
    named |= {n: v for x in held if isinstance(x, Layer) for n, v in x.variables().items() if isinstance(v, Parameter)}
    params = list(named.values())

    def function(*tensors: Any) -> Any:
        with given(params, tensors[len(free) :]):
            return loss(*tensors[: len(free)], *(tensor(x) if isinstance(x, np.ndarray) else x for x in held))

    return Example(function, [*free, *(np.asarray(p._tensor.value) for p in params)],
                   [*loss.inputs[: len(free)], *named])


def _optimizers() -> list[Subject]:
    return [Subject("optimizer", name, cls, catalog.family("optimizer", name) or cls.__module__.rpartition(".")[2],
                    cls.spec_name or name)
            for name, cls in sorted(Optimizer.registry.items())]
