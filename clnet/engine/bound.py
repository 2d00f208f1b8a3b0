"""A plan with the kernels of one thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .compile.layout import Address
from .compile.plan import AtShape, Launch, Plan
from .device.faults import translated
from .device.kernel import give, kernel_of

if TYPE_CHECKING:
    from .device.memory import Block
    from .opencl import OpenCLEngine


class _Watched(threading.local):
    tell: Callable[[int, int], None] | None = None


_watched = _Watched()


@contextlib.contextmanager
def watching(tell: Callable[[int, int], None]) -> Iterator[None]:
    """Within the block this thread calls tell(done, total) before each program that a plan is bound to:
    it may have to be compiled.
    """
    before, _watched.tell = _watched.tell, tell
    try:
        yield
    finally:
        _watched.tell = before


class BoundPlan:
    """A plan's kernels for one thread: a cl.Kernel must not be shared
    (clSetKernelArg is the one call that is not safe).
    """

    def __init__(self, plan: Plan, engine: OpenCLEngine) -> None:
        self.plan = plan
        self._groups = [launch.group for launch in plan.launches]
        self.kernels: list[Any] = []
        self.coming: dict[int, dict[int, Any]] = {}  # by launch and place: arguments that it takes from its next on
        self.addresses: list[tuple[Any, int, Address]] = []  # kernel, argument, what it is for
        self.kept: list[Block] = []  # memory that runs of a launch hand on
        tell, kernels = _watched.tell, dict[str, list[str]]()
        for launch in plan.launches:
            if launch.host is None:
                kernels.setdefault(launch.text, []).append(launch.name)
        if engine.programs.prepare(kernels, engine.options, tell):
            tell = None  # it has told already
        done: dict[str, Any] = {}  # programs by their texts, which are long: layers repeat
        with engine.programs.helped(kernels, engine.options):
            for launch in plan.launches:
                if launch.host is not None:
                    self.kernels.append(None)
                    continue
                if launch.text not in done:
                    if tell:
                        tell(len(done), len(kernels))
                    done[launch.text] = engine.programs.get(launch.text, engine.options, name=launch.name)
                self.kernels.append(self._kernel(done[launch.text], launch, engine))
        self.calls = self._calls(plan)

    def _calls(self, plan: Plan) -> list[tuple[Any, tuple[int, ...], tuple[int, ...] | None]]:
        """Of each launch its kernel, grid and group."""
        return list(zip(self.kernels, plan.grids, self._groups, strict=True))

    def _kernel(self, program: Any, launch: Launch, engine: OpenCLEngine) -> Any:
        """A launch's, with the arguments that are no buffers, or buffers of its own."""
        with translated(f"kernel {launch.name}"):
            made = kernel_of(program, launch.name)
            for k, (kind, value) in enumerate(launch.args):
                if kind == "value":
                    give(made, k, value)
                elif kind == "kept":
                    self.kept.append(engine.zeros(value))
                    made.set_arg(k, self.kept[-1].buffer)
                else:
                    self.addresses.append((made, k, value))
        return made

    def turn(self, plan: Plan) -> bool:
        """The same kernels with the arguments of another plan of one structure; whether addresses differ, so that
        buffers have to be set again. A kernel gets its numbers when it is launched: the device is at work by then.
        """
        old, new = self.plan.launches, plan.launches
        coming, moved = {i: dict(found) for i, found in self.coming.items()}, False
        if isinstance(old, AtShape) and isinstance(new, AtShape) and old.moving is new.moving:
            for (later, places), a, b in zip(new.moving.takers, old.arguments, new.arguments, strict=True):
                if a != b:
                    argument = later.of(b)
                    for i, k in places:
                        coming.setdefault(i, {})[k] = argument
        else:
            moved = self._moved(old, new, coming)
        # At once: an interrupt before leaves the old one.
        self.coming, self.plan, self.calls = coming, plan, self._calls(plan)
        return moved

    def _moved(self, old: Sequence[Launch], new: Sequence[Launch], coming: dict[int, dict[int, Any]]) -> bool:
        """The same where everything may differ: slots lie elsewhere."""
        moved = False
        for i, (kernel, was, now) in enumerate(zip(self.kernels, old, new, strict=True)):
            for k, ((kind, before), (_, value)) in enumerate(zip(was.args, now.args, strict=True)):
                if kernel is not None and before != value:
                    if kind == "value":
                        coming.setdefault(i, {})[k] = value
                    moved = moved or kind != "value"
        if moved:
            self.addresses = [(kernel, k, value) for kernel, launch in zip(self.kernels, new, strict=True)
                              if kernel is not None
                              for k, (kind, value) in enumerate(launch.args) if kind not in ("value", "kept")]
        return moved

    def arrive(self, i: int) -> None:
        """What came for a launch."""
        for k, argument in self.coming[i].items():
            give(self.kernels[i], k, argument)
        del self.coming[i]

    def set_args(self, buffers: Any) -> None:
        """Presets every argument that is a buffer; `buffers(address)` gives the cl.Buffer of an address."""
        for kernel, k, address in self.addresses:
            kernel.set_arg(k, buffers(address))
