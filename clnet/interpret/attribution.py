"""Which inputs an output depends on: gradients, paths of gradients, and maps of convolutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import ops as F
from ..core.autodiff import gradients
from ..core.recording import eager
from ..core.state import capture
from ..core.tensor import Tensor, as_tensor, realize, tensor
from ..errors import ConfigError, DataError
from ..layers.base import Layer, no_tape
from ..names import ending
from ..train.step import mode
from ..train.trainer import Trainer
from .inside import outputs_of

Array = np.ndarray[Any, Any]
Target = int | Array | list[int] | Callable[[Tensor], Tensor] | None
BATCH = 64  # samples whose gradients are computed together


def saliency(model: Layer | Trainer, x: object, target: Target = None, absolute: bool = False) -> Array:
    """∂ output[n, target[n]] / ∂ x[n], of each sample n: of the shape of x; with absolute=True |∂|

    x        samples (N, …) of numbers
    target   a class for all, one each (N,), or a function output -> scalar tensor; None: the largest output of each.
             A model of one output needs none
    Paper: Simonyan et al. 2013, arXiv:1312.6034. Raises DataError for samples of integers, ConfigError for a class that
    there is not.
    """
    samples, network = _samples("saliency", x), _model(model)
    chosen = _classes("saliency", network, samples, target)
    found = _gradient(network, samples, chosen)
    return np.abs(found) if absolute else found


def integrated_gradients(model: Layer | Trainer, x: object, target: Target = None, baseline: object = 0.0,
                         steps: int = 32) -> Array:
    """(x − b) ⊙ ∫₀¹ ∂ output(b + α (x − b)) / ∂ x dα: contributions that add up to output(x) − output(b), but for the
    error of the integral (Gauss–Legendre, `steps` points)

    baseline   b: a number, a sample, or one each
    target     see saliency; the class that x has holds along the whole path
    Paper: Sundararajan et al. 2017, arXiv:1703.01365. Raises DataError, ConfigError.
    """
    if not isinstance(steps, int) or steps < 1:
        raise ConfigError(f"integrated_gradients(steps={steps!r}): expected a whole number of at least 1.")
    samples, network = _samples("integrated_gradients", x), _model(model)
    chosen = _classes("integrated_gradients", network, samples, target)
    try:
        start = np.broadcast_to(np.asarray(baseline, np.float32), samples.shape)
    except ValueError:
        raise DataError(f"integrated_gradients: expected a baseline that fits samples {samples.shape[1:]}; "
                        f"got {np.asarray(baseline).shape}.") from None
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total = np.zeros(samples.shape)
    for a, w in zip((nodes + 1) / 2, weights / 2, strict=True):
        total += w * _gradient(network, (start + a * (samples - start)).astype(np.float32), chosen)
    return np.asarray((samples - start) * total, np.float32)


def smooth_grad(model: Layer | Trainer, x: object, target: Target = None, noise: float = 0.15, samples: int = 25,
                seed: int = 0) -> Array:
    """mean over `samples` draws of the saliency of x + σ ε, ε ~ N(0, 1), σ = noise · (max − min) of each sample

    target   see saliency; the class that x has
    Paper: Smilkov et al. 2017, arXiv:1706.03825. Raises DataError, ConfigError.
    """
    if not noise >= 0 or not isinstance(samples, int) or samples < 1:
        raise ConfigError(f"smooth_grad(noise={noise!r}, samples={samples!r}): expected at least 0 and at least 1.")
    values, network = _samples("smooth_grad", x), _model(model)
    chosen = _classes("smooth_grad", network, values, target)
    axes = tuple(range(1, values.ndim))
    sigma = noise * (values.max(axes, keepdims=True) - values.min(axes, keepdims=True))
    draws = np.random.Generator(np.random.PCG64(seed))
    total = np.zeros(values.shape)
    for _ in range(samples):
        shaken = values + sigma * draws.standard_normal(values.shape, np.float32)
        total += _gradient(network, shaken.astype(np.float32), chosen)
    return np.asarray(total / samples, np.float32)


def grad_cam(model: Layer | Trainer, x: object, layer: str | None = None, target: Target = None) -> Array:
    """relu(Σ_c α_c A_c), α_c = mean over places of ∂ output[target] / ∂ A_c, of the maps A of a layer, enlarged to the
    images: (N, H, W)

    layer    its path, as "layers.3"; None: the last whose output has maps (N, C, h, w)
    target   see saliency
    Paper: Selvaraju et al. 2016, arXiv:1610.02391. Raises ConfigError where there are no such maps.
    """
    samples, network = _samples("grad_cam", x), _model(model)
    chosen = _classes("grad_cam", network, samples, target)
    if samples.ndim != 4:
        raise DataError(f"grad_cam: expected images (N, C, H, W); got {samples.shape}.")
    pieces = []
    for part, classes in _parts(samples, chosen):
        with eager(False), capture(), mode(network, False):
            output, heard = outputs_of(network, tensor(part))
            maps = {n: a for n, a in heard.items() if n and a.ndim == 4}
            if not maps or (layer is not None and layer not in maps):
                known = f"one of {', '.join(maps)}{ending(layer or '', maps)}" if maps else "a model with convolutions."
                raise ConfigError(f"grad_cam(layer={layer!r}): expected a layer with an output (N, C, H, W), {known}")
            a = maps[layer or list(maps)[-1]]
            (g,) = gradients(_score(output, classes), [a])
            cam = F.relu(F.sum(F.mean(g, (2, 3), keepdims=True) * a, 1, keepdims=True))
            pieces.append(F.resize(cam, samples.shape[2:], mode="linear").numpy()[:, 0])
    return np.concatenate(pieces)


# --- common to all
def _model(model: Layer | Trainer) -> Layer:
    found = model.model if isinstance(model, Trainer) else model
    if not isinstance(found, Layer):
        raise ConfigError(f"interpret: expected a model or a Trainer; got {model!r}.")
    return found


def _samples(who: str, x: object) -> Array:
    a = np.asarray(x)
    if a.dtype.kind not in "fbu" or a.ndim < 2:
        raise DataError(f"{who}: expected samples (N, ...) of numbers that vary; got {a.dtype}{list(a.shape)}"
                        f"{'; one sample is x[None]' if a.ndim == 1 else '; turn whole numbers into floats first'}.")
    return np.ascontiguousarray(a, np.float32)


def _parts(samples: Array, classes: Any) -> Iterator[tuple[Array, Any]]:
    for k in range(0, len(samples), BATCH):
        part = slice(k, k + BATCH)
        yield samples[part], classes[part] if isinstance(classes, np.ndarray) else classes


def _output(model: Layer, samples: Array) -> Array:
    with no_tape(), capture(), mode(model, False):
        return np.concatenate([as_tensor(model(tensor(part))).numpy() for part, _ in _parts(samples, None)])


def _classes(who: str, model: Layer, samples: Array, target: Target) -> Any:
    """The class of each sample (N,), a function, or None where there is one output."""
    if callable(target):
        return target
    output = _output(model, samples)
    if output.ndim == 1 or (output.ndim == 2 and output.shape[1] == 1):
        return None
    if output.ndim != 2:
        raise ConfigError(f"{who}: expected a model of outputs (N, C); got {output.shape}; pass target=, a function "
                          "output -> scalar tensor.")
    chosen = output.argmax(1) if target is None else np.broadcast_to(np.asarray(target), (len(samples),))
    if chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= output.shape[1]:
        raise ConfigError(f"{who}(target={target!r}): expected classes from 0 to {output.shape[1] - 1}.")
    return chosen.astype(np.int32)


def _score(output: Tensor, classes: Any) -> Tensor:
    """Σ over the samples of what is asked for."""
    if callable(classes):
        return as_tensor(classes(output))
    if classes is None:
        return F.sum(output)
    mine = F.equal(F.arange(n=output.shape[1], dtype="int32"), tensor(classes).reshape(-1, 1))
    return F.sum(F.where(mine, output, 0.0))


def _gradient(model: Layer, samples: Array, classes: Any) -> Array:
    pieces = []
    for part, chosen in _parts(samples, classes):
        with eager(False), no_tape(), capture(), mode(model, False):
            leaf = tensor(part)
            (found,) = gradients(_score(as_tensor(model(leaf)), chosen), [leaf])
            realize(found)
            pieces.append(found.numpy())
    return np.concatenate(pieces)
