"""Which parameters the optimizer has: those that the model trains, also where these become more within a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.state import Parameter
from ..errors import ConfigError
from .step import Steps

if TYPE_CHECKING:
    from .trainer import Trainer


def attach(trainer: Trainer) -> None:
    """Gives the parameters to the optimizer, unless it has just these already: a second fit goes on where the first
    ended.
    """
    optimizer, wanted = trainer.optimizer, _trained(trainer)
    if not wanted and not any(layer.own_rule for layer in trainer.model.descend()):
        raise ConfigError(
            "Trainer: expected a model with parameters that are trained; got none in this "
            f"{type(trainer.model).__name__}; make the layers of a layer in its setup, not in forward, and "
            "unfreeze(...) what is frozen.")
    mine = {id(a) for a in optimizer.arenas}
    known = {id(p) for p in (*optimizer.parameters, *optimizer.frozen)} == {id(p) for p in wanted.values()}
    if not known or any(id(p.arena) not in mine for p in optimizer.parameters):
        optimizer.attach(wanted)
        trainer.steps = _anew(trainer)


def extend(trainer: Trainer, since: int | None = None) -> None:
    """Within a run, between two epochs: gives the optimizer what the model trains by now, besides what it has, and has
    the step recorded anew. `since`: see Optimizer.extend.
    """
    trainer.optimizer.extend(_trained(trainer), since)
    trainer.steps = _anew(trainer)
    trainer.loop.renew(trainer.steps)


def _trained(trainer: Trainer) -> dict[str, Parameter]:
    wanted = {n: v for n, v in trainer.model.variables().items() if isinstance(v, Parameter) and v.trainable}
    return wanted | {f"loss.{n}": v for n, v in getattr(trainer.loss, "variables", dict)().items()}


def _anew(trainer: Trainer) -> Steps:
    steps = trainer.steps
    return Steps(trainer.model, trainer.loss, steps.metrics, trainer.optimizer, trainer.precision, trainer.loss_scale,
                 steps.ignore, steps.room, trainer.learning)
