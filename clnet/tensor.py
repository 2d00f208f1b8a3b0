"""A Tensor is a recorded op: inputs, attributes, a spec, and storage once it has run."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from .arguments import array as numbers
from .arguments import number
from .autocast import narrowed
from .errors import DTypeError, ShapeError, UseError
from .names import lacking
from .op import OPS, Op
from .precision import autocast, stored_dtype
from .spec import RANGES, Spec, dtype_name, np_dtype, promote
from .values import meant, text, unchanging
from .weak import BELOW, beyond, decided, holding, weak

Node = TypeVar("Node")


class Operators:
    """The arithmetic of anything that stands for a tensor. Every method records; nothing runs."""

    __slots__ = ()
    __array_priority__ = 100
    spec: Spec

    shape = property(lambda self: self.spec.shape)
    dtype = property(lambda self: self.spec.dtype)
    size = property(lambda self: self.spec.size)
    ndim = property(lambda self: len(self.spec.shape))

    @property
    def T(self) -> Tensor:
        """All axes reversed."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> Tensor:
        """Last two axes swapped."""
        return self.permute(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    def __add__(a, b: Any) -> Tensor: return OPS["add"](a, b)
    def __sub__(a, b: Any) -> Tensor: return OPS["sub"](a, b)
    def __mul__(a, b: Any) -> Tensor: return OPS["mul"](a, b)
    def __truediv__(a, b: Any) -> Tensor: return OPS["div"](a, b)
    def __floordiv__(a, b: Any) -> Tensor: return OPS["floordiv"](a, b)
    def __mod__(a, b: Any) -> Tensor: return OPS["mod"](a, b)
    def __pow__(a, b: Any) -> Tensor: return _ops().pow(a, b)
    def __matmul__(a, b: Any) -> Tensor: return _ops().matmul(a, b)
    def __radd__(a, b: Any) -> Tensor: return OPS["add"](b, a)
    def __rsub__(a, b: Any) -> Tensor: return OPS["sub"](b, a)
    def __rmul__(a, b: Any) -> Tensor: return OPS["mul"](b, a)
    def __rtruediv__(a, b: Any) -> Tensor: return OPS["div"](b, a)
    def __rfloordiv__(a, b: Any) -> Tensor: return OPS["floordiv"](b, a)
    def __rmod__(a, b: Any) -> Tensor: return OPS["mod"](b, a)
    def __rpow__(a, b: Any) -> Tensor: return _ops().pow(b, a)
    def __rmatmul__(a, b: Any) -> Tensor: return _ops().matmul(b, a)
    def __neg__(a) -> Tensor: return OPS["neg"](a)
    def __abs__(a) -> Tensor: return OPS["abs"](a)
    def __invert__(a) -> Tensor: return OPS["invert"](a)
    def __and__(a, b: Any) -> Tensor: return OPS["bit_and"](a, b)
    def __or__(a, b: Any) -> Tensor: return OPS["bit_or"](a, b)
    def __xor__(a, b: Any) -> Tensor: return OPS["bit_xor"](a, b)
    def __lshift__(a, b: Any) -> Tensor: return OPS["shift_left"](a, b)
    def __rshift__(a, b: Any) -> Tensor: return OPS["shift_right"](a, b)
    def __lt__(a, b: Any) -> Tensor: return OPS["less"](a, b)
    def __le__(a, b: Any) -> Tensor: return OPS["less_equal"](a, b)
    def __gt__(a, b: Any) -> Tensor: return OPS["greater"](a, b)
    def __ge__(a, b: Any) -> Tensor: return OPS["greater_equal"](a, b)
    def __eq__(a, b: Any) -> Tensor: return OPS["equal"](a, b)  # type: ignore[override]
    def __ne__(a, b: Any) -> Tensor: return OPS["not_equal"](a, b)  # type: ignore[override]
    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> Tensor: return _ops().getitem(self, key)
    def reshape(self, *shape: Any) -> Tensor: return _ops().reshape(self, *shape)
    def permute(self, *order: Any) -> Tensor: return _ops().permute(self, *order)
    def expand(self, *shape: Any) -> Tensor: return _ops().expand(self, *shape)
    def astype(self, dtype: Any) -> Tensor: return _ops().cast(self, dtype)
    def sum(self, axes: Any = None, keepdims: bool = False) -> Tensor: return _ops().sum(self, axes, keepdims)
    def mean(self, axes: Any = None, keepdims: bool = False) -> Tensor: return _ops().mean(self, axes, keepdims)
    def max(self, axes: Any = None, keepdims: bool = False) -> Tensor: return _ops().max(self, axes, keepdims)
    def min(self, axes: Any = None, keepdims: bool = False) -> Tensor: return _ops().min(self, axes, keepdims)

    def detach(self) -> Tensor: return _ops().detach(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise UseError(unchanging(type(self).__name__))

    def __getattr__(self, name: str) -> Any:
        raise lacking(self, name, meant)

    def __len__(self) -> int:
        if not self.shape:
            raise UseError("len: expected a tensor with at least one axis; got a scalar; .item() is its value.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool: return bool(self._one("bool", "; say what is meant: clnet.ops.max(x) for any, clnet.ops.min(x) for all"))
    def __float__(self) -> float: return float(self._one("float"))
    def __int__(self) -> int: return int(self._one("int"))
    def __format__(self, spec: str) -> str: return format(self._one("format"), spec) if spec else str(self)
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]: return np.asarray(self.numpy(), dtype)
    def __dlpack__(self, **_: Any) -> Any: return self.numpy().__dlpack__()
    def __dlpack_device__(self) -> tuple[int, int]: return (1, 0)

    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number. Raises UseError for another."""
        return self._one("item")

    def tolist(self) -> Any:
        """The values as (nested lists of) Python numbers."""
        return self.numpy().tolist()

    def _one(self, who: str, way_out: str = "; index it, or take all with .tolist() or .numpy()") -> Any:
        if self.size != 1:
            raise UseError(f"{who}: expected a tensor of one element; got {self.spec}{way_out}.")
        return self.numpy().item()

    @property
    def device(self) -> Any:
        """The Device in whose memory the value lies; where it has not been computed, the one that would compute it."""
        t = as_tensor(self)
        return (t.storage.engine if t.storage is not None else t.home or _engine()).device

    def numpy(self, engine: Any = None) -> np.ndarray[Any, Any]:
        """The value on the host. Runs what is needed, on the current engine or the one given."""
        t = as_tensor(self)
        if engine is not None:
            return engine.values([t])[0]
        home = t.home or _engine()
        if t.value is None:
            if (value := home.on_host(t)) is not None:
                return value  # type: ignore[no-any-return]
            realize(t)
        return home.values([t])[0]  # type: ignore[no-any-return]

    def realize(self) -> Any:
        """Runs what is needed, leaves the value on the device."""
        realize(self)
        return self


def _ops() -> Any:
    from . import ops

    return ops


def _engine() -> Any:
    from .engine import current

    return current()


_ages = itertools.count()


class Tensor(Operators):
    """A node of the recorded graph. Leaves hold a host array, storage on an engine, or (placeholders) neither."""

    __slots__ = ("__weakref__", "age", "attrs", "home", "inputs", "name", "op", "spec", "storage", "value")
    spec: Spec

    def __init__(self, op: Op | None, inputs: tuple[Tensor, ...], attrs: dict[str, Any], spec: Spec,
                 value: np.ndarray[Any, Any] | None = None, storage: Any = None, name: str = "") -> None:
        self.op, self.inputs, self.attrs, self.spec = op, inputs, attrs, spec
        self.value, self.storage, self.name = value, storage, name
        self.age = next(_ages)
        self.home: Any = None  # the engine that is to compute it; None: the one in use

    def __repr__(self) -> str:
        return shown(self, "tensor(", self.spec, [f"name={self.name!r}"] if self.name else [])


def shown(t: Tensor, head: str, spec: Spec, facts: Sequence[str], start: int = 0) -> str:
    """Text for the elements of t from `start` on, as far as they have been computed. Nothing runs, nothing is read while a step is recorded."""
    from .state import recording

    if t.storage is not None:
        facts = [*facts, f"device={t.storage.engine.device.key}"]
    if recording() and t.storage is not None:
        return f"<Tensor {spec}{''.join(f', {f}' for f in facts)}: not read while a step is recorded>"
    return text(head, t, spec, facts, start)


def tensor(value: Any, dtype: Any = None, name: str = "") -> Tensor:
    """A leaf from anything NumPy understands. Python floats become float32; arrays keep their dtype unless one is given."""
    if isinstance(value, Operators):
        t = as_tensor(value)
        return t if dtype is None or dtype_name(dtype) == t.dtype else t.astype(dtype)
    array = numbers("tensor", value)
    if dtype is None:
        plain = not isinstance(value, (np.ndarray, np.generic)) and array.dtype == np.float64
        dtype = "float32" if plain else dtype_name(array.dtype)
    array = np.ascontiguousarray(array, np_dtype(dtype_name(dtype))).reshape(array.shape)
    if isinstance(value, np.ndarray) and np.shares_memory(array, value):
        array = array.copy()
    array.flags.writeable = False
    return Tensor(None, (), {}, Spec(array.shape, dtype_name(dtype)), array, name=name)


def placeholder(shape: Sequence[int], dtype: str = "float32", name: str = "") -> Tensor:
    """A leaf without a value: an input of a recorded step, or a stand-in for shape inference."""
    return Tensor(None, (), {}, Spec(tuple(shape), dtype), name=name)


def no_value(leaf: Tensor) -> str:
    """What is wrong where somebody wants the numbers of a placeholder."""
    return (f"recording: expected ops of clnet.ops on {leaf.name or leaf.spec}; got a call that wants its numbers (of NumPy, float(), if, print), which "
            "it has only when the step runs; use clnet.ops: tanh(x) for np.tanh(x), where(c, a, b) for if.")


def as_tensor(x: Any, like: str | None = None, who: str = "constant") -> Tensor:
    """x as a Tensor; a Python number takes the dtype `like` would give it (weak, as in NumPy). Raises DTypeError where that cannot hold it."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, Operators):
        return x.tensor  # type: ignore[attr-defined,no-any-return]
    if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic):
        dtype = weak(x, like)
        return constant(x if type(x) is float else number(who, x, dtype), dtype)
    return tensor(x)


def constant(value: Any, dtype: str = "float32", shape: tuple[int, ...] = ()) -> Tensor:
    """A tensor filled with one number; costs no memory, it is inlined where it is used."""
    return Tensor(OPS["full"], (), {"value": value, "dtype": dtype, "shape": tuple(shape)}, Spec(tuple(shape), dtype))


def record(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    """The node for op(*inputs, **attrs). Raises ShapeError or DTypeError here, where the call was made."""
    if op.args and len(inputs) != len(op.args):
        raise ShapeError(f"{op.name}: expected {len(op.args)} operands ({', '.join(op.args)}); got {len(inputs)}.")
    known = [as_tensor(i).dtype for i in inputs if isinstance(i, (Operators, np.ndarray, np.generic))]
    like = promote(*known) if 0 < len(known) < len(inputs) else None
    if like and op.name == "where" and len(known) > 1 and isinstance(inputs[0], (Operators, np.ndarray)):
        like = promote(*known[1:])
    try:
        tensors = tuple([as_tensor(i, like, op.name) for i in inputs])
    except DTypeError:
        if like not in RANGES or not any(beyond(i, like) for i in inputs):
            raise
        if op.name in BELOW:
            return constant(decided(op.name, inputs, like), "bool", as_tensor(inputs[beyond(inputs[0], like)]).shape)
        if op.name != "where" or (wide := holding(like, inputs)) == like:
            raise
        tensors = tuple([as_tensor(i, wide, op.name) for i in inputs])
    return narrowed(op, tensors, attrs, dtype, record_as_given) if (dtype := stored_dtype()) else record_as_given(op, tensors, attrs)


def record_as_given(op: Op, tensors: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    """The node for op on tensors, no rule of mixed precision applied."""
    spec = op.infer(*(t.spec for t in tensors), **attrs)
    if op.kind == "composite" and not op.cl and not op.given and op.define is not None:
        formula: Tensor = op.define(*tensors, **attrs)
        return formula
    t = Tensor(op, tensors, attrs, spec)
    t.home = _state.home
    if t.home is None:
        for i in tensors:
            t.home = t.home or i.home
    if _state.log is not None:
        _state.log.append(t)
    if _state.eager:
        realize(t)
    return t


def walk(roots: Iterable[Node], stop: Callable[[Node], bool] | None = None, inputs: Callable[[Any], Any] = attrgetter("inputs")) -> list[Node]:
    """Every tensor (or what has other `inputs`) the roots depend on, inputs first. Iterative: a long RNN must not meet the recursion limit."""
    order: list[Node] = []
    seen: set[int] = set()
    stack = [(r, False) for r in reversed(list(roots))]
    while stack:
        t, ready = stack.pop()
        if ready:
            order.append(t)
        elif id(t) not in seen:
            seen.add(id(t))
            stack.append((t, True))
            if not (stop and stop(t)):
                stack.extend((i, False) for i in reversed(inputs(t)))
    return order


def in_order(roots: Iterable[Tensor], stop: Callable[[Tensor], bool] | None = None) -> list[Tensor]:
    """Every tensor the roots depend on, in the order in which they were recorded: gradients then use values soon after their own cotangent."""
    return sorted(walk(roots, stop), key=lambda t: t.age)


_before_flush: list[Callable[[], list[Any]]] = []


def on_flush(hook: Callable[[], list[Any]]) -> None:
    """Registers a source of variables whose recorded updates every flush runs along."""
    _before_flush.append(hook)


def realize(*roots: Any) -> None:
    """Runs the graph under the roots, and all updates of variables recorded so far, in one plan on the current engine.

    What a model computed that was told to `use` a device runs there, in a plan of its own.
    """
    variables = [v for hook in _before_flush for v in hook()]
    wanted: dict[Any, list[Tensor]] = {}
    for t in (*map(as_tensor, roots), *(v.tensor for v in variables)):
        wanted.setdefault(t.home, []).append(t)
    for home, tensors in wanted.items():
        (home or _engine()).run(tensors)
    for v in variables:
        v.settle()


def infer_formula(define: Callable[..., Any], specs: Sequence[Spec], attrs: dict[str, Any]) -> Spec:
    """The spec of a composite, from recording its definition on placeholders."""
    return _infer_cached(define, tuple(specs), tuple(sorted(attrs.items())))


@functools.lru_cache(4096)
def _infer_cached(define: Callable[..., Any], specs: tuple[Spec, ...], attrs: tuple[tuple[str, Any], ...]) -> Spec:
    with eager(False), autocast(None):
        spec: Spec = define(*(placeholder(*s) for s in specs), **dict(attrs)).spec
    return spec


def evaluate_formula(define: Callable[..., Any], arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """A composite's reference: its definition on the NumPy engine, at the precision of the arrays (never through float32)."""
    from .engine.reference import NumpyEngine

    leaves = [Tensor(None, (), {}, Spec(np.shape(a), dtype_name(np.asarray(a).dtype)), np.asarray(a)) for a in arrays]
    with eager(False), autocast(None):
        return NumpyEngine(dtype=None).values([define(*leaves, **attrs)])[0]


class _State(threading.local):
    eager = False
    home: Any = None
    log: list[Tensor] | None = None


_state = _State()


@contextlib.contextmanager
def recorded() -> Iterator[list[Tensor]]:
    """Collects what is recorded inside."""
    outer, _state.log = _state.log, []
    try:
        yield _state.log
    finally:
        inner, _state.log = _state.log, outer
        if outer is not None:
            outer.extend(inner or ())


@contextlib.contextmanager
def homed(engine: Any) -> Iterator[None]:
    """What is recorded inside, and what is made of it later, is computed by this engine, whichever is in use then."""
    before, _state.home = _state.home, engine
    try:
        yield
    finally:
        _state.home = before


@contextlib.contextmanager
def eager(on: bool = True) -> Iterator[None]:
    """Debugging: flush after every op, so that an error or a NaN appears at its line. There is no second code path."""
    before, _state.eager = _state.eager, on
    try:
        yield
    finally:
        _state.eager = before
