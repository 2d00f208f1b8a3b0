"""Code and memory -> launches: each kernel with its arguments, and what it costs by formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.size import Size, smaller
from ...core.spec import np_dtype
from . import c_types as ct
from .emit import OperandParam
from .fusion import Fusion
from .layout import Address
from .memory_map import MemoryMap
from .node import Host, Leaf, Node, View
from .plan import Later, Launch, Ops, Within
from .source import Source
from .sources import Code

SCALAR: dict[str, Callable[..., np.generic]] = {
    "float": np.float32, "double": np.float64, "char": np.int8, "short": np.int16, "int": np.int32, "long": np.int64,
    "uchar": np.uint8, "ushort": np.uint16, "uint": np.uint32, "ulong": np.uint64}


def as_argument(ctype: str, value: Any) -> Any:
    """A number as a kernel takes it; one that varies knows how it is to be taken."""
    return Later(SCALAR[ctype], value) if isinstance(value, Size) else SCALAR[ctype](value)


def _start(address: Address, itemsize: int, further: Any = 0) -> Any:
    """The argument that says where a value begins in its buffer, in elements of so many bytes."""
    at = address.offset + further
    if address.kind == "slot":
        return Within(SCALAR["ulong"], address.number, itemsize, at)
    return as_argument("ulong", at)


def launches(code: Sequence[Code], memory: MemoryMap) -> list[Launch]:
    """The launches of all code, in order."""
    return [launch for c in code for launch in _launches(c, memory)]


def _launches(code: Code, memory: MemoryMap) -> list[Launch]:
    fusion = code.fusion
    computes = (*fusion.cores, *fusion.stores)
    ops = tuple(n.op.name for n in computes if n.op)
    writes = tuple(memory.address(n) for n in fusion.stores)
    nbytes = sum(n.spec.nbytes for n in fusion.stores) + sum(_taken(code).values())
    if not code.sources:
        (core,) = fusion.cores
        assert isinstance(core, Host)
        reads = tuple(memory.address(n) for n in code.reads)
        return [Launch(f"host_{ops[0]}", "", [], (), None, ops, core, reads, writes, nbytes)]
    found = [Launch(s.name, s.text, _args(fusion, s, memory), s.grid, s.group, ops, None,
                    tuple(memory.address(n) for n in s.params.nodes()), writes, nbytes, s.note) for s in code.sources]
    found[-1].work = Ops([(n.op, [i.spec for i in n.inputs], n.spec, n.attrs) for n in computed(code) if n.op])
    return found


def computed(code: Code) -> set[Node]:
    """The nodes whose values a fusion computes: its cores, what it stores, and what both need and is not in memory."""
    sources, todo = set(code.reads), [*code.fusion.stores, *code.fusion.cores]
    found = set(todo)
    while todo:
        for i in todo.pop().inputs:
            if i not in found and i not in sources and not isinstance(i, Leaf):
                found.add(i)
                todo.append(i)
    return found


def _taken(code: Code) -> dict[Node, int]:
    """[bytes] that a fusion takes from each node it reads: through views no more than they show,
    a layer's weights out of the arena, say.
    """
    sources, found = set(code.reads), dict[Node, int]()
    todo = [*code.fusion.stores, *code.fusion.cores]
    seen = set(todo)
    while todo:
        for i in todo.pop().inputs:
            least = i.spec.nbytes
            while isinstance(i, View) and i not in sources:
                i = i.inputs[0]
                least = smaller(least, i.spec.nbytes)
            if i in sources:
                found[i] = smaller(i.spec.nbytes, found.get(i, 0) + least)
            elif i not in seen:
                seen.add(i)
                todo.append(i)
    return {n: found.get(n, n.spec.nbytes) for n in sources}


def _args(fusion: Fusion, source: Source, memory: MemoryMap) -> list[tuple[str, Any]]:
    args: list[tuple[str, Any]] = []
    for n in (*source.params.reads, *source.params.writes):
        node, further = (n.node, n.offset) if isinstance(n, OperandParam) else (n, 0)
        address, itemsize = memory.address(node), np_dtype(n.spec.dtype).itemsize
        args += [("buffer", address), ("value", _start(address, itemsize, further))]
    for name in source.params.scratch:
        address = memory.scratch[fusion, name]
        args += [("scratch", address), ("value", _start(address, 4))]
    args += [("kept", size) for size in source.params.kept.values()]
    for value, dtype in source.params.scalars:
        args.append(("value", as_argument(ct.REGISTER[dtype], value)))
    args += [("value", as_argument("int", size)) for size in source.sizes]
    return args
