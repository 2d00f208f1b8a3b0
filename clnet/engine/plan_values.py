"""Plans as text of plain values, and back; of one for many shapes with its sizes, and what was decided by them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..core.op import OPS
from ..core.operators import Count
from ..core.size import COMPUTED, MARKED, Size, number
from ..core.spec import Spec, np_dtype
from ..core.varying import Varying
from ..kernels.variant import Answer, Choice, Refusal, Variant
from .compile.layout import Address, Piece, Slot
from .compile.plan import Later, Launch, Ops, Plan, Within
from .compile.sized import SizedPlan

PLAIN = frozenset({int, Count, float, bool, str, type(None)})
SIZE, SPEC, SCALAR, DTYPE = "size", "spec", "scalar", "dtype"  # what is written as {that: ...}


class Unkept(Exception):
    """A plan, or what it is made of, that only this process understands."""


def unkept() -> NoReturn:
    raise Unkept


def written(plan: Plan | SizedPlan, others: Sequence[int]) -> str:
    """The plan, and the leaves that it takes beside the first. Raises Unkept."""
    w = _Writer()
    if isinstance(plan, SizedPlan):
        found = w.plan(plan.unlaid), [w.slot(s) for s in plan.slots], w.varying(plan.varying)
    else:
        found = w.plan(plan), [], None
    text = json.dumps((w.table, list(w.texts), *found, others), ensure_ascii=False)
    return MARKED.sub("n", text)  # in what is said to people


def read(text: str, axes: tuple[int, ...]) -> tuple[Plan | SizedPlan, list[int]] | None:
    """What was written, if it serves these sizes. Raises ValueError, TypeError, LookupError or ArithmeticError for what
    was not.
    """
    sizes, texts, plan, slots, varying, others = json.loads(text)
    if varying is None:
        return _Reader([], texts).plan(plan), others
    found = _varying(varying, axes)
    r = _Reader([_size(terms, found) for terms in sizes], texts)
    found.conditions = {(kind, r.sizes[k].number): held for kind, k, held in varying[1]}
    if not found.serves(axes):
        return None
    made = SizedPlan(r.plan(plan), [r.slot(*row) for row in slots], found)
    return (made, others) if made.serves(axes) else None


class _Writer:
    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.sizes: dict[int, int] = {}  # numbers of those that were met, and their places in the table
        self.table: list[Any] = []
        self.met = 0  # how often one was

    def size(self, s: Size) -> int:
        """Its place in the table."""
        self.met += 1
        if s.number not in self.sizes:
            self.sizes[s.number] = len(self.table)
            self.table.append(_terms(s))
        return self.sizes[s.number]

    def plain(self, value: Any) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is tuple:
            return [self.plain(v) for v in value]
        if kind is Size:
            return {SIZE: self.size(value)}
        if kind is Spec:
            return {SPEC: [self.plain(value.shape), value.dtype]}
        if isinstance(value, np.generic):
            return {SCALAR: [value.dtype.name, value.item()]}
        return {DTYPE: value.name} if isinstance(value, np.dtype) else unkept()

    def plan(self, plan: Plan) -> Any:
        choices = [(label, c.family, c.taken and c.taken[:-1], [(v[:-1], why) for v, why in c.others])
                   for label, c in plan.choices]
        return ([self._launch(launch) for launch in plan.launches], plan.arena, [self._place(a) for a in plan.outputs],
                [self.plain(s) for s in plan.specs], [(k, self.plain(n)) for k, n in plan.blocks.items()],
                [self.plain(c) for c in plan.copies], choices)

    def _launch(self, v: Launch) -> Any:
        if v.host is not None:
            unkept()  # its op computes on the host
        return (v.name, self.texts.setdefault(v.text, len(self.texts)), [self._argument(*a) for a in v.args],
                self.plain(v.grid), v.group, v.ops, [self._place(a) for a in v.reads],
                [self._place(a) for a in v.writes], self.plain(v.nbytes), v.note, self._work(v))

    def _argument(self, kind: str, value: Any) -> Any:
        if isinstance(value, Address):
            return (kind, *self._place(value))
        if isinstance(value, (Later, Within)):
            return (type(value).__name__, value.of(0).dtype.char, *map(self.plain, value[1:]))
        return (kind, value) if kind == "kept" else (kind, value.dtype.char, value.item())

    def _place(self, a: Address) -> Any:
        return a.kind, a.number, self.plain(a.offset)

    def _work(self, v: Launch) -> Any:
        """How much it is, or where the shape has a say in that what it is."""
        if not isinstance(v.work, Ops):
            unkept()
        met = self.met
        rows = [(op.name, [self.plain(s) for s in inputs], self.plain(result),
                 {k: self.plain(a) for k, a in attrs.items()}) for op, inputs, result, attrs in v.work.rows]
        return rows if self.met > met else v.flops

    def slot(self, s: Slot) -> Any:
        return self.plain(s.nbytes), s.first, s.last, s.pieces

    def varying(self, v: Varying) -> Any:
        """The atoms behind the axes, each with its bound from below, and what was noted."""
        first = len(v.axes)
        atoms = [(kind, _operand(a), _operand(b), low)
                 for (kind, a, b), low in zip(v.atoms[first:], v.lows[first:], strict=True)]
        return atoms, [(kind, self.size(v.sizes[n]), held) for (kind, n), held in v.conditions.items()]


def _terms(s: Size) -> list[Any]:
    return [(c, monomial) for monomial, c in s.terms.items()]


def _operand(value: Any) -> Any:
    return _terms(value) if isinstance(value, Size) else value


def _size(terms: Any, varying: Varying) -> Any:
    return varying.sized({tuple(monomial): c for c, monomial in terms})


def _varying(kept: Any, axes: tuple[int, ...]) -> Varying:
    """The axes at hand, with the atoms that were made of them."""
    found = Varying(axes)
    for kind, *operands, low in kept[0]:
        a, b = (_size(v, found) if isinstance(v, list) else v for v in operands)
        found.made(kind, a, b, COMPUTED[kind](number(a), number(b)), low)
    return found


class _Reader:
    def __init__(self, sizes: Sequence[Any], texts: Sequence[str]) -> None:
        self.sizes, self.texts = sizes, texts

    def value(self, kept: Any) -> Any:
        if type(kept) is list:
            return tuple([self.value(v) for v in kept])
        if type(kept) is not dict:
            return kept
        ((kind, v),) = kept.items()
        if kind == SIZE:
            return self.sizes[v]
        if kind == SPEC:
            return Spec(self.value(v[0]), v[1])
        return np_dtype(v) if kind == DTYPE else np_dtype(v[0]).type(v[1])

    def plan(self, kept: Any) -> Plan:
        rows, arena, outputs, specs, blocks, copies, choices = kept
        return Plan([self._launch(*row) for row in rows], arena, [self._place(*a) for a in outputs],
                    [self.value(s) for s in specs], {k: self.value(n) for k, n in blocks},
                    [self.value(c) for c in copies], [(label, _choice(*c)) for label, *c in choices])

    def _launch(self, name: str, text: int, args: Any, grid: Any, group: Any, ops: Any, reads: Any, writes: Any,
                nbytes: Any, note: str, work: Any) -> Launch:
        known = functools.partial(self._ops if isinstance(work, list) else _known, work)
        from_, to = (tuple([self._place(*a) for a in places]) for places in (reads, writes))
        return Launch(name, self.texts[text], [self._argument(*a) for a in args], self.value(grid),
                      None if group is None else tuple(group), tuple(ops), None, from_, to, self.value(nbytes), note,
                      known)

    def _argument(self, kind: str, *value: Any) -> tuple[str, Any]:
        if kind == Later.__name__:
            return "value", Later(_scalar(value[0]), *map(self.value, value[1:]))
        if kind == Within.__name__:
            return "value", Within(_scalar(value[0]), *map(self.value, value[1:]))
        if kind == "value":
            return kind, _scalar(value[0])(value[1])
        return kind, value[0] if kind == "kept" else self._place(*value)

    def _place(self, kind: str, which: int, offset: Any) -> Address:
        return Address(kind, which, self.value(offset))

    def _ops(self, rows: Any, numbers: Callable[[Any], Any]) -> float:
        """The additions and products; few ask for them."""
        return Ops([(OPS[name], self.value(inputs), self.value(result), self._attributes(attrs))
                    for name, inputs, result, attrs in rows])(numbers)

    def _attributes(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.value(v) for name, v in kept.items()}

    def slot(self, nbytes: Any, first: int, last: int, pieces: Any) -> Slot:
        return Slot(self.value(nbytes), first, last, tuple(Piece(*p) for p in pieces))


@functools.cache
def _scalar(char: str) -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = np.dtype(char).type
    return found


def _known(flops: float, numbers: Any) -> float:
    return flops


def _choice(family: str, taken: Any, others: Sequence[tuple[Any, str]]) -> Choice:
    return Choice(family, _variant(taken) if taken else None, None, tuple((_variant(v), why) for v, why in others))


def _variant(row: Sequence[Any]) -> Variant:
    family, name, cl, serves, rank = row
    return Variant(family, name, cl, serves, rank, _asked)


def _asked(problem: Any, device: Any) -> Answer:
    return Refusal("it was asked in another process")
