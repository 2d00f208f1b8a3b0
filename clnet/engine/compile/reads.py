"""What a node reads: through views down to what is in memory or registers, and how it lies there."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import op as ops
from ...core.size import common_divisor, same
from ...core.spec import NARROW
from ...kernels.operand import Operand, row_major
from .index import Condition, Flat, Index, var
from .node import Call, Node, View

ALIGNED = 128  # elements to which memory is aligned where nothing is known against it


# --- what kernels read
def operands(op: ops.Kernel, inputs: Sequence[Node]) -> list[Operand]:
    """What the op's launch function is told of its inputs; of where they begin what alignment says, so that layers
    whose weights are parts of one vector ask the same.
    """
    found = ((n.spec, *kernel_operand(op, n)[1:]) for n in inputs)
    return [Operand(spec, strides, common_divisor(offset, ALIGNED)) for spec, offset, strides in found]


def kernel_operand(op: ops.Kernel, i: Node) -> tuple[Node, int, tuple[int, ...]]:
    """(node in memory, element offset, strides) through which a kernel reads its input i;
    i itself where it has to be copied.
    """
    layout = strided(i)
    if layout is not None and ("strided" in op.reads or contiguous(i.shape, layout[2])):
        return layout
    if layout is None and "strided" in op.reads and i.op is ops.OPS["permute"]:
        # What cannot be walked is copied before it is transposed: the copy then reads and writes in order.
        node, offset, strides = kernel_operand(op, i.inputs[0])
        return node, offset, tuple(strides[a] for a in i.attrs["order"])
    return i, 0, row_major(i.shape)


def contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether these strides walk an array of this shape in row-major order (axes of size 1 do not matter)."""
    return all(n == 1 or s == r for n, s, r in zip(shape, strides, row_major(shape), strict=True))


def strided(node: Node) -> tuple[Node, int, tuple[int, ...]] | None:
    """(base, offset, strides) when a chain of views is an affine walk over its base, else None."""
    if not isinstance(node, View):
        return _walk(node)
    if node.walk is None:
        node.walk = (_walk(node),)
    return node.walk[0]


def _walk(node: Node) -> tuple[Node, int, tuple[int, ...]] | None:
    names = [f"v{a}" for a in range(len(node.shape))]
    ix, conditions, base = through_views(node, Index(var(v, n) for v, n in zip(names, node.shape, strict=True)))
    if conditions:
        return None
    flat = ix.flatten(base.shape).expr
    steps = [flat.coefficient(v) for v in names]
    if any(s is None for s in steps):
        return None
    return base, flat.const, tuple(s or 0 for s in steps)


def through_views(node: Node, ix: Index) -> tuple[Index, list[Condition], Node]:
    """Coordinates in the first non-view ancestor, and the conditions met on the way (any makes it non-affine)."""
    conditions: list[Condition] = []
    while isinstance(node, View):
        ix, more = node.op.index(ix, node.inputs[0].shape, node.shape, **node.attrs)
        conditions += more
        node = node.inputs[0]
    return ix, conditions, node


# --- what everything else reads
def base_at(node: Node) -> tuple[Node, bool]:
    """(first non-view ancestor, whether it is read element for element in row-major order)."""
    if not isinstance(node, View):
        return node, True
    flat = var("i", node.size)
    ix, conditions, base = through_views(node, Flat(flat).unflatten(node.shape))
    return base, not conditions and same(base.size, node.size) and ix.flatten(base.shape).expr == flat


def pieced(node: Node) -> tuple[Node, int | None]:
    """(first non-view ancestor, the element of it at which node, row by row, is a contiguous piece;
    None where it is not one).
    """
    if not isinstance(node, View) or not node.size:
        return node, 0
    flat = var("i", node.size)
    ix, conditions, base = through_views(node, Flat(flat).unflatten(node.shape))
    start = ix.flatten(base.shape).expr
    return base, start.const if not conditions and start == flat + start.const else None


def bases(n: Node) -> list[tuple[Node, bool]]:
    """What a pointwise node reads: the ancestors in memory or registers,
    and whether element for element (not broadcast).
    """
    found = ((base_at(i), same(i.size, n.size)) for i in n.inputs)
    return [(base, identity and whole) for (base, identity), whole in found]


def fences(n: Node) -> list[Node]:
    """What has to be there before n may be computed although n does not read it: what it waits for,
    and the op `after` below the views that n reads.
    """
    found = [base_at(w)[0] for w in n.waits]
    for i in n.inputs:
        while isinstance(i, View):
            found += [base_at(first)[0] for first in i.inputs[1:]]
            i = i.inputs[0]
    return found


def widens(n: Node) -> bool:
    """Whether n is float32 made of 16 bits: of no worth in memory, except where a kernel cannot read those."""
    return n.op is not None and n.op.name == "cast" and n.inputs[0].spec.dtype in NARROW


def rounds(n: Node) -> bool:
    """Whether n is 16 bits made of something else."""
    return n.op is not None and n.op.name == "cast" and n.spec.dtype in NARROW


def operand(n: Call, i: Node) -> tuple[Node, int, tuple[int, ...]]:
    """(node in memory, element offset, strides) through which kernel node n reads its input i."""
    return kernel_operand(n.op, i)
