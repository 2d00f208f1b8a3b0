"""Sequences that are learned by cells which predict each other: the temporal memory of hierarchical temporal memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import ops as F
from ..config.fields import field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.draws import uniform
from .base import Layer, New


class _Synapses(NamedTuple):
    """presynaptic cells (columns, cells_per_column, max_segments, max_synapses), −1 where there is none; permanences"""

    cell: Tensor
    permanence: Tensor


class _Activity(NamedTuple):
    """active and winner cells (columns, cells_per_column) bool; of each segment how many synapses are from active
    cells, and how many of these are connected; the share of active columns that nothing had predicted.
    """

    active: Tensor
    winners: Tensor
    potential: Tensor
    connected: Tensor
    anomaly: Tensor


class TemporalMemory(Layer):
    """y = the active cells: of an active column those that were predicted, or, where none was, all

    x (column_count,), or (T, column_count), steps one after another; a number above ½ is an active column. y (…,
    column_count · cells_per_column), 0 or 1, cell c of column k at k · cells_per_column + c.
    A segment is active if activation_threshold of its synapses are from active cells and connected (permanence ≥
    connected_permanence); `predictive` are the cells that have one, for the next step. Winners: the predicted cells; of
    a column where none was, the cell of the segment with most synapses from the cells active before, if these are
    min_threshold, else the cell with fewest segments (ties: the lower one), which gets a segment: the first without
    synapses, or that with the least sum of permanences.
    In training calls, segments that predicted an active cell, and those of such winners, learn: synapses from cells
    active before += permanence_increment, others −= permanence_decrement, in [0, 1], gone at 0; then synapses of
    initial_permanence to winners of the step before, as far as there is room, up to max_new_synapses from active
    cells: by a drawn order of the winners, from a place that is another for each segment. Segments with min_threshold
    synapses from active cells in columns that stayed silent: predicted_decrement off those.
    Buffers, part of a saved model: `presynaptic`, `permanence`, and what the next step goes on from, in evaluation too:
    `active`, `winners`, `predictive`; `anomaly` is the share of the last step's active columns that were not predicted,
    1 before any step.
    `reset_state()` forgets activity, not synapses. The gradient is 0. A training step looks at all segments for each of
    max_new_synapses + max_synapses winners; steps of a call are recorded one after another: keep them few.
    Paper: Hawkins & Ahmad 2016, doi:10.3389/fncir.2016.00023.
    """

    spec_name = "TemporalMemoryLayer"
    has_gradient = False
    own_rule = "of segments and permanences, in training calls"
    column_count: int = positive(doc="how many columns there are, the size of the input's last axis")
    cells_per_column: int = positive(32, doc="cells of a column, each of which can stand for another context")
    activation_threshold: int = positive(13, doc="connected synapses from active cells that make a segment active")
    min_threshold: int = positive(10, doc="synapses from active cells by which a segment is taken to mean them")
    initial_permanence: float = field(0.21, doc="of a new synapse", gt=0, le=1)
    connected_permanence: float = field(0.5, doc="permanence from which a synapse is connected", ge=0, le=1)
    permanence_increment: float = field(0.1, doc="for synapses from cells active before", ge=0, le=1)
    permanence_decrement: float = field(0.1, doc="for other synapses of a segment that learns", ge=0, le=1)
    predicted_decrement: float = field(0.0, doc="for synapses that predicted what did not come", ge=0, le=1)
    max_new_synapses: int = positive(20, doc="synapses from active cells up to which a segment grows")
    max_segments: int = positive(64, doc="segments of a cell")
    max_synapses: int = positive(32, doc="synapses of a segment")
    signature = "... column_count -> ... cells"
    # Three patterns three times over, of two columns each: bursts at first, then single cells.
    examples = [(dict(column_count=6, cells_per_column=2, activation_threshold=2, min_threshold=1, max_segments=2,
                      initial_permanence=0.45, permanence_increment=0.15, max_synapses=5, max_new_synapses=4),
                 [np.tile(np.eye(3, dtype=np.float32).repeat(2, 1), (3, 1))]),
                (dict(column_count=4, cells_per_column=3, activation_threshold=1, min_threshold=1, max_segments=1,
                      initial_permanence=0.6, predicted_decrement=0.35, max_synapses=2, max_new_synapses=4),
                 [np.eye(4, dtype=np.float32)[[0, 1, 0, 2, 0, 1, 3]]])]

    @property
    def cells(self) -> int:
        """How many cells there are, the size of the output's last axis."""
        return self.column_count * self.cells_per_column

    def setup(self, new: New) -> None:
        shape = new._sized((self.column_count, self.cells_per_column, self.max_segments, self.max_synapses))
        self.presynaptic = new.buffer(np.full(shape, -1, np.int32))
        self.permanence = new.buffer(np.zeros(shape, np.float32))
        self.active, self.winners, self.predictive = (new.buffer(np.zeros(shape[:2], bool)) for _ in range(3))
        self.anomaly = new.buffer(np.ones((), np.float32))

    def reset_state(self) -> None:
        """No cell is active or predicted: the next step begins a sequence."""
        for variable in (self.active, self.winners, self.predictive):
            variable.assign(F.zeros(variable.shape, "bool"))

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (1, 2) or (x.ndim == 2 and not x.shape[0]):
            raise ShapeError(f"TemporalMemory: expected x (column_count,), one step, or (T, column_count) of at least "
                             f"one; got {x.shape}.")
        steps = F.reshape(F.detach(x) > 0.5, (-1, self.column_count, 1))
        synapses = _Synapses(self.presynaptic.tensor, self.permanence.tensor)
        now = self._noted(synapses, self.active.tensor, self.winners.tensor, self.anomaly.tensor)
        found = []
        for t in range(steps.shape[0]):
            before, chosen = now, self._chosen(steps[t], now, synapses)
            if self.training:
                synapses = self._learn(steps[t], chosen, before, synapses)
            now = self._noted(synapses, chosen.active, chosen.winners, chosen.anomaly)
            found.append(F.reshape(now.active, (self.cells,)))
        kept = ((self.presynaptic, synapses.cell), (self.permanence, synapses.permanence), (self.active, now.active),
                (self.winners, now.winners), (self.anomaly, now.anomaly),
                (self.predictive, F.any(now.connected >= self.activation_threshold, -1)))
        for variable, value in kept:
            variable.assign(value)
        y = F.cast(F.stack(found), x.dtype)
        return y if x.ndim == 2 else y[0]

    # --- a step
    def _from(self, synapses: _Synapses, cells: Tensor) -> Tensor:
        """Which synapses are from these cells, bool."""
        known = F.gather(F.reshape(F.cast(cells, "int32"), (-1,)), F.maximum(synapses.cell, 0))
        return F.bit_and(synapses.cell >= 0, known > 0)

    def _noted(self, synapses: _Synapses, active: Tensor, winners: Tensor, anomaly: Tensor) -> _Activity:
        """What segments make of active cells."""
        near = self._from(synapses, active)
        strong = F.bit_and(near, synapses.permanence >= self.connected_permanence)
        return _Activity(active, winners, _count(near), _count(strong), anomaly)

    def _chosen(self, columns: Tensor, before: _Activity, synapses: _Synapses) -> _Chosen:
        """Cells that become active, winners, and segments that are to learn."""
        matching = before.connected >= self.activation_threshold
        predicted = F.any(matching, -1)
        silent = F.logical_not(F.any(predicted, -1, keepdims=True))
        burst, hit = F.bit_and(columns, silent), F.bit_and(columns, predicted)
        best = F.reshape(before.potential, (self.column_count, -1))
        meant = F.max(best, -1) >= self.min_threshold
        known = F.reshape(_only(F.argmax(best, -1), best.shape[1]), matching.shape)
        anew = F.reshape(F.logical_not(meant), (-1, 1, 1))
        segment = F.bit_and(F.where(anew, self._spare(synapses), known), F.reshape(burst, (-1, 1, 1)))
        share = _count(F.reshape(burst, (-1,))) / F.maximum(_count(F.reshape(columns, (-1,))), 1)
        return _Chosen(F.bit_or(hit, burst), F.bit_or(hit, F.any(segment, -1)), F.cast(share, "float32"),
                       F.bit_or(segment, F.bit_and(matching, F.unsqueeze(hit, -1))), F.bit_and(segment, anew))

    def _spare(self, synapses: _Synapses) -> Tensor:
        """Of each column, the segment that a cell gets where none is meant, as a mask."""
        used = F.any(synapses.cell >= 0, -1)
        cell = _only(F.argmin(_count(used), -1), self.cells_per_column)
        room = F.where(used, -F.sum(synapses.permanence, -1), 1.0)
        return F.bit_and(_only(F.argmax(room, -1), self.max_segments), F.unsqueeze(cell, -1))

    def _learn(self, columns: Tensor, chosen: _Chosen, before: _Activity, synapses: _Synapses) -> _Synapses:
        cell, permanence = synapses
        near, learns = self._from(synapses, before.active), F.unsqueeze(chosen.learns, -1)
        wrong = F.bit_and(before.potential >= self.min_threshold, F.logical_not(F.unsqueeze(columns, -1)))
        change = F.where(learns, F.where(near, self.permanence_increment, -self.permanence_decrement),
                         F.where(F.bit_and(F.unsqueeze(wrong, -1), near), -self.predicted_decrement, 0.0))
        permanence = F.clip(permanence + change, 0.0, 1.0)
        emptied = F.unsqueeze(F.bit_and(chosen.anew, F.any(before.winners)), -1)
        gone = F.bit_or(F.bit_and(change < 0, permanence <= 0), emptied)
        cell = F.where(gone, -1, cell)
        had = F.where(chosen.anew, 0, before.potential)
        grown = self._grown(cell, F.where(chosen.learns, F.maximum(self.max_new_synapses - had, 0), 0), before.winners)
        fresh = grown >= 0
        kept = F.where(cell >= 0, permanence, 0.0)
        return _Synapses(F.where(fresh, grown, cell), F.where(fresh, self.initial_permanence, kept))

    def _grown(self, cell: Tensor, wanted: Tensor, winners: Tensor) -> Tensor:
        """The winner that each place without a synapse gets, −1 for none; a segment gets as many as it wants."""
        shape = cell.shape
        cell, wanted = F.reshape(cell, (-1, self.max_synapses)), F.reshape(wanted, (-1, 1))
        winners = F.reshape(winners, (-1,))
        count, many = _count(winners), min(self.cells, self.max_new_synapses + self.max_synapses)
        drawn = uniform((self.cells,), self.random.key, self.random.advance())
        order = F.cast(F.argsort(F.where(winners, drawn, 2.0)), "int32")
        ahead = F.arange(n=many, dtype="int32")
        start = F.reshape(F.arange(n=cell.shape[0], dtype="int32"), (-1, 1))
        offered = F.gather(order, (start + ahead) % F.maximum(count, 1))  # (segments, many)
        known = F.any(F.equal(F.unsqueeze(offered, -1), F.unsqueeze(cell, 1)), -1)
        new = F.bit_and(ahead < count, F.logical_not(known))
        rank = F.cumsum(F.cast(new, "int32"), -1)
        rank = F.where(F.bit_and(new, rank <= wanted), rank, -1)
        empty = cell < 0
        place = F.where(empty, F.cumsum(F.cast(empty, "int32"), -1), 0)
        taken = F.equal(F.unsqueeze(place, -1), F.unsqueeze(rank, 1))  # (segments, max_synapses, many)
        return F.reshape(F.sum(F.where(taken, F.unsqueeze(offered, 1) + 1, 0), -1) - 1, shape)


class _Chosen(NamedTuple):
    """active and winner cells, the anomaly, segments (…, max_segments) bool that learn, and of these the new ones"""

    active: Tensor
    winners: Tensor
    anomaly: Tensor
    learns: Tensor
    anew: Tensor


def _count(mask: Tensor) -> Tensor:
    """How many are true along the last axis, int32."""
    return F.sum(F.cast(mask, "int32"), -1)


def _only(index: Tensor, size: int) -> Tensor:
    """(…, size) bool, true at the index alone."""
    return F.equal(F.unsqueeze(F.cast(index, "int32"), -1), F.arange(n=size, dtype="int32"))
