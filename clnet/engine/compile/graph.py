"""Tensors -> Graph: a hash-consed copy of what has to run, with composites and odd dtypes lowered
to what the device runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...core.op import OPS, Concatenation, Kernel, Op, Pointwise, Reduction, View
from ...core.precision import autocast, precision
from ...core.spec import NARROW, Spec, is_float
from ...core.tensor import Tensor, constant, in_order, record, widened
from ...kernels.variant import Choice
from .frozen import frozen, signed
from .node import COPY, Graph, Leaf, Node, Stages, computed
from .reads import operands
from .signature import lasting
from .split import in_stages

if TYPE_CHECKING:
    from ..device.devices import Device


class _Builder:
    """Interns nodes by (op, inputs, attrs): equal subexpressions become one node."""

    def __init__(self, device: Device, known: Callable[[Tensor], bool], of_parts: Mapping[int, Hashable]) -> None:
        self.device, self.known, self.of_parts = device, known, of_parts
        self.graph = Graph()
        self.table: dict[tuple[object, ...], Node] = {}
        self.of: dict[int, Node] = {}
        self.keep: list[Tensor] = []  # ids in `of` must not be reused while we build
        self.copies = 0
        self.choices: dict[Hashable, Choice] = {}  # layers repeat
        self.asked: dict[int, Stages | None] = {}  # by the choice's id
        self.whole: set[int] = set()  # what is rounded as one

    def leaf(self, t: Tensor) -> Node:
        node = Leaf(len(self.graph.nodes), None, (), {}, t.spec, leaf=len(self.graph.leaves))
        self.graph.nodes.append(node)
        self.graph.leaves.append(t)
        return node

    def node(self, op: Op, inputs: tuple[Node, ...], attrs: dict[str, Any], spec: Spec,
             stages: Stages | None) -> Node:
        key = (op.key, tuple(n.number for n in inputs), signed(attrs), spec)
        if key not in self.table:
            self.table[key] = computed(len(self.graph.nodes), op, inputs, attrs, spec, stages)
            self.graph.nodes.append(self.table[key])
        return self.table[key]

    def add(self, roots: Sequence[Tensor]) -> list[Node]:
        for t in in_order(roots, stop=lambda t: self.known(t) or id(t) in self.of):
            if id(t) in self.of:
                continue
            self.keep.append(t)
            if self.known(t):
                self.of[id(t)] = self.leaf(t)
            else:
                node = self.of[id(t)] = self.lower(t)
                if node.part is None:
                    node.part = self.of_parts.get(id(t))
        return [self.of[id(r)] for r in roots]

    def lower(self, t: Tensor) -> Node:
        """t's node, after the rewrites that apply to it."""
        assert t.op is not None
        if (rewritten := self.rewrite(t)) is not None:
            return self.add([rewritten])[0]
        inputs = tuple(self.of[id(i)] for i in t.inputs)
        stages = None
        if isinstance(t.op, Kernel):
            choice = self.choice(t)
            if choice is not None:
                stages = self.stages(choice)
                self.graph.choices.append((f"{t.op.name} {t.spec}", choice))
            if stages is None and t.op.define is not None:
                return self.add([t.op.define(*map(_shared, t.inputs), **t.attrs)])[0]
        return self.node(t.op, inputs, lasting(t.attrs), t.spec, stages)

    def choice(self, t: Tensor) -> Choice | None:
        """Which variant of a kernel serves t on the device; None for an op without kernels."""
        assert isinstance(t.op, Kernel)
        if t.op.launch is None:
            return None
        given = operands(t.op, [self.of[id(i)] for i in t.inputs])
        key = t.op.key, tuple(given), frozen(t.attrs)
        if key not in self.choices:
            self.choices[key] = t.op.launch.choice(self.device, given, **t.attrs)
        return self.choices[key]

    def stages(self, choice: Choice) -> Stages | None:
        """What the chosen variant asks for; None where there is none."""
        if id(choice) not in self.asked:
            stages = choice.stages
            self.asked[id(choice)] = None if stages is None else Stages(stages)
        return self.asked[id(choice)]

    def serves(self, t: Tensor) -> bool:
        """Whether the device has a kernel for t."""
        choice = self.choice(t)
        return choice is not None and choice.taken is not None

    def narrow(self, t: Tensor) -> Tensor | None:
        """t computed from its narrow operands as they are and, if narrow itself, rounded at the end,
        where the device has a kernel for that.
        """
        wide = Tensor(t.op, t.inputs, t.attrs, Spec(t.shape, "float32" if t.dtype in NARROW else t.dtype))
        return wide.astype(t.dtype) if self.serves(wide) else None

    def is_widening(self, t: Tensor) -> bool:
        return (not self.known(t) and t.op is OPS["cast"] and t.dtype == "float32"
                and t.inputs[0].dtype in NARROW and COPY not in t.attrs)

    def unwidened(self, t: Tensor) -> Tensor:
        """A kernel of widened operands on what they were widened from, where it can read that,
        else on copies of its own.
        """
        assert isinstance(t.op, Kernel)
        if "narrow" in t.op.reads:
            same = Tensor(t.op, tuple(i.inputs[0] if self.is_widening(i) else i for i in t.inputs), t.attrs, t.spec)
            self.add(same.inputs)
            if self.serves(same):
                return same
        inputs = tuple(self.widened(i.inputs[0]) if self.is_widening(i) else i for i in t.inputs)
        return Tensor(t.op, inputs, t.attrs, t.spec)

    def widened(self, i: Tensor) -> Tensor:
        """i as float32, for one kernel alone: a float32 twin that others share would lie in memory beside the 16 bits
        until the last of them.
        """
        self.copies += 1
        return Tensor(OPS["cast"], (i,), {"dtype": "float32", COPY: self.copies}, Spec(i.shape, "float32"))

    def sunk(self, t: Tensor) -> Tensor | None:
        """A cast of a view as the view of a cast: operands stay strided, and one cast serves all parts
        of a vector of parameters.
        """
        (x,) = t.inputs
        if self.known(x) or not isinstance(x.op, View) or not x.op.shows:
            return None
        if x.op.shows == "part" and id(_source(x, self.known)) not in self.whole:
            return None
        below = Tensor(t.op, x.inputs[:1], t.attrs, Spec(x.inputs[0].shape, t.dtype))
        return Tensor(x.op, (below, *x.inputs[1:]), x.attrs, t.spec)

    def placed(self, t: Tensor) -> bool:
        """Whether a concatenation is made by placement: of many parts that are contiguous in it, or of parts that all
        come out of folds and kernels, which write them there at no launch more.
        """
        if math.prod(t.shape[: t.attrs["axis"]]) != 1:
            return False
        sources = [_source(x, self.known) for x in t.inputs]
        return len(t.inputs) > 2 or not any(self.known(s) or isinstance(s.op, (Pointwise, View)) for s in sources)

    def rewrite(self, t: Tensor) -> Tensor | None:
        assert t.op is not None
        if isinstance(t.op, Kernel) and not t.size:
            return constant(0, t.dtype, t.shape)
        if isinstance(t.op, Kernel) and t.dtype not in NARROW and any(self.is_widening(i) for i in t.inputs):
            return self.unwidened(t)
        if isinstance(t.op, Kernel) and any(i.dtype in NARROW for i in t.inputs):
            if "narrow" in t.op.reads and (narrow := self.narrow(t)) is not None:
                return narrow if t.dtype in NARROW else None
            if t.op.rounds:
                return None
            inputs = tuple(self.widened(i) if i.dtype in NARROW else i for i in t.inputs)
            return record(t.op, inputs, t.attrs).astype(t.dtype)
        if t.op.name == "cast" and (t.dtype in NARROW or t.inputs[0].dtype in NARROW):
            return self.sunk(t)
        if (isinstance(t.op, Pointwise) and t.op.name != "cast" and t.dtype == "float32"
                and any(i.dtype in NARROW for i in t.inputs)):
            # Written out, so that it is the same value as where somebody wrote the casts himself.
            inputs = tuple(map(widened, t.inputs))
            return Tensor(t.op, inputs, t.attrs, t.spec)
        if isinstance(t.op, Concatenation):
            return None if self.placed(t) else _concat(t)
        if isinstance(t.op, Reduction):
            return in_stages(t, self.device)
        return None


def _shared(t: Tensor) -> Tensor:
    """A copy for one kernel, where the kernel's formula stands in for it: then a cast like any other."""
    return t.inputs[0].astype("float32") if t.op is OPS["cast"] and COPY in t.attrs else t


def _source(t: Tensor, known: Callable[[Tensor], bool]) -> Tensor:
    """What the views t is made of are views of."""
    while not known(t) and isinstance(t.op, View) and t.op.shows:
        t = t.inputs[0]
    return t


def _rounded_whole(roots: Sequence[Tensor], known: Callable[[Tensor], bool]) -> set[int]:
    """What (by id) is rounded to 16 bits part by part and had better be as one: leaves of which that is at least half,
    results of which it is all.

    A leaf, the parameters say, takes one launch then; a kernel's result is rounded on its way to memory.
    """
    rounded: dict[int, dict[int, int]] = {}
    least: dict[int, int] = {}
    for t in in_order(roots, stop=known):
        if t.op is not OPS["cast"] or t.dtype not in NARROW or known(t):
            continue
        if (whole := _source(t.inputs[0], known)) is not t.inputs[0]:
            rounded.setdefault(id(whole), {})[id(t.inputs[0])] = t.size
            least[id(whole)] = -(-whole.size // 2) if known(whole) else whole.size
    return {whole for whole, parts in rounded.items() if sum(parts.values()) >= least[whole]}


def _concat(t: Tensor) -> Tensor | None:
    """Few parts, or parts that are not contiguous in the result: a fused sum of parts padded with zeros, which are
    negative because that alone leaves the sign of a zero as it is, instead of placement.
    """
    axis, zero = t.attrs["axis"], -0.0 if is_float(t.dtype) else 0
    total, at = None, 0
    for x in t.inputs:
        low, high = [0] * t.ndim, [0] * t.ndim
        low[axis], high[axis] = at, t.shape[axis] - at - x.shape[axis]
        at += x.shape[axis]
        part = x
        if any((*low, *high)):
            part = OPS["pad"](x, low=tuple(low), high=tuple(high), inner=(0,) * t.ndim, value=zero)
        total = part if total is None else (OPS["bit_or"] if t.dtype == "bool" else OPS["add"])(total, part)
    return total


def build(roots: Sequence[Tensor], known: Callable[[Tensor], bool], device: Device,
          first: Sequence[Tensor] = (), of_parts: Mapping[int, Hashable] = MappingProxyType({})) -> Graph:
    """The graph under `roots`, down to tensors that are `known` to the engine; leaves in `first` get the first numbers.
    `of_parts` says by the id of a tensor for what it is computed.
    """
    builder = _Builder(device, known, of_parts)
    # what is rewritten here was recorded without a wish, and must not take that of the moment
    with autocast(None), precision("fp32"):
        for leaf in first:
            builder.add([leaf])
        builder.whole = _rounded_whole(roots, known)
        builder.graph.outputs = builder.add(roots)
    return builder.graph
