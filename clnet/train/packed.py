"""Samples of several lengths that are packed batch by batch: their steps one after another, nothing filled up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..core.spec import Spec, dtype_name
from ..errors import ConfigError
from .samples import Batch, Index, Trial
from .sequences import Array, Sequences

BESIDE = ("steps", "offsets", None)


class PackedSequences(Sequences):
    """As Sequences: x[k] (Tₖ, …), one array a sequence, and targets y (N, …), one a sequence, or y[k] (Tₖ, …), one a
    step. In a batch all steps lie one after another, x (Σ Tₖ, …), then `beside`, then targets, (Σ Tₖ, …) if one a step.

    beside       what the model is given behind x: "steps", int32 (N, T), the row of x that is step t of sequence n,
                 −1 where it has ended, for recurrent and attention layers; "offsets", int32 (N + 1), where each
                 sequence begins and the last one ends, for attention layers; None: nothing
    multiple_of  the T of steps is padded to multiples of it, None: of a quarter of the longest; no value is
    Nothing is filled up, so every target counts, but those of the loss's own ignore_index; a batch of `tokens` has as
    many steps at most. Raises DataError as Sequences does.
    """

    packed = True

    def __init__(self, x: Any, y: Any = None, *, beside: Literal["steps", "offsets"] | None = "steps",
                 multiple_of: int | None = None, title: str = "data") -> None:
        if beside not in BESIDE:
            raise ConfigError(f"PackedSequences(beside={beside!r}): expected 'steps', 'offsets' or None.")
        super().__init__(x, y, beside=None, multiple_of=multiple_of, title=title)
        self.beside, self.ignore = beside, None

    @property
    def total(self) -> int:
        return len(self.y_values)

    def lengths_of(self, order: Array) -> Array:
        return self.lengths[order]

    # --- batches
    def rows(self, index: Index) -> Batch:
        numbers = np.atleast_1d(np.arange(len(self))[index])
        steps, lengths = self._steps(numbers), self.lengths[numbers]
        x, offsets = [a[steps] for a in self.values], np.concatenate([[0], np.cumsum(lengths)])
        if self.beside == "steps":
            t = np.arange(int(self.padded(lengths.max(initial=0))))
            x.append(np.where(t < lengths[:, None], offsets[:-1, None] + t, -1).astype(np.int32))
        elif self.beside == "offsets":
            x.append(offsets.astype(np.int32))
        return tuple(x), self.y_values[steps if self.stepwise else numbers]

    def shape_of(self, part: Array) -> tuple[int, ...]:
        """(sequences, T, steps in all)"""
        lengths = self.lengths[part]
        return len(part), int(self.padded(lengths.max(initial=0))), int(lengths.sum())

    def filled_up(self, shape: tuple[int, ...], room: Callable[[int], int]) -> tuple[int, ...]:
        return shape

    def parted(self, output: Array, part: Array, axis: int | None) -> Any:
        return output if axis is None else np.split(output, np.cumsum(self.lengths[part])[:-1])

    # --- what is looked at before anything runs
    def trials(self) -> list[Trial]:
        """With all of them in one batch."""
        return [(self.specs(*self.shape_of(np.arange(len(self)))), self.y_values)]

    def specs(self, count: int, steps: int, rows: int = 0) -> list[Spec]:
        """Of the inputs of a batch of so many sequences, the longest of so many steps, of so many steps in all."""
        x = [Spec((rows, *a.shape[1:]), dtype_name(a.dtype)) for a in self.values]
        beside = {"steps": Spec((count, steps), "int32"), "offsets": Spec((count + 1,), "int32")}
        return [*x, beside[self.beside]] if self.beside else x

    def batch_specs(self, count: int, steps: int, rows: int = 0) -> list[Spec]:
        y = self.y_values
        return [*self.specs(count, steps, rows), Spec((rows if self.stepwise else count, *y.shape[1:]),
                                                      dtype_name(y.dtype))]
