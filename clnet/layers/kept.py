"""State that layers keep from call to call: made for the batch of the first call, cleared by `reset_state()`."""

from __future__ import annotations

import numpy as np

from ..core.state import Variable
from ..core.tensor import Tensor
from ..errors import ShapeError
from .base import Layer


class Keeping(Layer, abstract=True):
    """A layer whose state outlasts a call. The state is no part of a saved model; recorded steps carry it on."""

    def __post_init__(self) -> None:
        # In a dict: `variables()`, which finds what is saved, does not look there.
        self._state: dict[str, Variable] | None = None
        super().__post_init__()

    def reset_state(self) -> None:
        """The next call begins as the first one did, with a batch of any size."""
        self._state = None

    def kept(self, shape: tuple[int, ...], start: dict[str, float]) -> dict[str, Tensor]:
        """The state as it is, by name; at first full of the numbers of `start`. Raises ShapeError."""
        if self._state is None:
            self._state = {n: Variable(np.full(shape, v, np.float32), n) for n, v in start.items()}
        before = next(iter(self._state.values())).shape
        if before != shape:
            raise ShapeError(f"{type(self).__name__}: expected a batch of {before[0]}, as the state that is kept has; "
                             f"got {shape[0]}; call reset_state() first.")
        return {n: v.tensor for n, v in self._state.items()}

    def keep(self, new: dict[str, Tensor]) -> None:
        """What the next call starts from."""
        assert self._state is not None
        for name, value in new.items():
            self._state[name].assign(value)
