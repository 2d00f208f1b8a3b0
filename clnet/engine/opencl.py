"""The engine on an OpenCL device: plans are cached by graph structure, buffers come from the pool,
nothing leaves silently.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import alike
from ..core.recording import eager
from ..core.spec import Spec, np_dtype
from ..core.tensor import Tensor, no_value
from ..core.varying import Varying
from ..errors import ShapeError
from . import host_or_device as placement
from .bound import BoundPlan
from .compile.layout import Address
from .compile.plan import Launch, Plan
from .compile.signature import signature
from .compile.sized import SizedPlan
from .device.commands import Listener, Queue
from .device.device import Device, check_not_forked
from .device.faults import translated
from .device.memory import Block, Pool
from .device.programs import ProgramCache
from .plan_files import PlanFiles

PLANS = 128  # plans kept per engine, with their kernels
AHEAD = 16 << 20  # [bytes] of a leaf whose way to the device is not waited for: nobody writes to its array
QUIET = "-w"  # PoCL prints a count of warnings for every build


class DeviceArray:
    """Storage on a device: a block of the pool, shared by the tensors that alias it."""

    __slots__ = ("block", "engine", "spec")

    def __init__(self, engine: OpenCLEngine, block: Block, spec: Spec) -> None:
        self.engine, self.block, self.spec = engine, block, spec

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value on the host: one counted transfer, and the wait for it."""
        return self.engine.download(self.block, self.spec)

    def read(self, start: int, count: int) -> np.ndarray[Any, Any]:
        """`count` elements from `start` on, as a vector: a transfer of just these."""
        dtype = np_dtype(self.spec.dtype)
        return self.engine.queue.download(self.block.buffer, np.empty(count, dtype), start * dtype.itemsize)


def _mentions(key: object, word: str) -> bool:
    return any(_mentions(k, word) for k in key) if isinstance(key, tuple) else key == word


def _rounds_division(device: Device) -> bool:
    import pyopencl as cl

    return bool(device.handle.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT)


class OpenCLEngine:
    """Runs recorded graphs on one device."""

    compiles = True

    def __init__(self, device: Device) -> None:
        import pyopencl as cl

        check_not_forked()
        self.device = device
        self._enqueue, self._translated = cl.enqueue_nd_range_kernel, translated(device.key)  # of each launch
        self.programs = ProgramCache(device)
        self.programs.expect()
        self.queue = Queue(device)
        self.transfers = self.queue.transfers
        self.pool = Pool(device, flush=self.queue.finish, settle=self.queue.settle)
        self.plans: OrderedDict[Any, Any] = OrderedDict()
        # GPUs divide to 2.5 ulp unless told otherwise; where memory is the limit the right quotient costs nothing.
        right = ("-cl-fp32-correctly-rounded-divide-sqrt",) if device.is_gpu and _rounds_division(device) else ()
        plain = ("-DPLAIN_LOADS",) if device.known.plain_loads else ()
        halves = () if device.known.half_vectors else ("-DHALVES_ALIGNED",)
        # Intel's cores take 100 times as long for a product with a number below 1.2e-38, and gradients through many
        # steps of time are full of them.
        zeros = ("-cl-denorms-are-zero",) if device.is_cpu else ()
        self.options = (QUIET, *plain, *halves, *zeros, *right)
        self.plan_files = PlanFiles(device, self.options)
        self.launches = 0
        self.fallbacks: dict[str, int] = {}
        self._local = threading.local()
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return self.device.key

    @property
    def profile(self) -> Listener | None:
        """Who is told of every launch and copy."""
        return self.queue.told

    @profile.setter
    def profile(self, told: Listener | None) -> None:
        self.queue.told = told

    # --- values
    def known(self, t: Tensor) -> bool:
        """Whether t is an input of the plan: a leaf, or computed on this engine before."""
        return t.op is None or (t.storage is not None and t.storage.engine is self)

    def run(self, tensors: Sequence[Tensor]) -> None:
        """Computes what the tensors need and gives each storage here. One plan, one pass, no wait."""
        check_not_forked()
        todo = [t for t in dict.fromkeys(tensors) if not self.known(t)]
        for t in tensors:
            if t.op is None:
                self.upload(t)
        if not todo:
            return
        with eager(False):
            plan, leaves = self.plan_for(todo)
            blocks = self.execute(plan, [self.upload(leaf) for leaf in leaves])
        for t, address in zip(todo, plan.outputs, strict=True):
            block = blocks[address.number] if address.kind == "out" else leaves[address.number].storage.block
            t.storage = DeviceArray(self, block, t.spec)

    def block(self, t: Tensor) -> Block:
        """The block that holds t here; computed or uploaded if it was not."""
        if t.storage is None or t.storage.engine is not self:
            self.run([t])
        found: Block = t.storage.block
        return found

    def values(self, tensors: Sequence[Tensor]) -> list[np.ndarray[Any, Any]]:
        """The values on the host."""
        waiting = [t for t in tensors if t.value is None]
        self.run(waiting)
        return [np.asarray(t.value, order="C") if t.value is not None else t.storage.numpy() for t in tensors]

    def on_host(self, t: Tensor) -> np.ndarray[Any, Any] | None:
        """The value, where it was measured that the host is sooner done with a call on host arrays; else None."""
        return placement.on_host(t, self)

    def upload(self, leaf: Tensor) -> Block:
        """The block that holds a leaf here, filled on first use."""
        if leaf.storage is not None and leaf.storage.engine is self:
            block: Block = leaf.storage.block
            return block
        value = leaf.value if leaf.value is not None else leaf.storage.numpy() if leaf.storage is not None else None
        if value is None:
            raise ShapeError(no_value(leaf))
        self.device.check_dtype(leaf.dtype)
        value = np.asarray(value, np_dtype(leaf.dtype))
        block = self.pool.alloc(leaf.spec.nbytes, leaf.name or "tensor")
        if alike(value):
            self.queue.fill(block.buffer, value.reshape(-1)[:1], value.size)
        else:
            self.queue.upload(block.buffer, value, wait=value.nbytes > AHEAD)
        leaf.storage = DeviceArray(self, block, leaf.spec)
        return block

    def download(self, block: Block, spec: Spec) -> np.ndarray[Any, Any]:
        return self.queue.download(block.buffer, np.empty(spec.shape, np_dtype(spec.dtype)))

    def zeros(self, nbytes: int) -> Block:
        """A block of zeros."""
        block = self.pool.alloc(nbytes, "kept")
        self.queue.fill(block.buffer, np.zeros(1, np.uint8), nbytes)
        return block

    # --- plans
    def plan_for(self, todo: Sequence[Tensor]) -> tuple[Plan, list[Tensor]]:
        """The plan for these tensors and the leaves to bind to it, from the cache when the structure was seen before.
        """
        key, leaves = signature(todo, self.known)
        with self._lock:
            plan = self.plans.get(key)
            if plan is None:
                plan = self._made(todo)[0]
                self.remember(key, plan)
            else:
                self.plans.move_to_end(key)
        return plan, leaves

    def plan_of_step(self, roots: Sequence[Tensor], first: Sequence[Tensor], into: Mapping[int, int],
                     varying: Varying | None = None) -> tuple[Plan | SizedPlan, list[Tensor]]:
        """The plan for a recorded step and its leaves, `first` before all others: that of an equal step where there was
        one (the same network made anew: a fold of a cross-validation, a cell that runs again). `into` says which
        outputs overwrite which leaf; with `varying` it is one for many shapes.
        """
        key, leaves = signature(roots, self.known)
        places = {id(t): k for k, t in enumerate(leaves)}
        key = key, tuple(places.get(id(t)) for t in first), tuple(into.items())
        key = key if varying is None else varying.described(key)
        with self._lock:
            known: list[tuple[Plan | SizedPlan, list[int]]] = self.plans.get(key, [])
        now = varying.now if varying is not None else ()
        found = next((f for f in known if not isinstance(f[0], SizedPlan) or f[0].serves(now)), None)
        if found is None:
            kept = self.plan_files.key(key)
            found = self.plan_files.read(kept, now) or self._planned(roots, first, into, varying, places, kept)
            with self._lock:
                self.remember(key, [*known, found])
        plan, others = found
        return plan, [*first, *(leaves[k] for k in others)]

    def _planned(self, roots: Sequence[Tensor], first: Sequence[Tensor], into: Mapping[int, int],
                 varying: Varying | None, places: Mapping[int, int], kept: str | None,
                 ) -> tuple[Plan | SizedPlan, list[int]]:
        """The plan of a step that is like none before, and the places of the leaves that it takes beside the first."""
        start = time.perf_counter()
        plan, leaves = self._made(roots, first, into, varying)
        others = [places[id(t)] for t in leaves[len(first) :]]
        self.plan_files.write(kept, plan, others, time.perf_counter() - start)
        return plan, others

    def _made(self, roots: Sequence[Tensor], first: Sequence[Tensor] = (), into: Mapping[int, int] | None = None,
              varying: Varying | None = None) -> tuple[Any, list[Tensor]]:
        """The plan, and its leaves. A process whose plans all come from disk loads no planner."""
        from .compile.pipeline import planned

        return planned(roots, self.known, self.device, first, into, varying)

    def remember(self, key: Any, plan: Any) -> None:
        self.plans[key] = plan
        while len(self.plans) > PLANS:
            self.plans.popitem(last=False)

    def forget(self, op: str) -> None:
        """Lets go of plans with this op, by its key, and of this thread's kernels for them; other threads' go as they
        plan anew.
        """
        with self._lock:
            gone = [self.plans.pop(key) for key in list(self.plans) if _mentions(key, op)]
        table: OrderedDict[int, BoundPlan] = getattr(self._local, "bound", None) or OrderedDict()
        for plan in gone:
            table.pop(id(plan), None)

    def unbind(self) -> None:
        """Lets go of this thread's kernels for plans: their arguments hold the buffers that they had last."""
        self._local.bound = OrderedDict()

    def bound(self, plan: Plan) -> BoundPlan:
        """This thread's kernels for a plan."""
        table: OrderedDict[int, BoundPlan] | None = getattr(self._local, "bound", None)
        if table is None:
            table = self._local.bound = OrderedDict()
        if id(plan) not in table or table[id(plan)].plan is not plan:
            table[id(plan)] = BoundPlan(plan, self)
            while len(table) > PLANS:
                table.popitem(last=False)
        return table[id(plan)]

    def execute(self, plan: Plan, leaves: Sequence[Block]) -> dict[int, Block]:
        """Runs a plan on the given leaves; returns its output blocks.
        The arena goes back to the pool, behind the queue.
        """
        bound = self.bound(plan)
        blocks = {k: self.pool.alloc(size, "result") for k, size in plan.blocks.items()}
        arena = self.pool.alloc(plan.arena, "arena") if plan.arena else None

        def buffer(address: Address) -> Any:
            if address.kind == "arena":
                return arena.buffer if arena else None
            return (leaves if address.kind == "leaf" else blocks)[address.number].buffer

        with translated(self.device.key):
            bound.set_args(buffer)
        self.launch(bound, buffer)
        if arena:
            arena.release()
        return blocks

    def launch(self, bound: BoundPlan, buffer: Any) -> None:
        """Enqueues the launches."""
        queue, enqueue, coming = self.queue, self._enqueue, bound.coming
        commands, told = queue.commands, queue.told
        with self._translated:
            for k, (kernel, grid, group) in enumerate(bound.calls):
                if kernel is None:
                    self._on_host(bound.plan.launches[k], buffer)
                else:
                    if k in coming:
                        bound.arrive(k)
                    event = enqueue(commands, kernel, grid, group)
                if told is not None:
                    self._tell(told, bound.plan.launches[k], event if kernel is not None else None)
            commands.flush()
        self.launches += len(bound.kernels)

    @staticmethod
    def _tell(told: Listener, launch: Launch, event: Any) -> None:
        if told.alone and event is not None:
            event.wait()
        told.launched(launch, event)

    def _on_host(self, launch: Launch, buffer: Any) -> None:
        """An op without a kernel on this device: its reference, with the transfers counted and one warning per op."""
        node = launch.host
        assert node is not None and node.op is not None
        if node.op.name not in self.fallbacks:
            warnings.warn(f"{node.op.name} has no kernel for {self.device.name} and runs on the host.", RuntimeWarning,
                          stacklevel=2)
        self.fallbacks[node.op.name] = self.fallbacks.get(node.op.name, 0) + 1
        inputs = []
        for i, address in zip(node.inputs, launch.reads, strict=True):
            dtype = np_dtype(i.spec.dtype)
            inputs.append(self.queue.download(buffer(address), np.empty(i.shape, dtype), address.start(dtype.itemsize)))
        value = np.ascontiguousarray(node.op.ref(*inputs, **node.attrs), np_dtype(node.spec.dtype))
        address = launch.writes[0]
        self.queue.upload(buffer(address), value, address.start(value.dtype.itemsize))

    def finish(self) -> None:
        """Waits for everything this thread has launched."""
        self.queue.finish()
