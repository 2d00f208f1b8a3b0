"""Tensors -> Graph: a hash-consed copy of what has to run, with composites and odd dtypes lowered to what the device runs."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..op import OPS, Op
from ..precision import autocast, precision
from ..spec import NARROW, Spec
from ..tensor import Tensor, constant, in_order, record

SPLIT_FROM = 1 << 15  # elements per result from which a reduction with few results is done in two stages


@dataclass(eq=False)
class Node:
    """One value of a Graph. `leaf` is its number among the inputs of the plan, or -1.

    `twin` is the node that shares its launch; `waits` are nodes that it does not read but that have to be there first (see pairs).
    """

    number: int
    op: Op | None
    inputs: tuple[Node, ...]
    attrs: dict[str, Any]
    spec: Spec
    leaf: int = -1
    stages: list[Any] | None = None
    waits: tuple[Node, ...] = ()
    _twin: weakref.ref[Node] | None = None  # each of two is the other's: only weakly, or neither would ever go

    @property
    def twin(self) -> Node | None:
        return None if self._twin is None else self._twin()

    @twin.setter
    def twin(self, other: Node) -> None:
        self._twin = weakref.ref(other)

    @property
    def kind(self) -> str:
        """leaf, pointwise, reduction, view, kernel, assemble (a concatenation by placement) or host (fallback)."""
        if self.op is None:
            return "leaf"
        if self.op.kind in ("kernel", "composite"):
            return "kernel" if self.stages is not None else "host"
        return self.op.kind

    shape = property(lambda self: self.spec.shape)
    size = property(lambda self: self.spec.size)

    def __repr__(self) -> str:
        return f"%{self.number} {self.op.name if self.op else 'leaf'} {self.spec}"


@dataclass
class Graph:
    """Nodes in topological order; `leaves[i]` is the tensor behind leaf i; `outputs` are the nodes asked for."""

    nodes: list[Node] = field(default_factory=list)
    leaves: list[Tensor] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)


def signature(roots: Sequence[Tensor], known: Callable[[Tensor], bool]) -> tuple[tuple[Any, ...], list[Tensor]]:
    """A hashable description of the graph's structure, equal for equal work, and the leaves in the order it numbers them."""
    numbers: dict[int, int] = {}
    leaves: list[Tensor] = []
    rows: list[Any] = []
    for t in in_order(roots, stop=known):
        numbers[id(t)] = len(numbers)
        if known(t):
            rows.append(t.spec)
            leaves.append(t)
        else:
            assert t.op is not None
            rows.append((t.op.name, tuple(numbers[id(i)] for i in t.inputs), tuple(_lasting(t.attrs).items()), t.spec))
    return (tuple(rows), tuple(numbers[id(r)] for r in roots)), leaves


def _lasting(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes as plans may keep them: a checkpointed region is what gradients need, and its tensors would stay on the device with the plan."""
    return {**attrs, "region": None} if "region" in attrs else attrs


class _Builder:
    """Interns nodes by (op, inputs, attrs): equal subexpressions become one node."""

    def __init__(self, device: Any, known: Callable[[Tensor], bool]) -> None:
        self.device, self.known = device, known
        self.graph = Graph()
        self.table: dict[Any, Node] = {}
        self.of: dict[int, Node] = {}
        self.keep: list[Tensor] = []  # ids in `of` must not be reused while we build
        self.copies = 0
        self.whole: set[int] = set()  # what is rounded as one

    def node(self, op: Op | None, inputs: tuple[Node, ...], attrs: dict[str, Any], spec: Spec, leaf: int = -1) -> Node:
        key = (op.name if op else leaf, tuple(n.number for n in inputs), tuple(attrs.items()), spec)
        if key not in self.table:
            self.table[key] = Node(len(self.graph.nodes), op, inputs, attrs, spec, leaf)
            self.graph.nodes.append(self.table[key])
        return self.table[key]

    def add(self, roots: Sequence[Tensor]) -> list[Node]:
        for t in in_order(roots, stop=lambda t: self.known(t) or id(t) in self.of):
            if id(t) in self.of:
                continue
            self.keep.append(t)
            if self.known(t):
                self.of[id(t)] = self.node(None, (), {}, t.spec, len(self.graph.leaves))
                self.graph.leaves.append(t)
            else:
                self.of[id(t)] = self.lower(t)
        return [self.of[id(r)] for r in roots]

    def lower(self, t: Tensor) -> Node:
        """t's node, after the rewrites that apply to it."""
        assert t.op is not None
        if (rewritten := self.rewrite(t)) is not None:
            return self.add([rewritten])[0]
        inputs = tuple(self.of[id(i)] for i in t.inputs)
        stages = None
        if t.op.kind in ("kernel", "composite"):
            stages = self.stages(t)
            if stages is None and t.op.define is not None:
                return self.add([t.op.define(*map(_shared, t.inputs), **t.attrs)])[0]
        node = self.node(t.op, inputs, _lasting(t.attrs), t.spec)
        node.stages = stages
        return node

    def stages(self, t: Tensor) -> list[Any] | None:
        """What the device runs for t, or None where it has no kernel for it."""
        assert t.op is not None
        return t.op.launch(self.device, operands(t.op, [self.of[id(i)] for i in t.inputs]), **t.attrs) if t.op.launch else None

    def narrow(self, t: Tensor) -> Tensor | None:
        """t computed from its narrow operands as they are and, if narrow itself, rounded at the end, where the device has a kernel for that."""
        wide = Tensor(t.op, t.inputs, t.attrs, Spec(t.shape, "float32" if t.dtype in NARROW else t.dtype))
        return wide.astype(t.dtype) if self.stages(wide) is not None else None

    def is_widening(self, t: Tensor) -> bool:
        return not self.known(t) and t.op is OPS["cast"] and t.dtype == "float32" and t.inputs[0].dtype in NARROW and COPY not in t.attrs

    def unwidened(self, t: Tensor) -> Tensor:
        """A kernel of widened operands on what they were widened from, where it can read that, else on copies of its own."""
        assert t.op is not None
        if t.op.name in READS_NARROW:
            same = Tensor(t.op, tuple(i.inputs[0] if self.is_widening(i) else i for i in t.inputs), t.attrs, t.spec)
            self.add(same.inputs)
            if self.stages(same) is not None:
                return same
        return Tensor(t.op, tuple(self.widened(i.inputs[0]) if self.is_widening(i) else i for i in t.inputs), t.attrs, t.spec)

    def widened(self, i: Tensor) -> Tensor:
        """i as float32, for one kernel alone: a float32 twin that others share would lie in memory beside the 16 bits until the last of them."""
        self.copies += 1
        return Tensor(OPS["cast"], (i,), {"dtype": "float32", COPY: self.copies}, Spec(i.shape, "float32"))

    def sunk(self, t: Tensor) -> Tensor | None:
        """A cast of a view as the view of a cast: operands stay strided, and one cast serves all parts of a vector of parameters."""
        (x,) = t.inputs
        if self.known(x) or x.op is None or x.op.name not in SINKS and not (x.op.name in PARTS and id(_source(x, self.known)) in self.whole):
            return None
        below = Tensor(t.op, x.inputs[:1], t.attrs, Spec(x.inputs[0].shape, t.dtype))
        return Tensor(x.op, (below, *x.inputs[1:]), x.attrs, t.spec)

    def rewrite(self, t: Tensor) -> Tensor | None:
        assert t.op is not None
        if t.op.kind in ("kernel", "composite") and not t.size:
            return constant(0, t.dtype, t.shape)
        if t.op.kind in ("kernel", "composite") and t.dtype not in NARROW and any(self.is_widening(i) for i in t.inputs):
            return self.unwidened(t)
        if t.op.kind in ("kernel", "composite") and any(i.dtype in NARROW for i in t.inputs):
            if t.op.name in READS_NARROW and (narrow := self.narrow(t)) is not None:
                return narrow if t.dtype in NARROW else None
            if t.op.name in WIDENS:
                return None
            return record(t.op, tuple(self.widened(i) if i.dtype in NARROW else i for i in t.inputs), t.attrs).astype(t.dtype)
        if t.op.name == "cast" and (t.dtype in NARROW or t.inputs[0].dtype in NARROW):
            return self.sunk(t)
        if t.op.kind == "pointwise" and t.op.name != "cast" and t.dtype == "float32" and any(i.dtype in NARROW for i in t.inputs):
            # Written out, so that it is the same value as where somebody wrote the casts himself.
            return Tensor(t.op, tuple(i.astype("float32") if i.dtype in NARROW else i for i in t.inputs), t.attrs, t.spec)
        if t.op.kind == "assemble":
            return _concat(t)
        if t.op.kind == "reduction":
            return _split(t, self.device)
        return None


# The attribute of a cast that is a copy for one kernel; the schedule computes it right before that.
COPY = "copy"
# Views below which a cast may be made: of the same elements, or (PARTS) of what is rounded as one.
SINKS, PARTS = {"permute", "reshape", "expand"}, {"crop", "after"}
# Kernels that can read 16-bit operands themselves, on some devices; the others get float32 copies.
READS_NARROW: set[str] = {
    "matmul", "conv", "conv_data_gradient", "conv_weight_gradient", "attention", "attention_gradient",
    "softmax", "softmax_gradient", "log_softmax", "log_softmax_gradient", "standardize", "standardize_gradient",
    "layer_norm", "layer_norm_gradient", "layer_norm_parameter_gradient", "rms_norm", "rms_norm_gradient", "rms_norm_parameter_gradient",
    "cross_entropy", "cross_entropy_slope", "soft_cross_entropy", "max_pool", "max_pool_index", "max_pool_gradient", "sum_pool", "sum_pool_gradient"}
# Ops whose formula says itself what is rounded where operands are narrow.
WIDENS: set[str] = {"attention", "attention_gradient"}
# Kernels that take operands as strided views; the others get contiguous arrays.
STRIDED: set[str] = {"matmul", "attention", "masked_attention", "attention_gradient", "masked_attention_gradient"}


@dataclass(frozen=True)
class Operand:
    """What a kernel's launch function may know of an input: spec, element strides (0 where broadcast), offset in its buffer."""

    spec: Spec
    strides: tuple[int, ...]
    offset: int = 0
    shape = property(lambda self: self.spec.shape)
    dtype = property(lambda self: self.spec.dtype)


def operands(op: Op, inputs: Sequence[Node]) -> list[Operand]:
    """What the op's launch function is told of its inputs."""
    return [Operand(n.spec, *reversed(kernel_operand(op, n)[1:])) for n in inputs]


def kernel_operand(op: Op, i: Node) -> tuple[Node, int, tuple[int, ...]]:
    """(node in memory, element offset, strides) through which a kernel reads its input i; i itself where it has to be copied."""
    layout = strided(i)
    if layout is not None and (op.name in STRIDED or contiguous(i.shape, layout[2])):
        return layout
    if layout is None and op.name in STRIDED and i.op is OPS["permute"]:
        # What cannot be walked is copied before it is transposed: the copy then reads and writes in order.
        node, offset, strides = kernel_operand(op, i.inputs[0])
        return node, offset, tuple(strides[a] for a in i.attrs["order"])
    return i, 0, row_major(i.shape)


def contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether these strides walk an array of this shape in row-major order (axes of size 1 do not matter)."""
    return all(n == 1 or s == r for n, s, r in zip(shape, strides, row_major(shape), strict=True))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Element strides of a contiguous array."""
    out, s = [], 1
    for n in reversed(shape):
        out.append(s)
        s *= n
    return tuple(reversed(out))


def strided(node: Node) -> tuple[Node, int, tuple[int, ...]] | None:
    """(base, offset, strides) when a chain of views is an affine walk over its base, else None."""
    from .index import Index, var

    names = [f"v{a}" for a in range(len(node.shape))]
    ix, conditions, base = through_views(node, Index(var(v, n) for v, n in zip(names, node.shape, strict=True)))
    if conditions:
        return None
    flat = ix.flatten(base.shape).expr
    steps = [flat.coefficient(v) for v in names]
    if any(s is None for s in steps):
        return None
    return base, flat.const, tuple(s or 0 for s in steps)


def through_views(node: Node, ix: Any) -> tuple[Any, list[Any], Node]:
    """Coordinates in the first non-view ancestor, and the conditions met on the way (any makes it non-affine)."""
    conditions: list[Any] = []
    while node.kind == "view":
        assert node.op is not None
        ix, more = node.op.index(ix, node.inputs[0].shape, node.shape, **node.attrs)  # type: ignore[attr-defined]
        conditions += more
        node = node.inputs[0]
    return ix, conditions, node


def _shared(t: Tensor) -> Tensor:
    """A copy for one kernel, where the kernel's formula stands in for it: then a cast like any other."""
    return t.inputs[0].astype("float32") if t.op is OPS["cast"] and COPY in t.attrs else t


def _source(t: Tensor, known: Callable[[Tensor], bool]) -> Tensor:
    """What the views t is made of are views of."""
    while not known(t) and t.op is not None and t.op.name in SINKS | PARTS:
        t = t.inputs[0]
    return t


def _rounded_whole(roots: Sequence[Tensor], known: Callable[[Tensor], bool]) -> set[int]:
    """What (by id) is rounded to 16 bits part by part and had better be as one: leaves of which that is at least half, results of which it is all.

    A leaf, the parameters say, takes one launch then; a kernel's result is rounded on its way to memory.
    """
    rounded: dict[int, dict[int, int]] = {}
    least: dict[int, int] = {}
    for t in in_order(roots, stop=known):
        if t.op is OPS["cast"] and t.dtype in NARROW and not known(t) and (whole := _source(t.inputs[0], known)) is not t.inputs[0]:
            rounded.setdefault(id(whole), {})[id(t.inputs[0])] = t.size
            least[id(whole)] = -(-whole.size // 2) if known(whole) else whole.size
    return {whole for whole, parts in rounded.items() if sum(parts.values()) >= least[whole]}


def _concat(t: Tensor) -> Tensor | None:
    """Few parts, or parts that are not contiguous in the result: a fused sum of zero-padded parts instead of placement."""
    axis = t.attrs["axis"]
    if math.prod(t.shape[:axis]) == 1 and len(t.inputs) > 2:
        return None
    total, at = None, 0
    for x in t.inputs:
        low, high = [0] * t.ndim, [0] * t.ndim
        low[axis], high[axis] = at, t.shape[axis] - at - x.shape[axis]
        at += x.shape[axis]
        part = OPS["pad"](x, low=tuple(low), high=tuple(high), inner=(0,) * t.ndim, value=0) if any((*low, *high)) else x
        total = part if total is None else (OPS["bit_or"] if t.dtype == "bool" else OPS["add"])(total, part)
    return total


def _split(t: Tensor, device: Any) -> Tensor | None:
    """A long reduction to few results: partial results first, so that every core has a share. GPUs cut theirs where their kernels are written."""
    (x,), axes = t.inputs, t.attrs["axes"]
    assert t.op is not None
    per, workers = x.size // max(t.size, 1), device.compute_units
    if device.kind == "gpu":
        return None
    if len(t.op.fold.init) > 1 or per < SPLIT_FROM or t.size >= workers:  # type: ignore[attr-defined]
        return None
    axis = max(axes, key=lambda a: x.shape[a])
    wanted = [s for s in range(workers, 16 * workers) if x.shape[axis] % s == 0 and x.shape[axis] > s]
    if not wanted:
        return None
    s = wanted[0]
    shape = (*x.shape[:axis], s, x.shape[axis] // s, *x.shape[axis + 1 :])
    inner = tuple(a + (a >= axis) for a in axes)
    partial = record(t.op, (x.reshape(shape),), {"axes": inner})
    rest = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    kept = (*rest[:axis], s, *rest[axis + 1 :])
    return record(t.op, (partial.reshape(kept),), {"axes": (axis,)}).astype(t.dtype)


def build(roots: Sequence[Tensor], known: Callable[[Tensor], bool], device: Any, first: Sequence[Tensor] = ()) -> Graph:
    """The graph under `roots`, down to tensors that are `known` to the engine; leaves in `first` get the first numbers."""
    builder = _Builder(device, known)
    with autocast(None), precision("fp32"):  # what is rewritten here was recorded without a wish, and must not take that of the moment
        for leaf in first:
            builder.add([leaf])
        builder.whole = _rounded_whole(roots, known)
        builder.graph.outputs = builder.add(roots)
    return builder.graph
