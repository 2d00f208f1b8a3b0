"""What steps leave of their loss and metrics: on the device until somebody reads it, and on the host from then on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops as F
from ..core.state import blank
from ..core.tensor import Tensor, as_tensor
from ..metrics.base import Kept, Kind, PerStep, Seen, Statistic, average
from .metrics import Bound

Array = np.ndarray[Any, Any]
ROWS = 64  # steps whose loss and metrics wait on the device
VALUES = 1 << 20  # kept values that wait there at most, where a step leaves fewer


class Meter:
    """A table on the device: a row of numbers per step, read to the host together; `filled` of its `rows` are in use.

    sums   shapes of arrays that are summed over the steps of the table
    kept   of each array that is kept step by step, how many rows and columns a step has at most
    The first row begins all sums anew, so that whoever clears the table has nothing else to clear.
    """

    def __init__(self, columns: int, rows: int = ROWS, sums: Sequence[tuple[int, ...]] = (),
                 kept: Sequence[tuple[int, int]] = ()) -> None:
        most = max((n * width for n, width in kept), default=0)
        self.rows, self.filled = max(1, min(rows, VALUES // most)) if most else rows, 0
        self.table = blank((self.rows, columns), "float32", "meter")
        self.sums = [blank(shape, "int32", "counts") for shape in sums]
        self.kept = [blank((self.rows, *shape), "float32", "scores") for shape in kept]

    def write(self, values: Sequence[Tensor | float], row: Tensor, arrays: Sequence[Tensor] = ()) -> None:
        """Records: table[row] ← values (scalars); row is a float32 scalar of the step's arguments. Of the arrays the
        first go into the sums, the others are kept.
        """
        here = F.equal(F.arange(n=self.rows, dtype="float32").reshape(-1, 1), row)
        column, table = F.arange(n=len(values), dtype="int32"), self.table.tensor
        for k, value in enumerate(values):  # element by element of the table, so that all of it is one launch
            cell = F.bit_and(here, F.equal(column, k))
            table = F.where(cell, as_tensor(value).astype("float32").reshape(()), table)
        self.table.assign(table)
        for total, found in zip(self.sums, arrays[: len(self.sums)], strict=True):
            total.assign(F.where(row < 0.5, 0, total.tensor) + found.astype("int32"))
        for table_of, found in zip(self.kept, arrays[len(self.sums) :], strict=True):
            room = int(table_of.shape[1])
            whole = _filled(found.astype("float32"), room)
            table_of.assign(F.where(here.reshape(-1, 1, 1), whole, table_of.tensor))

    def read(self) -> Array:
        """The filled rows as float64. Waits for the steps that fill them."""
        if not self.filled:
            return np.zeros((0, self.table.shape[1]))
        return np.asarray(self.table.numpy(), np.float64)[: self.filled]

    def arrays(self) -> list[Array]:
        """The sums (int64), and the kept rows (n, width) of the filled steps, those with NaN left out."""
        if not self.filled:
            return [*(np.zeros(v.shape, np.int64) for v in self.sums),
                    *(np.zeros((0, v.shape[2]), np.float32) for v in self.kept)]
        kept = [np.asarray(v.numpy())[: self.filled].reshape(-1, int(v.shape[2])) for v in self.kept]
        return [*(np.asarray(v.numpy(), np.int64) for v in self.sums), *(a[~np.isnan(a[:, -1])] for a in kept)]

    @property
    def full(self) -> bool:
        return self.filled == self.rows

    def advance(self) -> None:
        """A step that writes the next row is on its way."""
        self.filled += 1

    def clear(self) -> None:
        """All rows may be written again."""
        self.filled = 0


def _filled(values: Tensor, room: int) -> Tensor:
    """Values (n, width) as (room, width), NaN behind them; n may vary from batch to batch."""
    n = values.shape[0]
    if n == room:
        return values
    place = F.arange(n=room, dtype="int32")
    count = F.sum(F.ones((n,), "int32"))
    rows = F.index_select(values, 0, F.minimum(place, count - 1))
    return F.where((place < count).reshape(-1, 1), rows, math.nan)


class Gathered:
    """Which statistics the metrics of a Trainer read, each once: what a step leaves, and what came of it on the host.

    room   samples of the largest batch, where statistics keep values of each
    """

    def __init__(self, metrics: dict[str, Bound], room: int = 0) -> None:
        self.metrics, self.room = metrics, room
        widths = {m.statistic: m.width for m in metrics.values()}
        self.shared = {s: widths[s] for s in widths if isinstance(s, PerStep)}
        self.sums: list[Statistic] = [s for s in widths if not isinstance(s, (PerStep, Kept))]
        self.kept: list[Statistic] = [s for s in widths if isinstance(s, Kept)]
        self.arrays = [*self.sums, *self.kept]
        self.shapes = {m.statistic: m.shape for m in metrics.values()}
        # a metric of one statistic has columns named after the first metric that reads it
        owners = {s: next(n for n, m in metrics.items() if m.statistic == s) for s in self.shared}
        self.columns = [f"{owners[s]}.{k}" for s, width in self.shared.items() for k in range(width)]

    @property
    def keeps(self) -> bool:
        """Whether values of each sample are kept."""
        return bool(self.kept)

    @property
    def kind(self) -> Kind | None:
        return next((m.kind for m in self.metrics.values()), None)

    def meter(self, columns: int) -> Meter:
        """One with room for all of it."""
        kept = [(self.room * self.shapes[s][0], self.shapes[s][1]) for s in self.kept]
        return Meter(columns, ROWS, [self.shapes[s] for s in self.sums], kept)

    def of(self, output: Any, y: Tensor, loss: Any, counts: Tensor | None) -> tuple[list[Any], list[Tensor]]:
        """(scalars, arrays) of a batch, as a Meter takes them."""
        kind = self.kind
        if kind is None:
            return [], []
        seen = Seen(output, y, loss, kind, counts)
        scalars = [v for s in self.shared for v in s.of(seen)]
        return scalars, [s.of(seen)[0] for s in self.arrays]


class Books:
    """Of an epoch or an evaluation so far, on the host: a row (samples, loss, scalars, …) a step; the sums and all kept
    values of the steps behind.
    """

    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered
        self.rows: list[tuple[float, ...]] = []
        self.held: list[list[Array]] = [[] for _ in gathered.arrays]

    @property
    def samples(self) -> float:
        return sum(row[0] for row in self.rows)

    def keep(self, meter: Meter, found: Array, weights: Sequence[float]) -> None:
        """What a meter has, and is cleared of: rows `found` with the samples of each."""
        for list_of, a in zip(self.held, meter.arrays(), strict=True):
            list_of.append(a)
        self.rows += [(float(w), *map(float, row)) for w, row in zip(weights, found, strict=True)]
        meter.clear()

    def arrays(self) -> list[Array]:
        """Of each statistic that is no scalar: its sum over all steps, or all that was kept."""
        sums, found = len(self.gathered.sums), []
        for k, (s, parts) in enumerate(zip(self.gathered.arrays, self.held, strict=True)):
            if k < sums:
                total = np.sum(parts, axis=0) if parts else np.zeros(self.gathered.shapes[s], np.int64)
            else:
                total = np.concatenate(parts) if parts else np.zeros((0, self.gathered.shapes[s][1]), np.float32)
            self.held[k] = [total]
            found.append(total)
        return found

    def load(self, rows: Sequence[Sequence[float]], arrays: Sequence[Array]) -> None:
        """The inverse of `rows` and `arrays`."""
        self.rows, self.held = [tuple(map(float, row)) for row in rows], [[a] for a in arrays]

    def since(self, begin: int) -> dict[str, float]:
        """Loss and metrics of the rows from `begin` on; of what is counted over the epoch, its number so far."""
        rows, found = self.rows[begin:], self.numbers(whole=False)[0]
        if len(rows):
            window = Books(self.gathered)
            window.rows = rows
            steps = window.numbers(whole=False)[0]
            counted = {c for m in self.gathered.metrics.values() if not isinstance(m.statistic, PerStep)
                       for c in m.columns}
            found |= {c: v for c, v in steps.items() if c not in counted}
        return found

    def numbers(self, whole: bool = True) -> tuple[dict[str, float], dict[str, Any]]:
        """(loss and metrics by column, metrics that are no number by name). `whole` is False in between, when nobody
        sorts all that was kept: what needs that is left out.
        """
        table = np.asarray(self.rows, np.float64).reshape(len(self.rows), -1)
        shown = {n: m for n, m in self.gathered.metrics.items() if whole or not isinstance(m.statistic, Kept)}
        names = {"loss": math.nan, **dict.fromkeys((c for m in shown.values() for c in m.columns), math.nan)}
        if not len(table):
            return names, {}
        found: dict[Statistic, Any] = {}
        samples, at = table[:, 0], 2
        for s, width in self.gathered.shared.items():
            found[s] = (samples, table[:, at : at + width])
            at += width
        found |= dict(zip(self.gathered.arrays, self.arrays(), strict=True))
        names["loss"], others = average(samples, table[:, 1:2]), dict[str, Any]()
        for name, m in shown.items():
            value = m.metric.result(found[m.statistic], m.kind)
            if m.columns:
                names |= dict(zip(m.columns, np.atleast_1d(value).tolist(), strict=True))
            else:
                others[name] = value
        return names, others
