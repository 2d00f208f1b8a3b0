"""Copies of a trainer, pickled or deep: what it is and what it has learnt, without what is compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .taken import attach

if TYPE_CHECKING:
    from .trainer import Trainer

KEPT = ("model", "loss", "optimizer", "metrics", "precision", "loss_scale", "preparation", "history")


def kept(trainer: Trainer) -> dict[str, Any]:
    """What a copy has: the model with its values, what trains it, where the optimizer is. The copy records its steps
    anew, on the device that is in use there, and goes on as this one would.
    """
    optimizer = trainer.optimizer
    return {**{name: getattr(trainer, name) for name in KEPT},
            "state": optimizer.state_dict() if optimizer.sections else None}


def restored(trainer: Trainer, found: dict[str, Any]) -> None:
    """The inverse of `kept`, on a trainer that has nothing yet."""
    vars(trainer).update({name: found[name] for name in KEPT})
    trainer.begin()
    if found["state"] is not None:
        attach(trainer)
        trainer.optimizer.load_state_dict(found["state"])
