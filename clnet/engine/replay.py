"""A recorded function as a plan that is bound to buffers and runs many times: a loop over preset kernels."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.op import OPS, View
from ..core.recording import eager
from ..core.spec import Spec, np_dtype
from ..core.state import Variable, capture
from ..core.tensor import Tensor, as_tensor, placeholder, realize, record
from ..core.varying import Varying
from ..errors import DataError, ShapeError
from .arena import Arena
from .bound import BoundPlan
from .compile.layout import Address
from .compile.plan import Plan
from .compile.sized import SizedPlan
from .device.memory import Block
from .device.pinned_inputs import Feed
from .opencl import DeviceArray, OpenCLEngine
from .shapes import Axes

# Held while a function runs to be recorded: a model is in another mode then, and variables stand for what is not
# computed yet, which other threads must not see.
tracing = threading.RLock()


class Trace:
    """fn run once on placeholders: its outputs, and what it assigned to which variable."""

    def __init__(self, fn: Callable[..., Any], specs: Sequence[Spec]) -> None:
        self.inputs = [placeholder(*s, name=f"input {k}") for k, s in enumerate(specs)]
        recording = capture(again=True)
        with tracing, eager(False), recording as before:
            try:
                result = fn(*self.inputs)
                self.single = not isinstance(result, (tuple, list))
                self.outputs = [_copied(as_tensor(t), before) for t in ([result] if self.single else result)]
                some = any(v.tensor.op is not None for v in before)  # else the runtime copies, without a program
                self.updates = [v.tensor if v.tensor is old else _copied(v.tensor, before, always=some)
                                for v, old in before.items()]
            finally:  # also when fn raises: a variable must never be left with a recording of placeholders
                for v, old in before.items():
                    v._tensor = old
        self.variables = list(before)
        self.before = list(before.values())
        self.read = [v for v in recording.reads.values() if v not in before]


def _copied(t: Tensor, before: Mapping[Variable, Tensor], always: bool = False) -> Tensor:
    """t, or where it is what a variable was (`always`: or anything else in memory), seen in whatever way, a copy that a
    kernel makes: what is written over the variable may be there before results are fetched.
    """
    source = t
    while source.op is not None and isinstance(source.op, View):
        source = source.inputs[0]
    if source.op is None and (always or any(source is old for old in before.values())):
        return record(OPS["detach"], (t,), {})
    return t


def settle(variables: Sequence[Variable]) -> None:
    """Runs what is recorded for the variables and makes them leaves."""
    loose = [v for v in variables if v.tensor.op is not None]
    if loose:
        realize(*loose)
    for v in loose:
        v.settle()


class Recording:
    """fn as it was recorded and planned, for one shape of its inputs or, with axes that vary, for many. It knows no
    buffers: each thread binds it. Raises what fn raises, and Unsettled where sizes that vary have to be known.
    """

    def __init__(self, fn: Callable[..., Any], specs: tuple[Spec, ...], engine: OpenCLEngine,
                 varies: Axes | None = None) -> None:
        self.specs, self.varies, traced, varying = specs, varies, specs, None
        if varies is not None:
            varying = Varying(varies.values(specs) or ())
            traced = varies.sized(specs, varying)
        with tracing:
            self.trace = t = Trace(fn, traced)
            read = [(v, v.tensor) for v in t.read]
            settle([*t.variables, *t.read])  # what was traced is in memory then, and so a leaf
        self._varying = varying
        self._plan, self.leaves = self._planned(engine, varying)
        # The plan may be that of an equal step, which decided something else before it was recorded.
        self._asked = (varying is not None and isinstance(self._plan, SizedPlan)
                       and varying is not self._plan.varying and not varying.noted_in(self._plan.varying))
        n, places = len(t.inputs), {id(leaf): k for k, leaf in enumerate(self.leaves)}
        self.watched = [(n + k, v) for k, v in enumerate(t.variables)]
        self.watched += [(places[id(was)], v) for v, was in read if id(was) in places]
        self.bound: dict[int, Replay] = {}  # by the seat of a thread

    def _planned(self, engine: OpenCLEngine, varying: Varying | None) -> tuple[Plan | SizedPlan, list[Tensor]]:
        """The plan of what was traced, and its leaves."""
        return engine.plan_of_step(*self.traced(), varying)

    def traced(self) -> tuple[list[Tensor], list[Tensor], dict[int, int]]:
        """What the plan computes, its first leaves, and which output overwrites which of them."""
        t = self.trace
        into = {len(t.outputs) + k: len(t.inputs) + k for k in range(len(t.updates))}
        return [*t.outputs, *t.updates], [*t.inputs, *t.before], into

    def __str__(self) -> str:
        """Which inputs it serves."""
        if self.varies is None or not isinstance(self._plan, SizedPlan):
            return ", ".join(map(str, self.specs))
        return self.varies.shown(self._plan.varying.ranges)

    def numbers(self) -> tuple[int, int]:
        """(launches, bytes of its arena)"""
        return len(self.template.launches), self.template.arena

    @property
    def template(self) -> Plan:
        """Its plan; where it serves many shapes, with sizes in the place of numbers."""
        return self._plan if isinstance(self._plan, Plan) else self._plan.template

    def serves(self, specs: tuple[Spec, ...]) -> bool:
        """Whether inputs of these specs are among those that it was planned for, with others."""
        if self.varies is None or not isinstance(self._plan, SizedPlan):
            return False
        axes, mine = self.varies.values(specs), self._varying
        if axes is None or mine is None or not self._plan.serves(axes):
            return False
        return not self._asked or mine.serves(axes)

    def plan(self, specs: tuple[Spec, ...]) -> Plan:
        """The plan for inputs of these specs."""
        if isinstance(self._plan, Plan):
            return self._plan
        assert self.varies is not None
        return self._plan.at(self.varies.values(specs) or ())


class Replay:
    """A recording bound to one thread's kernels and buffers. State is updated in place; outputs get fresh blocks,
    so earlier results stay valid.
    """

    def __init__(self, recording: Recording, specs: tuple[Spec, ...], engine: OpenCLEngine, arena: Arena) -> None:
        self.engine, self.arena, self.user, self.trace = engine, arena, arena.user, recording.trace
        self._leaf_blocks, self._outputs = list[Any](), dict[int, Any]()  # by number
        self._follow(recording.plan(specs), specs)
        self.leaves, self.watched = list(recording.leaves), recording.watched
        self.bound = BoundPlan(self.plan, engine)
        self.blocks: list[Any] = [None] * len(specs)  # for inputs from the host, made when the first comes
        self.feed = Feed(engine, specs) if engine.device.is_gpu else None
        self._outputs.update({k: engine.pool.alloc(size, "step output") for k, size in self.plan.blocks.items()})
        self._kept = dict(self._outputs)  # those that nobody but `values` reads
        self.uses = self._uses()
        self._state: list[tuple[Variable, Any]] = []  # what is watched, and where its value is
        with tracing:
            self._bind()

    def _follow(self, plan: Plan, specs: tuple[Spec, ...]) -> None:
        """From now on it runs this plan, whose inputs are of these specs."""
        self.plan, self.specs = plan, specs  # and of each result where its block is and its spec, for every call
        self._results = [(self._outputs if place.kind == "out" else self._leaf_blocks, place.number, spec)
                         for place, spec in zip(plan.outputs, plan.specs[: len(self.trace.outputs)], strict=False)]
        self._single = self._results[0] if self.trace.single else None

    @property
    def turns(self) -> contextlib.AbstractContextManager[Any]:
        """Around a run that is waited for, where several threads have some."""
        return self.engine.queue.turns

    def _uses(self) -> dict[tuple[str, int], list[tuple[Any, int]]]:
        """(kind, number) of an address -> the kernel arguments that name it."""
        uses: dict[tuple[str, int], list[tuple[Any, int]]] = {}
        for kernel, k, address in self.bound.addresses:
            uses.setdefault((address.kind, 0 if address.kind == "arena" else address.number), []).append((kernel, k))
        return uses

    def _bind(self) -> None:
        """Presets all arguments. Again only when somebody gave a variable another tensor (loaded weights, say)."""
        t, n = self.trace, len(self.blocks)
        settle([v for _, v in self.watched])
        for k, v in self.watched:
            self.leaves[k] = v.tensor
        self._leaf_blocks[:] = [*self.blocks, *(self.engine.upload(leaf) for leaf in self.leaves[n:])]
        for v in t.variables:
            v.tensor.value = None  # from now on the device's copy is the only true one
        self._state = [(v, v.tensor.storage) for _, v in self.watched]
        self._fed: list[Any] = [None] * n
        self._set()

    def _set(self) -> None:
        """Presets the arguments that are buffers."""
        self.arena.hold(self.plan.arena)
        self._age = self.arena.age
        self._given = {k: block.buffer for k, block in self._outputs.items()}  # what kernels write each output to
        self.bound.set_args(self._buffer)

    def _buffer(self, address: Address) -> Any:
        if address.kind == "arena":
            return self.arena.block.buffer
        if address.kind == "out":
            return self._outputs[address.number].buffer
        block = self._leaf_blocks[address.number]
        return block.buffer if block else None  # an input that nobody has fed yet

    def __call__(self, *inputs: Any) -> Any:
        self._ready(inputs)
        self._kept = {}
        engine = self.engine
        for k, size in self.plan.blocks.items():
            self._give(k, engine.pool.alloc(size, "step output"))
        self._launch()
        if self._single is not None:
            blocks, k, spec = self._single
            return Tensor(None, (), {}, spec, None, DeviceArray(engine, blocks[k], spec))
        return tuple([Tensor(None, (), {}, spec, None, DeviceArray(engine, blocks[k], spec))
                      for blocks, k, spec in self._results])

    def values(self, *inputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """The results on the host. Their blocks stay with the replay, so that nothing is allocated."""
        self._ready(inputs)
        self._run()
        return tuple([self.engine.download(blocks[k], spec) for blocks, k, spec in self._results])

    def _run(self) -> None:
        for k, size in self.plan.blocks.items():
            block = self._kept.get(k)
            if block is None or block.nbytes < size:
                block = self._kept[k] = self.engine.pool.alloc(size, "step output")
            self._give(k, block)
        self._launch()

    def again(self) -> None:
        """Once more over the inputs that came last; variables move on. DataError where none came since it was bound."""
        self._ready(())
        if not self.fed:
            raise DataError("step: expected inputs that came before; got none since variables were given other values; "
                            "call it once with some.")
        self._run()

    @property
    def fed(self) -> bool:
        """Whether all inputs have come."""
        return None not in self._fed

    @property
    def state(self) -> list[Block]:
        """The blocks of what it updates in place."""
        first = len(self.specs)
        return self._leaf_blocks[first : first + len(self.trace.variables)]

    def _ready(self, inputs: Sequence[Any]) -> None:
        """All arguments are set but those of outputs."""
        if self.user != threading.get_ident() or self.arena.user != self.user:
            self.arena.enter()
            self._adopt()
        if self._moved():
            with tracing:  # a variable that is somebody's recording just now is another in a moment
                if self._moved():
                    self._bind()
        elif self.arena.age != self._age and self.plan.arena:
            self._set()
        self._feed_all(inputs)

    def held(self) -> list[Block]:
        """The blocks that it keeps beside those of variables."""
        fed = self.feed.blocks() if self.feed is not None else ()
        every = (self.arena.block, *self.blocks, *self._outputs.values(), *self._kept.values(), *self.bound.kept, *fed)
        return [block for block in every if block is not None]

    def _adopt(self) -> None:
        """The blocks are those of the thread that uses the arena now."""
        self.user = self.arena.user
        for block in (*self.blocks, *self._kept.values(), *self.bound.kept, *(self.feed.blocks() if self.feed else ())):
            if block is not None:
                block.adopt()

    def _moved(self) -> bool:
        """Whether somebody gave a variable another tensor."""
        for v, s in self._state:
            t = v.tensor
            if t.storage is not s or t.op is not None:
                return True
        return False

    def _give(self, k: int, block: Any) -> None:
        """Output k goes there."""
        self._outputs[k] = block
        if self._given.get(k) is not block.buffer:
            self._given[k] = block.buffer
            for kernel, arg in self.uses.get(("out", k), ()):
                kernel.set_arg(arg, block.buffer)

    def _launch(self) -> None:
        self.engine.launch(self.bound, self._buffer)
        if self.plan.copies:
            self._copy_back()
        if self.feed is not None:
            self.feed.started()
        for v in self.trace.variables:
            v.renew()

    def _feed_all(self, inputs: Sequence[Any]) -> None:
        """Host arrays are uploaded into the step's buffers; tensors on this device are read where they are."""
        from_host, engine, fed = {}, self.engine, self._fed
        for k, x in enumerate(inputs):
            if type(x) is Tensor and (there := x.storage) is not None and there.engine is engine:  # most are
                if fed[k] is not there.block:
                    self._point(k, there.block)
            elif isinstance(x, (Tensor, Variable)):
                self._point(k, engine.block(as_tensor(x)))
            else:
                want = self.specs[k]
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
        if self._fed[k] is not block:
            self._leaf_blocks[k] = self._fed[k] = block
            for kernel, arg in self.uses.get(("leaf", k), ()):
                kernel.set_arg(arg, block.buffer)

    def _copy_back(self) -> None:
        """Updates that could not be written in place, because someone still needed the old value."""
        import pyopencl as cl

        for k, leaf, nbytes in self.plan.copies:
            source = self._buffer(self.plan.outputs[k])
            cl.enqueue_copy(self.engine.queue.commands, self._leaf_blocks[leaf].buffer, source, byte_count=nbytes)

    def turn(self, plan: Plan, specs: tuple[Spec, ...]) -> None:
        """From now on inputs are of these specs."""
        moved, larger = self.bound.turn(plan), plan.arena > self.plan.arena
        self._follow(plan, specs)
        if moved or larger:
            self._set()
        self.blocks = [b if b is not None and b.nbytes >= s.nbytes else None
                       for b, s in zip(self.blocks, specs, strict=True)]
        if self.feed is not None:
            self.feed = self.feed.fitting(specs)


@contextlib.contextmanager
def in_place(replay: Replay) -> Iterator[None]:
    """What the replay updates is what it was before, when the block ends."""
    import pyopencl as cl

    pairs = [(b, replay.engine.pool.alloc(b.nbytes, "state")) for b in replay.state if b.nbytes]
    for block, copy in pairs:
        cl.enqueue_copy(replay.engine.queue.commands, copy.buffer, block.buffer, byte_count=block.nbytes)
    try:
        yield
    finally:
        for block, copy in pairs:
            cl.enqueue_copy(replay.engine.queue.commands, block.buffer, copy.buffer, byte_count=block.nbytes)


class Shaped:
    """A recording for many shapes, at one of them, in one thread."""

    def __init__(self, recording: Recording, replay: Replay, specs: tuple[Spec, ...]) -> None:
        self.recording, self.replay, self.specs, self.turns = recording, replay, specs, replay.turns
        self.template, self.plan = recording.template, recording.plan(specs)

    def __call__(self, *inputs: Any) -> Any:
        return self._turned()(*inputs)

    def values(self, *inputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """The results on the host."""
        return self._turned().values(*inputs)

    def _turned(self) -> Replay:
        if self.template is not self.recording.template:  # the arena grew: with plans that agree on it nothing moves
            self.template, self.plan = self.recording.template, self.recording.plan(self.specs)
        if self.replay.plan is not self.plan:
            self.replay.turn(self.plan, self.specs)
        return self.replay
