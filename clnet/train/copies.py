"""Copies of a trainer, pickled or deep: what it is and what it has learnt, without what is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..optimizers.base import Optimizer
from .taken import attach

if TYPE_CHECKING:
    from .trainer import Trainer

KEPT = ("model", "loss", "metrics", "precision", "loss_scale", "preparation", "history")


def kept(trainer: Trainer) -> dict[str, Any]:
    """What a copy has: the model with its values, what trains it, where the optimizer is. The copy records its steps
    anew, on the device that is in use there, and goes on as this one would.
    """
    optimizer = trainer.optimizer
    parts = {name: getattr(optimizer, field) for name, field in optimizer._attributes.items()}
    return {**{name: getattr(trainer, name) for name in KEPT}, "optimizer": (type(optimizer), parts),
            "state": optimizer.state_dict() if optimizer.sections else None}


def restored(trainer: Trainer, found: dict[str, Any]) -> None:
    """The inverse of `kept`, on a trainer that has nothing yet."""
    found = dict(found)
    (kind, parts), state = found.pop("optimizer"), found.pop("state")
    made: Optimizer = kind(**parts)
    vars(trainer).update(found, optimizer=made)
    trainer.begin()
    if state is not None:
        attach(trainer)
        made.load_state_dict(state)
