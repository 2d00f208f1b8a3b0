"""Replay: a function of tensors recorded once per input shapes, planned, and from then on run
as a loop over preset kernels.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.precision import current_precision, stored_dtype
from ..core.recording import eager
from ..core.spec import Spec, dtype_name, np_dtype
from ..core.state import Variable, capture, structure
from ..core.tensor import Tensor, as_tensor, placeholder, realize, walk
from ..errors import ShapeError
from . import current
from .compile import graph as graphs
from .compile.memory_map import Address
from .compile.pipeline import compiled
from .compile.plan import Plan
from .device.pinned_inputs import Feed
from .opencl import BoundPlan, DeviceArray, OpenCLEngine

if TYPE_CHECKING:
    from .protocol import Engine


class Recorded:
    """`fn(*tensors) -> tensor or tuple of tensors`, with the variables it assigns as side effects.

    The first call with new input shapes or dtypes records and plans; later ones upload the inputs and replay. On an
    engine without plans (NumPy) every call evaluates the recorded graph. Raises what fn raises, when it records.
    A layer as fn is recorded for training and for evaluation; of any other fn what it finds when it is recorded counts,
    save that a changed field of a layer, loss or optimizer has everything recorded again.
    """

    def __init__(self, fn: Callable[..., Any], name: str = "") -> None:
        self.fn, self.name = fn, name or getattr(fn, "__name__", "step")
        self.replays: dict[Any, Any] = {}
        self.structure = structure()

    def __call__(self, *inputs: Any) -> Any:
        return self.prepare(*inputs)(*inputs)

    def prepare(self, *inputs: Any) -> Any:
        """The replay for inputs like these, recorded, planned and built if it was not; nothing runs yet."""
        engine = current()
        specs = tuple(_spec(i) for i in inputs)
        if self.structure != structure():
            self.structure, self.replays = structure(), {}
        key = (id(engine), specs, threading.get_ident(), current_precision(), stored_dtype(),
               getattr(self.fn, "training", None))
        if key not in self.replays:
            started = time.perf_counter()
            self.replays[key] = (Replay(self.fn, specs, engine) if isinstance(engine, OpenCLEngine)
                                 else Evaluation(self.fn, specs, engine))
            _spent.seconds += time.perf_counter() - started
        return self.replays[key]


class _Spent(threading.local):
    seconds = 0.0


_spent = _Spent()


def preparing() -> float:
    """[s] that this thread has spent so far on recording, planning and building what is replayed."""
    return _spent.seconds


def infer(fn: Callable[..., Any], specs: Sequence[Spec]) -> list[Spec]:
    """The specs of what fn returns for inputs of these specs. Nothing runs, no variable changes. Raises what fn raises.
    """
    return [t.spec for t in _Trace(fn, specs).outputs]


def forecast(fn: Callable[..., Any], specs: Sequence[Spec], engine: Engine) -> int:
    """[bytes] of the arena that a recorded step takes for values between its inputs and outputs; nothing is allocated.

    On an engine without plans every value lives to the end of the step, so it is their sum.
    """
    t = _Trace(fn, specs)
    if isinstance(engine, OpenCLEngine):
        graph = graphs.build([*t.outputs, *t.updates], engine.known, engine.device, t.inputs)
        return compiled(graph, engine.device).arena
    return sum(n.spec.nbytes for n in walk([*t.outputs, *t.updates]) if n.op is not None)


def _spec(x: Any) -> Spec:
    if isinstance(x, (Tensor, Variable)):
        return x.spec
    x = np.asarray(x)
    return Spec(x.shape, dtype_name(x.dtype))


class _Trace:
    """fn run once on placeholders: its outputs, and what it assigned to which variable."""

    def __init__(self, fn: Callable[..., Any], specs: Sequence[Spec]) -> None:
        self.inputs = [placeholder(*s, name=f"input {k}") for k, s in enumerate(specs)]
        recording = capture()
        with eager(False), recording as before:
            try:
                result = fn(*self.inputs)
                self.single = not isinstance(result, (tuple, list))
                self.outputs = [as_tensor(t) for t in ([result] if self.single else result)]
                self.updates = [v.tensor for v in before]
            finally:  # also when fn raises: a variable must never be left with a recording of placeholders
                for v, old in before.items():
                    v._tensor = old
        self.variables = list(before)
        self.before = list(before.values())
        self.read = [v for v in recording.reads.values() if v not in before]


def _settle(variables: Sequence[Variable]) -> bool:
    """Runs what is recorded for the variables and makes them leaves; whether there was anything."""
    loose = [v for v in variables if v.tensor.op is not None]
    if loose:
        realize(*loose)
    for v in loose:
        v.settle()
    return bool(loose)


class Evaluation:
    """The recorded graph on an engine that evaluates graphs directly."""

    def __init__(self, fn: Callable[..., Any], specs: Sequence[Spec], engine: Engine) -> None:
        self.fn, self.engine = fn, engine

    def __call__(self, *inputs: Any) -> Any:
        with eager(False), capture() as before:
            try:
                result = self.fn(*(as_tensor(i) for i in inputs))
                single = not isinstance(result, (tuple, list))
                outputs = [as_tensor(t) for t in ([result] if single else result)]
                self.engine.run([*outputs, *(v.tensor for v in before)])
            except BaseException:
                for v, old in before.items():
                    v._tensor = old
                raise
        for v in before:
            v.settle()
        leaves = [Tensor(None, (), {}, t.spec, t.value, t.storage) if t.op is not None else t for t in outputs]
        return leaves[0] if single else tuple(leaves)


class Replay:
    """A plan bound to fixed buffers. State is updated in place; outputs get fresh blocks,
    so earlier results stay valid.
    """

    def __init__(self, fn: Callable[..., Any], specs: Sequence[Spec], engine: OpenCLEngine) -> None:
        self.engine = engine
        self.trace = t = _Trace(fn, specs)
        if _settle([*t.variables, *t.read]):
            t = self.trace = _Trace(fn, specs)
        roots = [*t.outputs, *t.updates]
        first = [*t.inputs, *t.before]
        graph = graphs.build(roots, engine.known, engine.device, first)
        into = {len(t.outputs) + k: len(t.inputs) + k for k in range(len(t.updates))}
        self.plan: Plan = compiled(graph, engine.device, into)
        self.leaves = graph.leaves
        n = len(t.inputs)
        self.watched = [(n + k, v) for k, v in enumerate(t.variables)]
        self.watched += [(k, v) for k, leaf in enumerate(self.leaves) for v in t.read if v.tensor is leaf]
        self.bound = BoundPlan(self.plan, engine)
        self.arena = engine.pool.alloc(self.plan.arena, "step arena") if self.plan.arena else None
        self.specs = specs
        self.blocks: list[Any] = [None] * n  # for inputs from the host, made when the first comes
        self.feed = Feed(engine, specs) if engine.device.is_gpu else None
        # Fresh blocks replace these at every call, so that earlier results stay valid.
        self._outputs = {k: engine.pool.alloc(size, "step output") for k, size in self.plan.blocks.items()}
        self.uses = self._uses()
        self._state: list[Any] = []
        self._bind()

    def _uses(self) -> dict[tuple[str, int], list[tuple[Any, int]]]:
        """(kind, number) of an address -> the kernel arguments that name it."""
        uses: dict[tuple[str, int], list[tuple[Any, int]]] = {}
        for kernel, k, address in self.bound.addresses:
            uses.setdefault((address.kind, 0 if address.kind == "arena" else address.number), []).append((kernel, k))
        return uses

    def _bind(self) -> None:
        """Presets all arguments. Again only when somebody gave a variable another tensor (loaded weights, say)."""
        t, n = self.trace, len(self.blocks)
        _settle([v for _, v in self.watched])
        for k, v in self.watched:
            self.leaves[k] = v.tensor
        self._leaf_blocks = [*self.blocks, *(self.engine.upload(leaf) for leaf in self.leaves[n:])]
        for v in t.variables:
            v.tensor.value = None  # from now on the device's copy is the only true one
        self._state = [v.tensor.storage for _, v in self.watched]
        self._fed: list[Any] = [None] * n
        self.bound.set_args(self._buffer)

    def _buffer(self, address: Address) -> Any:
        if address.kind == "arena":
            return self.arena.buffer if self.arena else None
        if address.kind == "out":
            return self._outputs[address.number].buffer
        block = self._leaf_blocks[address.number]
        return block.buffer if block else None  # an input that nobody has fed yet

    def __call__(self, *inputs: Any) -> Any:
        state = zip(self.watched, self._state, strict=True)
        if any(v.tensor.storage is not s or v.tensor.op is not None for (_, v), s in state):
            self._bind()
        self._feed_all(inputs)
        for k, size in self.plan.blocks.items():
            block = self._outputs[k] = self.engine.pool.alloc(size, "step output")
            for kernel, arg in self.uses.get(("out", k), ()):
                kernel.set_arg(arg, block.buffer)
        self.engine.launch(self.bound, self._buffer)
        if self.plan.copies:
            self._copy_back()
        if self.feed is not None:
            self.feed.started()
        for v in self.trace.variables:
            v.renew()
        return self._results()

    def _feed_all(self, inputs: Sequence[Any]) -> None:
        """Host arrays are uploaded into the step's buffers; tensors on this device are read where they are."""
        from_host = {}
        for k, x in enumerate(inputs):
            if isinstance(x, (Tensor, Variable)):
                self._point(k, self.engine.block(as_tensor(x)))
            else:
                want = self.trace.inputs[k].spec
                from_host[k] = np.asarray(x, np_dtype(want.dtype), order="C")
                if from_host[k].shape != want.shape:
                    raise ShapeError(f"step: expected input {k} of shape {want.shape}; got {from_host[k].shape}.")
        if self.feed is not None and from_host:
            for k, part in self.feed.send(from_host).items():
                self._point(k, part)
            return
        for k, a in from_host.items():
            block = self.blocks[k] = self.blocks[k] or self.engine.pool.alloc(self.specs[k].nbytes, "step input")
            self.engine.queue.upload(block.buffer, a, wait=False)
            self._point(k, block)

    def _point(self, k: int, block: Any) -> None:
        """Kernels that read input k find it in this block."""
        self._leaf_blocks[k] = block
        if self._fed[k] is not block:
            self._fed[k] = block
            for kernel, arg in self.uses.get(("leaf", k), ()):
                kernel.set_arg(arg, block.buffer)

    def _copy_back(self) -> None:
        """Updates that could not be written in place, because someone still needed the old value."""
        import pyopencl as cl

        for k, leaf, nbytes in self.plan.copies:
            source = self._buffer(self.plan.outputs[k])
            cl.enqueue_copy(self.engine.queue.commands, self._leaf_blocks[leaf].buffer, source, byte_count=nbytes)

    def _results(self) -> Any:
        t, results = self.trace, []
        for k, out in enumerate(t.outputs):
            address = self.plan.outputs[k]
            block = self._outputs[address.number] if address.kind == "out" else self._leaf_blocks[address.number]
            results.append(Tensor(None, (), {}, out.spec, storage=DeviceArray(self.engine, block, out.spec)))
        return results[0] if t.single else tuple(results)
