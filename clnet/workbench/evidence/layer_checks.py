"""Checks of layers, losses and optimizers;
each is a function of tensors (registry.layer_example), which `checks` treat like an op.

    layer_parity     the device against the float64 reference
    layer_gradient   the reference against differences, and the device against the reference
    learns           one update moves every parameter as w − lr · gradient says
    loss_parity      value and slope
    trajectory       where an optimizer's steps lead
    round_trip       config → JSON → object: the same configuration, the same repr
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...config.fields import Configured, parse_json
from ...core.spec import is_float
from ...core.state import Parameter
from ...core.tensor import tensor
from ...layers.base import Layer
from ...losses.base import Loss
from ...optimizers.base import Optimizer
from . import checks
from .registry import draw, layer_example, loss_example, make_layer, make_loss
from .results import Array, Result

if TYPE_CHECKING:
    from ...engine.protocol import Engine


# --- layers
def layer_parity(cls: type[Layer], k: int = 0, engine: Engine | None = None, train: bool = True) -> Result:
    """Does the device compute what the reference computes, for the k-th example?"""
    layer, inputs = make_layer(cls, k)
    example = layer_example(layer.train(train), inputs)
    return checks.compare(example.function, example.inputs, engine, normwise=True)


def layer_gradient(cls: type[Layer], k: int = 0, engine: Engine | None = None, train: bool = True) -> Result:
    """Gradients of all float inputs and parameters: the reference against differences, unless a surrogate takes the
    derivative's place, the device against the reference.
    """
    layer, inputs = make_layer(cls, k)
    example = layer_example(layer.train(train), inputs)
    if not any(is_float(a.dtype.name) for a in example.inputs):
        return Result("gradient", True, note="nothing to differentiate")
    rng = np.random.default_rng(0)
    formula = [] if layer.surrogate_gradient else [checks.directional(example.function, example.inputs, rng)]
    pulled = checks.derivative(example.function, example.inputs, rng)
    return checks.worst("gradient",
                        [*formula, checks.compare(pulled, example.inputs, engine, check="gradient", normwise=True)])


def learns(cls: type[Layer], k: int = 0) -> Result:
    """forward, backward, update on the current engine: every parameter becomes w − lr · gradient, and another value."""
    layer, inputs = make_layer(cls, k)
    params = {name: p for name, p in layer.variables().items() if isinstance(p, Parameter)}
    before = {name: p.numpy() for name, p in params.items()}
    y = layer(*inputs)
    layer.backward(tensor(draw([y.shape], "cotangent")[0], y.dtype))
    grads = {name: p.grad.numpy() for name, p in params.items()}
    layer.update(0.5)
    results = []
    for name, old in before.items():
        new, g = params[name].numpy(), grads[name]
        error = float(np.abs(new - (old - 0.5 * g)).max(initial=0.0))
        # A key's bias shifts all scores of a row alike: its gradient is rounding, and it need not move.
        moved = bool((new != old).any()) or float(np.abs(g).max(initial=0.0)) < 1e-5
        results.append(Result("update", moved and error < 1e-5, error, 0.0, 1e-5,
                              "" if moved else f"{name} did not change"))
    return checks.worst("update", results)


# --- losses
def loss_parity(cls: type[Loss], k: int = 0, engine: Engine | None = None) -> Result:
    """Value and slope of the k-th example: the device against the reference, the slope against differences."""
    example = loss_example(*make_loss(cls, k))
    results = [checks.compare(example.function, example.inputs, engine),
               checks.check_gradient(example.function, example.inputs, engine, order=1)]
    return checks.worst("parity", results)


def slope(loss: Loss, *inputs: Any, engine: Engine | None = None, **named: Any) -> tuple[Array, ...]:
    """(value, d value / d input for each input that the loss is differentiated by),
    the values summed where they are not reduced.
    """
    value, found = loss.value_and_grad(*inputs, **named)
    return tuple((engine or checks.oracle()).values([value, *(found if isinstance(found, tuple) else (found,))]))


# --- optimizers
def trajectory(optimizer: Optimizer, starts: Sequence[Array], grads: Callable[[list[Any], int], list[Array]],
               steps: int) -> list[list[Array]]:
    """The parameters after every step t = 1 … steps, each by the gradients that grads(parameters, t) gives."""
    params = [Parameter(a, f"p{k}", role="bias" if a.ndim == 1 else "weight", dtype=a.dtype.name)
              for k, a in enumerate(starts)]
    path = []
    for t in range(1, steps + 1):
        for p, g in zip(params, grads([p.numpy() for p in params], t), strict=True):
            p.grad = tensor(np.asarray(g), p.dtype)
        optimizer.update(params)
        path.append([p.numpy() for p in params])
    return path


# --- configuration
def round_trip(thing: Configured) -> Result:
    """config() → JSON text → from_config gives the same configuration and the same repr."""
    config = thing.config()
    again = Configured.from_config(parse_json(json.dumps(config)))
    same = again.config() == config and repr(again) == repr(thing) and type(again) is type(thing)
    return Result("config", same, note="" if same else f"{config} became {again.config()}; {thing!r} became {again!r}")
