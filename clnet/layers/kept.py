"""State that layers keep from call to call: made for the batch of the first call, cleared by `reset_state()`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.state import Variable, blank, changed
from ..core.tensor import Tensor
from ..errors import ShapeError
from .base import Layer


class Keeping(Layer, abstract=True):
    """A layer whose state outlasts a call. The state is no part of a saved model, whose next batch is another; it is of
    a run: recorded steps carry it on, checkpoints hold it.
    """

    def __post_init__(self) -> None:
        # In a dict: `variables()`, which finds what is saved, does not look there; `model.files.states` does.
        self._state: dict[str, Variable] = {}
        self._begins: dict[str, Tensor] = {}  # of a state that no call has changed
        self._start: dict[str, float] = {}
        super().__post_init__()

    def reset_state(self) -> None:
        """The next call begins as the first one did, with a batch of any size; recorded steps begin anew, too."""
        if not self._start:  # of a checkpoint, which no call has met
            self._state = {}
        for name, variable in self._state.items():
            variable.assign(np.full(variable.shape, self._start[name], np.float32))
        self._begins = {n: v.tensor for n, v in self._state.items()}

    def among(self, variables: Sequence[Variable]) -> bool:
        """Whether the state is held by these."""
        return all(any(v is w for w in variables) for v in self._state.values())

    def kept(self, shape: tuple[int, ...], start: dict[str, float]) -> dict[str, Tensor]:
        """The state as it is, by name; at first full of the numbers of `start`. Raises ShapeError."""
        self._start = start
        before = next((v.shape for v in self._state.values()), None)
        if before is not None and before != shape:
            if any(self._begins.get(n) is not v.tensor for n, v in self._state.items()):
                raise ShapeError(f"{type(self).__name__}: expected a batch of {before[0]}, as the state that is kept "
                                 f"has; got {shape[0]}; call reset_state() first.")
            changed()  # what was recorded goes on with the state of another batch
        if before != shape:
            self._state = {n: blank(shape, "float32", n, v) for n, v in start.items()}
            self._begins = {n: v.tensor for n, v in self._state.items()}
        return {n: v.tensor for n, v in self._state.items()}

    def keep(self, new: dict[str, Tensor]) -> None:
        """What the next call starts from."""
        for name, value in new.items():
            self._state[name].assign(value)
