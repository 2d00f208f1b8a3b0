"""Calls of ops with hand-written kernels, as plain values: which numbers their kernels take, and how to make the calls
anew in another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import ops as F
from ...core.op import OPS
from ...core.op import Kernel as KernelOp
from ...core.size import number
from ...core.spec import Spec
from ...core.tensor import Tensor, placeholder
from ...engine.compile.node import Graph, Kernel
from ...engine.compile.reads import operands
from ...engine.explain import Explanation, explain
from ...errors import ConfigError
from ...kernels import tuning
from ...kernels.choosers import Chooser
from ...kernels.operand import Operand
from ...kernels.variant import Choice
from ..replays import replayed
from .tasks import SPELLED, Task, strides

if TYPE_CHECKING:
    from ...engine.device.devices import Device


@dataclass(frozen=True)
class Call:
    """An op at operands, each (dtype, shape, strides), with attributes."""

    op: str
    operands: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.op} " + ", ".join(f"{dtype} {'x'.join(map(str, shape))}" for dtype, shape, _ in self.operands)

    @classmethod
    def of_json(cls, values: Sequence[Any]) -> Call:
        return cls(*tuning.frozen(list(values)))

    def as_json(self) -> list[Any]:
        return [self.op, self.operands, self.attributes]

    def choice(self, device: Device) -> Choice:
        """Which kernel serves on the device, and why not the others."""
        return self._chooser.choice(device, self._given, **dict(self.attributes))

    @property
    def _chooser(self) -> Chooser:
        op = OPS[self.op]
        assert isinstance(op, KernelOp) and isinstance(op.launch, Chooser)
        return op.launch

    @property
    def _given(self) -> list[Operand]:
        return [Operand(Spec(shape, dtype), strides) for dtype, shape, strides in self.operands]

    def sections(self, device: Device) -> list[tuple[str, str]]:
        """(section of numbers, shape class) that the kernel that serves reads; none where the formula serves."""
        taken = self.choice(device).taken
        if taken is None:
            return []
        with tuning.reading() as read:
            answer = taken.ask(self._chooser.asked(self._given, **dict(self.attributes)), device)
            answer.build()  # type: ignore[union-attr]  # it has offered before
        return list(dict.fromkeys(read))

    def entry(self, device: Device) -> tuple[str, str]:
        """(op, shape class) under which its numbers stand in a table. ConfigError where its kernel takes none."""
        found = self.sections(device)
        if not found:
            choice = self.choice(device)
            who = choice.taken.name if choice.taken is not None else "its formula"
            raise ConfigError(f"tune: expected a call whose kernel takes numbers; got {self}, which {who} computes.")
        return found[0][0].partition(" ")[0], found[0][1]

    # --- as something to run
    @property
    def task(self) -> Task:
        return Task(str(self), ("", ""), self, None, tuple(self._memory(s, t)[0] for _, s, t in self.operands),
                    tuple(dtype for dtype, _, _ in self.operands))

    def explained(self) -> Explanation:
        """Its stages on the device in use."""
        given = zip(self.task.shapes, self.task.dtypes, strict=True)
        return explain(self(*(placeholder(shape, dtype, f"x{k}") for k, (shape, dtype) in enumerate(given))))

    def __call__(self, *xs: Tensor) -> Tensor:
        """The op at tensors that lie in memory as `task.shapes` says."""
        given = []
        for x, (_, shape, steps) in zip(xs, self.operands, strict=True):
            order = self._memory(shape, steps)[1]
            given.append(F.expand(F.permute(x, *(order.index(a) for a in range(len(order)))), *shape))
        made: Tensor = OPS[self.op](*given, **dict(self.attributes))
        return made

    @staticmethod
    def _memory(shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], list[int]]:
        """The shape of an array in whose memory an operand lies, and the operand's axes in its order. Axes along which
        it is broadcast are of size 1, gaps in memory are left out.
        """
        order = sorted(range(len(shape)), key=lambda a: (-strides[a], a))
        return tuple(shape[a] if strides[a] or shape[a] == 1 else 1 for a in order), order


def calls(what: Any, *inputs: Any) -> list[Call]:
    """The calls of a step whose kernels take numbers, each once: of a Trainer's training step, of a recorded function,
    of a model or a function at inputs, or of what tensors need.
    """
    step = replayed(what, *inputs, who="calls")
    return calls_of(step.stages.graph, step.engine.device)


def calls_of(graph: Graph, device: Device) -> list[Call]:
    """The same of a graph."""
    found: dict[Call, None] = {}
    for n in graph.nodes:
        if isinstance(n, Kernel) and isinstance(n.op.launch, Chooser):
            call = Call(n.op.name, tuple((o.dtype, tuple(map(number, o.shape)), tuple(map(number, o.strides)))
                                         for o in operands(n.op, n.inputs)), tuple(_plain(n.attrs.items())))
            if OPS.get(n.op.name) is n.op and call not in found and call.sections(device):
                found[call] = None
    return list(found)


def _plain(attributes: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    for name, value in attributes:
        yield name, tuple(map(number, value)) if isinstance(value, tuple) else number(value)


def product(name: str) -> Call:
    """A product as "TN 768x8192x3072" (m, k, n) spells it: N, row by row; T, column by column. ConfigError for another.
    """
    spelled = SPELLED.fullmatch(name)
    if spelled is None:
        raise ConfigError("tune: expected a call, or a product as 'NN 64x784x512' (m, k, n; NT and TN: the second, the "
                          f"first operand is transposed); got {name!r}.")
    m, k, n = map(int, spelled.groups()[1:])
    x, w = strides(spelled[1], m, k, n)
    return Call("matmul", (("float32", (m, k), x), ("float32", (k, n), w)))
