"""A Tensor is a recorded op: inputs, attributes, a spec, and storage once it has run."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from ..errors import DTypeError, ShapeError, UseError
from ..names import told
from .arguments import array as numbers
from .arguments import number
from .autocast import common, narrowed
from .op import OPS, Composite, Op, Pointwise
from .operators import Operators
from .precision import stored_dtype
from .recording import local
from .running import flush
from .size import Size
from .spec import NARROW, RANGES, Spec, dtype_name, np_dtype, promote
from .values import shown
from .weak import BELOW, beyond, decided, holding, weak

if TYPE_CHECKING:
    from ..engine.protocol import Engine

Node = TypeVar("Node")


class ArrayLike(Protocol):
    """What NumPy makes an array of: arrays themselves, pandas frames and series, tensors of PyTorch on the CPU."""

    def __array__(self) -> np.ndarray[Any, Any]: ...


# What may be given where a tensor is wanted; `as_tensor` makes one of it. A Python number takes the dtype of what it
# meets, lists are nested lists of numbers, anything else has a dtype of its own.
TensorLike: TypeAlias = "Tensor | Operators | ArrayLike | bool | int | float | Sequence[TensorLike]"

_ages = itertools.count()


class Tensor(Operators):
    """A node of the recorded graph. Leaves hold a host array, storage on an engine, or (placeholders) neither."""

    __slots__ = ("__weakref__", "age", "attrs", "home", "inputs", "name", "op", "spec", "storage", "value", "was")
    spec: Spec

    def __init__(self, op: Op | None = None, inputs: tuple[Tensor, ...] = (), attrs: Any = None, spec: Any = None,
                 value: np.ndarray[Any, Any] | None = None, storage: Any = None, name: str = "") -> None:
        if spec is None:
            raise UseError("Tensor: expected what an op records; got values, or nothing; clnet.tensor(values) makes a "
                           "tensor of them, clnet.ops.zeros(shape) one of zeros.")
        self.op, self.inputs, self.attrs, self.spec = op, inputs, attrs, spec
        self.value, self.storage, self.name = value, storage, name
        self.age = next(_ages)
        self.home: Engine | None = None  # the engine that is to compute it; None: the one in use
        self.was: weakref.ref[Tensor] | None = None  # of a variable's leaf, the node that its value came from

    @property
    def tensor(self) -> Tensor:
        return self

    def __repr__(self) -> str:
        return shown(self, "tensor(", self.spec, [f"name={self.name!r}"] if self.name else [])


@told
def tensor(value: TensorLike, dtype: Any = None, name: str = "") -> Tensor:
    """A leaf from anything NumPy understands. Python floats become float32;
    arrays keep their dtype unless one is given.
    """
    if isinstance(value, Operators):
        t = value.tensor
        return t if dtype is None or dtype_name(dtype) == t.dtype else t.astype(dtype)
    array = numbers("tensor", value)
    if dtype is None:
        plain = not isinstance(value, (np.ndarray, np.generic)) and array.dtype == np.float64
        dtype = "float32" if plain else dtype_name(array.dtype)
    array = np.ascontiguousarray(array, np_dtype(dtype_name(dtype))).reshape(array.shape)
    if isinstance(value, np.ndarray) and np.shares_memory(array, value):
        array = array.copy()
    return leaf(array, name)


def leaf(array: np.ndarray[Any, Any], name: str = "") -> Tensor:
    """A leaf that takes the array over, uncopied: nobody may write to it from now on."""
    array.flags.writeable = False
    return Tensor(None, (), {}, Spec(array.shape, dtype_name(array.dtype)), array, name=name)


def filled(shape: Sequence[int], dtype: str, number: float = 0, name: str = "") -> Tensor:
    """A leaf of one number everywhere: on the host it takes the memory of one, and a device fills its own."""
    return leaf(np.broadcast_to(np.array(number, np_dtype(dtype)), shape), name)


def placeholder(shape: Sequence[int], dtype: str = "float32", name: str = "") -> Tensor:
    """A leaf without a value: an input of a recorded step, or a stand-in for shape inference."""
    return Tensor(None, (), {}, Spec(tuple(shape), dtype), name=name)


def no_value(leaf: Tensor) -> str:
    """What is wrong where somebody wants the numbers of a placeholder."""
    return (f"recording: expected ops of clnet.ops on {leaf.name or leaf.spec}; "
            "got a call that wants its numbers (of NumPy, float(), if, print), which it has only when the step runs; "
            "use clnet.ops: tanh(x) for np.tanh(x), where(c, a, b) for if.")


def as_tensor(x: TensorLike, like: str | None = None, who: str = "constant") -> Tensor:
    """x as a Tensor; a Python number takes the dtype `like` would give it (weak, as in NumPy).
    Raises DTypeError where that cannot hold it.
    """
    if isinstance(x, Tensor):
        return x
    if isinstance(x, Operators):
        return x.tensor
    if isinstance(x, Size):
        return constant(x, weak(x.value, like))
    if isinstance(x, (bool, int, float)) and not isinstance(x, np.generic):
        dtype = weak(x, like)
        return constant(x if type(x) is float else number(who, x, dtype), dtype)
    return tensor(x)


def widened(x: Tensor) -> Tensor:
    """x, of 16 bits as float32: a sum, within a mean say, may be greater than 16 bits hold."""
    return x.astype("float32") if x.dtype in NARROW else x


def constant(value: Any, dtype: str = "float32", shape: tuple[int, ...] = ()) -> Tensor:
    """A tensor filled with one number; costs no memory, it is inlined where it is used."""
    return Tensor(OPS["full"], (), {"value": value, "dtype": dtype, "shape": tuple(shape)}, Spec(tuple(shape), dtype))


def joined(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """y = the parts, one or more, along an axis that all of them have, in the dtype in which they meet."""
    dtype = common(tensors)
    parts = [t if t.dtype == dtype else t.astype(dtype) for t in tensors]
    return parts[0] if len(parts) == 1 else OPS["concat"](*parts, axis=axis)


def record(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    """The node for op(*inputs, **attrs). Raises ShapeError or DTypeError here, where the call was made."""
    if op.args and len(inputs) != len(op.args):
        raise ShapeError(f"{op.name}: expected {len(op.args)} operands ({', '.join(op.args)}); got {len(inputs)}.")
    if {*map(type, inputs)} <= {Tensor} and not stored_dtype():  # nothing to be read as anything
        return record_as_given(op, inputs, attrs)
    known = [as_tensor(i).dtype for i in inputs if isinstance(i, (Operators, np.ndarray, np.generic))]
    like = promote(*known) if 0 < len(known) < len(inputs) else None
    selects = isinstance(op, Pointwise) and op.selects
    if like and selects and len(known) > 1 and isinstance(inputs[0], (Operators, np.ndarray)):
        like = promote(*known[1:])
    try:
        tensors = tuple([as_tensor(i, like, op.name) for i in inputs])
    except DTypeError:
        if like not in RANGES or not any(beyond(i, like) for i in inputs):
            raise
        if op.name in BELOW:
            return constant(decided(op.name, inputs, like), "bool", as_tensor(inputs[beyond(inputs[0], like)]).shape)
        if not selects or (wide := holding(like, inputs)) == like:
            raise
        tensors = tuple([as_tensor(i, wide, op.name) for i in inputs])
    dtype = stored_dtype()
    return narrowed(op, tensors, attrs, dtype) if dtype else record_as_given(op, tensors, attrs)


def record_as_given(op: Op, tensors: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    """The node for op on tensors, no rule of mixed precision applied."""
    spec = op.infer(*(t.spec for t in tensors), **attrs)
    if isinstance(op, Composite) and op.inlined and op.define is not None:
        return op.define(*tensors, **attrs)
    t = Tensor(op, tensors, attrs, spec)
    t.home = local.home
    if t.home is None:
        for i in tensors:
            t.home = t.home or i.home
    if local.log is not None:
        local.log.append(t)
    if local.eager:
        flush([t])
    return t


def walk(roots: Iterable[Node], stop: Callable[[Node], bool] | None = None,
         inputs: Callable[[Any], Any] = attrgetter("inputs")) -> list[Node]:
    """Every tensor (or what has other `inputs`) the roots depend on, inputs first. Iterative:
    a long RNN must not meet the recursion limit.
    """
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
    """Every tensor the roots depend on, in the order in which they were recorded:
    gradients then use values soon after their own cotangent.
    """
    return sorted(walk(roots, stop), key=lambda t: t.age)


def realize(*roots: TensorLike) -> None:
    """Runs the graph under the roots, and all updates of variables recorded so far, in one plan on the current engine.

    What a model computed that was told to `use` a device runs there, in a plan of its own.
    """
    flush(map(as_tensor, roots))


Op.record, Op.record_as_given = record, record_as_given
