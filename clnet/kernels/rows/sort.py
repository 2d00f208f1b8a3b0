"""Rows put in order, the first few of each, and the way back (sort.cl)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.size import typical
from ...core.spec import NARROW, is_float, np_dtype
from ...engine.compile.c_types import STORAGE
from ..grid import dealt, item_count
from ..operand import Operand
from ..stage import Stage
from ..variant import CPUS_ONLY, Answer, Offer, Refusal, variant

if TYPE_CHECKING:
    from ...engine.device.devices import Device

WORTH = 1 << 10  # [elements] of rows that are worth a work-item of a CPU
SHARE = 1 << 14  # [elements] the same of a row that all cores sort together
MERGED = {4: 256, 8: 512}  # [elements] shorter rows are merged, longer ones go by digits; by the bytes of an element
PARTS = 2  # work-items a core that move a row together
WIDE = 8  # [bits] of a digit by which they do
LIST, STEP = 4, 64  # candidates of `top`: so many times as are wanted; elements that are looked at together
MOST = 4096  # wanted elements, from which on a whole sort is as fast
FREE = frozenset(("ROWS", "N", "CHUNK"))


@dataclass(frozen=True)
class Sort:
    """`kind` of the sorted rows: VALUES, INDEX or BOTH; `k` elements of each are wanted, 0: all; `paired`: elements
    move with their numbers although values alone are wanted.
    """

    kind: str
    rows: int
    n: int
    dtype: str
    descending: bool
    k: int = 0
    paired: bool = False

    @property
    def bytes(self) -> int:
        """Of an element."""
        return np_dtype(self.dtype).itemsize

    @property
    def item(self) -> int:
        """[bytes] of what is moved: the element alone, or with its number."""
        return self.bytes if not self.pairs else 16 if self.bytes == 8 else 8

    @property
    def pairs(self) -> bool:
        return self.paired or self.kind != "VALUES"

    @property
    def macros(self) -> dict[str, Any]:
        form = "FLOAT_" if is_float(self.dtype) else "SIGNED_" if self.dtype.startswith("int") else "UNSIGNED_"
        return dict(KIND=self.kind, ROWS=self.rows, N=self.n, BITS=8 * self.bytes, FORM=form,
                    DESCENDING=int(self.descending), PAIRS=int(self.pairs),
                    FROM_BITS=f"as_{STORAGE[self.dtype]}")

    @property
    def domain(self) -> tuple[int, int]:
        return self.rows, self.k or self.n


@dataclass(frozen=True)
class Places:
    """The adjoint of a sort of `rows` rows of n elements."""

    rows: int
    n: int


def sort_problem(kind: str, operands: Sequence[Operand], *, descending: bool) -> Sort | Refusal:
    (rows, n), dtype = operands[0].shape, operands[0].dtype
    if not rows or not n:
        return Refusal("no elements")
    return Sort(kind, rows, n, "float32" if dtype in NARROW else dtype, descending)


def top_problem(operands: Sequence[Operand], *, k: int, descending: bool) -> Sort | Refusal:
    (rows, n), dtype = operands[0].shape, operands[0].dtype
    if not rows or not k:
        return Refusal("no elements")
    return Sort("INDEX", rows, n, "float32" if dtype in NARROW else dtype, descending, k)


def places_problem(operands: Sequence[Operand]) -> Places | Refusal:
    rows, n = operands[0].shape
    return Places(rows, n) if rows and n else Refusal("no elements")


def together(p: Sort, device: Device) -> bool:
    """Whether all cores sort a row together, because there are fewer rows than cores."""
    return bool(typical(p.rows) < device.compute_units and typical(p.n) >= SHARE)


@variant("sort", cl="sort.cl", serves="CPUs: rows short or many; a work-item takes whole rows")
def by_rows(p: Sort, device: Device) -> Answer:
    if not device.is_cpu:
        return CPUS_ONLY
    if together(p, device):
        return Refusal("fewer rows than cores: all of them move a row together")
    return Offer(lambda: [_rows_stage(p, device)])


def _rows_stage(p: Sort, device: Device) -> Stage:
    chunk, items = dealt(device, p.rows, p.rows * p.n, WORTH)
    merged = typical(p.n) < MERGED.get(p.bytes, 64)
    room = items * p.n * p.item
    return Stage("sort_rows", dict(p.macros, STAGE="MERGE" if merged else "RADIX", CHUNK=chunk), (items,), (1,),
                 domain=p.domain, scratch={"first": room, "second": room}, free=FREE)


@variant("sort", cl="sort.cl", serves="CPUs: fewer long rows than cores, moved by all of them digit by digit")
def by_digits(p: Sort, device: Device) -> Answer:
    if not device.is_cpu:
        return CPUS_ONLY
    if not together(p, device):
        return Refusal("a work-item a row: rows are short, or as many as cores")
    return Offer(lambda: _digit_stages(p, device))


def _digit_stages(p: Sort, device: Device) -> list[Stage]:
    parts = PARTS * device.compute_units
    room = p.rows * p.n * p.item
    scratch = {"first": room, "second": room, "counts": p.rows * parts * (4 << WIDE)}
    shifts = range(0, 8 * p.bytes, WIDE)
    stages: list[Stage] = []
    for k, shift in enumerate(shifts):
        last = k == len(shifts) - 1
        macros = dict(p.macros, PARTS=parts, CHUNK=-(-p.n // parts), WIDE=WIDE, SHIFT=shift,
                      SOURCE=0 if k == 0 else 2 - k % 2, LAST=int(last))
        stages += [Stage("sort_digit", dict(macros, STAGE="COUNT"), (parts, p.rows), (1, 1), scratch=scratch,
                         final=False, free=FREE | {"PARTS"}),
                   Stage("sort_places", dict(macros, STAGE="ADD"), (p.rows,), (1,), scratch=scratch, final=False,
                         free=FREE | {"PARTS"}),
                   Stage("sort_digit", dict(macros, STAGE="MOVE"), (parts, p.rows), (1, 1),
                         domain=p.domain if last else (), scratch=scratch, final=last, free=FREE | {"PARTS"})]
    return stages


@variant("top", cl="sort.cl", serves="CPUs: few elements of long rows, in one walk over them")
def walked(p: Sort, device: Device) -> Answer:
    if not device.is_cpu:
        return CPUS_ONLY
    if p.k > MOST or 4 * LIST * p.k > typical(p.n):
        return Refusal("many elements of those there are: rows are sorted whole")
    return Offer(lambda: _top_stages(p, device))


def _top_stages(p: Sort, device: Device) -> list[Stage]:
    held = max(LIST * p.k, p.k + 4 * STEP)
    macros = dict(p.macros, K=p.k, LIST=held)
    if not together(p, device):
        chunk, items = dealt(device, p.rows, p.rows * p.n, WORTH)
        room = items * held * p.item
        return [Stage("top", dict(macros, STAGE="TOP", PARTS=1, CHUNK=chunk), (items,), (1,), domain=p.domain,
                      scratch={"first": room, "second": room}, free=FREE)]
    parts = PARTS * device.compute_units
    room = p.rows * parts * held * p.item
    scratch = {"first": room, "second": room, "candidates": p.rows * parts * p.k * p.item,
               "counts": 4 * p.rows * parts}
    return [Stage("top", dict(macros, STAGE="TOP", PARTS=parts, CHUNK=-(-p.n // parts)), (parts, p.rows), (1, 1),
                  scratch=scratch, final=False, free=FREE),
            Stage("top_of_parts", dict(macros, STAGE="FINISH", PARTS=parts), (p.rows,), (1,), domain=p.domain,
                  scratch=scratch, free=FREE)]


@variant("placed", cl="sort.cl", serves="all devices")
def placed(p: Places, device: Device) -> Answer:
    return Offer(lambda: [_placed_stage(p, device)])


def _placed_stage(p: Places, device: Device) -> Stage:
    total = p.rows * p.n
    items = total if device.is_gpu else item_count(device, total, total, 4096)
    chunk = -(-total // items)
    return Stage("placed", dict(ROWS=p.rows, N=p.n, STAGE="PLACED", CHUNK=chunk), (-(-total // chunk),),
                 None if device.is_gpu else (1,), domain=(p.rows, p.n), free=FREE)
