"""What changes: variables, the flat arenas in which a network's parameters lie, and the random generator.

Tensors never change. A Variable holds one and is given another; between two flushes the updates are recorded like
everything else, and a recorded step writes them in place.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import show
from ..errors import ShapeError, UseError
from .op import OPS
from .operators import Operators
from .recording import local
from .running import on_flush
from .spec import Spec, np_dtype
from .tensor import Tensor, as_tensor, filled, joined, leaf, tensor
from .values import shown

_structure = 0
ALIGN = 128  # elements: 512 bytes of float32, which every device's alignment divides


def changed() -> None:
    """A field of something that is in use is another: what was recorded with it has to be recorded again."""
    global _structure
    _structure += 1


def structure() -> int:
    """A number that is another after every `changed`."""
    return _structure


class _Pending(threading.local):
    def __init__(self) -> None:
        # By id: a WeakSet would compare variables with ==, which records a comparison.
        self.updates: weakref.WeakValueDictionary[int, Variable] = weakref.WeakValueDictionary()
        self.capture: dict[Variable, Tensor] | None = None
        self.reads: dict[int, Variable] | None = None
        self.again = False
        self.parts: dict[int, Parameter] | None = None


_pending = _Pending()


def once(who: str, way: str) -> None:
    """Raises UseError where this thread records a function: what `who` counts in Python would be counted once, not in
    every run.
    """
    if _pending.again:
        raise UseError(f"{who}: expected a call of its own for each step; got one within a function that is recorded "
                       f"(clnet.Recorded), which would count one step for all; {way}.")


class Variable(Operators):
    """A named value that changes. Stands for its current tensor in every formula.

    path        where it is in the model that it was asked of last: "layers.0.weight"
    role        what it is: "weight", "bias", "normalization", "embedding", "buffer", "state"
    trainable   whether optimizers see it
    """

    __slots__ = ("__weakref__", "_tensor", "grad", "name", "path", "role", "trainable")

    def __init__(self, value: Any, name: str = "", role: str = "state", trainable: bool = False,
                 dtype: Any = None) -> None:
        if not isinstance(name, str) or not isinstance(role, str):
            raise UseError(f"{type(self).__name__}: expected the value, then a name; got {value!r} and {name!r}; of a "
                           "shape make the array: Parameter(np.zeros((2, 3))).")
        self._tensor = tensor(value, dtype, name)
        self.name, self.role, self.trainable = name, role, trainable
        self.path = name
        self.grad: Any = None

    @property
    def tensor(self) -> Tensor:
        if _pending.reads is not None:
            _pending.reads[id(self)] = self
        return self._tensor

    @property
    def spec(self) -> Spec:  # type: ignore[override]
        return self._tensor.spec

    def __repr__(self) -> str:
        source, start = self._place()
        head = f"{type(self).__name__}(" + (f"{self.path!r}, " if self.path else "")
        return shown(source, head, self.spec, [f"role={self.role}"], start)

    def _place(self) -> tuple[Tensor, int]:
        """The tensor that holds the elements, and the number of the first."""
        return self._tensor, 0

    def assign(self, value: Any) -> None:
        """Replaces the value; recorded, and run with the next flush or step. Raises ShapeError for another shape."""
        new = as_tensor(value, self.dtype)
        if new.shape != self.shape:
            raise ShapeError(f"{self.path or 'Variable'}: expected a value of shape {self.shape}; got {new.shape}.")
        self._set(new if new.dtype == self.dtype else new.astype(self.dtype))

    def _set(self, new: Tensor) -> None:
        if _pending.capture is not None:
            _pending.capture.setdefault(self, self._tensor)
        elif new.op is not None:
            _pending.updates[id(self)] = self
        self._tensor = new

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, pickled or deep, is the value: a variable of its own, in no arena, on the device in use."""
        facts = {n: getattr(self, n) for n in ("path", "role", "trainable", "every") if n in dir(self)}
        return _copied, (type(self), np.asarray(self.numpy()), self.name, self.dtype, facts)

    def settle(self) -> None:
        """Forgets how the value came about: the tensor becomes a leaf, so that histories do not pile up."""
        t = self._tensor
        if t.op is not None and t.storage is not None:
            self._tensor = Tensor(None, (), {}, t.spec, storage=t.storage, name=self.name)
            self._tensor.was = weakref.ref(t)

    def renew(self) -> None:
        """The storage was written in place: a new leaf over it, so that nothing derived from the old value
        is taken for the new one.
        """
        t = self._tensor
        self._tensor = Tensor(None, (), {}, t.spec, storage=t.storage, name=self.name)


def blank(shape: Sequence[int], dtype: str, name: str, number: float = 0) -> Variable:
    """A variable that starts as one number everywhere."""
    return Variable(filled(shape, dtype, number, name), name)


def _copied(kind: type[Variable], value: np.ndarray[Any, Any], name: str, dtype: str,
            facts: dict[str, Any]) -> Variable:
    variable = kind(value, name, dtype=dtype)
    for n, fact in facts.items():
        setattr(variable, n, fact)
    return variable


class Parameter(Variable):
    """A trainable variable. Inside an Arena it is a slice of the flat vector; outside it has a tensor of its own.

    every       optimizers add its gradients up and move it by the sum in each `every`-th step, else not at all
    """

    __slots__ = ("arena", "every", "part")

    def __init__(self, value: Any, name: str = "", role: str = "weight", dtype: Any = "float32") -> None:
        super().__init__(value, name, role, True, dtype)
        self.arena: Arena | None = None
        self.part, self.every = -1, 1

    @property
    def tensor(self) -> Tensor:
        if self.arena is None:
            return super().tensor
        if _pending.parts is not None:
            _pending.parts[id(self)] = self
        return self.arena.view(self.part)

    @property
    def spec(self) -> Spec:  # type: ignore[override]
        return self._tensor.spec

    def convert(self, dtype: str) -> None:
        """Its value in another dtype, rounded to that, as a tensor of its own."""
        if dtype != self.dtype:
            value = tensor(self.numpy(), dtype, self.name)
            self.arena, self._tensor = None, value
            changed()

    def _place(self) -> tuple[Tensor, int]:
        return (self._tensor, 0) if self.arena is None else (self.arena.flat._tensor, self.arena.offsets[self.part])

    def _set(self, new: Tensor) -> None:
        if self.arena is None:
            super()._set(new)
        else:
            self.arena.replace(self.part, new)


class Parameters(list[Parameter], show.Shown):
    """A list of parameters that shows itself as a table: path, shape, role, elements."""

    def table(self) -> show.Table:
        return _table(self, "parameter")

    __repr__ = show.Shown.__repr__


class Variables(dict[str, Variable], show.Shown):
    """Variables by path, shown as a table."""

    def table(self) -> show.Table:
        return _table(self.values(), "variable")

    __repr__ = show.Shown.__repr__


def _table(variables: Iterable[Variable], noun: str) -> show.Table:
    """A row a variable, and how much there is in all."""
    found = list(variables)
    rows = [(v.path or "-", str(v.spec), f"{v.role}, not trained" if isinstance(v, Parameter) and not v.trainable
             else v.role, v.size) for v in found]
    foot = show.plural(len(found), noun), show.size(sum(v.spec.nbytes for v in found)), "", sum(v.size for v in found)
    return show.Table(["name", "shape", "role", "elements"], rows, align="lllr", foot=foot)


class Arena:
    """Parameters of one dtype, contiguous: an update is one launch, clipping one reduction, a checkpoint one copy.

    `flat` is the vector, `params` its parts in order, `offsets` where they start [elements].
    Parameters hold their arena, which does not hold them: without a cycle, the memory goes with the last of both.
    """

    def __init__(self, params: Sequence[Parameter]) -> None:
        # Odd sizes go last, so that the matrices start aligned and there are no gaps to fill.
        params = sorted(params, key=lambda p: p.size % ALIGN != 0)
        self._refs = [weakref.ref(p) for p in params]
        self.parts = [(p.spec, p.role) for p in params]
        self.offsets = [0, *itertools.accumulate(p.size for p in params)]
        self.size = self.offsets.pop()
        self.dtype = params[0].dtype if params else "float32"
        self.flat = Variable(leaf(self._gather([p.numpy() for p in params]), "parameters"), "parameters", "weight")
        self.memory: dict[str, Variable] = {}  # what an optimizer keeps beside it
        self._views: list[Tensor | None] = []
        self._were: list[weakref.ref[Tensor] | None] = []  # what they were before the vector became a leaf
        self._of: Tensor | None = None
        for k, p in enumerate(params):
            p._tensor = Tensor(None, (), {}, p._tensor.spec, name=p.name)
            p.arena, p.part = self, k

    @property
    def params(self) -> list[Parameter]:
        """The parts as parameters, in order, as far as anybody still has them."""
        return [p for r in self._refs if (p := r()) is not None]

    def values(self) -> list[np.ndarray[Any, Any]]:
        """Every part on the host, in order; one download."""
        flat = np.asarray(self.flat.numpy(), np_dtype(self.dtype))
        return [flat[o : o + spec.size].reshape(spec.shape)
                for o, (spec, _) in zip(self.offsets, self.parts, strict=True)]

    def _gather(self, arrays: Iterable[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        flat = np.zeros(self.size, np_dtype(self.dtype))
        for offset, a in zip(self.offsets, arrays, strict=True):
            flat[offset : offset + a.size] = a.reshape(-1)
        return flat

    def view(self, k: int) -> Tensor:
        """Part k as a tensor: the same object until the flat vector changes, so that gradients find it."""
        if self._of is not self.flat.tensor:
            was = self.flat.tensor.was
            self._were = ([None if v is None else weakref.ref(v) for v in self._views]
                          if was is not None and was() is self._of else [])
            self._of, self._views = self.flat.tensor, [None] * len(self.parts)
        found = self._views[k]
        # What somebody has read is known from then on: a recording would keep the value of now.
        if found is None or (found.storage is not None and _pending.capture is not None):
            spec = self.parts[k][0]
            part = OPS["crop"](self.flat.tensor, start=(self.offsets[k],), size=(spec.size,), step=(1,))
            found = self._views[k] = part.reshape(spec.shape)
            found.was = self._were[k] if self._were else None
        return found

    def replace(self, k: int, new: Tensor) -> None:
        """Gives part k another value, through the host: for loading and editing, not for training."""
        arrays = self.values()
        arrays[k] = np.asarray(new.numpy(), np_dtype(self.dtype))
        self.load(arrays)

    def load(self, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """New values for all parts, as one upload."""
        self.flat._tensor = leaf(self._gather(arrays), "parameters")

    def pack(self, parts: Sequence[Any]) -> Tensor:
        """One vector of the parts (gradients, say), each computed straight into its place by the plan."""
        return joined([as_tensor(p).reshape(-1) for p in parts], 0)

    def segments(self) -> list[tuple[int, int, str]]:
        """(start, stop, role) of every part: what per-tensor rules (decay or not, trust ratios) are made from."""
        return [(o, o + spec.size, role) for o, (spec, role) in zip(self.offsets, self.parts, strict=True)]

    def release(self) -> None:
        """Gives every parameter a tensor of its own again."""
        values = self.values()
        for p in self.params:
            p.arena, p._tensor = None, tensor(values[p.part], name=p.name)


def carry(variables: Iterable[Variable]) -> None:
    """Brings values to the host, to the last bit: whichever engine is asked next takes them from there."""
    for v in variables:
        v._tensor = tensor(v.numpy(), v.dtype, v.name)


class capture:
    """`with capture() as updates:` collects {variable: its tensor before} of every assignment instead
    of leaving them pending.

    `reads` are the variables, by id, whose value was asked for meanwhile; `again`: what is recorded runs in later calls
    without this code.
    """

    def __init__(self, again: bool = False) -> None:
        self.again = again

    def __enter__(self) -> dict[Variable, Tensor]:
        self._before = _pending.capture, _pending.reads, _pending.again, local.step
        self.reads: dict[int, Variable] = {}
        _pending.capture, _pending.reads, _pending.again, local.step = {}, self.reads, self.again, True
        return _pending.capture

    def __exit__(self, *_: Any) -> None:
        _pending.capture, _pending.reads, _pending.again, local.step = self._before


@contextlib.contextmanager
def reading() -> Iterator[list[Variable]]:
    """The variables whose value is asked for inside, known when the block ends; of an arena the parts that are, too."""
    found: list[Variable] = []
    outer, outer_parts = _pending.reads, _pending.parts
    reads: dict[int, Variable] = {}
    parts: dict[int, Parameter] = {}
    _pending.reads, _pending.parts = reads, parts
    try:
        yield found
    finally:
        _pending.reads, _pending.parts = outer, outer_parts
        found += [*parts.values(), *reads.values()]
        if outer is not None:
            outer.update(reads)
        if outer_parts is not None:
            outer_parts.update(parts)


def _flush_pending() -> list[Variable]:
    """The variables with updates that have not run; the flush that follows runs them."""
    found = [] if _pending.capture is not None else list(_pending.updates.values())
    if found:
        _pending.updates.clear()
    return found


on_flush(_flush_pending)


class Generator:
    """Counter-based random numbers (Philox): a seed and a counter that advances with every draw, on any engine alike.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        self.key = np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], np.uint32)
        self.counter = Variable(np.zeros((), np.uint32), "random.counter", "state")

    def advance(self, n: int = 1) -> Tensor:
        """The counter as it is (uint32 scalar); the next draw gets one that is n further."""
        now = self.counter.tensor
        self.counter.assign(now + np.uint32(n))
        return now
