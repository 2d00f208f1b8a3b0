"""Layers that are trained one after the other, from the last to the first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.state import Parameter
from ...errors import ConfigError
from ..taken import extend
from .base import Callback

if TYPE_CHECKING:
    from ..trainer import Trainer

Names = tuple[str, ...]


class GradualUnfreezing(Callback):
    """Group k of the parameters is trained from epoch 1 + k · epochs on: at first the last layer alone, then with each
    further group the one before it too.

    groups   names of layers or parameters as `model.freeze` takes them, a tuple where several go together, in the order
             in which they begin; None: the layers of the model from the last to the first, those with vectors alone, as
             a normalisation, with the layer before them
    epochs   from each group to the next: a number, or a list with one for each group but the last
    At its turn a group is unfrozen, the optimizer takes its parameters besides what it has, whose state and steps go
    on, and the training step is recorded anew. Parameters of no group stay as they are. Every `fit` begins with the
    first group alone. Raises ConfigError for what is no group and for optimizers that search along all parameters.
    Paper: Howard & Ruder 2018, arXiv:1801.06146.
    """

    def __init__(self, groups: Sequence[str | Sequence[str]] | None = None, epochs: int | Sequence[int] = 1) -> None:
        self.groups = None if groups is None else _checked(groups)
        each = [epochs] if isinstance(epochs, int) else list(epochs)
        if not each or any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in each):
            raise ConfigError(f"GradualUnfreezing(epochs={epochs!r}): expected a whole number of at least 1, or a list "
                              "of them.")
        self.epochs: int | list[int] = epochs if isinstance(epochs, int) else each
        self.order: list[Names] = []  # of the groups of this run
        self.begun: list[int] = []  # behind which step each of them began

    def on_prepare(self, trainer: Trainer) -> None:
        model: Any = trainer.model
        if not hasattr(model, "freeze"):
            raise ConfigError(f"GradualUnfreezing: expected a model that freezes by name, as Sequential or Graph; "
                              f"got {type(model).__name__}; wrap it: Sequential([layer]).")
        self.order = _groups(model) if self.groups is None else self.groups
        if isinstance(self.epochs, list) and len(self.epochs) != len(self.order) - 1:
            raise ConfigError(f"GradualUnfreezing(epochs={self.epochs!r}): expected {len(self.order) - 1} numbers, one "
                              f"for each of {len(self.order)} groups but the last; got {len(self.epochs)}.")
        model.freeze(*itertools.chain(*self.order))
        model.unfreeze(*self.order[0])
        self.begun = [0]

    def restored(self, trainer: Trainer) -> None:
        steps, self.begun = self.begun, [0]
        for since in steps[1:]:
            self._begin(trainer, since)

    def on_train_begin(self, trainer: Trainer) -> None:
        self._catch_up(trainer)

    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None:
        if trainer.loop.epoch < trainer.loop.epochs:  # else nobody would train what begins now
            self._catch_up(trainer)

    def state(self) -> dict[str, Any]:
        return {"begun": self.begun}

    def load_state(self, state: dict[str, Any]) -> None:
        self.begun = list(state["begun"])

    def _catch_up(self, trainer: Trainer) -> None:
        """What is due by this epoch begins."""
        while len(self.begun) < len(self.order) and trainer.loop.epoch >= self._due(len(self.begun)):
            self._begin(trainer, trainer.optimizer.t)

    def _due(self, k: int) -> int:
        """The epochs that are over when group k begins."""
        return sum(self.epochs[:k]) if isinstance(self.epochs, list) else k * self.epochs

    def _begin(self, trainer: Trainer, since: int) -> None:
        model: Any = trainer.model
        model.unfreeze(*self.order[len(self.begun)])
        extend(trainer, since)
        self.begun.append(since)


def _checked(groups: object) -> list[Names]:
    given = list(groups) if isinstance(groups, (list, tuple)) else []
    found = [(g,) if isinstance(g, str) else tuple(g) if isinstance(g, (list, tuple)) else () for g in given]
    if not found or any(not names or not all(isinstance(n, str) for n in names) for names in found):
        raise ConfigError(f"GradualUnfreezing(groups={groups!r}): expected a list of names of layers, or of tuples of "
                          "them, the first to be trained first: ['layers.4', ('layers.2', 'layers.0')].")
    return found


def _groups(model: Any) -> list[Names]:
    """The layers with parameters from the last to the first, what has vectors alone with the layer before it."""
    names = {id(layer): name for name, layer in model.children().items()}
    found: list[Names] = []
    for layer in {id(layer): layer for _, layer, _ in model.lines()}.values():
        shapes = [v.shape for v in layer.variables().values() if isinstance(v, Parameter)]
        if not shapes:
            continue
        if found and all(len(s) < 2 for s in shapes):
            found[-1] = (*found[-1], names[id(layer)])
        else:
            found.append((names[id(layer)],))
    if not found:
        raise ConfigError("GradualUnfreezing: expected a model with parameters; got none.")
    return found[::-1]
