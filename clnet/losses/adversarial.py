"""What keeps a Wasserstein critic Lipschitz: a penalty on its slope, or a bound on its weights.
The loss itself is WassersteinLoss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops as F
from ..core.autodiff import gradients
from ..core.state import Generator, Variable
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError, ShapeError
from ..layers.base import Layer, no_tape
from .base import rest


def gradient_penalty(critic: Callable[[Any], Any], real: TensorLike, fake: TensorLike, lam: float = 10.0,
                     random: Generator | None = None) -> Tensor:
    """λ · mean (‖∂critic(x)/∂x‖ − 1)², x = u real + (1 − u) fake, u ~ U[0, 1) per sample;
    differentiable by the critic's parameters

    real and fake (N, ...) of one shape; the norm runs over all axes but the first.
    `random` is the generator of u (that of the critic if it is a layer): pass it where the critic is a plain function.
    Paper: Gulrajani et al. 2017, arXiv:1704.00028.
    """
    real, fake = as_tensor(real), as_tensor(fake)
    if real.shape != fake.shape or real.ndim < 2:
        raise ShapeError(
            f"gradient_penalty: expected real and fake (N, ...) of one shape; got {real.shape} and {fake.shape}.")
    random = random or getattr(critic, "random", None)
    if random is None:
        raise ConfigError(
            "gradient_penalty: expected a layer as critic, or random=Generator(seed); got a function alone.")
    u = F.random.uniform((real.shape[0], *(1,) * (real.ndim - 1)), random.key, random.advance(), dtype=real.dtype)
    x = F.detach(u * real + (1.0 - u) * fake)
    with no_tape():
        (slope,) = gradients(F.sum(critic(x)), [x])
    length = F.sqrt(F.sum(F.square(slope), rest(slope)))
    return lam * F.mean(F.square(length - 1.0))


def clip_weights(critic: Layer, c: float = 0.01) -> None:
    """w ← min(max(w, −c), c) for every parameter of the critic; recorded, and part of a recorded step.

    Paper: Arjovsky, Chintala, Bottou 2017, arXiv:1701.07875.
    """
    if not c > 0:
        raise ConfigError(f"clip_weights(c={c!r}): expected a bound above 0.")
    params = critic.parameters()
    mine = {id(p) for p in params}
    targets: dict[int, Variable] = {}
    for p in params:
        # Parameters that an optimizer holds are slices of one vector: all of it in one launch.
        if p.arena is not None and not all(id(q) in mine for q in p.arena.params):
            raise ConfigError(
                "clip_weights: expected a critic with an optimizer of its own; got one that shares it with other "
                "parameters.")
        held: Variable = p if p.arena is None else p.arena.flat
        targets[id(held)] = held
    for variable in targets.values():
        variable.assign(F.clip(variable.tensor, -c, c))
